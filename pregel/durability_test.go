package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// line is a graph of nodes that run one after another; each runs f and then
// appends its name to "out". Channel "go0" starts it.
func line(t testing.TB, o pregel.Options, f func(ctx context.Context, name string) error, names ...string) *pregel.Graph {
	t.Helper()
	spec := pregel.Spec{Input: pregel.One("go0"), Output: pregel.One("out"), Channels: map[string]channel.Channel{"out": channel.Reduce(channel.Append[string])}}
	for i, name := range names {
		in, next := fmt.Sprintf("go%d", i), fmt.Sprintf("go%d", i+1)
		spec.Channels[in] = channel.Ephemeral[any](channel.Guarded)
		b := pregel.NewNode(name).SubscribeOnly(in).Do(func(ctx context.Context, _ any) (any, error) { return name, f(ctx, name) })
		b.WriteFunc("out", func(any) (any, error) { return []string{name}, nil })
		if i+1 < len(names) {
			b.WriteTo(next)
		}
		n, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	g, err := pregel.New(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func nothing(context.Context, string) error { return nil }

var allDurabilities = []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit}

// A call to the saver that fails fails the run, whichever call it is; what was
// stored before is a thread that can be resumed.
func TestFaultySaver(t *testing.T) {
	for _, as := range bothWays {
		for _, d := range allDurabilities {
			for _, c := range []struct {
				op string
				n  int
			}{{"get", 1}, {"version", 1}, {"version", 2}, {"put", 1}, {"put", 2}, {"put", 3}, {"writes", 1}, {"writes", 2}} {
				if d == pregel.Exit && (c.op == "put" && c.n > 1 || c.op == "writes") {
					continue // an Exit run that ends well stores once
				}
				t.Run(fmt.Sprintf("SAV-06/%s/%s%d", d, c.op, c.n), func(t *testing.T) {
					s := watch(failing(c.op, c.n))
					g := line(t, pregel.Options{Saver: as(s)}, nothing, "a", "b", "c")
					_, err := g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d})
					var pe *pregel.PersistError
					if !errors.As(err, &pe) || !errors.Is(err, pregel.ErrPersist) || !errors.Is(err, errDisk) {
						t.Fatalf("error %v", err)
					}
					s.before = nil
					puts := s.acked("put")
					var res *pregel.Result
					if len(puts) == 0 {
						res, err = g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d})
					} else {
						res, err = g.Invoke(ctx, pregel.Thread("t"), nil, pregel.RunOptions{Durability: d})
					}
					if err != nil || fmt.Sprint(res.Value) != "[a b c]" {
						t.Errorf("after the failure: %v, %v", res, err)
					}
				})
			}
		}
	}
}

// A failed load is an error, never a new thread.
func TestFailedLoadIsNoNewThread(t *testing.T) {
	s := watch(nil)
	g := line(t, pregel.Options{Saver: s}, nothing, "a")
	at := pregel.Thread("t")
	if _, err := g.Invoke(ctx, at, 1); err != nil {
		t.Fatal(err)
	}
	before := len(s.acked(""))
	s.before = failing("get", 1)
	if _, err := g.Invoke(ctx, at, 1); !errors.Is(err, pregel.ErrPersist) || !errors.Is(err, errDisk) {
		t.Errorf("error %v", err)
	}
	if after := len(s.acked("")); after != before {
		t.Errorf("stored %d things on a thread that could not be read", after-before)
	}
	s.before = failing("get", 1)
	if _, err := g.GetState(ctx, at); !errors.Is(err, errDisk) {
		t.Errorf("state: %v", err)
	}
	s.before = failing("get", 1)
	if _, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: 1, AsNode: "a"}); !errors.Is(err, errDisk) {
		t.Errorf("update: %v", err)
	}
}

