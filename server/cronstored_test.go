package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/store"
)

// rewrite changes a stored record of the server's.
func (h *house) rewrite(kind, key string, change func(object)) {
	h.Helper()
	ns := store.Namespace{"__stele_server__", kind}
	item := must(h.items.Get(h.Context(), ns, key))
	var record object
	if err := json.Unmarshal([]byte(item.Value["json"].(string)), &record); err != nil {
		h.Fatal(err)
	}
	change(record)
	must(h.items.Batch(h.Context(), store.PutOp{Namespace: ns, Key: key, Value: object{"json": string(must(json.Marshal(record)))}}))
}

// TestCronCatchesUp: a cron that a clock which was far ahead has put off, and one whose times passed while
// no server lived, go on when a server begins. One run makes up for what was missed.
func TestCronCatchesUp(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	const ahead, missed = "2126-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
	threads := map[string]string{}
	for next, schedule := range map[string]string{ahead: "@every 1s", missed: "0 0 1 1 *"} {
		threads[next] = h.thread()
		cron := h.ok("POST", "/threads/"+threads[next]+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *", "input": object{"text": "x"}}).text1("cron_id")
		h.rewrite("crons", cron, func(r object) { r["next"], r["schedule"] = next, schedule })
		h.rewrite("after", "cron//"+cron, func(r object) { r["due"] = next })
	}
	h.shut()
	h = open(t, dir, nil)
	made := func(next string) int { return len(h.ok("GET", "/threads/"+threads[next]+"/runs", nil).json.([]any)) }
	h.until("crons have made runs", func() bool {
		if made(missed) > 1 {
			t.Fatal("several runs make up for what was missed")
		}
		return made(ahead) > 1 && made(missed) == 1
	})
}

// TestUndecodedCron: a cron that cannot be decoded hides no others, and whoever may see all crons can
// delete it. It is nobody's whose things alone are shown. Operators delete a schedule of the queue.
func TestUndecodedCron(t *testing.T) {
	h := newHouse(t)
	made := func(h *house) string {
		h.Helper()
		id := h.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}).text1("cron_id")
		h.rewrite("crons", id, func(r object) { r["created"] = "long ago" })
		return id
	}
	id := made(h)
	other := h.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}).text1("cron_id")
	for _, method := range []string{"GET", "PATCH"} {
		var in any
		if method == "PATCH" {
			in = object{"enabled": false}
		}
		if a := h.refused(500, method, "/runs/crons/"+id, in); !strings.Contains(a.text, "It can be deleted") {
			t.Errorf("%s: %s", method, a.text)
		}
	}
	if list := h.ok("POST", "/runs/crons/search", object{}).json.([]any); len(list) != 1 || list[0].(object)["cron_id"] != other {
		t.Errorf("%v", list)
	}
	h.ok("DELETE", "/runs/crons/"+id, nil)
	h.refused(404, "GET", "/runs/crons/"+id, nil)
	h.refused(404, "DELETE", "/runs/crons/"+id, nil)
	h.ok("GET", "/runs/crons/"+other, nil)

	must(h.queue.PutSchedule(t.Context(), runs.Schedule{ID: "a/b", Cron: "@daily", Spec: runs.Spec{Graph: "simple"}}))
	must(h.items.Batch(t.Context(), store.PutOp{Namespace: store.Namespace{"stele.runs", "schedules"}, Key: "bad one", Value: object{"json": "{"}}))
	h.shut()
	h = open(t, h.dir, nil)
	for n, id := range []string{"bad%20one", "a/b"} {
		if list := h.ok("GET", "/stele/schedules", nil).object()["schedules"].([]any); len(list) != 2-n {
			t.Errorf("%v", list)
		}
		h.ok("DELETE", "/stele/schedules/"+id, nil)
		h.refused(404, "DELETE", "/stele/schedules/"+id, nil)
	}

	ann, bob := users(t, nil)
	id = made(ann)
	for _, of := range []*house{ann, bob} {
		of.refused(404, "GET", "/runs/crons/"+id, nil)
		of.refused(404, "DELETE", "/runs/crons/"+id, nil)
	}
	must(ann.items.Get(t.Context(), store.Namespace{"__stele_server__", "crons"}, id))
}
