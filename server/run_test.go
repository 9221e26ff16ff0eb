package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/server"
)

func TestStreamModes(t *testing.T) {
	h := newHouse(t)
	run := func(graph string, in any, more object) []frame {
		h.Helper()
		body := object{"assistant_id": graph, "input": in}
		for k, v := range more {
			body[k] = v
		}
		return h.stream("POST", "/threads/"+h.thread()+"/runs/stream", body)
	}
	in := object{"text": "hi"}
	h.sees(run("simple", in, nil), "metadata", `values {"log":[],"text":"hi"}`, `values {"log":["a"],"text":"hi"}`, `values {"log":["a","b"],"text":"hi"}`)
	h.sees(run("simple", in, object{"stream_mode": "updates"}), "metadata", `updates {"a":{"log":["a"]}}`, `updates {"b":{"log":["b"]}}`)
	h.sees(run("simple", in, object{"stream_mode": []string{"custom", "updates"}}), "metadata",
		`custom {"at":"a"}`, `updates {"a":{"log":["a"]}}`, `custom {"at":"b"}`, `updates {"b":{"log":["b"]}}`)
	h.sees(run("error", in, object{"stream_mode": "updates"}), "metadata", `updates {"a":{"log":["a"]}}`, `error {"error":"Error","message":"boom"}`)
	h.sees(run("simple", in, object{"stream_mode": []string{"updates"}, "interrupt_before": "*"}), "metadata", `updates {"__interrupt__":[]}`)

	got := run("nested", in, object{"stream_mode": "updates", "stream_subgraphs": true})
	if len(got) != 4 || !strings.HasPrefix(got[1].event, "updates|inner:") || got[3].event != "updates" || !strings.HasPrefix(got[3].data, `{"__interrupt__":[{"id":"`) {
		t.Errorf("graph inside: %v", got)
	}
	got = run("nested", in, object{"stream_mode": "updates"})
	if len(got) != 2 || got[1].event != "updates" {
		t.Errorf("without graphs inside: %v", got)
	}
	said := object{"messages": []object{{"role": "user", "content": "hey"}}}
	got = run("chat", said, object{"stream_mode": "messages-tuple"})
	if len(got) != 3 || got[1].event != "messages" || !strings.HasPrefix(got[1].data, `[{"content":"hel",`) || !strings.Contains(got[1].data, `"type":"AIMessageChunk"`) || !strings.Contains(got[2].data, `"langgraph_node":"call"`) {
		t.Errorf("messages-tuple: %v", got)
	}
	got = run("chat", said, object{"stream_mode": "messages"})
	if len(got) != 4 || got[1].event != "messages/metadata" || got[2].event != "messages/partial" || got[3].event != "messages/partial" ||
		!strings.HasPrefix(got[2].data, `[{"content":"hel",`) || !strings.HasPrefix(got[3].data, `[{"content":"hello",`) || !strings.Contains(got[3].data, `"type":"ai"`) {
		t.Errorf("messages: %v", got)
	}
	h.refused(422, "POST", "/runs/stream", object{"assistant_id": "simple", "stream_mode": "events"})
	h.refused(422, "POST", "/runs/stream", object{"assistant_id": "simple", "stream_mode": "bogus"})
	h.refused(422, "POST", "/runs/stream", object{"assistant_id": "none"})
}

func TestWaitAndResume(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	a := h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "asker", "input": object{"text": "hi"}})
	if asked, _ := a.object()["__interrupt__"].([]any); len(asked) != 1 || !strings.HasPrefix(a.header.Get("Location"), "/threads/"+id+"/runs/") {
		t.Errorf("%v %s", a.header, a.text)
	}
	th := h.ok("GET", "/threads/"+id, nil)
	if waiting, _ := th.object()["interrupts"].(object); th.text1("status") != "interrupted" || len(waiting) != 1 {
		t.Errorf("%s", th.text)
	}
	h.equal(h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "asker", "command": object{"resume": "yes"}}), `{"log":["a","answer yes"],"text":"hi"}`)
	if s := h.ok("GET", "/threads/"+id, nil).text1("status"); s != "idle" {
		t.Errorf("status %s", s)
	}
	h.equal(h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "error", "input": object{}}), `{"__error__":{"error":"Error","message":"boom"}}`)
	th = h.ok("GET", "/threads/"+id, nil)
	if th.text1("status") != "error" || !strings.Contains(th.text, `"message":"boom"`) {
		t.Errorf("%s", th.text)
	}
	h.equal(h.ok("POST", "/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}}), `{"log":["a","b"],"text":"x"}`)
	if n := len(h.ok("POST", "/threads/search", object{}).json.([]any)); n != 1 {
		t.Errorf("%d threads: that of a stateless run is shown", n)
	}
	// What another graph asked is given up by new input.
	id = h.thread()
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "asker", "input": object{"text": "hi"}})
	h.equal(h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}}), `{"log":["a","a","b"],"text":"x"}`)
	h.refused(404, "POST", "/threads/11111111-1111-4111-8111-111111111111/runs/wait", object{"assistant_id": "simple", "input": object{}})
	h.equal(h.ok("POST", "/threads/11111111-1111-4111-8111-111111111111/runs/wait", object{"assistant_id": "simple", "input": object{}, "if_not_exists": "create"}), `{"log":["a","b"]}`)
}

