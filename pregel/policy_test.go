package pregel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store/cache"
)

type temporary bool

func (t temporary) Error() string   { return fmt.Sprint("temporary ", bool(t)) }
func (t temporary) Temporary() bool { return bool(t) }

func TestRetryPredicates(t *testing.T) {
	other := errors.New("other")
	t.Run("RTY-01", func(t *testing.T) {
		only := pregel.RetryOnErrors(errBoom)
		if !only(fmt.Errorf("wrapped: %w", errBoom)) || only(other) || pregel.RetryOnErrors()(errBoom) {
			t.Error("a list of errors matches those errors, and no list none")
		}
	})
	t.Run("RTY-02", func(t *testing.T) {
		_, number := strconv.Atoi("x")
		_, missing := os.Open("no such file")
		refused := &net.OpError{Op: "dial", Err: &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}}
		for err, want := range map[error]bool{
			refused: true, &url.Error{Op: "Get", Err: refused}: true, syscall.ECONNRESET: true, io.ErrUnexpectedEOF: true, &net.DNSError{IsNotFound: true}: true,
			&url.Error{Op: "Get", Err: context.DeadlineExceeded}: true, httpError(0): true, httpError(500): true, httpError(503): true, httpError(599): true,
			httpError(404): false, httpError(400): false, httpError(429): false, httpError(600): false, fmt.Errorf("wrapped: %w", awsError(502)): true, awsError(403): false,
			number: false, missing: false, syscall.ENOSPC: false, json.Unmarshal([]byte("{"), new(int)): false, json.Unmarshal([]byte(`"x"`), new(int)): false,
			&channel.TypeError{}: false,
			errBoom:              true, temporary(true): true, temporary(false): false, fmt.Errorf("wrapped: %w", temporary(false)): false,
			&pregel.NodeTimeoutError{}: true, &pregel.PanicError{}: false, context.Canceled: false, context.DeadlineExceeded: false,
			&pregel.InvalidUpdateError{}: false, &channel.UpdateError{}: false, &pregel.NodeCancelledError{Err: context.Canceled}: false,
		} {
			if got := pregel.RetryTransient(err); got != want {
				t.Errorf("%T %v: %v", err, err, got)
			}
		}
	})
}

