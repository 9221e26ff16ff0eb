package disk_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// bucketHome is a store in a directory whose log is kept in a bucket, and the bucket.
type bucketHome struct {
	*testing.T
	sim  *buckettest.Sim
	dir  string
	opts disk.Options
}

func newBucketHome(t *testing.T, mode replica.Mode) *bucketHome {
	h := &bucketHome{T: t, sim: buckettest.NewSim(nil), dir: filepath.Join(t.TempDir(), "store"), opts: eraseOptions()}
	h.opts.Replica = disk.Replica{Bucket: h.sim.Client("store"), Mode: mode, Interval: 100 * time.Millisecond, TTL: time.Minute}
	return h
}

func (h *bucketHome) open() *disk.Saver {
	h.Helper()
	s, err := disk.Open(h.dir, h.opts)
	must(h.T, err)
	return s
}

// objects are the keys of the bucket, without its head, which is overwritten, and pins, which hold nothing of a store.
func (h *bucketHome) objects() map[string]bool {
	h.Helper()
	keys := map[string]bool{}
	for after := ""; ; {
		page, err := h.sim.List(h.Context(), "", after)
		must(h.T, err)
		if len(page) == 0 {
			return keys
		}
		for _, e := range page {
			if after = e.Key; e.Key != "head" && !strings.HasPrefix(e.Key, "pin") {
				keys[e.Key] = true
			}
		}
	}
}

// seeded waits until the bucket has a point.
func (h *bucketHome) seeded(s *disk.Saver) (oldest replica.PointRef) {
	h.Helper()
	must(h.T, s.Sync(h.Context()))
	for {
		points, err := replica.Points(h.Context(), h.lineage(s))
		must(h.T, err)
		if len(points) > 0 {
			return points[0]
		}
		time.Sleep(time.Millisecond)
	}
}

func (h *bucketHome) lineage(s *disk.Saver) replica.Options {
	return replica.Options{Bucket: h.sim, Store: s.Inside().Engine.StoreID(), Dir: "reader"}
}

// gone checks that nothing which was in the bucket is there, and that what it holds has nothing of the victim.
func (h *bucketHome) gone(before map[string]bool, v *victim) {
	h.Helper()
	for key := range h.objects() {
		if before[key] {
			h.Errorf("%s is still in the bucket", key)
		}
	}
	dir := filepath.Join(h.TempDir(), "restored")
	_, err := admin.RestoreBucket(h.Context(), h.sim, dir, admin.Moment{}, admin.BackupOptions{})
	must(h.T, err)
	for _, d := range []string{dir, h.dir} {
		found := scanStore(h.T, vfs.OS{}, d, nil)
		if places := v.found(h.T, found); len(places) > 0 || len(found.with([]byte("BYSTANDER"))) == 0 {
			h.Errorf("in %s: %v", filepath.Base(d), places)
		}
	}
}

// TestEraseReachesTheBucket: when Erase returns nil, neither the directory nor the bucket holds what was erased, in
// every mode, while others write, and no earlier moment can be restored.
func TestEraseReachesTheBucket(t *testing.T) {
	t.Parallel()
	for _, mode := range []replica.Mode{replica.Async, replica.Bounded, replica.Sync} {
		t.Run(string(mode), func(t *testing.T) {
			h := newBucketHome(t, mode)
			s := h.open()
			defer func() { must(t, s.Close()) }()
			oldest := h.seeded(s)
			v := fill(t, s)
			for key := range h.objects() { // as an upload leaves that has failed
				if strings.HasPrefix(key, "file/") {
					_, err := h.sim.Put(t.Context(), key+"-stray", bucket.NewBody([]byte("stray")), bucket.Condition{})
					must(t, err)
				}
			}
			before := h.objects()
			ctx, stop := context.WithCancel(t.Context())
			wrote := make(chan error, 1)
			go func() {
				for n := 1; ; n++ {
					cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("%09d", n)}
					if _, err := s.Put(t.Context(), saver.Config{ThreadID: "writer"}, cp, nil, nil); err != nil || ctx.Err() != nil {
						wrote <- err
						return
					}
				}
			}()
			must(t, s.Erase(t.Context(), v.id))
			h.gone(before, v)
			stop()
			must(t, <-wrote)
			at := admin.Moment{LSN: oldest.LSN + 20}
			if _, err := admin.RestoreBucket(t.Context(), h.sim, filepath.Join(t.TempDir(), "x"), at, admin.BackupOptions{}); err == nil {
				t.Errorf("a restore to record %d, before the erasure, succeeds", at.LSN)
			}
		})
	}
}

// looks reports whether an erasure has looked for readers of the bucket a second time, since the bucket was called before times. A look
// that finds one takes two calls, for the list has a second page, which is empty.
func (h *bucketHome) looks(before int) bool {
	n := 0
	for _, c := range h.sim.History()[before:] {
		if c.Op == buckettest.List && c.Key == "pin/" {
			n++
		}
	}
	return n > 2
}

// eraseUntil erases, and ends the context of the call when it has deleted, has begun to rewrite, and something is so.
func (h *bucketHome) eraseUntil(s *disk.Saver, id string, so func() bool) error {
	var rewrites atomic.Bool
	req := disk.EraseRequest{Threads: []string{id}, Progress: func(metrics.EraseProgress) { rewrites.Store(true) }}
	return h.endWhen(func() bool { return rewrites.Load() && so() }, func(ctx context.Context) error { return s.EraseRequest(ctx, req) })
}

