package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// TestLastRun: a thread shows the config of its last run, and a run with the config of the one before
// leaves the record as it is: also on a server that was started again, on a copy, and when that run is
// removed.
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
	check("ann")
	run("bob")
	known := record()
	check("bob")
	run("bob")
	if record() != known {
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

// TestSweptConfig: the config of a thread stays that of its last run when a program sweeps the queue.
func TestSweptConfig(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	for _, user := range []string{"ann", "bob"} {
		h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}, "config": object{"configurable": object{"user": user}}})
	}
	if n := must(h.queue.Sweep(t.Context(), time.Now().Add(time.Hour))); n != 2 {
		t.Errorf("%d runs were swept", n)
	}
	if config := h.ok("GET", "/threads/"+id, nil).object()["config"].(object); config["configurable"].(object)["user"] != "bob" {
		t.Errorf("the config is %v", config)
	}
}

// TestConfigIsNotShared: what a node changes in the config of its run does not show in that of the thread.
func TestConfigIsNotShared(t *testing.T) {
	changed, goOn := make(chan struct{}), make(chan struct{})
	h := open(t, t.TempDir(), func(c *server.Config) {
		node := func(ctx context.Context, _ any) (any, error) {
			r, _ := pregel.Task(ctx)
			r.Configurable["deep"].(object)["a"] = "changed"
			changed <- struct{}{}
			<-goOn
			return nil, nil
		}
		c.Graphs["changes"] = must(builder().Node("n", node).Edge(graph.Start, "n").Compile(graph.Options{Name: "changes", Saver: c.Saver}))
	})
	id := h.thread()
	for _, given := range []string{"b", "c", "c"} {
		run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "changes", "input": object{"text": "x"},
			"config": object{"configurable": object{"deep": object{"a": given}}}}).text1("run_id")
		<-changed
		if got := h.ok("GET", "/threads/"+id, nil).object()["config"].(object)["configurable"].(object)["deep"].(object)["a"]; got != given {
			t.Errorf("the config has %v, want %s", got, given)
		}
		goOn <- struct{}{}
		h.ok("GET", "/threads/"+id+"/runs/"+run+"/join", nil)
	}
}

// TestEraseBesideDamage: a run that cannot be decoded is erased although its thread's record cannot be
// decoded either.
func TestEraseBesideDamage(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	id := h.thread()
	for range 2 {
		h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
	}
	run := h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)[0].(object)["run_id"].(string)
	for ns, key := range map[string]string{"runs": run, "threads": id} {
		space := map[string]string{"runs": "stele.runs", "threads": "__stele_server__"}[ns]
		must(h.items.Batch(t.Context(), store.PutOp{Namespace: store.Namespace{space, ns}, Key: key, Value: object{"json": "{"}, TTL: -1, NoIndex: true}))
	}
	h.shut()
	h = open(t, dir, nil)
	h.ok("DELETE", "/stele/runs/"+run, nil)
	h.refused(404, "DELETE", "/stele/runs/"+run, nil)
}

// TestLastRunsEnd: a thread shows how its last run ended, although its record names an earlier one.
func TestLastRunsEnd(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	run := object{"assistant_id": "slow", "input": object{"text": "x"}}
	h.gate <- struct{}{}
	h.gate <- struct{}{}
	h.ok("POST", "/threads/"+id+"/runs/wait", run)
	second := "/threads/" + id + "/runs/" + h.ok("POST", "/threads/"+id+"/runs", run).text1("run_id")
	h.until("the run has begun on the thread", func() bool { // one that is cancelled earlier leaves the thread as it was
		next, _ := h.ok("GET", "/threads/"+id+"/state", nil).object()["next"].([]any)
		return len(next) > 0
	})
	h.ok("POST", second+"/cancel?wait=true", nil)
	if th := h.ok("GET", "/threads/"+id, nil).object(); th["error"] == nil {
		t.Errorf("%v", th)
	}
}
