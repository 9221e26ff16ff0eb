package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// behindRead is a store behind which another server does something, once it is armed, as soon as a record of a thread was read.
type behindRead struct {
	*store.Local
	does atomic.Pointer[func()]
}

func (b *behindRead) Get(ctx context.Context, ns store.Namespace, key string, opts ...store.GetOption) (*store.Item, error) {
	item, err := b.Local.Get(ctx, ns, key, opts...)
	if ns[0] == "__stele_server__" && ns[1] == "threads" {
		if f := b.does.Swap(nil); f != nil {
			(*f)()
		}
	}
	return item, err
}

// TestPatchAsItsThreadGoes: a thread that another server removes, or changes, between the read and the write of a PATCH does not come back,
// and keeps what the other has changed.
func TestPatchAsItsThreadGoes(t *testing.T) {
	var cfg server.Config
	var s *behindRead
	h := open(t, t.TempDir(), func(c *server.Config) {
		s = &behindRead{Local: c.Store.(*store.Local)}
		c.Store = s
		cfg = *c
		cfg.Store = s.Local
	})
	other := must(server.New(cfg))
	defer other.Close()
	elsewhere := func(method, path, body string) {
		f := func() {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			r.Host, r.RemoteAddr = "127.0.0.1", "127.0.0.1:1"
			if body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			other.ServeHTTP(w, r)
			if w.Code/100 != 2 {
				t.Errorf("%s %s: %d: %s", method, path, w.Code, w.Body)
			}
		}
		s.does.Store(&f)
	}
	for _, ttl := range []any{nil, 1000} {
		id := h.thread()
		elsewhere(http.MethodPatch, "/threads/"+id, `{"metadata": {"theirs": 1}}`)
		patch := object{"metadata": object{"ours": 2}}
		if ttl != nil {
			patch["ttl"] = ttl
		}
		got, _ := h.ok("PATCH", "/threads/"+id, patch).object()["metadata"].(object)
		if got["theirs"] == nil || got["ours"] == nil {
			t.Errorf("metadata: %v", got)
		}
		elsewhere(http.MethodDelete, "/threads/"+id, "")
		h.refused(404, "PATCH", "/threads/"+id, patch)
		if got := h.do("GET", "/threads/"+id, nil); got.status != 404 {
			t.Errorf("it is there: %s", got.text)
		}
		if s.does.Load() != nil {
			t.Error("the other server has done nothing")
		}
	}
}