// In Sync, the input is stored before the first node runs, and each superstep
// before the next.
func TestSyncStoresBeforeGoingOn(t *testing.T) {
	s := watch(nil)
	var at []string
	g := line(t, pregel.Options{Saver: s}, func(_ context.Context, name string) error {
		at = append(at, fmt.Sprint(name, " ", s.acked("put")))
		return nil
	}, "a", "b", "c")
	if _, err := g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: pregel.Sync}); err != nil {
		t.Fatal(err)
	}
	want := []string{"a [put -1]", "b [put -1 put 0]", "c [put -1 put 0 put 1]"}
	if !slices.Equal(at, want) {
		t.Errorf("stored when the nodes ran: %q; want %q", at, want)
	}
}

// No checkpoint is stored before the writes that made it, and checkpoints are
// stored in their order, each of them, however long single saves take.
func TestCheckpointsAfterTheirWrites(t *testing.T) {
	for _, as := range bothWays {
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				var mu sync.Mutex
				s := watch(func(_ context.Context, op string) error {
					mu.Lock()
					n++
					wait := time.Duration(n*7919%13) * time.Millisecond
					mu.Unlock()
					time.Sleep(wait)
					return nil
				})
				g := line(t, pregel.Options{Saver: as(s)}, nothing, "a", "b", "c", "d", "e")
				if _, err := g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d}); err != nil {
					t.Fatal(err)
				}
				want := []string{"put -1"}
				for i, name := range []string{"a", "b", "c", "d", "e"} {
					op := "writes ~__pregel_pull, " + name + " out"
					if name != "e" {
						op += fmt.Sprintf(" go%d", i+1)
					}
					want = append(want, op, fmt.Sprintf("put %d", i))
				}
				if got := s.acked(""); !slices.Equal(got, want) {
					t.Errorf("%s: stored in the order\n%s\nwant\n%s", d, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

// Writes of one superstep are on their way together, so that they can share a
// flush; the checkpoint waits for all of them.
func TestWritesOfAStepShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under, most := 0, 0
		var mu sync.Mutex
		s := watch(func(_ context.Context, op string) error {
			if !strings.HasPrefix(op, "writes") {
				mu.Lock()
				defer mu.Unlock()
				if strings.HasPrefix(op, "put") && under > 0 {
					t.Errorf("%s began beside %d writes", op, under)
				}
				return nil
			}
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			under--
			mu.Unlock()
			return nil
		})
		var nodes []*pregel.NodeBuilder
		for i := range 10 {
			nodes = append(nodes, node(fmt.Sprint("n", i), returns(i)))
		}
		g := fan(t, pregel.Options{Saver: s}, nodes...)
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
			most = 0
			if _, err := g.Invoke(ctx, pregel.Thread(string(d)), 1, pregel.RunOptions{Durability: d}); err != nil {
				t.Fatal(err)
			}
			if most < 2 {
				t.Errorf("%s: %d writes were under way together", d, most)
			}
		}
	})
}

// A slow saver holds an Async run back: what waits to be stored is bounded.
func TestAsyncBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := watch(func(_ context.Context, op string) error {
			if strings.HasPrefix(op, "put") {
				<-gate
			}
			return nil
		})
		const steps = 400
		ran := 0
		g := loopGraph(t, pregel.Options{Saver: s}, steps, func() { ran++ })
		done := make(chan error, 1)
		go func() {
			_, err := g.Invoke(ctx, pregel.Thread("t"), 0)
			done <- err
		}()
		synctest.Wait() // everything that can go on without the saver has
		if ran == 0 || ran > 100 {
			t.Errorf("%d of %d supersteps ran beside a saver that stands still", ran, steps)
		}
		close(gate)
		if err := <-done; err != nil || ran != steps {
			t.Errorf("%d supersteps ran, %v", ran, err)
		}
		if n := len(s.acked("put")); n != steps+1 {
			t.Errorf("%d checkpoints stored; every one of %d is", n, steps+1)
		}
	})
}

