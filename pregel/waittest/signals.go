package waittest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// Signals runs the tests of signals on savers and stores that open returns, fresh ones for each.
func Signals(t *testing.T, open func(t *testing.T) (saver.Saver, store.Store)) {
	for name, test := range map[string]func(*fixture){
		"order":      (*fixture).order,
		"orders":     (*fixture).orders,
		"changed":    (*fixture).changed,
		"wakes":      (*fixture).wakes,
		"key":        (*fixture).key,
		"unknown":    (*fixture).unknown,
		"binding":    (*fixture).binding,
		"timeout":    (*fixture).timeout,
		"discard":    (*fixture).discard,
		"discardcut": (*fixture).discardCut,
		"waiters":    (*fixture).waiters,
		"beside":     (*fixture).beside,
		"below":      (*fixture).below,
		"cut off":    (*fixture).cutOff,
		"wrongtype":  (*fixture).wrongType,
		"inbox":      (*fixture).inbox,
		"former":     (*fixture).former,
		"reads":      (*fixture).reads,
		"plain":      (*fixture).plain,
	} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{t: t, clock: NewClock()}
			f.s, f.items = open(t)
			test(f)
		})
	}
}

type parcel struct {
	From string
	N    int
}

var (
	parcels = pregel.NewSignal[parcel]("parcel")
	words   = pregel.NewSignal[string]("word")
)

func (f *fixture) send(g *pregel.Graph, n int, opts ...pregel.SignalOptions) {
	f.t.Helper()
	if err := parcels.Send(f.t.Context(), g, "t", parcel{"ada", n}, opts...); err != nil {
		f.t.Fatal(err)
	}
}

// receives returns a body that receives n parcels, and says which.
func (f *fixture) receives(n int) body {
	return func(ctx context.Context) (string, error) {
		f.did("begins")
		out := ""
		for range n {
			p, err := parcels.Receive(ctx)
			if err != nil {
				return "", err
			}
			out += fmt.Sprint(p.N)
		}
		return out, nil
	}
}

func (f *fixture) wantValue(res *pregel.Result, want string) {
	f.t.Helper()
	if got := fmt.Sprint(res.Value); got != want {
		f.t.Fatalf("the value is %s, want %s", got, want)
	}
}

// order: signals are kept for a later run, and taken once, in the order in which they were sent, whatever the
// clock does.
func (f *fixture) order() {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		o := pregel.RunOptions{Durability: d, Unfinished: pregel.DiscardUnfinished}
		g := f.graph(map[string]body{"a": f.receives(0)})
		f.run(g, "x", 0, 0, o)
		for i := range 5 {
			f.send(g, i)
			f.clock.Move(-time.Minute)
		}
		g = f.graph(map[string]body{"a": f.receives(3)})
		f.run(g, "x", 0, 0, o)
		if res := f.run(g, "x", 0, 1, o); res.Waits[0].Signal != "parcel" || !res.Waits[0].Until.IsZero() {
			f.t.Fatalf("%+v", res.Waits)
		}
		f.send(g, 5)
		res := f.run(g, nil, 0, 0, o)
		if s := fmt.Sprint(res.Value); s[len(s)-4:] != "345]" {
			f.t.Fatalf("%s: %s", d, s)
		}
	}
}

// wakes: a thread that waits for a signal is asleep until it is sent.
func (f *fixture) wakes() {
	g := f.graph(map[string]body{"a": f.receives(2)})
	f.run(g, "x", 0, 1)
	for i := range 2 {
		f.recovers(g, pregel.Asleep)
		if err := words.Send(f.t.Context(), g, "t", "another"); err != nil {
			f.t.Fatal(err)
		}
		f.recovers(g, pregel.Asleep)
		f.run(g, nil, 0, 1)
		if _, err := g.Invoke(f.t.Context(), pregel.Thread("t"), pregel.Command{Resume: "yes"}); !errors.Is(err, pregel.ErrNoInterrupt) {
			f.t.Fatal(err)
		}
		f.send(g, i)
		f.recovers(g, []pregel.Outcome{pregel.RecoveredToStop, pregel.Recovered}[i])
	}
	f.wantDone("begins", "begins", "begins")
}

