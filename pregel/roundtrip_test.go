package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

type tripCall struct {
	Name string
	Args map[string]int
}

type tripInvoice struct{ Cents int }

// shape names the Go types in v.
func shape(v any) string {
	switch v := v.(type) {
	case []any:
		return "[]any{" + shapes(v) + "}"
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+": "+shape(v[k]))
		}
		return "map{" + strings.Join(parts, ", ") + "}"
	case channel.Message:
		return fmt.Sprintf("Message(content %s, extra %s)", shape(v.Content), shape(map[string]any(v.Extra)))
	case []channel.Message:
		var parts []any
		for _, m := range v {
			parts = append(parts, m)
		}
		return "[]Message{" + shapes(parts) + "}"
	case serde.Set:
		return "Set{" + shapes(v) + "}"
	}
	return fmt.Sprintf("%T", v)
}

func shapes(list []any) string {
	var parts []string
	for _, x := range list {
		parts = append(parts, shape(x))
	}
	return strings.Join(parts, ", ")
}

// tripLog is what nodes saw, by where they saw it.
type tripLog struct {
	mu   sync.Mutex
	seen map[string]string
	fail bool // the node that asks fails once, when it has its answer
}

func (l *tripLog) saw(where string, v any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string]string{}
	}
	l.seen[where] = shape(v)
}

func tripValues() map[string]any {
	call := tripCall{"f", map[string]int{"a": 1}}
	return map[string]any{
		"any": []any{1, int64(2), uint8(3), float32(1.5), "text", []byte("b"), true, nil, call, &call, []tripCall{call}, []string{"s"},
			map[string]int{"n": 1}, map[int]string{1: "x"}, time.Minute, time.Unix(1, 0), serde.UUID{1}, serde.Set{1, call}, tripInvoice{5}, []tripInvoice{{6}}},
		"list": []any{call, 7}, "typed": call, "typedlist": []tripCall{call}, "topic": call, "once": call,
		"messages": []channel.Message{{ID: "m", Role: "ai", Content: "hi", Extra: map[string]any{"tool_calls": []tripCall{call}, "n": 1}}},
		"delta":    []any{call},
	}
}