// loopGraph counts from its input to n, one superstep each.
func loopGraph(t testing.TB, o pregel.Options, n int, each func()) *pregel.Graph {
	t.Helper()
	b := pregel.NewNode("count").SubscribeOnly("n").Do(pregel.NodeOf(func(_ context.Context, i int) (any, error) { each(); return i + 1, nil }))
	b.WriteFunc("n", func(v any) (any, error) {
		if v.(int) >= n {
			return nil, nil
		}
		return v, nil
	})
	count, err := b.WriteTo("out").Build()
	if err != nil {
		t.Fatal(err)
	}
	spec := pregel.Spec{Nodes: []*pregel.Node{count}, Input: pregel.One("n"), Output: pregel.One("out"),
		Channels: map[string]channel.Channel{"n": channel.Ephemeral[int](channel.Guarded), "out": channel.LastValue[int]()}}
	g, err := pregel.New(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// An interrupt is reported only after it is stored.
func TestInterruptIsStoredBeforeItIsReported(t *testing.T) {
	for _, as := range bothWays {
		for _, d := range allDurabilities {
			s := watch(nil)
			g := fan(t, pregel.Options{Saver: as(s), Hooks: pregel.Hooks{Interrupt: func(pregel.RunInfo, []pregel.Interrupt) {
				if len(storedQuestions(s)) != 1 {
					t.Errorf("%s: the hook was called before the interrupt was stored", d)
				}
			}}}, node("a", func(ctx context.Context, _ any) (any, error) { return pregel.Ask(ctx, "?") }))
			reported := 0
			for e, err := range g.Stream(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d, Modes: []pregel.Mode{pregel.ModeUpdates, pregel.ModeTasks}}) {
				if err != nil {
					t.Fatal(err)
				}
				if tr, ok := e.Data.(pregel.TaskResult); len(e.Interrupts) == 0 && (!ok || len(tr.Interrupts) == 0) {
					continue
				}
				reported++
				if len(storedQuestions(s)) != 1 {
					t.Errorf("%s: reported in mode %s before it was stored", d, e.Mode)
				}
			}
			if reported != 2 {
				t.Errorf("%s: reported %d times; want once in each mode", d, reported)
			}
			// An interrupt that cannot be stored did not happen.
			s = watch(failing("writes", 1))
			g = fan(t, pregel.Options{Saver: as(s)}, node("a", func(ctx context.Context, _ any) (any, error) { return pregel.Ask(ctx, "?") }))
			res, err := g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d})
			if !errors.Is(err, pregel.ErrPersist) || res != nil {
				t.Errorf("%s: %v, %v; the interrupt was not stored", d, res, err)
			}
		}
	}
}

func storedQuestions(s *watched) []string {
	return slices.DeleteFunc(s.acked("writes"), func(op string) bool { return !strings.Contains(op, "__interrupt__") })
}

// ERR-14: a cancelled run lets the save under way end.
func TestCancelLetsSavesEnd(t *testing.T) {
	for _, as := range bothWays {
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
			synctest.Test(t, func(t *testing.T) {
				s := watch(func(c context.Context, op string) error {
					if op == "put 0" {
						time.Sleep(time.Second)
					}
					return c.Err()
				})
				c, cancel := context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
				g := line(t, pregel.Options{Saver: as(s)}, func(c context.Context, name string) error {
					if name == "b" {
						<-c.Done()
					}
					return c.Err()
				}, "a", "b")
				_, err := g.Invoke(c, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d})
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pregel.ErrPersist) {
					t.Errorf("%s: error %v", d, err)
				}
				if got := s.acked("put"); !slices.Equal(got, []string{"put -1", "put 0"}) {
					t.Errorf("%s: stored %v", d, got)
				}
			})
		}
	}
}

// A cancelled run does not wait for ever for a saver that is stuck, wherever the
// run stands; it says that state was not stored.
func TestCancelledRunLeavesAStuckSaver(t *testing.T) {
	for _, as := range bothWays {
		for _, d := range allDurabilities {
			for _, stuck := range []string{"put -1", "put 0", "writes"} {
				if d == pregel.Exit && stuck != "put 0" {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					s := watch(func(c context.Context, op string) error {
						if !strings.HasPrefix(op, stuck) {
							return nil
						}
						<-c.Done()
						return c.Err()
					})
					c, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					g := fan(t, pregel.Options{Saver: as(s), Env: pregel.Environment{DrainTimeout: 5 * time.Second}}, node("a", returns("a")))
					begin := time.Now()
					_, err := g.Invoke(c, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d})
					if !errors.Is(err, pregel.ErrPersist) || time.Since(begin) != 6*time.Second {
						t.Errorf("%s, stuck at %s: after %v: %v", d, stuck, time.Since(begin), err)
					}
				})
			}
		}
	}
}

