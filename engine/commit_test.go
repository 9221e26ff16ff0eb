package engine

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/wal"
)

// Whatever the batches, those published have their last word in the index, and the
// queue the last word of those that are not.
func TestQueueOfBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, lsn := newUnpublished(), base.LSN(0)
		visible, prepared := map[string]*index.Partition{}, map[string]*index.Partition{}
		var waiting [][]*wal.Record
		publish := func() {
			c := q.take(waiting[0])
			want := map[string]*index.Partition{}
			for _, r := range waiting[0] {
				for _, n := range r.User.(*Tx).partitions.list {
					want[n.id] = n.v
				}
			}
			for _, id := range c.Remove {
				delete(visible, id)
			}
			for _, th := range c.Put {
				visible[th.ID] = th
			}
			if len(c.Remove)+len(c.Put) != len(want) {
				t.Fatalf("%d removed and %d put, of %d threads", len(c.Remove), len(c.Put), len(want))
			}
			for id, th := range want {
				if visible[id] != th {
					t.Fatalf("thread %s is %p, want %p", id, visible[id], th)
				}
			}
			waiting = waiting[1:]
		}
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			var batch []*wal.Record
			for range rapid.IntRange(1, 4).Draw(t, "records") {
				lsn++
				tx := &Tx{lsn: lsn, patches: int(lsn % 2)}
				for range rapid.IntRange(1, 3).Draw(t, "threads") {
					id := fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "thread"))
					if rapid.Bool().Draw(t, "gone") {
						tx.partitions.set(id, nil)
					} else {
						tx.partitions.set(id, &index.Partition{ID: id, LSN: lsn})
					}
				}
				q.add(tx)
				for _, n := range tx.partitions.list {
					prepared[n.id] = n.v
				}
				batch = append(batch, &wal.Record{LSN: lsn, User: tx})
			}
			if waiting = append(waiting, batch); len(waiting) > 2 {
				publish()
			}
			for id, th := range prepared {
				if got, ok := q.partitions[id]; ok && got.v != th || !ok && visible[id] != th {
					t.Fatalf("thread %s: queue %v, visible %v, want %v", id, got.v, visible[id], th)
				}
			}
		}
		for len(waiting) > 0 {
			publish()
		}
		if len(q.partitions) > 0 || q.patches != 0 {
			t.Fatalf("left in the queue: %v, %d patches", slices.Collect(maps.Keys(q.partitions)), q.patches)
		}
	})
}

// A list that became a map is still what a map would be.
func TestByName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got byID[int]
		want := map[string]int{}
		for i := range rapid.IntRange(0, 40).Draw(t, "sets") {
			id := fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "id"))
			got.set(id, i)
			want[id] = i
		}
		if len(got.list) != len(want) {
			t.Fatalf("%d ids, want %d", len(got.list), len(want))
		}
		for i := range 21 {
			id := fmt.Sprint(i)
			v, ok := got.get(id)
			if w, has := want[id]; v != w || ok != has {
				t.Fatalf("%s is %d, %v; want %d, %v", id, v, ok, w, has)
			}
		}
	})
}
