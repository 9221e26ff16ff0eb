package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/index"
)

// Every entry, and every value of the plan once, is in one of the parts.
func TestDivide(t *testing.T) {
	page := &index.Page{Partitions: []index.PagePartition{{ID: "a"}, {ID: "b"}}}
	plan := rewritePlan{newest: map[string]int{}}
	want := map[index.Ref]bool{}
	for i := range 200 {
		ref := index.Ref{LSN: 7, Ord: uint16(i)}
		it := &index.Entry{Key: fmt.Sprintf("k%06d", i), LSN: 7, Slots: index.PackSlots([]index.Slot{{Name: "v", Ref: ref}, {Name: "w", Ref: index.Ref{LSN: 7, Ord: uint16(i / 2)}}})}
		page.Partitions[i%2].Entries = append(page.Partitions[i%2].Entries, it)
		want[ref] = true
		plan.values = append(plan.values, index.ValueLoc{Ref: ref})
		if i%10 == 0 {
			plan.hot = append(plan.hot, i)
			plan.newest["v"] = i
		} else {
			plan.history = append(plan.history, oldValue{series: "v", at: i})
		}
	}
	extra := index.Ref{LSN: 8}
	plan.values = append(plan.values, index.ValueLoc{Ref: extra})
	plan.history, want[extra] = append(plan.history, oldValue{at: 200}), true
	parts := divide(plan, page, 3000)
	entries := 0
	for _, p := range parts {
		for _, pt := range p.page.Partitions {
			entries += len(pt.Entries)
		}
		for _, at := range slices.Concat(p.plan.hot, numbersOf(p.plan.history)) {
			r := p.plan.values[at].Ref
			if !want[r] {
				t.Errorf("value %v is in two parts, or in none before", r)
			}
			delete(want, r)
		}
		for _, r := range p.plan.newest {
			if !slices.Contains(p.plan.hot, r) {
				t.Errorf("the newest value %v is in another part", r)
			}
		}
	}
	if len(parts) < 5 || entries != 200 || len(want) > 0 {
		t.Errorf("%d parts with %d entries, %d values are left out", len(parts), entries, len(want))
	}
	if whole := divide(plan, page, 1<<20); len(whole) != 1 || whole[0].page != page {
		t.Error("a small family is divided")
	}
}

func numbersOf(old []oldValue) []int {
	var out []int
	for _, o := range old {
		out = append(out, o.at)
	}
	return out
}
