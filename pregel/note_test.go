package pregel_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// wantStatus checks what Threads tells of the only thread.
func wantStatus(t *testing.T, s saver.Saver, want saver.Status, graph string, next ...string) {
	t.Helper()
	n := 0
	for info, err := range s.Threads(ctx, saver.ThreadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; info.Status != want || info.Graph != graph || !slices.Equal(info.Next, next) {
			t.Errorf("status %q, graph %q, next %q; want %q, %q, %q", info.Status, info.Graph, info.Next, want, graph, next)
		}
	}
	if n != 1 {
		t.Errorf("%d threads", n)
	}
}

// aThenB is a graph of a and b, one after the other; b does what it is told.
func aThenB(t *testing.T, s saver.Saver, b pregel.Func, o graph.Options) *pregel.Graph {
	t.Helper()
	o.Saver, o.Name = s, "steps"
	says := func(word string) pregel.Func {
		return func(context.Context, any) (any, error) { return map[string]any{"said": []string{word}}, nil }
	}
	if b == nil {
		b = says("b")
	}
	g, err := graph.New(graph.Key("said", channel.Reduce(channel.Append[string]))).
		Node("a", says("a")).Node("b", b).Sequence(graph.Start, "a", "b").Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestStatusOfRuns(t *testing.T) {
	input := map[string]any{"said": []string{"in"}}
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		cfg := pregel.RunOptions{Durability: d}
		run := func(name string, b pregel.Func, o graph.Options, cfg pregel.RunOptions, want saver.Status, graph string, next ...string) {
			t.Run(string(d)+"/"+name, func(t *testing.T) {
				s := memory.New(memory.Options{})
				_, _ = aThenB(t, s, b, o).Invoke(ctx, pregel.Thread("t"), input, cfg)
				wantStatus(t, s, want, graph, next...)
			})
		}
		run("done", nil, graph.Options{}, cfg, saver.StatusDone, "")
		run("asked", func(ctx context.Context, _ any) (any, error) { _, err := pregel.Ask(ctx, "?"); return nil, err }, graph.Options{}, cfg,
			saver.StatusWaiting, "steps", "b")
		run("failed", func(context.Context, any) (any, error) { return nil, errors.New("no") }, graph.Options{}, cfg, saver.StatusFailed, "steps", "b")
		run("before", nil, graph.Options{InterruptBefore: []string{"b"}}, cfg, saver.StatusWaiting, "steps", "b")
		run("after", nil, graph.Options{InterruptAfter: []string{"a"}}, cfg, saver.StatusWaiting, "steps", "b")
		run("after the last", nil, graph.Options{InterruptAfter: []string{"b"}}, cfg, saver.StatusDone, "")
		before := cfg
		before.InterruptBefore = []string{pregel.AllNodes}
		run("before all", nil, graph.Options{}, before, saver.StatusWaiting, "steps", "a")
		short := cfg
		short.RecursionLimit = 1
		run("out of steps", nil, graph.Options{}, short, saver.StatusFailed, "steps", "b")
		drained := cfg
		drained.Control = new(pregel.Control)
		drained.Control.RequestDrain("stop")
		run("drained", nil, graph.Options{}, drained, saver.StatusUnfinished, "steps", pregel.Start)
	}
}

// What stops at a breakpoint counts as under way again once a task has written, and
// an update of the state waits for whoever made it.
func TestStatusPastBreakpoint(t *testing.T) {
	s := memory.New(memory.Options{})
	var within saver.Status
	fail := true
	g := aThenB(t, s, func(context.Context, any) (any, error) {
		for info := range s.Threads(ctx, saver.ThreadQuery{}) {
			within = info.Status
		}
		if fail {
			return nil, errors.New("no")
		}
		return nil, nil
	}, graph.Options{InterruptBefore: []string{"b"}})
	at := pregel.Thread("t")
	if _, err := g.Invoke(ctx, at, map[string]any{"said": []string{"in"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(ctx, at, nil); err == nil || within != saver.StatusWaiting {
		t.Fatalf("error %v, status %q while b ran", err, within)
	}
	wantStatus(t, s, saver.StatusFailed, "steps", "b")
	if _, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: map[string]any{"said": []string{"mended"}}, AsNode: "a"}); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, saver.StatusWaiting, "steps", "b")
	if _, err := g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: pregel.Copy}); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, saver.StatusWaiting, "steps", "b")
	fail = false
	if _, err := g.Invoke(ctx, at, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: pregel.End}); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, saver.StatusDone, "")
}

