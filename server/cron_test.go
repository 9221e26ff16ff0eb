package server_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

func merge(a, b object) object {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func TestCrons(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	id := h.thread()
	a := h.ok("POST", "/threads/"+id+"/runs/crons", object{"assistant_id": "simple", "schedule": "@every 1s", "input": object{"text": "x"}, "metadata": object{"of": "cron"}})
	cron := a.text1("cron_id")
	if a.text1("thread_id") != id || a.object()["on_run_completed"] != nil {
		t.Errorf("%s", a.text)
	}
	h.until("the cron has made a run", func() bool { return len(h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)) > 0 })
	run := h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)[0].(object)
	if m := run["metadata"].(object); m["cron_id"] != cron || m["of"] != "cron" {
		t.Errorf("%v", run)
	}
	h.ok("PATCH", "/runs/crons/"+cron, object{"enabled": false, "schedule": "30 2 * * *", "timezone": "Europe/Berlin"})
	h.equal(h.ok("POST", "/runs/crons/count", object{"enabled": false}), `1`)
	h.equal(h.ok("POST", "/runs/crons/search", object{"thread_id": id, "select": []string{"schedule", "timezone"}}), `[{"schedule":"30 2 * * *","timezone":"Europe/Berlin"}]`)
	h.refused(422, "PATCH", "/runs/crons/"+cron, object{"schedule": "often"})
	h.refused(422, "PATCH", "/runs/crons/"+cron, object{"timezone": "Mars"})
	// What POST refuses, as no run could be made of it, PATCH does too.
	for _, bad := range []object{{"stream_mode": "events"}, {"webhook": "ftp://hooks.example"}} {
		h.refused(422, "PATCH", "/runs/crons/"+cron, bad)
		h.refused(422, "POST", "/runs/crons", merge(object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}, bad))
	}
	if payload := h.ok("GET", "/runs/crons/"+cron, nil).object()["payload"].(object); payload["stream_mode"] != nil || payload["webhook"] != nil {
		t.Errorf("%v", payload)
	}
	h.ok("PATCH", "/runs/crons/"+cron, object{"stream_mode": "values"})
	h.refused(422, "POST", "/runs/crons", object{"assistant_id": "simple"})
	h.refused(422, "POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "TZ=UTC 1 1 1 1 1"})
	for _, zone := range []any{nil, "Europe/Berlin"} {
		body := object{"assistant_id": "simple", "schedule": "0 0 31 2 *", "timezone": zone}
		if a := h.refused(422, "POST", "/runs/crons", body); !strings.Contains(a.text, "No date is like that, so it would never run") {
			t.Errorf("%s", a.text)
		}
	}
	h.refused(404, "POST", "/runs/crons", object{"assistant_id": "nobody", "schedule": "0 0 1 1 *"})
	h.refused(404, "POST", "/threads/"+someID+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"})
	h.ok("DELETE", "/runs/crons/"+cron, nil)
	h.refused(404, "GET", "/runs/crons/"+cron, nil)

	// What is due is done by the next process, on threads that stay if they are to.
	kept := h.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "@every 2s", "input": object{"text": "x"}, "on_run_completed": "keep"})
	h.shut()
	h = open(t, dir, nil)
	h.until("the cron has made a thread", func() bool {
		found := h.ok("POST", "/threads/search", object{"status": "idle", "values": object{"text": "x"}})
		return strings.Count(found.text, `"log":["a","b"]`) > 1 // that of the first cron, and one of the second
	})
	h.ok("DELETE", "/runs/crons/"+kept.text1("cron_id"), nil)
}

// TestCronsApart: the id of a thread or an assistant that is gone may be taken by another user. A
// cron that was made before does not touch what is there now.
func TestCronsApart(t *testing.T) {
	h, bob := users(t, func(c *server.Config) { c.Rate = -1 })
	const assistant = "22222222-2222-4222-8222-222222222222"
	h.ok("POST", "/threads", object{"thread_id": someID})
	h.ok("POST", "/assistants", object{"assistant_id": assistant, "graph_id": "simple"})
	own := h.thread()
	var crons []string
	for path, assistant := range map[string]string{"/threads/" + someID + "/runs/crons": "simple", "/threads/" + own + "/runs/crons": assistant} {
		crons = append(crons, h.ok("POST", path, object{"assistant_id": assistant, "schedule": "0 0 1 1 *", "input": object{"text": "ann's"}}).text1("cron_id"))
	}
	// A thread takes its crons along, but for one that is made while it is removed.
	if err := h.items.Delete(t.Context(), store.Namespace{"__stele_server__", "threads"}, someID); err != nil {
		t.Fatal(err)
	}
	h.ok("DELETE", "/assistants/"+assistant, nil)
	bob.ok("POST", "/threads", object{"thread_id": someID})
	bob.ok("POST", "/assistants", object{"assistant_id": assistant, "graph_id": "simple", "config": object{"tags": []string{"bob's"}}})
	for _, id := range crons {
		h.ok("PATCH", "/runs/crons/"+id, object{"schedule": "@every 1s"})
	}
	made := func() int {
		return len(bob.ok("GET", "/threads/"+someID+"/runs", nil).json.([]any)) + len(h.ok("GET", "/threads/"+own+"/runs", nil).json.([]any))
	}
	for _, id := range crons {
		h.until("the cron is disabled", func() bool {
			if made() > 0 {
				t.Fatal("a cron has touched what is another user's")
			}
			return h.ok("GET", "/runs/crons/"+id, nil).object()["enabled"] == false
		})
	}
	if made() > 0 {
		t.Error("a cron has touched what is another user's")
	}
	// One whose thread and assistant are there goes on.
	id := h.ok("POST", "/threads/"+own+"/runs/crons", object{"assistant_id": "simple", "schedule": "@every 1s", "input": object{"text": "x"}}).text1("cron_id")
	h.until("the cron has made a run", func() bool { return made() > 0 })
	h.ok("DELETE", "/runs/crons/"+id, nil)
}

