package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/savertest"
)

// step is a node that appends its name to the state.
func step(name string) pregel.Func { return returns(map[string]any{"steps": []string{name}}) }

// fork is a graph of a node a and, after it, the nodes of does side by side.
func fork(t *testing.T, o graph.Options, does map[string]pregel.Func) *pregel.Graph {
	t.Helper()
	b := graph.New(steps()).Node("a", step("a")).Edge(graph.Start, "a")
	for name, f := range does {
		b.Node(name, f).Edge("a", name)
	}
	return compiled(t, b, o)
}

// cutIn runs a graph of the given name until its node b, beside which c has ended if
// there is one; there the process dies. It returns what is stored.
func cutIn(t *testing.T, name string, withC bool) *memory.Saver {
	t.Helper()
	cStored := make(chan struct{})
	s := memory.New(memory.Options{})
	run, die := context.WithCancel(ctx)
	does := map[string]pregel.Func{"b": func(context.Context, any) (any, error) {
		if withC {
			<-cStored
		}
		die()
		return nil, errDead
	}}
	if withC {
		does["c"] = step("c")
	}
	g := fork(t, graph.Options{Name: name, Saver: &told{Saver: s, after: func() { close(cStored) }}}, does)
	if _, err := g.Invoke(run, pregel.Thread("t"), map[string]any{"steps": []string{"in"}}, pregel.RunOptions{Durability: pregel.Sync}); err == nil {
		t.Fatal("the run did not die")
	}
	return s
}

// told tells of the writes of a node c.
type told struct {
	*memory.Saver
	after func()
}

func (s *told) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	return savertest.Apart(c, req, s.PutWrites, s.Saver.PutRequest)
}

func (s *told) PutWrites(c context.Context, cfg saver.Config, writes []saver.Write, id, path string) error {
	err := s.Saver.PutWrites(c, cfg, writes, id, path)
	if path == "~__pregel_pull, c" {
		s.after()
	}
	return err
}

func head(t *testing.T, s saver.Saver) string {
	t.Helper()
	tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return tup.Checkpoint.ID
}

var more = map[string]any{"steps": []string{"more"}}

// A node that a run left, and that the graph does not have any more, is not taken for
// done: nobody goes past it unless it is discarded on purpose.
func TestNodesThatAreGone(t *testing.T) {
	now := map[string]struct {
		withC bool
		does  map[string]pregel.Func
		gone  string
		next  string
	}{
		"another node instead": {false, map[string]pregel.Func{"zz": step("zz")}, "[b]", "[b]"},
		"renamed beside c":     {true, map[string]pregel.Func{"renamed": step("renamed"), "c": step("c")}, "[b]", "[b]"},
		"c, which ended":       {true, map[string]pregel.Func{"b": step("b")}, "[c]", "[b c]"},
	}
	for name, c := range now {
		t.Run(name, func(t *testing.T) {
			s := cutIn(t, "one", c.withC)
			g := fork(t, graph.Options{Name: "one", Saver: s}, c.does)
			sameStatus(t, "after the change", g, s, saver.StatusUnfinished)
			if state := newest(t, g); fmt.Sprint(state.Next) != c.next {
				t.Errorf("next %v, want %s", state.Next, c.next)
			}
			before := head(t, s)
			check := func(what string, err error) {
				t.Helper()
				var u *pregel.UnknownNodeError
				if !errors.Is(err, pregel.ErrUnknownNode) || !errors.As(err, &u) || fmt.Sprint(u.Nodes) != c.gone || u.ThreadID != "t" {
					t.Errorf("%s: %v", what, err)
				}
			}
			report, err := g.Recover(ctx, pregel.RecoverOptions{})
			if err != nil || len(report.Threads) != 1 {
				t.Fatalf("%+v, %v", report, err)
			}
			if r := report.Threads[0]; r.Outcome != pregel.RecoveryFailed || fmt.Sprint(r.Next) != c.next || r.Attempt != 0 {
				t.Errorf("%+v", r)
			}
			check("Recover", report.Threads[0].Err)
			_, err = g.Invoke(ctx, pregel.Thread("t"), nil)
			check("nil", err)
			for _, way := range []pregel.Unfinished{pregel.FinishFirst, pregel.RefuseUnfinished} {
				_, err = g.Invoke(ctx, pregel.Thread("t"), more, pregel.RunOptions{Unfinished: way})
				check("input, "+string(way), err)
				if u := (*pregel.UnfinishedError)(nil); !errors.As(err, &u) || fmt.Sprint(u.Next) != c.next {
					t.Errorf("input, %s: %v", way, err)
				}
			}
			if head(t, s) != before {
				t.Error("something was stored")
			}
			for _, id := range []string{"as it was", "updated"} {
				if err := s.CopyThread(ctx, "t", id); err != nil {
					t.Fatal(err)
				}
			}
			was := fork(t, graph.Options{Name: "one", Saver: s}, map[string]pregel.Func{"b": step("b"), "c": step("c")})
			if res, err := was.Invoke(ctx, pregel.Thread("as it was"), nil); err != nil || !slices.Contains(res.Map()["steps"].([]string), "b") {
				t.Errorf("the graph as it was: %+v, %v", res, err)
			}
			if _, err := g.UpdateState(ctx, pregel.Thread("updated"), pregel.StateUpdate{Values: more, AsNode: "a"}); err != nil {
				t.Error(err)
			}
			if _, err := g.Invoke(ctx, pregel.Thread("updated"), nil); err != nil {
				t.Errorf("after an update: %v", err)
			}
			if _, err := g.Invoke(ctx, pregel.Thread("t"), more, pregel.RunOptions{Unfinished: pregel.DiscardUnfinished}); err != nil {
				t.Errorf("discarded: %v", err)
			}
			if state := newest(t, g); state.Status != saver.StatusDone {
				t.Errorf("discarded: %+v", state)
			}
		})
	}
}

