package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
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
	// Runs that nobody has begun did nothing, however many there are.
	later("program", false)
	for i := range 201 {
		later(fmt.Sprint("t", i), true)
	}
	if got := h.ok("GET", "/stele/nodes", nil).object(); got["runs"] != 5.0 || got["complete"] != true || len(got["nodes"].([]any)) != len(seen) {
		t.Errorf("with runs that have not begun: %v", got)
	}
	// Not all runs are looked at.
	for i := range 800 {
		later(fmt.Sprint("more ", i), true)
	}
	if got := h.ok("GET", "/stele/nodes", nil).object(); got["complete"] != false {
		t.Errorf("with more runs than are looked at: %v", got)
	}
}

// TestNodesOfDayCut: an answer that does not tell all says so.
func TestNodesOfDayCut(t *testing.T) {
	h := newHouse(t)
	begin := func(thread string, tasks bool) func() bool {
		id := must(h.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{Graph: "simple", ThreadID: thread, Tasks: tasks}, Input: object{"text": "x"}})).ID
		return func() bool { return !must(h.queue.Get(t.Context(), id)).Ended.IsZero() }
	}
	// More runs than one answer reads.
	for i := range 201 {
		ended := begin(fmt.Sprint("t", i), true)
		if i == 199 {
			h.until("200 end", func() bool {
				return ended() && must(h.queue.Count(t.Context(), runs.Query{Status: runs.Success})) == 200
			})
			if got := h.ok("GET", "/stele/nodes", nil).object(); got["runs"] != 200.0 || got["complete"] != true {
				t.Errorf("of 200 runs: %v", got)
			}
		}
		if i == 200 {
			h.until("the last one ends", ended)
		}
	}
	if got := h.ok("GET", "/stele/nodes", nil).object(); got["runs"] != 200.0 || got["complete"] != false || len(got["nodes"].([]any)) != 2 {
		t.Errorf("of 201 runs: %v", got)
	}
	// What a run does that a program submits, and that notes no tasks, is not known.
	h = newHouse(t)
	h.until("it ends", begin("own", false))
	if got := h.ok("GET", "/stele/nodes", nil).object(); got["runs"] != 0.0 || got["complete"] != false {
		t.Errorf("with a run that notes no tasks: %v", got)
	}
}

// TestNodesOfDayByClock: what counts is when a task ended, not when its run was made.
func TestNodesOfDayByClock(t *testing.T) {
	var ago atomic.Int64
	ago.Store(int64(72 * time.Hour))
	clock := func() time.Time { return time.Now().Add(-time.Duration(ago.Load())) }
	queue := must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{Clock: clock}))
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Queue = queue
		log := func(context.Context, any) (any, error) { return object{"log": []string{"x"}}, nil }
		nap := func(ctx context.Context, _ any) (any, error) { return nil, pregel.Sleep(ctx, 71*time.Hour) }
		c.Graphs["nap"] = must(builder().Node("before", log).Node("nap", nap).Node("after", log).Sequence(graph.Start, "before", "nap", "after").
			Compile(graph.Options{Name: "nap", Saver: c.Saver, Env: pregel.Environment{Now: clock}}))
	})
	submit := func(graph, thread string) func() runs.Run {
		id := must(queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{Graph: graph, ThreadID: thread, Tasks: true}, Input: object{"text": "x"}})).ID
		return func() runs.Run { return must(queue.Get(t.Context(), id)) }
	}
	old, slept := submit("simple", "old"), submit("nap", "late")
	h.until("one ends, one sleeps", func() bool { return !old().Ended.IsZero() && slept().Asleep() })
	if got := h.ok("GET", "/stele/nodes", nil).object(); got["complete"] != true || len(got["nodes"].([]any)) != 0 {
		t.Errorf("three days ago: %v", got)
	}
	ago.Store(0)
	now := submit("simple", "new") // the worker looks for what is due
	h.until("both end", func() bool { return !now().Ended.IsZero() && !slept().Ended.IsZero() })
	got := h.ok("GET", "/stele/nodes", nil).object()
	tasks := map[string]any{}
	for _, n := range got["nodes"].([]any) {
		n := n.(object)
		tasks[fmt.Sprint(n["graph"], " ", n["name"])] = n["tasks"]
	}
	if got["runs"] != 2.0 || got["complete"] != true || tasks["nap nap"] != 1.0 || tasks["nap after"] != 1.0 || tasks["nap before"] != nil || tasks["simple a"] != 1.0 {
		t.Errorf("%v", got)
	}
}