// Waits between attempts are those of the policy, and time stands still but for
// them.
func TestRetryWaits(t *testing.T) {
	for id, c := range map[string]struct {
		policy pregel.RetryPolicy
		jitter float64
		want   time.Duration
		tries  int32
	}{
		"RTY-03":   {pregel.RetryPolicy{InitialInterval: 10 * time.Millisecond, NoJitter: true}, 0, 30 * time.Millisecond, 3},
		"RTY-04":   {pregel.RetryPolicy{InitialInterval: 10 * time.Millisecond, MaxAttempts: 2}, 0.5, 510 * time.Millisecond, 2},
		"RTY-06":   {pregel.RetryPolicy{InitialInterval: time.Second, MaxAttempts: 2, NoJitter: true}, 0, time.Second, 2},
		"defaults": {pregel.RetryPolicy{NoJitter: true}, 0, 1500 * time.Millisecond, 3},
		"bounded":  {pregel.RetryPolicy{MaxAttempts: 12, MaxInterval: time.Second, NoJitter: true}, 0, 10500 * time.Millisecond, 12},
	} {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int32
				env := pregel.Environment{Jitter: func() float64 { return c.jitter }}
				g := fan(t, pregel.Options{Env: env}, node("n", func(context.Context, any) (any, error) { tries.Add(1); return nil, errBoom }).Retry(c.policy))
				begin := time.Now()
				_, err := g.Invoke(ctx, pregel.Address{}, 1)
				if took := time.Since(begin); !errors.Is(err, errBoom) || took != c.want || tries.Load() != c.tries {
					t.Errorf("%d attempts in %v, %v; want %d in %v", tries.Load(), took, err, c.tries, c.want)
				}
			})
		})
	}
	t.Run("RTY-05", func(t *testing.T) { // the first policy that wants the error decides
		other := errors.New("other")
		for err, want := range map[error]int32{errBoom: 2, other: 3} {
			var tries atomic.Int32
			env := pregel.Environment{Sleep: func(time.Duration, <-chan struct{}) {}}
			g := fan(t, pregel.Options{Env: env}, node("n", func(context.Context, any) (any, error) { tries.Add(1); return nil, err }).
				Retry(pregel.RetryPolicy{MaxAttempts: 2, RetryOn: pregel.RetryOnErrors(errBoom)}, pregel.RetryPolicy{MaxAttempts: 3}))
			if _, got := g.Invoke(ctx, pregel.Address{}, 1); !errors.Is(got, err) || tries.Load() != want {
				t.Errorf("%v: %d attempts, %v; want %d", err, tries.Load(), got, want)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) { // a cancelled run does not wait for the next attempt
		synctest.Test(t, func(t *testing.T) {
			c, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			g := fan(t, pregel.Options{}, node("n", fails(errBoom)).Retry(pregel.RetryPolicy{InitialInterval: time.Hour, MaxInterval: time.Hour}))
			begin := time.Now()
			if _, err := g.Invoke(c, pregel.Address{}, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
		})
	})
}

// busy makes progress every 40 ms for 400 ms.
func busy(progress func(context.Context)) pregel.Func {
	return func(c context.Context, _ any) (any, error) {
		for range 10 {
			select {
			case <-time.After(40 * time.Millisecond):
			case <-c.Done():
				return nil, c.Err()
			}
			progress(c)
		}
		return "done", nil
	}
}

func TestTimeoutProgress(t *testing.T) {
	call := pregel.NewTask("call", func(context.Context, int) (int, error) { return 1, nil })
	inner := fan(t, pregel.Options{}, node("in", func(c context.Context, _ any) (any, error) { return 1, pregel.Heartbeat(c) }))
	beat := func(c context.Context) { _ = pregel.Heartbeat(c) }
	emit := func(c context.Context) { _ = pregel.Emit(c, 1) }
	explicit := *pregel.Timeout(0, 50*time.Millisecond)
	explicit.RefreshOn = "heartbeat"
	for name, c := range map[string]struct {
		progress func(context.Context)
		policy   *pregel.TimeoutPolicy
		kind     string // of the timeout; "" if there is none
		after    time.Duration
	}{
		"RTY-08/run is not refreshed":         {beat, pregel.Timeout(100*time.Millisecond, 0), "run", 100 * time.Millisecond},
		"RTY-08/heartbeat refreshes":          {beat, pregel.Timeout(0, 50*time.Millisecond), "", 400 * time.Millisecond},
		"RTY-08/events refresh":               {emit, pregel.Timeout(0, 50*time.Millisecond), "", 400 * time.Millisecond},
		"RTY-08/calls refresh":                {func(c context.Context) { _, _ = call.Call(c, 1) }, pregel.Timeout(0, 50*time.Millisecond), "", 400 * time.Millisecond},
		"RTY-08/graphs inside refresh":        {func(c context.Context) { _, _ = inner.Invoke(c, pregel.Inside(), 1) }, pregel.Timeout(0, 50*time.Millisecond), "", 400 * time.Millisecond},
		"RTY-08/silence":                      {func(context.Context) {}, pregel.Timeout(0, 50*time.Millisecond), "idle", 50 * time.Millisecond},
		"RTY-08/events are no heartbeat":      {emit, &explicit, "idle", 50 * time.Millisecond},
		"RTY-08/explicit heartbeat":           {beat, &explicit, "", 400 * time.Millisecond},
		"RTY-09/both set, the run's runs out": {beat, pregel.Timeout(60*time.Millisecond, 50*time.Millisecond), "run", 60 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := fan(t, pregel.Options{}, node("n", busy(c.progress)).Timeout(c.policy))
				begin := time.Now()
				_, err := g.Invoke(ctx, pregel.Address{}, 1)
				took := time.Since(begin)
				var nt *pregel.NodeTimeoutError
				if errors.As(err, &nt) != (c.kind != "") || took != c.after {
					t.Fatalf("after %v: %v", took, err)
				}
				if c.kind != "" && (nt.Kind != c.kind || nt.Node != "n" || nt.Elapsed != took || nt.RunTimeout != c.policy.Run() || nt.IdleTimeout != c.policy.Idle()) {
					t.Errorf("error %+v", nt)
				}
			})
		})
	}
}

