package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// aged is a queue whose runs ended long ago.
type aged struct{ *runs.Local }

func (q aged) Get(ctx context.Context, id string) (runs.Run, error) {
	r, err := q.Local.Get(ctx, id)
	if r.Status.Ended() {
		r.Ended = r.Ended.Add(-time.Hour)
	}
	return r, err
}

// TestRecordsOfANewerVersion: what this version does not know among the things to do is left alone, and
// what it cannot decode keeps nothing from being done or found.
func TestRecordsOfANewerVersion(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	ended := func() (thread, run string) {
		thread = h.thread()
		run = h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}).text1("run_id")
		h.ended(thread, run)
		return thread, run
	}
	stored := func(kind, key, text string) {
		t.Helper()
		if err := h.items.Put(t.Context(), store.Namespace{"__stele_server__", kind}, key, object{"json": text}); err != nil {
			t.Fatal(err)
		}
	}
	kept, keptRun := ended()
	gone, goneRun := ended()
	stored("after", "archive", fmt.Sprintf(`{"kind":"archive","thread":%q,"run":%q,"due":"2020-01-01T00:00:00Z"}`, kept, keptRun))
	key := "temporary/" + gone + "/" + goneRun
	stored("after", key, fmt.Sprintf(`{"kind":"temporary","thread":%q,"run":%q,"due":%q}`, gone, goneRun, time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)))
	for _, kind := range []string{"after", "threads", "assistants", "crons"} {
		stored(kind, "0", `{"id":`)
	}
	h.shut()
	h = open(t, dir, func(c *server.Config) { c.Queue = aged{c.Queue.(*runs.Local)} })
	h.until("what is known is done", func() bool { return h.do("GET", "/threads/"+gone, nil).status == 404 })
	h.ok("GET", "/threads/"+kept, nil)
	if _, err := h.items.Get(t.Context(), store.Namespace{"__stele_server__", "after"}, "archive"); err != nil {
		t.Errorf("what a newer version is to do is not stored any more: %v", err)
	}
	if _, err := h.items.Get(t.Context(), store.Namespace{"__stele_server__", "after"}, key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was done is stored still: %v", err)
	}
	for path, want := range map[string]string{"/threads/count": "1", "/assistants/count": "7", "/runs/crons/count": "0"} {
		h.equal(h.ok("POST", path, object{}), want)
	}
}