// key: of signals with one key one counts, also when it was taken.
func (f *fixture) key() {
	g := f.graph(map[string]body{"a": f.receives(2)})
	f.run(g, "x", 0, 1)
	for range 2 {
		f.send(g, 1, pregel.SignalOptions{Key: "k"})
	}
	f.run(g, nil, 0, 1)
	f.send(g, 1, pregel.SignalOptions{Key: "k"})
	f.run(g, nil, 0, 1)
	f.send(g, 2, pregel.SignalOptions{Key: "l"})
	f.wantValue(f.run(g, nil, 0, 0), "[12]")
	f.send(g, 1, pregel.SignalOptions{Key: "k"})
	g = f.graph(map[string]body{"a": f.receives(1)})
	f.run(g, "x", 0, 1)
	f.send(g, 3)
	f.wantValue(f.run(g, nil, 0, 0), "[12 3]")
}

// unknown: a thread that does not exist gets no signal, and neither does a graph without a store.
func (f *fixture) unknown() {
	g := f.graph(map[string]body{"a": f.receives(1)})
	if err := parcels.Send(f.t.Context(), g, "nobody", parcel{}); !errors.Is(err, saver.ErrNotFound) {
		f.t.Errorf("an unknown thread: %v", err)
	}
	f.items = nil
	g = f.graph(map[string]body{"a": f.receives(1)})
	if _, err := g.Invoke(f.t.Context(), pregel.Thread("t"), "x"); !errors.Is(err, pregel.ErrNoStore) {
		f.t.Errorf("receive without a store: %v", err)
	}
	if err := parcels.Send(f.t.Context(), g, "t", parcel{}); !errors.Is(err, pregel.ErrNoStore) {
		f.t.Errorf("send without a store: %v", err)
	}
}

// binding: a node that runs again gets the signals that it got before, at their places.
func (f *fixture) binding() {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		o := pregel.RunOptions{Durability: d, Unfinished: pregel.DiscardUnfinished}
		fails, got := true, ""
		g := f.graph(map[string]body{"a": func(ctx context.Context) (string, error) {
			got += ";"
			for range 2 {
				p, err := parcels.Receive(ctx)
				if err != nil {
					return "", err
				}
				got += fmt.Sprint(p.N)
			}
			if _, err := pregel.Ask(ctx, "?"); err != nil {
				return "", err
			}
			if fails {
				return "", errors.New("fails")
			}
			return "done", nil
		}})
		f.run(g, "x", 0, 1, o)
		for i := range 4 {
			f.send(g, i)
		}
		f.run(g, nil, 1, 0, o)
		if _, err := g.Invoke(f.t.Context(), pregel.Thread("t"), pregel.Command{Resume: "yes"}, o); err == nil {
			f.t.Fatal("it did not fail")
		}
		fails = false
		f.run(g, nil, 0, 0, o)
		if got != ";;01;01;01" {
			f.t.Errorf("%s: got %s", d, got)
		}
		f.wantValue(f.run(f.graph(map[string]body{"a": f.receives(2)}), "x", 0, 0, o), map[pregel.Durability]string{
			pregel.Sync: "[done 23]", pregel.Async: "[done 23 done 23]", pregel.Exit: "[done 23 done 23 done 23]"}[d])
	}
}

