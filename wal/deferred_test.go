package wal

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/base/vfs"
)

// deferredScenario is a log whose records mostly leave their sync to a later
// one: of a record, of a barrier, of an idle log, of a rotation.
func deferredScenario(v *life) error {
	for round := range 6 {
		for range 3 {
			if err := v.commitAs(1+round%2, true); err != nil {
				return err
			}
		}
		switch round % 3 {
		case 0:
			if err := v.commit(1); err != nil {
				return err
			}
		case 1:
			if err := v.l.Sync(context.Background()); err != nil {
				return err
			}
			v.ack()
		case 2:
			v.mark()
			v.ack()
		}
	}
	if err := v.commitAs(2, true); err != nil {
		return err
	}
	return v.l.Rotate(context.Background())
}

func commitDeferred(t *testing.T, l *Log, i int) {
	t.Helper()
	r := record(payload(i, 10))
	r.Deferred = true
	if err := l.Commit(context.Background(), r); err != nil {
		t.Fatal(err)
	}
}

// Deferred records cost no sync of their own, and no commit or barrier returns
// before those in front of it are durable.
func TestDeferredSharesTheNextSync(t *testing.T) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t)
	mustCommit(t, l, 1, 10)
	before := l.Metrics().Syncs
	for i := 2; i <= 5; i++ {
		commitDeferred(t, l, i)
	}
	if n := l.Metrics().Syncs - before; n != 0 || l.DurableLSN() != 1 || l.LastLSN() != 5 {
		t.Fatalf("%d syncs, %d of %d records durable", n, l.DurableLSN(), l.LastLSN())
	}
	mustCommit(t, l, 6, 10)
	if n := l.Metrics().Syncs - before; n != 1 || l.DurableLSN() != 6 {
		t.Fatalf("%d syncs, durable up to %d", n, l.DurableLSN())
	}
	commitDeferred(t, l, 7)
	for range 2 { // the second has nothing to do
		if err := l.Sync(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.Metrics().Syncs - before; n != 2 || l.DurableLSN() != 7 {
		t.Fatalf("%d syncs, durable up to %d", n, l.DurableLSN())
	}
	w.closesWith(t, l, 7, 10)
}

// An idle log makes deferred records durable by itself, once.
func TestDeferredOnAnIdleLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := hooked(t)
		l := w.open(t, func(o *Options) { o.Inline, o.IdleMark = false, 0 })
		mustCommit(t, l, 1, 10)
		commitDeferred(t, l, 2)
		before := l.Metrics()
		time.Sleep(time.Hour)
		synctest.Wait()
		after := l.Metrics()
		if l.DurableLSN() != 2 || after.Syncs-before.Syncs != 1 || after.Marks-before.Marks != 1 {
			t.Fatalf("durable up to %d after %d syncs and %d marks in an idle hour", l.DurableLSN(), after.Syncs-before.Syncs, after.Marks-before.Marks)
		}
		mustClose(t, l)
	})
}

// Deferred records that come without a pause do not wait for one.
func TestDeferredWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := hooked(t)
		l := w.open(t, func(o *Options) { o.Inline, o.IdleMark = false, 0 })
		mustCommit(t, l, 1, 10)
		before := l.Metrics().Syncs
		for n := range 100 {
			commitDeferred(t, l, n+2)
			synctest.Wait()
			if late := l.LastLSN() - l.DurableLSN(); late > 12 {
				t.Fatalf("after %d ms %d records are not durable", n, late)
			}
			time.Sleep(time.Millisecond)
		}
		if n := l.Metrics().Syncs - before; n < 5 || n > 10 {
			t.Fatalf("%d syncs in 100 ms", n)
		}
		mustClose(t, l)
	})
}

// A deferred record that comes late waits for no sync: the one before it was made durable by the
// idle log or by a barrier.
func TestDeferredSyncedAlready(t *testing.T) {
	for name, barrier := range map[string]bool{"idle": false, "barrier": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := hooked(t)
				l := w.open(t, func(o *Options) { o.Inline, o.IdleMark = false, 0 })
				mustCommit(t, l, 1, 10)
				for n := range 5 {
					time.Sleep(time.Second)
					synctest.Wait()
					before := l.Metrics().Syncs
					commitDeferred(t, l, n+2)
					if l.Metrics().Syncs != before {
						t.Errorf("record %d was synced within its commit", n+2)
					}
					if barrier {
						if err := l.Sync(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				mustClose(t, l)
			})
		})
	}
}