// LangGraph passes over nodes that it does not have.
func TestNodesThatAreGoneInLangGraph(t *testing.T) {
	s := cutIn(t, "one", false)
	g := fork(t, graph.Options{Name: "one", Saver: s, LangGraph: true}, map[string]pregel.Func{"zz": step("zz")})
	if state := newest(t, g); state.Status != saver.StatusDone || len(state.Next) > 0 {
		t.Errorf("%+v", state)
	}
	if _, err := g.Invoke(ctx, pregel.Thread("t"), nil); err != nil {
		t.Error(err)
	}
}

// A node that is gone from a graph inside keeps the graph around from passing over it,
// and is no failure that new input would drop.
func TestNodesThatAreGoneInside(t *testing.T) {
	s := memory.New(memory.Options{})
	build := func(in string, does pregel.Func) *pregel.Graph {
		inner := compiled(t, graph.New(steps()).Node("a", step("a")).Node(in, does).Sequence(graph.Start, "a", in), graph.Options{})
		return compiled(t, graph.New(steps()).Subgraph("sub", inner).Node("mends", step("mended")).Edge(graph.Start, "sub"), graph.Options{Name: "one", Saver: s})
	}
	run, die := context.WithCancel(ctx)
	defer die()
	g := build("b", func(context.Context, any) (any, error) { die(); return nil, errDead })
	if _, err := g.Invoke(run, pregel.Thread("t"), more, pregel.RunOptions{Durability: pregel.Sync}); err == nil {
		t.Fatal("the run did not die")
	}
	g = build("renamed", step("renamed"))
	for range 2 {
		_, err := g.Invoke(ctx, pregel.Thread("t"), more)
		if !errors.Is(err, pregel.ErrUnknownNode) || !errors.Is(err, pregel.ErrUnfinished) {
			t.Errorf("%v", err)
		}
		sameStatus(t, "refused", g, s, saver.StatusUnfinished)
	}
	g = build("b", step("b"))
	if res, err := g.Invoke(ctx, pregel.Thread("t"), nil); err != nil || !slices.Contains(res.Map()["steps"].([]string), "b") {
		t.Errorf("%+v, %v", res, err)
	}
}