// timeout: signal or time-out, what came first is what every run of the node sees.
func (f *fixture) timeout() {
	make := func() *pregel.Graph {
		return f.graph(map[string]body{"a": func(ctx context.Context) (string, error) {
			_, first, err := parcels.ReceiveFor(ctx, time.Hour)
			if err != nil {
				return "", err
			}
			p, second, err := parcels.ReceiveFor(ctx, time.Hour)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(first, second, p.N), pregel.Sleep(ctx, time.Hour)
		}})
	}
	begun := f.clock.Now().UTC().Truncate(time.Microsecond)
	if w := f.run(make(), "x", 0, 1).Waits[0]; !w.Until.Equal(begun.Add(time.Hour)) || w.Signal != "parcel" {
		f.t.Fatalf("%+v", w)
	}
	f.recovers(make(), pregel.Asleep)
	f.clock.Move(time.Hour)
	if r := f.recovers(make(), pregel.RecoveredToStop); len(r.Waits) != 1 || !r.Waits[0].Until.Equal(begun.Add(2*time.Hour)) {
		f.t.Fatalf("%+v", r)
	}
	f.send(make(), 7) // it is there when the node runs again, but was not in time
	f.run(make(), nil, 0, 1)
	f.clock.Move(2 * time.Hour)
	f.wantValue(f.run(make(), nil, 0, 0), "[false true 7]")
}

// discard: what the tasks of a discarded superstep took is in the inbox again, in front of what came later. A
// signal with a key still counts once.
func (f *fixture) discard() {
	o := pregel.RunOptions{Unfinished: pregel.DiscardUnfinished}
	make := func(n int) *pregel.Graph {
		inner := f.graph(map[string]body{"in": f.receives(n)})
		return f.graph(map[string]body{"a": func(ctx context.Context) (string, error) {
			res, err := inner.Invoke(ctx, pregel.Inside(), "y")
			if err != nil {
				return "", err
			}
			return fmt.Sprint(res.Value), nil
		}})
	}
	f.run(make(3), "x", 0, 1)
	f.send(make(3), 1)
	f.send(make(3), 2, pregel.SignalOptions{Key: "two"})
	f.run(make(3), nil, 0, 1)
	f.send(make(3), 4)
	f.send(make(3), 2, pregel.SignalOptions{Key: "two"})
	f.run(make(4), "x", 0, 1, o)
	f.send(make(3), 5)
	f.wantValue(f.run(make(4), nil, 0, 0), "[[1245]]")
}

// waiters: two waits of a thread for one signal would take it by chance. The second is refused.
func (f *fixture) waiters() {
	again := f.receives(1)
	g := f.graph(map[string]body{"a": f.receives(1), "b": func(ctx context.Context) (string, error) {
		if err := pregel.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		return again(ctx)
	}})
	f.run(g, "x", 0, 2)
	f.clock.Move(time.Hour)
	if _, err := g.Invoke(f.t.Context(), pregel.Thread("t"), nil); !errors.Is(err, pregel.ErrSignalAwaited) {
		f.t.Fatalf("the second: %v", err)
	}
	f.send(g, 1)
	f.send(g, 2)
	if res, err := g.Invoke(f.t.Context(), pregel.Thread("t"), nil); err != nil || len(res.Waits) > 0 {
		f.t.Fatalf("%+v, %v", res, err)
	}
}

// beside: a signal runs the task that waits for it, and none beside it.
func (f *fixture) beside() {
	g := f.graph(map[string]body{"ask": f.asker("ask"), "nap": f.sleeper("nap", time.Hour), "a": f.receives(1), "w": func(ctx context.Context) (string, error) {
		f.did("w begins")
		return words.Receive(ctx)
	}})
	f.run(g, "x", 1, 3)
	f.wantDone("ask begins", "nap begins", "begins", "w begins")
	f.send(g, 1)
	f.run(g, nil, 1, 2)
	f.wantDone("begins")
	f.run(g, pregel.Command{Resume: "yes"}, 0, 2)
	f.wantDone("ask begins", "ask got yes")
	f.clock.Move(time.Hour)
	f.run(g, nil, 0, 1)
	f.wantDone("nap begins", "nap woke")
}

