package disk_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
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
