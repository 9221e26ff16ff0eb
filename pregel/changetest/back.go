package changetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// The states of two versions. The second has the name in two parts.
type (
	whole struct {
		Name string   `json:"name"`
		Log  []string `json:"log" state:"append"`
	}
	halves struct {
		First string   `json:"first"`
		Last  string   `json:"last"`
		Log   []string `json:"log" state:"append"`
	}
)

// The states of two versions, of which the second has a key more inside.
type (
	street struct {
		Home struct {
			Line string `json:"line"`
		} `json:"home"`
	}
	zipped struct {
		Home struct {
			Line string `json:"line"`
			Zip  string `json:"zip"`
		} `json:"home"`
	}
)

func apart(w whole) (halves, error) {
	first, last, _ := strings.Cut(w.Name, " ")
	return halves{First: first, Last: last, Log: w.Log}, nil
}

func together(h halves) (whole, error) { return whole{Name: h.First + " " + h.Last, Log: h.Log}, nil }

// asksTwice makes a program with the state S that asks at two nodes.
func asksTwice[S any](t *testing.T, s saver.Saver, b *graph.StateBuilder[S], version string, ran *int, ms ...pregel.Migration) *graph.Graph[S] {
	t.Helper()
	node := func(ctx context.Context, _ *S) (graph.Update, error) {
		*ran++
		_, err := pregel.AskFor[string](ctx, "go on?")
		return nil, err
	}
	g, err := b.Node("one", node).Node("two", node).Sequence(graph.Start, "one", "two").
		Compile(graph.Options{Name: "people", Version: version, Saver: s, Migrations: ms})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// rollBackInside: nor does it drop what the newer one has stored within the value of a key that both know. A migration without functions
// lets that go, also when a newer program does without it.
func rollBackInside(t *testing.T, open func(t *testing.T) saver.Saver) {
	t.Helper()
	ran := 0
	s, at, to := open(t), pregel.Thread("inside"), "inside, allowed"
	var in zipped
	in.Home.Line, in.Home.Zip = "1 Main St", "90210"
	if _, err := asksTwice(t, s, graph.For[zipped](), "2", &ran).Run(t.Context(), at, in); err != nil {
		t.Fatal(err)
	}
	if err := s.CopyThread(t.Context(), at.ThreadID, to); err != nil {
		t.Fatal(err)
	}
	s, ran = open(t), 0
	old := asksTwice(t, s, graph.For[street](), "1", &ran)
	var other *pregel.OtherVersionError
	if _, err := old.Resume(t.Context(), at, "yes"); !errors.As(err, &other) || !slices.Equal(other.Keys, []string{"home.zip"}) || ran != 0 {
		t.Errorf("an answer: %v, %d nodes ran", err, ran)
	}
	r, err := old.Preflight(t.Context(), nil, saver.ThreadQuery{ThreadID: at.ThreadID})
	if err != nil || len(r.Broken) != 1 || r.Broken[0].Channel != "home.zip" || !errors.Is(r.Broken[0].Err, pregel.ErrOtherVersion) {
		t.Errorf("the preflight: %v, %v", r, err)
	}
	allowed := asksTwice(t, s, graph.For[street](), "1", &ran, pregel.Migration{From: "2", To: "1"})
	if res, err := allowed.Resume(t.Context(), pregel.Thread(to), "yes"); err != nil || res.State.Home.Line != "1 Main St" || len(res.Waiting) != 1 {
		t.Errorf("with a migration: %+v, %v", res, err)
	}
	if res, err := asksTwice(t, open(t), graph.For[zipped](), "2", &ran).Resume(t.Context(), at, "yes"); err != nil || res.State.Home.Zip != "90210" {
		t.Errorf("the newer program: %+v, %v", res, err)
	}
}

// rollBack: a program that was rolled back to does not drop what the newer one has stored, unless its author says so. It says which version
// that was and what to do, Preflight does as well, and nothing runs or is stored.
func rollBack(t *testing.T, open func(t *testing.T) saver.Saver) {
	t.Helper()
	ran := 0
	s, at := open(t), pregel.Thread("back")
	if _, err := asksTwice(t, s, graph.For[whole](), "1", &ran).Run(t.Context(), at, whole{Name: "Ada Lovelace", Log: []string{"in"}}); err != nil {
		t.Fatal(err)
	}
	s = open(t)
	if _, err := asksTwice(t, s, graph.For[halves](), "2", &ran, graph.Migrate("1", "2", apart)).Resume(t.Context(), at, "yes"); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"joined", "allowed", "unnamed"} {
		if err := s.CopyThread(t.Context(), at.ThreadID, to); err != nil {
			t.Fatal(err)
		}
	}
	s, ran = open(t), 0
	before := heads(t, s, at.ThreadID)
	old := asksTwice(t, s, graph.For[whole](), "1", &ran)
	if st, err := old.State(t.Context(), at); err != nil || !slices.Equal(st.State.Log, []string{"in"}) {
		t.Errorf("its state: %+v, %v", st, err)
	}
	for what, does := range map[string]func() error{
		"an answer": func() error { _, err := old.Resume(t.Context(), at, "yes"); return err },
		"nil":       func() error { _, err := old.Continue(t.Context(), at); return err },
		"input":     func() error { _, err := old.Run(t.Context(), at, whole{Name: "Grace"}); return err },
		"discarding input": func() error {
			_, err := old.Run(t.Context(), at, whole{Name: "Grace"}, pregel.RunOptions{Unfinished: pregel.DiscardUnfinished})
			return err
		},
		"an update": func() error {
			_, err := old.Untyped().UpdateState(t.Context(), at, pregel.StateUpdate{Values: map[string]any{"name": "Grace"}, AsNode: "one"})
			return err
		},
	} {
		var other *pregel.OtherVersionError
		if err := does(); !errors.As(err, &other) || !errors.Is(err, pregel.ErrOtherVersion) || other.ThreadID != at.ThreadID || other.Version != "2" ||
			other.Own != "1" || !slices.Equal(other.Keys, []string{"first", "last"}) {
			t.Errorf("%s: %v", what, err)
		}
	}
	r, err := old.Preflight(t.Context(), nil, saver.ThreadQuery{ThreadID: at.ThreadID})
	if err != nil || len(r.Broken) != 1 || r.Broken[0].Stage != pregel.StageLoad || r.Broken[0].Channel != "first" || !errors.Is(r.Broken[0].Err, pregel.ErrOtherVersion) {
		t.Errorf("the preflight: %v, %v", r, err)
	}
	if after := heads(t, s, at.ThreadID); ran != 0 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%d nodes ran, or something was stored: %v, before %v", ran, after, before)
	}
	goesOn := func(thread string, g *graph.Graph[whole], name string) {
		t.Helper()
		r, err := g.Preflight(t.Context(), nil, saver.ThreadQuery{ThreadID: thread})
		if err != nil || r.Threads != 1 || len(r.Broken) > 0 {
			t.Errorf("%s: %v, %v", thread, r, err)
		}
		if res, err := g.Resume(t.Context(), pregel.Thread(thread), "yes"); err != nil || res.State.Name != name || len(res.Waiting) > 0 {
			t.Errorf("%s: %+v, %v", thread, res, err)
		}
	}
	goesOn("joined", asksTwice(t, s, graph.For[whole](), "1", &ran, graph.Migrate("2", "1", together)), "Ada Lovelace")
	knows := graph.For[whole]().OnUnknown(func(context.Context, pregel.Address, []string) error { return nil })
	goesOn("allowed", asksTwice(t, s, knows, "1", &ran), "")
	goesOn("unnamed", asksTwice(t, s, graph.For[whole](), "", &ran), "")
	res, err := asksTwice(t, open(t), graph.For[halves](), "2", &ran).Resume(t.Context(), at, "yes")
	if err != nil || res.State.First != "Ada" || res.State.Last != "Lovelace" || len(res.Waiting) > 0 {
		t.Errorf("the newer program: %+v, %v", res, err)
	}
}