// below: graphs inside and called functions receive signals, also those that store nothing.
func (f *fixture) below() {
	o := f.opts()
	o.Checkpointing, o.Saver = pregel.Off, nil
	call := pregel.NewTask("call", func(ctx context.Context, _ int) (string, error) { return f.receives(1)(ctx) })
	off, err := pregel.Entrypoint("off", func(ctx context.Context, _ any) (string, error) { return call.Call(ctx, 1) }, pregel.EntrypointOptions{Options: o})
	if err != nil {
		f.t.Fatal(err)
	}
	inner := f.graph(map[string]body{"in": func(ctx context.Context) (string, error) {
		res, err := off.Invoke(ctx, pregel.Inside(), "z")
		if err != nil {
			return "", err
		}
		w, err := words.Receive(ctx)
		return fmt.Sprint(res.Value) + w, err
	}})
	g := f.graph(map[string]body{"a": func(ctx context.Context) (string, error) {
		res, err := inner.Invoke(ctx, pregel.Inside(), "y")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(res.Value), nil
	}})
	f.run(g, "x", 0, 1)
	f.send(g, 1)
	f.run(g, nil, 0, 1)
	f.send(g, 2)
	if err := words.Send(f.t.Context(), g, "t", "w"); err != nil {
		f.t.Fatal(err)
	}
	f.wantValue(f.run(g, nil, 0, 0), "[[1w]]")
}

// cutOff: a process that dies when a task has taken its signal, and has not ended, leaves a thread that goes
// on.
func (f *fixture) cutOff() {
	dead := errors.New("the process is dead")
	dies := false
	f.s = saver.Intercept(f.s, func(ctx context.Context, _ saver.Call, next func(context.Context) error) error {
		if dies {
			return dead
		}
		return next(ctx)
	})
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		if err := f.s.DeleteThread(f.t.Context(), "t"); err != nil {
			f.t.Fatal(err)
		}
		first := true
		make := func() *pregel.Graph {
			inner := f.graph(map[string]body{"in": func(ctx context.Context) (string, error) {
				p, err := parcels.Receive(ctx)
				if err == nil && first {
					dies, first = true, false
					return "", dead
				}
				return fmt.Sprint(p.N), err
			}})
			return f.graph(map[string]body{"a": func(ctx context.Context) (string, error) {
				res, err := inner.Invoke(ctx, pregel.Inside(), "y")
				if err != nil {
					return "", err
				}
				return fmt.Sprint(res.Value), nil
			}})
		}
		f.run(make(), "x", 0, 1)
		f.send(make(), 1)
		if _, err := make().Invoke(f.t.Context(), pregel.Thread("t"), nil, pregel.RunOptions{Durability: d}); !errors.Is(err, dead) {
			f.t.Fatalf("%s: %v", d, err)
		}
		dies = false
		f.recovers(make(), pregel.Recovered)
		if snap := f.state(make()); fmt.Sprint(snap.Map()["out"]) != "[[1]]" {
			f.t.Errorf("%s: %+v", d, snap.Values)
		}
		f.send(make(), 2)
		f.run(f.graph(map[string]body{"a": f.receives(1)}), "x", 0, 0)
	}
}

