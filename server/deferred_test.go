package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	h.until("what was done is stored no more", func() bool {
		_, err := h.items.Get(t.Context(), store.Namespace{"__stele_server__", "after"}, key)
		return errors.Is(err, store.ErrNotFound)
	})
	for path, want := range map[string]string{"/threads/count": "1", "/assistants/count": "7", "/runs/crons/count": "0"} {
		h.equal(h.ok("POST", path, object{}), want)
	}
}

// TestWebhookPutOffByAClock: a webhook that failed while the clock was ahead is not put off for as long as
// that when the clock was set back before the next process.
func TestWebhookPutOffByAClock(t *testing.T) {
	called := make(chan struct{}, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called <- struct{}{} }))
	defer hook.Close()
	dir := t.TempDir()
	h := open(t, dir, nil)
	thread := h.thread()
	run := h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}).text1("run_id")
	h.ended(thread, run)
	due := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339Nano)
	text := fmt.Sprintf(`{"kind":"webhook","thread":%q,"run":%q,"url":%q,"due":%q,"tries":1}`, thread, run, hook.URL, due)
	if err := h.items.Put(t.Context(), store.Namespace{"__stele_server__", "after"}, "webhook/"+thread+"/"+run, object{"json": text}); err != nil {
		t.Fatal(err)
	}
	h.shut()
	open(t, dir, nil)
	select {
	case <-called:
	case <-time.After(patience):
		t.Error("the webhook is not called")
	}
}

// hanging is a transport that answers when it may leave, whatever the request says.
type hanging struct{ calls, leave chan struct{} }

func (h hanging) RoundTrip(*http.Request) (*http.Response, error) {
	h.calls <- struct{}{}
	<-h.leave
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestWebhooksThatHang: webhooks that do not answer hold up no crons, those behind them keep no goroutine,
// and each is called when there is a place.
func TestWebhooksThatHang(t *testing.T) {
	h := newHouse(t)
	hooks := hanging{make(chan struct{}, 100), make(chan struct{})}
	server.SetHooks(h.api, hooks)
	defer close(hooks.leave)
	const most = 16
	thread := h.thread()
	for range 2 * most {
		h.ok("POST", "/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "webhook": "http://hooks.example"})
	}
	h.until("as many hang as may", func() bool { return len(hooks.calls) >= most })
	h.ok("POST", "/threads/"+thread+"/runs/crons", object{"assistant_id": "simple", "schedule": "@every 1s", "input": object{"text": "x"}})
	h.until("the cron has made a run", func() bool { return h.ok("GET", "/threads/"+thread+"/runs", nil).text != "[]" })
	if n := len(hooks.calls); n != most {
		t.Errorf("%d webhooks are called at a time", n)
	}
	if n := server.BusyHooks(h.api); n != most {
		t.Errorf("%d webhooks are busy", n)
	}
	for n := range most {
		hooks.leave <- struct{}{}
		h.until("the next is called", func() bool { return len(hooks.calls) == most+n+1 })
	}
}

// boundless is a transport that waits for the end of each call's context, and says when that is; zero: never.
type boundless chan time.Time

func (b boundless) RoundTrip(r *http.Request) (*http.Response, error) {
	end, _ := r.Context().Deadline()
	b <- end
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestSilentWebhookEnds: the call of a webhook whose server says nothing ends when HookTimeout is over.
func TestSilentWebhookEnds(t *testing.T) {
	h := newHouse(t)
	hooks := make(boundless, 100)
	server.SetHooks(h.api, hooks)
	before := time.Now()
	h.ok("POST", "/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "webhook": "http://hooks.example"})
	if end := <-hooks; end.Before(before.Add(server.HookTimeout)) || end.After(time.Now().Add(server.HookTimeout)) {
		t.Errorf("a call after %v may wait until %v", before, end)
	}
}
