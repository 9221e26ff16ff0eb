package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
)

// TestNodesOfDay: what nodes did in the runs of the last day is counted by graph and node, over all runs, with the
// run in which one failed last.
func TestNodesOfDay(t *testing.T) {
	calls := 0
	h := open(t, t.TempDir(), func(c *server.Config) {
		flaky := func(context.Context, any) (any, error) {
			if calls++; calls%3 > 0 {
				return nil, errors.New("not yet")
			}
			return object{"log": []string{"flaky"}}, nil
		}
		retry := []pregel.RetryPolicy{{InitialInterval: time.Nanosecond, NoJitter: true, MaxAttempts: 5, RetryOn: func(error) bool { return true }}}
		c.Graphs["flaky"] = must(builder().Node("a", flaky, graph.NodeOptions{Retry: retry}).Sequence(graph.Start, "a").Compile(graph.Options{Name: "flaky", Saver: c.Saver}))
	})
	run := func(name string) string {
		id := h.thread()
		h.do("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": name, "input": object{"text": "x"}})
		return h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)[0].(object)["run_id"].(string)
	}
	run("error")
	for range 2 {
		run("flaky")
	}
	run("asker")
	failed := run("error")
	got := h.ok("GET", "/stele/nodes", nil).object()
	if got["runs"] != 5.0 || got["complete"] != true {
		t.Errorf("%v runs, complete %v", got["runs"], got["complete"])
	}
	seen := map[string]object{}
	for _, n := range got["nodes"].([]any) {
		n := n.(object)
		seen[fmt.Sprint(n["graph"], " ", n["name"])] = n
		if n["longest_ns"].(float64) > n["took_ns"].(float64) || n["took_ns"].(float64) < 0 {
			t.Errorf("times of %v", n)
		}
	}
	for name, want := range map[string][]float64{"flaky a": {2, 0, 0, 4}, "error a": {2, 0, 0, 0}, "error boom": {2, 2, 0, 0}, "asker a": {1, 0, 0, 0}, "asker ask": {1, 0, 1, 0}} {
		n := seen[name]
		if n == nil {
			t.Errorf("%s is not there", name)
			continue
		}
		for i, field := range []string{"tasks", "failed", "waiting", "retries"} {
			if n[field] != want[i] {
				t.Errorf("%s: %s is %v, want %v", name, field, n[field], want[i])
			}
		}
	}
	if n := seen["error boom"]; n == nil || n["run_id"] != failed {
		t.Errorf("the last failure was in %v, not %s", n, failed)
	}
	later := func(thread string, tasks bool) {
		must(h.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{Graph: "simple", ThreadID: thread, Tasks: tasks}, After: time.Now().Add(time.Hour)}))
	}
	// What a run does that a program submits, and that notes no tasks, is not known.
	later("program", false)
	if got := h.ok("GET", "/stele/nodes", nil).object(); got["runs"] != 5.0 || got["complete"] != false {
		t.Errorf("with a run that notes no tasks: %v", got)
	}
	// More runs than one answer reads.
	for i := range 201 {
		later(fmt.Sprint("t", i), true)
	}
	if got := h.ok("GET", "/stele/nodes", nil).object(); got["runs"] != 200.0 || got["complete"] != false || len(got["nodes"].([]any)) != 0 {
		t.Errorf("of 205 runs: %v", got)
	}
}