// The note of a checkpoint names the nodes of its tasks, wherever a run died.
func TestNotesAtEverySave(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
		for left := range 40 {
			m := &mortal{Saver: memory.New(memory.Options{}), left: left, stored: map[string]bool{}}
			g, err := workflow(m, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
			_, err = g.Invoke(ctx, at, map[string]any{"steps": []string{"in"}}, cfg)
			died := err != nil
			m.left = -1
			for info, err := range m.Threads(ctx, saver.ThreadQuery{}) {
				if want := map[bool]saver.Status{true: saver.StatusUnfinished, false: saver.StatusDone}[died]; err != nil || info.Head != "" && info.Status != want {
					t.Fatalf("%s, death at save %d: %+v, %v", d, left, info, err)
				}
			}
			for tup, err := range m.List(ctx, saver.Query{ThreadID: "t"}) {
				if err != nil || tup.Note == nil || tup.Note.Stop != saver.StopNone {
					t.Fatalf("%s, death at save %d: %+v, %v", d, left, tup, err)
				}
			}
			for state, err := range g.GetStateHistory(ctx, at, pregel.HistoryQuery{}) {
				if err != nil {
					t.Fatal(err)
				}
				tup, err := m.GetTuple(ctx, saver.Config{ThreadID: "t", CheckpointID: state.Address.CheckpointID})
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, task := range state.Tasks {
					if !slices.Contains(names, task.Name) {
						names = append(names, task.Name)
					}
				}
				if !slices.Equal(tup.Note.Next, names) {
					t.Fatalf("%s, death at save %d: the note says %q, the tasks are %q", d, left, tup.Note.Next, names)
				}
			}
		}
	}
}

// The channels that are read from writes are in the note, also those that only were
// when they were stored last.
func TestNoteTellsDeltas(t *testing.T) {
	s := memory.New(memory.Options{})
	compile := func(c channel.Channel) *pregel.Graph {
		g, err := graph.New(graph.Key("log", c), graph.Key("n", channel.LastValue[any]())).
			Node("a", func(context.Context, any) (any, error) { return map[string]any{"n": 1}, nil }).Sequence(graph.Start, "a").Compile(graph.Options{Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	deltas := func() []string {
		tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
		if err != nil {
			t.Fatal(err)
		}
		return tup.Note.Deltas
	}
	at := pregel.Thread("t")
	was := compile(channel.Delta(100, func(v []string, writes [][]string) ([]string, error) {
		return append(v, slices.Concat(writes...)...), nil
	}))
	for range 2 {
		if _, err := was.Invoke(ctx, at, map[string]any{"log": []string{"one"}, "n": 0}); err != nil {
			t.Fatal(err)
		}
	}
	if got := deltas(); !slices.Equal(got, []string{"log"}) {
		t.Errorf("delta channels %q", got)
	}
	is := compile(channel.Reduce(channel.Append[string]))
	if _, err := is.Invoke(ctx, at, map[string]any{"n": 2}); err != nil {
		t.Fatal(err)
	}
	if got := deltas(); !slices.Equal(got, []string{"log"}) {
		t.Errorf("delta channels after the change %q", got)
	}
	for range 2 {
		if _, err := is.Invoke(ctx, at, map[string]any{"log": []string{"three"}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := deltas(); got != nil {
		t.Errorf("delta channels once it is stored whole %q", got)
	}
}

// A mapper that fails or panics comes after the checkpoint is stored, as ever.
func TestNoteOfTasksThatCannotBeMade(t *testing.T) {
	for _, panics := range []bool{false, true} {
		s := memory.New(memory.Options{})
		first, err := node("a", returns("a")).SubscribeOnly("in").WriteFunc("mid", func(v any) (any, error) { return v, nil }).Build()
		if err != nil {
			t.Fatal(err)
		}
		second, err := node("b", returns("b")).SubscribeOnly("mid").WriteFunc("out", func(v any) (any, error) { return v, nil }).Build()
		if err != nil {
			t.Fatal(err)
		}
		second.Mapper = func(any) (any, error) {
			if panics {
				panic("no")
			}
			return nil, errors.New("no")
		}
		any1 := channel.LastValue[any]
		g, err := pregel.New(pregel.Spec{Channels: map[string]channel.Channel{"in": any1(), "mid": any1(), "out": any1()}, Input: pregel.One("in"), Output: pregel.One("out"), Nodes: []*pregel.Node{first, second}},
			pregel.Options{Name: "g", Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Invoke(ctx, pregel.Thread("t"), "in"); err == nil {
			t.Fatal("no error")
		}
		wantStatus(t, s, saver.StatusUnfinished, "g", "b")
	}
}