// An answer of the wrong type fails its run at once. The question still waits, is found by who looks for threads
// that wait, and takes another. Where none waits a failure is one.
func TestWrongAnswer(t *testing.T) {
	h := newHouse(t)
	id, other := h.thread(), h.thread()
	h.ok("POST", "/threads/"+other+"/runs/wait", object{"assistant_id": "error", "input": object{}})
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "typed", "input": object{"text": "hi"}})
	for range 2 {
		a := h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "typed", "command": object{"resume": "five"}})
		if !strings.Contains(a.text, "want an integer, got a string") {
			t.Errorf("%s", a.text)
		}
		th := h.ok("GET", "/threads/"+id+"?include=stele_status", nil)
		if waiting, _ := th.object()["interrupts"].(object); th.text1("status") != "interrupted" || th.text1("stele_status") != "waiting" ||
			th.sub("error").text1("error") != "AnswerError" || len(waiting) != 1 {
			t.Errorf("%s", th.text)
		}
		for _, is := range []struct{ key, status, id string }{
			{"status", "interrupted", id}, {"stele_status", "waiting", id}, {"status", "error", other}, {"stele_status", "failed", other},
		} {
			found := h.ok("POST", "/threads/search", object{is.key: is.status}).json.([]any)
			if len(found) != 1 || found[0].(object)["thread_id"] != is.id {
				t.Errorf("%s %s: %v, want %s", is.key, is.status, found, is.id)
			}
		}
	}
	for _, r := range h.ok("GET", "/stele/runs?status=error", nil).object()["runs"].([]any) {
		if r := r.(object); (r["refused"] == true) != (r["thread_id"] == id) {
			t.Errorf("a run is refused, or failed otherwise: %v", r)
		}
	}
	h.equal(h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "typed", "command": object{"resume": 5}}), `{"log":["5"],"text":"hi"}`)
}

// TestQuestionBesideAFailure: a thread of which one task failed and another asks waits, whatever is looked for.
func TestQuestionBesideAFailure(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		ask := func(ctx context.Context, _ any) (any, error) { return pregel.Ask(ctx, "?") }
		boom := func(ctx context.Context, _ any) (any, error) {
			if _, err := pregel.Ask(ctx, "boom?"); err != nil {
				return nil, err
			}
			return nil, errors.New("boom")
		}
		c.Graphs["half"] = must(builder().Node("ask", ask).Node("boom", boom).Edge(graph.Start, "ask").Edge(graph.Start, "boom").
			Compile(graph.Options{Name: "half", Saver: c.Saver}))
	})
	id := h.thread()
	runsOf := "/threads/" + id + "/runs/wait"
	for _, q := range h.ok("POST", runsOf, object{"assistant_id": "half", "input": object{}}).object()["__interrupt__"].([]any) {
		if q := q.(object); q["value"] == "boom?" {
			h.ok("POST", runsOf, object{"assistant_id": "half", "command": object{"resume": object{q["id"].(string): 1}}})
		}
	}
	th := h.ok("GET", "/threads/"+id+"?include=stele_status", nil)
	if waiting, _ := th.object()["interrupts"].(object); th.text1("status") != "interrupted" || th.text1("stele_status") != "waiting" || len(waiting) != 1 ||
		th.sub("error").text1("message") != "boom" {
		t.Errorf("%s", th.text)
	}
	for _, is := range []struct{ key, status string }{{"status", "interrupted"}, {"stele_status", "waiting"}, {"status", "error"}, {"stele_status", "failed"}} {
		if found := h.ok("POST", "/threads/search", object{is.key: is.status}).json.([]any); len(found) == 1 != (is.status == "interrupted" || is.status == "waiting") {
			t.Errorf("%s %s: %v", is.key, is.status, found)
		}
	}
}