// wrongType: a signal of another type is set aside, and the next attempt goes on without it. It can be sent again.
func (f *fixture) wrongType() {
	number := pregel.NewSignal[int]("parcel")
	make := func() *pregel.Graph {
		return f.graph(map[string]body{"a": func(ctx context.Context) (string, error) {
			n, err := number.Receive(ctx)
			return fmt.Sprint(n), err
		}})
	}
	refused := func(want int) (last pregel.RefusedSignal) {
		f.t.Helper()
		list, err := make().RefusedSignals(f.t.Context(), "t")
		if err != nil || len(list) != want {
			f.t.Fatalf("refused: %+v, %v", list, err)
		}
		if want > 0 {
			last = list[want-1]
		}
		return last
	}
	refused(0)
	f.run(make(), "x", 0, 1)
	for n := range 2 {
		f.send(make(), n)
		var wrong *pregel.SignalTypeError
		if _, err := make().Invoke(f.t.Context(), pregel.Thread("t"), nil); !errors.As(err, &wrong) || wrong.Signal != "parcel" || wrong.ThreadID != "t" {
			f.t.Fatalf("%v", err)
		}
		if r := refused(n + 1); r.ID != wrong.Refused || r.Name != "parcel" || r.Error != wrong.Err.Error() ||
			fmt.Sprint(r.Value) != fmt.Sprintf("map[From:ada N:%d]", n) {
			f.t.Fatalf("%+v, %+v", r, wrong)
		}
		f.run(make(), nil, 0, 1)
	}
	again := refused(2)
	for range 2 {
		if err := make().Signal(f.t.Context(), "t", again.Name, 7, pregel.SignalOptions{Instead: again.ID}); err != nil {
			f.t.Fatal(err)
		}
	}
	first := refused(1)
	f.wantValue(f.run(make(), nil, 0, 0), "[7]")
	f.run(f.graph(map[string]body{"a": f.receives(1)}), "x", 0, 1)
	if err := make().Signal(f.t.Context(), "t", first.Name, first.Value, pregel.SignalOptions{Instead: first.ID}); err != nil {
		f.t.Fatal(err)
	}
	f.wantValue(f.run(f.graph(map[string]body{"a": f.receives(1)}), nil, 0, 0), "[7 0]")
	if err := make().DeleteRefusedSignal(f.t.Context(), "t", first.ID); err != nil {
		f.t.Fatal(err)
	}
	refused(0)
}

// wantInbox checks the signals to the thread that nobody has taken, at most so many.
func (f *fixture) wantInbox(g *pregel.Graph, most int, want ...string) {
	f.t.Helper()
	list, err := g.Signals(f.t.Context(), "t", most)
	if err != nil {
		f.t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		value := s.Value
		if p, ok := value.(map[string]any); ok {
			value = p["N"]
		}
		if got = append(got, fmt.Sprint(s.Name, " ", value, " ", s.Keyed)); s.ID == "" || s.Sent.IsZero() || s.Error != "" {
			f.t.Errorf("%+v", s)
		}
	}
	if !slices.Equal(got, want) {
		f.t.Fatalf("the inbox has %q, want %q", got, want)
	}
}

// inbox: what nobody has taken is listed by name, in the order in which it is received; what is taken, or refused, is
// not. A name that nothing receives stays. What cannot be decoded says why.
func (f *fixture) inbox() {
	g := f.graph(map[string]body{"a": f.receives(2)})
	f.run(g, "x", 0, 1)
	f.wantInbox(g, 0)
	if err := words.Send(f.t.Context(), g, "t", "hello"); err != nil {
		f.t.Fatal(err)
	}
	if err := g.Signal(f.t.Context(), "t", "parcle", 1, pregel.SignalOptions{Key: "k"}); err != nil {
		f.t.Fatal(err)
	}
	f.send(g, 1)
	f.send(g, 2, pregel.SignalOptions{Key: "l"})
	f.send(g, 3)
	f.wantInbox(g, 0, "parcel 1 false", "parcel 2 true", "parcel 3 false", "parcle 1 true", "word hello false")
	if list, err := g.Signals(f.t.Context(), "t", 2); err != nil || len(list) != 2 {
		f.t.Fatalf("of two: %+v, %v", list, err)
	}
	f.run(g, nil, 0, 0)
	f.wantInbox(g, 0, "parcel 3 false", "parcle 1 true", "word hello false")
	if err := g.Signal(f.t.Context(), "t", "parcel", "no parcel"); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.graph(map[string]body{"a": f.receives(2)}).Invoke(f.t.Context(), pregel.Thread("t"), "x"); err == nil {
		f.t.Fatal("no parcel is received as one")
	}
	f.wantInbox(g, 0, "parcle 1 true", "word hello false")
	// Who has the store, and not the key of its values, sees that they are there.
	list, err := pregel.Signals(f.t.Context(), unreadable{f.s.Serializer()}, f.items, "t", 0)
	if err != nil || len(list) != 2 || list[0].Name != "parcle" || list[0].Value != nil || list[0].Error != "no key" {
		f.t.Fatalf("%+v, %v", list, err)
	}
	if list, err := g.Signals(f.t.Context(), "another", 0); err != nil || len(list) > 0 {
		f.t.Fatalf("%+v, %v", list, err)
	}
}

