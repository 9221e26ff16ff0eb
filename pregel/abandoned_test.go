package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

// A run whose caller goes away leaves its thread unfinished, whatever its nodes make of
// the end of their context, also inside another graph: Recover goes on with it, and new
// input finishes it first. A node that fails by itself, or by its own timeout, failed.
func TestCallerGoesAway(t *testing.T) {
	ended := []string{"begun", "ended", "begun", "ended"}
	for _, d := range allDurabilities {
		for name, c := range map[string]struct {
			langGraph, inside bool
			timeout           *pregel.TimeoutPolicy
			ends              func(c context.Context) error // how the node ends when its caller left
			want              saver.Status
		}{
			"its error":           {ends: func(c context.Context) error { return c.Err() }, want: saver.StatusUnfinished},
			"its cause":           {ends: context.Cause, want: saver.StatusUnfinished},
			"an error of its own": {ends: func(context.Context) error { return errBoom }, want: saver.StatusUnfinished},
			"a panic":             {ends: func(context.Context) error { panic("left alone") }, want: saver.StatusUnfinished},
			"inside":              {inside: true, ends: func(c context.Context) error { return c.Err() }, want: saver.StatusUnfinished},
			"LangGraph":           {langGraph: true, ends: func(c context.Context) error { return c.Err() }, want: saver.StatusFailed},
			"its own timeout":     {timeout: pregel.Timeout(time.Millisecond, 0), ends: func(c context.Context) error { return c.Err() }, want: saver.StatusFailed},
		} {
			t.Run(fmt.Sprint(d, "/", name), func(t *testing.T) {
				s := memory.New(memory.Options{})
				life, leave := context.WithCancel(ctx)
				defer leave()
				out := graph.Key("out", channel.Reduce(channel.Append[string]))
				gone := false
				b := func(o graph.Options) *pregel.Graph {
					o.LangGraph = c.langGraph
					return compiled(t, graph.New(out).
						Node("begin", returns(map[string]any{"out": []string{"begun"}})).
						Node("work", func(wc context.Context, _ any) (any, error) {
							if !gone {
								gone = true
								if c.timeout == nil {
									leave()
								}
								<-wc.Done()
								return nil, c.ends(wc)
							}
							return map[string]any{"out": []string{"ended"}}, nil
						}, graph.NodeOptions{Timeout: c.timeout}).Sequence(graph.Start, "begin", "work"), o)
				}
				g := b(graph.Options{Name: "g", Saver: s})
				if c.inside {
					g = compiled(t, graph.New(out).Subgraph("sub", b(graph.Options{})).Edge(graph.Start, "sub"), graph.Options{Name: "g", Saver: s})
				}
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
				_, err := g.Invoke(life, at, map[string]any{"out": []string{}}, cfg)
				if c.timeout == nil != errors.Is(err, context.Canceled) || err == nil {
					t.Fatal(err)
				}
				sameStatus(t, "after the run", g, s, c.want)
				if c.want != saver.StatusUnfinished {
					return
				}
				if err := s.CopyThread(ctx, "t", "u"); err != nil {
					t.Fatal(err)
				}
				if _, err := g.Invoke(ctx, at, map[string]any{"out": []string{}}, cfg); err != nil {
					t.Fatal(err)
				}
				if got := newest(t, g).Map()["out"]; !c.inside && fmt.Sprint(got) != fmt.Sprint(ended) {
					t.Errorf("out is %v", got)
				}
				report, err := g.Recover(ctx, pregel.RecoverOptions{})
				if err != nil || len(report.Threads) != 1 || report.Threads[0].Outcome != pregel.Recovered || report.Threads[0].ThreadID != "u" {
					t.Errorf("%+v, %v", report, err)
				}
			})
		}
	}
}

// uncoded is a saver that encodes values itself. So the loop waits where it stores writes, and
// then finds both that a task has ended and that the caller has gone.
type uncoded struct{ saver.Saver }

// Serializer is none.
func (uncoded) Serializer() serde.Serializer { return nil }

// A run whose caller goes away before its last task ends is cut off there, always: also if the loop
// learns of both at once.
func TestCallerGoesAwayWithTheLastTask(t *testing.T) {
	for range 20 { // one of two would do
		synctest.Test(t, func(t *testing.T) {
			life, leave := context.WithCancel(ctx)
			storing := make(chan struct{})
			s := watch(func(_ context.Context, op string) error {
				if strings.HasPrefix(op, "writes") && strings.Contains(op, " a") {
					close(storing)
					synctest.Wait() // until b has ended
				}
				return nil
			})
			g := fan(t, pregel.Options{Saver: uncoded{s}}, node("a", returns("a")), node("b", func(context.Context, any) (any, error) {
				<-storing
				leave()
				return "b", nil
			}))
			at := pregel.Thread("t")
			if _, err := g.Invoke(life, at, 1); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			state, err := g.GetState(ctx, at)
			if err != nil || state.Status != saver.StatusUnfinished || len(state.Next) != 0 {
				t.Fatalf("%+v, %v", state, err)
			}
			res, err := g.Invoke(ctx, at, nil)
			wantOut(t, res, err, "a", "b")
		})
	}
}

// A crash between turns, where the input or the update is about to be stored, leaves the
// thread as it stood: at its breakpoint, although delta channels have writes to keep.
func TestCrashBetweenTurns(t *testing.T) {
	dies := false
	s := watch(func(_ context.Context, op string) error {
		if dies && op[:3] == "put" {
			return errDead
		}
		return nil
	})
	s.whole = true
	log := graph.Key("log", channel.Delta(50, func(v []string, ws [][]string) ([]string, error) {
		for _, w := range ws {
			v = append(v, w...)
		}
		return v, nil
	}))
	said := func(word string) map[string]any { return map[string]any{"log": []string{word}} }
	g := compiled(t, graph.New(log).Node("a", returns(said("a"))).Node("b", returns(said("b"))).Sequence(graph.Start, "a", "b"),
		graph.Options{Saver: s, InterruptBefore: []string{"b"}})
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		if _, err := g.Invoke(ctx, at, said("in"), cfg); err != nil {
			t.Fatal(err)
		}
		before := threadDump(t, s)
		for name, turn := range map[string]func() error{
			"input": func() error { _, err := g.Invoke(ctx, at, said("next"), cfg); return err },
			"update": func() error {
				_, err := g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: "a", Values: said("u")})
				return err
			},
			"update as input": func() error {
				_, err := g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: pregel.Input, Values: said("u")})
				return err
			},
		} {
			dies = true
			if err := turn(); !errors.Is(err, errDead) {
				t.Errorf("%s: %v", name, err)
			}
			dies = false
			if after := threadDump(t, s); after != before {
				t.Errorf("%s: the thread was\n%s, and is\n%s", name, before, after)
			}
			sameStatus(t, name, g, s, saver.StatusWaiting)
		}
	}
}
