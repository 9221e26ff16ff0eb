package graph_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// doc1 is a state as an older program had it.
type doc1 struct {
	Title string   `json:"title"`
	Body  []string `json:"body" state:"append"`
	Log   []string `json:"log"`
	Count int32    `json:"count"`
	Draft bool     `json:"draft"`
	Loc   struct {
		Lat  int    `json:"lat"`
		Note string `json:"note"`
	} `json:"loc"`
}

func deltaList() channel.Channel {
	return channel.Delta(100, func(v []string, ws [][]string) ([]string, error) {
		for _, w := range ws {
			v = append(v, w...)
		}
		return v, nil
	})
}

// older runs the older program on thread t, twice. It stops at a question, with the writes
// of a task pending beside it.
func older(t *testing.T, s saver.Saver) {
	t.Helper()
	g := made(t, graph.For[doc1](graph.Key("log", deltaList())).
		Node("fill", does(func(d *doc1) graph.Update {
			d.Loc.Lat, d.Loc.Note = 7, "here"
			return graph.Write(&d.Count, d.Count+1).And(graph.Write(&d.Draft, true), graph.Write(&d.Loc, d.Loc), graph.Write(&d.Log, []string{"fill"}))
		})).
		Node("write", does(func(d *doc1) graph.Update {
			return graph.Write(&d.Body, []string{"written"}).And(graph.Write(&d.Log, []string{"write"}))
		})).
		Node("ask", asks[doc1]).Sequence(graph.Start, "fill", "write").Edge("fill", "ask"), s)
	for _, title := range []string{"first", "second"} {
		if _, err := g.Run(t.Context(), pregel.Thread("t"), doc1{Title: title, Body: []string{title}}); err != nil {
			t.Fatal(err)
		}
		if title == "first" {
			if _, err := g.Resume(t.Context(), pregel.Thread("t"), "yes"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func asks[S any](ctx context.Context, _ *S) (graph.Update, error) {
	_, err := pregel.AskFor[string](ctx, "go on?")
	return nil, err
}

// newer is the newer program. It has the same nodes, which write nothing, and one more.
func newer[S any](t *testing.T, s saver.Saver, fields ...graph.Field) (*graph.Graph[S], error) {
	t.Helper()
	return graph.For[S](fields...).Node("fill", quiet[S]).Node("write", quiet[S]).Node("ask", asks[S]).
		Sequence(graph.Start, "fill", "write").Edge("fill", "ask").Compile(graph.Options{Saver: s})
}

// evolves runs check on what the newer program finds, on disk and in memory, and again
// after another restart.
func evolves[S any](t *testing.T, check func(t *testing.T, when string, s S), fields ...graph.Field) {
	t.Helper()
	for _, l := range restarts(t) {
		t.Run(l.name, func(t *testing.T) {
			ctx, at := t.Context(), pregel.Thread("t")
			older(t, l.open(t))
			s := l.open(t)
			g, err := newer[S](t, s, fields...)
			if err != nil {
				t.Fatal(err)
			}
			snap, err := g.State(ctx, at)
			if err != nil || len(snap.Interrupts) != 1 {
				t.Fatalf("%+v, %v", snap, err)
			}
			check(t, "at first", snap.State)
			checkpoints := 0
			for h, err := range g.History(ctx, at, pregel.HistoryQuery{}) {
				if err != nil {
					t.Fatalf("history: %v", err)
				}
				checkpoints++
				_ = h
			}
			res, err := g.Resume(ctx, at, "yes")
			if err != nil || checkpoints == 0 {
				t.Fatalf("resumed: %v; %d checkpoints", err, checkpoints)
			}
			check(t, "after the run", res.State)
			s = l.open(t)
			if g, err = newer[S](t, s, fields...); err != nil {
				t.Fatal(err)
			}
			if snap, err = g.State(ctx, at); err != nil {
				t.Fatal(err)
			}
			check(t, "stored again", snap.State)
			copied, err := g.Update(ctx, at, nil, graph.UpdateOptions{AsNode: pregel.Copy})
			if err != nil {
				t.Fatal(err)
			}
			if snap, err = g.State(ctx, copied); err != nil {
				t.Fatal(err)
			}
			check(t, "copied", snap.State)
		})
	}
}

var (
	bodyWas = []string{"first", "written", "second", "written"}
	logWas  = []string{"fill", "write", "fill", "write"}
)

func TestFieldAddedOrRemoved(t *testing.T) {
	type doc2 struct {
		Title  string   `json:"title"`
		Body   []string `json:"body" state:"append"`
		Author string   `json:"author"`
		Tags   []string `json:"tags" state:"append"`
		Views  *int     `json:"views"`
	}
	evolves(t, func(t *testing.T, when string, s doc2) {
		if s.Title != "second" || !slices.Equal(s.Body, bodyWas) || s.Author != "" || len(s.Tags) > 0 || s.Views != nil {
			t.Errorf("%s: %+v", when, s)
		}
	})
}

func TestFieldRenamed(t *testing.T) {
	type doc2 struct {
		Heading string   `json:"heading" state:"alias=name,alias=title"`
		Text    []string `json:"text" state:"append,alias=body"`
		Journal []string `json:"journal" state:"alias=log"`
		Count   int32    `json:"count"`
	}
	evolves(t, func(t *testing.T, when string, s doc2) {
		if s.Heading != "second" || !slices.Equal(s.Text, bodyWas) || !slices.Equal(s.Journal, logWas) || s.Count != 2 {
			t.Errorf("%s: %+v", when, s)
		}
	}, graph.Key("journal", deltaList()))
}

// TestFieldInsideRenamed: a field of a nested struct is read under its former names: the present name
// first, then the former ones as they stand in the tag. Under those it is not stored again.
func TestFieldInsideRenamed(t *testing.T) {
	type place struct {
		Latitude int    `json:"latitude" state:"alias=lat"`
		Remark   string `json:"remark" state:"alias=comment,alias=note,alias=lat"`
	}
	type doc2 struct {
		Loc place `json:"loc"`
	}
	if _, err := graph.For[doc2]().Node("a", quiet[doc2]).Edge(graph.Start, "a").Compile(graph.Options{}); err == nil {
		t.Error("two fields have one former name")
	}
	type good struct {
		Latitude int    `json:"latitude" state:"alias=lat"`
		Remark   string `json:"remark" state:"alias=comment,alias=note"`
	}
	type doc3 struct {
		Place  good             `json:"place" state:"alias=loc"`
		Places []good           `json:"places"`
		ByName map[string]*good `json:"by_name"`
	}
	evolves(t, func(t *testing.T, when string, s doc3) {
		if s.Place != (good{7, "here"}) {
			t.Errorf("%s: %+v", when, s)
		}
	})
	for name, c := range map[string]struct {
		stored map[string]any
		want   good
	}{
		"former":            {map[string]any{"lat": 1, "note": "n"}, good{1, "n"}},
		"both":              {map[string]any{"lat": 1, "latitude": 2, "note": "n", "remark": "r"}, good{2, "r"}},
		"two former names":  {map[string]any{"note": "n", "comment": "c"}, good{0, "c"}},
		"present but empty": {map[string]any{"remark": "", "note": "n"}, good{0, ""}},
		"nothing":           {map[string]any{"other": 1}, good{}},
	} {
		for _, l := range restarts(t) {
			at, s := pregel.Thread(name), l.open(t)
			before, err := graph.New(graph.Key("places", channel.LastValue[any]()), graph.Key("by_name", channel.LastValue[any]())).
				Node("a", func(context.Context, any) (any, error) { return nil, nil }).Edge(graph.Start, "a").Compile(graph.Options{Saver: s})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := before.Invoke(t.Context(), at, map[string]any{"places": []any{c.stored}, "by_name": map[string]any{"x": c.stored}}); err != nil {
				t.Fatal(err)
			}
			after := made(t, graph.For[doc3]().Node("a", does(func(d *doc3) graph.Update { return graph.Write(&d.Places, d.Places) })).Edge(graph.Start, "a"), s)
			for range 2 {
				snap, err := after.State(t.Context(), at)
				if err != nil || len(snap.State.Places) != 1 || snap.State.Places[0] != c.want || *snap.State.ByName["x"] != c.want {
					t.Errorf("%s, %s: %+v, %v", l.name, name, snap, err)
				}
				if _, err := after.Run(t.Context(), at, doc3{Place: good{Remark: "again"}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestAliasInsideRefused: a former name in a nested struct that is the name of another field, and a tag
// that is not understood.
func TestAliasInsideRefused(t *testing.T) {
	type taken struct {
		In []struct {
			A int `json:"a" state:"alias=b"`
			B int `json:"b"`
		} `json:"in"`
	}
	type strange struct {
		In map[string]struct {
			A int `json:"a" state:"alias="`
		} `json:"in"`
	}
	_, first := graph.For[taken]().Node("n", quiet[taken]).Edge(graph.Start, "n").Compile(graph.Options{})
	_, second := graph.For[strange]().Node("n", quiet[strange]).Edge(graph.Start, "n").Compile(graph.Options{})
	for err, want := range map[error]string{first: `.A, which has the alias "b", which is a name of B`, second: "not understood"} {
		var refused *pregel.GraphError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestTypeWidened(t *testing.T) {
	type place struct {
		Lat  float64 `json:"lat"`
		Note *string `json:"note"`
		Lon  float64 `json:"lon"`
	}
	type doc2 struct {
		Title any      `json:"title"`
		Body  []any    `json:"body" state:"append"`
		Log   []string `json:"log" state:"append"` // from delta to whole
		Count int64    `json:"count"`
		Draft *bool    `json:"draft"`
		Loc   *place   `json:"loc"`
	}
	evolves(t, func(t *testing.T, when string, s doc2) {
		if s.Title != "second" || !slices.Equal(s.Body, []any{"first", "written", "second", "written"}) || s.Count != 2 ||
			!slices.Equal(s.Log, logWas) || s.Draft == nil || !*s.Draft || s.Loc == nil || s.Loc.Lat != 7 || s.Loc.Note == nil || *s.Loc.Note != "here" {
			t.Errorf("%s: %+v", when, s)
		}
	})
}

func TestReducerChanged(t *testing.T) {
	type doc2 struct {
		Title string   `json:"title" state:"add"`
		Body  []string `json:"body"`
		Log   []string `json:"log"`
	}
	evolves(t, func(t *testing.T, when string, s doc2) {
		if s.Title != "second" || !slices.Equal(s.Log, logWas) || !slices.Equal(s.Body, bodyWas) {
			t.Errorf("%s: %+v", when, s)
		}
	}, graph.Key("body", deltaList()), graph.Key("log", deltaList()))
}

// What cannot be read is a StateError that names field and thread, before anything runs or
// is stored. The older program can go on.
func TestTypeThatDoesNotFit(t *testing.T) {
	type stringly struct {
		Count string `json:"count"`
	}
	type boolean struct {
		Loc struct {
			Lat bool `json:"lat"`
		} `json:"loc"`
	}
	type list struct {
		Name []string `json:"name" state:"append,alias=title"`
	}
	type narrow struct {
		Body []int `json:"body" state:"append"`
	}
	type deltas struct {
		Log []int `json:"log"`
	}
	ints := channel.Delta(100, func(v []int, ws [][]int) ([]int, error) { return append(v, slices.Concat(ws...)...), nil })
	t.Run("string", func(t *testing.T) { refuses[stringly](t, "Count", "count") })
	t.Run("bool", func(t *testing.T) { refuses[boolean](t, "Loc", "loc") })
	t.Run("list", func(t *testing.T) { refuses[list](t, "Name", "name") })
	t.Run("elements", func(t *testing.T) { refuses[narrow](t, "Body", "body") })
	t.Run("delta", func(t *testing.T) { refuses[deltas](t, "Log", "log", graph.Key("log", ints)) })
}

func refuses[S any](t *testing.T, field, key string, fields ...graph.Field) {
	t.Helper()
	for _, l := range restarts(t) {
		ctx, at := t.Context(), pregel.Thread("t")
		older(t, l.open(t))
		s := l.open(t)
		g, err := newer[S](t, s, fields...)
		if err != nil {
			t.Fatal(err)
		}
		before := stored(t, s)
		_, stateErr := g.State(ctx, at)
		_, runErr := g.Run(ctx, at, *new(S))
		_, resumeErr := g.Resume(ctx, at, "yes")
		_, updateErr := g.Update(ctx, at, nil, graph.UpdateOptions{AsNode: "fill"})
		var historyErr, streamErr error
		for _, historyErr = range g.History(ctx, at, pregel.HistoryQuery{}) {
		}
		for _, streamErr = range g.Stream(ctx, at, *new(S)) {
		}
		for what, err := range map[string]error{"State": stateErr, "Run": runErr, "Resume": resumeErr, "Update": updateErr, "History": historyErr, "Stream": streamErr} {
			var unread *graph.StateError
			if !errors.As(err, &unread) || unread.Field != field || unread.Key != key || unread.ThreadID != "t" {
				t.Errorf("%s, %s: %v", l.name, what, err)
			}
		}
		var raw *pregel.StoredTypeError
		if _, err := g.Untyped().GetState(ctx, at); !errors.As(err, &raw) || raw.Channel != key || raw.ThreadID != "t" || raw.CheckpointID == "" {
			t.Errorf("%s: the untyped face says %v", l.name, err)
		}
		if after := stored(t, s); after != before {
			t.Errorf("%s: %d checkpoints and writes became %d", l.name, before, after)
		}
	}
}

// stored counts checkpoints and pending writes.
func stored(t *testing.T, s saver.Saver) (n int) {
	t.Helper()
	for tup, err := range s.List(t.Context(), saver.Query{ThreadID: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		n += 1 + len(tup.PendingWrites)
	}
	return n
}

// What does not fit in a graph inside names the thread and the key, and no field of the
// state around it.
func TestTypeInsideThatDoesNotFit(t *testing.T) {
	type v1 struct {
		N int `json:"n"`
	}
	type v2 struct {
		N []int `json:"n"`
	}
	type outer struct {
		N bool `json:"n"`
	}
	s, ctx, at := inMemory(), t.Context(), pregel.Thread("t")
	around := func(inner *pregel.Graph, run graph.NodeFunc[outer]) *graph.Graph[outer] {
		return made(t, graph.For[outer]().Node("in", run, graph.NodeOptions{Subgraphs: []*pregel.Graph{inner}}).Edge(graph.Start, "in"), s)
	}
	first := made(t, graph.For[v1]().Node("ask", asks[v1]).Edge(graph.Start, "ask"), nil)
	if _, err := around(first.Untyped(), func(ctx context.Context, _ *outer) (graph.Update, error) {
		_, err := first.Run(ctx, pregel.Inside(), v1{N: 1})
		return nil, err
	}).Run(ctx, at, outer{N: true}); err != nil {
		t.Fatal(err)
	}
	second := made(t, graph.For[v2]().Node("ask", asks[v2]).Edge(graph.Start, "ask"), nil)
	g := around(second.Untyped(), func(ctx context.Context, _ *outer) (graph.Update, error) {
		_, err := second.Untyped().Invoke(ctx, pregel.Inside(), map[string]any{})
		return nil, err
	})
	var unread *graph.StateError
	if _, err := g.Resume(ctx, at, "yes"); !errors.As(err, &unread) || unread.Field != "" || unread.Key != "n" || unread.ThreadID != "t" {
		t.Errorf("a state inside: %v", err)
	}
}

// A write that a task of the older program left does not fit: the run that takes it fails,
// with the field and the thread.
func TestPendingWriteThatDoesNotFit(t *testing.T) {
	type v1 struct {
		N int `json:"n"`
	}
	type v2 struct {
		N []int `json:"n"`
	}
	s, ctx, at := inMemory(), t.Context(), pregel.Thread("t")
	old := made(t, graph.For[v1]().Node("write", does(func(s *v1) graph.Update { return graph.Write(&s.N, 1) })).Node("ask", asks[v1]).
		Edge(graph.Start, "write").Edge(graph.Start, "ask"), s)
	if _, err := old.Run(ctx, at, v1{}); err != nil {
		t.Fatal(err)
	}
	g := made(t, graph.For[v2]().Node("write", quiet[v2]).Node("ask", asks[v2]).Edge(graph.Start, "write").Edge(graph.Start, "ask"), s)
	var unread *graph.StateError
	if _, err := g.Resume(ctx, at, "yes"); !errors.As(err, &unread) || unread.Field != "N" || unread.ThreadID != "t" {
		t.Errorf("a pending write: %v", err)
	}
}

// A packet whose stored input does not fit fails its node.
func TestPacketThatDoesNotFit(t *testing.T) {
	type state struct {
		N int `json:"n"`
	}
	s, ctx, at := inMemory(), t.Context(), pregel.Thread("t")
	old := graph.For[state]()
	packet := graph.Worker(old, "w", func(ctx context.Context, _ string, f *state) (graph.Update, error) { return asks(ctx, f) })
	first := made(t, old.Branch(graph.Start, does(func(*state) graph.Update { return packet.Send("x") }), "w"), s)
	if _, err := first.Run(ctx, at, state{N: 1}); err != nil {
		t.Fatal(err)
	}
	b := graph.For[state]()
	graph.Worker(b, "w", func(context.Context, []int, *state) (graph.Update, error) { return nil, nil })
	g := made(t, b.Branch(graph.Start, does(func(*state) graph.Update { return nil }), "w"), s)
	var unread *graph.StateError
	if _, err := g.Continue(ctx, at); !errors.As(err, &unread) || unread.ThreadID != "t" || unread.Key != "" {
		t.Errorf("a packet: %v", err)
	}
}

// TestOnUnknown: keys that are stored and that the struct does not know are told, by each method that
// reads the thread, and can be refused before anything runs or is stored. Fields, aliases and what the
// engine stores for itself are not among them.
func TestOnUnknown(t *testing.T) {
	type doc2 struct {
		Heading string   `json:"heading" state:"alias=title"`
		Body    []string `json:"body" state:"append"`
	}
	ours := errors.New("not ours")
	for _, l := range restarts(t) {
		s, at, ctx := l.open(t), pregel.Thread("t"), t.Context()
		older(t, s)
		var told []string
		var answer error
		ran := 0
		g, err := graph.For[doc2]().OnUnknown(func(_ context.Context, at pregel.Address, keys []string) error {
			told = append(told, at.ThreadID+" "+strings.Join(keys, " "))
			return answer
		}).Node("fill", quiet[doc2]).Node("write", quiet[doc2]).Node("ask", func(ctx context.Context, d *doc2) (graph.Update, error) {
			ran++
			return asks(ctx, d)
		}).Sequence(graph.Start, "fill", "write").Edge("fill", "ask").Compile(graph.Options{Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		checkpoints := func() (n int) {
			for _, err := range s.List(ctx, saver.Query{ThreadID: "t"}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return n
		}
		calls := map[string]func() error{
			"state":  func() error { _, err := g.State(ctx, at); return err },
			"resume": func() error { _, err := g.Resume(ctx, at, "yes"); return err },
			"run":    func() error { _, err := g.Run(ctx, at, doc2{Heading: "third"}); return err },
			"update": func() error {
				_, err := g.Update(ctx, at, func(d *doc2) graph.Update { return graph.Write(&d.Heading, "x") })
				return err
			},
			"history": func() error {
				for _, err := range g.History(ctx, at, pregel.HistoryQuery{}) {
					if err != nil {
						return err
					}
				}
				return nil
			},
		}
		answer = ours
		before := checkpoints()
		for name, call := range calls {
			told = nil
			if err := call(); !errors.Is(err, ours) || len(told) == 0 || told[0] != "t count draft loc log" {
				t.Errorf("%s, %s: %v, %q", l.name, name, err, told)
			}
		}
		if n := checkpoints(); n != before || ran > 0 {
			t.Errorf("%s: %d checkpoints, then %d, and %d nodes ran", l.name, before, n, ran)
		}
		answer, told = nil, nil
		if res, err := g.Resume(ctx, at, "yes"); err != nil || res.State.Heading != "second" || len(told) == 0 {
			t.Errorf("%s: %+v, %v, %q", l.name, res, err, told)
		}
		if _, err := g.Run(ctx, pregel.Thread("new"), doc2{Heading: "x"}); err != nil {
			t.Fatal(err)
		}
		told = nil
		if _, err := g.State(ctx, pregel.Thread("new")); err != nil || len(told) > 0 {
			t.Errorf("%s: a new thread: %v, %q", l.name, err, told)
		}
		if snap, err := g.State(ctx, at); err != nil || snap.State.Heading != "second" || !slices.Equal(told, []string{"t count draft loc log"}) {
			t.Errorf("%s: after a run: %+v, %v, %q", l.name, snap, err, told)
		}
	}
}
