package wal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stele-go/stele/base/fault"
)

// A call that gave up while the committer had its record is settled when Sync has
// returned, although nobody waits for that record any more.
func TestSyncSettlesCallsThatGaveUp(t *testing.T) {
	for _, mode := range []Mode{SyncAlways, SyncInterval, SyncNever} {
		for _, inline := range []bool{false, true} {
			for _, deferred := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, inline %t, deferred %t", mode, inline, deferred), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { syncSettles(t, mode, inline, deferred) })
				})
			}
		}
	}
}

func syncSettles(t *testing.T, mode Mode, inline, deferred bool) {
	w, h := hooked(t)
	release := make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	var held atomic.Bool // the record is being written
	guard := func() error {
		if held.Load() { // and a Sync that has nothing to wait for would wait for the file
			t.Error("Sync did not wait for a call that gave up")
			free()
		}
		return nil
	}
	l := w.open(t, func(o *Options) { o.Mode, o.Inline, o.Guard = mode, inline, guard })
	mustCommit(t, l, 1, 10)
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.set(func(op fsOp) error {
		if op.kind == "write" { // the first is that of the record
			held.Store(true)
			<-release
			held.Store(false)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		r := record(payload(2, 10))
		r.Deferred = deferred
		given <- l.Commit(ctx, r)
	}()
	synctest.Wait() // the committer has it
	cancel()
	if err := <-given; !errors.Is(err, fault.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Fatalf("a call that gave up: %v", err)
	}
	synced := make(chan error, 2)
	for range cap(synced) { // neither lets the other pass too early
		go func() { synced <- l.Sync(t.Context()) }()
	}
	synctest.Wait()
	if len(synced) > 0 {
		t.Error("Sync did not wait for a call that gave up")
	}
	free()
	for range cap(synced) {
		if err := <-synced; err != nil {
			t.Error(err)
		}
		if n := l.DurableLSN(); n != 2 {
			t.Errorf("record %d is durable after Sync", n)
		}
		if n := l.Position().NextLSN; n != 3 {
			t.Errorf("record %d comes next after Sync", n)
		}
	}
	// What is settled costs the next Sync nothing.
	syncs := l.Metrics().Syncs
	if err := l.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	if n := l.Metrics().Syncs; n != syncs {
		t.Errorf("a Sync with nothing to settle synced %d times", n-syncs)
	}
	h.set(nil)
	mustClose(t, l)
}

// A Sync that gave up, or failed, has settled nothing for the next one.
func TestSyncThatGaveUpSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := hooked(t)
		l := w.open(t, func(o *Options) { o.Inline = false })
		mustCommit(t, l, 1, 10)
		release := make(chan struct{})
		h.set(func(op fsOp) error {
			if op.kind == "syncdata" {
				<-release
				return errors.New("the device is gone")
			}
			return nil
		})
		given := make(chan error, 1)
		giveUp := func(call func(context.Context) error) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { given <- call(ctx) }()
			synctest.Wait()
			cancel()
			if err := <-given; !errors.Is(err, context.Canceled) {
				t.Fatalf("a call that gave up: %v", err)
			}
		}
		giveUp(func(ctx context.Context) error { return l.Commit(ctx, record(payload(2, 10))) })
		giveUp(l.Sync)
		go func() { given <- l.Sync(t.Context()) }()
		synctest.Wait()
		close(release)
		for range 2 { // the second asks a log that is idle
			if err := <-given; !errors.Is(err, fault.ErrPoisoned) {
				t.Errorf("Sync after the device was gone: %v", err)
			}
			go func() { given <- l.Sync(t.Context()) }()
		}
		<-given
		h.set(nil)
		_ = l.Close()
	})
}
