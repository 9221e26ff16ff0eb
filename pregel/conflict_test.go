package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/rules"
)

// remote is a saver as another process has it, which knows who has a thread in its own process
// alone, and looks at no epochs.
type remote struct {
	saver.Saver
	owners rules.Owners
	// loaded is called after each load; may be nil.
	loaded func()
}

func (r *remote) Own(c context.Context, threadID string, wait bool) (*saver.Lease, error) {
	lease, err := r.owners.Own(c, threadID, wait)
	if err != nil {
		return nil, err
	}
	return saver.NewLease(threadID, 0, nil, nil, lease.Release), nil
}

func (r *remote) GetTuple(c context.Context, cfg saver.Config) (*saver.Tuple, error) {
	tup, err := r.Saver.GetTuple(c, cfg)
	if r.loaded != nil {
		r.loaded()
	}
	return tup, err
}

// processes are savers that share nothing but what is stored.
func processes(n int) []*remote {
	s := memory.New(memory.Options{})
	all := make([]*remote, n)
	for i := range all {
		all[i] = &remote{Saver: s}
	}
	return all
}

// runConcurrently starts n runs on thread t at once, one on each graph in turn. A node
// that runs waits at the gate that the graphs were built with until all others
// have lost. It returns what the runs ended with.
func runConcurrently(graphs []*pregel.Graph, input any, at pregel.Address, cfg pregel.RunOptions, n int, gate chan struct{}) []error {
	errs := make([]error, n)
	var left atomic.Int32
	left.Store(int32(n))
	open := sync.OnceFunc(func() {
		if gate != nil {
			close(gate)
		}
	})
	// If two have the thread, both wait: let them fail the test.
	defer time.AfterFunc(time.Minute, open).Stop()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, errs[i] = graphs[i%len(graphs)].Invoke(ctx, at, input, cfg)
			if left.Add(-1) == 1 {
				open()
			}
		})
	}
	wg.Wait()
	return errs
}

// wantOneWinner checks that one of the runs ended well and the others lost.
func wantOneWinner(t *testing.T, errs []error) {
	t.Helper()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, pregel.ErrConflict):
			t.Errorf("error %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d runs won", won, len(errs))
	}
}

// Of several runs on one thread one wins; the others fail before a node of theirs
// has run, whatever the durability, whether they bring input, an answer, or
// nothing, and whichever graph over the saver they are of.
func TestOneRunOnAThread(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for name, input := range map[string]any{"input": "in", "answer": pregel.Command{Resume: "yes"}, "nil": nil, "explicit": pregel.Command{Resume: "yes"}} {
			t.Run(fmt.Sprint(d, "/", name), func(t *testing.T) {
				s := memory.New(memory.Options{})
				var ran atomic.Int32
				var gate chan struct{}
				ask := func(ctx context.Context, _ any) (any, error) {
					if gate == nil { // the run before
						return pregel.Ask(ctx, "?")
					}
					ran.Add(1)
					<-gate
					if input == nil {
						return "done", nil
					}
					return pregel.Ask(ctx, "?")
				}
				graphs := make([]*pregel.Graph, 5)
				for i := range graphs { // each with another saver over one store
					graphs[i] = fan(t, pregel.Options{Saver: &watched{Saver: s}}, node("ask", ask))
				}
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
				if name != "input" {
					if _, err := graphs[0].Invoke(ctx, at, "before", cfg); err != nil {
						t.Fatal(err)
					}
				}
				if name == "explicit" {
					state, err := graphs[0].GetState(ctx, at)
					if err != nil {
						t.Fatal(err)
					}
					at.CheckpointID = state.Address.CheckpointID
				}
				gate = make(chan struct{})
				wantOneWinner(t, runConcurrently(graphs, input, at, cfg, 5, gate))
				if n := ran.Load(); n != 1 {
					t.Errorf("%d nodes ran, want 1", n)
				}
			})
		}
	}
}

// Runs in several processes that begin from one head: the store's compare-and-set
// judges. Those with input lose before their nodes run under Sync, which waits for what
// it stores; the others learn of it with their first checkpoint.
func TestOneRunAmongProcesses(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for name, input := range map[string]any{"input": "in", "answer": pregel.Command{Resume: "yes"}} {
			t.Run(fmt.Sprint(d, "/", name), func(t *testing.T) {
				var ran atomic.Int32
				var graphs []*pregel.Graph
				savers := processes(5)
				for _, s := range savers {
					graphs = append(graphs, fan(t, pregel.Options{Saver: s}, node("a", func(ctx context.Context, v any) (any, error) {
						ran.Add(1)
						if v == "before" {
							return pregel.Ask(ctx, "?")
						}
						return v, nil
					})))
				}
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
				if _, err := graphs[0].Invoke(ctx, at, "before", cfg); err != nil {
					t.Fatal(err)
				}
				ran.Store(0)
				var loading sync.WaitGroup
				loading.Add(len(savers))
				for _, s := range savers {
					s.loaded = sync.OnceFunc(func() {
						loading.Done()
						loading.Wait()
					})
				}
				wantOneWinner(t, runConcurrently(graphs, input, at, cfg, 5, nil))
				if n := ran.Load(); name == "input" && d == pregel.Sync && n != 1 {
					t.Errorf("%d nodes ran, want 1", n)
				}
				state, err := graphs[0].GetState(ctx, pregel.Thread("t"))
				if err != nil {
					t.Fatal(err)
				}
				if out, _ := state.Map()["out"].([]any); len(out) != 1 {
					t.Errorf("the state is %v", out)
				}
			})
		}
	}
}

