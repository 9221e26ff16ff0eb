package wal

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// onCaller reports whether the log prepares a record on the goroutine that commits it.
func onCaller(t *testing.T, l *Log, ctx context.Context) bool {
	t.Helper()
	own := false
	r := record(payload(1, 10))
	inner := r.Prepare
	r.Prepare = func(lsn base.LSN) ([][]byte, error) {
		own = bytes.Contains(debug.Stack(), []byte("wal.onCaller("))
		return inner(lsn)
	}
	if err := l.Commit(ctx, r); err != nil {
		t.Fatal(err)
	}
	return own
}

// A caller commits for himself where nothing else is under way and he cannot be
// cancelled, in every mode.
func TestCallerLeads(t *testing.T) {
	for _, mode := range []Mode{SyncAlways, SyncInterval, SyncNever} {
		synctest.Test(t, func(t *testing.T) {
			l := newWorld(vfs.NewMem(vfs.MemOptions{})).open(t, func(o *Options) { o.Mode, o.Inline, o.IdleMark = mode, false, time.Second })
			for range 5 {
				synctest.Wait() // for the committer to rest
				if !onCaller(t, l, context.Background()) {
					t.Error("another goroutine committed")
				}
				synctest.Wait()
				if onCaller(t, l, t.Context()) {
					t.Error("a caller who may be cancelled was made to wait for the device")
				}
			}
			mustClose(t, l)
			if err := commit(l, payload(1, 10)); !errors.Is(err, fault.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// After a batch of many nobody leads, until one of one.
func TestManyCallersDoNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := inTheAir(t)
		a.h.set(nil)
		a.gate <- nil
		for range 2 {
			if err := <-a.answers[0]; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if onCaller(t, a.l, context.Background()) {
			t.Error("one of many callers led")
		}
		synctest.Wait()
		if !onCaller(t, a.l, context.Background()) {
			t.Error("another goroutine committed for the only caller")
		}
		mustClose(t, a.l)
	})
}

// What is queued while a caller leads waits for him, can be withdrawn, and is
// committed behind his record as one batch; Close waits too.
func TestQueuedBehindACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := hooked(t)
		l := w.open(t, func(o *Options) { o.Inline = false })
		mustCommit(t, l, 0, 10)
		synctest.Wait()
		gate := make(chan error)
		h.set(func(op fsOp) error {
			if op.kind == "syncdata" {
				return <-gate
			}
			return nil
		})
		answers := make(chan error, 4)
		go func() { answers <- l.Commit(context.Background(), record(payload(1, 10))) }()
		synctest.Wait()
		if free, leads := l.q.state(); free || !leads {
			t.Fatal("nobody leads")
		}
		cancelled, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- l.Commit(cancelled, record(payload(9, 10))) }()
		synctest.Wait()
		for i := range 3 {
			go func() { answers <- commit(l, payload(2+i, 10)) }()
			synctest.Wait()
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrOutcomeUnknown) {
			t.Errorf("withdrawn: %v", err)
		}
		closed := make(chan error, 1)
		go func() { closed <- l.Close() }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(h.kinds()); n != 2 || len(answers)+len(closed) > 0 {
			t.Fatalf("%d operations and %d answers while the caller waits for his sync", n, len(answers)+len(closed))
		}
		close(gate)
		for range 4 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if want := []base.LSN{1, 2, 3, 4, 5}; !slices.Equal(w.applied, want) || l.Metrics().Batches != 3 {
			t.Errorf("applied %v in %d batches", w.applied, l.Metrics().Batches)
		}
		got, _, err := readLog(w.recoverOptions())
		if err != nil || len(got) != 5 {
			t.Errorf("%d records, %v", len(got), err)
		}
	})
}

// A log that fell idle while a caller was refused still repeats its promise.
func TestIdleWhileACallerLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newWorld(vfs.NewMem(vfs.MemOptions{})).open(t, func(o *Options) { o.Inline, o.IdleMark = false, time.Second })
		mustCommit(t, l, 0, 10)
		synctest.Wait()
		refused := errors.New("no")
		err := l.Commit(context.Background(), &Record{Prepare: func(base.LSN) ([][]byte, error) {
			time.Sleep(time.Minute)
			return nil, refused
		}})
		if !errors.Is(err, refused) {
			t.Error(err)
		}
		if n := l.Metrics().Marks; n != 0 {
			t.Errorf("%d marks beside a caller", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := l.Metrics().Marks; n != 1 {
			t.Errorf("%d marks", n)
		}
		mustClose(t, l)
	})
}

// A callback that panics on a caller who goes on leaves a log that refuses, and what
// was durable before.
func TestCallbackPanics(t *testing.T) {
	for _, where := range []string{"prepare", "apply"} {
		w := newWorld(vfs.NewMem(vfs.MemOptions{}))
		armed := false
		l := w.open(t, func(o *Options) {
			o.Inline = false
			apply := o.Apply
			o.Apply = func(b []*Record) {
				if armed && where == "apply" {
					panic(where)
				}
				apply(b)
			}
		})
		mustCommit(t, l, 1, 10)
		for free := false; !free; free, _ = l.q.state() {
			time.Sleep(time.Millisecond)
		}
		armed = true
		func() {
			defer func() {
				if p := recover(); p != where {
					t.Errorf("panicked with %v", p)
				}
			}()
			_ = l.Commit(context.Background(), &Record{Prepare: func(base.LSN) ([][]byte, error) {
				if where == "prepare" {
					panic(where)
				}
				return [][]byte{payload(2, 10)}, nil
			}})
		}()
		if err := l.Commit(t.Context(), record(payload(3, 10))); !errors.Is(err, fault.ErrPoisoned) {
			t.Errorf("%s: the next commit: %v", where, err)
		}
		if err := l.Close(); !errors.Is(err, fault.ErrPoisoned) {
			t.Errorf("%s: close: %v", where, err)
		}
		got, _, err := readLog(w.recoverOptions())
		if err != nil || len(got) < 1 || len(got) > 2 {
			t.Errorf("%s: %d records, %v", where, len(got), err)
		}
		checkPayloads(t, got, len(got), 10)
	}
}

// Callers who lead and callers who queue, beside syncs and rotations: all is
// committed once, and each caller's records in his order.
func TestLeadersAndQueue(t *testing.T) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t, func(o *Options) { o.Inline, o.IdleMark = false, time.Microsecond })
	const callers, each = 6, 150
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			ctx := context.Background()
			if c%2 == 1 {
				ctx = t.Context()
			}
			for i := range each {
				var err error
				switch b := []byte{byte(c), byte(i)}; {
				case c == 0 && i%10 == 9:
					err = errors.Join(l.Rotate(ctx), l.Commit(ctx, record(b)))
				case c == 1 && i%10 == 9:
					err = errors.Join(l.Sync(ctx), l.Commit(ctx, record(b)))
				default:
					err = l.Commit(ctx, record(b))
				}
				if err != nil {
					t.Error(err)
				}
				if i%16 == c {
					time.Sleep(50 * time.Microsecond) // the log is free now and then
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, l)
	got, _, err := readLog(w.recoverOptions())
	if err != nil || len(got) != callers*each || len(w.applied) != len(got) {
		t.Fatalf("%d records, %d applied, %v", len(got), len(w.applied), err)
	}
	var next [callers]byte
	for _, b := range got {
		if b[1] != next[b[0]] {
			t.Fatalf("record %d of caller %d stands where %d is due", b[1], b[0], next[b[0]])
		}
		next[b[0]]++
	}
}

func (q *queue) state() (offered, taken bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.loan == loanOffered, q.mu.loan == loanTaken
}
