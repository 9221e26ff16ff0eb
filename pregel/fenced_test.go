package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// Every save of a run that owns its thread has the epoch of the lease: those of graphs
// inside, of delta channels under Exit, of interrupts, errors and recoveries. UpdateState
// owns nothing.
func TestEverySaveIsFenced(t *testing.T) {
	for _, durability := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		t.Run(string(durability), func(t *testing.T) {
			var mu sync.Mutex
			saves, fenced := map[string]int{}, true
			s := saver.Intercept(memory.New(memory.Options{}), func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
				if slices.Contains([]string{"PutRequest", "PutWrites", "CountAttempt"}, call.Method) {
					mu.Lock()
					saves[call.Method]++
					if (call.Config.Epoch > 0) != fenced {
						t.Errorf("%s at %+v: epoch %d", call.Method, call.Config, call.Config.Epoch)
					}
					mu.Unlock()
				}
				return next(ctx)
			})
			inner := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
				Node("ask", func(ctx context.Context, _ any) (any, error) {
					answer, err := pregel.Ask(ctx, "?")
					return map[string]any{"log": []string{fmt.Sprint(answer)}}, err
				}).Edge(graph.Start, "ask").Compile(graph.Options{}))
			fail, goesAway := true, func() {}
			g := must(graph.New(graph.Key("log", channel.Delta(50, func(v []string, ws [][]string) ([]string, error) { return append(v, slices.Concat(ws...)...), nil }))).
				Node("first", func(context.Context, any) (any, error) {
					goesAway()
					return map[string]any{"log": []string{"first"}}, nil
				}).
				Node("inner", func(ctx context.Context, state any) (any, error) {
					res, err := inner.Invoke(ctx, pregel.Inside(), state)
					if err != nil {
						return nil, err
					}
					return map[string]any{"log": res.Map()["log"]}, nil
				}).
				Node("last", func(context.Context, any) (any, error) {
					if fail {
						return nil, fmt.Errorf("fails")
					}
					return map[string]any{"log": []string{"last"}}, nil
				}).
				Edge(graph.Start, "first").Edge("first", "inner").Edge("inner", "last").
				Compile(graph.Options{Name: "g", Saver: s}))
			o := pregel.RunOptions{Durability: durability}
			at := pregel.Thread("t")
			if res, err := g.Invoke(t.Context(), at, map[string]any{"log": []string{"in"}}, o); err != nil || len(res.Interrupts) != 1 {
				t.Fatalf("%+v, %v", res, err)
			}
			if _, err := g.Invoke(t.Context(), at, pregel.Command{Resume: "yes"}, o); err == nil {
				t.Fatal("the last node should fail")
			}
			fail = false
			if _, err := g.Invoke(t.Context(), at, nil, o); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			fenced = false
			mu.Unlock()
			if _, err := g.UpdateState(t.Context(), at, pregel.StateUpdate{Values: map[string]any{"log": []string{"by hand"}}, AsNode: "first"}); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			fenced = true
			mu.Unlock()
			ctx, cancel := context.WithCancel(t.Context())
			goesAway = cancel
			if _, err := g.Invoke(ctx, pregel.Thread("u"), map[string]any{"log": []string{"in"}}, o); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			goesAway = func() {}
			report, err := g.Recover(t.Context(), pregel.RecoverOptions{})
			if err != nil || len(report.Threads) == 0 {
				t.Fatalf("%+v, %v", report, err)
			}
			for _, method := range []string{"PutRequest", "PutWrites", "CountAttempt"} {
				if saves[method] == 0 {
					t.Errorf("no %s in %v", method, saves)
				}
			}
		})
	}
}

// A task does not begin once the lease may have run out: another process may have taken the
// thread over, and have run the task already.
func TestNoTaskWithoutLease(t *testing.T) {
	s := &expiring{Saver: memory.New(memory.Options{})}
	inside := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
		Node("deep", func(context.Context, any) (any, error) {
			t.Error("a task began without a lease")
			return nil, nil
		}).Edge(graph.Start, "deep").Compile(graph.Options{}))
	g := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
		Node("sleeps", func(ctx context.Context, state any) (any, error) {
			s.expired.Store(true)
			_, err := inside.Invoke(ctx, pregel.Inside(), state)
			return nil, err
		}).Edge(graph.Start, "sleeps").Compile(graph.Options{Name: "g", Saver: s}))
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"log": []string{"in"}}); !errors.Is(err, saver.ErrFenced) {
		t.Errorf("the run ended with %v, want ErrFenced", err)
	}
}

// expiring is a saver whose leases are over, by the clock of the process.
type expiring struct {
	*memory.Saver
	expired atomic.Bool
}

func (s *expiring) Own(ctx context.Context, threadID string, wait bool) (*saver.Lease, error) {
	lease, err := s.Saver.Own(ctx, threadID, wait)
	if err != nil {
		return nil, err
	}
	return saver.NewLease(threadID, lease.Epoch(), nil, func() bool { return !s.expired.Load() }, lease.Release), nil
}

// TestLeaseOfCaller: a run under its caller's lease stores with its epoch, leaves it to the caller,
// and keeps others away meanwhile. A lease that is over, and one of another thread, are refused.
func TestLeaseOfCaller(t *testing.T) {
	mem := memory.New(memory.Options{})
	var epochs []int64 // of what was stored
	s := saver.Intercept(mem, func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
		if strings.HasPrefix(call.Method, "Put") {
			epochs = append(epochs, call.Config.Epoch)
		}
		return next(ctx)
	})
	g := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
		Node("first", func(context.Context, any) (any, error) {
			return map[string]any{"log": []string{"first"}}, nil
		}).Edge(graph.Start, "first").Compile(graph.Options{Name: "g", Saver: s}))
	at, in := pregel.Thread("t"), map[string]any{"log": []string{"in"}}
	lease := must(mem.Own(t.Context(), "t", false))
	under := pregel.RunOptions{Lease: lease}
	var control pregel.Control
	control.RequestDrain("deploy")
	if _, err := g.Invoke(t.Context(), at, in, pregel.RunOptions{Lease: lease, Control: &control}); !errors.Is(err, pregel.ErrDrained) {
		t.Fatalf("the first run: %v", err)
	}
	if _, err := g.Invoke(t.Context(), at, in, under); err != nil { // finishes the first before
		t.Fatal(err)
	}
	if len(epochs) == 0 || slices.ContainsFunc(epochs, func(e int64) bool { return e != lease.Epoch() }) {
		t.Errorf("stored with the epochs %d, the lease has %d", epochs, lease.Epoch())
	}
	if _, err := g.Invoke(t.Context(), at, in); !errors.Is(err, pregel.ErrConflict) || !lease.Held() {
		t.Errorf("a run of another: %v; the lease is held: %t", err, lease.Held())
	}
	var wrong *pregel.ArgumentError
	if _, err := g.Invoke(t.Context(), pregel.Thread("u"), in, under); !errors.As(err, &wrong) || wrong.Field != "Lease" {
		t.Errorf("a lease of another thread: %v", err)
	}
	lease.Release()
	if _, err := g.Invoke(t.Context(), at, in, under); !errors.Is(err, saver.ErrFenced) {
		t.Errorf("a lease that is over: %v", err)
	}
	st := must(g.GetState(t.Context(), at))
	if log := st.Map()["log"]; !reflect.DeepEqual(log, []string{"in", "first", "in", "first"}) {
		t.Errorf("log %v", log)
	}
}
