package wal

import (
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// air is a log with a batch of two records whose sync waits, and records queued
// behind it.
type air struct {
	w        *world
	h        *hookFS
	l        *Log
	gate     chan error // the sync gets its result here
	prepared atomic.Int32
	answers  [2]chan error // of the batch, and of what is behind it
}

// inTheAir starts it, within a synctest bubble. Behind are the records queued while
// the sync waits.
func inTheAir(t *testing.T, behind ...*Record) *air {
	t.Helper()
	a := &air{gate: make(chan error)}
	a.w, a.h = hooked(t)
	a.l = a.w.open(t, func(o *Options) { o.Inline = false })
	for i := range a.answers {
		a.answers[i] = make(chan error, 2+len(behind))
	}
	mustCommit(t, a.l, 0, 10) // the file is there: the next sync is that of the batch
	synctest.Wait()
	a.h.set(func(op fsOp) error {
		if op.kind == "syncdata" {
			return <-a.gate
		}
		return nil
	})
	queued := make(chan struct{})
	for i := range 2 {
		r := record(payload(i, 10))
		inner := r.Prepare
		r.Prepare = func(lsn base.LSN) ([][]byte, error) {
			<-queued // until both are, so that they are one batch
			return inner(lsn)
		}
		go func() { a.answers[0] <- a.l.Commit(t.Context(), r) }()
		synctest.Wait()
	}
	close(queued)
	synctest.Wait()
	for _, r := range behind {
		inner := r.Prepare
		r.Prepare = func(lsn base.LSN) ([][]byte, error) {
			a.prepared.Add(1)
			return inner(lsn)
		}
		go func() { a.answers[1] <- a.l.Commit(t.Context(), r) }()
		synctest.Wait()
	}
	return a
}

// writes is how many writes there were since the last hook was set.
func (a *air) writes() int {
	n := 0
	for _, k := range a.h.kinds() {
		if k == "write" {
			n++
		}
	}
	return n
}

// What is queued while a batch is synced is prepared meanwhile, and written only
// when the sync has ended: its frames promise the batch.
func TestPreparedBesideASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := inTheAir(t, record(payload(2, 10)), record(payload(3, 10)))
		if n, w := a.prepared.Load(), a.writes(); n != 2 || w != 1 {
			t.Errorf("during the sync %d records were prepared, and %d batches written", n, w)
		}
		if len(a.answers[0]) > 0 {
			t.Error("a record was answered before its sync ended")
		}
		var promise int64
		end := a.l.mu.cur.end
		a.h.set(func(op fsOp) error {
			if op.kind == "write" && op.off == end {
				hdr, ok := decodeFrameHeader(op.data, a.l.mu.cur.salt, op.off)
				if ok {
					promise = hdr.syncedTo
				}
			}
			return nil
		})
		a.gate <- nil
		for range 2 {
			for _, c := range a.answers {
				if err := <-c; err != nil {
					t.Error(err)
				}
			}
		}
		if promise != end {
			t.Errorf("the batch behind promises %d, the one before it ends at %d", promise, end)
		}
		mustClose(t, a.l)
		if want := []base.LSN{1, 2, 3, 4, 5}; !slices.Equal(a.w.applied, want) {
			t.Errorf("applied %v", a.w.applied)
		}
	})
}

// A sync that fails takes along what was prepared upon its batch, and what was
// refused upon it.
func TestFailedSyncRefusesWhatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := inTheAir(t, &Record{Prepare: func(base.LSN) ([][]byte, error) { return nil, errors.New("refused") }}, record(payload(2, 10)))
		if len(a.answers[1]) > 0 {
			t.Error("a refusal was answered before the sync of what it was decided on")
		}
		a.gate <- syscall.EIO
		for range 2 {
			for _, c := range a.answers {
				if err := <-c; !errors.Is(err, fault.ErrPoisoned) {
					t.Errorf("the answer was %v", err)
				}
			}
		}
		if n := a.writes(); n != 1 {
			t.Errorf("%d batches were written", n)
		}
		if err := a.l.Close(); !errors.Is(err, fault.ErrPoisoned) {
			t.Error(err)
		}
		if len(a.w.applied) != 1 || a.w.aborted != 3 {
			t.Errorf("applied %v, aborted %d", a.w.applied, a.w.aborted)
		}
	})
}

// A batch that finds no space does not take along the one before it, which is
// durable, and it is refused only when that is published.
func TestNoSpaceBehindABatchInTheAir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := inTheAir(t, record(payload(2, 10)))
		full := true
		a.h.set(func(op fsOp) error {
			if op.kind == "write" && full && filepath.Base(op.name) != MarkName {
				full = false
				return syscall.ENOSPC
			}
			return nil
		})
		a.gate <- nil
		for range 2 {
			if err := <-a.answers[0]; err != nil {
				t.Error(err)
			}
		}
		if err := <-a.answers[1]; !errors.Is(err, fault.ErrDiskFull) {
			t.Errorf("the record behind was answered with %v", err)
		}
		mustCommit(t, a.l, 4, 10)
		mustClose(t, a.l)
		if want := []base.LSN{1, 2, 3, 4}; !slices.Equal(a.w.applied, want) || a.w.aborted != 1 {
			t.Errorf("applied %v, aborted %d", a.w.applied, a.w.aborted)
		}
	})
}

// A rotation that was asked for while a batch was being synced comes behind what was
// queued before it.
func TestRotationBehindABatchInTheAir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := inTheAir(t, record(payload(2, 10)))
		rotated := make(chan error, 1)
		go func() { rotated <- a.l.Rotate(t.Context()) }()
		synctest.Wait()
		if len(rotated) > 0 {
			t.Error("the file was sealed during a sync")
		}
		a.h.set(nil)
		a.gate <- nil
		for _, c := range []chan error{a.answers[0], a.answers[0], a.answers[1], rotated} {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
		if at := a.l.Position(); at.NextLSN != 5 || at.File != 1 {
			t.Errorf("sealed at %+v", at)
		}
		mustClose(t, a.l)
	})
}