// TestSleepBesideAFailure: a thread of which one task failed and another sleeps has failed: nobody is asked, and no run is left that wakes.
func TestSleepBesideAFailure(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		slept := make(chan struct{})
		wait := func(ctx context.Context, _ any) (any, error) {
			defer close(slept)
			return nil, pregel.Sleep(ctx, time.Hour)
		}
		boom := func(context.Context, any) (any, error) {
			<-slept
			return nil, errors.New("boom")
		}
		c.Graphs["half"] = must(builder().Node("wait", wait).Node("boom", boom).Edge(graph.Start, "wait").Edge(graph.Start, "boom").
			Compile(graph.Options{Name: "half", Saver: c.Saver}))
	})
	id := h.thread()
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "half", "input": object{}})
	if th := h.ok("GET", "/threads/"+id+"?include=stele_status", nil); th.text1("status") != "error" || th.text1("stele_status") != "failed" {
		t.Errorf("%s", th.text)
	}
}

func TestMultitask(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	runsOf := "/threads/" + id + "/runs"
	start := func(strategy string) string {
		h.Helper()
		return h.ok("POST", runsOf, object{"assistant_id": "slow", "input": object{"text": strategy}, "multitask_strategy": strategy}).text1("run_id")
	}
	running := func(run string) {
		h.Helper()
		h.until("the run begins", func() bool { return h.ok("GET", runsOf+"/"+run, nil).text1("status") == "running" })
	}
	first := start("enqueue")
	running(first)
	if s := h.ok("GET", "/threads/"+id, nil).text1("status"); s != "busy" {
		t.Errorf("status %s", s)
	}
	h.refused(409, "POST", runsOf, object{"assistant_id": "slow", "input": object{}, "multitask_strategy": "reject"})
	second := start("enqueue")
	if s := h.ok("GET", runsOf+"/"+second, nil).text1("status"); s != "pending" {
		t.Errorf("the second run is %s", s)
	}
	third := start("interrupt")
	for _, run := range []string{first, second} {
		if s := h.ended(id, run).text1("status"); s != "interrupted" {
			t.Errorf("status %s", s)
		}
	}
	running(third)
	fourth := start("rollback")
	running(fourth)
	h.gate <- struct{}{}
	h.gate <- struct{}{}
	h.equal(h.ok("GET", runsOf+"/"+fourth+"/join", nil), `{"log":["slow","slow","z"],"text":"rollback"}`)
	list := h.ok("GET", runsOf+"?limit=2", nil).json.([]any)
	if len(list) != 2 || list[0].(object)["run_id"] != fourth {
		t.Errorf("list %v", list)
	}
	h.ok("DELETE", runsOf+"/"+first, nil)
	h.refused(404, "GET", runsOf+"/"+first, nil)
	h.refused(404, "GET", runsOf+"/"+third, nil) // it was rolled back
	if n := len(h.ok("GET", runsOf, nil).json.([]any)); n != 2 {
		t.Errorf("%d runs", n)
	}
}

func TestCancel(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	runsOf := "/threads/" + id + "/runs"
	start := func() string {
		h.Helper()
		run := h.ok("POST", runsOf, object{"assistant_id": "slow", "input": object{"text": "x"}}).text1("run_id")
		h.until("the run begins", func() bool { return h.ok("GET", "/threads/"+id+"/state", nil).text1("checkpoint_id") != "" })
		return run
	}
	run := start()
	h.equal(h.ok("POST", runsOf+"/"+run+"/cancel?wait=true", nil), `{}`)
	h.equal(h.ok("GET", runsOf+"/"+run+"/join", nil), `{"log":[],"text":"x"}`)
	if th := h.ok("GET", "/threads/"+id, nil); th.text1("status") != "interrupted" || !strings.Contains(th.text, "UserInterrupt") {
		t.Errorf("%s", th.text)
	}
	h.refused(404, "POST", runsOf+"/"+run+"/cancel", nil)
	h.ok("POST", "/threads/prune", object{"thread_ids": []string{id}, "strategy": "delete"})
	h.refused(404, "GET", "/threads/"+id, nil)
	h.ok("POST", "/threads", object{"thread_id": id})
	run = start()
	h.ok("POST", runsOf+"/"+run+"/cancel?wait=true&action=rollback", nil)
	h.refused(404, "GET", runsOf+"/"+run, nil)
	h.equal(h.ok("GET", "/threads/"+id+"/history", nil), `[]`)
	run = start()
	h.ok("POST", "/runs/cancel", object{"thread_id": id, "run_ids": []string{run}})
	h.ended(id, run)
	h.refused(404, "POST", "/runs/cancel", object{"thread_id": id, "run_ids": []string{run}})
	h.refused(422, "POST", "/runs/cancel", object{})
}

