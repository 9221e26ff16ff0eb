package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/server"
)

// fans is a graph in which the tasks of a superstep, and of two packets, write, ask or fail.
func fans(c *server.Config) *pregel.Graph {
	write := func(v any) pregel.Func { return func(context.Context, any) (any, error) { return v, nil } }
	return must(graph.New(graph.Key("text", channel.LastValue[string]()), graph.Key("log", channel.Reduce(channel.Append[string])), graph.Key("any", channel.LastValue[any]())).
		Node("a", write(object{"log": []string{"a"}})).
		Node("ask", func(ctx context.Context, _ any) (any, error) {
			answer, err := pregel.Ask(ctx, object{"q": "ok?"})
			return object{"log": []string{fmt.Sprint(answer)}}, err
		}).
		Node("deep", write(object{"any": object{"n": int64(1)<<62 + 1, "long": strings.Repeat("é", 1000), "list": slices.Repeat([]any{1}, 100)}})).
		Node("part", func(_ context.Context, in any) (any, error) { return object{"log": []string{fmt.Sprint(in)}}, nil }).
		Node("boom", func(context.Context, any) (any, error) { return nil, errors.New("boom") }).
		Edge(graph.Start, "a").Edge(graph.Start, "ask").Edge("a", "deep").
		Conditional("deep", "parts", func(context.Context, any) (any, error) {
			return []any{pregel.Send{Node: "part", Arg: 1}, pregel.Send{Node: "part", Arg: 2}}, nil
		}, "part").
		Edge("part", "boom").
		Compile(graph.Options{Name: "fans", Saver: c.Saver}))
}

// TestListedTasks: a history without values tells of the tasks what the whole history does, of each that wrote
// something: its name, writes, questions and error, with what is long cut; the answers that it was given, and where it led.
func TestListedTasks(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Graphs["fans"] = fans(c) })
	id := h.thread()
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "fans", "input": object{"text": "x"}})
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "fans", "command": object{"resume": object{"yes": true}}})
	list := func(more object) (tasks []object) {
		for _, st := range h.ok("POST", "/threads/"+id+"/history", more).json.([]any) {
			for _, task := range st.(object)["tasks"].([]any) {
				tasks = append(tasks, task.(object))
			}
		}
		return tasks
	}
	leads := map[string]string{"__start__": "[a ask]", "a": "[deep]", "ask": "[]", "deep": "[part]", "part": "[boom]", "boom": "[]"}
	whole, listed, seen := list(object{"limit": 100}), map[string]object{}, []string{}
	for _, task := range list(object{"limit": 100, "values": false}) {
		listed[task["id"].(string)] = task
	}
	for _, want := range whole {
		got, name := listed[want["id"].(string)], want["name"].(string)
		seen = append(seen, name)
		if got == nil || got["name"] != name {
			t.Fatalf("task %s is listed as %v", name, got)
		}
		if fmt.Sprint(got["error"]) != fmt.Sprint(want["error"]) {
			t.Errorf("%s: error %v, want %v", name, got["error"], want["error"])
		}
		if name == "ask" && fmt.Sprint(got["stele_answers"]) != "[map[yes:true]]" || name != "ask" && got["stele_answers"] != nil {
			t.Errorf("%s was answered %v", name, got["stele_answers"])
		}
		if to := leads[name]; fmt.Sprint(got["stele_leads"]) != to {
			t.Errorf("%s led to %v, want %s", name, got["stele_leads"], to)
		}
		if name != "deep" && fmt.Sprint(got["result"]) != fmt.Sprint(want["result"]) && want["error"] == nil {
			t.Errorf("%s wrote %v, want %v", name, got["result"], want["result"])
		}
	}
	slices.Sort(seen)
	if want := "[__start__ a ask boom deep part part]"; fmt.Sprint(seen) != want || len(listed) != len(whole) {
		t.Errorf("tasks %v, listed %v, want %s", seen, listed, want)
	}
	text := h.ok("POST", "/threads/"+id+"/history", object{"limit": 100, "values": false}).text
	var long struct {
		Tasks []struct{ Result struct{ Any map[string]any } }
	}
	found := false
	var states []json.RawMessage
	if err := json.Unmarshal([]byte(text), &states); err != nil {
		t.Fatal(err)
	}
	for _, st := range states {
		if err := json.Unmarshal(st, &long); err != nil {
			t.Fatal(err)
		}
		for _, task := range long.Tasks {
			if cut, ok := task.Result.Any["long"].(string); ok {
				found = utf8.RuneCountInString(cut) == 160 && len(task.Result.Any["list"].([]any)) == 24
			}
		}
	}
	if !found || !strings.Contains(text, "4611686018427387905") {
		t.Errorf("the long values are listed as %s", text)
	}
}

