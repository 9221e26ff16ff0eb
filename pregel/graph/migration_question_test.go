package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

type refund struct {
	Log []string `json:"log" state:"append"`
}

// refunds asks twice in one node, once in another, and beside them once in a graph inside; one more node sleeps.
func refunds(t *testing.T, s saver.Saver, version string, question any, ms ...pregel.Migration) *graph.Graph[refund] {
	t.Helper()
	ask := func(node string, times int) graph.NodeFunc[refund] {
		return func(ctx context.Context, st *refund) (graph.Update, error) {
			for range times {
				if _, err := pregel.AskFor[string](ctx, question); err != nil {
					return nil, err
				}
			}
			return graph.Write(&st.Log, []string{node}), nil
		}
	}
	inner, err := graph.For[refund]().Node("asks", ask("inside", 1)).Edge(graph.Start, "asks").Compile(graph.Options{Version: version, Migrations: ms})
	if err != nil {
		t.Fatal(err)
	}
	b := graph.For[refund]().Node("twice", ask("twice", 2)).Node("once", ask("once", 1)).Subgraph("inside", inner.Untyped()).
		Node("sleeps", func(ctx context.Context, _ *refund) (graph.Update, error) { return nil, pregel.Sleep(ctx, time.Hour) })
	for _, n := range []string{"twice", "once", "inside", "sleeps"} {
		b.Edge(graph.Start, n)
	}
	g, err := b.Compile(graph.Options{Name: "refunds", Version: version, Saver: s, Migrations: ms})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// inEuros changes a question in cents.
func inEuros(q pregel.Interrupt) (pregel.Interrupt, error) {
	if q.IsWait() {
		return q, errors.New("a wait is no question")
	}
	if cents, ok := q.Value.(int64); ok {
		q.Value, q.ResponseSchema = map[string]any{"euros": cents / 100}, map[string]any{"type": "string"}
	}
	q.ID = "another" // which does not count
	return q, nil
}

// Questions that wait are shown as the migration makes them, keep their ids, and are answered by them. Answers that
// were given stay, and so does a sleep.
func TestMigrationOfQuestions(t *testing.T) {
	s := inMemory()
	old := refunds(t, s, "1", int64(1200))
	at := pregel.Thread("t")
	res, err := old.Run(t.Context(), at, refund{})
	if err != nil || len(res.Waiting) != 3 {
		t.Fatalf("%+v, %v", res.Waiting, err)
	}
	ids := func(list []pregel.Interrupt) (out []string) {
		for _, in := range list {
			out = append(out, in.ID)
		}
		slices.Sort(out)
		return out
	}
	waits := res.Waits
	asked := map[string]string{} // the ids by the node that asks
	st, err := old.State(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range st.Tasks {
		for _, in := range task.Interrupts {
			asked[task.Name] = in.ID
		}
	}
	if res, err = old.Resume(t.Context(), at, map[string]any{asked["twice"]: "yes"}); err != nil || len(res.Waiting) != 3 {
		t.Fatalf("%+v, %v", res.Waiting, err)
	}
	before := ids(res.Waiting)

	now := refunds(t, s, "2", map[string]any{"euros": 12}, pregel.Migration{From: "1", To: "2", Question: inEuros})
	if r, err := now.Preflight(t.Context(), nil, saver.ThreadQuery{}); err != nil || len(r.Broken) > 0 || r.Adapted["migration 1 → 2"] != 1 {
		t.Errorf("%v, %v", r, err)
	}
	if st, err = now.State(t.Context(), at); err != nil || !slices.Equal(ids(st.Interrupts), before) {
		t.Fatalf("%+v, %v; asked were %v", st.Interrupts, err, before)
	}
	for _, in := range st.Interrupts {
		if fmt.Sprint(in.Value, in.ResponseSchema) != "map[euros:12] map[type:string]" {
			t.Errorf("%+v", in)
		}
	}
	answers := map[string]any{}
	for _, id := range before {
		answers[id] = "yes"
	}
	res, err = now.Resume(t.Context(), at, answers)
	if err != nil || len(res.Waiting) != 0 || len(res.Waits) != 1 || !res.Waits[0].Until.Equal(waits[0].Until) {
		t.Errorf("%+v, %+v, %v", res.Waiting, res.Waits, err)
	}
}

// A migration of a question that fails, panics, or makes what cannot be stored leaves the thread as it is.
func TestMigrationOfQuestionsFails(t *testing.T) {
	s := inMemory()
	at := pregel.Thread("t")
	if _, err := refunds(t, s, "1", int64(1200)).Run(t.Context(), at, refund{}); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(pregel.Interrupt) (pregel.Interrupt, error){
		"fails":   func(q pregel.Interrupt) (pregel.Interrupt, error) { return q, errors.New("no") },
		"panics":  func(pregel.Interrupt) (pregel.Interrupt, error) { panic("no") },
		"returns": func(q pregel.Interrupt) (pregel.Interrupt, error) { q.Value = func() {}; return q, nil },
	} {
		now := refunds(t, s, "2", "x", pregel.Migration{From: "1", To: "2", Question: f})
		var failed *pregel.MigrationError
		if _, err := now.State(t.Context(), at); !errors.As(err, &failed) {
			t.Errorf("%s: %v", name, err)
		}
		if r, err := now.Preflight(t.Context(), nil, saver.ThreadQuery{}); err != nil || len(r.Broken) != 1 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if st, err := refunds(t, s, "1", int64(1200)).State(t.Context(), at); err != nil || st.Interrupts[0].Value != int64(1200) {
		t.Errorf("%+v, %v", st.Interrupts, err)
	}
}