// unreadable decodes nothing.
type unreadable struct{ serde.Serializer }

// Decode implements serde.Serializer.
func (unreadable) Decode(serde.Typed) (any, error) { return nil, errors.New("no key") }

// former: the signals that an earlier release stored come first, whatever the clock of their sender was. Their keys
// count once, and who gives them up puts them back.
func (f *fixture) former() {
	g := f.graph(map[string]body{"a": f.receives(3)})
	f.run(g, "x", 0, 1)
	hash := func(key string) string {
		sum := sha256.Sum256([]byte(key))
		return hex.EncodeToString(sum[:])
	}
	stored := func(at, key string, n int) store.PutOp {
		typed, err := f.s.Serializer().Encode(parcel{"ada", n})
		if err != nil {
			f.t.Fatal(err)
		}
		op := store.PutOp{Namespace: store.Namespace{"__stele_signals__", "dA"}, Key: "at " + at, TTL: -1, NoIndex: true}
		if key != "" {
			key = hash(key)
			op.Key = "key " + key
		}
		op.Value = map[string]any{"at": at, "key": key, "name": "parcel", "kind": typed.Kind, "data": base64.StdEncoding.EncodeToString(typed.Data)}
		return op
	}
	taken := store.PutOp{Namespace: store.Namespace{"__stele_signals__", "dA"}, Key: "taken " + hash("zero"), Value: map[string]any{"thread": "t"}}
	if _, err := f.items.Batch(f.t.Context(), taken, stored("00009999999999999998 AAAAAAAA", "two", 2),
		stored("00009999999999999997 AAAAAAAA", "", 1)); err != nil {
		f.t.Fatal(err)
	}
	f.send(g, 0, pregel.SignalOptions{Key: "zero"})
	f.send(g, 2, pregel.SignalOptions{Key: "two"})
	f.send(g, 3)
	f.wantInbox(g, 0, "parcel 1 false", "parcel 2 true", "parcel 3 false")
	f.run(f.graph(map[string]body{"a": f.receives(4)}), nil, 0, 1)
	f.send(g, 2, pregel.SignalOptions{Key: "two"})
	f.send(g, 4)
	f.wantValue(f.run(f.graph(map[string]body{"a": f.receives(4)}), "x", 0, 0, pregel.RunOptions{Unfinished: pregel.DiscardUnfinished}), "[1234]")
	if err := g.DeleteSignals(f.t.Context(), "t"); err != nil {
		f.t.Fatal(err)
	}
	if found, err := f.items.Search(f.t.Context(), store.Query{Limit: store.NoLimit}); err != nil || len(found) > 0 {
		f.t.Fatalf("%d items are left, %v", len(found), err)
	}
}

// counted counts what reads of a store return.
type counted struct {
	store.Store
	read int
}

// Batch implements store.Store.
func (c *counted) Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	results, err := c.Store.Batch(ctx, ops...)
	for _, r := range results {
		if c.read += len(r.Found) + len(r.Namespaces); r.Item != nil {
			c.read++
		}
	}
	return results, err
}

// Search implements store.Store.
func (c *counted) Search(ctx context.Context, q store.Query) ([]store.Found, error) {
	found, err := c.Store.Search(ctx, q)
	c.read += len(found)
	return found, err
}