// TestCronsOfAThread: a thread takes its crons along, however it is removed, and no others.
func TestCronsOfAThread(t *testing.T) {
	h := newHouse(t)
	other := h.thread()
	cron := func(thread string) string {
		return h.ok("POST", "/threads/"+thread+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}).text1("cron_id")
	}
	kept := cron(other)
	gone := map[string]string{}
	for how, remove := range map[string]func(id string){
		"delete": func(id string) { h.ok("DELETE", "/threads/"+id, nil) },
		"prune": func(id string) {
			if a := h.ok("POST", "/threads/prune", object{"thread_ids": []string{id, h.thread(), id}, "strategy": "delete"}); a.text != `{"pruned_count":2}` {
				t.Error(a.text)
			}
		},
		"expire": func(id string) {
			h.ok("PATCH", "/threads/"+id, object{"ttl": object{"ttl": 1e-6}})
			h.until("it expires", func() bool { return h.do("GET", "/threads/"+id, nil).status == 404 })
		},
	} {
		id := h.thread()
		gone[how] = cron(id)
		remove(id)
	}
	for how, id := range gone {
		if a := h.do("GET", "/runs/crons/"+id, nil); a.status != 404 {
			t.Errorf("%s: %s", how, a.text)
		}
	}
	h.ok("GET", "/runs/crons/"+kept, nil)
}

// TestCronDueAsItsThreadGoes: a cron that is being fired while its thread is removed goes too.
func TestCronDueAsItsThreadGoes(t *testing.T) {
	dir, asked, goOn := t.TempDir(), make(chan struct{}), make(chan struct{})
	var once sync.Once
	config := func(c *server.Config) {
		c.Auth = server.APIKeys(map[string]*server.User{"key": {Identity: "ann"}})
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if a.Value["cron_id"] != nil && a.Resource == "assistants" {
				once.Do(func() { close(asked); <-goOn })
			}
			return server.OwnThings(ctx, u, a)
		}
	}
	h := open(t, dir, config)
	h.key = "key"
	id := h.thread()
	cron := h.ok("POST", "/threads/"+id+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}).text1("cron_id")
	const missed = "2026-01-01T00:00:00Z"
	h.rewrite("crons", cron, func(r object) { r["next"] = missed })
	h.rewrite("after", "cron//"+cron, func(r object) { r["due"] = missed })
	h.shut()
	h = open(t, dir, config)
	h.key = "key"
	<-asked
	time.AfterFunc(300*time.Millisecond, func() { close(goOn) }) // the removal waits for it
	h.ok("DELETE", "/threads/"+id, nil)
	h.ok("POST", "/threads", object{"thread_id": id})
	h.refused(404, "PATCH", "/runs/crons/"+cron, object{"enabled": false}) // when it has been fired
	h.equal(h.ok("GET", "/threads/"+id+"/runs", nil), "[]")
}

// TestCronsAskAgain: each time that a cron is due its user must still be allowed to run it, also if it
// makes its threads. One that is refused is disabled; while nobody knows, it waits.
func TestCronsAskAgain(t *testing.T) {
	var refusal atomic.Pointer[error]
	var asked atomic.Int32
	h, _ := users(t, func(c *server.Config) {
		c.Rate = -1
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if err := refusal.Load(); err != nil && a.Action == "create_run" && a.Value["cron_id"] != nil {
				asked.Add(1)
				return server.Grant{}, *err
			}
			return server.OwnThings(ctx, u, a)
		}
	})
	enabled := func(id string) bool { return h.ok("GET", "/runs/crons/"+id, nil).object()["enabled"] == true }
	runsMade := func() (n int) {
		for r, err := range h.queue.List(t.Context(), runs.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Metadata["cron_id"] != nil {
				n++
			}
		}
		return n
	}
	made := func(path string) string {
		return h.ok("POST", path, object{"assistant_id": "simple", "schedule": "@every 1s", "input": object{"text": "x"}, "on_run_completed": "keep"}).text1("cron_id")
	}
	refused := error(&server.AuthError{Detail: "no more"})
	refusal.Store(&refused)
	for _, path := range []string{"/runs/crons", "/threads/" + h.thread() + "/runs/crons"} {
		id := made(path)
		h.until("the cron is disabled", func() bool {
			if runsMade() > 0 {
				t.Fatalf("%s: a cron whose user may not run it has run", path)
			}
			return !enabled(id)
		})
	}

	unknown := fmt.Errorf("%w: no connection", server.ErrAuthUnavailable)
	asked.Store(0)
	refusal.Store(&unknown)
	id := made("/runs/crons")
	h.until("it is asked whether the cron may run", func() bool { return asked.Load() > 0 })
	refusal.Store(nil)
	h.ok("PATCH", "/runs/crons/"+id, object{"schedule": "@every 1s"}) // it is not looked at meanwhile
	if !enabled(id) {
		t.Fatal("a cron is disabled though nobody has refused it")
	}
	h.until("the cron runs when that is known", func() bool { return runsMade() > 0 })
	h.ok("DELETE", "/runs/crons/"+id, nil)
}