func tripGraph(t *testing.T, l *tripLog, asks bool, o graph.Options) *pregel.Graph {
	t.Helper()
	b := graph.New(
		graph.Key("any", channel.LastValue[any]()), graph.Key("list", channel.Reduce(channel.Append[any])), graph.Key("typed", channel.LastValue[tripCall]()),
		graph.Key("typedlist", channel.Reduce(channel.Append[tripCall])), graph.Key("topic", channel.Topic[any](channel.Accumulate)),
		graph.Key("messages", channel.Messages(nil)), graph.Key("once", channel.Ephemeral[any](channel.Guarded)),
		graph.Key("delta", channel.Delta(0, func(have []any, writes [][]any) ([]any, error) {
			return slices.Concat(append([][]any{have}, writes...)...), nil
		})),
	)
	b.Node("make", func(context.Context, any) (any, error) {
		return pregel.Command{Update: tripValues(), Goto: []any{pregel.Send{Node: "worker", Arg: tripCall{Name: "arg"}}, "look"}}, nil
	})
	b.Node("worker", func(_ context.Context, in any) (any, error) {
		l.saw("argument", in)
		return map[string]any{"list": []any{tripCall{Name: "worker"}}}, nil
	})
	b.Node("look", func(ctx context.Context, in any) (any, error) {
		l.saw("state", in)
		if !asks {
			return nil, nil
		}
		answer, err := pregel.Ask(ctx, tripCall{Name: "question"})
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		fail := l.fail
		l.fail = false
		l.mu.Unlock()
		if fail {
			return nil, errBoom
		}
		l.saw("answer", answer)
		return map[string]any{"list": []any{tripCall{Name: "look"}, 8}}, nil
	})
	b.Edge(graph.Start, "make")
	g, err := b.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// tripResumed runs the graph in a new process for each superstep: what nodes see is
// what a store holds.
func tripResumed(t *testing.T, codec serde.Serializer) map[string]string {
	t.Helper()
	dir, at, l := t.TempDir(), pregel.Thread("t"), &tripLog{fail: true}
	step := func(o graph.Options, input any, then func(*pregel.Graph, *pregel.Result, error)) {
		s, err := disk.Open(dir, disk.Options{Serializer: codec})
		if err != nil {
			t.Fatal(err)
		}
		o.Saver = s
		g := tripGraph(t, l, true, o)
		res, err := g.Invoke(ctx, at, input)
		then(g, res, err)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ok := func(_ *pregel.Graph, _ *pregel.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	step(graph.Options{InterruptAfter: []string{"make"}}, map[string]any{"list": []any{9}}, ok)
	step(graph.Options{}, nil, ok)
	step(graph.Options{}, pregel.Command{Resume: tripCall{Name: "answer"}}, func(_ *pregel.Graph, _ *pregel.Result, err error) {
		if err == nil {
			t.Fatal("the node that asks did not fail")
		}
	})
	step(graph.Options{}, nil, ok)
	s, err := disk.Open(dir, disk.Options{Serializer: codec})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	snap, err := tripGraph(t, l, true, graph.Options{Saver: s}).GetState(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	l.saw("end", snap.Values)
	return l.seen
}

// tripOnce runs the graph in one process.
func tripOnce(t *testing.T, roundTrip bool, s saver.Saver) map[string]string {
	t.Helper()
	l := &tripLog{}
	g := tripGraph(t, l, s != nil, graph.Options{RoundTrip: roundTrip, Saver: s})
	at := pregel.Thread("t")
	if s == nil {
		at = pregel.Address{}
	}
	res, err := g.Invoke(ctx, at, map[string]any{"list": []any{9}})
	if err != nil {
		t.Fatal(err)
	}
	if s != nil {
		for _, in := range res.Interrupts {
			l.saw("question", in.Value)
		}
		if res, err = g.Invoke(ctx, at, pregel.Command{Resume: tripCall{Name: "answer"}}); err != nil {
			t.Fatal(err)
		}
	}
	l.saw("end", res.Value)
	return l.seen
}

// TestRoundTripIsAResume: with RoundTrip nodes see what they see after the process died
// and the run was resumed from a store, whatever the kind of value; without, they do not.
func TestRoundTripIsAResume(t *testing.T) {
	reg := &serde.Registry{}
	if err := serde.RegisterStruct[tripInvoice](reg, "app", "Invoice"); err != nil {
		t.Fatal(err)
	}
	codec, err := serde.New(serde.Options{Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	want := tripResumed(t, codec)
	want["question"] = "map{Args: map{}, Name: string}"
	compare(t, "with a saver", tripOnce(t, true, memory.New(memory.Options{Serializer: codec})), want)
	plain := tripResumed(t, serde.Default())
	delete(plain, "answer")
	none := tripOnce(t, true, nil)
	for _, where := range []string{"end"} { // nothing was asked, so nothing was written after it
		delete(plain, where)
		delete(none, where)
	}
	compare(t, "without a saver", none, plain)
	if off := tripOnce(t, false, nil); off["state"] == want["state"] || off["argument"] == want["argument"] {
		t.Errorf("without RoundTrip nodes see %v: the test tests nothing", off)
	}
}

func compare(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for _, where := range slices.Sorted(maps.Keys(want)) {
		if got[where] != want[where] {
			t.Errorf("%s, %s:\n  %s\nafter a resume:\n  %s", what, where, got[where], want[where])
		}
	}
}

// TestRoundTripInside: the outermost graph says it for the graphs inside.
func TestRoundTripInside(t *testing.T) {
	for _, on := range []bool{true, false} {
		l := &tripLog{}
		inner, err := graph.New(graph.Key("v", channel.LastValue[any]())).
			Node("make", func(context.Context, any) (any, error) { return map[string]any{"v": tripCall{}}, nil }).
			Node("look", func(_ context.Context, in any) (any, error) { l.saw("state", in); return nil, nil }).
			Edge(graph.Start, "make").Edge("make", "look").Compile(graph.Options{RoundTrip: !on})
		if err != nil {
			t.Fatal(err)
		}
		g, err := graph.New(graph.Key("v", channel.LastValue[any]())).Subgraph("inner", inner).Edge(graph.Start, "inner").
			Compile(graph.Options{RoundTrip: on})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Invoke(ctx, pregel.Address{}, map[string]any{"v": 1}); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "map{v: map{Args: map{}, Name: string}}", false: "map{v: pregel_test.tripCall}"}[on]
		if l.seen["state"] != want {
			t.Errorf("RoundTrip %v: a graph inside sees %s", on, l.seen["state"])
		}
	}
}

// TestRoundTripRefuses: a value that cannot be stored fails the run, without a saver too.
func TestRoundTripRefuses(t *testing.T) {
	g := fan(t, pregel.Options{RoundTrip: true}, node("a", returns(func() {})))
	if _, err := g.Invoke(ctx, pregel.Address{}, 1); err == nil {
		t.Error("a func went through a round trip")
	}
}

// A caller reads the question of a function that it called while the run stores it: the
// caller's stays as it was asked. The race detector sees to it as well.
func TestRoundTripQuestionsOfCalls(t *testing.T) {
	question := pregel.NewTask("question", func(ctx context.Context, n int) (any, error) {
		return pregel.Ask(ctx, tripInvoice{n})
	})
	g, err := graph.New(graph.Key("n", nil)).Node("ask", func(ctx context.Context, _ any) (any, error) {
		all := &pregel.InterruptError{}
		for _, f := range []pregel.Future[any]{question.Start(ctx, 1), question.Start(ctx, 2)} {
			var waits *pregel.InterruptError
			if _, err := f.Get(ctx); !errors.As(err, &waits) {
				return nil, err
			}
			for _, q := range waits.Interrupts {
				if _, ok := q.Value.(tripInvoice); !ok {
					t.Errorf("the caller reads %T", q.Value)
				}
				all.Interrupts = append(all.Interrupts, q)
			}
		}
		return nil, all
	}).Edge(graph.Start, "ask").Compile(graph.Options{Saver: memory.New(memory.Options{}), RoundTrip: true})
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"n": 1})
	if err != nil || len(res.Interrupts) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	for _, q := range res.Interrupts {
		if got := shape(q.Value); got != "map{Cents: int64}" {
			t.Errorf("the run shows %s", got)
		}
	}
}
