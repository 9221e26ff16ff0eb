package graph_test

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

// renamable makes a program whose nodes have names: "first" goes to one of "pack", three packets, "ask", "fails",
// which has an error handler, and "inner", a graph. at is called when a part of the work begins.
func renamable(t *testing.T, s saver.Saver, version string, names map[string]string, at func(what, key string) error, ms ...pregel.Migration) *graph.Graph[parts] {
	t.Helper()
	name := func(node string) string {
		if to := names[node]; to != "" {
			return to
		}
		return node
	}
	begins := func(ctx context.Context, what string) error {
		key, err := pregel.IdempotencyKey(ctx, what)
		if err != nil {
			return err
		}
		return at(what, key)
	}
	does := func(what string) graph.NodeFunc[parts] {
		return func(ctx context.Context, p *parts) (graph.Update, error) {
			if err := begins(ctx, what); err != nil {
				return nil, err
			}
			if what == "fails" {
				return nil, errors.New("it fails")
			}
			if what == "ask" {
				if _, err := pregel.AskFor[string](ctx, what); err != nil {
					return nil, err
				}
			}
			return graph.Write(&p.Done, []string{what}), nil
		}
	}
	inner, err := graph.For[parts]().Node("one", does("one")).Node("two", does("two")).Sequence(graph.Start, "one", "two").Compile(graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := graph.For[parts]()
	pack := graph.Worker(b, name("pack"), func(ctx context.Context, n int, p *parts) (graph.Update, error) {
		if err := begins(ctx, fmt.Sprint("part ", n)); err != nil {
			return nil, err
		}
		if n > 10 {
			if _, err := pregel.AskFor[string](ctx, "pack it?"); err != nil {
				return nil, err
			}
		}
		return graph.Write(&p.Done, []string{fmt.Sprint("part ", n)}), nil
	})
	b.Node("first", func(_ context.Context, p *parts) (graph.Update, error) {
		switch to := p.Done[0]; to {
		case "pack":
			return pack.Send(1, 2, 3), nil
		case "pack it":
			return pack.Send(11, 12), nil
		default:
			return graph.Goto(name(to)), nil
		}
	}).Node(name("ask"), does("ask")).Node(name("fails"), does("fails")).
		OnError(name("fails"), func(ctx context.Context, _ *parts) (graph.Update, error) {
			if err := begins(ctx, "handler"); err != nil {
				return nil, err
			}
			_, err := pregel.AskFor[string](ctx, "and now?")
			return nil, err
		}).
		Subgraph(name("inner"), inner.Untyped()).Edge(graph.Start, "first")
	g, err := b.Compile(graph.Options{Name: "p", Version: version, Saver: s, Migrations: ms})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A node gets another name on threads that have nothing of its tasks stored. Where there is a question, an answer, what
// one wrote, packets that have ended or a graph inside, the thread is refused before anything runs, with a note and
// without one, and the former program goes on.
func TestRenamedNodes(t *testing.T) {
	names := map[string]string{"pack": "wrap", "ask": "approve", "fails": "breaks", "inner": "nested"}
	for _, c := range []struct {
		way, dies string
		before    []string
		held      string   // the node
		ran       []string // what runs then
	}{
		{way: "pack", before: []string{"pack"}, ran: []string{"part 1", "part 2", "part 3"}},
		{way: "pack it", held: "pack", ran: []string{"part 11", "part 12"}},
		{way: "pack", dies: "part 2", held: "pack", ran: []string{"part 2", "part 3"}},
		{way: "pack", dies: "part 1", ran: []string{"part 1", "part 2", "part 3"}},
		{way: "ask", held: "ask", ran: []string{"ask"}},
		{way: "ask", dies: "ask", ran: []string{"ask"}},
		{way: "fails", held: "fails", ran: []string{"handler"}},
		{way: "inner", dies: "two", held: "inner", ran: []string{"two"}},
		{way: "inner", before: []string{"inner"}, ran: []string{"one", "two"}},
	} {
		for _, noted := range []bool{true, false} {
			t.Run(fmt.Sprint(c.way, " ", c.dies, " ", c.before, " ", noted), func(t *testing.T) {
				s := saver.Saver(inMemory())
				ctx, die := context.WithCancel(t.Context())
				defer die()
				program := func(version string, names map[string]string, at func(what, key string) error, ms ...pregel.Migration) *graph.Graph[parts] {
					return renamable(t, s, version, names, at, ms...)
				}
				o := pregel.RunOptions{Durability: pregel.Sync, MaxConcurrency: 1, InterruptBefore: c.before}
				old := program("1", nil, func(what, _ string) error {
					if what == c.dies {
						die()
						return context.Canceled
					}
					return nil
				})
				if _, err := old.Run(ctx, pregel.Thread("t"), parts{Done: []string{c.way}}, o); (err != nil) != (c.dies != "") {
					t.Fatal(err)
				}
				from := "1"
				if !noted {
					s, from = noteless{s}, ""
				}
				var ran []string
				runs := func(what, _ string) error { ran = append(ran, what); return nil }
				now := program("2", names, runs, pregel.Migration{From: from, To: "2", Nodes: names})
				r, err := now.Preflight(t.Context(), nil, saver.ThreadQuery{})
				if err != nil || r.Threads != 1 || (len(r.Broken) == 0) != (c.held == "") {
					t.Fatalf("%v, %v", r, err)
				}
				input := any(nil)
				if state, err := now.State(t.Context(), pregel.Thread("t")); err != nil || c.held != "" && (!slices.Contains(state.Next, c.held) || slices.Contains(state.Next, names[c.held])) {
					t.Fatalf("%+v, %v", state, err) // a node that is held has the name under which it is stored
				} else if answers := map[string]any{}; len(state.Interrupts) > 0 {
					for _, in := range state.Interrupts {
						answers[in.ID] = "yes"
					}
					input = pregel.Command{Resume: answers}
				}
				if c.way == "fails" { // the question is the handler's
					input = pregel.Command{Resume: "yes"}
				}
				g := now.Untyped()
				if c.held != "" {
					var unknown *pregel.UnknownNodeError
					for _, in := range []any{input, nil, map[string]any{"done": []string{"x"}}} {
						if _, err := g.Invoke(t.Context(), pregel.Thread("t"), in); !errors.As(err, &unknown) || !slices.Equal(unknown.Nodes, []string{c.held}) || len(ran) > 0 {
							t.Fatalf("%v; ran %v", err, ran)
						}
					}
					g = program("1", nil, runs).Untyped()
				}
				if _, err := g.Invoke(t.Context(), pregel.Thread("t"), input, pregel.RunOptions{MaxConcurrency: 1}); err != nil || !slices.Equal(ran, c.ran) {
					t.Errorf("%v, %v; want %v", ran, err, c.ran)
				}
			})
		}
	}
}

// What a program stores on a thread of a former version has its own names: it goes on with that.
func TestRenamedPacketsThatBegan(t *testing.T) {
	s, ctx, names := inMemory(), t.Context(), map[string]string{"pack": "wrap"}
	quietly := func(_, _ string) error { return nil }
	o := pregel.RunOptions{InterruptBefore: []string{"pack"}}
	if _, err := renamable(t, s, "1", nil, quietly).Run(ctx, pregel.Thread("t"), parts{Done: []string{"pack"}}, o); err != nil {
		t.Fatal(err)
	}
	m := pregel.Migration{From: "1", To: "2", Nodes: names}
	run, die := context.WithCancel(ctx)
	dies := func(what, _ string) error {
		if what == "part 2" {
			die()
			return context.Canceled
		}
		return nil
	}
	o = pregel.RunOptions{MaxConcurrency: 1, Durability: pregel.Sync}
	if _, err := renamable(t, s, "2", names, dies, m).Continue(run, pregel.Thread("t"), o); err == nil {
		t.Fatal("it did not die")
	}
	var ran []string
	now := renamable(t, s, "2", names, func(what, _ string) error { ran = append(ran, what); return nil }, m)
	res, err := now.Continue(ctx, pregel.Thread("t"), o)
	if err != nil || !slices.Equal(ran, []string{"part 2", "part 3"}) || fmt.Sprint(res.State.Done) != "[pack part 1 part 2 part 3]" {
		t.Errorf("%v, %+v, %v", ran, res, err)
	}
}

// Two questions of a superstep are answered in two runs, and the first leads to a renamed node. The newer program runs that. One
// that was rolled back to in between does not have it, and says so.
func TestRenamesBetweenTwoAnswers(t *testing.T) {
	for _, back := range []bool{false, true} {
		s, ran := inMemory(), []string{}
		program := func(version, x string, ms ...pregel.Migration) *pregel.Graph {
			asks := func(question string, then ...string) graph.NodeFunc[parts] {
				return func(ctx context.Context, _ *parts) (graph.Update, error) {
					_, err := pregel.AskFor[string](ctx, question)
					if err != nil || len(then) == 0 {
						return nil, err
					}
					return graph.Goto(then...), nil
				}
			}
			does := func(what string) graph.NodeFunc[parts] {
				return func(context.Context, *parts) (graph.Update, error) { ran = append(ran, what); return nil, nil }
			}
			return must(graph.For[parts]().Node("router", asks("route?", x)).Node("other", asks("go on?")).Node(x, does("x")).Node("z", does("z")).
				Edge(graph.Start, "router").Edge(graph.Start, "other").Compile(graph.Options{Name: "g", Version: version, Saver: s, Migrations: ms})).Untyped()
		}
		old := program("1", "x")
		res := must(old.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"done": []string{"in"}}))
		answers := map[any]string{}
		for _, in := range res.Interrupts {
			answers[in.Value] = in.ID
		}
		answers2 := func(g *pregel.Graph, question string) error {
			_, err := g.Invoke(t.Context(), pregel.Thread("t"), pregel.Command{Resume: map[string]any{answers[question]: "yes"}})
			return err
		}
		now := program("2", "x2", pregel.Migration{From: "1", To: "2", Nodes: map[string]string{"x": "x2"}})
		if err := answers2(now, "route?"); err != nil {
			t.Fatal(err)
		}
		if back {
			var unknown *pregel.UnknownNodeError
			if err := answers2(old, "go on?"); !errors.As(err, &unknown) || !slices.Equal(unknown.Nodes, []string{"x2"}) {
				t.Errorf("rolled back: %v", err)
			}
			if state := must(old.GetState(t.Context(), pregel.Thread("t"))); state.Status == saver.StatusDone {
				t.Errorf("%+v", state)
			}
		}
		if err := answers2(now, "go on?"); err != nil || !slices.Equal(ran, []string{"x"}) {
			t.Errorf("rolled back %v: ran %v, %v", back, ran, err)
		}
	}
}

