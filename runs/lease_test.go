package runs_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// TestQueueWaitsUnlocked: while the bucket of a leader in mode sync is away, and its lease has ended, calls that answer with what is stored
// wait for the lease, and nobody waits for them: they do not have the queue's lock. A sweep does not ask for the lease.
func TestQueueWaitsUnlocked(t *testing.T) {
	began, sim := time.Now(), buckettest.NewSim(nil)
	var ahead atomic.Int64
	d := must(disk.Open(filepath.Join(t.TempDir(), "s"), disk.Options{Replica: disk.Replica{Bucket: sim.Client("m"), Mode: replica.Sync, TTL: time.Hour, Deadline: time.Hour,
		Clock: func() time.Duration { return time.Since(began) + time.Duration(ahead.Load()) }}}))
	items := must(store.On(d, store.Options{}))
	q := must(runs.NewLocal(t.Context(), items, runs.LocalOptions{}))
	for !d.Health().Replica.Seeded {
		time.Sleep(time.Millisecond)
	}
	request := func(thread, key string) runs.Request {
		return runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "g"}, Key: key}
	}
	must(q.Submit(t.Context(), request("parent", "")))
	parent, _, err := q.Claim(t.Context(), "w", []string{"g"})
	if err != nil || parent == nil {
		t.Fatal(err)
	}
	asked := request("t", "key")
	asked.Parent = parent
	ended := must(q.Submit(t.Context(), asked))
	must(q.Cancel(t.Context(), ended.ID, runs.Interrupt))
	lost := "00000000-0000-4000-8000-000000000001"
	if _, err := items.Batch(t.Context(), store.PutOp{Namespace: store.Namespace{"stele.runs", "runs"}, Key: lost, Value: map[string]any{"json": "{"}}); err != nil {
		t.Fatal(err)
	}
	if r, err := q.Get(t.Context(), ended.ID); err != nil || r.Status != runs.Interrupted {
		t.Fatalf("%+v, %v", r, err)
	}
	sim.Disconnect("m")
	ahead.Add(int64(time.Hour))
	for name, call := range map[string]func(context.Context) error{
		"get":                               func(ctx context.Context) error { _, err := q.Get(ctx, ended.ID); return err },
		"retry":                             func(ctx context.Context) error { _, err := q.Retry(ctx, ended.ID); return err },
		"delete":                            func(ctx context.Context) error { return q.Delete(ctx, ended.ID) },
		"delete one that cannot be decoded": func(ctx context.Context) error { return q.Delete(ctx, lost) },
		"the end of a child":                func(ctx context.Context) error { _, _, err := q.ChildEnd(ctx, "t"); return err },
		"submit again":                      func(ctx context.Context) error { _, err := q.Submit(ctx, asked); return err },
	} {
		ctx, leave := context.WithCancel(t.Context())
		limit := time.After(20 * time.Second)
		before, done := len(sim.History()), make(chan error, 1)
		go func() { done <- call(ctx) }()
		for len(sim.History()) == before { // until it asks for the lease
			select {
			case err := <-done:
				t.Fatalf("%s: it does not wait: %v", name, err)
			case <-limit:
				t.Fatalf("%s: it waits for something else", name)
			case <-time.After(time.Millisecond):
			}
		}
		if runs.IsLocked(q) {
			t.Fatalf("%s: it waits with the queue's lock", name)
		}
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // it waits for nobody
	defer cancel()
	if _, err := q.Sweep(ctx, time.Now().Add(time.Hour)); !errors.Is(err, runs.ErrUnreadable) { // the parent may ask for the child
		t.Errorf("sweep: %v", err)
	}
	sim.Connect("m")
	if err := errors.Join(items.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}
