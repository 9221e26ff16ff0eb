package server_test

import (
	"testing"

	"github.com/stele-go/stele/store"
)

// TestLastRun: a thread shows what its last run made of it, although its record is as it was: also on a
// server that was started again, on a copy, and when that run is removed.
func TestLastRun(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	id := h.thread()
	run := func(user string) {
		t.Helper()
		h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"},
			"config": object{"tags": []string{user}, "configurable": object{"user": user}}})
	}
	record := func() any {
		t.Helper()
		return must(h.items.Get(t.Context(), store.Namespace{"__stele_server__", "threads"}, id)).Value["json"]
	}
	var updated string
	check := func(user string) {
		t.Helper()
		thread := h.ok("GET", "/threads/"+id, nil).object()
		found := h.ok("POST", "/threads/search", object{}).json.([]any)
		for _, th := range []object{thread, found[len(found)-1].(object), h.ok("POST", "/threads/"+id+"/copy", nil).object()} {
			config, _ := th["config"].(object)
			tags, _ := config["tags"].([]any)
			given, _ := config["configurable"].(object)
			if len(tags) != 1 || tags[0] != user || len(given) != 1 || given["user"] != user {
				t.Errorf("the config is %v, want that of %s", config, user)
			}
		}
		if thread["status"] != "idle" || thread["updated_at"].(string) < updated {
			t.Errorf("%v, updated before %s", thread, updated)
		}
		updated = thread["updated_at"].(string)
	}
	run("ann")
	first := record()
	check("ann")
	run("bob")
	if record() != first {
		t.Error("a run changed the record of a thread that was known")
	}
	check("bob")
	h.shut()
	h = open(t, dir, nil)
	check("bob")
	last := h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)[0].(object)
	h.ok("DELETE", "/threads/"+id+"/runs/"+last["run_id"].(string), nil)
	updated = last["created_at"].(string) // nothing tells of its end
	check("bob")
	run("cy")
	check("cy")
}