// A node that is left to run does not get replaced by a renamed one that has its name now.
func TestRenameToANameThatIsTaken(t *testing.T) {
	for _, noted := range []bool{true, false} {
		s, ran := saver.Saver(inMemory()), 0
		must(must(graph.For[parts]().Node("a", quiet[parts]).Node("b", quiet[parts]).Sequence(graph.Start, "a", "b").
			Compile(graph.Options{Name: "c", Version: "1", Saver: s})).
			Run(t.Context(), pregel.Thread("t"), parts{Done: []string{"in"}}, pregel.RunOptions{InterruptBefore: []string{"b"}}))
		from := "1"
		if !noted {
			s, from = noteless{s}, ""
		}
		now := must(graph.For[parts]().Node("b", func(context.Context, *parts) (graph.Update, error) { ran++; return nil, nil }).Edge(graph.Start, "b").
			Compile(graph.Options{Name: "c", Version: "2", Saver: s, Migrations: []pregel.Migration{{From: from, To: "2", Nodes: map[string]string{"a": "b"}}}}))
		r, err := now.Preflight(t.Context(), nil, saver.ThreadQuery{})
		if err != nil || len(r.Broken) != 1 || !errors.Is(r.Broken[0].Err, pregel.ErrUnknownNode) {
			t.Errorf("%v, %v", r, err)
		}
		if res, err := now.Continue(t.Context(), pregel.Thread("t")); !errors.Is(err, pregel.ErrUnknownNode) || ran > 0 {
			t.Errorf("%+v, %v; ran %d times", res, err, ran)
		}
	}
}

