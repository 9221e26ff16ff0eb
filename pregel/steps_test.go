package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// oneChild is who starts the children of a run: it has one, which ends when it is told.
type oneChild struct {
	started pregel.ChildSpec
	end     *pregel.ChildEnd
}

func (c *oneChild) StartChild(_ context.Context, s pregel.ChildSpec) error {
	c.started = s
	return nil
}

func (c *oneChild) ChildEnd(context.Context, string) (*pregel.ChildEnd, error) { return c.end, nil }

// shiftedClock is the clock, as far ahead as it was moved.
type shiftedClock struct{ ahead atomic.Int64 }

func (c *shiftedClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *shiftedClock) Move(d time.Duration) { c.ahead.Add(int64(d)) }

// inLines are steps, a line for each.
func inLines(steps []pregel.Step) (lines []string) {
	for _, s := range steps {
		line := strings.Repeat(". ", s.Depth) + strings.TrimSpace(fmt.Sprint(s.Kind, " ", s.Name)) + ": " + string(s.State)
		if s.Result != nil {
			line += fmt.Sprint(" ", s.Result)
		}
		if s.Error != "" {
			line += " " + s.Error
		}
		for _, q := range s.Questions {
			line += fmt.Sprint(" asks ", q.Value)
		}
		if s.Attempts > 0 {
			line += fmt.Sprintf(", %d attempts", s.Attempts)
		}
		lines = append(lines, line)
	}
	return lines
}

