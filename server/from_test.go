package server_test

import (
	"fmt"
	"testing"

	"github.com/stele-go/stele/server"
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
	fields := object{"checkpoint_id": first}
	a := h.ok("POST", "/assistants", object{"graph_id": "simple", "context": fields}).text1("assistant_id")
	want := "a b a b"
	for what, more := range map[string]object{"nothing": {}, "the request's context": {"context": fields}, "the assistant's context": {"assistant_id": a}} {
		h.ok("POST", path+"/runs/wait", merge(good, more))
		if want += " a b"; log() != "["+want+"]" {
			t.Errorf("a run without a checkpoint, but with %s, begins at the newest: the log is %s", what, log())
		}
	}

	cron := merge(good, object{"schedule": "0 0 1 1 *"})
	for _, from := range []object{plain, nested, configured} {
		id := h.ok("POST", path+"/runs/crons", merge(cron, from)).text1("cron_id")
		h.refused(404, "POST", "/runs/crons", merge(cron, from)) // a new thread has none
		h.refused(404, "POST", "/threads/"+h.thread()+"/runs/crons", merge(cron, from))
		h.refused(404, "PATCH", "/runs/crons/"+id, object{"checkpoint": object{"checkpoint_id": someCheckpoint}})
	}
	late := h.ok("POST", path+"/runs/crons", merge(cron, plain)).text1("cron_id")
	h.rewrite("crons", late, func(r object) {
		r["next"], r["payload"].(object)["checkpoint_id"] = "2026-01-01T00:00:00Z", someCheckpoint // which is gone since
	})
	h.none(server.LookAtCron(t.Context(), h.api, late))
	made := h.ok("GET", path+"/runs", nil).json.([]any)[0].(object)["run_id"].(string)
	if a := h.ended(id, made); a.text1("status") != "error" || log() != "["+want+"]" {
		t.Errorf("%s, the log is %s", a.text, log())
	}
}
