package graph_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// Head is embedded in purchase.
type Head struct {
	ID string `json:"id"`
}

// purchase is a state with every kind of field.
type purchase struct {
	Head
	Items  []string       `json:"items" state:"append"`
	Total  int            `json:"total" state:"add"`
	Stock  map[string]int `json:"stock" state:"merge"`
	Status string         `json:"status"`
	Paid   bool           `json:"paid"`
	Note   *string        `json:"note"`
	Best   int            `json:"best"`
	Left   int            `json:"left"`
	Extra  any            `json:"extra"`
	cache  map[string]int `json:"-"`
}

func orders() *graph.StateBuilder[purchase] {
	highest := channel.Fold(nil, func(v int, w string) (int, error) { return max(v, len(w)), nil })
	return graph.For[purchase](graph.Key("best", highest), graph.Computed("left", channel.RemainingSteps))
}

func quiet[S any](context.Context, *S) (graph.Update, error) { return nil, nil }

// does is a node that returns what f does.
func does[S any](f func(s *S) graph.Update) graph.NodeFunc[S] {
	return func(_ context.Context, s *S) (graph.Update, error) { return f(s), nil }
}

func made[S any](t *testing.T, b *graph.StateBuilder[S], s saver.Saver) *graph.Graph[S] {
	t.Helper()
	g, err := b.Compile(graph.Options{Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func inMemory() saver.Saver { return memory.New(memory.Options{}) }

// ran is the state after a run of one node on input.
func ran(t *testing.T, input purchase, f func(s *purchase) graph.Update) (purchase, error) {
	t.Helper()
	g := made(t, orders().Node("a", does(f)).Edge(graph.Start, "a"), inMemory())
	res, err := g.Run(t.Context(), pregel.Thread("t"), input)
	if err != nil {
		return purchase{}, err
	}
	return res.State, nil
}

func TestWrites(t *testing.T) {
	start := purchase{Head: Head{"o1"}, Items: []string{"tea"}, Total: 5, Stock: map[string]int{"tea": 1}, Status: "open", Paid: true}
	got, err := ran(t, start, func(o *purchase) graph.Update {
		if o.ID != "o1" || o.Left < 1 || !reflect.DeepEqual(o.Items, []string{"tea"}) {
			t.Errorf("the node got %+v", *o)
		}
		return graph.Write(&o.Items, []string{"milk"}).And(
			graph.Write(&o.Total, 3), graph.Write(&o.Total, 4), graph.Write(&o.Stock, map[string]int{"milk": 2}),
			graph.Write(&o.Status, ""), graph.Write(&o.Paid, false), graph.Write(&o.ID, "o2"),
			graph.WriteAs(&o.Best, "four"), graph.Write(&o.Note, nil))
	})
	want := purchase{Head: Head{"o2"}, Items: []string{"tea", "milk"}, Total: 12, Stock: map[string]int{"tea": 1, "milk": 2}, Best: 4}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	got, err = ran(t, start, func(o *purchase) graph.Update {
		return graph.Overwrite(&o.Items, []string{"rice"}).And(graph.Overwrite(&o.Status, "new"), graph.Overwrite(&o.Total, 0))
	})
	if err != nil || !slices.Equal(got.Items, []string{"rice"}) || got.Status != "new" || got.Total != 0 {
		t.Errorf("overwritten: %+v, %v", got, err)
	}
}

// What would be lost is an error of the node, which names the field.
func TestUpdatesThatAreRefused(t *testing.T) {
	other := new(purchase)
	for what, c := range map[string]struct {
		f    func(o *purchase) graph.Update
		want string
	}{
		"of another value":     {func(*purchase) graph.Update { return graph.Write(&other.Status, "x") }, "points to no field of the graph_test.purchase"},
		"of a copy":            {func(o *purchase) graph.Update { c := *o; return graph.Write(&c.Status, "x") }, "points to no field"},
		"of no field":          {func(*purchase) graph.Update { return graph.Write(new(string), "x") }, "points to no field"},
		"of a nil field":       {func(*purchase) graph.Update { return graph.Write[string](nil, "x") }, "points to no field"},
		"of an embedded one":   {func(o *purchase) graph.Update { return graph.Write(&o.Head, Head{"x"}) }, "a *graph_test.Head was written"},
		"of one left out":      {func(o *purchase) graph.Update { return graph.Write(&o.cache, nil) }, "points to no field"},
		"computed":             {func(o *purchase) graph.Update { return graph.Write(&o.Left, 1) }, "Left is computed"},
		"changed in place":     {func(o *purchase) graph.Update { o.Status = "x"; return nil }, "it changed field Status in place"},
		"list in place":        {func(o *purchase) graph.Update { o.Items = append(o.Items, "x"); return nil }, "it changed field Items in place"},
		"embedded in place":    {func(o *purchase) graph.Update { o.ID = "x"; return nil }, "it changed field Head.ID in place"},
		"unstorable in an any": {func(o *purchase) graph.Update { return graph.Write(&o.Extra, any(func() {})) }, "field Extra"},
		"to no node":           {func(*purchase) graph.Update { return graph.Goto("b") }, `goes to "b", which is no node`},
		"packet to no node":    {func(*purchase) graph.Update { return graph.Send("b", 1) }, `sends to "b", which is no node`},
		"packet of a wrong type": {func(*purchase) graph.Update { return graph.Send("a", 1) },
			`sends an integer to "a", which takes an object (graph_test.purchase)`},
		"packet with no field": {func(*purchase) graph.Update { return graph.Send("a", map[string]any{"staus": 1}) }, `"staus" to "a", which is no field`},
		"parent with no field": {func(*purchase) graph.Update {
			return graph.Parent(func(*Head) graph.Update { return graph.Write(new(string), "x") })
		}, "points to no field of the graph_test.Head"},
	} {
		_, err := ran(t, purchase{Status: "open"}, c.f)
		if !errors.Is(err, pregel.ErrInvalidUpdate) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	// A reducer's own type of writes is known only when it is written.
	_, err := ran(t, purchase{}, func(o *purchase) graph.Update { return graph.WriteAs(&o.Best, []int{1}) })
	var mistyped *graph.StateError
	if !errors.As(err, &mistyped) || mistyped.Field != "Best" || mistyped.ThreadID != "t" {
		t.Errorf("a write of a wrong type: %v", err)
	}
	// In place and written is fine.
	got, err := ran(t, purchase{}, func(o *purchase) graph.Update { o.Status = "x"; return graph.Write(&o.Status, o.Status) })
	if err != nil || got.Status != "x" {
		t.Errorf("in place and written: %+v, %v", got, err)
	}
}

func TestBuilderRefuses(t *testing.T) {
	path := func(context.Context, *purchase) (string, error) { return "a", nil }
	fine := func() *graph.StateBuilder[purchase] { return orders().Node("a", quiet).Edge(graph.Start, "a") }
	raw := graph.NodeOptions{OnError: func(context.Context, any) (any, error) { return nil, nil }}
	worker := func(b *graph.StateBuilder[purchase]) *graph.StateBuilder[purchase] {
		graph.Worker(b, "w", func(context.Context, int, *purchase) (graph.Update, error) { return nil, nil })
		return b
	}
	unstorable := fine()
	graph.Worker(unstorable, "w", func(context.Context, chan int, *purchase) (graph.Update, error) { return nil, nil })
	for what, b := range map[string]*graph.StateBuilder[purchase]{
		"unstorable packets":  unstorable,
		"no function":         fine().Node("b", nil),
		"twin node":           fine().Node("a", quiet),
		"no path":             fine().Conditional("a", nil, "a"),
		"no branch":           fine().Branch("a", nil, "a"),
		"no ends":             fine().Conditional("a", path),
		"unknown end":         fine().Conditional("a", path, "a", "b"),
		"unknown target":      fine().Edge("a", "b"),
		"unknown read":        fine().Node("b", quiet, graph.NodeOptions{Reads: []string{"staus"}}),
		"untyped handler":     fine().Node("b", quiet, raw),
		"untyped default":     fine().Defaults(raw),
		"untyped, inside":     fine().Subgraph("b", nil, raw),
		"no graph inside":     fine().Subgraph("b", nil),
		"no handler":          fine().OnError("a", nil),
		"two handlers":        fine().OnError("a", quiet).OnError("a", quiet),
		"handler of nothing":  fine().OnError("b", quiet),
		"edge to a worker":    worker(fine()).Edge("a", "w"),
		"join to a worker":    worker(fine()).Join([]string{"a"}, "w"),
		"unknown output":      fine().Output("staus"),
		"nothing to begin":    orders().Node("a", quiet),
		"empty sequence":      fine().Sequence(),
		"no keys of the join": fine().Join(nil, "a"),
	} {
		if _, err := b.Compile(graph.Options{}); !errors.Is(err, pregel.ErrInvalidGraph) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := fine().Input("items").Output("items").Compile(graph.Options{}); err != nil {
		t.Error(err)
	}
}

func TestConditionalEdges(t *testing.T) {
	b := orders()
	count := graph.Worker(b, "count", func(_ context.Context, word string, o *purchase) (graph.Update, error) {
		if o.Items != nil {
			t.Error("a worker got a state")
		}
		return graph.Write(&o.Total, len(word)), nil
	})
	b.Node("split", quiet).Node("cheap", does(func(o *purchase) graph.Update { return graph.Write(&o.Status, fmt.Sprint("cheap ", o.Total)) }))
	b.Node("dear", does(func(o *purchase) graph.Update { return graph.Write(&o.Status, fmt.Sprint("dear ", o.Total)) }))
	b.Branch("split", func(_ context.Context, o *purchase) (graph.Update, error) {
		return count.Send(o.Items...).Goto("side"), nil
	}, count.Name(), "side")
	b.Node("side", quiet).Node("price", quiet).Join([]string{"side", count.Name()}, "price")
	b.Conditional("price", func(_ context.Context, o *purchase) (string, error) {
		if o.Total < 10 {
			return "cheap", nil
		}
		return "dear", nil
	}, "cheap", "dear")
	g := made(t, b.Edge(graph.Start, "split"), inMemory())
	for want, items := range map[string][]string{"cheap 7": {"tea", "milk"}, "dear 11": {"coffee", "bread"}} {
		res, err := g.Run(t.Context(), pregel.Thread(want), purchase{Items: items})
		if err != nil || res.State.Status != want {
			t.Errorf("%s: %+v, %v", want, res, err)
		}
	}
	for what, path := range map[string]graph.NodeFunc[purchase]{
		"leads nowhere":        does(func(*purchase) graph.Update { return graph.Goto("b") }),
		"is no end":            does(func(*purchase) graph.Update { return graph.Goto("a") }),
		"writes":               does(func(o *purchase) graph.Update { return graph.Write(&o.Status, "x") }),
		"changes in place":     does(func(o *purchase) graph.Update { o.Status = "x"; return graph.Goto(graph.End) }),
		"sends to no end":      does(func(o *purchase) graph.Update { return graph.Send("a", *o) }),
		"goes to a worker":     does(func(*purchase) graph.Update { return graph.Goto("w") }),
		"sends a wrong packet": does(func(*purchase) graph.Update { return graph.Send("w", "x") }),
	} {
		b := orders().Node("a", quiet).Edge(graph.Start, "a")
		graph.Worker(b, "w", func(context.Context, int, *purchase) (graph.Update, error) { return nil, nil })
		g := made(t, b.Branch("a", path, "w", graph.End), nil)
		if _, err := g.Run(t.Context(), pregel.Address{}, purchase{}); !errors.Is(err, pregel.ErrInvalidUpdate) {
			t.Errorf("a path that %s: %v", what, err)
		}
	}
}

// A packet to a node is a whole state, or a part of one.
func TestPacketsOfStates(t *testing.T) {
	b := orders().Node("split", does(func(o *purchase) graph.Update {
		half := *o
		half.Items = half.Items[:1]
		return graph.Send("count", half).And(graph.Send("count", o), graph.Send("count", map[string]any{"items": []string{"x", "y", "z"}}))
	})).Node("count", does(func(o *purchase) graph.Update { return graph.Write(&o.Total, len(o.Items)) })).Edge(graph.Start, "split")
	res, err := made(t, b, inMemory()).Run(t.Context(), pregel.Thread("t"), purchase{Items: []string{"a", "b"}})
	if err != nil || res.State.Total != 1+2+3 {
		t.Errorf("%+v, %v", res, err)
	}
}

type question struct {
	Text string `json:"text"`
	Sum  int    `json:"sum"`
}

// pays asks, and then pays.
func pays(t *testing.T, s saver.Saver) *graph.Graph[purchase] {
	return made(t, orders().Node("ask", func(ctx context.Context, o *purchase) (graph.Update, error) {
		ok, err := pregel.AskFor[bool](ctx, question{"pay?", o.Total})
		if err != nil {
			return nil, err
		}
		return graph.Write(&o.Paid, ok), nil
	}).Node("close", does(func(o *purchase) graph.Update { return graph.Write(&o.Status, fmt.Sprint("closed ", o.Paid)) })).
		Sequence(graph.Start, "ask", "close", graph.End), s)
}

func TestQuestionsAndAnswers(t *testing.T) {
	ctx, at := t.Context(), pregel.Thread("t")
	g := pays(t, inMemory())
	if _, err := g.Resume(ctx, at, true); err == nil {
		t.Error("an answer to nobody was taken")
	}
	res, err := g.Run(ctx, at, purchase{Total: 5})
	if err != nil || len(res.Waiting) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	if q, err := graph.QuestionOf[question](res.Waiting[0]); err != nil || q != (question{"pay?", 5}) {
		t.Errorf("the question is %+v, %v", q, err)
	}
	snap, err := g.State(ctx, at)
	if err != nil || snap.State.Total != 5 || !slices.Equal(snap.Next, []string{"ask"}) || snap.Status != saver.StatusWaiting {
		t.Errorf("waiting: %+v, %v", snap, err)
	}
	if q, err := graph.QuestionOf[question](snap.Interrupts[0]); err != nil || q.Sum != 5 {
		t.Errorf("the stored question is %+v, %v", q, err)
	}
	if _, err := g.Resume(ctx, at, "perhaps"); err == nil {
		t.Error("an answer of a wrong type was taken")
	}
	if res, err = g.Resume(ctx, at, true); err != nil || res.State.Status != "closed true" || len(res.Waiting) > 0 {
		t.Errorf("answered: %+v, %v", res, err)
	}
	if _, err := g.Resume(ctx, at, true); !errors.Is(err, pregel.ErrNoInterrupt) {
		t.Errorf("a second answer: %v", err)
	}
}

func TestCommands(t *testing.T) {
	ctx, at := t.Context(), pregel.Thread("t")
	g := pays(t, inMemory())
	if _, err := g.Run(ctx, at, purchase{Total: 5, Note: new(string)}); err != nil {
		t.Fatal(err)
	}
	res, err := g.Do(ctx, at, graph.Command[purchase]{Resume: false, Update: func(o *purchase) graph.Update { return graph.Write(&o.Total, 1) }})
	if err != nil || res.State.Total != 6 || res.State.Status != "closed false" {
		t.Errorf("answered with an update: %+v, %v", res, err)
	}
	res, err = g.Do(ctx, at, graph.Command[purchase]{Input: func(o *purchase) graph.Update {
		return graph.Write(&o.Status, "").And(graph.Overwrite(&o.Total, 0), graph.Write(&o.Note, nil))
	}})
	if err != nil || res.State.Status != "" || res.State.Total != 0 || res.State.Note != nil || len(res.Waiting) != 1 {
		t.Errorf("new input with zero values: %+v, %v", res, err)
	}
	res, err = g.Do(ctx, at, graph.Command[purchase]{Update: func(*purchase) graph.Update { return graph.Goto("close") }})
	if err != nil || res.State.Status != "closed false" {
		t.Errorf("steered: %+v, %v", res, err)
	}
	for what, c := range map[string]graph.Command[purchase]{
		"input and answer": {Resume: 1, Input: func(*purchase) graph.Update { return nil }},
		"input that goes":  {Input: func(*purchase) graph.Update { return graph.Goto("close") }},
		"to no node":       {Update: func(*purchase) graph.Update { return graph.Goto("b") }},
		"in place":         {Update: func(o *purchase) graph.Update { o.Total = 1; return nil }},
		"to nobody":        {Update: func(*purchase) graph.Update { return graph.Parent(func(*purchase) graph.Update { return nil }) }},
	} {
		if _, err := g.Do(ctx, at, c); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
	keys := pregel.One("total")
	if _, err := g.Continue(ctx, at, pregel.RunOptions{OutputKeys: &keys}); !errors.Is(err, pregel.ErrInvalidArgument) {
		t.Errorf("a single output key: %v", err)
	}
}

func TestStreamOfStates(t *testing.T) {
	ctx, at := t.Context(), pregel.Thread("t")
	g := pays(t, inMemory())
	o := pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeValues, pregel.ModeUpdates}}
	var totals []int
	asked := 0
	for e, err := range g.Stream(ctx, at, purchase{Total: 5}, o) {
		if err != nil {
			t.Fatal(err)
		}
		if e.State != nil {
			totals = append(totals, e.State.Total)
		}
		asked += len(e.Interrupts)
		if (e.State != nil) != (e.Mode == pregel.ModeValues) {
			t.Errorf("event %+v", e)
		}
	}
	if !slices.Equal(totals, []int{5, 5}) || asked == 0 {
		t.Errorf("totals %v, asked %d", totals, asked)
	}
	var last string
	for e, err := range g.StreamDo(ctx, at, graph.Command[purchase]{Resume: true}, o) {
		if err != nil {
			t.Fatal(err)
		}
		if e.State != nil {
			last = e.State.Status
		}
	}
	if last != "closed true" {
		t.Errorf("the stream ended with %q", last)
	}
	for _, err := range g.StreamDo(ctx, at, graph.Command[purchase]{Resume: true}, o) {
		if !errors.Is(err, pregel.ErrNoInterrupt) {
			t.Error(err)
		}
	}
	for range g.Stream(ctx, pregel.Thread("stopped"), purchase{Total: 5}, o) {
		break
	}
}

func TestHistoryAndForks(t *testing.T) {
	ctx, at := t.Context(), pregel.Thread("t")
	g := made(t, orders().Node("choose", does(func(o *purchase) graph.Update { return graph.Write(&o.Status, "cats") })).
		Node("write", does(func(o *purchase) graph.Update { return graph.Write(&o.Items, []string{"about " + o.Status}) })).
		Sequence(graph.Start, "choose", "write", graph.End), inMemory())
	if _, err := g.Run(ctx, at, purchase{Head: Head{"o"}}); err != nil {
		t.Fatal(err)
	}
	var before *graph.Snapshot[purchase]
	for s, err := range g.History(ctx, at, pregel.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(s.Next, []string{"write"}) {
			before = s
		}
	}
	if before == nil || before.State.Status != "cats" || before.State.ID != "o" {
		t.Fatalf("the state before write: %+v", before)
	}
	res, err := g.Fork(ctx, before.Address, func(o *purchase) graph.Update { return graph.Write(&o.Status, "dogs") })
	if err != nil || !slices.Equal(res.State.Items, []string{"about dogs"}) {
		t.Errorf("forked: %+v, %v", res, err)
	}
	if res, err = g.Fork(ctx, before.Address, nil); err != nil || !slices.Equal(res.State.Items, []string{"about cats"}) {
		t.Errorf("again: %+v, %v", res, err)
	}
	if _, err := g.Fork(ctx, at, nil); !errors.Is(err, pregel.ErrInvalidArgument) {
		t.Errorf("a fork of the newest: %v", err)
	}
	if _, err := g.Fork(ctx, before.Address, func(*purchase) graph.Update { return graph.Goto("x") }); !errors.Is(err, pregel.ErrInvalidUpdate) {
		t.Errorf("a fork to nowhere: %v", err)
	}
	// An update is one of a node; a nil one follows its edges.
	moved, err := g.Update(ctx, at, func(o *purchase) graph.Update { return graph.Write(&o.Status, "") }, graph.UpdateOptions{AsNode: "choose"})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := g.State(ctx, moved)
	if err != nil || snap.State.Status != "" || !slices.Equal(snap.Next, []string{"write"}) {
		t.Errorf("updated: %+v, %v", snap, err)
	}
	if _, err := g.Update(ctx, at, nil, graph.UpdateOptions{AsNode: pregel.End}); err != nil {
		t.Error(err)
	}
	if empty, err := g.State(ctx, pregel.Thread("nobody")); err != nil || empty.State.Status != "" || empty.Address.ThreadID != "nobody" {
		t.Errorf("no thread: %+v, %v", empty, err)
	}
}

// The defaults are the safe ones: what is unfinished is finished first, and one run at a
// time has the thread.
func TestSafeDefaults(t *testing.T) {
	ctx, at := t.Context(), pregel.Thread("t")
	inside, goOn := make(chan struct{}), make(chan struct{})
	stop, cancel := context.WithCancel(ctx)
	b := orders().Node("a", func(ctx context.Context, o *purchase) (graph.Update, error) {
		if o.Status == "cut" && len(o.Items) == 0 {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if o.Status == "slow" {
			close(inside)
			<-goOn
		}
		return graph.Write(&o.Items, []string{o.Status}), nil
	}).Edge(graph.Start, "a")
	s := inMemory()
	g := made(t, b, s)
	if _, err := g.Run(stop, at, purchase{Status: "cut"}); err == nil {
		t.Fatal("the first run was not cut")
	}
	// What is left would be cut again, so another graph finishes it.
	b = orders().Node("a", does(func(o *purchase) graph.Update { return graph.Write(&o.Items, []string{o.Status}) })).Edge(graph.Start, "a")
	res, err := made(t, b, s).Run(ctx, at, purchase{Status: "new"})
	if err != nil || !slices.Equal(res.State.Items, []string{"cut", "new"}) {
		t.Errorf("after a cut run: %+v, %v", res, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := g.Run(ctx, at, purchase{Status: "slow"})
		done <- err
	}()
	<-inside
	if _, err := g.Run(ctx, at, purchase{Status: "other"}); !errors.Is(err, pregel.ErrConflict) {
		t.Errorf("a second run: %v", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A graph with a state of its own, called by a node.
func TestGraphInsideWithItsOwnState(t *testing.T) {
	type review struct {
		Text  string `json:"text"`
		Notes []string
	}
	ctx, at := t.Context(), pregel.Thread("t")
	inner := made(t, graph.For[review]().Node("edit", func(ctx context.Context, r *review) (graph.Update, error) {
		better, err := pregel.AskFor[string](ctx, "improve "+r.Text)
		if err != nil {
			return nil, err
		}
		return graph.Write(&r.Text, better), nil
	}).Edge(graph.Start, "edit"), nil)
	g := made(t, orders().Node("review", func(ctx context.Context, o *purchase) (graph.Update, error) {
		res, err := inner.Run(ctx, pregel.Inside(), review{Text: o.Status})
		if err != nil {
			return nil, err
		}
		return graph.Write(&o.Status, res.State.Text), nil
	}, graph.NodeOptions{Subgraphs: []*pregel.Graph{inner.Untyped()}}).Edge(graph.Start, "review"), inMemory())
	res, err := g.Run(ctx, at, purchase{Status: "draft"})
	if err != nil || len(res.Waiting) != 1 || res.Waiting[0].Value != "improve draft" {
		t.Fatalf("%+v, %v", res, err)
	}
	if res, err = g.Resume(ctx, at, "final"); err != nil || res.State.Status != "final" {
		t.Errorf("%+v, %v", res, err)
	}
}

// A graph that shares keys, and a Command for the graph around it.
func TestSharedKeysAndParents(t *testing.T) {
	type inside struct {
		Items []string `json:"items" state:"append"`
		Own   string
	}
	inner := made(t, graph.For[inside]().
		Node("own", does(func(s *inside) graph.Update { return graph.Write(&s.Own, "private") })).
		Node("up", does(func(s *inside) graph.Update {
			return graph.Parent(func(o *purchase) graph.Update { return graph.Write(&o.Status, "from "+s.Own).Goto("end") })
		})).Sequence(graph.Start, "own", "up"), nil)
	shared := made(t, graph.For[inside]().Node("say", does(func(s *inside) graph.Update {
		return graph.Write(&s.Items, []string{fmt.Sprint("inside ", len(s.Items))})
	})).Edge(graph.Start, "say"), nil)
	g := made(t, orders().Subgraph("shared", shared.Untyped()).Subgraph("sub", inner.Untyped()).
		Node("end", does(func(o *purchase) graph.Update { return graph.Write(&o.Paid, true) })).
		Sequence(graph.Start, "shared", "sub"), inMemory())
	res, err := g.Run(t.Context(), pregel.Thread("t"), purchase{Items: []string{"a"}})
	if err != nil || res.State.Status != "from private" || !res.State.Paid || !slices.Equal(res.State.Items, []string{"a", "a", "inside 1"}) {
		t.Errorf("%+v, %v", res, err)
	}
	alone := made(t, graph.For[inside]().Node("up", does(func(*inside) graph.Update {
		return graph.Parent(func(*purchase) graph.Update { return graph.Parent(func(*purchase) graph.Update { return nil }) })
	})).Edge(graph.Start, "up"), nil)
	if _, err := alone.Run(t.Context(), pregel.Address{}, inside{}); !errors.Is(err, pregel.ErrInvalidUpdate) {
		t.Errorf("a Parent in a Parent: %v", err)
	}
}

func TestHandlersOfErrors(t *testing.T) {
	broken := errors.New("broken")
	fails := func(context.Context, *purchase) (graph.Update, error) { return nil, broken }
	says := func(word string) graph.NodeFunc[purchase] {
		return func(ctx context.Context, o *purchase) (graph.Update, error) {
			info, _ := pregel.Task(ctx)
			return graph.Write(&o.Items, []string{fmt.Sprint(word, " ", info.Failure.Node, " ", o.Status)}), nil
		}
	}
	b := orders().OnError("a", says("own")).OnError(pregel.AllNodes, says("default")).Node("a", fails).Node("b", fails)
	send := graph.Worker(b, "w", func(context.Context, int, *purchase) (graph.Update, error) { return nil, broken })
	b.Branch(graph.Start, does(func(*purchase) graph.Update { return send.Send(1).Goto("a", "b") }), "a", "b", "w")
	res, err := made(t, b, inMemory()).Run(t.Context(), pregel.Thread("t"), purchase{Status: "open"})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(res.State.Items)
	if want := []string{"default b open", "default w ", "own a open"}; !slices.Equal(res.State.Items, want) {
		t.Errorf("handled: %q, want %q", res.State.Items, want)
	}
}

func TestContextOfARun(t *testing.T) {
	type deps struct{ user string }
	g := made(t, orders().Node("a", func(ctx context.Context, o *purchase) (graph.Update, error) {
		d, err := graph.ContextOf[*deps](ctx)
		if err != nil {
			return nil, err
		}
		return graph.Write(&o.Status, d.user), nil
	}).Edge(graph.Start, "a"), nil)
	res, err := g.Run(t.Context(), pregel.Address{}, purchase{}, pregel.RunOptions{Context: &deps{"ada"}})
	if err != nil || res.State.Status != "ada" {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := g.Run(t.Context(), pregel.Address{}, purchase{}, pregel.RunOptions{Context: deps{"ada"}}); !errors.Is(err, pregel.ErrInvalidArgument) {
		t.Errorf("another type: %v", err)
	}
	if _, err := graph.ContextOf[*deps](t.Context()); !errors.Is(err, pregel.ErrOutsideTask) {
		t.Errorf("outside of a task: %v", err)
	}
}

// TestContextFromOutside: a context that is a map, as clients of a server send it, is read as the
// type that a node needs.
func TestContextFromOutside(t *testing.T) {
	type deps struct {
		User string `json:"user"`
		N    int    `json:"n"`
	}
	g := made(t, orders().Node("a", func(ctx context.Context, o *purchase) (graph.Update, error) {
		d, err := graph.ContextOf[deps](ctx)
		return graph.Write(&o.Status, fmt.Sprint(d.User, d.N)), err
	}).Edge(graph.Start, "a"), nil)
	for want, given := range map[string]map[string]any{"ada7": {"user": "ada", "n": int64(7), "other": true}, "0": {}} {
		res, err := g.Run(t.Context(), pregel.Address{}, purchase{}, pregel.RunOptions{Context: given})
		if err != nil || res.State.Status != want {
			t.Errorf("%v: %+v, %v", given, res, err)
		}
	}
	if _, err := g.Run(t.Context(), pregel.Address{}, purchase{}, pregel.RunOptions{Context: map[string]any{"user": 7}}); !errors.Is(err, pregel.ErrInvalidArgument) {
		t.Errorf("a number for a text: %v", err)
	}
}

// A compiled graph does not change with its builder, nor with one compiled after it.
func TestBuilderAfterCompile(t *testing.T) {
	b := orders().Node("a", does(func(*purchase) graph.Update { return graph.Goto("b") })).Edge(graph.Start, "a")
	first := made(t, b, nil)
	second := made(t, b.Node("b", does(func(o *purchase) graph.Update { return graph.Write(&o.Status, "b") })), nil)
	if _, err := first.Run(t.Context(), pregel.Address{}, purchase{}); !errors.Is(err, pregel.ErrInvalidUpdate) {
		t.Errorf("the first graph knows the node of the second: %v", err)
	}
	if res, err := second.Run(t.Context(), pregel.Address{}, purchase{}); err != nil || res.State.Status != "b" {
		t.Errorf("%+v, %v", res, err)
	}
	if !slices.Equal(second.Untyped().Nodes(), []string{graph.Start, "a", "b"}) {
		t.Errorf("nodes %q", second.Untyped().Nodes())
	}
}

// numbers says itself how it is kept.
type numbers []string

func (numbers) Channel() channel.Channel { return channel.Reduce(channel.Append[int]) }

type sayings struct {
	Words []string
	Kept  keptWords
}

type keptWords []string

func (keptWords) Channel() channel.Channel {
	return channel.Reduce(func(v, w keptWords) keptWords { return append(v, w...) })
}

func TestTypeThatSaysHowItIsKept(t *testing.T) {
	g := made(t, graph.For[sayings]().Node("a", does(func(s *sayings) graph.Update {
		return graph.Write(&s.Kept, keptWords{"b"}).And(graph.Write(&s.Words, []string{"b"}))
	})).Edge(graph.Start, "a"), nil)
	res, err := g.Run(t.Context(), pregel.Address{}, sayings{Words: []string{"a"}, Kept: keptWords{"a"}})
	if err != nil || !slices.Equal(res.State.Kept, keptWords{"a", "b"}) || !slices.Equal(res.State.Words, []string{"b"}) {
		t.Errorf("%+v, %v", res, err)
	}
	if err := compiles[struct{ W numbers }](); err == nil || !strings.Contains(err.Error(), "W: has type graph_test.numbers, but its channel holds []int") {
		t.Errorf("a channel of another type: %v", err)
	}
}