// A client that leaves does not stop its run, unless it asked for that.
func TestDisconnect(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct{ path, on, want string }{
		{"stream", "cancel", "interrupted"}, {"wait", "cancel", "interrupted"}, {"stream", "continue", "success"}, {"wait", "", "success"},
	} {
		id := h.thread()
		ctx, leave := context.WithCancel(t.Context())
		body := object{"assistant_id": "slow", "input": object{"text": "x"}}
		if c.on != "" {
			body["on_disconnect"] = c.on
		}
		res, err := h.request(ctx, "POST", "/threads/"+id+"/runs/"+c.path, body)
		if err != nil {
			t.Fatal(err)
		}
		run := res.Header.Get("Content-Location")
		run = run[strings.LastIndex(run, "/")+1:]
		leave()
		_ = res.Body.Close()
		if c.want == "success" {
			for h.answering.Load() > 0 { // until the server has seen that the client left
				time.Sleep(time.Millisecond)
			}
			h.gate <- struct{}{}
			h.gate <- struct{}{}
		}
		if s := h.ended(id, run).text1("status"); s != c.want {
			t.Errorf("%s, %s: %s", c.path, c.on, s)
		}
	}
}

// A stream that was cut off goes on behind the last event that the client has, also in
// another process, and yields each event once.
func TestResumedStream(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	id := h.thread()
	res, err := h.request(t.Context(), "POST", "/threads/"+id+"/runs/stream", object{"assistant_id": "slow", "input": object{"text": "x"}, "stream_resumable": true, "stream_mode": []string{"values", "updates"}})
	if err != nil {
		t.Fatal(err)
	}
	place := res.Header.Get("Location")
	var got []frame
	h.gate <- struct{}{}
	_ = frames(res.Body, func(f frame) bool {
		got = append(got, f)
		return len(got) < 4 // metadata, values, updates of x, values
	})
	_ = res.Body.Close()
	last := got[len(got)-1].id
	h.shut() // the node y is under way

	h = open(t, dir, nil)
	h.gate <- struct{}{}
	h.gate <- struct{}{} // y may run once more
	rest := h.stream("GET", place, nil, "Last-Event-ID", last)
	n := 0
	var events []frame
	for _, f := range append(got, rest...) {
		id, err := strconv.Atoi(f.id)
		if err != nil || id <= n {
			t.Fatalf("number %q behind %d: %v", f.id, n, f)
		}
		if n = id; f.event != "metadata" {
			events = append(events, f)
		}
	}
	var once []frame
	for i, f := range events { // values are shown again where a new attempt begins
		if i == 0 || f.data != events[i-1].data {
			once = append(once, f)
		}
	}
	h.sees(once, `values {"log":[],"text":"x"}`, `updates {"x":{"log":["slow"]}}`, `values {"log":["slow"],"text":"x"}`,
		`updates {"y":{"log":["slow"]}}`, `values {"log":["slow","slow"],"text":"x"}`, `updates {"z":{"log":["z"]}}`, `values {"log":["slow","slow","z"],"text":"x"}`)
	again := h.stream("GET", place, nil, "Last-Event-ID", "-1")
	if len(again) != len(got)+len(rest) {
		t.Errorf("%d events again, want %d", len(again), len(got)+len(rest))
	}
	h.sees(h.stream("GET", place+"?stream_mode=updates", nil, "Last-Event-ID", "0"), `updates {"x":{"log":["slow"]}}`, `updates {"y":{"log":["slow"]}}`, `updates {"z":{"log":["z"]}}`)
	h.sees(h.stream("GET", place, nil)) // live, and the run has ended
}

// An attempt that failed and is made again is not the end of a stream; the last one is.
func TestErrorIsTheLastWord(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	id := h.thread()
	run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}, "stream_resumable": true}).text1("run_id")
	h.until("the run begins", func() bool { return h.ok("GET", "/threads/"+id+"/state", nil).text1("checkpoint_id") != "" })
	h.shut()
	h = open(t, dir, nil)
	h.gate <- struct{}{}
	h.gate <- struct{}{}
	for _, f := range h.stream("GET", "/threads/"+id+"/runs/"+run+"/stream", nil, "Last-Event-ID", "-1") {
		if f.event == "error" {
			t.Errorf("%v", f)
		}
	}
	if s := h.ended(id, run).text1("status"); s != "success" {
		t.Errorf("status %s", s)
	}
}

