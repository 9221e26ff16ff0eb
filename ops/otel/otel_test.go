package otel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stele-go/stele/ops/otel"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
)

var ctx = context.Background()

// recorder collects the spans of a test.
type recorder struct {
	*otel.Tracer
	exp      *tracetest.InMemoryExporter
	provider *trace.TracerProvider
}

func record(t *testing.T) *recorder {
	t.Helper()
	exp := tracetest.NewInMemoryExporter()
	p := trace.NewTracerProvider(trace.WithSyncer(exp))
	t.Cleanup(func() {
		if err := p.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return &recorder{otel.New(otel.Options{Provider: p, Attributes: []attribute.KeyValue{attribute.String("app", "test")}}), exp, p}
}

// tree is the spans as paths of names from the root, sorted.
func (r *recorder) tree() []string {
	spans := r.exp.GetSpans()
	byID := map[string]tracetest.SpanStub{}
	for _, s := range spans {
		byID[s.SpanContext.SpanID().String()] = s
	}
	var out []string
	for _, s := range spans {
		path := s.Name
		for p, ok := byID[s.Parent.SpanID().String()]; ok; p, ok = byID[p.Parent.SpanID().String()] {
			path = p.Name + " > " + path
		}
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// last is the span with this name that ended last.
func (r *recorder) last(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	spans := r.exp.GetSpans()
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].Name == name {
			return spans[i]
		}
	}
	t.Fatalf("no span named %q in %v", name, r.tree())
	return tracetest.SpanStub{}
}

// find is the only span with this name.
func (r *recorder) find(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	for _, s := range r.exp.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans named %q in %v", len(found), name, r.tree())
	}
	return found[0]
}

func attr(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.Emit()
		}
	}
	return ""
}

