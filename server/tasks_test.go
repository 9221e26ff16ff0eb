package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
)

// TestTasksOfRun: who sees a run sees of each of its tasks when it began and ended, how often its node
// was called, and what it was called with. The streams of the run tell nothing of that.
func TestTasksOfRun(t *testing.T) {
	calls := 0
	h := open(t, t.TempDir(), func(c *server.Config) {
		flaky := func(context.Context, any) (any, error) {
			if calls++; calls < 3 {
				return nil, errors.New("not yet")
			}
			return object{"log": []string{"flaky"}}, nil
		}
		retry := []pregel.RetryPolicy{{InitialInterval: time.Nanosecond, NoJitter: true, MaxAttempts: 5, RetryOn: func(error) bool { return true }}}
		ask := func(ctx context.Context, _ any) (any, error) {
			answer, err := pregel.Ask(ctx, "ok?")
			return object{"log": []string{fmt.Sprint(answer)}}, err
		}
		c.Graphs["flaky"] = must(builder().Node("a", flaky, graph.NodeOptions{Retry: retry}).Node("ask", ask).Sequence(graph.Start, "a", "ask").
			Compile(graph.Options{Name: "flaky", Saver: c.Saver}))
		length := pregel.NewTask("length", func(_ context.Context, s string) (int, error) { return len(s), nil })
		count := func(ctx context.Context, in any) (any, error) {
			if _, err := length.Call(ctx, "x"); err != nil {
				return nil, err
			}
			return ask(ctx, in)
		}
		c.Graphs["beside"] = must(builder().Node("a", says("a")).Node("ask", count).Edge(graph.Start, "a").Edge(graph.Start, "ask").
			Compile(graph.Options{Name: "beside", Saver: c.Saver}))
		c.Graphs["fails"] = must(builder().Node("boom", func(context.Context, any) (any, error) { return nil, errors.New("boom") }).Sequence(graph.Start, "boom").
			Compile(graph.Options{Name: "fails", Saver: c.Saver}))
	})
	if info := h.ok("GET", "/info", nil).sub("stele").object(); info["tasks"] != true || info["task_inputs"] != true {
		t.Errorf("info: %v", info)
	}
	tasks := func(thread string, n int) []any {
		t.Helper()
		run := h.ok("GET", "/threads/"+thread+"/runs", nil).json.([]any)[n].(object)
		got := h.ok("GET", "/stele/threads/"+thread+"/runs/"+run["run_id"].(string)+"/tasks", nil).object()
		if got["recorded"] != true {
			t.Errorf("recorded: %v", got)
		}
		return got["tasks"].([]any)
	}
	is := func(task any, name, status string, starts, attempts float64) {
		t.Helper()
		m := task.(object)
		if _, err := time.Parse(time.RFC3339Nano, m["began_at"].(string)); err != nil || m["took_ns"].(float64) <= 0 {
			t.Errorf("times: %v", m)
		}
		if m["name"] != name || m["status"] != status || m["starts"] != starts || m["attempts"] != attempts {
			t.Errorf("task %v, want %s %s, %v starts, %v attempts", m, name, status, starts, attempts)
		}
	}
	id := h.thread()
	frames := h.stream("POST", "/threads/"+id+"/runs/stream", object{"assistant_id": "flaky", "input": object{"text": "hi"}, "stream_mode": "updates"})
	if len(frames) != 3 { // metadata, a's update, and the question
		t.Errorf("the client sees %v", frames)
	}
	got := tasks(id, 0)
	if len(got) != 2 {
		t.Fatalf("%v", got)
	}
	is(got[0], "a", "ended", 1, 3)
	is(got[1], "ask", "waiting", 1, 1)
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "flaky", "command": object{"resume": "yes"}})
	answered := tasks(id, 0)
	if len(answered) != 1 || answered[0].(object)["id"] != got[1].(object)["id"] {
		t.Fatalf("%v", answered)
	}
	is(answered[0], "ask", "ended", 1, 1)

	// What was executed beside the question is not again when it is answered.
	id = h.thread()
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "beside", "input": object{"text": "hi"}})
	if got := tasks(id, 0); len(got) != 3 {
		t.Errorf("%v", got)
	}
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "beside", "command": object{"resume": "yes"}})
	if got := tasks(id, 0); len(got) != 1 {
		t.Errorf("the answer has executed %v", got)
	} else {
		is(got[0], "ask", "ended", 1, 1)
	}

	id = h.thread()
	h.request(t.Context(), "POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "fails", "input": object{"text": "hi"}})
	is(tasks(id, 0)[0], "boom", "error", 1, 1)
	h.refused(404, "GET", "/stele/threads/"+id+"/runs/11111111-1111-4111-8111-111111111111/tasks", nil)

	// What a task is called with is told when it is asked for.
	large := strings.Repeat("x", 300_000)
	id = h.thread()
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "asker", "input": object{"text": large}})
	st := h.ok("GET", "/threads/"+id+"/state", nil).object()
	task := st["tasks"].([]any)[0].(object)
	if _, told := task["stele_input"]; told {
		t.Error("the input is told to somebody who did not ask")
	}
	one := h.ok("GET", "/threads/"+id+"/state?stele_values=task:"+task["id"].(string), nil)
	h.equal(one.sub("values"), `{}`)
	h.equal(one.sub("tasks"), `[{"id":"`+task["id"].(string)+`","name":"ask","stele_input":{"log":["a"],"text":{"$stele":"large","bytes":300002}}}]`)
	h.equal(h.ok("GET", "/threads/"+id+"/state?stele_values=task:none", nil).sub("tasks"), `[]`)
}

// TestManyTasks: the tasks of a run with very many events are told in several answers.
func TestManyTasks(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers = -1 })
	id := h.thread()
	run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}).text1("run_id")
	claim, _, err := h.queue.Claim(t.Context(), "w", []string{"simple"})
	if err != nil || claim == nil || claim.ID != run {
		t.Fatal(claim, err)
	}
	note := func(n runs.TaskNote) runs.Event {
		return runs.Event{Kind: runs.KindTask, Data: must(h.queue.Serializer().Encode(string(must(json.Marshal(n)))))}
	}
	const many = 6000
	var events []runs.Event
	for i := range many {
		events = append(events, note(runs.TaskNote{ID: fmt.Sprint(i), Name: "n"}), note(runs.TaskNote{ID: fmt.Sprint(i), Name: "n", Ended: true, Attempts: 1, Took: 1}))
	}
	if _, err := h.queue.Append(t.Context(), *claim, events); err != nil {
		t.Fatal(err)
	}
	var told []string
	answers := 0
	for after := any(0); after != nil; answers++ {
		got := h.ok("GET", fmt.Sprintf("/stele/threads/%s/runs/%s/tasks?after=%v", id, run, after), nil).object()
		for _, task := range got["tasks"].([]any) {
			if m := task.(object); m["status"] != "ended" || m["starts"] != 1.0 {
				t.Fatalf("%v", m)
			}
			told = append(told, task.(object)["id"].(string))
		}
		after = got["next"]
	}
	if answers != 2 || len(told) != many || told[0] != "0" || told[many-1] != fmt.Sprint(many-1) {
		t.Errorf("%d tasks in %d answers", len(told), answers)
	}
	h.refused(422, "GET", "/stele/threads/"+id+"/runs/"+run+"/tasks?after=x", nil)
}
