package pregel_test

import (
	"context"
	"errors"
	"fmt"
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

type m = map[string]any

func stepsField() graph.Field { return graph.Key("steps", channel.Reduce(channel.Append[string])) }

// around is a graph whose node "sub" runs inner on an input of its own, after a
// node "before".
func around(t *testing.T, s saver.Saver, inner *graph.Builder, sub graph.Options, o graph.Options) *pregel.Graph {
	t.Helper()
	in, err := inner.Compile(sub)
	if err != nil {
		t.Fatal(err)
	}
	b := graph.New(stepsField()).Node("before", func(context.Context, any) (any, error) { return m{"steps": []string{"before"}}, nil })
	b.Node("sub", func(ctx context.Context, _ any) (any, error) {
		res, err := in.Invoke(ctx, pregel.Inside(), m{"steps": []string{"x"}})
		if err != nil {
			return nil, err
		}
		return m{"steps": []string{fmt.Sprint("sub ", res.Map()["steps"])}}, nil
	}, graph.NodeOptions{Subgraphs: []*pregel.Graph{in}})
	o.Saver = s
	g, err := b.Sequence(graph.Start, "before", "sub").Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A stateful graph inside that was not called yet is called when the graph around
// is resumed, whatever state an earlier call left. LangGraph takes it for finished
// and gives the earlier result.
func TestResumeCallsStatefulGraph(t *testing.T) {
	inner := graph.New(stepsField()).Node("i", func(context.Context, any) (any, error) { return m{"steps": []string{"i"}}, nil }).Sequence(graph.Start, "i")
	g := around(t, memory.New(memory.Options{}), inner, graph.Options{Checkpointing: pregel.Stable}, graph.Options{InterruptBefore: []string{"sub"}})
	at := pregel.Thread("t")
	var got any
	for range 2 {
		if _, err := g.Invoke(ctx, at, m{"steps": []string{}}); err != nil {
			t.Fatal(err)
		}
		res, err := g.Invoke(ctx, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		got = res.Map()["steps"]
	}
	want := []string{"before", "sub [x i]", "before", "sub [x i x i]"}
	if list, _ := got.([]string); !slices.Equal(list, want) {
		t.Errorf("steps %q; want %q", got, want)
	}
}

// asks asks its question and notes the answer.
func asks(q string) pregel.Func {
	return func(ctx context.Context, _ any) (any, error) {
		a, err := pregel.AskFor[string](ctx, q)
		return m{"steps": []string{q + "=" + a}}, err
	}
}

// An answer that a graph inside took is not given to its next question when the
// run goes on without an answer. LangGraph gives it.
func TestAnswerInsideIsGivenOnce(t *testing.T) {
	inner := graph.New(stepsField()).Node("q1", asks("q1")).Node("q2", asks("q2")).Sequence(graph.Start, "q1", "q2")
	g := around(t, memory.New(memory.Options{}), inner, graph.Options{}, graph.Options{})
	at := pregel.Thread("t")
	for i, input := range []any{m{"steps": []string{}}, pregel.Command{Resume: "x"}, nil, nil} {
		res, err := g.Invoke(ctx, at, input)
		if want := []any{"q1", "q2", "q2", "q2"}[i]; err != nil || len(res.Interrupts) != 1 || res.Interrupts[0].Value != want {
			t.Fatalf("call %d: %+v, %v; want it to ask %v", i, res, err, want)
		}
	}
	res, err := g.Invoke(ctx, at, pregel.Command{Resume: "x"}) // the same word may be meant
	if got := fmt.Sprint(res.Map()["steps"]); err != nil || got != "[before sub [x q1=x q2=x]]" {
		t.Errorf("%v, %v", got, err)
	}
}

// A process dies at any save after an answer was given, and whoever gave it gives
// it again, by word or by id: only the question it was given for may have it.
func TestAnswerGivenAgainAfterDeath(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for _, byID := range []bool{false, true} {
			for died := 0; ; died++ {
				s := &mortal{Saver: memory.New(memory.Options{}), left: -1, stored: map[string]bool{}}
				inner := graph.New(stepsField()).Node("q1", asks("q1")).Node("q2", asks("q2")).Node("q3", asks("q3")).Sequence(graph.Start, "q1", "q2", "q3")
				g := around(t, s, inner, graph.Options{}, graph.Options{})
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
				res, err := g.Invoke(ctx, at, m{"steps": []string{}}, cfg)
				if err != nil || len(res.Interrupts) != 1 {
					t.Fatal(res, err)
				}
				answer := pregel.Command{Resume: "one"}
				if byID {
					answer.Resume = m{res.Interrupts[0].ID: "one"}
				}
				s.left = died
				_, err = g.Invoke(ctx, at, answer, cfg)
				s.left = -1
				if err == nil {
					break // it did not die any more
				}
				if !errors.Is(err, errDead) {
					t.Fatal(err)
				}
				res, err = g.Invoke(ctx, at, answer, cfg)
				if err != nil || len(res.Interrupts) != 1 || res.Interrupts[0].Value != "q2" {
					t.Errorf("%s, by id %v, death after %d saves: %+v, %v; want q2 asked", d, byID, died, res, err)
				}
			}
		}
	}
}

// parents notes the checkpoints that were stored, and those stored before the one
// around them.
type parents struct {
	*memory.Saver
	mu      sync.Mutex
	stored  map[any]bool
	orphans int
	inside  int
}

func (p *parents) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	around, _ := req.Metadata["parents"].(map[string]any)
	if req.Config.Namespace == "" {
		time.Sleep(2 * time.Millisecond) // a slow device
	}
	p.mu.Lock()
	for _, id := range around {
		p.inside++
		if !p.stored[id] {
			p.orphans++
		}
	}
	p.stored[req.Checkpoint.ID] = true
	p.mu.Unlock()
	return p.Saver.PutRequest(c, req)
}

// What a graph inside stores comes after the checkpoint it belongs to, in Async
// too, and however deep it is.
func TestInsideIsStoredAfterAround(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
		p := &parents{Saver: memory.New(memory.Options{}), stored: map[any]bool{}}
		low := graph.New(stepsField()).Node("i", func(context.Context, any) (any, error) { return m{"steps": []string{"i"}}, nil }).Sequence(graph.Start, "i")
		sub, err := low.Compile(graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g := around(t, p, graph.New(stepsField()).Subgraph("low", sub).Sequence(graph.Start, "low"), graph.Options{}, graph.Options{})
		if _, err := g.Invoke(ctx, pregel.Thread("t"), m{"steps": []string{}}, pregel.RunOptions{Durability: d}); err != nil {
			t.Fatal(err)
		}
		if p.orphans > 0 || p.inside == 0 {
			t.Errorf("%s: %d of %d checkpoints inside were stored before the one around them", d, p.orphans, p.inside)
		}
	}
}
