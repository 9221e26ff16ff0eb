package studio

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// whats are the lines of the history, without spaces that the page adds.
const whats = `[...document.querySelectorAll(".history .row .what")].map(e => e.innerText.replace(/\s+/g, " ").trim())`

// A row of the history says what happened: what a person wrote, what the model called and said, what was
// answered, also on a server that knows nothing of Studio; with the tokens of the step.
func TestHistorySays(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		thread := b.thread(t, "hello ann")
		b.call(t, "POST", "/threads/"+thread+"/runs/wait", map[string]any{"assistant_id": "mail", "command": map[string]any{"resume": "certainly"}}, nil)
		p := open(t, base)
		p.show("#/threads/" + thread)
		p.see("five rows", `document.querySelectorAll(".history .row").length === 5`)
		var got []string
		p.eval(whats, &got)
		answered := "Answered send"
		if strings.HasSuffix(t.Name(), "/stele") {
			answered += " certainly" // only stele's server tells
		}
		want := []string{"Model answered **Done.** The mail is on its way.", answered, "Model called send_mail", "Began", "Person wrote hello ann"}
		if quote(got) != quote(want) {
			t.Errorf("the history says\n%s, want\n%s", quote(got), quote(want))
		}
		p.see("the question", `document.querySelectorAll(".history .row")[2].querySelector(".then.waiting").innerText === "send asks: Send this mail?"`)
		p.see("the tokens of a step", `document.querySelector(".history .row .meter.tokens").innerText === "22 tokens"`)
		p.see("no time of a step in which a person was waited for", `document.querySelectorAll(".history .row .meter.time").length === 3 && !document.querySelectorAll(".history .row")[1].querySelector(".meter.time")`)
		// What the step was is the title of the checkpoint, whose values have no internals until they are asked for.
		p.do(chromedp.Click(chromedp.CSS(`.history .row:nth-child(4)`)))
		p.see("its title", `document.querySelector(".title h2")?.innerText === "Began"`)
		p.see("the person's words for a node", `document.querySelector(".task summary b")?.innerText === "model" && !document.querySelector("[aria-label='About this checkpoint']")`)
		p.do(chromedp.Click(chromedp.CSS(`.switch input`)))
		p.see("the raw checkpoint", `location.hash.includes("raw=1") && document.querySelector("[aria-label='About this checkpoint']")?.innerText.includes("run_id")`)
		p.check(axe(t), "raw values")
	})
}

// A row says who answered, on a server that knows who its users are.
func TestAnsweredByWhom(t *testing.T) {
	chromium(t)
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	saver := memory.New(memory.Options{})
	queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := graph.New(graph.Key("messages", channel.LastValue[any]()), graph.Key("note", channel.LastValue[string]())).Node("approve", func(ctx context.Context, _ any) (any, error) {
		answer, err := pregel.Ask(ctx, map[string]any{"action_requests": []any{map[string]any{"name": "refund", "args": map[string]any{"amount": 20}}}})
		return map[string]any{"note": fmt.Sprint(answer)}, err
	}).Edge(graph.Start, "approve").Compile(graph.Options{Name: "mail", Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"mail": g}, Saver: saver, Store: items, Queue: queue, Logger: slog.New(slog.DiscardHandler),
		Auth: server.APIKeys(map[string]*server.User{"key-ann": {Identity: "ann"}})})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(api)
	t.Cleanup(func() { s.CloseClientConnections(); _ = api.Close(); s.Close() })
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewServer(New(Remote(to, http.Header{"X-Api-Key": {"key-ann"}}), Options{}))
	t.Cleanup(page.Close)
	ann := backend{page.URL + "/api"}
	thread := ann.thread(t, "hello ann")
	ann.call(t, "POST", "/threads/"+thread+"/runs/wait", map[string]any{"assistant_id": "mail", "command": map[string]any{"resume": map[string]any{"decisions": []any{map[string]any{"type": "approve"}}}}}, nil)
	p := open(t, page.URL)
	p.show("#/threads/" + thread)
	p.see("who approved what", whats+`.includes("Approved refund, by ann")`)
	p.see("what was asked", `document.querySelector(".then.waiting").innerText === "asks to run refund"`)
}

