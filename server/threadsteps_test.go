package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/server"
)

// stepsOf are the steps that an answer has, a line for each.
func stepsOf(a answer) (lines []string) {
	list, _ := a.object()["steps"].([]any)
	for _, x := range list {
		s := x.(map[string]any)
		lines = append(lines, strings.TrimSpace(fmt.Sprint(s["kind"], " ", s["name"], " ", s["state"], " ", s["result"])))
	}
	return lines
}

// TestSteps: a thread tells the steps of its workflow to who sees it, and to nobody else; a child its parent, to who sees
// that. Long results are cut, and of very many steps the first are left out.
func TestSteps(t *testing.T) {
	asks := pregel.NewChild[string, string]("asks")
	ann, bob, root := operated(t, func(c *server.Config) {
		o := pregel.EntrypointOptions{Options: pregel.Options{Saver: c.Saver, Store: c.Store}}
		c.Graphs["asks"] = must(pregel.Entrypoint("asks", func(ctx context.Context, _ string) (string, error) {
			return pregel.AskFor[string](ctx, "?")
		}, o))
		count := pregel.NewTask("count", func(_ context.Context, n int) (string, error) { return strings.Repeat("x", n), nil })
		c.Graphs["starts"] = must(pregel.Entrypoint("starts", func(ctx context.Context, in string) (string, error) {
			if _, err := count.Call(ctx, 500); err != nil {
				return "", err
			}
			if err := pregel.Expose(ctx, "stage", object{"of": in}); err != nil {
				return "", err
			}
			return asks.Call(ctx, in)
		}, o))
		c.Graphs["ends"] = must(pregel.Entrypoint("ends", func(_ context.Context, in string) (string, error) { return in, nil }, o))
		c.Graphs["awaits"] = must(pregel.Entrypoint("awaits", func(ctx context.Context, in string) (string, error) {
			return pregel.NewChild[string, string]("ends").Call(ctx, in)
		}, o))
		c.Graphs["many"] = must(pregel.Entrypoint("many", func(ctx context.Context, _ string) (string, error) {
			for n := range 1002 {
				if _, err := count.Call(ctx, n%7); err != nil {
					return "", err
				}
			}
			return "", nil
		}, o))
	})
	steps := func(thread string) string { return "/stele/threads/" + thread + "/steps" }
	thread := ann.thread()
	ann.equal(ann.ok("GET", steps(thread), nil), `{"steps":[]}`)
	run := ann.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "starts", "input": "tea"}).text1("run_id")
	var told answer
	ann.until("the parent waits", func() bool {
		told = ann.ok("GET", steps(thread), nil)
		return strings.Contains(told.text, `"waiting"`)
	})
	x := strings.Repeat("x", 160)
	if got, want := stepsOf(told), []string{"call count done " + x, "exposed stage done map[of:tea]", "child asks waiting <nil>"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	// The history in short has the task, and not the call.
	if a := ann.ok("POST", "/threads/"+thread+"/history", object{"values": false}); len(a.json.([]any)[0].(map[string]any)["tasks"].([]any)) != 1 {
		t.Errorf("the history has %s", a.text)
	}
	_, child, _ := strings.Cut(told.text, `"thread_id":"`)
	child, _, _ = strings.Cut(child, `"`)
	ann.until("the child asks", func() bool {
		a := ann.do("GET", "/threads/"+child, nil)
		return a.status == 200 && a.text1("status") == "interrupted"
	})
	for _, id := range []string{thread, child} {
		bob.refused(404, "GET", steps(id), nil)
		bob.refused(404, "GET", steps(id)+"?checkpoint_id="+someID, nil)
	}
	for _, who := range []*house{ann, root} {
		if parent := who.ok("GET", steps(child), nil).text1("parent_thread_id"); parent != thread {
			t.Errorf("the child's parent is %q, want %q", parent, thread)
		}
		if a := who.ok("GET", steps(thread), nil); a.object()["parent_thread_id"] != nil {
			t.Errorf("the parent has a parent: %s", a.text)
		}
	}
	ann.equal(ann.ok("GET", steps(thread)+"?checkpoint_id="+someID, nil), `{"steps":[]}`)
	ann.ended(child, ann.ok("POST", "/threads/"+child+"/runs", object{"assistant_id": "asks", "command": object{"resume": "yes"}}).text1("run_id"))
	ann.ended(thread, run)
	if got := stepsOf(ann.ok("GET", steps(thread), nil)); len(got) != 3 || got[2] != "child asks done yes" {
		t.Errorf("when it has ended: %q", got)
	}

	// Who sees the child, and not its parent, is not told of that.
	root.ok("PATCH", "/threads/"+child, object{"metadata": object{"owner": "bob.b"}})
	if a := bob.ok("GET", steps(child), nil); a.object()["parent_thread_id"] != nil {
		t.Errorf("who does not see the parent is told of it: %s", a.text)
	}

	// A child that has ended is of its own graph.
	thread = ann.thread()
	ann.ended(thread, ann.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "awaits", "input": "tea"}).text1("run_id"))
	_, child, _ = strings.Cut(ann.ok("GET", steps(thread), nil).text, `"thread_id":"`)
	child, _, _ = strings.Cut(child, `"`)
	if a := root.ok("POST", "/threads/search", object{"ids": []string{child}}); !strings.Contains(a.text, `"graph_id":"ends"`) {
		t.Errorf("a child is told as %s", a.text)
	}

	many := ann.thread()
	ann.ok("POST", "/threads/"+many+"/runs/wait", object{"assistant_id": "many", "input": ""})
	if a := ann.ok("GET", steps(many), nil); len(stepsOf(a)) != 1000 || a.whole("left_out") != 2 || stepsOf(a)[0] != "call count done xx" {
		t.Errorf("of many steps %d are told: %q, %v", len(stepsOf(a)), stepsOf(a)[:1], a.object()["left_out"])
	}
}