// TestAnsweredBy: the run that answers, and the checkpoints it makes, say who answered; other runs do not.
func TestAnsweredBy(t *testing.T) {
	ann, bob := users(t, func(c *server.Config) {
		c.Auth.Authorize = func(context.Context, *server.User, server.Access) (server.Grant, error) { return server.Grant{}, nil }
	})
	id := ann.thread()
	ann.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "asker", "input": object{"text": "x"}})
	bob.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "asker", "command": object{"resume": "yes"}, "metadata": object{"stele_answered_by": "ann"}})
	var by []any
	for _, st := range ann.ok("POST", "/threads/"+id+"/history", object{"limit": 100, "values": false}).json.([]any) {
		by = append(by, st.(object)["metadata"].(object)["stele_answered_by"])
	}
	if want := "[bob.b <nil> <nil> <nil>]"; fmt.Sprint(by) != want {
		t.Errorf("the checkpoints were answered by %v, newest first, want %s", by, want)
	}
	by = nil
	for _, r := range ann.ok("GET", "/threads/"+id+"/runs", nil).json.([]any) {
		by = append(by, r.(object)["metadata"].(object)["stele_answered_by"])
	}
	if want := "[bob.b <nil>]"; fmt.Sprint(by) != want {
		t.Errorf("the runs say %v, want %s", by, want)
	}
}

// TestListedTasksOfOthers: of a handler's task, and of a called function, the writes do not say the name; they
// get none, rather than that of another.
func TestListedTasksOfOthers(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["handled"] = must(graph.New(graph.Key("any", channel.LastValue[any]())).
			Node("slow", func(context.Context, any) (any, error) { return nil, errors.New("boom") },
				graph.NodeOptions{OnError: func(ctx context.Context, _ any) (any, error) {
					answer, err := pregel.Ask(ctx, "go on?")
					return object{"any": answer}, err
				}}).
			Edge(graph.Start, "slow").
			Compile(graph.Options{Name: "handled", Saver: c.Saver}))
		double := pregel.NewTask("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		c.Graphs["calls"] = must(pregel.Entrypoint("calls", func(ctx context.Context, in any) (any, error) {
			n, err := double.Call(ctx, 21)
			if err != nil {
				return nil, err
			}
			return pregel.Ask(ctx, n)
		}, pregel.EntrypointOptions{Options: pregel.Options{Saver: c.Saver}}))
	})
	for name, once := range map[string]string{"handled": "slow", "calls": "calls"} {
		id := h.thread()
		h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": name, "input": object{"any": 1}})
		found := 0
		for _, st := range h.ok("POST", "/threads/"+id+"/history", object{"limit": 100, "values": false}).json.([]any) {
			for _, task := range st.(object)["tasks"].([]any) {
				switch got := task.(object)["name"].(string); got {
				case once:
					found++
				case "", "__start__":
				default:
					t.Errorf("%s: a task is called %q", name, got)
				}
			}
		}
		if found != 1 {
			t.Errorf("%s: %d tasks are called %s", name, found, once)
		}
	}
}
