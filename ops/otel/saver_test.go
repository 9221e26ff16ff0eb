package otel_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"

	"github.com/stele-go/stele/ops/otel"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/savertest"
)

// The contract of savers holds for a traced one.
func TestTracedSaverKeepsTheContract(t *testing.T) {
	r := record(t)
	savertest.Run(t, func(*testing.T) saver.Saver { return r.Saver(memory.New(memory.Options{})) })
}

// Wrapping takes no power away and gives none.
func TestPowersAreKept(t *testing.T) {
	r := record(t)
	var onlySaver struct{ saver.Saver }
	onlySaver.Saver = memory.New(memory.Options{})
	for name, s := range map[string]saver.Saver{"disk": openDisk(t), "memory": memory.New(memory.Options{}), "no powers": onlySaver} {
		w := r.Saver(s)
		_, was := s.(saver.Eraser)
		if _, is := w.(saver.Eraser); is != was {
			t.Errorf("%s: Eraser was %v and is %v", name, was, is)
		}
	}
}

// A save that fails says so on its own span and on the run's.
func TestFailedSaves(t *testing.T) {
	r := record(t)
	d, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	s := r.Saver(d)
	cfg := saver.Config{ThreadID: "t", Namespace: "ns", CheckpointID: "c0"}
	_, perr := s.Put(ctx, cfg, saver.Checkpoint{V: 4, ID: "c1"}, nil, nil)
	werr := s.PutWrites(ctx, cfg, []saver.Write{{Channel: "c", Value: saver.ValueOf(1)}}, "task", "")
	_, gerr := s.GetTuple(ctx, cfg)
	for name, err := range map[string]error{"save checkpoint": perr, "save writes": werr, "load": gerr} {
		if !errors.Is(err, saver.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		span := r.find(t, name)
		if span.Status.Code != codes.Error || attr(span, "stele.thread_id") != "t" || attr(span, "stele.namespace") != "ns" {
			t.Errorf("%s: %+v %v", name, span.Status, span.Attributes)
		}
	}
	if got := attr(r.find(t, "save writes"), "stele.writes"); got != "1" {
		t.Errorf("number of writes: %q", got)
	}
}

type key struct{}

// Hooks that were there go on being called; a hook that fails harms nobody.
func TestOtherHooksAreKept(t *testing.T) {
	r := record(t)
	var kinds []pregel.SpanKind
	ended, runs, seen := 0, 0, false
	h := pregel.Hooks{
		RunStart: func(pregel.RunInfo) { runs++ },
		Span: func(ctx context.Context, s pregel.Span) (context.Context, func(error)) {
			kinds = append(kinds, s.Kind)
			if s.Kind == pregel.SpanSuperstep {
				return nil, nil
			}
			return context.WithValue(ctx, key{}, true), func(error) { ended++; panic("a bad hook") }
		},
	}
	g := compile(t, state().Node("a", func(ctx context.Context, in any) (any, error) {
		seen = ctx.Value(key{}) == true
		return one(ctx, in)
	}).Sequence(graph.Start, "a", graph.End), graph.Options{Name: "g", Hooks: r.Hooks(h)})
	if _, err := g.Invoke(ctx, pregel.Address{}, map[string]any{"n": 0}); err != nil {
		t.Fatal(err)
	}
	// The input is a superstep of its own.
	if len(kinds) != 5 || ended != 3 || runs != 1 || !seen {
		t.Errorf("began %v, ended %d, %d runs, context seen %v", kinds, ended, runs, seen)
	}
	if tree := r.tree(); len(tree) != 5 {
		t.Errorf("spans %v", tree)
	}
}

// Without a provider the global one is used, which by default makes nothing.
func TestDefaultProvider(t *testing.T) {
	tr := otel.New(otel.Options{})
	g := compile(t, state().Node("a", one).Sequence(graph.Start, "a", graph.End),
		graph.Options{Saver: tr.Saver(memory.New(memory.Options{})), Hooks: tr.Hooks(pregel.Hooks{})})
	if _, err := g.Invoke(ctx, pregel.Thread("t"), map[string]any{"n": 0}); err != nil {
		t.Fatal(err)
	}
}