// stepsWant checks the steps of thread t.
func stepsWant(t *testing.T, s saver.Saver, what string, want ...string) []pregel.Step {
	t.Helper()
	steps, err := pregel.Steps(t.Context(), s, pregel.Thread("t"))
	if err != nil {
		t.Fatal(err)
	}
	if got := inLines(steps); !slices.Equal(got, want) {
		t.Fatalf("%s, the steps are\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return steps
}

// TestSteps: the steps of a workflow are told while it waits for each thing that a body can wait for, and when it has
// ended, in the order in which the body came to them.
func TestSteps(t *testing.T) {
	clock := &shiftedClock{}
	s := memory.New(memory.Options{})
	items := must(store.NewMemory(store.Options{}))
	child := &oneChild{}
	tried := 0
	double := pregel.NewTask("double", func(_ context.Context, n int) (int, error) {
		if tried++; tried == 1 {
			return 0, errors.New("not yet")
		}
		return 2 * n, nil
	}, pregel.TaskOptions{Retry: []pregel.RetryPolicy{{MaxAttempts: 2, InitialInterval: time.Microsecond, RetryOn: func(error) bool { return true }}}})
	plain := pregel.NewTask("plain", func(_ context.Context, n int) (int, error) { return n, nil })
	outer := pregel.NewTask("outer", func(ctx context.Context, n int) (int, error) { return plain.Call(ctx, n) })
	broken := pregel.NewTask("broken", func(context.Context, int) (int, error) { return 0, errors.New("no paper") })
	asks := pregel.NewTask("asks", func(ctx context.Context, _ int) (any, error) { return pregel.Ask(ctx, "go on?") })
	ship := pregel.NewChild[int, string]("ship")
	paid := pregel.NewSignal[string]("paid")
	body := func(ctx context.Context, n int) (string, error) {
		if err := pregel.Expose(ctx, "stage", "begun"); err != nil {
			return "", err
		}
		if _, err := double.Call(ctx, n); err != nil {
			return "", err
		}
		if _, err := outer.Call(ctx, n); err != nil {
			return "", err
		}
		if _, err := broken.Call(ctx, n); err == nil {
			t.Error("broken went well")
		}
		if err := pregel.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		if _, err := ship.Call(ctx, n); err != nil {
			return "", err
		}
		if _, ok, err := paid.ReceiveFor(ctx, time.Hour); ok || err != nil {
			return "", errors.Join(err, errors.New("paid early"))
		}
		if err := pregel.Expose(ctx, "stage", "nearly"); err != nil {
			return "", err
		}
		if _, err := paid.Receive(ctx); err != nil {
			return "", err
		}
		_, err := asks.Call(ctx, n)
		return "shipped", err
	}
	g := must(pregel.Entrypoint("order", body, pregel.EntrypointOptions{Options: pregel.Options{Saver: s, Store: items, Env: pregel.Environment{Now: clock.Now}}}))
	run := func(input any) {
		t.Helper()
		if _, err := g.Invoke(t.Context(), pregel.Thread("t"), input, pregel.RunOptions{Children: child}); err != nil {
			t.Fatal(err)
		}
	}
	stepsWant(t, s, "before there is a thread")
	run(21)
	begun := []string{"exposed stage: done begun", "call double: done 42, 2 attempts", "call outer: done 21, 1 attempts", ". call plain: done 21, 1 attempts"}
	steps := stepsWant(t, s, "asleep", append(slices.Clone(begun), "call broken: failed no paper", "sleep: waiting")...)
	sleep := steps[len(steps)-1]
	if sleep.Until.IsZero() || !sleep.Until.Equal(sleep.Began.Add(time.Hour)) || sleep.Node != "order" {
		t.Errorf("%+v", sleep)
	}
	if call := steps[1]; call.Began.After(sleep.Began) || call.Began.Before(steps[0].Began) || call.Took <= 0 {
		t.Errorf("%+v, before %v", call, sleep.Began)
	}

	clock.Move(time.Hour)
	run(nil)
	slept := append(slices.Clone(begun), "call broken: failed no paper", "sleep: done")
	steps = stepsWant(t, s, "a child runs", append(slices.Clone(slept), "child ship: waiting")...)
	if c := steps[len(steps)-1]; c.ThreadID != child.started.ThreadID || c.ThreadID == "" || !c.Until.IsZero() {
		t.Errorf("%+v, of %+v", c, child.started)
	}
	child.end = &pregel.ChildEnd{RunID: "r", How: pregel.ChildDone, Output: "by sea"}
	run(nil)
	shipped := append(slices.Clone(slept), "child ship: done by sea")
	stepsWant(t, s, "it waits for a signal", append(slices.Clone(shipped), "signal paid: waiting")...)
	clock.Move(time.Hour)
	run(nil)
	nearly := append(slices.Clone(shipped[1:]), "signal paid: timed out", "exposed stage: done nearly", "signal paid: waiting")
	stepsWant(t, s, "it waits again", nearly...)
	if err := pregel.NewSignal[string]("paid").Send(t.Context(), g, "t", "12 EUR"); err != nil {
		t.Fatal(err)
	}
	clock.Move(time.Minute)
	run(nil)
	nearly[len(nearly)-1] = "signal paid: done 12 EUR"
	steps = stepsWant(t, s, "it asks", append(slices.Clone(nearly), "call asks: waiting asks go on?")...)
	asked := steps[len(steps)-1].Began
	before := must(g.GetState(t.Context(), pregel.Thread("t"))).Address.CheckpointID
	clock.Move(time.Minute)
	run(pregel.Command{Resume: "yes"})
	steps = stepsWant(t, s, "ended", append(slices.Clone(nearly), "call asks: done yes, 1 attempts")...)
	if call := steps[len(steps)-1]; asked.IsZero() || !call.Began.Equal(asked) {
		t.Errorf("the call that asked began at %v, not when it asked at %v", call.Began, asked)
	}

	// They are those of the checkpoint that the run began with, and the one that it ended with begins none.
	at := pregel.Thread("t").At(before)
	if there := must(pregel.Steps(t.Context(), s, at)); !reflect.DeepEqual(there, steps) {
		t.Errorf("at the checkpoint: %v", inLines(there))
	}
	if last := must(pregel.Steps(t.Context(), s, must(g.GetState(t.Context(), pregel.Thread("t"))).Address)); len(last) > 0 {
		t.Errorf("at the last checkpoint: %v", inLines(last))
	}
	if gone := must(pregel.Steps(t.Context(), s, pregel.Thread("t").At("1f000000-0000-6000-8000-000000000000"))); gone != nil {
		t.Errorf("of no checkpoint: %v", inLines(gone))
	}
}

// TestStepsBehindASleep: a sleep that the body has passed is over, though its interrupt is stored until the body ends or
// waits again; one that the body has not passed waits.
func TestStepsBehindASleep(t *testing.T) {
	clock := &shiftedClock{}
	s := memory.New(memory.Options{})
	cut, cancel := context.WithCancel(t.Context())
	keyed := pregel.NewTask("keyed", func(ctx context.Context, n int) (int, error) {
		if _, err := pregel.IdempotencyKey(ctx, "k"); err != nil {
			return 0, err
		}
		cancel()
		<-ctx.Done()
		return 0, ctx.Err()
	})
	g := must(pregel.Entrypoint("g", func(ctx context.Context, n int) (int, error) {
		if err := pregel.Sleep(ctx, time.Hour); err != nil {
			return 0, err
		}
		return keyed.Call(ctx, n)
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: s, Env: pregel.Environment{Now: clock.Now}}}))
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), 7); err != nil {
		t.Fatal(err)
	}
	stepsWant(t, s, "asleep", "sleep: waiting")
	clock.Move(time.Hour)
	if _, err := g.Invoke(cut, pregel.Thread("t"), nil); err == nil {
		t.Fatal("it was not cut off")
	}
	stepsWant(t, s, "cut off behind it", "sleep: done", "call keyed: begun")
}

