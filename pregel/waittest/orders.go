package waittest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
)

// graphAt has a node whose body is work, or that does work in a function that it calls, in a graph inside, or
// in one inside that stores nothing. What work returns is the value.
func (f *fixture) graphAt(where string, work body) *pregel.Graph {
	f.t.Helper()
	run, value := work, ""
	keeping := func(ctx context.Context) (string, error) {
		v, err := work(ctx)
		value = v
		return v, err
	}
	inside := func(inner *pregel.Graph) body {
		return func(ctx context.Context) (string, error) {
			_, err := inner.Invoke(ctx, pregel.Inside(), "y")
			return value, err
		}
	}
	switch where {
	case "call":
		task := pregel.NewTask("work", func(ctx context.Context, _ int) (string, error) { return work(ctx) })
		run = func(ctx context.Context) (string, error) { return task.Call(ctx, 1) }
	case "inside":
		run = inside(f.graph(map[string]body{"in": keeping}))
	case "unstored":
		o := f.opts()
		o.Checkpointing, o.Saver = pregel.Off, nil
		inner, err := pregel.Entrypoint("inner", func(ctx context.Context, _ any) (string, error) { return keeping(ctx) }, pregel.EntrypointOptions{Options: o})
		if err != nil {
			f.t.Fatal(err)
		}
		run = inside(inner)
	}
	return f.graph(map[string]body{"a": run})
}

// turn is what a body waits for, or does, at one place.
type turn struct {
	name string
	do   func(ctx context.Context, n int) error
	end  func(g *pregel.Graph, n int) // ends the wait; nil if it is over when it is first reached
}

// everyOrder returns turns in which each kind comes behind each, itself too.
func everyOrder(kinds []turn) (turns []turn) {
	for i, k := range kinds {
		turns = append(turns, k)
		for _, other := range kinds[i+1:] {
			turns = append(turns, k, other)
		}
	}
	return append(turns, kinds[0])
}

// family plays a queue that executes children.
type family struct {
	last string // the thread of the child that was started last
	ends map[string]*pregel.ChildEnd
}

// StartChild implements pregel.Children: the child ends when the test says how.
func (k *family) StartChild(_ context.Context, c pregel.ChildSpec) error {
	k.last = c.ThreadID
	return nil
}

// ChildEnd implements pregel.Children.
func (k *family) ChildEnd(_ context.Context, thread string) (*pregel.ChildEnd, error) {
	return k.ends[thread], nil
}

// turns are one of each kind of wait, and a task with a key. A wait that begins again does not end, as the clock is set
// back.
func (f *fixture) turns(kin *family) []turn {
	hour := func(*pregel.Graph, int) { f.clock.Move(time.Hour) }
	child := pregel.NewChild[string, string]("kid")
	nap := pregel.NewTask("nap", func(ctx context.Context, n int) (int, error) { return n, pregel.Sleep(ctx, time.Hour) })
	first := map[int]time.Time{} // when a turn was come to
	never := func(what string, ok bool, err error) error {
		if ok && err == nil {
			err = errors.New(what + " came")
		}
		return err
	}
	return []turn{
		{"sleep", func(ctx context.Context, _ int) error { return pregel.Sleep(ctx, time.Hour) }, hour},
		{"time-out", func(ctx context.Context, _ int) error {
			_, ok, err := words.ReceiveFor(ctx, time.Hour)
			return never("a signal", ok, err)
		}, hour},
		{"signal", func(ctx context.Context, n int) error {
			p, err := parcels.Receive(ctx)
			return never("another signal", p.N != n, err)
		}, func(g *pregel.Graph, n int) { f.send(g, n) }},
		{"child", func(ctx context.Context, _ int) error {
			_, err := child.Call(ctx, "x")
			return err
		}, func(*pregel.Graph, int) { kin.ends[kin.last] = &pregel.ChildEnd{How: pregel.ChildDone, Output: "y"} }},
		{"child's time-out", func(ctx context.Context, _ int) error {
			started, err := child.Start(ctx, "x")
			if err != nil {
				return err
			}
			_, ok, err := started.GetFor(ctx, time.Hour)
			return never("a child", ok, err)
		}, hour},
		{"call that sleeps", func(ctx context.Context, n int) error {
			_, err := nap.Call(ctx, n)
			return err
		}, hour},
		{"sleep until now", func(ctx context.Context, n int) error {
			if first[n].IsZero() {
				first[n] = f.clock.Now()
			}
			return pregel.SleepUntil(ctx, first[n])
		}, nil},
		{"key", func(ctx context.Context, n int) error {
			_, err := pregel.IdempotencyKey(ctx, fmt.Sprint(n))
			return err
		}, nil},
	}
}

