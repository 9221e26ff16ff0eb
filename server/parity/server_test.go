package parity

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// newServer serves the graphs on an embedded store, and returns its address.
func newServer(t *testing.T) string { return newServerFor(t, nil, "http://localhost:3000") }

// newServerFor serves more graphs than those of the recordings, to pages of an origin.
func newServerFor(t *testing.T, more map[string]builder, origin string) string {
	t.Helper()
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	s, err := disk.Open(t.TempDir(), disk.Options{Sync: disk.SyncNever})
	fail(err)
	t.Cleanup(func() { fail(s.Close()) })
	items, err := store.On(s, store.Options{})
	fail(err)
	t.Cleanup(func() { fail(items.Close()) })
	queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	fail(err)
	all, err := graphs(s, items, more)
	fail(err)
	h, err := server.New(server.Config{Graphs: all, Saver: s, Store: items, Queue: queue, Auth: server.NoAuth(),
		Origins: []string{origin}, Logger: slog.New(slog.DiscardHandler)})
	fail(err)
	t.Cleanup(func() { fail(h.Close()) })
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}