func TestHeartbeats(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Heartbeat = 10 * time.Millisecond })
	res, err := h.request(t.Context(), "POST", "/runs/stream", object{"assistant_id": "slow", "input": object{"text": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var text []byte
	for b := make([]byte, 512); !strings.Contains(string(text), ": heartbeat\r\n\r\n"); {
		n, err := res.Body.Read(b)
		if err != nil {
			t.Fatalf("%v after %q", err, text)
		}
		text = append(text, b[:n]...)
	}
	h.gate <- struct{}{}
	h.gate <- struct{}{}
	if a := h.ok("POST", "/runs/wait", object{"assistant_id": "simple", "input": object{}}); strings.TrimSpace(a.text) != `{"log":["a","b"]}` {
		t.Errorf("%q", a.text)
	}
}

// TestPassedOn: proxies are asked to pass on each piece of an answer that takes its time.
func TestPassedOn(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	run := object{"assistant_id": "simple", "input": object{"text": "x"}}
	last := h.ok("POST", "/threads/"+id+"/runs/wait", run).header
	list := h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)
	of := "/threads/" + id + "/runs/" + list[0].(object)["run_id"].(string)
	heads := map[string]http.Header{"wait": last, "stream": h.ok("POST", "/threads/"+id+"/runs/stream", run).header,
		"join": h.ok("GET", of+"/join", nil).header, "stateless wait": h.ok("POST", "/runs/wait", run).header, "join stream": h.ok("GET", of+"/stream", nil).header,
		"thread": h.ok("HEAD", "/threads/"+id+"/stream", nil).header}
	for name, head := range heads {
		if head.Get("X-Accel-Buffering") != "no" || head.Get("Cache-Control") != "no-store, no-transform" {
			t.Errorf("%s: %v", name, head)
		}
	}
}

// TestHeadOfAStream: who asks for the head of a stream alone gets it, and no stream stays open for that.
func TestHeadOfAStream(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	of := "/threads/" + id + "/runs/" + h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}}).text1("run_id")
	for _, path := range []string{"/threads/" + id + "/stream", of + "/stream?cancel_on_disconnect=true", of + "/join?cancel_on_disconnect=true"} {
		if a := h.ok("HEAD", path, nil); a.text != "" || a.header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("%s: %v %q", path, a.header, a.text)
		}
	}
	h.until("all is answered", func() bool { return h.answering.Load() == 0 })
	if got := h.ok("GET", of, nil).text1("status"); got == "interrupted" {
		t.Error("the run was cancelled")
	}
	h.refused(404, "HEAD", "/threads/"+"00000000-0000-4000-8000-000000000000"+"/stream", nil)
	h.gate <- struct{}{}
	h.gate <- struct{}{}
	h.ended(id, of[len(of)-36:])
}

func TestWebhook(t *testing.T) {
	var mu sync.Mutex
	var got []string
	status := []int{500, 200, 200}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		w.WriteHeader(status[min(len(got), len(status)-1)])
		got = append(got, string(text))
	}))
	defer hook.Close()
	calls := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(got)
	}
	h := newHouse(t)
	run := h.ok("POST", "/threads/"+h.thread()+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "webhook": hook.URL + "/done"}).text1("run_id")
	h.until("the webhook is called again", func() bool { return calls() == 2 })
	if !strings.Contains(got[1], `"run_id":"`+run+`"`) || !strings.Contains(got[1], `"status":"success"`) || !strings.Contains(got[1], `"values":{"log":["a","b"],"text":"x"}`) {
		t.Errorf("%s", got[1])
	}
	h.refused(422, "POST", "/runs", object{"assistant_id": "simple", "input": object{}, "webhook": "file:///etc/passwd"})

	// What a client asked for is done by the next process.
	dir := t.TempDir()
	h = open(t, dir, nil)
	h.ok("POST", "/threads/"+h.thread()+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}, "webhook": hook.URL})
	if found := must(h.items.Search(t.Context(), pending)); len(found) != 1 {
		t.Fatalf("of the webhook %d records are stored", len(found))
	}
	h.shut()
	h = open(t, dir, nil)
	h.gate <- struct{}{}
	h.gate <- struct{}{}
	h.gate <- struct{}{}
	h.until("the webhook is called", func() bool { return calls() == 3 })

	// Addresses of one's own network are refused unless they are allowed.
	h = open(t, t.TempDir(), func(c *server.Config) { c.AllowPrivateWebhooks = false })
	id := h.thread()
	run = h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "webhook": hook.URL}).text1("run_id")
	h.ended(id, run)
	h.until("the webhook is given up", func() bool {
		found, err := h.items.Search(t.Context(), pending)
		return err == nil && len(found) == 0
	})
	if calls() != 3 {
		t.Errorf("a webhook was called at a private address")
	}
}

