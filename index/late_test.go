package index

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
)

// entriesByWalk is Entries by a look at all there is.
func entriesByWalk(t *Partition, first base.LSN) map[string]*Entry {
	all := map[string]*Entry{}
	add := func(it *Entry) bool { all[it.Key] = it; return true }
	t.tree.Ascend(add)
	for _, it := range t.recent {
		add(it)
	}
	maps.DeleteFunc(all, func(_ string, it *Entry) bool { return it.LSN < first })
	return all
}

func checkEntries(t *testing.T, p *Partition, first base.LSN) {
	t.Helper()
	want := entriesByWalk(p, first)
	prev := ""
	p.Entries(first, func(it *Entry) {
		if it.Key <= prev || want[it.Key] != it {
			t.Fatalf("from %d: %q of %d behind %q, want %v", first, it.Key, it.LSN, prev, want[it.Key])
		}
		prev = it.Key
		delete(want, it.Key)
	})
	if len(want) > 0 {
		t.Fatalf("from %d: %d entries are missing", first, len(want))
	}
}

// What was put since a record is the same whether the tree is gone through or not: in a partition
// that grows, shrinks, is copied, loaded anew and abandoned half way, and in all that hold it.
func TestLateEntries(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	var held []*Partition
	p := NewPartition("p", NewFamily(1), 1)
	quick := 0
	for lsn := base.LSN(1); lsn < 3000; lsn++ {
		var entries []*Entry
		for range r.IntN(4) {
			it := &Entry{Key: fmt.Sprintf("%04d", r.IntN(int(lsn)+1)), LSN: lsn}
			if r.IntN(3) == 0 || lsn > 2500 {
				it.Flags = FlagDeleted
			}
			entries = append(entries, it)
		}
		if r.IntN(5) == 0 { // a commit that is refused after it was prepared
			p.With([]*Entry{{Key: "none", LSN: lsn}}, lsn, 0).With(entries, lsn, 0)
		}
		p = p.With(entries, lsn, 0).Cleared(func() base.LSN { return lsn - min(lsn, 50) })
		switch {
		case r.IntN(300) == 0:
			copied := p.Forked("q", lsn, lsn, 0)
			for i := range 2 * recentMax {
				copied = copied.With([]*Entry{{Key: fmt.Sprintf("copy %d", i), LSN: lsn}}, lsn, 0)
			}
			held = append(held, p, copied)
		case lsn%900 == 0:
			cold := ColdPartition("p", p.Family, p.Birth)
			cold.LSN = p.LSN
			p = cold.Loaded(slices.Collect(maps.Values(entriesByWalk(p, 0))), lsn-min(lsn, 100))
		}
		first := lsn - min(lsn, base.LSN(r.IntN(700)))
		if first > p.early && len(p.late) > 0 {
			quick++
		}
		checkEntries(t, p, first)
	}
	for _, h := range held {
		for range 50 {
			checkEntries(t, h, base.LSN(r.IntN(3000)))
		}
	}
	if quick < 400 {
		t.Errorf("%d looks went by what is late", quick)
	}
	if len(p.late) > max(lateFrom, p.tree.Len()/4) {
		t.Errorf("%d late entries beside %d", len(p.late), p.tree.Len())
	}
}