// Renames after which a name could mean two nodes are refused.
func TestRenamesThatOverlap(t *testing.T) {
	type names = map[string]string
	for name, c := range map[string]struct {
		first, second names
		says          string // "" if they are taken
	}{
		"fine":          {names{"a": "c"}, names{"b": "d"}, ""},
		"one name":      {names{"a": "c", "b": "c"}, nil, "two nodes"},
		"later one":     {names{"a": "c"}, names{"b": "c"}, "two nodes"},
		"in a row":      {names{"a": "b", "b": "c"}, nil, `straight to version "3"`},
		"change places": {names{"c": "d", "d": "c"}, nil, `straight to version "3"`},
		"two steps":     {names{"a": "b"}, names{"b": "c"}, `straight to version "3"`},
		"backwards":     {names{"b": "c"}, names{"a": "b"}, `straight to version "3"`},
		"itself":        {names{"a": "a"}, nil, `straight to version "3"`},
		"a node":        {names{"c": "e"}, nil, "another name"},
	} {
		_, err := graph.For[parts]().Node("c", quiet[parts]).Node("d", quiet[parts]).Edge(graph.Start, "c").
			Compile(graph.Options{Version: "3", Migrations: []pregel.Migration{{From: "1", To: "2", Nodes: c.first}, {From: "2", To: "3", Nodes: c.second}}})
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, pregel.ErrInvalidGraph) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A node that was renamed twice is found again by migrations that lead straight to the present version.
func TestRenamedTwice(t *testing.T) {
	s, ran := inMemory(), 0
	program := func(version, node string, ms ...pregel.Migration) *graph.Graph[parts] {
		return must(graph.For[parts]().Node("first", quiet[parts]).Node(node, func(context.Context, *parts) (graph.Update, error) { ran++; return nil, nil }).
			Sequence(graph.Start, "first", node).Compile(graph.Options{Name: "c", Version: version, Saver: s, Migrations: ms}))
	}
	rename := func(from, was string) pregel.Migration {
		return pregel.Migration{From: from, To: "3", Nodes: map[string]string{was: "last"}}
	}
	for version, node := range map[string]string{"1": "one", "2": "two"} {
		must(program(version, node).Run(t.Context(), pregel.Thread(node), parts{Done: []string{"in"}}, pregel.RunOptions{InterruptBefore: []string{node}}))
	}
	now := program("3", "last", rename("1", "one"), rename("2", "two"))
	if r := must(now.Preflight(t.Context(), nil, saver.ThreadQuery{})); len(r.Broken) > 0 {
		t.Error(r)
	}
	for n, node := range []string{"one", "two"} {
		if res, err := now.Continue(t.Context(), pregel.Thread(node)); err != nil || ran != n+1 {
			t.Errorf("%+v, %v; ran %d", res, err, ran)
		}
	}
}

// A history, and a preflight, look once for what graphs inside renamed nodes have stored, however many
// checkpoints there are.
func TestRenamedNodesAreLookedAtOnce(t *testing.T) {
	listed := 0
	s := saver.Intercept(inMemory(), func(ctx context.Context, c saver.Call, next func(context.Context) error) error {
		if c.Method == "List" {
			listed++
		}
		return next(ctx)
	})
	program := func(version, node string, ms ...pregel.Migration) *graph.Graph[parts] {
		return must(graph.For[parts]().Node(node, func(_ context.Context, p *parts) (graph.Update, error) {
			u := graph.Write(&p.Done, []string{"again"})
			if len(p.Done) < 150 {
				u = u.And(graph.Goto(node))
			}
			return u, nil
		}).Edge(graph.Start, node).Compile(graph.Options{Name: "l", Version: version, Saver: s, Migrations: ms}))
	}
	o := pregel.RunOptions{RecursionLimit: 200, InterruptAfter: []string{"x"}}
	must(program("1", "x").Run(t.Context(), pregel.Thread("waits"), parts{Done: []string{"in"}}, o))
	o.InterruptAfter = nil
	must(program("1", "x").Run(t.Context(), pregel.Thread("t"), parts{Done: []string{"in"}}, o))
	now := program("2", "x2", pregel.Migration{From: "1", To: "2", Nodes: map[string]string{"x": "x2"}})
	listed = 0
	rows := 0
	for _, err := range now.Untyped().GetStateHistory(t.Context(), pregel.Thread("t"), pregel.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		rows++
	}
	if rows < 150 || listed != 3 { // the history, and two pages
		t.Errorf("%d rows took %d listings", rows, listed)
	}
	listed = 0
	if r, err := now.Preflight(t.Context(), nil, saver.ThreadQuery{}); err != nil || r.Threads != 1 || len(r.Broken) > 0 || listed != 1 {
		t.Errorf("%v, %v: %d listings", r, err, listed)
	}
}

// Of a join that is gone, the error names the nodes that are gone: those that it waits for, and the one behind
// it. If all are there, it names the join.
func TestLostJoins(t *testing.T) {
	s := inMemory()
	program := func(joined []string, behind string, others ...string) *graph.Graph[parts] {
		b := graph.For[parts]().Node("asks", asks[parts]).Edge(graph.Start, "asks")
		for _, node := range append(others, joined...) {
			if node != "asks" {
				b.Node(node, quiet[parts]).Edge(graph.Start, node)
			}
		}
		return must(b.Node(behind, quiet[parts]).Join(joined, behind).Compile(graph.Options{Name: "j", Saver: s}))
	}
	must(program([]string{"a+b", "asks", "c"}, "end").Run(t.Context(), pregel.Thread("t"), parts{Done: []string{"in"}}))
	for _, x := range []struct {
		now  *graph.Graph[parts]
		gone []string
	}{
		{program([]string{"a+b", "asks"}, "end"), []string{"c"}},
		{program([]string{"a+b", "asks", "c"}, "last"), []string{"end"}},
		{program([]string{"asks"}, "last", "a+b"), []string{"c", "end"}},
		{program([]string{"a+b", "asks", "c", "d"}, "end"), []string{"join:a+b+asks+c:end"}},
	} {
		var unknown *pregel.UnknownNodeError
		if _, err := x.now.Resume(t.Context(), pregel.Thread("t"), "yes"); !errors.As(err, &unknown) || !slices.Equal(unknown.Nodes, x.gone) {
			t.Errorf("%v, want %q", err, x.gone)
		}
	}
}

// A copy of a checkpoint, made by a program that lacks a node which is left to run there, is refused as the
// original is, and the former program goes on with it.
func TestCopyKeepsNodesThatAreGone(t *testing.T) {
	s, at := inMemory(), pregel.Thread("t")
	program := func(node string) *graph.Graph[parts] {
		return must(graph.For[parts]().Node("first", quiet[parts]).Node(node, asks[parts]).Sequence(graph.Start, "first", node).
			Compile(graph.Options{Name: "c", Saver: s}))
	}
	must(program("ask").Run(t.Context(), at, parts{Done: []string{"in"}}))
	now := program("approve")
	must(now.Untyped().UpdateState(t.Context(), at, pregel.StateUpdate{AsNode: pregel.Copy}))
	if tup := must(s.GetTuple(t.Context(), saver.Config{ThreadID: "t"})); !slices.Equal(tup.Note.Next, []string{"ask"}) || tup.Metadata.Source() != "fork" {
		t.Errorf("the copy says that %q are left", tup.Note.Next)
	}
	if res, err := now.Continue(t.Context(), at); !errors.Is(err, pregel.ErrUnknownNode) {
		t.Errorf("%+v, %v", res, err)
	}
	if r := must(now.Preflight(t.Context(), nil, saver.ThreadQuery{})); len(r.Broken) != 1 || r.Broken[0].Node != "ask" {
		t.Error(r)
	}
	must(program("ask").Continue(t.Context(), at))
	if res, err := program("ask").Resume(t.Context(), at, "yes"); err != nil || len(res.Waiting) > 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// A copy of a checkpoint of a former version goes on as the original does.
func TestCopyOfAMigratedCheckpoint(t *testing.T) {
	for _, noted := range []bool{true, false} {
		s := saver.Saver(inMemory())
		program := func(version, node string, ms ...pregel.Migration) *graph.Graph[parts] {
			return must(graph.For[parts]().Node("first", quiet[parts]).Node(node, asks[parts]).Sequence(graph.Start, "first", node).
				Compile(graph.Options{Name: "c", Version: version, Saver: s, Migrations: ms}))
		}
		must(program("1", "ask").Run(t.Context(), pregel.Thread("t"), parts{Done: []string{"in"}}))
		from, read := "1", s
		if !noted {
			from, read = "", noteless{s}
		}
		s = read
		now := program("2", "approve", pregel.Migration{From: from, To: "2", Nodes: map[string]string{"ask": "approve"}})
		must(now.Untyped().UpdateState(t.Context(), pregel.Thread("t"), pregel.StateUpdate{AsNode: pregel.Copy})) // without the question
		if tup := must(s.GetTuple(t.Context(), saver.Config{ThreadID: "t"})); noted && !slices.Equal(tup.Note.Next, []string{"ask"}) {
			t.Errorf("the copy says that %q are left", tup.Note.Next)
		}
		if state := must(now.State(t.Context(), pregel.Thread("t"))); !slices.Equal(state.Next, []string{"approve"}) {
			t.Errorf("noted %v: %+v", noted, state)
		}
		if res, err := now.Continue(t.Context(), pregel.Thread("t")); err != nil || len(res.Waiting) != 1 {
			t.Errorf("noted %v: %+v, %v", noted, res, err)
		}
		if res, err := now.Resume(t.Context(), pregel.Thread("t"), "yes"); err != nil || len(res.Waiting) > 0 {
			t.Errorf("noted %v: %+v, %v", noted, res, err)
		}
	}
}
