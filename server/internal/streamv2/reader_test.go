package streamv2

import (
	"testing"

	"github.com/stele-go/stele/runs"
)

// TestPace: few large events are read at a time, and many small ones.
func TestPace(t *testing.T) {
	var p pace
	batch := func(n, size int) []runs.Event {
		list := make([]runs.Event, n)
		for i := range list {
			list[i].Data.Data = make([]byte, size)
		}
		return list
	}
	for range 10 {
		p.read(batch(p.limit(), 1))
	}
	if p.limit() != paceMost {
		t.Errorf("%d small events at a time", p.limit())
	}
	for range 10 {
		p.read(batch(p.limit(), PartBytes+1))
	}
	if p.limit() != 1 {
		t.Errorf("%d large events at a time", p.limit())
	}
	p.read(batch(1, 1))
	p.read(batch(1, 1)) // fewer than asked for: those are all
	if p.limit() != 4 {
		t.Errorf("%d events at a time", p.limit())
	}
}
