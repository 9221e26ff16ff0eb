package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// A server answers from a store as the build did that wrote it. A field that it has besides does
// not count.
func TestOldServerIsRead(t *testing.T) {
	s, err := disk.Open(copyDir(t, filepath.Join("testdata", "notes", "store")), optionsOf(t, "notes"))
	must(t, err)
	defer s.Close()
	items, err := store.On(s, store.Options{})
	must(t, err)
	defer items.Close()
	queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	must(t, err)
	g, err := graph.New(graph.Key("text", channel.LastValue[string]())).Node("say", func(_ context.Context, in any) (any, error) {
		return map[string]any{"text": fmt.Sprint(in.(map[string]any)["text"], "!")}, nil
	}).Sequence(graph.Start, "say").Compile(graph.Options{Name: "echo", Saver: s, Store: items})
	must(t, err)
	api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"echo": g}, Saver: s, Store: items, Queue: queue, Auth: server.NoAuth(), ReadOnly: true})
	must(t, err)
	defer api.Close()
	h := httptest.NewServer(api)
	defer h.Close()
	b, err := os.ReadFile(filepath.Join("testdata", "notes", "answers.json"))
	must(t, err)
	var answers map[string]any
	must(t, json.Unmarshal(b, &answers))
	for path, want := range answers {
		method, body := http.MethodGet, ""
		if strings.HasSuffix(path, "/search") || strings.HasSuffix(path, "/versions") {
			method, body = http.MethodPost, "{}"
		}
		req, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		b, err := io.ReadAll(resp.Body)
		must(t, err)
		must(t, resp.Body.Close())
		var got any
		if err := json.Unmarshal(b, &got); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", path, resp.StatusCode, b)
		} else if diff := cmp.Diff(want, within(want, got)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// within is got without the fields that want has not.
func within(want, got any) any {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			out := map[string]any{}
			for k, v := range got {
				if _, ok := want[k]; ok {
					out[k] = within(want[k], v)
				}
			}
			return out
		}
	case []any:
		if got, ok := got.([]any); ok && len(got) == len(want) {
			out := make([]any, len(got))
			for i := range got {
				out[i] = within(want[i], got[i])
			}
			return out
		}
	}
	return got
}
