package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

var word = pregel.NewSignal[string]("word")

// TestSignalsTakenBeforeACrash: signals that a body has taken, and that no checkpoint has yet, are its own when it runs again, whatever
// the durability. The first of them makes the checkpoint stored, so records of the second one are stored at once.
func TestSignalsTakenBeforeACrash(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		t.Run(string(d), func(t *testing.T) {
			s := &mortal{Saver: memory.New(memory.Options{}), left: -1, stored: map[string]bool{}}
			items, err := store.NewMemory(store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			clock := waittest.NewClock()
			n, first := 0, true
			mk := func() *pregel.Graph {
				g, err := pregel.Entrypoint("g", func(ctx context.Context, _ string) (string, error) {
					out := ""
					for range n {
						v, err := word.Receive(ctx)
						if err != nil {
							return "", err
						}
						out += v
					}
					if first && n > 0 {
						first = false
						s.dies(0)
						return "", errDead
					}
					return out, nil
				}, pregel.EntrypointOptions{Options: pregel.Options{Saver: s, Store: items, Env: pregel.Environment{Now: clock.Now}}})
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			o := pregel.RunOptions{Durability: d}
			if _, err := mk().Invoke(t.Context(), pregel.Thread("t"), "x", o); err != nil {
				t.Fatal(err)
			}
			for _, v := range []string{"a", "b"} {
				if err := word.Send(t.Context(), mk(), "t", v); err != nil {
					t.Fatal(err)
				}
			}
			n = 2
			if _, err := mk().Invoke(t.Context(), pregel.Thread("t"), "x", o); !errors.Is(err, errDead) {
				t.Fatal(err)
			}
			s.dies(-1)
			res, err := mk().Invoke(t.Context(), pregel.Thread("t"), nil, o)
			if err != nil {
				t.Fatal(err)
			}
			left, err := mk().Signals(t.Context(), "t", 0)
			if res.Value != "ab" {
				t.Errorf("%v waits %+v; inbox %v %v", res.Value, res.Waits, left, err)
			}
		})
	}
}

// TestPollBehindAKey: a Receive that timed out stays so after a crash, also if its signal has come since.
func TestPollBehindAKey(t *testing.T) {
	s := &mortal{Saver: memory.New(memory.Options{}), left: -1, stored: map[string]bool{}}
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	clock := waittest.NewClock()
	begin, first := false, true
	mk := func() *pregel.Graph {
		g, err := pregel.Entrypoint("g", func(ctx context.Context, _ string) (string, error) {
			if !begin {
				return "", nil
			}
			if _, err := pregel.IdempotencyKey(ctx, "k"); err != nil {
				return "", err
			}
			v, ok, err := word.ReceiveFor(ctx, 0)
			if err != nil {
				return "", err
			}
			if first {
				first = false
				s.dies(0)
				return "", errDead
			}
			return fmt.Sprint(v, ok), nil
		}, pregel.EntrypointOptions{Options: pregel.Options{Saver: s, Store: items, Env: pregel.Environment{Now: clock.Now}}})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	o := pregel.RunOptions{Durability: pregel.Exit}
	if _, err := mk().Invoke(t.Context(), pregel.Thread("t"), "x", o); err != nil {
		t.Fatal(err)
	}
	begin = true
	if _, err := mk().Invoke(t.Context(), pregel.Thread("t"), "x", o); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	s.dies(-1)
	if err := word.Send(t.Context(), mk(), "t", "late"); err != nil {
		t.Fatal(err)
	}
	res, err := mk().Invoke(t.Context(), pregel.Thread("t"), nil, o)
	if err != nil || res.Value != "false" {
		t.Errorf("it timed out, and then %v, %v", res.Value, err)
	}
}

// TestWaitChangedTwice: a signal that a changed body has taken in the place of a sleep is that of a Receive with a time-out, too, which
// stands there after one more change.
func TestWaitChangedTwice(t *testing.T) {
	for _, first := range []string{"sleep", "none"} {
		t.Run(first, func(t *testing.T) {
			s := memory.New(memory.Options{})
			items, err := store.NewMemory(store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			clock := waittest.NewClock()
			mk := func(wait func(ctx context.Context) (string, error)) *pregel.Graph {
				g, err := pregel.Entrypoint("g", func(ctx context.Context, _ string) (string, error) {
					v, err := wait(ctx)
					if err != nil {
						return "", err
					}
					a, err := pregel.AskFor[string](ctx, "?")
					return v + a, err
				}, pregel.EntrypointOptions{Options: pregel.Options{Saver: s, Store: items, Env: pregel.Environment{Now: clock.Now}}})
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			v1 := mk(func(ctx context.Context) (string, error) { return "slept", pregel.Sleep(ctx, time.Hour) })
			v2 := mk(func(ctx context.Context) (string, error) { return word.Receive(ctx) })
			v3 := mk(func(ctx context.Context) (string, error) {
				v, ok, err := word.ReceiveFor(ctx, time.Hour)
				return fmt.Sprint(v, ok), err
			})
			in := any("x")
			run := func(g *pregel.Graph) *pregel.Result {
				t.Helper()
				res, err := g.Invoke(t.Context(), pregel.Thread("t"), in)
				if err != nil {
					t.Fatal(err)
				}
				in = nil
				return res
			}
			if first == "sleep" {
				run(v1)
				clock.Move(2 * time.Hour)
			}
			run(v2)
			if err := word.Send(t.Context(), v2, "t", "word"); err != nil {
				t.Fatal(err)
			}
			res := run(v2)
			if len(res.Interrupts) != 1 || len(res.Waits) != 0 {
				t.Fatalf("it asks %d, and waits %+v", len(res.Interrupts), res.Waits)
			}
			in = pregel.Command{Resume: "!"}
			res, err = v3.Invoke(t.Context(), pregel.Thread("t"), in)
			if err != nil {
				t.Fatal(err)
			}
			if res.Value != "wordtrue!" {
				t.Errorf("%v, asks %d, waits %+v", res.Value, len(res.Interrupts), res.Waits)
			}
		})
	}
}
