package changetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/savertest"
	"github.com/stele-go/stele/store"
)

// state is the state of the old program.
type state struct {
	Way   string         `json:"way"`
	To    string         `json:"to"`
	Count int32          `json:"count"`
	Lines []string       `json:"lines" state:"append"`
	Tags  []string       `json:"tags"`
	Box   box            `json:"box"`
	Sizes map[string]int `json:"sizes" state:"merge"`
}

type box struct {
	Weight int    `json:"weight"`
	Label  string `json:"label"`
}

// parcel is the input of the worker.
type parcel struct {
	SKU string `json:"sku"`
	N   int    `json:"n"`
}

// receipt is the result of a call in a body.
type receipt struct {
	ID     string `json:"id"`
	Amount int32  `json:"amount"`
}

// inside is the state of the graph inside.
type inside struct {
	To    string `json:"to"`
	Count int32  `json:"count"`
	Text  string `json:"text"`
}

var errDead = errors.New("the process died")

// left are the threads that Old leaves: how each was run.
var left = []struct {
	id, way string
	stop    string // the node whose process dies, or that fails
	fails   bool
	o       pregel.RunOptions
	cut     int    // the step whose checkpoint is not stored; 0: none
	unnoted bool   // as LangGraph stores it
	again   string // what it is run with once more, two hours later: "answer", or "nil"
	signal  any    // is sent to it
}{
	{id: "asked", way: "both"},
	{id: "at the input", way: "both", stop: "take"},
	{id: "cut off beside a question", way: "both", stop: "price"},
	{id: "failed", way: "late", stop: "price", fails: true},
	{id: "half joined", way: "late"},
	{id: "sent", way: "send", stop: "pack"},
	{id: "inside", way: "in"},
	{id: "in a body", way: "body"},
	{id: "between a call and a question", way: "body", stop: "body"},
	{id: "at a breakpoint", way: "late", o: pregel.RunOptions{InterruptBefore: []string{"ask"}}},
	{id: "ended, but for the checkpoint", way: "late", cut: 2},
	{id: "done", way: "none"},
	{id: "without a note", way: "both", unnoted: true},
	{id: "without a note, cut off", way: "late", stop: "slow", unnoted: true},
	{id: "without a note, done", way: "none", unnoted: true},
	{id: "asleep", way: "nap"},
	{id: "without a signal", way: "hear"},
	{id: "with its signal", way: "hear", signal: "now"},
	{id: "with a signal of another type", way: "hear", signal: 7},
	{id: "slept, and without a signal", way: "doze", again: "nil"},
	{id: "slept, and cut off", way: "doze", again: "nil", stop: "doze"},
	{id: "answered, and asks again", way: "talk", again: "answer"},
	{id: "answered, and cut off", way: "talk", again: "answer", stop: "talk"},
}

// Old leaves a thread in each state, each with prefix before its id.
func Old(t *testing.T, s saver.Saver, prefix string) {
	t.Helper()
	none, err := store.NewMemory(store.Options{}) // nobody sends a signal to this program
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	for _, l := range left {
		ctx, die := context.WithCancel(t.Context())
		late, runs := time.Duration(0), 1
		g, err := old(&cutting{s, l.cut, l.unnoted}, none, func() time.Time { return time.Now().Add(late) }, func(node string) error {
			switch {
			case node != l.stop || l.again != "" && runs == 1:
				return nil
			case l.fails:
				return errors.New("it fails")
			}
			die()
			return errDead
		})
		if err != nil {
			t.Fatal(err)
		}
		o := l.o
		o.MaxConcurrency, o.Durability = 1, pregel.Sync // so that the same tasks have ended each time
		at := pregel.Thread(prefix + l.id)
		_, err = g.Run(ctx, at, state{Way: l.way, To: "Ada", Count: 3, Lines: []string{"in"}}, o)
		if l.again != "" {
			if err != nil {
				t.Fatalf("%s: %v", l.id, err)
			}
			late, runs = 2*time.Hour, 2
			if l.again == "answer" {
				_, err = g.Resume(ctx, at, "yes", o)
			} else {
				_, err = g.Continue(ctx, at, o)
			}
		}
		if (err != nil) != (l.stop != "" || l.cut > 0) {
			t.Fatalf("%s: %v", l.id, err)
		}
		die()
	}
}

// cutting fails to store the checkpoint of a step, or stores no notes.
type cutting struct {
	saver.Saver
	step    int
	unnoted bool
}

