package otel_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stele-go/stele/ops/otel"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// TestOneTrace: a request, the run that it makes, both attempts of the run and the node are in
// the trace that the client began.
func TestOneTrace(t *testing.T) {
	r := record(t)
	saved := memory.New(memory.Options{})
	mem, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := runs.NewLocal(t.Context(), mem, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	failed := false
	g, err := graph.New(graph.Key("x", channel.LastValue[int]())).Node("n", func(context.Context, any) (any, error) {
		if !failed {
			failed = true
			return nil, errors.New("boom")
		}
		return map[string]any{"x": 2}, nil
	}).Edge(graph.Start, "n").Compile(graph.Options{Name: "g", Saver: saved, Hooks: r.Hooks(pregel.Hooks{})})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /runs/{id}", func(w http.ResponseWriter, req *http.Request) {
		got, err := queue.Submit(req.Context(), runs.Request{Spec: runs.Spec{Graph: "g", ThreadID: req.PathValue("id"), Trace: r.Trace(req.Context())}, Input: map[string]any{"x": 1}})
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		w.Header().Set("X-Run", got.ID)
	})
	mux.HandleFunc("GET /broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	srv := httptest.NewServer(r.Handler(mux))
	defer srv.Close()
	do := func(method, path string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res
	}
	id := do("POST", "/runs/t").Header.Get("X-Run")
	do("GET", "/broken")
	do("GET", "/nowhere")

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := &runs.Worker{Queue: queue, Saver: saved, Graphs: map[string]*pregel.Graph{"g": g}, Begin: r.Attempt, Backoff: func(int) time.Duration { return time.Millisecond }}
	go func() { ended <- w.Run(ctx) }()
	if got, err := runs.Wait(t.Context(), queue, id); err != nil || got.Status != runs.Success || got.Attempt != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	tree := r.tree()
	for _, want := range []string{"POST /runs/{id}", "POST /runs/{id} > process g", "POST /runs/{id} > process g > run g > superstep g > task n", "GET /broken", "GET"} {
		if !slices.Contains(tree, want) {
			t.Errorf("no %q in %q", want, tree)
		}
	}
	var attempts []tracetest.SpanStub
	for _, s := range r.exp.GetSpans() {
		if got := s.SpanContext.TraceID().String(); got != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s is in the trace %s", s.Name, got)
		}
		if s.Name == "process g" {
			attempts = append(attempts, s)
		}
	}
	if len(attempts) != 2 || attempts[0].Status.Code != codes.Error || attempts[1].Status.Code == codes.Error || attempts[0].SpanKind != trace.SpanKindConsumer {
		t.Errorf("%+v", attempts)
	}
	if s := r.find(t, "GET /broken"); s.Status.Code != codes.Error || s.SpanKind != trace.SpanKindServer || s.Parent.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("%+v", s)
	}
	if headers := otel.New(otel.Options{}).Trace(t.Context()); len(headers) != 0 {
		t.Errorf("%v", headers)
	}
}