// orders: a wait that ended stays so, whatever comes behind it. A body comes to every kind of wait behind every kind.
// Behind each of them the process dies before it stores anything else, and the clock is set back behind all instants.
func (f *fixture) orders() {
	dead := errors.New("the process is dead")
	var dies atomic.Bool
	f.s = saver.Intercept(f.s, func(ctx context.Context, _ saver.Call, next func(context.Context) error) error {
		if dies.Load() {
			return dead
		}
		return next(ctx)
	})
	for _, c := range []struct {
		where      string
		durability pregel.Durability
	}{
		{"node", pregel.Sync}, {"node", pregel.Exit}, {"call", pregel.Async}, {"inside", pregel.Sync}, {"inside", pregel.Exit}, {"unstored", pregel.Async},
	} {
		if err := f.s.DeleteThread(f.t.Context(), "t"); err != nil {
			f.t.Fatal(err)
		}
		kin := &family{ends: map[string]*pregel.ChildEnd{}}
		kinds := f.turns(kin)
		turns, passed, spared := everyOrder(kinds), 0, 0
		o := pregel.RunOptions{Durability: c.durability, Children: kin}
		make := func() *pregel.Graph { // as after a restart
			return f.graphAt(c.where, func(ctx context.Context) (string, error) {
				for n, x := range turns {
					if err := x.do(ctx, n); err != nil {
						return "", err
					}
					if n < passed {
						continue
					}
					if passed = n + 1; passed > spared {
						dies.Store(true)
						return "", dead
					}
				}
				return "over", nil
			})
		}
		input := any("x")
		die := func(n int) {
			f.t.Helper()
			if _, err := make().Invoke(f.t.Context(), pregel.Thread("t"), input, o); !errors.Is(err, dead) || passed != n {
				f.t.Fatalf("%+v: %d of %d turns passed, and then: %v", c, passed, n, err)
			}
			dies.Store(false)
			input = nil
			f.clock.Move(-3 * time.Hour)
		}
		for n, x := range turns {
			if x.end != nil {
				res, err := make().Invoke(f.t.Context(), pregel.Thread("t"), input, o)
				if err != nil || len(res.Waits) != 1 || passed != n {
					f.t.Fatalf("%+v: %q is turn %d; %d passed, and then: %+v, %v", c, x.name, n, passed, res, err)
				}
				input = nil
				x.end(make(), n)
			}
			die(n + 1)
		}
		f.wantValue(f.run(make(), nil, 0, 0, o), "[over]")

		// Of what was over when it was first reached nothing is stored under Exit, until a key is taken behind it.
		if err := f.s.DeleteThread(f.t.Context(), "t"); err != nil {
			f.t.Fatal(err)
		}
		kinds = f.turns(kin)
		turns, passed, spared, input = kinds[len(kinds)-2:], 0, 1, "x"
		die(2)
		f.wantValue(f.run(make(), nil, 0, 0, o), "[over]")
	}
}

// changed: what a body has waited for ends no wait of another kind at its place, in a body that was changed
// since, or that takes another way. A signal that was taken stays so, whether a Receive of it has a time-out or
// not.
func (f *fixture) changed() {
	type kind struct {
		name   string
		awaits string // a signal
		takes  bool   // it ends with a signal
		wait   body
		end    func(g *pregel.Graph)
	}
	hour := func(*pregel.Graph) { f.clock.Move(time.Hour) }
	word := func(g *pregel.Graph) {
		if err := words.Send(f.t.Context(), g, "t", "w"); err != nil {
			f.t.Fatal(err)
		}
	}
	parcel := func(g *pregel.Graph) { f.send(g, 1) }
	kinds := []kind{
		{"sleep", "", false, func(ctx context.Context) (string, error) { return "slept", pregel.Sleep(ctx, time.Hour) }, hour},
		{"time-out", "word", false, func(ctx context.Context) (string, error) {
			_, ok, err := words.ReceiveFor(ctx, time.Hour)
			return fmt.Sprint("came in time: ", ok), err
		}, hour},
		{"word", "word", true, func(ctx context.Context) (string, error) { return words.Receive(ctx) }, word},
		{"parcel", "parcel", true, func(ctx context.Context) (string, error) {
			p, err := parcels.Receive(ctx)
			return p.From, err
		}, parcel},
		{"parcel in time", "parcel", true, func(ctx context.Context) (string, error) {
			p, ok, err := parcels.ReceiveFor(ctx, time.Hour)
			return fmt.Sprint(p.From, map[bool]string{false: " is late"}[ok]), err
		}, parcel},
	}
	make := func(k kind) *pregel.Graph {
		return f.graph(map[string]body{"a": func(ctx context.Context) (string, error) {
			v, err := k.wait(ctx)
			if err != nil {
				return "", err
			}
			f.did(v)
			return pregel.AskFor[string](ctx, "?")
		}})
	}
	for _, was := range kinds {
		for _, now := range kinds {
			if err := f.s.DeleteThread(f.t.Context(), "t"); err != nil {
				f.t.Fatal(err)
			}
			f.run(make(was), "x", 0, 1)
			was.end(make(was))
			f.run(make(was), nil, 1, 0)
			got := slices.Clone(f.done)
			if same := was.name == now.name || was.takes && was.awaits == now.awaits; !same {
				if res := f.run(make(now), nil, 0, 1); res.Waits[0].Signal != now.awaits {
					f.t.Fatalf("%s, then %s: %+v", was.name, now.name, res.Waits)
				}
				now.end(make(now))
			}
			f.run(make(now), nil, 1, 0)
			if v := f.done[len(f.done)-1]; len(f.done) != 2 || v == "" || v == "came in time: true" && was.name != "word" {
				f.t.Fatalf("%s, then %s: %q", was.name, now.name, f.done)
			}
			f.run(make(was), nil, 1, 0)
			if len(f.done) != 3 || f.done[2] != got[0] {
				f.t.Fatalf("%s, then %s, and back: %q, at first %q", was.name, now.name, f.done, got)
			}
			f.done = nil
		}
	}
}
