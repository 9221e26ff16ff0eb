package index

import (
	"fmt"
	"testing"
)

// TestEvictionBesideCopies: a partition that is read stays in memory, also if it has a copy
// that nobody reads and that the evicter meets first, round after round.
func TestEvictionBesideCopies(t *testing.T) {
	one := func(id string, lsn uint64) *Partition {
		return NewPartition(id, NewFamily(lsn), 1).With([]*Entry{{Key: "k", LSN: 1}}, 1, 0)
	}
	original := one("a", 1)
	parts := []*Partition{original, original.Forked("b", 1, 1, 0)}
	for i := range 40 {
		parts = append(parts, one(fmt.Sprintf("c%02d", i), uint64(10+i)))
	}
	ix := New(2 * original.size)
	ix.Apply(Change{LSN: 1, Put: parts})
	var b TableBuilder
	for _, p := range parts {
		b.AddPartition(RowOf(p))
	}
	read := func() *Partition {
		t.Helper()
		p, err := ix.Partition("b")
		if err != nil {
			t.Fatal(err)
		}
		if p.Cold() {
			t.Fatal("a partition that is read was evicted")
		}
		return p
	}
	read()
	v, dirty := ix.ViewDirty()
	ix.Install(b.Done(), true, v.LSN, dirty)
	for range 5 {
		for _, p := range parts[2:] { // others are loaded, and go again
			p, err := ix.Partition(p.ID)
			if err != nil {
				t.Fatal(err)
			}
			if p.Cold() {
				ix.Swap(p, p.Loaded([]*Entry{{Key: "k", LSN: 1}}, 0))
			}
			read()
		}
	}
	if ix.resident > 3*original.size {
		t.Errorf("%d bytes are loaded, the budget is %d", ix.resident, ix.budget)
	}
}
