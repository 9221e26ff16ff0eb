package otel

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stele-go/stele/runs"
)

// w3c writes and reads the headers traceparent and tracestate.
var w3c propagation.TraceContext

// Handler returns a handler that makes a span for each request to next, below the span that the
// header traceparent names. The name is the method and the pattern that net/http's mux found. A
// status of 500 or more is an error.
func (t *Tracer) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := t.t.Start(w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), r.Method, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(t.attrs...), trace.WithAttributes(attribute.String("http.request.method", r.Method)))
		defer span.End() // also after a panic
		inside, noted := r.WithContext(ctx), &noter{ResponseWriter: w}
		next.ServeHTTP(noted, inside)
		if _, route, ok := strings.Cut(inside.Pattern, " "); ok {
			span.SetName(r.Method + " " + route)
			span.SetAttributes(attribute.String("http.route", route))
		}
		if noted.status != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", noted.status))
		}
		if noted.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

// noter notes the status of an answer.
type noter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (n *noter) WriteHeader(status int) {
	if n.status == 0 {
		n.status = status
	}
	n.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (n *noter) Write(b []byte) (int, error) {
	if n.status == 0 {
		n.status = http.StatusOK
	}
	return n.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (n *noter) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// Trace returns the trace of ctx as headers, for runs.Spec.Trace; empty if there is none.
func (t *Tracer) Trace(ctx context.Context) map[string]string {
	headers := propagation.MapCarrier{}
	w3c.Inject(ctx, headers)
	return headers
}

// Attempt makes a span for an attempt at a run, in the trace that runs.Spec.Trace names: that of
// the request that made the run. It is for runs.Worker.Begin.
func (t *Tracer) Attempt(ctx context.Context, r runs.Run) (context.Context, func(error)) {
	attrs := text(text(place(r.ThreadID, "", r.CheckpointID), "stele.graph", r.Graph), "stele.run_id", r.ID)
	ctx, span := t.t.Start(w3c.Extract(ctx, propagation.MapCarrier(r.Trace)), "process "+r.Graph, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(t.attrs...), trace.WithAttributes(append(attrs, attribute.Int("stele.run_attempt", r.Attempt))...))
	return ctx, func(err error) { finish(span, err) }
}
