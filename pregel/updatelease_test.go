package pregel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// TestUpdateUnderALease: an update under a lease is stored while the lease holds, and refused once it is lost.
func TestUpdateUnderALease(t *testing.T) {
	s := memory.New(memory.Options{})
	g, err := graph.New(graph.Key("n", channel.Reduce(func(_, n int) int { return n }))).Node("a", func(context.Context, any) (any, error) { return nil, nil }).
		Edge(graph.Start, "a").Compile(graph.Options{Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := s.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	update := func() error {
		_, err := g.UpdateState(t.Context(), pregel.Thread("t"), pregel.StateUpdate{Values: map[string]any{"n": 1}, AsNode: "a"}, pregel.UpdateOptions{Lease: lease})
		return err
	}
	if err := update(); err != nil {
		t.Fatal(err)
	}
	lease.Release()
	if err := update(); !errors.Is(err, saver.ErrFenced) {
		t.Errorf("got %v, want ErrFenced", err)
	}
}
