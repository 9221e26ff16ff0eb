package engine

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Older values lie by group, what listings read first, then by series and name; in each group
// the newest comes first, however they came. The room is used again.
func TestOldValues(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	o := oldValues{number: map[groupKey]int{}}
	for range 100 {
		type named struct {
			oldValue
			name string
		}
		var want []named
		for i := range rnd.IntN(200) {
			v := named{oldValue{[]string{"", "s", "t"}[rnd.IntN(3)], i, rnd.IntN(2) == 0}, []string{"a", "b"}[rnd.IntN(2)]}
			if rnd.IntN(10) == 0 {
				v.at = 1000 - i // as in a branch that began at an older entry
			}
			want = append(want, v)
			o.add(rnd.IntN(4), groupKey{v.series, v.name, v.listed}, v.at)
		}
		slices.SortFunc(want, func(a, b named) int {
			if a.listed != b.listed {
				if a.listed {
					return -1
				}
				return 1
			}
			return cmp.Or(strings.Compare(a.series, b.series), strings.Compare(a.name, b.name), cmp.Compare(b.at, a.at))
		})
		got := o.sorted()
		if len(got) != len(want) {
			t.Fatalf("%d values of %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i].oldValue {
				t.Fatalf("value %d is %+v, want %+v", i, got[i], want[i].oldValue)
			}
		}
		o.forget()
	}
}
