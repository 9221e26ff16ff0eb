package changes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// waits makes a thread of the first program, which waits at a question.
func waits(t *testing.T, s saver.Saver) {
	t.Helper()
	g := must(letters("ask").Compile(graph.Options{Name: "letters", Saver: s}))
	if res := must(g.Run(t.Context(), pregel.Thread("1"), State{To: "Ada"})); len(res.Waiting) != 1 {
		t.Fatalf("%+v", res)
	}
}

// asking is a graph over S whose only node, ask, asks, and counts how often it ran.
func asking[S any](s saver.Saver, ran *int) *graph.Graph[S] {
	return must(graph.For[S]().Node("ask", func(ctx context.Context, _ *S) (graph.Update, error) {
		*ran++
		_, err := pregel.AskFor[string](ctx, "send it?")
		return nil, err
	}).Sequence(graph.Start, "ask", graph.End).Compile(graph.Options{Name: "letters", Saver: s}))
}

// TestBesideLangGraph has a case for each row of the table that compares the page's cases with LangGraph's, by its number.
func TestBesideLangGraph(t *testing.T) {
	t.Run("1 a node is renamed", func(t *testing.T) {
		s := memory.New(memory.Options{})
		waits(t, s)
		g := must(letters("review").Compile(graph.Options{Name: "letters", Saver: s}))
		if _, err := g.Resume(t.Context(), pregel.Thread("1"), "yes"); !errors.Is(err, pregel.ErrUnknownNode) {
			t.Errorf("stele: %v", err)
		}
		if st := must(g.State(t.Context(), pregel.Thread("1"))); !slices.Equal(st.Next, []string{"ask"}) {
			t.Errorf("the thread is at %v", st.Next)
		}
		r := must(g.Preflight(t.Context(), s, saver.ThreadQuery{}))
		if len(r.Broken) != 1 || r.Broken[0].Node != "ask" {
			t.Errorf("preflight: %+v", r)
		}
		g = must(letters("review").Compile(graph.Options{Name: "letters", Saver: s, LangGraph: true}))
		if _, err := g.Continue(t.Context(), pregel.Thread("1")); err != nil {
			t.Errorf("LangGraph's way: %v", err)
		}
	})
	t.Run("2 a key is renamed", func(t *testing.T) {
		type renamed struct {
			Recipient string `json:"recipient"`
		}
		type aliased struct {
			Recipient string `json:"recipient" state:"alias=to"`
		}
		ran := 0
		s := memory.New(memory.Options{})
		waits(t, s)
		if st := must(asking[renamed](s, &ran).State(t.Context(), pregel.Thread("1"))); st.State.Recipient != "" {
			t.Errorf("without an alias: %+v", st.State)
		}
		if res := must(asking[aliased](s, &ran).Resume(t.Context(), pregel.Thread("1"), "yes")); res.State.Recipient != "Ada" {
			t.Errorf("with an alias: %+v", res.State)
		}
	})
	t.Run("3 a field is tighter", func(t *testing.T) {
		type more struct {
			To   string `json:"to"`
			Copy int    `json:"copy"`
		}
		type narrower struct {
			To int `json:"to"`
		}
		ran := 0
		s := memory.New(memory.Options{})
		waits(t, s)
		var wrong *graph.StateError
		g := asking[narrower](s, &ran)
		if _, err := g.Resume(t.Context(), pregel.Thread("1"), "yes"); !errors.As(err, &wrong) || wrong.Field != "To" || ran != 0 {
			t.Errorf("a narrower type: %v, after %d nodes", err, ran)
		}
		if r := must(g.Preflight(t.Context(), s, saver.ThreadQuery{})); len(r.Broken) != 1 || r.Broken[0].Field != "To" {
			t.Errorf("preflight: %+v", r)
		}
		if res := must(asking[more](s, &ran).Resume(t.Context(), pregel.Thread("1"), "yes")); res.State.To != "Ada" || res.State.Copy != 0 {
			t.Errorf("one more field: %+v", res.State)
		}
	})
	t.Run("4 edges", func(t *testing.T) {
		s := memory.New(memory.Options{})
		waits(t, s)
		thanked := false
		g := must(letters("ask").Node("thank", func(context.Context, *State) (graph.Update, error) {
			thanked = true
			return nil, nil
		}).Edge("ask", "thank").Compile(graph.Options{Name: "letters", Saver: s}))
		if must(g.Resume(t.Context(), pregel.Thread("1"), "yes")); !thanked {
			t.Error("the new edge was not taken")
		}
	})
	t.Run("5 which threads are there", func(t *testing.T) {
		s := memory.New(memory.Options{})
		waits(t, s)
		g := must(letters("review").Compile(graph.Options{Name: "letters", Saver: s}))
		var versions []string
		for info, err := range s.Threads(t.Context(), saver.ThreadQuery{Status: saver.StatusWaiting}) {
			if err != nil {
				t.Fatal(err)
			}
			versions = append(versions, info.Version)
		}
		if len(versions) != 1 || versions[0] == "" || versions[0] == g.Untyped().Version() {
			t.Errorf("versions %q; the new one is %q", versions, g.Untyped().Version())
		}
	})
	t.Run("6 another flow for new threads", func(t *testing.T) {
		type order struct {
			Flow  int      `json:"flow"`
			Steps []string `json:"steps" state:"append"`
		}
		program := func(s saver.Saver, flow int) *graph.Graph[order] {
			step := func(name string) func(context.Context, *order) (graph.Update, error) {
				return func(ctx context.Context, o *order) (graph.Update, error) {
					if name == "triage" {
						if _, err := pregel.Ask(ctx, "go on?"); err != nil {
							return nil, err
						}
					}
					return graph.Write(&o.Steps, []string{name}), nil
				}
			}
			b := graph.For[order]().Node("intake", func(_ context.Context, o *order) (graph.Update, error) {
				return graph.Write(&o.Flow, flow), nil
			}).Node("triage", step("triage")).Node("respond", step("respond")).Edge(graph.Start, "intake").Edge("intake", "triage").Edge("respond", graph.End)
			if flow == 1 {
				b.Edge("triage", "respond")
			} else {
				b.Node("policy", step("policy")).Edge("policy", "respond").Conditional("triage", func(_ context.Context, o *order) (string, error) {
					if o.Flow >= 2 {
						return "policy", nil
					}
					return "respond", nil
				}, "policy", "respond")
			}
			return must(b.Compile(graph.Options{Name: "orders", Saver: s}))
		}
		s := memory.New(memory.Options{})
		must(program(s, 1).Run(t.Context(), pregel.Thread("old"), order{}))
		g := program(s, 2)
		must(g.Run(t.Context(), pregel.Thread("new"), order{}))
		for thread, want := range map[string]string{"old": "[triage respond]", "new": "[triage policy respond]"} {
			if res := must(g.Resume(t.Context(), pregel.Thread(thread), "yes")); fmt.Sprint(res.State.Steps) != want {
				t.Errorf("%s: %v, want %s", thread, res.State.Steps, want)
			}
		}
	})
	for name, calls := range map[string][]any{
		"7 a call is put in front":        {"tax", "pay"},
		"8 an input depends on the time":  {"pay at noon"},
		"9 a call is put behind the rest": {"pay", "thank"},
	} {
		t.Run(name, func(t *testing.T) {
			s := memory.New(memory.Options{})
			workflow := func(behind bool, calls ...any) *pregel.Graph {
				return must(pregel.Entrypoint("order", func(ctx context.Context, _ string) (string, error) {
					for i, call := range calls {
						if behind && i == len(calls)-1 {
							if _, err := pregel.Ask(ctx, "go on?"); err != nil {
								return "", err
							}
						}
						of := fmt.Sprint(call)
						if of == "pay at noon" {
							of = "pay"
						}
						if _, err := pregel.NewTask(of, func(_ context.Context, in string) (string, error) { return in, nil }).Call(ctx, fmt.Sprint(call)); err != nil {
							return "", err
						}
					}
					if !behind {
						_, err := pregel.Ask(ctx, "go on?")
						return "done", err
					}
					return "done", nil
				}, pregel.EntrypointOptions{Options: pregel.Options{Saver: s}}))
			}
			must(workflow(false, "pay").Invoke(t.Context(), pregel.Thread("1"), "x"))
			behind := slices.Contains(calls, any("thank"))
			_, err := workflow(behind, calls...).Invoke(t.Context(), pregel.Thread("1"), pregel.Command{Resume: "yes"})
			if behind != (err == nil) || err != nil && !errors.Is(err, pregel.ErrCallMismatch) {
				t.Errorf("%v", err)
			}
		})
	}
}