// Append implements store.Appender.
func (c *counted) Append(ctx context.Context, ns store.Namespace, topic, once string, value map[string]any) error {
	return c.Store.(store.Appender).Append(ctx, ns, topic, once, value)
}

// reads: a look into an inbox reads what it returns, however many keys were used, and signals wait.
func (f *fixture) reads() {
	const used, waiting = 10_000, 100
	c := &counted{Store: f.items}
	f.items = c
	g := f.graph(map[string]body{"a": f.receives(3)})
	f.run(g, "x", 0, 1)
	marks := make([]store.Op, used)
	f.send(g, 0, pregel.SignalOptions{Key: "k"})
	space := ""
	for _, ns := range f.namespaces() {
		if len(ns) == 2 {
			space = ns[1]
		}
	}
	for i := range marks {
		marks[i] = store.PutOp{Namespace: store.Namespace{"__stele_signals__", space}, Key: fmt.Sprintf("once %064x", i), Value: map[string]any{}}
	}
	if _, err := c.Store.Batch(f.t.Context(), marks...); err != nil {
		f.t.Fatal(err)
	}
	for i := range waiting {
		f.send(g, i+1)
		if err := words.Send(f.t.Context(), g, "t", "w"); err != nil {
			f.t.Fatal(err)
		}
	}
	c.read = 0
	f.wantValue(f.run(g, nil, 0, 0), "[012]")
	if c.read > 10 { // the names, and a signal for each Receive
		f.t.Errorf("%d items were read", c.read)
	}
	c.read = 0
	f.send(g, 0, pregel.SignalOptions{Key: "another"})
	if c.read > 0 {
		f.t.Errorf("%d items were read by Send", c.read)
	}
	if list, err := g.Signals(f.t.Context(), "t", 2); err != nil || len(list) != 2 || c.read > 6 {
		f.t.Errorf("for two signals, %d items were read: %+v, %v", c.read, list, err)
	}
	if err := g.DeleteSignals(f.t.Context(), "t"); err != nil {
		f.t.Fatal(err)
	}
	if left := f.namespaces(); len(left) > 0 {
		f.t.Errorf("%v is left", left)
	}
}

func (f *fixture) namespaces() []store.Namespace {
	all, err := f.items.ListNamespaces(f.t.Context(), store.NamespaceQuery{Limit: store.NoLimit})
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// plain: a store that orders nothing, as one that is reached over the wire, keeps the order of one sender.
// The struct around the store hides its optional interfaces.
func (f *fixture) plain() {
	f.items = struct{ store.Store }{f.items}
	f.order()
	f.items = struct{ store.Store }{f.items}
	f.s.DeleteThread(f.t.Context(), "t")
	f.key()
}

// discardCut: the process dies between putting signals back and storing the input that discards the superstep.
// The superstep still has them: no task beside the one that took a signal gets it.
func (f *fixture) discardCut() {
	dead, dies := errors.New("the process is dead"), false
	f.s = saver.Intercept(f.s, func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
		if dies && (call.Method == "Put" || call.Method == "PutRequest") {
			return dead
		}
		return next(ctx)
	})
	receives := f.receives(1)
	g := f.graph(map[string]body{"a": f.receives(1), "b": func(ctx context.Context) (string, error) {
		if err := pregel.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		return receives(ctx)
	}})
	f.run(g, "x", 0, 2)
	f.send(g, 1)
	f.run(g, nil, 0, 1)
	dies = true
	if _, err := g.Invoke(f.t.Context(), pregel.Thread("t"), "x", pregel.RunOptions{Unfinished: pregel.DiscardUnfinished}); !errors.Is(err, dead) {
		f.t.Fatal(err)
	}
	dies = false
	f.clock.Move(time.Hour)
	f.run(g, nil, 0, 1)
	f.send(g, 2)
	f.wantValue(f.run(g, nil, 0, 0), "[1 2]")
}
