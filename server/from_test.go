package server_test

import (
	"fmt"
	"testing"
)

// TestRunsFromACheckpoint: a run begins at the checkpoint that its request names, in whichever place and by whichever
// operation.
func TestRunsFromACheckpoint(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	path, good := "/threads/"+id, object{"assistant_id": "simple", "input": object{"text": "x"}}
	h.ok("POST", path+"/runs/wait", good)
	first := h.ok("GET", path+"/state", nil).text1("checkpoint_id")
	h.ok("POST", path+"/runs/wait", good)
	log := func() string { return fmt.Sprint(h.ok("GET", path+"/state", nil).object()["values"].(object)["log"]) }
	command := func(method string, params object) func(object) {
		return func(from object) {
			a := h.command(id, method, merge(params, from))
			run, _ := a.object()["result"].(object)["run_id"].(string)
			h.ended(id, run)
		}
	}
	post := func(how string) func(object) {
		return func(from object) { h.ok("POST", path+"/runs"+how, merge(good, from)) }
	}
	queued := func(from object) { h.ended(id, h.ok("POST", path+"/runs", merge(good, from)).text1("run_id")) }
	plain, nested := object{"checkpoint_id": first}, object{"checkpoint": object{"checkpoint_id": first}}
	configured := object{"config": object{"configurable": object{"checkpoint_id": first}}}
	for _, tt := range []struct {
		name  string
		run   func(from object)
		names []object
	}{
		{"run", queued, []object{plain, nested, configured}},
		{"wait", post("/wait"), []object{plain, nested, configured}},
		{"stream", post("/stream"), []object{plain, nested, configured}},
		{"run.start", command("run.start", good), []object{configured}},
		{"state.fork", command("state.fork", object{"input": good["input"]}), []object{plain}},
	} {
		for _, from := range tt.names {
			tt.run(from)
			if got := log(); got != "[a b a b]" {
				t.Errorf("%s from %v: the log is %s", tt.name, from, got)
			}
		}
	}
	h.ok("POST", path+"/runs/wait", good)
	if got := log(); got != "[a b a b a b]" {
		t.Errorf("a run without a checkpoint begins at the newest: the log is %s", got)
	}
}
