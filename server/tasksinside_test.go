package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
)

// TestTasksInside: the tasks of a graph that a node runs are told with the path to them, whether or not the client streams
// graphs inside, and what models took with each task; so are the nodes of the last day. The client sees nothing of that.
func TestTasksInside(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		inner := must(builder().Node("b", func(ctx context.Context, _ any) (any, error) {
			answer := message.AI("yes")
			answer.Usage, answer.ResponseMetadata = &message.Usage{InputTokens: 3, OutputTokens: 4}, map[string]any{"model": "small"}
			message.Metered(ctx, answer)
			return object{"log": []string{"b"}}, pregel.Emit(ctx, "inside")
		}).Sequence(graph.Start, "b").Compile(graph.Options{Name: "inner", Saver: c.Saver}))
		c.Graphs["outer"] = must(builder().Node("a", func(ctx context.Context, _ any) (any, error) {
			for range 2 {
				if _, err := inner.Invoke(ctx, pregel.Inside(), object{"text": "x"}); err != nil {
					return nil, err
				}
			}
			return object{"log": []string{"a"}}, nil
		}).Sequence(graph.Start, "a").Compile(graph.Options{Name: "outer", Saver: c.Saver}))
	})
	for _, subgraphs := range []bool{false, true} {
		id := h.thread()
		frames := h.stream("POST", "/threads/"+id+"/runs/stream", object{"assistant_id": "outer", "input": object{"text": "x"}, "stream_mode": []string{"custom", "tasks"}, "stream_subgraphs": subgraphs})
		if want := map[bool]int{false: 3, true: 9}[subgraphs]; len(frames) != want { // metadata, and the tasks; inside the tasks and the event
			t.Errorf("subgraphs %t: the client sees %d frames, want %d: %v", subgraphs, len(frames), want, frames)
		}
		run := h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)[0].(object)["run_id"].(string)
		var told []string
		for _, task := range h.ok("GET", "/stele/threads/"+id+"/runs/"+run+"/tasks", nil).object()["tasks"].([]any) {
			m := task.(object)
			told = append(told, fmt.Sprint(m["name"], " ", m["status"], " ", m["uses"]))
		}
		uses := "map[input:3 model:small output:4 total:7]"
		if want := []string{"a ended [" + uses + " " + uses + "]", "b ended [" + uses + "]", "b ended [" + uses + "]"}; fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("subgraphs %t: told %q, want %q", subgraphs, told, want)
		}
	}
	tasks := map[string]any{}
	for _, n := range h.ok("GET", "/stele/nodes", nil).object()["nodes"].([]any) {
		tasks[n.(object)["name"].(string)] = n.(object)["tasks"]
	}
	if tasks["a"] != 2.0 || tasks["a:b"] != 4.0 || len(tasks) != 2 {
		t.Errorf("the nodes of the day are %v", tasks)
	}
}

// TestUsesOfAttempts: what models took in an attempt that failed counts as well, and in a task of a graph inside that had ended before
// its attempt was cut off.
func TestUsesOfAttempts(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers = -1 })
	id := h.thread()
	run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}).text1("run_id")
	claim, _, err := h.queue.Claim(t.Context(), "w", []string{"simple"})
	if err != nil || claim == nil || claim.ID != run {
		t.Fatal(claim, err)
	}
	var events []runs.Event
	inside := must(json.Marshal(runs.TaskNote{ID: "2", Name: "m", Ended: true, Uses: []runs.Use{{Model: "inner", Total: 5}}}))
	events = append(events, runs.Event{Kind: runs.KindTask, Namespace: []string{"n:1", "1"}, Data: must(h.queue.Serializer().Encode(string(inside)))})
	for _, n := range []runs.TaskNote{{}, {}, {Ended: true, Failed: true, Uses: []runs.Use{{Model: "small", Total: 1}}}, {}, {Ended: true, Uses: []runs.Use{{Model: "large", Total: 2}}}} {
		n.ID, n.Name = "1", "n"
		events = append(events, runs.Event{Kind: runs.KindTask, Data: must(h.queue.Serializer().Encode(string(must(json.Marshal(n)))))})
	}
	if _, err := h.queue.Append(t.Context(), *claim, events); err != nil {
		t.Fatal(err)
	}
	got := h.ok("GET", "/stele/threads/"+id+"/runs/"+run+"/tasks", nil).object()["tasks"].([]any)[0].(object)
	if got["status"] != "ended" || got["starts"] != 3.0 || got["ends"] != 2.0 || fmt.Sprint(got["uses"]) != "[map[input:0 model:small output:0 total:1] map[input:0 model:large output:0 total:2] map[input:0 model:inner output:0 total:5]]" {
		t.Errorf("told %v", got)
	}
}

// TestTasksSince: who read the tasks of a run that is under way is told what is new alone, also of tasks around, whose tokens are then
// more; and what was told in parts is what is told at once.
func TestTasksSince(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers = -1 })
	id := h.thread()
	run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}).text1("run_id")
	claim, _, err := h.queue.Claim(t.Context(), "w", []string{"simple"})
	if err != nil || claim == nil || claim.ID != run {
		t.Fatal(claim, err)
	}
	note := func(n runs.TaskNote, namespace ...string) runs.Event {
		n.Name = "node"
		return runs.Event{Kind: runs.KindTask, Namespace: namespace, Data: must(h.queue.Serializer().Encode(string(must(json.Marshal(n)))))}
	}
	after := any(0)
	var told []string
	read := func(after any) object {
		return h.ok("GET", fmt.Sprintf("/stele/threads/%s/runs/%s/tasks?after=%v", id, run, after), nil).object()
	}
	for _, events := range [][]runs.Event{
		{note(runs.TaskNote{ID: "a"}), note(runs.TaskNote{ID: "b"}), note(runs.TaskNote{ID: "b", Ended: true})},
		{note(runs.TaskNote{ID: "c"}, "node:a", "1")},
		{note(runs.TaskNote{ID: "c", Ended: true, Uses: []runs.Use{{ID: "one", Total: 5}}}, "node:a", "1")},
		{note(runs.TaskNote{ID: "a", Ended: true, Uses: []runs.Use{{ID: "two", Total: 7}}})},
		nil,
	} {
		if events != nil {
			must(h.queue.Append(t.Context(), *claim, events))
		}
		got := read(after)
		if after = got["after"]; got["next"] != nil {
			t.Errorf("next is %v", got["next"])
		}
		var line []string
		for _, task := range got["tasks"].([]any) {
			m := task.(object)
			uses, _ := m["uses"].([]any)
			line = append(line, fmt.Sprint(m["id"], " ", m["status"], " ", m["starts"], " ", m["ends"], " ", len(uses), " ", m["namespace"]))
		}
		told = append(told, fmt.Sprint(line))
	}
	want := []string{"[a begun 1 0 0 [] b ended 1 1 0 []]", "[a  0 0 0 [] c begun 1 0 0 [node:a 1]]", "[a  0 0 1 [] c ended 0 1 1 [node:a 1]]", "[a ended 0 1 1 []]", "[]"}
	if fmt.Sprintf("%q", told) != fmt.Sprintf("%q", want) {
		t.Errorf("told\n%q, want\n%q", told, want)
	}
	if a := read(0)["tasks"].([]any)[0].(object); a["status"] != "ended" || a["starts"] != 1.0 || a["ends"] != 1.0 || len(a["uses"].([]any)) != 2 {
		t.Errorf("at once %v", a)
	}
}