// New input does not run, nor drop, what a graph of another name left.
func TestNewInputOnAThreadOfAnotherGraph(t *testing.T) {
	for _, node := range []string{"b", "other"} {
		ran := 0
		s := cutIn(t, "one", false)
		build := func(o graph.Options) *pregel.Graph {
			o.Saver = s
			return fork(t, o, map[string]pregel.Func{node: func(context.Context, any) (any, error) { ran++; return nil, nil }})
		}
		g := build(graph.Options{Name: "two"})
		for _, way := range []pregel.Unfinished{"", pregel.RefuseUnfinished} {
			_, err := g.Invoke(ctx, pregel.Thread("t"), more, pregel.RunOptions{Unfinished: way})
			var u *pregel.UnfinishedError
			if !errors.As(err, &u) || u.Graph != "one" || fmt.Sprint(u.Next) != "[b]" && node == "b" || ran > 0 {
				t.Errorf("%s, %q: %v; it ran %d times", node, way, err, ran)
			}
		}
		for id, c := range map[string]struct {
			o    graph.Options
			opts pregel.RunOptions
		}{
			"discarded": {graph.Options{Name: "two"}, pregel.RunOptions{Unfinished: pregel.DiscardUnfinished}},
			"LangGraph": {graph.Options{Name: "two", LangGraph: true}, pregel.RunOptions{}},
		} {
			if err := s.CopyThread(ctx, "t", id); err != nil {
				t.Fatal(err)
			}
			if _, err := build(c.o).Invoke(ctx, pregel.Thread(id), more, c.opts); err != nil {
				t.Errorf("%s, %s: %v", node, id, err)
			}
		}
	}
	s := cutIn(t, "one", false)
	g := fork(t, graph.Options{Saver: s}, map[string]pregel.Func{"b": step("b")})
	if _, err := g.Invoke(ctx, pregel.Thread("t"), more); err != nil {
		t.Errorf("a graph without a name: %v", err)
	}
}

// A body that handles an error, and sees it again, has no reason to make other calls than before: it was changed.
func TestChangedWorkflowBehindAnError(t *testing.T) {
	weak := pregel.NewTask("weak", func(context.Context, int) (int, error) {
		return 0, fmt.Errorf("%w at 7", errDead)
	})
	asks := pregel.NewTask("asks", func(ctx context.Context, _ int) (any, error) { return pregel.Ask(ctx, "and you?") })
	for name, sees := range map[string]func(f *flow, ctx context.Context) error{
		"a call fails": func(_ *flow, ctx context.Context) error { _, err := weak.Call(ctx, 1); return err },
		"a call asks":  func(_ *flow, ctx context.Context) error { _, err := asks.Call(ctx, 1); return err },
		"it waits":     func(_ *flow, ctx context.Context) error { return pregel.Sleep(ctx, 1000*time.Hour) },
		"two things fail": func(_ *flow, ctx context.Context) error {
			_, err := weak.Call(ctx, 1)
			_, too := weak.Call(ctx, 2)
			return errors.Join(err, too)
		},
		"a graph is asked": func(f *flow, ctx context.Context) error {
			_, err := f.inner.Invoke(ctx, pregel.Inside(), map[string]any{"steps": []string{}})
			return err
		},
	} {
		for _, d := range allDurabilities {
			for kind, open := range kept {
				t.Run(fmt.Sprint(name, "/", d, "/", kind), func(t *testing.T) {
					f, o := &flow{w: newWorld()}, pregel.Options{Saver: open(t)}
					f.graph(t, o) // for the graph inside
					version := func(calls ...string) *pregel.Graph {
						return must(pregel.Entrypoint("flow", func(ctx context.Context, _ int) (int, error) {
							seen := sees(f, ctx)
							if seen == nil {
								t.Error("no error")
							}
							for _, name := range calls {
								if _, err := f.task(name).Call(ctx, 5); err != nil {
									return 0, err
								}
							}
							again := errDead
							if _, err := pregel.Ask(ctx, "go on?"); err != nil {
								again = err
							}
							return 0, again
						}, pregel.EntrypointOptions{Options: o}))
					}
					at, run := pregel.Thread("t"), pregel.RunOptions{Durability: d}
					if _, err := version("charge").Invoke(ctx, at, 1, run); err != nil {
						t.Fatal(err)
					}
					state := must(version("charge").GetState(ctx, at))
					last := state.Interrupts[len(state.Interrupts)-1]
					for _, in := range state.Interrupts {
						if in.Value == "go on?" {
							last = in
						}
					}
					answer := pregel.Command{Resume: map[string]any{last.ID: "yes"}}
					for _, calls := range [][]string{{"extra", "charge"}, {"extra"}} {
						if _, err := version(calls...).Invoke(ctx, at, answer, run); !errors.Is(err, pregel.ErrCallMismatch) {
							t.Errorf("calls of %v: %v", calls, err)
						}
					}
					if _, err := version("charge", "extra").Invoke(ctx, at, answer, run); !errors.Is(err, errDead) {
						t.Error(err)
					}
					delete(f.w.keys, "first") // of the graph inside
					f.w.check(t, 2)
				})
			}
		}
	}
}