// counting counts the requests for histories that reach a server, and the checkpoints that it gave.
func counting(t *testing.T, b backend) (base string, requests, states *atomic.Int64) {
	t.Helper()
	to, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	requests, states = new(atomic.Int64), new(atomic.Int64)
	api := Remote(to, nil)
	s := httptest.NewServer(New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/history") {
			api.ServeHTTP(w, r)
			return
		}
		requests.Add(1)
		var list []json.RawMessage
		kept := httptest.NewRecorder()
		api.ServeHTTP(kept, r)
		if json.Unmarshal(kept.Body.Bytes(), &list) == nil {
			states.Add(int64(len(list)))
		}
		for k, v := range kept.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(kept.Code)
		_, _ = io.Copy(w, bytes.NewReader(kept.Body.Bytes()))
	}), Options{}))
	t.Cleanup(s.Close)
	return s.URL, requests, states
}

// A long thread goes to a step, and to a time, with a request or two, and not by way of all that lies between.
func TestJump(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, _ string) {
		many := 400
		if strings.HasSuffix(t.Name(), "/stele") {
			many = 10_000
		}
		var steps []any
		for i := range many {
			steps = append(steps, map[string]any{"updates": []any{map[string]any{"values": map[string]any{"note": fmt.Sprint("note ", i)}, "as_node": "send"}}})
		}
		var made struct {
			ID string `json:"thread_id"`
		}
		b.call(t, "POST", "/threads", map[string]any{"graph_id": "mail", "metadata": map[string]any{"graph_id": "mail"}, "supersteps": steps}, &made)
		base, requests, states := counting(t, b)
		p := open(t, base)
		p.show("#/threads/" + made.ID)
		p.see("the newest rows", `document.querySelectorAll(".history .row").length > 5`)
		before, given := requests.Load(), states.Load()
		jump := func(to string) {
			p.fill(".jump input", to)
			p.do(js(`document.querySelector(".jump").requestSubmit()`))
		}
		cost := func(what string) {
			t.Helper()
			// A page, the checkpoint itself, and the next page if the place is near the end of the first.
			if n, got := requests.Load()-before, states.Load()-given; n > 3 || got > 201 {
				t.Errorf("%s took %d requests for %d checkpoints", what, n, got)
			}
			before, given = requests.Load(), states.Load()
		}
		step := fmt.Sprint(many / 2)
		jump(step)
		p.see("the step", `document.querySelector(".history .row[aria-selected=true] .step")?.innerText === "step `+step+`" && document.querySelector(".facts")?.innerText.includes("step `+step+`")`)
		p.see("that some are left out", `document.querySelector(".history .foot").innerText.includes("are loaded")`)
		cost("the jump to a step")
		var at string
		p.eval(`new Date(document.querySelector(".history .row[aria-selected=true] time").dateTime).toISOString()`, &at)
		// The time of the checkpoint leads to it, or to one of the same millisecond.
		p.do(chromedp.Reload())
		p.see("the page anew", `document.querySelector(".history .row")`)
		p.show("#/threads/" + made.ID)
		p.see("the newest", `document.querySelector("#cp-0[aria-selected=true]")`)
		before, given = requests.Load(), states.Load()
		jump(at)
		p.see("the time", `Math.abs(new Date(document.querySelector(".history .row[aria-selected=true] time").dateTime) - new Date(`+quote(at)+`)) < 1000 && !document.querySelector("#cp-0[aria-selected=true]")`)
		cost("the jump to a time")
		// What was left out is loaded when it is asked for, and the newest is there still.
		p.do(js(`document.querySelector(".history .scroll").scrollTop = 97 * 52`))
		p.do(chromedp.Click(chromedp.CSS(`.history .row.gap`)))
		p.see("more", `parseInt(document.querySelector(".history .foot").innerText.replace(",", "")) > 290`)
		p.click("newest")
		p.see("the newest", `document.querySelector("#cp-0[aria-selected=true]")`)
		jump("999999")
		p.says("No checkpoint of step 999999 was found.")
		jump("soon")
		p.says("Write the number of a step")
	})
}