// A run that loses before its first superstep starts over from the new head,
// however it is run, and nobody is shown the attempt that lost.
func TestConflictStartsOver(t *testing.T) {
	for name, run := range map[string]func(g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) (events int, err error){
		"invoke": func(g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) (int, error) {
			_, err := g.Invoke(ctx, at, "outer", cfg)
			return 0, err
		},
		"stream": func(g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) (events int, err error) {
			for _, err = range g.Stream(ctx, at, "outer", withModes(cfg, pregel.ModeUpdates, pregel.ModeCheckpoints)) {
				if err == nil {
					events++
				}
			}
			return events, err
		},
	} {
		for retries := range 2 {
			t.Run(fmt.Sprint(name, "/", retries), func(t *testing.T) {
				var g, other *pregel.Graph
				raced := false
				s := watch(func(_ context.Context, op string) error {
					if !strings.HasPrefix(op, "put") || raced {
						return nil
					}
					raced = true // another process gets in between load and store
					_, err := other.Invoke(context.Background(), pregel.Thread("t"), "inner")
					return err
				})
				echo := func(_ context.Context, v any) (any, error) { return v, nil }
				g = fan(t, pregel.Options{Saver: &remote{Saver: s}}, node("a", echo))
				other = fan(t, pregel.Options{Saver: &remote{Saver: s}}, node("a", echo))
				events, err := run(g, pregel.Thread("t"), pregel.RunOptions{ConflictRetries: retries, Durability: pregel.Sync})
				if retries == 0 {
					if !errors.Is(err, pregel.ErrConflict) || events > 0 {
						t.Errorf("%d events, %v", events, err)
					}
					return
				}
				if err != nil || name == "stream" && events != 3 { // two checkpoints and an update
					t.Fatalf("%d events, %v", events, err)
				}
				state, err := g.GetState(ctx, pregel.Thread("t"))
				if err != nil || fmt.Sprint(state.Map()["out"]) != "[inner outer]" {
					t.Errorf("state %v, %v", state, err)
				}
			})
		}
	}
}

// With one retry each, runs on one thread come one after another: nobody loses,
// and no result is lost.
func TestRetriesWaitForTheThread(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for name, s := range map[string]saver.Saver{"owner": memory.New(memory.Options{}), "table": processes(1)[0]} {
			g := fan(t, pregel.Options{Saver: s}, node("a", func(_ context.Context, v any) (any, error) { return v, nil }))
			for i, err := range runConcurrently([]*pregel.Graph{g}, 1, pregel.Thread("t"), pregel.RunOptions{ConflictRetries: 1, Durability: d}, 6, nil) {
				if err != nil {
					t.Errorf("%s %s: run %d: %v", name, d, i, err)
				}
			}
			state, err := g.GetState(ctx, pregel.Thread("t"))
			if err != nil {
				t.Fatal(err)
			}
			if out, _ := state.Map()["out"].([]any); len(out) != 6 {
				t.Errorf("%s %s: %d results of 6 runs", name, d, len(out))
			}
		}
	}
}

// A node that runs a graph on the thread of its own run is refused, and does not
// wait for itself. A run on another thread is none of its business.
func TestRunInsideOwnThread(t *testing.T) {
	var g *pregel.Graph
	var own, other error
	g = fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("a", func(ctx context.Context, v any) (any, error) {
		if v == "outer" {
			ctx, cancel := context.WithTimeout(ctx, time.Minute) // it must not wait at all
			defer cancel()
			_, own = g.Invoke(ctx, pregel.Thread("t"), "inner", pregel.RunOptions{ConflictRetries: 3})
			_, other = g.Invoke(ctx, pregel.Thread("u"), "inner")
		}
		return v, nil
	}))
	if _, err := g.Invoke(ctx, pregel.Thread("t"), "outer"); err != nil {
		t.Error(err)
	}
	if !errors.Is(own, pregel.ErrConflict) || other != nil {
		t.Errorf("on its own thread %v, on another %v", own, other)
	}
}

