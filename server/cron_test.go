package server_test

import (
	"strings"
	"testing"
)

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
	h.refused(422, "POST", "/runs/crons", object{"assistant_id": "simple"})
	h.refused(422, "POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "TZ=UTC 1 1 1 1 1"})
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
