package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/server"
)

// TestRefusesInputWhileItWaits: on a thread of a graph that refuses new input while it waits, however a client sends
// some, the run fails and says so, and the question still waits, is found, and takes its answer.
func TestRefusesInputWhileItWaits(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		ask := func(ctx context.Context, _ any) (any, error) {
			said, err := pregel.AskFor[string](ctx, "ok?")
			return object{"log": []string{said}}, err
		}
		c.Graphs["strict"] = must(builder().Node("ask", ask).Sequence(graph.Start, "ask").
			Compile(graph.Options{Name: "strict", Saver: c.Saver, Store: c.Store, RefuseWaiting: true}))
	})
	id := h.thread()
	at := "/threads/" + id
	run := func(text string) object { return object{"assistant_id": "strict", "input": object{"text": text}} }
	h.ok("POST", at+"/runs/wait", run("first"))
	refused := func(what, failure string) {
		t.Helper()
		if !strings.Contains(failure, "WaitingError") || !strings.Contains(failure, pregel.ErrWaiting.Error()+"; the input was not taken") {
			t.Errorf("%s: %s", what, failure)
		}
		if found := h.ok("POST", "/threads/search", object{"status": "interrupted", "ids": []string{id}}).json.([]any); len(found) != 1 {
			t.Errorf("%s: a search for threads that wait finds %v", what, found)
		}
		if st := h.ok("GET", at+"/state", nil); string(st.sub("values").json.(object)["text"].(string)) != "first" || len(st.object()["interrupts"].([]any)) != 1 {
			t.Errorf("%s: the thread is %s", what, st.text)
		}
	}
	for _, strategy := range []string{"enqueue", "reject", "interrupt", "rollback"} {
		body := run("second")
		body["multitask_strategy"] = strategy
		refused(strategy, h.ok("POST", at+"/runs/wait", body).text)
	}
	frames := h.stream("POST", at+"/runs/stream", run("second"))
	refused("a stream", frames[len(frames)-1].data)
	made := h.ok("POST", at+"/runs", run("second")).text1("run_id")
	if a := h.ended(id, made); a.text1("status") != "error" {
		t.Errorf("%s", a.text)
	}
	h.equal(h.ok("POST", at+"/runs/wait", object{"assistant_id": "strict", "command": object{"resume": "yes"}}), `{"log":["yes"],"text":"first"}`)
	h.ok("POST", at+"/runs/wait", run("third"))
	h.equal(h.ok("GET", at+"/state", nil).sub("values"), `{"log":["yes"],"text":"third"}`)
}

// TestAnAnswerThatComesTwice: an answer on a thread that has finished fails, the same one again or another. So do input
// at a breakpoint that is to refuse it, and answers that name no question that waits. The thread is as it was, whoever looks.
func TestAnAnswerThatComesTwice(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["stops"] = must(builder().Node("a", says("a")).Sequence(graph.Start, "a").
			Compile(graph.Options{Name: "stops", Saver: c.Saver, Store: c.Store, RefuseWaiting: true, InterruptBefore: []string{"a"}}))
	})
	id := h.thread()
	at := "/threads/" + id
	answer := func(v any) object { return object{"assistant_id": "asker", "command": object{"resume": v}} }
	isAs := func(at, status, stele string) {
		t.Helper()
		if th := h.ok("GET", at+"?include=stele_status", nil).object(); th["status"] != status || th["stele_status"] != stele || status == "idle" && th["error"] != nil {
			t.Errorf("the thread is %v", th)
		}
		for _, query := range []object{{"status": status}, {"stele_status": stele}} {
			query["ids"] = []string{strings.TrimPrefix(at, "/threads/")}
			if found := h.ok("POST", "/threads/search", query).json.([]any); len(found) != 1 {
				t.Errorf("a search for %v finds %v", query, found)
			}
		}
	}
	asked := h.ok("POST", at+"/runs/wait", object{"assistant_id": "asker", "input": object{"text": "x"}}).object()
	question := asked["__interrupt__"].([]any)[0].(object)["id"].(string)
	const state = `{"log":["a","answer yes"],"text":"x"}`
	h.equal(h.ok("POST", at+"/runs/wait", answer("yes")), state)
	for _, again := range []any{"yes", object{question: "yes"}, "no", object{question: "no"}} {
		if a := h.ok("POST", at+"/runs/wait", answer(again)); !strings.Contains(a.text, "NoInterruptError") || !strings.Contains(a.text, "has finished") {
			t.Errorf("%s", a.text)
		}
		isAs(at, "idle", "done")
	}
	h.equal(h.ok("GET", at+"/state", nil).sub("values"), state)

	at = "/threads/" + h.thread()
	input := object{"assistant_id": "stops", "input": object{"text": "x"}}
	h.ok("POST", at+"/runs/wait", input)
	if a := h.ok("POST", at+"/runs/wait", input); !strings.Contains(a.text, "WaitingError") {
		t.Errorf("%s", a.text)
	}
	isAs(at, "interrupted", "waiting")

	at = "/threads/" + h.thread()
	h.ok("POST", at+"/runs/wait", object{"assistant_id": "asker", "input": object{"text": "x"}})
	if a := h.ok("POST", at+"/runs/wait", answer(object{strings.Repeat("0", 32): "yes"})); !strings.Contains(a.text, "no question") && !strings.Contains(a.text, "Unknown") {
		t.Errorf("%s", a.text)
	}
	isAs(at, "interrupted", "waiting")
}
