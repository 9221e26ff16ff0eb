package wal

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// decide queues a record behind another, refuses it in Prepare, and stops the
// batch of both at its sync. It returns once everything waits.
func decide(t *testing.T, fail error) (answered func() bool, release func() error) {
	t.Helper()
	w, h := hooked(t)
	refusal := errors.New("refused for what the record before it did")
	prepared, gate := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	second := make(chan error, 1)
	l := w.open(t)
	mustCommit(t, l, 0, 10) // the file is there: the next sync is that of the batch
	h.set(func(op fsOp) error {
		if op.kind != "syncdata" {
			return nil
		}
		<-gate
		return fail
	})
	go func() {
		r := record(payload(1, 10))
		inner := r.Prepare
		r.Prepare = func(lsn base.LSN) ([][]byte, error) {
			<-prepared // until the second is queued, so that both are one batch
			return inner(lsn)
		}
		first <- l.Commit(t.Context(), r)
	}()
	synctest.Wait()
	go func() {
		second <- l.Commit(t.Context(), &Record{Prepare: func(base.LSN) ([][]byte, error) { return nil, refusal }})
	}()
	synctest.Wait()
	close(prepared)
	synctest.Wait()
	return func() bool { return len(second) > 0 }, func() error {
		close(gate)
		err := <-second
		<-first
		h.set(nil)
		if cerr := l.Close(); cerr != nil && fail == nil {
			t.Error(cerr)
		}
		if fail == nil && !errors.Is(err, refusal) {
			t.Errorf("the refusal became %v", err)
		}
		return err
	}
}

// What a Prepare refuses it may refuse for what an earlier record of the batch
// did, which nobody may know before it is durable.
func TestRefusalWaitsForItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered, release := decide(t, nil)
		if answered() {
			t.Error("a refusal was answered before the sync of what it was decided on")
		}
		_ = release() // checks the answer
	})
}

// If the batch fails, so does what was decided upon it.
func TestRefusalFailsWithItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, release := decide(t, syscall.EIO)
		if err := release(); !errors.Is(err, fault.ErrPoisoned) {
			t.Errorf("a refusal decided on a record that was lost was answered with %v", err)
		}
	})
}

// A place from which replay starts must not lie behind records that the index,
// which is told by Apply, does not have yet.
func TestPositionIsNeverAheadOfApply(t *testing.T) {
	w, _ := hooked(t)
	var l *Log
	var ahead []Position
	l = w.open(t, func(o *Options) {
		o.Apply = func(b []*Record) {
			if at := l.Position(); at.NextLSN > b[0].LSN {
				ahead = append(ahead, at)
			}
		}
	})
	for i := range 3 {
		mustCommit(t, l, i, 100)
	}
	if at := l.Position(); at.NextLSN != 4 {
		t.Errorf("Position is %+v after three records", at)
	}
	mustClose(t, l)
	if len(ahead) > 0 {
		t.Errorf("Position names records not applied yet: %+v", ahead)
	}
}
