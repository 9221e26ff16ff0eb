package replica

import (
	"testing"

	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// TestCutBeginsAChunk appends batches, of which one is behind a cut: a follower gets it first of a chunk, and is told. One that has a
// part of it is not.
func TestCutBeginsAChunk(t *testing.T) {
	s := buckettest.NewSim(nil)
	m := newMachine(t, s, "a")
	l := m.begin(Async)
	m.commit(l, "before", "last")
	records := [][]byte{[]byte("behind"), []byte("it")}
	m.d.add(records...)
	if err := l.Append(Batch{First: 5, Stamp: 6, Records: records, Cut: true}); err != nil {
		t.Fatal(err)
	}
	m.commit(l, "later")
	if err := m.upload(l); err != nil {
		t.Fatal(err)
	}
	for _, has := range []int{0, 5} {
		o := newMachine(t, s, "b")
		o.d.add(m.d.records[:has]...)
		f, err := Follow(t.Context(), o.o, o.d, Position{Epoch: 1})
		if err != nil {
			t.Fatal(err)
		}
		var cuts []bool
		for {
			batches, err := f.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if batches == nil {
				break
			}
			for i, b := range batches {
				cuts = append(cuts, b.Cut)
				if b.Cut && (i > 0 || b.First != 5) {
					t.Errorf("the cut is before record %d, batch %d of its chunk", b.First, i)
				}
			}
			if err := o.d.apply(batches); err != nil {
				t.Fatal(err)
			}
		}
		if want := map[int]int{0: 4, 5: 2}[has]; len(cuts) != want || has == 0 && !cuts[2] || has > 0 && cuts[0] {
			t.Errorf("with %d records before: batches with cuts %v", has, cuts)
		}
	}
}