// endWhen makes a call, and ends its context when something is so.
func (h *bucketHome) endWhen(so func() bool, call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- call(ctx) }()
	for {
		if so() {
			cancel()
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Millisecond):
		}
	}
}

// TestEraseWaitsForTheBucket: while the bucket is away, or a reader of it needs what was before, an erasure is
// unfinished. It is finished by a later call, or by the next Open.
func TestEraseWaitsForTheBucket(t *testing.T) {
	t.Parallel()
	away := func(h *bucketHome, _ *disk.Saver) func() {
		h.sim.Disconnect("store")
		return func() { h.sim.Connect("store") }
	}
	restoring := func(h *bucketHome, s *disk.Saver) func() {
		points, err := replica.Points(h.Context(), h.lineage(s))
		must(h.T, err)
		p, err := replica.ReadPoint(h.Context(), h.lineage(s), points[0])
		must(h.T, err)
		pin, err := replica.TakePin(h.Context(), h.lineage(s), p.Position)
		must(h.T, err)
		return func() { must(h.T, pin.Release(h.Context())) }
	}
	for _, c := range []struct {
		name   string
		hold   func(h *bucketHome, s *disk.Saver) (release func())
		reopen bool
	}{
		{"the bucket is away", away, false},
		{"a restore is under way", restoring, false},
		{"until it is opened again", restoring, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newBucketHome(t, replica.Async)
			h.opts.ManualWork = !c.reopen
			s := h.open()
			defer func() { must(t, s.Close()) }()
			h.seeded(s)
			v := fill(t, s)
			before := h.objects()
			release := c.hold(h, s)
			asked := len(h.sim.History())
			waits := func() bool { return c.name == "the bucket is away" || h.looks(asked) } // for what is in its way
			if err := h.eraseUntil(s, v.id, waits); !errors.Is(err, saver.ErrEraseUnfinished) {
				t.Fatalf("the erasure: %v", err)
			}
			if n, err := s.PendingErasures(); n != 1 || err != nil {
				t.Fatalf("%d erasures pending, %v", n, err)
			}
			if c.reopen {
				must(t, s.Close())
				release()
				s = h.open()
				for n, err := s.PendingErasures(); n > 0; n, err = s.PendingErasures() {
					must(t, err)
					time.Sleep(time.Millisecond)
				}
			} else {
				release()
				must(t, s.FinishErasures(t.Context()))
			}
			h.gone(before, v)
		})
	}
}

// TestErasePointOfTheSameRecord: an erasure is interrupted once it has deleted, and a point is made before it is finished. The erasure's
// own point is behind the same record, and takes the place of that one, whose files have all that was deleted.
func TestErasePointOfTheSameRecord(t *testing.T) {
	t.Parallel()
	h := newBucketHome(t, replica.Async)
	h.opts.ManualWork, h.opts.Replica.PointEvery = true, time.Nanosecond
	s := h.open()
	h.seeded(s)
	v := fill(t, s)
	must(t, s.Flush(t.Context()))
	h.sim.Disconnect("store")
	if err := h.eraseUntil(s, v.id, func() bool { return true }); !errors.Is(err, saver.ErrEraseUnfinished) {
		t.Fatalf("the erasure: %v", err)
	}
	h.sim.Connect("store")
	must(t, s.Close())
	s = h.open()
	defer func() { must(t, s.Close()) }()
	for end := base.LSN(s.Stats().LastLSN); ; time.Sleep(time.Millisecond) {
		points, err := replica.Points(t.Context(), h.lineage(s))
		must(t, err)
		if points[len(points)-1].LSN == end {
			break
		}
	}
	before := h.objects()
	for key := range before { // a fence stays
		if !strings.HasPrefix(key, "file/") && !strings.HasPrefix(key, "point/") {
			delete(before, key)
		}
	}
	points, err := replica.Points(t.Context(), h.lineage(s))
	must(t, err)
	p, err := replica.ReadPoint(t.Context(), h.lineage(s), points[len(points)-1])
	must(t, err)
	pin, err := replica.TakePin(t.Context(), h.lineage(s), p.Position)
	must(t, err)
	asked := len(h.sim.History())
	if err := h.endWhen(func() bool { return h.looks(asked) }, s.FinishErasures); err == nil {
		t.Error("it did not wait for the reader of that point")
	}
	for _, f := range p.Files {
		if !h.objects()[f.Key] {
			t.Errorf("%s is gone, and a reader needs it", f.Key)
		}
	}
	must(t, pin.Release(t.Context()))
	must(t, s.FinishErasures(t.Context()))
	h.gone(before, v)
}

// TestCloseEndsErase: Close does not wait for a reader of the bucket that an erasure waits for.
func TestCloseEndsErase(t *testing.T) {
	h := newBucketHome(t, replica.Async)
	s := h.open()
	h.seeded(s)
	v := fill(t, s)
	points, err := replica.Points(t.Context(), h.lineage(s))
	must(t, err)
	p, err := replica.ReadPoint(t.Context(), h.lineage(s), points[0])
	must(t, err)
	_, err = replica.TakePin(t.Context(), h.lineage(s), p.Position)
	must(t, err)
	erased := make(chan error, 1)
	go func() { erased <- s.Erase(context.Background(), v.id) }()
	for {
		now, err := replica.Points(t.Context(), h.lineage(s))
		must(t, err)
		if now[0] != points[0] { // the floor is raised: it waits for the reader
			break
		}
		time.Sleep(time.Millisecond)
	}
	must(t, s.Close())
	if err := <-erased; !errors.Is(err, saver.ErrEraseUnfinished) {
		t.Errorf("the erasure: %v", err)
	}
}