// Whoever moves the head on purpose is not refused: a state update, a fork, a
// run with Options.LangGraph. The run under way learns of it with its next checkpoint.
func TestHeadMovedOnPurpose(t *testing.T) {
	for name, move := range map[string]func(g, langGraph *pregel.Graph, old pregel.Address) error{
		"update": func(g, _ *pregel.Graph, _ pregel.Address) error {
			_, err := g.UpdateState(ctx, pregel.Thread("t"), pregel.StateUpdate{Values: "updated", AsNode: "a"})
			return err
		},
		"fork": func(g, _ *pregel.Graph, old pregel.Address) error {
			_, err := g.Invoke(ctx, old, "inner")
			return err
		},
		"LangGraph": func(_, langGraph *pregel.Graph, _ pregel.Address) error {
			_, err := langGraph.Invoke(ctx, pregel.Thread("t"), "inner")
			return err
		},
	} {
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
			t.Run(fmt.Sprint(name, "/", d), func(t *testing.T) {
				var g *pregel.Graph
				var old pregel.Address
				var moved error
				s := memory.New(memory.Options{})
				other := fan(t, pregel.Options{Saver: s, LangGraph: true}, node("a", func(_ context.Context, v any) (any, error) { return v, nil }))
				g = fan(t, pregel.Options{Saver: s}, node("a", func(_ context.Context, v any) (any, error) {
					if v == "outer" {
						moved = move(g, other, old)
					}
					return v, nil
				}))
				for i := range 2 {
					if _, err := g.Invoke(ctx, pregel.Thread("t"), i); err != nil {
						t.Fatal(err)
					}
					if i == 0 {
						state, err := g.GetState(ctx, pregel.Thread("t"))
						if err != nil {
							t.Fatal(err)
						}
						old = state.Address
					}
				}
				_, err := g.Invoke(ctx, pregel.Thread("t"), "outer", pregel.RunOptions{Durability: d, ConflictRetries: 5})
				var ce *saver.ConflictError
				if moved != nil || !errors.As(err, &ce) || ce.Head == "" {
					t.Errorf("who moved the head: %v; the run: %v", moved, err)
				}
			})
		}
	}
}

// Forks from one checkpoint go on side by side, and an ordinary run is refused
// meanwhile.
func TestForksSideBySide(t *testing.T) {
	var inside sync.WaitGroup
	var run, refused error
	var once sync.Once
	var g *pregel.Graph
	g = fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("a", func(_ context.Context, v any) (any, error) {
		if v == "fork" {
			inside.Done()
			inside.Wait() // both are here
			once.Do(func() { _, refused = g.Invoke(context.Background(), pregel.Thread("t"), "ordinary") })
		}
		return v, nil
	}))
	at := pregel.Thread("t")
	if _, run = g.Invoke(ctx, at, 1); run != nil {
		t.Fatal(run)
	}
	state, err := g.GetState(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	if _, run = g.Invoke(ctx, at, 2); run != nil {
		t.Fatal(run)
	}
	inside.Add(2)
	at.CheckpointID = state.Address.CheckpointID
	for i, err := range runConcurrently([]*pregel.Graph{g}, "fork", at, pregel.RunOptions{}, 2, nil) {
		if err != nil {
			t.Errorf("fork %d: %v", i, err)
		}
	}
	if !errors.Is(refused, pregel.ErrConflict) {
		t.Errorf("the ordinary run: %v", refused)
	}
}

// However a run ends, the thread is free afterwards: after a failure, a panic of a
// node or a reducer, a cancellation, a question, and when nobody ranges over a
// stream any more. A task that is left behind after a timeout holds nothing.
func TestThreadIsFreeAfterRun(t *testing.T) {
	for _, s := range []saver.Saver{memory.New(memory.Options{}), processes(1)[0]} {
		synctest.Test(t, func(t *testing.T) { // else a busy machine may end "next" by the timeout
			behind := make(chan struct{})
			defer close(behind)
			g := fan(t, pregel.Options{Saver: s}, node("a", func(ctx context.Context, v any) (any, error) {
				switch v {
				case "fail":
					return nil, errBoom
				case "panic":
					panic("a node")
				case "ask":
					return pregel.Ask(ctx, "?")
				case "wait":
					return waits(ctx, v)
				case "left behind":
					<-behind
				}
				return v, nil
			}).Timeout(pregel.Timeout(50*time.Millisecond, 0)))
			at := pregel.Thread("t")
			for _, how := range []string{"fail", "panic", "ask", "left behind", "cancel", "stream", "done"} {
				c, cancel := context.WithCancel(ctx)
				switch how {
				case "cancel":
					cancel()
					_, _ = g.Invoke(c, at, "wait")
				case "stream":
					for range g.Stream(c, at, "wait", pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeCheckpoints}}) {
						break
					}
				default:
					_, _ = g.Invoke(c, at, how)
				}
				cancel()
				next := pregel.RunOptions{Unfinished: pregel.DiscardUnfinished} // a run that was cancelled left "wait"
				if _, err := g.Invoke(ctx, at, "next", next); err != nil {
					t.Errorf("%T: after %s: %v", s, how, err)
				}
			}
		})
	}
}