func TestTimeoutsCompose(t *testing.T) {
	t.Run("RTY-11/with retry", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			g := fan(t, pregel.Options{}, node("n", func(c context.Context, _ any) (any, error) {
				if tries++; tries < 3 {
					return waits(c, nil)
				}
				return "third", nil
			}).Timeout(pregel.Timeout(time.Second, 0)).Retry(pregel.RetryPolicy{NoJitter: true}))
			begin := time.Now()
			res, err := g.Invoke(ctx, pregel.Address{}, 1)
			wantOut(t, res, err, "third")
			if took := time.Since(begin); took != 3500*time.Millisecond {
				t.Errorf("took %v; want two attempts of 1 s, waits of 0.5 s and 1 s", took)
			}
		})
	})
	t.Run("RTY-11/of a packet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := fan(t, pregel.Options{}, pregel.NewNode("sender").Write(func(w *pregel.Writing, _ any) error {
				w.Send(pregel.Send{Node: "later", Arg: 1, Timeout: pregel.Timeout(time.Minute, 0)})
				return nil
			}), pregel.NewNode("later").Do(func(c context.Context, v any) (any, error) {
				if info, _ := pregel.Task(c); info.Step == 0 {
					return "first", nil // it subscribes to the input as well
				}
				return waits(c, v)
			}).Timeout(pregel.Timeout(time.Hour, 0)))
			_, err := g.Invoke(ctx, pregel.Address{}, 1)
			var nt *pregel.NodeTimeoutError
			if !errors.As(err, &nt) || nt.Node != "later" || nt.Timeout != time.Minute {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("ERR-13", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			deaf := make(chan struct{}) // a node that does not listen to its context is left behind
			g := fan(t, pregel.Options{StepTimeout: time.Second, Saver: memory.New(memory.Options{})},
				node("fast", func(context.Context, any) (any, error) { time.Sleep(600 * time.Millisecond); return "fast", nil }),
				node("slow", func(context.Context, any) (any, error) { <-deaf; return "slow", nil }))
			begin := time.Now()
			_, err := g.Invoke(ctx, pregel.Thread("t"), 1)
			if took := time.Since(begin); !errors.Is(err, pregel.ErrStepTimeout) || took != time.Second {
				t.Errorf("after %v: %v", took, err)
			}
			close(deaf)
			state, err := g.GetState(ctx, pregel.Thread("t"))
			if err != nil || !slices.Equal(state.Next, []string{"slow"}) {
				t.Errorf("next %v, %v", state, err)
			}
		})
	})
	t.Run("ERR-10", func(t *testing.T) { // what a task ended with in time is not masked by the timeout
		g := fan(t, pregel.Options{StepTimeout: time.Hour}, node("n", fails(&pregel.ParentCommandError{Command: pregel.Command{Graph: "other", Goto: "test_cmd"}})))
		_, err := g.Invoke(ctx, pregel.Address{}, 1)
		var pc *pregel.ParentCommandError
		if !errors.As(err, &pc) || pc.Command.Goto != "test_cmd" {
			t.Errorf("error %v", err)
		}
	})
}

// A node that outlives its timeout is left behind: it may end while the loop
// changes the channels, and must neither read nor write them.
func TestLateWriterIsIgnored(t *testing.T) { // RTY-10
	release, late := make(chan struct{}), make(chan error, 1)
	tries := atomic.Int32{}
	env := pregel.Environment{Sleep: func(time.Duration, <-chan struct{}) {}}
	slow := pregel.NewNode("n").Do(func(context.Context, any) (any, error) {
		if tries.Add(1) == 1 {
			<-release
			return "late", nil
		}
		return "second", nil
	}).Write(func(w *pregel.Writing, out any) error {
		_, err := w.Read(pregel.Many("in", "out"))
		if out == "late" {
			late <- err
		}
		return nil
	}).Timeout(pregel.Timeout(5*time.Millisecond, 0)).Retry(pregel.RetryPolicy{})
	res, err := fan(t, pregel.Options{Env: env}, slow).Invoke(ctx, pregel.Address{}, 1)
	wantOut(t, res, err, "second")
	close(release)
	if err := <-late; !errors.Is(err, pregel.ErrOutsideTask) {
		t.Errorf("a late read: %v", err)
	}
}

