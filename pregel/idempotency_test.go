package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// world is what side effects are done to. It knows them by what they are, and notes
// the keys each was asked for with.
type world struct {
	mu   sync.Mutex
	keys map[string]map[string]bool
}

func newWorld() *world { return &world{keys: map[string]map[string]bool{}} }

// do asks for an effect in a task.
func (w *world) do(ctx context.Context, what, name string) error {
	key, err := pregel.IdempotencyKey(ctx, name)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	what += "/" + name
	if w.keys[what] == nil {
		w.keys[what] = map[string]bool{}
	}
	w.keys[what][key] = true
	return nil
}

// check checks that each of n effects has one key, and no two have the same.
func (w *world) check(t *testing.T, n int) {
	t.Helper()
	seen := map[string]string{}
	for what, keys := range w.keys {
		if len(keys) != 1 {
			t.Errorf("%s: %d keys", what, len(keys))
		}
		for key := range keys {
			if other := seen[key]; other != "" {
				t.Errorf("%s and %s have the same key", what, other)
			}
			seen[key] = what
		}
	}
	if len(w.keys) != n {
		t.Errorf("effects %q, want %d", slices.Sorted(maps.Keys(w.keys)), n)
	}
}

// effects is a graph that does something in every place a task can have: in a node,
// a node that is sent twice, a called function, a graph inside that stores
// checkpoints, and one that does not.
func effects(t *testing.T, s saver.Saver, w *world) *pregel.Graph {
	t.Helper()
	mails := graph.Key("mails", channel.Delta(1000, func(v []string, writes [][]string) ([]string, error) {
		return append(slices.Clone(v), slices.Concat(writes...)...), nil
	}))
	does := func(what string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			if err := errors.Join(w.do(ctx, what, "mail"), w.do(ctx, what, "bill")); err != nil {
				return nil, err
			}
			return map[string]any{"mails": []string{what}}, nil
		}
	}
	call := pregel.NewTask("call", func(ctx context.Context, n int) (int, error) { return n, w.do(ctx, fmt.Sprint("call", n), "mail") })
	b := graph.New(mails).Node("first", does("first"))
	for name, keeps := range map[string]pregel.Checkpointing{"keeps": pregel.Inherit, "passes": pregel.Off} {
		inner, err := graph.New(mails).Node("one", does(name+"/one")).Node("two", does(name+"/two")).
			Sequence(graph.Start, "one", "two").Compile(graph.Options{Checkpointing: keeps})
		if err != nil {
			t.Fatal(err)
		}
		b.Subgraph(name, inner)
	}
	b.Node("calls", func(ctx context.Context, _ any) (any, error) {
		for n := range 2 {
			if _, err := call.Call(ctx, n); err != nil {
				return nil, err
			}
		}
		return map[string]any{"mails": []string{"calls"}}, nil
	})
	b.Node("packet", func(ctx context.Context, n any) (any, error) { return does(fmt.Sprint("packet", n))(ctx, n) })
	b.Sequence(graph.Start, "first", "keeps", "passes", "calls").Conditional("calls", "send", func(context.Context, any) (any, error) {
		return []any{pregel.Send{Node: "packet", Arg: 1}, pregel.Send{Node: "packet", Arg: 2}}, nil
	}, "packet")
	g, err := b.Compile(graph.Options{Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// allEffects is how many there are: first, two nodes in each of two graphs and two
// packets do two each, two calls one each.
const allEffects = 2*(1+4+2) + 2

// slow is a mortal saver whose checkpoints take a while, so that a run under Async
// is ahead of what is stored.
type slow struct{ *mortal }

func (s slow) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	time.Sleep(time.Millisecond)
	return s.mortal.PutRequest(c, req)
}

// The process may die at any save: a task that runs again asks for its effects with
// the same keys, in every durability mode and at every place.
func TestIdempotencyKeyAcrossDeath(t *testing.T) {
	want := ""
	for _, d := range allDurabilities {
		run := func(deathAt int) (saves int) {
			m := &mortal{Saver: memory.New(memory.Options{}), left: deathAt, stored: map[string]bool{}}
			w := newWorld()
			g := effects(t, slow{m}, w)
			at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
			input := map[string]any{"mails": []string{}}
			res, err := g.Invoke(ctx, at, input, cfg)
			if deathAt >= 0 {
				if !errors.Is(err, errDead) {
					t.Fatalf("%s, death at save %d: %v", d, deathAt, err)
				}
				m.left = -1
				res, err = g.Invoke(ctx, at, nil, cfg)
				if errors.Is(err, pregel.ErrEmptyInput) { // nothing had been stored
					res, err = g.Invoke(ctx, at, input, cfg)
				}
			}
			if err != nil {
				t.Fatalf("%s, death at save %d: going on: %v", d, deathAt, err)
			}
			w.check(t, allEffects)
			if got := fmt.Sprint(res.Map()["mails"]); want == "" {
				want = got
			} else if got != want {
				t.Errorf("ended with %s, want %s", got, want)
			}
			if t.Failed() {
				t.Fatalf("%s, death at save %d", d, deathAt)
			}
			return m.saves
		}
		for death := range run(-1) {
			run(death)
		}
	}
}

// syncing is a saver in a relaxed mode: only Sync makes anything durable.
type syncing struct {
	*memory.Saver
	mu     sync.Mutex
	puts   int
	synced int // puts that are durable
	err    error
}

func (s *syncing) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	at, err := s.Saver.PutRequest(c, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	return at, err
}

func (s *syncing) Sync(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = s.puts
	return s.err
}

// With a saver that is durable only after Sync a key comes after Sync, and not at
// all if that fails. Without a saver there is none, nor outside of a task.
func TestIdempotencyKeyIsDurable(t *testing.T) {
	if _, err := pregel.IdempotencyKey(ctx, ""); !errors.Is(err, pregel.ErrOutsideTask) {
		t.Error(err)
	}
	for _, d := range allDurabilities {
		s := &syncing{Saver: memory.New(memory.Options{})}
		ask := func(ctx context.Context, _ any) (any, error) {
			key, err := pregel.IdempotencyKey(ctx, "")
			s.mu.Lock()
			defer s.mu.Unlock()
			if err == nil && (s.synced == 0 || s.synced < s.puts) {
				t.Errorf("%s: a key, and %d of %d checkpoints durable", d, s.synced, s.puts)
			}
			return key, err
		}
		g := fan(t, pregel.Options{Saver: s}, node("a", ask))
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		if _, err := g.Invoke(ctx, at, 1, cfg); err != nil {
			t.Fatal(err)
		}
		s.err = errDisk
		if _, err := g.Invoke(ctx, at, 2, cfg); !errors.Is(err, errDisk) || !errors.Is(err, pregel.ErrPersist) {
			t.Errorf("%s: %v", d, err)
		}
		if _, err := fan(t, pregel.Options{}, node("a", ask)).Invoke(ctx, pregel.Address{}, 1, pregel.RunOptions{Durability: d}); !errors.Is(err, pregel.ErrNoSaver) {
			t.Errorf("%s: without a saver: %v", d, err)
		}
	}
}

// What gets the same key and what another: a retry, a failure and an interrupt the
// same; another name, the next run, a fork and a copy of the thread another.
func TestIdempotencyKeyIdentity(t *testing.T) {
	for _, d := range allDurabilities {
		var keys []string
		failing := true
		s := memory.New(memory.Options{})
		g := fan(t, pregel.Options{Saver: s}, node("a", func(ctx context.Context, _ any) (any, error) {
			key, err := pregel.IdempotencyKey(ctx, "x")
			again, _ := pregel.IdempotencyKey(ctx, "x")
			other, _ := pregel.IdempotencyKey(ctx, "y")
			if err != nil || again != key || other == key || other == "" {
				t.Errorf("%s: keys %q, %q, %q, %v", d, key, again, other, err)
			}
			keys = append(keys, key)
			if failing {
				return nil, errBoom
			}
			return pregel.Ask(ctx, "?")
		}).Retry(pregel.RetryPolicy{MaxAttempts: 2, InitialInterval: time.Nanosecond, NoJitter: true, RetryOn: func(error) bool { return true }}))
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		var address pregel.Address
		for i, call := range []func() error{
			func() error { _, err := g.Invoke(ctx, at, 1, cfg); return err },                             // two attempts
			func() error { failing = false; _, err := g.Invoke(ctx, at, nil, cfg); return err },          // asks
			func() error { return s.CopyThread(ctx, "t", "copy") },                                       //
			func() error { _, err := g.Invoke(ctx, at, pregel.Command{Resume: "yes"}, cfg); return err }, // ends
			func() error { _, err := g.Invoke(ctx, pregel.Thread("copy"), nil); return err },             // asks
			func() error {
				for old, err := range g.GetStateHistory(ctx, at, pregel.HistoryQuery{}) {
					if err != nil {
						return err
					}
					if len(old.Next) > 0 {
						address = old.Address
					}
				}
				_, err := g.Invoke(ctx, address, nil, cfg) // a fork
				return err
			},
			func() error { _, err := g.Invoke(ctx, at, 2, cfg); return err },
		} {
			if err := call(); err != nil && !(i == 0 && errors.Is(err, errBoom)) {
				t.Fatalf("%s: call %d: %v", d, i, err)
			}
		}
		var groups []int // of equal keys, in the order of the first
		for i, k := range keys {
			groups = append(groups, slices.Index(keys[:i+1], k))
		}
		if want := []int{0, 0, 0, 0, 4, 5, 6}; !slices.Equal(groups, want) {
			t.Errorf("%s: equal keys %v, want %v", d, groups, want)
		}
	}
}
