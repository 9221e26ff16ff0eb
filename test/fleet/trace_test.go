//go:build unix

package fleet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stele-go/stele/ops/otel"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// tracedServer is a server of the fleet, with a tracer of its own.
func tracedServer(t *testing.T, url string, workers int) (address string, spans *tracetest.InMemoryExporter) {
	t.Helper()
	spans = tracetest.NewInMemoryExporter()
	tracer := otel.New(otel.Options{Provider: sdk.NewTracerProvider(sdk.WithSyncer(spans))})
	s, err := postgres.Open(t.Context(), url, postgres.Options{LeaseTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	items := must(pgstore.On(t.Context(), s, store.Options{}))
	g := must(graph.New(graph.Key("text", channel.LastValue[string]())).Node("n", func(context.Context, any) (any, error) {
		return map[string]any{"text": "done"}, nil
	}).Edge(graph.Start, "n").Compile(graph.Options{Name: "g", Saver: s, Store: items, Hooks: tracer.Hooks(pregel.Hooks{})}))
	queue := pgqueue.Open(s, pgqueue.Options{LeaseTime: time.Second})
	api := must(server.New(server.Config{Graphs: map[string]*pregel.Graph{"g": g}, Saver: s, Store: items, Queue: queue, Auth: server.NoAuth(),
		Workers: workers, Trace: tracer.Trace, Begin: tracer.Attempt}))
	t.Cleanup(func() { _ = api.Close() })
	web := httptest.NewServer(tracer.Handler(api))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL, spans
}

// TestOneTrace: the request that one server answers, and the run and the node that another server
// executes because of it, are in the trace that the client began. The queue is PostgreSQL's.
func TestOneTrace(t *testing.T) {
	pg, err := pgtest.New()
	if err != nil {
		pgtest.Need(t, err)
	}
	t.Cleanup(pg.Close)
	url := pg.Database(t)
	if err := errors.Join(postgres.Setup(t.Context(), url, postgres.Options{}), pgstore.Setup(t.Context(), url, postgres.Options{}, nil)); err != nil {
		t.Fatal(err)
	}
	asked, requests := tracedServer(t, url, -1) // executes nothing
	_, work := tracedServer(t, url, 1)

	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := must(http.NewRequestWithContext(ctx, "POST", asked+"/runs/wait", strings.NewReader(`{"assistant_id":"g","input":{"text":"x"}}`)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("traceparent", "00-"+trace+"-"+span+"-01")
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", res, err)
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || !strings.Contains(string(text), `"text":"done"`) {
		t.Fatalf("%s, %v", text, err)
	}

	found := func(exp *tracetest.InMemoryExporter, name string) (s tracetest.SpanStub) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // a span is there when it has ended
			for _, s := range exp.GetSpans() {
				if s.Name == name && s.SpanContext.TraceID().String() == trace {
					return s
				}
			}
			if time.Now().After(end) {
				t.Fatalf("no span %q of the trace in %+v", name, exp.GetSpans())
			}
		}
	}
	above := span
	for _, at := range []struct {
		exp  *tracetest.InMemoryExporter
		name string
	}{{requests, "POST /runs/wait"}, {work, "process g"}, {work, "run g"}, {work, "superstep g"}} {
		s := found(at.exp, at.name)
		if got := s.Parent.SpanID().String(); got != above {
			t.Errorf("%s is below %s, not %s", at.name, got, above)
		}
		above = s.SpanContext.SpanID().String()
	}
	if s := found(work, "task n"); !s.Parent.IsValid() {
		t.Errorf("%+v", s)
	}
	for _, s := range requests.GetSpans() {
		if s.Name == "process g" {
			t.Error("the server that executes nothing has executed the run")
		}
	}
}
