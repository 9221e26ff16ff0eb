package index

import (
	"testing"

	"github.com/stele-go/stele/base"
)

// A family says of which of its values the places are in some files, in the order of refs. They
// are found there whatever the hint is.
func TestFamilyPlaces(t *testing.T) {
	fam := NewFamily(1)
	var all []ValueLoc
	for i := range 40 {
		all = append(all, ValueLoc{Ref{LSN: base.LSN(1 + i/4), Ord: uint16(i % 4)}, Loc{File: base.FileNum(1 + i%3), Off: uint64(i)}})
	}
	fam.Add(all)
	in := fam.In(map[base.FileNum]bool{1: true, 3: true}, nil)
	n := 0
	for _, v := range all {
		want := v.Loc.File != 2
		for hint := range len(in) + 2 {
			i, ok := FindValue(in, v.Ref, hint)
			if ok != want || ok && in[i] != v {
				t.Fatalf("value %v with the hint %d: %d, %t; want %t", v.Ref, hint, i, ok, want)
			}
		}
		if want {
			n++
		}
	}
	if n != len(in) {
		t.Errorf("%d values lie in the files, want %d", len(in), n)
	}
}