// What a run failed with does not hide that its record could not be stored.
func TestFailureAndFailedSave(t *testing.T) {
	for _, as := range bothWays {
		for _, d := range allDurabilities {
			s := watch(failing("writes", 1))
			g := fan(t, pregel.Options{Saver: as(s)}, node("a", fails(errBoom)))
			_, err := g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d})
			if !errors.Is(err, errBoom) || !errors.Is(err, pregel.ErrPersist) {
				t.Errorf("%s: error %v", d, err)
			}
		}
	}
}

// DUR-01, DUR-02: what a run stores in each mode.
func TestWhatIsStored(t *testing.T) {
	for _, as := range bothWays {
		for d, want := range map[pregel.Durability]string{
			pregel.Sync:  "[put -1 put 0 put 1]",
			pregel.Async: "[put -1 put 0 put 1]",
			pregel.Exit:  "[put 1]",
		} {
			s := watch(nil)
			g := line(t, pregel.Options{Saver: as(s)}, nothing, "a", "b")
			if _, err := g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d}); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(s.acked("put")); got != want {
				t.Errorf("%s: stored %s; want %s", d, got, want)
			}
			if n := len(s.acked("writes")); (n == 0) != (d == pregel.Exit) {
				t.Errorf("%s: %d writes of tasks stored", d, n)
			}
		}
	}
}

// SAV-05: what RunOptions say of the run is stored with every checkpoint.
func TestRunMetadataIsStored(t *testing.T) {
	for _, d := range allDurabilities {
		s := memory.New(memory.Options{})
		g := line(t, pregel.Options{Saver: s}, nothing, "a", "b")
		at, cfg := pregel.Thread("t"), pregel.RunOptions{RunID: "r", Durability: d, Metadata: map[string]any{"who": "me"}, Configurable: map[string]any{"test_config_1": "foo"}}
		if _, err := g.Invoke(ctx, at, 1, cfg); err != nil {
			t.Fatal(err)
		}
		n := 0
		for tup, err := range s.List(ctx, saver.Query{ThreadID: "t"}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if md := tup.Metadata; md["test_config_1"] != "foo" || md["who"] != "me" || md.RunID() != "r" {
				t.Errorf("%s: metadata %v", d, md)
			}
		}
		if n == 0 {
			t.Errorf("%s: no checkpoint", d)
		}
	}
}

// TestRunDefersSync: a run whose caller makes it durable defers all it stores and does not sync,
// unless each superstep is to be durable before the next. Any other run makes the last that it
// stores durable, and in Async alone that may be what makes those before it durable.
func TestRunDefersSync(t *testing.T) {
	for _, d := range allDurabilities {
		for _, defers := range []bool{false, true} {
			var mu sync.Mutex
			puts, deferred, syncs, last := 0, 0, 0, false
			s := saver.Intercept(memory.New(memory.Options{}), func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case call.Method == "Sync":
					syncs++
				case strings.HasPrefix(call.Method, "Put"):
					puts++
					if last = saver.SyncDeferred(ctx); last {
						deferred++
					}
				}
				return next(ctx)
			})
			g := line(t, pregel.Options{Saver: s}, func(ctx context.Context, _ string) error {
				if saver.SyncDeferred(ctx) {
					t.Error("what a node stores by itself is deferred")
				}
				return nil
			}, "a", "b")
			if _, err := g.Invoke(t.Context(), pregel.Thread("t"), 1, pregel.RunOptions{Durability: d, DeferSync: defers}); err != nil {
				t.Fatal(err)
			}
			all := defers && d != pregel.Sync
			ok := deferred == 0
			switch {
			case all:
				ok = deferred == puts
			case d == pregel.Async:
				ok = !last
			}
			if puts == 0 || !ok || syncs != 0 {
				t.Errorf("%s, DeferSync %t: %d of %d saves were deferred, %d syncs", d, defers, deferred, puts, syncs)
			}
		}
	}
}
