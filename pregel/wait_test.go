package pregel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// Threads sleep alike in every saver.
func TestWaits(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		waittest.Test(t, func(*testing.T) saver.Saver { return memory.New(memory.Options{}) })
	})
	t.Run("disk", func(t *testing.T) {
		waittest.Test(t, func(t *testing.T) saver.Saver {
			s, err := disk.Open(t.TempDir(), disk.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		})
	})
}

// Signals are received alike from every store.
func TestSignals(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		waittest.Signals(t, func(t *testing.T) (saver.Saver, store.Store) {
			items, err := store.NewMemory(store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return memory.New(memory.Options{}), items
		})
	})
	t.Run("disk", func(t *testing.T) {
		waittest.Signals(t, func(t *testing.T) (saver.Saver, store.Store) {
			s, err := disk.Open(t.TempDir(), disk.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			items, err := store.On(s, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { items.Close() })
			return s, items
		})
	})
}

// A run may die at any of its saves, before a sleep, at it, and after it. The instant that was stored holds,
// a sleep never ends early, and what ended before it does not run again.
func TestSleepsSurviveDeathAtEverySave(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for deathAt := 0; ; deathAt++ {
			if saves := dieAsleep(t, d, deathAt); saves <= deathAt {
				if deathAt < 4 {
					t.Errorf("%s: %d saves", d, saves)
				}
				break
			}
		}
	}
}

// dieAsleep runs a body that calls, sleeps, calls and sleeps again, and dies at a save, once.
func dieAsleep(t *testing.T, d pregel.Durability, deathAt int) (saves int) {
	t.Helper()
	m := &mortal{Saver: memory.New(memory.Options{}), left: deathAt, stored: map[string]bool{}}
	clock := waittest.NewClock()
	o := pregel.RunOptions{Durability: d}
	called, ended := map[string]int{}, map[string]bool{}
	call := func(name string) *pregel.TaskFunc[int, string] {
		return pregel.NewTask(name, func(context.Context, int) (string, error) {
			if called[name]++; ended[name] {
				t.Errorf("%s, death at save %d: %s ran again although a sleep after it was stored", d, deathAt, name)
			}
			return name, nil
		})
	}
	var asleep []time.Time // the ends of the sleeps that were reported
	g, err := pregel.Entrypoint("flow", func(ctx context.Context, _ string) (string, error) {
		for i, name := range []string{"first", "second"} {
			if _, err := call(name).Call(ctx, i); err != nil {
				return "", err
			}
			if err := pregel.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			if len(asleep) > i && clock.Now().Before(asleep[i]) {
				t.Errorf("%s, death at save %d: woke at %v, before %v", d, deathAt, clock.Now(), asleep[i])
			}
		}
		return "done", nil
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: m, Env: pregel.Environment{Now: clock.Now}}})
	if err != nil {
		t.Fatal(err)
	}
	var input any = "x"
	for range 20 {
		res, err := g.Invoke(ctx, pregel.Thread("t"), input, o)
		switch {
		case errors.Is(err, errDead):
			m.left, input = -1, nil
			continue
		case errors.Is(err, pregel.ErrEmptyInput): // nothing had been stored
			input = "x"
			continue
		case err != nil:
			t.Fatalf("%s, death at save %d: %v", d, deathAt, err)
		case len(res.Waits) == 0:
			if res.Value != "done" || len(asleep) != 2 {
				t.Errorf("%s, death at save %d: %+v after %d sleeps", d, deathAt, res, len(asleep))
			}
			return m.saves
		}
		input = nil
		switch until := res.Waits[0].Until; {
		case len(asleep) == 0 || until.After(asleep[len(asleep)-1]):
			if asleep = append(asleep, until); len(asleep) > 2 {
				t.Fatalf("%s, death at save %d: a third sleep: %v, called %v", d, deathAt, asleep, called)
			}
			ended[[]string{"first", "second"}[len(asleep)-1]] = true
		case !until.Equal(asleep[len(asleep)-1]):
			t.Fatalf("%s, death at save %d: the sleep ends at %v, and did at %v", d, deathAt, until, asleep)
		}
		clock.Move(20 * time.Minute)
	}
	t.Fatalf("%s, death at save %d: the run does not end", d, deathAt)
	return 0
}

