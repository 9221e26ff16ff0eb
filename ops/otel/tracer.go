package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stele-go/stele/pregel"
)

// scope is the name of the instrumentation.
const scope = "github.com/stele-go/stele/ops/otel"

// Options configure a Tracer. The zero value is the documented default.
type Options struct {
	// Provider makes the spans; nil: the global one of OpenTelemetry, as it is when
	// New is called.
	Provider trace.TracerProvider
	// Attributes are on every span.
	Attributes []attribute.KeyValue
}

// Tracer makes spans. It is safe for concurrent use, by any number of graphs and
// savers.
type Tracer struct {
	t     trace.Tracer
	attrs []attribute.KeyValue
}

// New returns a Tracer.
func New(o Options) *Tracer {
	p := o.Provider
	if p == nil {
		p = otel.GetTracerProvider()
	}
	return &Tracer{t: p.Tracer(scope), attrs: append([]attribute.KeyValue(nil), o.Attributes...)}
}

// Hooks returns h with spans for runs, supersteps and tasks, and for the attempts of tasks that
// may be tried again. If h has a Span, it is called with
// the context of the span made here.
func (t *Tracer) Hooks(h pregel.Hooks) pregel.Hooks {
	own := h.Span
	h.Span = func(ctx context.Context, s pregel.Span) (context.Context, func(error)) {
		inside, span := t.begin(ctx, spanName(s), attributes(s)...)
		end := func(err error) { finish(span, err) }
		if own == nil {
			return inside, end
		}
		c, e := own(inside, s)
		if c == nil {
			c = inside
		}
		if e == nil {
			return c, end
		}
		return c, func(err error) {
			defer end(err) // whatever the other does
			e(err)
		}
	}
	return h
}

func (t *Tracer) begin(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return t.t.Start(ctx, name, trace.WithAttributes(t.attrs...), trace.WithAttributes(attrs...))
}

// spanName returns the kind and the name of the graph or node. There are few different ones.
func spanName(s pregel.Span) string {
	switch {
	case s.Task != nil:
		return string(s.Kind) + " " + s.Task.Node
	case s.Run.Graph != "":
		return string(s.Kind) + " " + s.Run.Graph
	}
	return string(s.Kind)
}

// attributes are the attributes of a span when it begins. Empty names are left out.
func attributes(s pregel.Span) []attribute.KeyValue {
	out := place(s.Run.ThreadID, s.Run.Namespace, s.Run.CheckpointID)
	out = text(out, "stele.graph", s.Run.Graph)
	out = text(out, "stele.run_id", s.Run.RunID)
	if s.Kind != pregel.SpanRun {
		out = append(out, attribute.Int("stele.step", s.Run.Step))
	}
	if s.Kind == pregel.SpanSuperstep {
		out = append(out, attribute.StringSlice("stele.tasks", s.Tasks))
	}
	if t := s.Task; t != nil {
		out = text(out, "stele.node", t.Node)
		out = text(out, "stele.task_id", t.TaskID)
		if s.Kind == pregel.SpanAttempt {
			out = append(out, attribute.Int("stele.attempt", t.Attempt))
		}
	}
	return out
}

// place are the attributes for a thread, namespace and checkpoint.
func place(thread, namespace, checkpoint string) []attribute.KeyValue {
	out := text(nil, "stele.thread_id", thread)
	out = text(out, "stele.namespace", namespace)
	return text(out, "stele.checkpoint_id", checkpoint)
}

func text(attrs []attribute.KeyValue, key, value string) []attribute.KeyValue {
	if value == "" {
		return attrs
	}
	return append(attrs, attribute.String(key, value))
}

// finish ends a span with err.
func finish(span trace.Span, err error) {
	if outcome := outcomeOf(err); outcome != "" {
		span.SetAttributes(attribute.String("stele.outcome", outcome))
	} else if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// outcomeOf names an error that is part of the normal course of a run; "" for others.
func outcomeOf(err error) string {
	var command *pregel.ParentCommandError
	var drained *pregel.DrainedError
	switch {
	case errors.Is(err, pregel.ErrInterrupted):
		return "interrupted"
	case errors.As(err, &command):
		return "parent_command"
	case errors.As(err, &drained):
		return "drained"
	}
	return ""
}