func compile(t *testing.T, b *graph.Builder, o graph.Options) *pregel.Graph {
	t.Helper()
	g, err := b.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func state() *graph.Builder {
	return graph.New(graph.Key("n", channel.Reduce(channel.Add[int])))
}

func one(context.Context, any) (any, error) { return map[string]any{"n": 1}, nil }

func openDisk(t *testing.T) *disk.Saver {
	t.Helper()
	d, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// A run, its supersteps, tasks, loads and saves are one trace, nested as they are; the
// run of a graph inside, and a span of the node's own, are inside of the node's task.
func TestSpansAreNested(t *testing.T) {
	r := record(t)
	inner := compile(t, state().Node("deep", one).Sequence(graph.Start, "deep", graph.End),
		graph.Options{Name: "inner", Hooks: r.Hooks(pregel.Hooks{})})
	outer := compile(t, state().
		Node("first", func(ctx context.Context, in any) (any, error) {
			_, span := r.provider.Tracer("user").Start(ctx, "own work")
			span.End()
			return one(ctx, in)
		}).
		Node("calls", func(ctx context.Context, _ any) (any, error) {
			res, err := inner.Invoke(ctx, pregel.Inside(), map[string]any{"n": 1})
			if err != nil {
				return nil, err
			}
			return map[string]any{"n": res.Map()["n"]}, nil
		}).Sequence(graph.Start, "first", "calls", graph.End),
		graph.Options{Name: "outer", Saver: r.Saver(openDisk(t)), Hooks: r.Hooks(pregel.Hooks{})})
	root, span := r.provider.Tracer("user").Start(ctx, "request")
	if _, err := outer.Invoke(root, pregel.Thread("thread-1"), map[string]any{"n": 0}, pregel.RunOptions{RunID: "run-1", Durability: pregel.Sync}); err != nil {
		t.Fatal(err)
	}
	span.End()
	tree := r.tree()
	const run = "request > run outer"
	for _, want := range []string{
		"request", run, run + " > load", run + " > save checkpoint", run + " > superstep outer > task first",
		run + " > superstep outer > task first > own work", run + " > superstep outer > task calls > run inner > superstep inner > task deep",
	} {
		if !slices.Contains(tree, want) {
			t.Errorf("no span %q in\n%s", want, strings.Join(tree, "\n"))
		}
	}
	for _, s := range r.exp.GetSpans() {
		if s.Status.Code == codes.Error {
			t.Errorf("%s ended with %v", s.Name, s.Status)
		}
		if s.InstrumentationScope.Name != "user" && attr(s, "app") != "test" {
			t.Errorf("%s has not the attributes of all", s.Name)
		}
	}
	task := r.find(t, "task first")
	for key, want := range map[string]string{"stele.thread_id": "thread-1", "stele.run_id": "run-1", "stele.node": "first", "stele.graph": "outer", "stele.step": "1"} {
		if got := attr(task, key); got != want {
			t.Errorf("%s of the task is %q, not %q", key, got, want)
		}
	}
	if attr(task, "stele.task_id") == "" || attr(task, "stele.checkpoint_id") == "" {
		t.Errorf("the task has no id or checkpoint: %v", task.Attributes)
	}
	if got := attr(r.last(t, "superstep inner"), "stele.tasks"); got != `["deep"]` {
		t.Errorf("tasks of the superstep: %s", got)
	}
	if got := attr(r.last(t, "load"), "stele.outcome"); got != "not_found" {
		t.Errorf("the first load is %q", got)
	}
}

// A failure is recorded where it happened, and on what it ended.
func TestErrorsAreRecorded(t *testing.T) {
	r := record(t)
	bad := errors.New("no such city")
	g := compile(t, state().Node("fails", func(context.Context, any) (any, error) { return nil, bad }).Sequence(graph.Start, "fails", graph.End),
		graph.Options{Name: "g", Saver: r.Saver(memory.New(memory.Options{})), Hooks: r.Hooks(pregel.Hooks{})})
	if _, err := g.Invoke(ctx, pregel.Thread("t"), map[string]any{"n": 0}); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	for _, name := range []string{"task fails", "superstep g", "run g"} {
		s := r.last(t, name)
		if s.Status.Code != codes.Error || !strings.Contains(s.Status.Description, bad.Error()) || len(s.Events) != 1 || s.Events[0].Name != "exception" {
			t.Errorf("%s: %+v, %+v", name, s.Status, s.Events)
		}
	}
}

func TestPanicsAreRecorded(t *testing.T) {
	r := record(t)
	g := compile(t, state().Node("panics", func(context.Context, any) (any, error) { panic("oh") }).Sequence(graph.Start, "panics", graph.End),
		graph.Options{Name: "g", Hooks: r.Hooks(pregel.Hooks{})})
	if _, err := g.Invoke(ctx, pregel.Address{}, map[string]any{"n": 0}); err == nil {
		t.Fatal("a panic went unnoticed")
	}
	for _, name := range []string{"task panics", "superstep g", "run g"} {
		if s := r.last(t, name); s.Status.Code != codes.Error || !strings.Contains(s.Status.Description, "oh") {
			t.Errorf("%s: %+v", name, s.Status)
		}
	}
}

// A question to a person is no error.
func TestInterruptsAreNoErrors(t *testing.T) {
	r := record(t)
	g := compile(t, state().Node("asks", func(ctx context.Context, _ any) (any, error) {
		if _, err := pregel.AskFor[string](ctx, "sure?"); err != nil {
			return nil, err
		}
		return map[string]any{"n": 1}, nil
	}).Sequence(graph.Start, "asks", graph.End),
		graph.Options{Name: "g", Saver: r.Saver(memory.New(memory.Options{})), Hooks: r.Hooks(pregel.Hooks{})})
	if _, err := g.Invoke(ctx, pregel.Thread("t"), map[string]any{"n": 0}); err != nil {
		t.Fatal(err)
	}
	if s := r.find(t, "task asks"); s.Status.Code == codes.Error || attr(s, "stele.outcome") != "interrupted" {
		t.Errorf("%+v %v", s.Status, s.Attributes)
	}
	if s := r.find(t, "run g"); s.Status.Code == codes.Error {
		t.Errorf("%+v", s.Status)
	}
	r.exp.Reset()
	if _, err := g.Invoke(ctx, pregel.Thread("t"), pregel.Command{Resume: "yes"}); err != nil {
		t.Fatal(err)
	}
	if s := r.find(t, "task asks"); attr(s, "stele.outcome") != "" {
		t.Errorf("resumed: %v", s.Attributes)
	}
}
