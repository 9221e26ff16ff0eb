package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/server"
)

// TestRoutesAfterClose: a server that was closed, and whose stores were, answers each operation, and nothing that
// needs a store with success; nor does it panic for a client who has gone. Another Close does nothing.
func TestRoutesAfterClose(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers = -1 })
	h.http.Close()
	ended, end := context.WithCancel(t.Context())
	end()
	const some = "00000000-0000-4000-8000-000000000001"
	body := `{"assistant_id": "simple", "graph_id": "simple", "input": {"text": "x"}, "schedule": "0 0 1 1 *", "namespace": ["a"], "key": "k", "value": {}, "thread_ids": ["` + some + `"], "version": 1, "checkpoint": {}, "id": 1, "method": "run.start"}`
	needNone := []string{"/", "/ok", "/info", "/docs", "/openapi.json", "/mcp", "/mcp/"}
	every := func(ctx context.Context, check func(route string, status int, text string)) {
		for _, route := range h.api.Routes() {
			method, path, _ := strings.Cut(route, " ")
			path = strings.NewReplacer("{$}", "", "{assistant_id}", "simple", "{namespace}", "x", "{schedule_id...}", "x", "{thread_id}", some, "{run_id}", some, "{cron_id}", some, "{checkpoint_id}", some).Replace(path)
			r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.api.ServeHTTP(w, r)
			if !slices.Contains(needNone, path) {
				check(method+" "+path, w.Code, w.Body.String())
			}
		}
	}
	every(ended, func(string, int, string) {})
	if err := errors.Join(h.api.Close(), h.api.Close(), h.items.Close(), h.disk.Close()); err != nil {
		t.Fatal(err)
	}
	every(t.Context(), func(route string, status int, text string) {
		if status < http.StatusBadRequest {
			t.Errorf("%s: %d %.200s", route, status, text)
		}
		if found := goWords.FindString(text); found != "" {
			t.Errorf("%s: %q in %s", route, found, text)
		}
	})
}