// PutRequest implements saver.Saver.
func (s *cutting) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	if s.unnoted {
		req.Note = nil
	}
	if step, _ := req.Metadata.Step(); s.step == 0 || step != s.step {
		return s.Saver.PutRequest(ctx, req)
	}
	return savertest.Apart(ctx, req, s.Saver.PutWrites, func(context.Context, saver.PutRequest) (saver.Config, error) { return saver.Config{}, errDead })
}

// old is the old program. at is called when a node begins, or behind what it waits for first.
func old(s saver.Saver, items store.Store, now func() time.Time, at func(node string) error) (*graph.Graph[state], error) {
	inner, err := graph.For[inside]().
		Node("read", func(_ context.Context, i *inside) (graph.Update, error) { return graph.Write(&i.Text, "read"), nil }).
		Node("check", func(ctx context.Context, i *inside) (graph.Update, error) {
			_, err := pregel.AskFor[string](ctx, "is it right?")
			return graph.Write(&i.Count, i.Count+1), err
		}).Sequence(graph.Start, "read", "check").Compile(graph.Options{})
	if err != nil {
		return nil, err
	}
	b := graph.For[state]()
	writes := func(name string, f func(o *state) graph.Update) {
		b.Node(name, func(_ context.Context, o *state) (graph.Update, error) {
			if err := at(name); err != nil {
				return nil, err
			}
			return f(o), nil
		})
	}
	pack := graph.Worker(b, "pack", func(_ context.Context, p parcel, o *state) (graph.Update, error) {
		if p.N == 2 {
			if err := at("pack"); err != nil {
				return nil, err
			}
		}
		return graph.Write(&o.Lines, []string{p.SKU}), nil
	})
	writes("take", func(o *state) graph.Update {
		u := graph.Write(&o.Box, box{Weight: 7, Label: "fragile"}).And(graph.Write(&o.Sizes, map[string]int{"s": 1}), graph.Write(&o.Tags, []string{"new"}))
		switch o.Way {
		case "both":
			return u.And(graph.Goto("price", "ask"))
		case "late":
			return u.And(graph.Goto("price", "slow"))
		case "send":
			return u.And(pack.Send(parcel{"a", 1}, parcel{"b", 2}, parcel{"c", 3}))
		case "in":
			return u.And(graph.Goto("inner"))
		case "body":
			return u.And(graph.Goto("body"))
		case "nap", "hear", "doze", "talk":
			return u.And(graph.Goto(o.Way))
		}
		return u
	})
	writes("price", func(o *state) graph.Update {
		return graph.Write(&o.Count, o.Count+1).And(graph.Write(&o.Lines, []string{"priced"}))
	})
	writes("slow", func(o *state) graph.Update { return graph.Write(&o.Lines, []string{"slow"}) })
	writes("ship", func(o *state) graph.Update { return graph.Write(&o.Tags, append(slices.Clone(o.Tags), "shipped")) })
	b.Node("ask", func(ctx context.Context, o *state) (graph.Update, error) {
		answer, err := pregel.AskFor[string](ctx, "send it?")
		return graph.Write(&o.Lines, []string{answer}), err
	})
	charge := pregel.NewTask("charge", func(_ context.Context, n int32) (receipt, error) { return receipt{fmt.Sprint("charged ", n), n}, nil })
	b.Node("body", func(ctx context.Context, o *state) (graph.Update, error) {
		r, err := charge.Call(ctx, o.Count)
		if err != nil {
			return nil, err
		}
		if err := at("body"); err != nil {
			return nil, err
		}
		_, err = pregel.AskFor[string](ctx, r.ID)
		return graph.Write(&o.Lines, []string{r.ID}), err
	})
	does := func(node string, list ...func(ctx context.Context) error) {
		b.Node(node, func(ctx context.Context, _ *state) (graph.Update, error) { return nil, inOrder(list...)(ctx) })
	}
	behind := func(node string) func(ctx context.Context) error {
		return func(context.Context) error { return at(node) }
	}
	does("nap", sleeps)
	does("hear", receives[string])
	does("doze", sleeps, behind("doze"), receives[string])
	does("talk", asks, behind("talk"), asks)
	return b.Subgraph("inner", inner.Untyped()).Edge(graph.Start, "take").Edge("slow", "ask").Join([]string{"price", "ask"}, "ship").
		Compile(graph.Options{Name: "orders", Version: "old", Saver: s, Store: items, Env: pregel.Environment{Now: now}})
}