func TestDrain(t *testing.T) {
	for _, d := range allDurabilities {
		t.Run("RUN-01/DUR-03/"+string(d), func(t *testing.T) {
			control := &pregel.Control{}
			var ran []string
			g := line(t, pregel.Options{Saver: memory.New(memory.Options{})}, func(_ context.Context, name string) error {
				if ran = append(ran, name); name == "a" {
					control.RequestDrain("sigterm")
					control.RequestDrain("later")
				}
				return nil
			}, "a", "b")
			at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d, Control: control}
			_, err := g.Invoke(ctx, at, 1, cfg)
			var de *pregel.DrainedError
			if !errors.As(err, &de) || !errors.Is(err, pregel.ErrDrained) || de.Reason != "sigterm" {
				t.Fatalf("error %v", err)
			}
			cfg.Control = nil
			res, err := g.Invoke(ctx, at, nil, cfg)
			if err != nil || fmt.Sprint(res.Value, ran) != "[a b] [a b]" {
				t.Errorf("%v, %v, ran %v", res, err, ran)
			}
		})
	}
	t.Run("RUN-02", func(t *testing.T) {
		control := &pregel.Control{}
		g := fan(t, pregel.Options{}, node("a", func(context.Context, any) (any, error) { control.RequestDrain(""); return "a", nil }))
		res, err := g.Invoke(ctx, pregel.Address{}, 1, pregel.RunOptions{Control: control})
		wantOut(t, res, err, "a")
	})
}