// TestAnotherErrorAnotherWay: a body that did not change, and takes another way because a call fails otherwise than before, goes on.
func TestAnotherErrorAnotherWay(t *testing.T) {
	for _, d := range allDurabilities {
		f, fails := &flow{w: newWorld()}, "busy"
		weak := pregel.NewTask("weak", func(context.Context, int) (int, error) { return 0, errors.New(fails) })
		g := must(pregel.Entrypoint("flow", func(ctx context.Context, _ int) (int, error) {
			if _, err := weak.Call(ctx, 1); strings.HasSuffix(err.Error(), "busy") {
				if _, err := f.task("wait").Call(ctx, 5); err != nil {
					return 0, err
				}
			}
			if _, err := f.task("tell").Call(ctx, 5); err != nil {
				return 0, err
			}
			_, err := pregel.Ask(ctx, "go on?")
			return 7, err
		}, pregel.EntrypointOptions{Options: pregel.Options{Saver: memory.New(memory.Options{})}}))
		at, run := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		if _, err := g.Invoke(ctx, at, 1, run); err != nil {
			t.Fatal(err)
		}
		fails = "gone"
		if res, err := g.Invoke(ctx, at, pregel.Command{Resume: "yes"}, run); err != nil || fmt.Sprint(res.Value) != "7" {
			t.Errorf("%s: %+v, %v", d, res, err)
		}
	}
}

// TestErrorSeenBeforeAKey: with Exit, the record of a call with a key is stored before those in front of it. It says by
// itself which errors the body had seen: a body that sees none of them after a crash may leave the call out.
func TestErrorSeenBeforeAKey(t *testing.T) {
	for _, d := range allDurabilities {
		s, works := memory.New(memory.Options{}), false
		weak := pregel.NewTask("weak", func(context.Context, int) (int, error) {
			if works {
				return 1, nil
			}
			return 0, errDead
		})
		ends := pregel.NewTask("ends", func(context.Context, int) (int, error) { return 1, nil })
		keyed := pregel.NewTask("keyed", func(ctx context.Context, _ int) (int, error) {
			if _, err := pregel.IdempotencyKey(ctx, "k"); err != nil {
				return 0, err
			}
			return 1, s.CopyThread(ctx, "t", "crashed")
		})
		g := must(pregel.Entrypoint("flow", func(ctx context.Context, _ int) (string, error) {
			if _, err := weak.Call(ctx, 1); err == nil {
				return "fine", nil
			}
			if _, err := ends.Call(ctx, 1); err != nil {
				return "", err
			}
			_, err := keyed.Call(ctx, 1)
			return "mended", err
		}, pregel.EntrypointOptions{Options: pregel.Options{Saver: s}}))
		if res, err := g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d}); err != nil || res.Value != "mended" {
			t.Fatalf("%s: %+v, %v", d, res, err)
		}
		works = true
		if res, err := g.Invoke(ctx, pregel.Thread("crashed"), nil, pregel.RunOptions{Durability: d}); err != nil || res.Value != "fine" {
			t.Errorf("%s: %+v, %v", d, res, err)
		}
	}
}

// TestEndsSoonerBehindAnError: a body whose second attempt ends sooner, since a call failed otherwise, takes its answer.
func TestEndsSoonerBehindAnError(t *testing.T) {
	errBusy, pays := errors.New("busy"), 0
	pay := pregel.NewTask("pay", func(context.Context, int) (int, error) {
		if pays++; pays == 1 {
			return 0, errBusy
		}
		return 0, errDead
	})
	note := pregel.NewTask("note", func(context.Context, int) (int, error) { return 1, nil })
	g := must(pregel.Entrypoint("flow", func(ctx context.Context, _ int) (string, error) {
		_, err := pay.Call(ctx, 1)
		if errors.Is(err, errBusy) {
			_, failed := note.Call(ctx, 1)
			return "", errors.Join(err, failed)
		}
		return pregel.AskFor[string](ctx, "declined: what now?")
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: memory.New(memory.Options{})},
		Retry: []pregel.RetryPolicy{{InitialInterval: 1, NoJitter: true, RetryOn: func(err error) bool { return errors.Is(err, errBusy) }}}}))
	if _, err := g.Invoke(ctx, pregel.Thread("t"), 1); err != nil {
		t.Fatal(err)
	}
	if res, err := g.Invoke(ctx, pregel.Thread("t"), pregel.Command{Resume: "stop"}); err != nil || res.Value != "stop" {
		t.Errorf("%+v, %v", res, err)
	}
}