// TestStepsOfChildren: children are told in the order of their starts, with the end that their parent got. One that was
// cancelled has no other reason.
func TestStepsOfChildren(t *testing.T) {
	s := memory.New(memory.Options{})
	child := &oneChild{end: &pregel.ChildEnd{How: pregel.ChildCancelled}}
	body := func(ctx context.Context, n int) (string, error) {
		for _, graph := range []string{"third", "first", "second"} {
			if _, err := pregel.NewChild[int, string](graph).Start(ctx, n); err != nil {
				return "", err
			}
		}
		var ended *pregel.ChildError
		if _, err := pregel.NewChild[int, string]("last").Call(ctx, n); !errors.As(err, &ended) {
			return "", err
		}
		return "", errors.New("stop")
	}
	g := must(pregel.Entrypoint("g", body, pregel.EntrypointOptions{Options: pregel.Options{Saver: s}}))
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), 1, pregel.RunOptions{Children: child}); err == nil {
		t.Fatal("it went well")
	}
	stepsWant(t, s, "it failed", "child third: begun", "child first: begun", "child second: begun", "child last: failed cancelled")
}

// TestStepsWithoutRecords: what LangGraph, or an earlier release, has stored of calls is told without names and times. A
// call that was cut off, and whose key somebody may know, has begun.
func TestStepsWithoutRecords(t *testing.T) {
	s := memory.New(memory.Options{})
	pay := pregel.NewTask("pay", func(_ context.Context, n int) (int, error) { return n, nil })
	body := func(ctx context.Context, n int) (any, error) {
		if _, err := pay.Call(ctx, n); err != nil {
			return nil, err
		}
		return pregel.Ask(ctx, "go on?")
	}
	g := must(pregel.Entrypoint("g", body, pregel.EntrypointOptions{Options: pregel.Options{Saver: s, LangGraph: true}}))
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), 7); err != nil {
		t.Fatal(err)
	}
	stepsWant(t, s, "with LangGraph's ways", "call: done 7")

	cut, cancel := context.WithCancel(t.Context())
	keyed := pregel.NewTask("keyed", func(ctx context.Context, n int) (int, error) {
		if _, err := pregel.IdempotencyKey(ctx, "k"); err != nil {
			return 0, err
		}
		cancel()
		<-ctx.Done()
		return 0, ctx.Err()
	})
	s = memory.New(memory.Options{})
	g = must(pregel.Entrypoint("g", keyed.Call, pregel.EntrypointOptions{Options: pregel.Options{Saver: s}}))
	if _, err := g.Invoke(cut, pregel.Thread("t"), 7); err == nil {
		t.Fatal("it was not cut off")
	}
	stepsWant(t, s, "cut off", "call keyed: begun")
}