func TestSupersteps(t *testing.T) {
	t.Run("STEP-01", func(t *testing.T) {
		g := line(t, pregel.Options{}, nothing, "a", "b")
		if _, err := g.Invoke(ctx, pregel.Address{}, 2, pregel.RunOptions{RecursionLimit: 1}); !errors.Is(err, pregel.ErrRecursionLimit) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("STEP-02", func(t *testing.T) {
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("n%03d", i))
		}
		g := line(t, pregel.Options{}, nothing, names...)
		if _, err := g.Invoke(ctx, pregel.Address{}, 2, pregel.RunOptions{RecursionLimit: 100}); err != nil {
			t.Errorf("error %v", err)
		}
		var re *pregel.RecursionError
		if _, err := g.Invoke(ctx, pregel.Address{}, 2, pregel.RunOptions{RecursionLimit: 99}); !errors.As(err, &re) || re.Limit != 99 {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a cycle without end", func(t *testing.T) { // stored as far as it came, and goes on
		s := memory.New(memory.Options{})
		n := 0
		g := loopGraph(t, pregel.Options{Saver: s}, 1<<30, func() { n++ })
		for range 2 {
			var re *pregel.RecursionError
			var input any
			if n == 0 {
				input = 0
			}
			if _, err := g.Invoke(ctx, pregel.Thread("t"), input, pregel.RunOptions{RecursionLimit: 10}); !errors.As(err, &re) || re.Limit != 10 {
				t.Fatalf("error %v", err)
			}
		}
		state, err := g.GetState(ctx, pregel.Thread("t"))
		if err != nil || state.Map()["n"] != n || n < 20 {
			t.Errorf("%d supersteps, %v, %v", n, state, err)
		}
	})
	t.Run("STEP-17", func(t *testing.T) {
		var seen []string
		spec, o := pregel.Spec{Channels: map[string]channel.Channel{"in": channel.Ephemeral[any](channel.Guarded), "out": channel.LastValue[any]()}, Managed: map[string]channel.Managed{"last": channel.IsLastStep, "left": channel.RemainingSteps}, Input: pregel.One("in"), Output: pregel.One("out")},
			pregel.Options{}
		n, err := node("n", func(_ context.Context, v any) (any, error) {
			in := v.(map[string]any)
			seen = append(seen, fmt.Sprint(in["last"], in["left"]))
			if in["last"] == true {
				return nil, nil
			}
			return 1, nil
		}).SubscribeTo("in").ReadFrom("last", "left").WriteFunc("in", func(v any) (any, error) { return v, nil }).Build()
		if err != nil {
			t.Fatal(err)
		}
		spec.Nodes = []*pregel.Node{n}
		g, err := pregel.New(spec, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Invoke(ctx, pregel.Address{}, 1, pregel.RunOptions{RecursionLimit: 3}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(seen, ", "); got != "false 3, false 2, true 1" {
			t.Errorf("saw %s", got)
		}
	})
}

func newCache(t *testing.T, o cache.Options) *cache.Memory {
	t.Helper()
	c, err := cache.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNodeCache(t *testing.T) {
	now := time.Unix(1000, 0)
	kept := newCache(t, cache.Options{Clock: func() time.Time { return now }})
	runs := 0
	g := fan(t, pregel.Options{Cache: kept}, node("n", func(_ context.Context, v any) (any, error) {
		if runs++; v == "bad" {
			return nil, errBoom
		}
		return v, nil
	}).Cache(pregel.CachePolicy{TTL: time.Minute}))
	steps := []struct {
		id    string
		do    func()
		input any
		runs  int
	}{
		{"CAC-01/miss", func() {}, "x", 1},
		{"CAC-01/hit", func() {}, "x", 1},
		{"CAC-01/other input", func() {}, "y", 2},
		{"CAC-01/shortly before the end", func() { now = now.Add(59 * time.Second) }, "x", 2},
		{"CAC-01/expired", func() { now = now.Add(time.Second) }, "x", 3},
		{"CAC-02/cleared", func() { _ = g.ClearCache(ctx, "n") }, "x", 4},
		{"CAC-02/another node cleared", func() { _ = g.ClearCache(ctx, "other") }, "x", 4},
		{"CAC-02/all cleared", func() { _ = g.ClearCache(ctx) }, "x", 5},
		{"failures are not kept", func() {}, "bad", 6},
		{"failures are not kept, again", func() {}, "bad", 7},
	}
	for _, s := range steps {
		t.Run(s.id, func(t *testing.T) {
			s.do()
			before := runs
			cached := false
			for e, err := range g.Stream(ctx, pregel.Address{}, s.input, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeUpdates}}) {
				if err != nil && s.input != "bad" {
					t.Fatal(err)
				}
				if u, ok := e.Data.(pregel.Update); ok {
					cached = u.Cached
				}
			}
			if runs != s.runs || cached != (runs == before) {
				t.Errorf("ran %d times, cached %v; want %d", runs, cached, s.runs)
			}
		})
	}
	if err := fan(t, pregel.Options{}, node("n", returns(1))).ClearCache(ctx); !errors.Is(err, pregel.ErrNoCache) {
		t.Errorf("CAC-02: %v", err)
	}
}

func TestPendingWrites(t *testing.T) {
	for _, d := range allDurabilities {
		t.Run("ERR-01/ERR-03/"+string(d), func(t *testing.T) {
			var one, two atomic.Int32
			broken := true
			env := pregel.Environment{Sleep: func(time.Duration, <-chan struct{}) {}}
			g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), Env: env},
				node("one", func(context.Context, any) (any, error) { one.Add(1); return 2, nil }),
				node("two", func(context.Context, any) (any, error) {
					if two.Add(1); broken {
						for one.Load() == 0 { // or a failure may cancel it before it began
							time.Sleep(time.Millisecond)
						}
						return nil, errBoom
					}
					return 3, nil
				}).Retry(pregel.RetryPolicy{MaxAttempts: 2}))
			at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
			for run := int32(1); run <= 2; run++ {
				var input any
				if run == 1 {
					input = 1
				}
				if _, err := g.Invoke(ctx, at, input, cfg); !errors.Is(err, errBoom) {
					t.Fatal(err)
				}
				state, err := g.GetState(ctx, at)
				if err != nil || !slices.Equal(state.Next, []string{"two"}) || len(state.Tasks) != 2 || state.Tasks[1].Err != "boom" || !state.Tasks[0].Finished {
					t.Fatalf("state %+v, %v", state, err)
				}
				if one.Load() != 1 || two.Load() != 2*run {
					t.Errorf("one ran %d times, two %d", one.Load(), two.Load())
				}
			}
			broken = false
			res, err := g.Invoke(ctx, at, nil, cfg)
			if err != nil || fmt.Sprint(res.Value) != "[2 3]" {
				t.Errorf("%v, %v", res, err)
			}
		})
	}
	t.Run("ERR-09", func(t *testing.T) { // a sibling that waits for an answer cancels nobody
		var okay atomic.Int32
		asked := make(chan struct{})
		g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), Hooks: pregel.Hooks{TaskEnd: func(i pregel.TaskInfo, _ time.Duration, _ error) {
			if i.Node == "ask" && okay.Load() == 0 {
				close(asked)
			}
		}}}, node("ask", func(c context.Context, _ any) (any, error) { return pregel.Ask(c, "?") }),
			node("work", func(context.Context, any) (any, error) { <-asked; okay.Add(1); return "world", nil }))
		at := pregel.Thread("t")
		for range 2 {
			var input any
			if okay.Load() == 0 {
				input = 1
			}
			res, err := g.Invoke(ctx, at, input)
			wantOut(t, res, err, "world")
			if len(res.Interrupts) != 1 {
				t.Errorf("interrupts %v", res.Interrupts)
			}
		}
		res, err := g.Invoke(ctx, at, pregel.Command{Resume: "okay"})
		wantOut(t, res, err, "okay", "world")
		if okay.Load() != 1 {
			t.Errorf("the finished task ran %d times", okay.Load())
		}
	})
}
