package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// TestRestoredServerIsHeld: a server on a store that was restored calls none of its webhooks and fires none
// of its crons until it is released.
// What it is asked for itself it does.
func TestRestoredServerIsHeld(t *testing.T) {
	called := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL.Path }))
	defer hook.Close()
	root := t.TempDir()
	h := open(t, filepath.Join(root, "store"), nil)
	thread := h.thread()
	run := h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}).text1("run_id")
	h.ended(thread, run)
	kept := h.thread()
	h.ok("POST", "/threads/"+kept+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *", "input": object{"text": "x"}})
	h.shut()

	// As a server that was killed leaves them: a webhook and a cron that are due.
	d := must(disk.Open(h.dir, disk.Options{}))
	items := must(store.On(d, store.Options{}))
	text := fmt.Sprintf(`{"kind":"webhook","thread":%q,"run":%q,"url":%q,"due":"2020-01-01T00:00:00Z"}`, thread, run, hook.URL+"/old")
	h.none(items.Put(t.Context(), store.Namespace{"__stele_server__", "after"}, "webhook/"+thread+"/"+run, object{"json": text}))
	for item, err := range items.Scan(t.Context(), store.Query{Prefix: store.Namespace{"__stele_server__", "crons"}}) {
		h.none(err)
		json := item.Value["json"].(string)
		at := strings.Index(json, `"next":"`) + len(`"next":"`)
		due := json[:at] + "2020-01-01T00:00:00Z" + json[at+strings.Index(json[at:], `"`):]
		h.none(items.Put(t.Context(), item.Namespace, item.Key, object{"json": due}))
	}
	_, err := admin.BackupOpen(t.Context(), d, filepath.Join(root, "backup"), admin.BackupOptions{})
	h.none(errors.Join(err, items.Close(), d.Close()))
	_, err = admin.Restore(t.Context(), filepath.Join(root, "backup"), filepath.Join(root, "restored"), admin.BackupOptions{})
	h.none(err)

	h = open(t, filepath.Join(root, "restored"), nil)
	runsOf := func(thread string) int { return len(h.ok("GET", "/threads/"+thread+"/runs", nil).json.([]any)) }
	services := func() object { return h.ok("GET", "/ok?check_db=1", nil).object()["services"].(object) }
	if held, _ := services()["held"].(string); !strings.Contains(held, "stele release") {
		t.Errorf("/ok says %v", services())
	}
	other := h.thread()
	h.ok("POST", "/threads/"+other+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}, "webhook": hook.URL + "/new"})
	if got := <-called; got != "/new" {
		t.Errorf("the webhook %s was called", got)
	}
	if n := runsOf(kept); n != 0 {
		t.Errorf("the cron was fired: %d", n)
	}
	h.none(h.disk.Release(t.Context()))
	h.shut()

	h = open(t, filepath.Join(root, "restored"), nil)
	if services()["held"] != nil {
		t.Errorf("/ok says %v after the release", services())
	}
	if got := <-called; got != "/old" {
		t.Errorf("the webhook %s was called after the release", got)
	}
	h.until("the cron is fired", func() bool { return runsOf(kept) > 0 })
}
