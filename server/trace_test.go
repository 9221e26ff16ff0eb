package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
)

type traced struct{}

// TestTrace: a run remembers the trace of the request that made it, also in another process,
// and its nodes have the context that Begin made.
func TestTrace(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(what ...any) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprint(what...))
	}
	dir := t.TempDir()
	change := func(workers int) func(c *server.Config) {
		return func(c *server.Config) {
			c.Workers = workers
			c.Graphs = map[string]*pregel.Graph{"g": must(builder().Node("a", func(ctx context.Context, _ any) (any, error) {
				note("node ", ctx.Value(traced{}))
				return nil, errors.New("boom")
			}).Edge(graph.Start, "a").Compile(graph.Options{Name: "g", Saver: c.Saver, Store: c.Store}))}
			c.Trace = func(context.Context) map[string]string { return map[string]string{"traceparent": "of the request"} }
			c.Begin = func(ctx context.Context, r runs.Run) (context.Context, func(error)) {
				note("begin ", r.Trace)
				return context.WithValue(ctx, traced{}, "of begin"), func(err error) { note("end ", err != nil) }
			}
		}
	}
	h := open(t, dir, change(-1))
	thread := h.thread()
	run := h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "g", "input": object{"text": "x"}}).text1("run_id")
	h.shut()
	h = open(t, dir, change(1))
	h.ended(thread, run)
	h.shut()
	if want := []string{"begin map[traceparent:of the request]", "node of begin", "end true"}; !slices.Equal(seen, want) {
		t.Errorf("%q", seen)
	}
}
