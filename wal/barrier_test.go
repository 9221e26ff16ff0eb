package wal

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The background work, in a bubble of fake time.
func TestIdleMark(t *testing.T) {
	for _, mode := range []Mode{SyncAlways, SyncInterval, SyncNever} {
		synctest.Test(t, func(t *testing.T) {
			w, h := hooked(t)
			l := w.open(t, func(o *Options) {
				o.Mode, o.Inline, o.IdleMark, o.Interval = mode, false, 0, 100*time.Millisecond
			})
			for i := 1; i <= 5; i++ {
				mustCommit(t, l, i, 10)
				time.Sleep(9 * time.Millisecond) // busy enough
			}
			synctest.Wait()
			if n := l.Metrics().Marks; n != 0 {
				t.Fatalf("%d marks while busy", n)
			}
			h.set(nil)
			time.Sleep(time.Hour)
			synctest.Wait()
			want := int64(1)
			if mode == SyncNever {
				want = 0
			}
			if n := l.Metrics().Marks; n != want {
				t.Fatalf("%s: %d marks in an idle hour", mode, n)
			}
			if ops := h.kinds(); mode == SyncAlways && !slices.Equal(ops, []string{"write"}) {
				t.Fatalf("the mark costs %v", ops)
			}
			place := l.Position()
			mustCommit(t, l, 6, 10)
			halfClose(l)
			o := w.recoverOptions()
			got, r, err := readLog(o)
			if err != nil {
				t.Fatal(err)
			}
			checkPayloads(t, got, 6, 10)
			if mode != SyncNever && r.Unpromised.Records != 1 {
				t.Fatalf("%s: %+v", mode, r)
			}
			// A place taken while the mark stood behind it is still a place.
			o.From = place
			if got, _, err = readLog(o); err != nil || len(got) != 1 {
				t.Fatalf("from a place before a mark: %d records, %v", len(got), err)
			}
		})
	}
}

func TestIntervalSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := hooked(t)
		l := w.open(t, func(o *Options) {
			o.Mode, o.Inline, o.Interval = SyncInterval, false, 100*time.Millisecond
		})
		for i := 1; i <= 30; i++ { // a writer that never pauses for the interval
			mustCommit(t, l, i, 10)
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if lag := l.LastLSN() - l.DurableLSN(); lag > 11 {
				t.Fatalf("%d records, all of the last 100 ms, are not durable", lag)
			}
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if l.DurableLSN() != 30 {
			t.Fatalf("DurableLSN %d an interval after the last write", l.DurableLSN())
		}
		if n := l.Metrics().Syncs; n > 6 {
			t.Fatalf("%d syncs in 400 ms", n)
		}
		mustClose(t, l)
	})
}

// A barrier that comes while a sync is under way is not answered by that sync:
// it may have begun before what the barrier waits for was written.
func TestBarrierDuringSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := hooked(t)
		l := w.open(t, func(o *Options) { o.Mode, o.Inline = SyncNever, false })
		mustCommit(t, l, 1, 100)
		release := make(chan struct{})
		h.set(func(op fsOp) error {
			if op.kind == "syncdata" {
				<-release
			}
			return nil
		})
		errs := make(chan error)
		go func() { errs <- l.Sync(t.Context()) }()
		synctest.Wait() // the first sync is under way
		mustCommit(t, l, 2, 100)
		go func() {
			err := l.Sync(t.Context())
			if l.DurableLSN() != 2 {
				t.Errorf("the barrier let pass with DurableLSN %d", l.DurableLSN())
			}
			errs <- err
		}()
		for range 2 {
			synctest.Wait()
			release <- struct{}{} // one sync
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		h.set(nil)
		mustClose(t, l)
	})
}
