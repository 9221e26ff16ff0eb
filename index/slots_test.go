package index

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base"
)

func genSlots(t *rapid.T) []Slot {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Slot {
		s := Slot{Name: genName(t, "name"), Tag: genName(t, "tag")}
		if rapid.Bool().Draw(t, "has a value") {
			s.Ref = Ref{LSN: base.LSN(rapid.Uint64().Draw(t, "record")), Ord: rapid.Uint16().Draw(t, "ordinal")}
		}
		return s
	}), 0, 200).Draw(t, "slots")
}

// TestSlots: what is packed comes back, slot by slot and all at once, whichever records the
// slots refer to and however long their names are.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genSlots(t)
		s := PackSlots(slices.Clone(want))
		if s.Len() != len(want) {
			t.Fatalf("%d slots of %d", s.Len(), len(want))
		}
		n := 0
		for i, slot := range s.All() {
			if i != n || slot != want[i] || s.At(i) != slot {
				t.Fatalf("slot %d is %+v, and %+v if it is asked for, want %d: %+v", i, slot, s.At(i), n, want[n])
			}
			n++
		}
		if n != len(want) {
			t.Fatalf("%d slots are shown of %d", n, len(want))
		}
		first := rapid.IntRange(0, len(want)+2).Draw(t, "first")
		if got := s.Append(nil, first); !slices.Equal(got, want[min(first, len(want)):]) {
			t.Fatalf("from slot %d on they are %+v, want %+v", first, got, want)
		}
		for range s.All() {
			break // no more is shown
		}
		refs := 0
		for i, r := range s.Refs() {
			if i != refs || r != want[i].Ref {
				t.Fatalf("slot %d refers to %+v, want %d: %+v", i, r, refs, want[refs].Ref)
			}
			refs++
		}
		if refs != len(want) {
			t.Fatalf("%d refs are shown of %d", refs, len(want))
		}
		for _, r := range []Ref{{}, {LSN: 1}} {
			has := slices.ContainsFunc(want, func(s Slot) bool { return s.Ref == r })
			if s.Contain(func(o Ref) bool { return o == r }) != has {
				t.Fatalf("%+v is referred to: %t, want %t", r, !has, has)
			}
		}
		other := genSlots(t)
		if got := s.Equal(PackSlots(other)); got != slices.Equal(want, other) {
			t.Fatalf("%+v and %+v are the same: %t", want, other, got)
		}
	})
}

// TestLongNames: a name that many entries of a page have is in memory once, if it is long.
func TestLongNames(t *testing.T) {
	p := &Page{Partitions: []PagePartition{{ID: "t"}}}
	long := string(make([]byte, base.MaxKey))
	for i := range 100 {
		it := &Entry{Key: string(rune('a' + i)), LSN: 1, Slots: PackSlots([]Slot{{Name: long, Tag: long[:longName-1]}})}
		p.Partitions[0].Entries = append(p.Partitions[0].Entries, it)
	}
	b := EncodePage(p)
	got, err := DecodePage(b)
	if err != nil {
		t.Fatal(err)
	}
	if w := weight(got); w > maxGrowth*len(b) {
		t.Errorf("%d bytes decode to %d", len(b), w)
	}
	if s := PackSlots([]Slot{{Name: long}, {Name: "a", Tag: long}}); len(s.packed) > 20 {
		t.Errorf("two slots with a long name each are packed into %d bytes", len(s.packed))
	}
}
