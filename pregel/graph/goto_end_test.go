package graph_test

import (
	"context"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// TestCommandToEnd: a Command that goes to the end leads nowhere, and blocks nothing that comes later.
func TestCommandToEnd(t *testing.T) {
	ask := func(ctx context.Context, _ *parts) (graph.Update, error) {
		_, err := pregel.AskFor[string](ctx, "?")
		return nil, err
	}
	g := must(graph.For[parts]().Node("one", ask).Node("two", ask).Edge(graph.Start, "one").Edge(graph.Start, "two").
		Compile(graph.Options{Name: "g", Saver: inMemory()})).Untyped()
	at := pregel.Thread("t")
	res := must(g.Invoke(t.Context(), at, map[string]any{"done": []string{"in"}}))
	if len(res.Interrupts) != 2 {
		t.Fatalf("%+v", res)
	}
	for i, in := range res.Interrupts { // the second answer finds what the first has stored
		now, err := g.Invoke(t.Context(), at, pregel.Command{Resume: map[string]any{in.ID: "yes"}, Goto: graph.End})
		if err != nil || len(now.Interrupts) != 1-i {
			t.Fatalf("answer %d: %+v, %v", i, now, err)
		}
	}
	if _, err := g.Invoke(t.Context(), at, pregel.Command{Update: map[string]any{"done": []string{"more"}}, Goto: graph.End}); err != nil {
		t.Fatal(err)
	}
	if r, err := g.Preflight(t.Context(), nil, saver.ThreadQuery{}); err != nil || len(r.Broken) > 0 {
		t.Errorf("%v, %v", r, err)
	}
	if res, err := g.Invoke(t.Context(), at, map[string]any{"done": []string{"again"}}); err != nil || len(res.Interrupts) != 2 {
		t.Errorf("%+v, %v", res, err)
	}
}
