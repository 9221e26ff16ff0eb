package replica

import (
	"errors"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// TestTail reads back what EncodeTail made, and finds what is damaged.
func TestTail(t *testing.T) {
	o := Options{Store: testStore}
	batches := []Batch{{First: 8, Stamp: 3, Records: [][]byte{[]byte("one"), {}}}, {First: 10, Stamp: 5, Records: [][]byte{[]byte("two")}}}
	want := Position{LSN: 7, Chain: Chain{1}, Stamp: 3, Epoch: 2, Seq: 4}
	b, err := EncodeTail(o, want, batches)
	if err != nil {
		t.Fatal(err)
	}
	at, got, err := DecodeTail(o, "tail", b)
	if err != nil || at != want || !sameBatches(batches, got) || got[1].Last() != base.LSN(10) {
		t.Fatalf("it reads as %+v, %+v, %v", at, got, err)
	}
	for n := range b {
		if _, _, err := DecodeTail(o, "tail", b[:n]); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if _, _, err := DecodeTail(Options{Store: 1}, "tail", b); !errors.Is(err, ErrOtherStore) {
		t.Fatal(err)
	}
}
