package disk_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// TestFollowerOfANewLineage: the bucket is lost, and the leader begins another lineage of the same store in it. A follower that had all
// of the first one does not take the silence at its own place for one of the leader, and is made anew when it is opened again.
func TestFollowerOfANewLineage(t *testing.T) {
	p := newPair(t, disk.Replica{TTL: 30 * time.Millisecond})
	for _, thread := range []string{"a", "b", "c"} {
		put(t, p.leader, thread)
		if err := p.leader.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f := mustFollow(t, p, "follower", disk.Options{Replica: disk.Replica{MaxStale: time.Hour}})
	if err := f.Await(t.Context(), p.leader.Stats().LastLSN); err != nil {
		t.Fatal(err)
	}
	p.sim.Disconnect("follower")
	if err := p.leader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := admin.DetachBucket(filepath.Join(p.root, "leader"), admin.Access{}); err != nil {
		t.Fatal(err)
	}
	for {
		page, err := p.sim.List(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if err := p.sim.Delete(t.Context(), e.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.leader = p.lead(t, "leader")
	for !p.leader.Health().Replica.Seeded {
		time.Sleep(time.Millisecond)
	}
	p.sim.Connect("follower")
	for {
		h := f.Health()
		if h.Status != metrics.StatusOK && errors.Is(h.Problems[0].Err, fault.ErrCorrupt) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, p.leader, "new")
	f = mustFollow(t, p, "follower", disk.Options{})
	if err := f.Await(t.Context(), p.leader.Stats().LastLSN); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(has(t.Context(), f, "c"), has(t.Context(), f, "new")); err != nil {
		t.Error(err)
	}
}

// slowFiles is a bucket that answers no read of a point's file before go.
type slowFiles struct {
	bucket.Bucket
	once  sync.Once
	asked chan struct{} // closed when one is read
	free  chan struct{} // closed when it may be answered
}

func (b *slowFiles) Get(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	if strings.HasPrefix(key, "file/") {
		b.once.Do(func() { close(b.asked) })
		<-b.free
	}
	return b.Bucket.Get(ctx, key, o)
}

// TestFollowersSeedOneDirectory: while one process makes a directory of the bucket, another does not touch it. Else the first one would
// remove, once it fails, what the second has made there, and perhaps leads with.
func TestFollowersSeedOneDirectory(t *testing.T) {
	p := newPair(t, disk.Replica{})
	put(t, p.leader, "t")
	for !p.leader.Health().Replica.Seeded {
		time.Sleep(time.Millisecond)
	}
	slow := &slowFiles{Bucket: p.sim.Client("slow"), asked: make(chan struct{}), free: make(chan struct{})}
	dir := filepath.Join(p.root, "follower")
	type opened struct {
		*disk.Saver
		err error
	}
	first := make(chan opened, 1)
	go func() {
		s, err := disk.OpenFollower(dir, disk.Options{Replica: disk.Replica{Bucket: slow}})
		first <- opened{s, err}
	}()
	<-slow.asked
	second, err := p.follow(t, "follower", disk.Options{})
	if !errors.Is(err, fault.ErrLocked) {
		t.Errorf("the second: %v", err)
	}
	close(slow.free)
	f := <-first
	if second != nil {
		left, _ := os.ReadDir(dir)
		t.Errorf("the first: %v, and it leaves the second %v", f.err, left)
	}
	if f.err != nil {
		t.Fatal(f.err)
	}
	defer func() { _ = f.Close() }()
	if err := has(t.Context(), f.Saver, "t"); err != nil {
		t.Error(err)
	}
}