// The stream of a thread shows its runs one after another, and goes on where it was cut off.
func TestThreadStream(t *testing.T) {
	h := newHouse(t)
	for _, modes := range []string{"stream_modes=state_update", "stream_modes=run_modes&stream_modes=x"} {
		h.refused(422, "GET", "/threads/"+h.thread()+"/stream?"+modes, nil) // it would be sent nothing for it
	}
	id := h.thread()
	run := func() {
		h.Helper()
		h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}, "stream_mode": "updates"})
	}
	run() // nobody sees this one
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	res, err := h.request(ctx, "GET", "/threads/"+id+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	run()
	run()
	var got []frame
	_ = frames(res.Body, func(f frame) bool { got = append(got, f); return len(got) < 6 })
	_ = res.Body.Close()
	res, err = h.request(ctx, "GET", "/threads/"+id+"/stream", nil, "Last-Event-ID", got[5].id)
	if err != nil {
		t.Fatal(err)
	}
	_ = frames(res.Body, func(f frame) bool { got = append(got, f); return len(got) < 8 })
	_ = res.Body.Close()
	h.sees(got, "metadata", `updates {"a":{"log":["a"]}}`, `updates {"b":{"log":["b"]}}`, "metadata", "metadata", `updates {"a":{"log":["a"]}}`, `updates {"b":{"log":["b"]}}`, "metadata")
	if !strings.Contains(got[3].data, `"status":"run_done"`) || got[0].data == got[4].data {
		t.Errorf("%v", got)
	}
}

// A client that does not read is cut off, and its run goes on.
func TestSlowClient(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.WriteTimeout = 50 * time.Millisecond })
	id := h.thread()
	body := must(json.Marshal(object{"assistant_id": "simple", "input": object{"text": strings.Repeat("x", 1<<22)}}))
	conn := h.raw(fmt.Sprintf("POST /threads/%s/runs/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body))
	var made []any
	h.until("the run is made", func() bool {
		made, _ = h.ok("GET", "/threads/"+id+"/runs", nil).json.([]any)
		return len(made) > 0
	})
	if s := h.ended(id, made[0].(object)["run_id"].(string)).text1("status"); s != "success" {
		t.Errorf("status %s", s)
	}
	h.until("the stream is closed", func() bool { return strings.Contains(h.ok("GET", "/metrics", nil).text, "\nstele_server_streams 0\n") })
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
	}
	if err == nil {
		t.Error("the whole stream came")
	}
}

// A run is deleted with its checkpoints, and those of other runs stay.
func TestDeleteRun(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
	run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "y"}}).text1("run_id")
	h.ended(id, run)
	h.equal(h.ok("GET", "/threads/"+id+"/state", nil).sub("values"), `{"log":["a","b","a","b"],"text":"y"}`)
	h.ok("DELETE", "/threads/"+id+"/runs/"+run, nil)
	h.equal(h.ok("GET", "/threads/"+id+"/state", nil).sub("values"), `{"log":["a","b"],"text":"x"}`)
	h.refused(404, "GET", "/threads/"+id+"/runs/"+run, nil)
}

// TestLocationOfAnyID: the address of a run is a header, whatever the id of its thread holds.
func TestLocationOfAnyID(t *testing.T) {
	h := newHouse(t)
	const id = "of\na program\x07/ä"
	if _, err := h.graphs(h.disk)["simple"].Invoke(t.Context(), pregel.Thread(id), object{"text": "x"}); err != nil {
		t.Fatal(err)
	}
	a := h.ok("POST", "/threads/"+url.PathEscape(id)+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "y"}})
	if at := a.header.Get("Content-Location"); !strings.HasPrefix(at, "/threads/of%0Aa%20program%07%2F%C3%A4/runs/") {
		t.Errorf("%q", at)
	}
}