// Nobody sleeps until the zero time.
func TestSleepUntilTheZeroTime(t *testing.T) {
	g, err := pregel.Entrypoint("flow", func(ctx context.Context, _ string) (string, error) {
		return "done", pregel.SleepUntil(ctx, time.Time{})
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: memory.New(memory.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := g.Invoke(ctx, pregel.Thread("t"), "x"); err != nil || res.Value != "done" {
		t.Errorf("%+v, %v", res, err)
	}
}

// An instant that no text of an interrupt can say is refused, and the thread does not sleep for ever.
func TestSleepUntilTheFarFuture(t *testing.T) {
	g, err := pregel.Entrypoint("flow", func(ctx context.Context, _ string) (string, error) {
		return "done", pregel.SleepUntil(ctx, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: memory.New(memory.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(ctx, pregel.Thread("t"), "x"); !errors.Is(err, pregel.ErrInvalidArgument) {
		t.Error(err)
	}
}

// A store may embed its items and let them expire. Signals and their keys last, and nobody embeds them.
func TestSignalsLast(t *testing.T) {
	clock := waittest.NewClock()
	items, err := store.NewMemory(store.Options{TTL: time.Hour, Clock: clock.Now, Index: &store.Index{Dims: 1,
		Embed: func(context.Context, []string) ([][]float32, error) { return nil, errors.New("a signal is embedded") }}})
	if err != nil {
		t.Fatal(err)
	}
	words := pregel.NewSignal[string]("word")
	g, err := pregel.Entrypoint("flow", func(ctx context.Context, _ string) (string, error) {
		one, err := words.Receive(ctx)
		if err != nil {
			return "", err
		}
		two, err := words.Receive(ctx)
		return one + two, err
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: memory.New(memory.Options{}), Store: items, Env: pregel.Environment{Now: clock.Now}}})
	if err != nil {
		t.Fatal(err)
	}
	var input any = "x"
	for _, word := range []string{"", "a", "a", "b"} {
		if word != "" {
			if err := words.Send(ctx, g, "t", word, pregel.SignalOptions{Key: word}); err != nil {
				t.Fatal(err)
			}
		}
		clock.Move(24 * time.Hour)
		if _, err := items.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		res, err := g.Invoke(ctx, pregel.Thread("t"), input)
		if err != nil || (len(res.Waits) == 0) != (word == "b") || word == "b" && res.Value != "ab" {
			t.Fatalf("after %q: %+v, %v", word, res, err)
		}
		input = nil
	}
}

// TestSignalsOfAnotherOwner: a run that has lost its thread sets no signal aside, which the owner may be able to take.
func TestSignalsOfAnotherOwner(t *testing.T) {
	var lost atomic.Bool
	s := saver.Intercept(memory.New(memory.Options{}), func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
		if lost.Load() && (call.Method == "PutWrites" || call.Method == "PutRequest") {
			return saver.ErrFenced
		}
		return next(ctx)
	})
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	numbers := pregel.NewSignal[int]("n")
	visits := 0
	g, err := pregel.Entrypoint("flow", func(ctx context.Context, _ string) (int, error) {
		visits++
		lost.Store(visits == 2)
		return numbers.Receive(ctx)
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: s, Store: items}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(ctx, pregel.Thread("t"), "x"); err != nil {
		t.Fatal(err)
	}
	if err := g.Signal(ctx, "t", "n", "text"); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(ctx, pregel.Thread("t"), nil); !errors.Is(err, saver.ErrFenced) {
		t.Errorf("the run ended with %v", err)
	}
	lost.Store(false)
	if list, err := g.RefusedSignals(ctx, "t"); err != nil || len(list) > 0 {
		t.Errorf("refused: %+v, %v", list, err)
	}
}
