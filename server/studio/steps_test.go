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
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
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

// A row says who answered, who may be another than the one who began, on a server that knows who its users are.
func TestAnsweredByWhom(t *testing.T) {
	chromium(t)
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mem := memory.New(memory.Options{})
	queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := graph.New(graph.Key("messages", channel.LastValue[any]()), graph.Key("note", channel.LastValue[string]())).Node("approve", func(ctx context.Context, _ any) (any, error) {
		answer, err := pregel.Ask(ctx, map[string]any{"action_requests": []any{map[string]any{"name": "refund", "args": map[string]any{"amount": 20}}}})
		return map[string]any{"note": fmt.Sprint(answer)}, err
	}).Edge(graph.Start, "approve").Compile(graph.Options{Name: "mail", Saver: mem})
	if err != nil {
		t.Fatal(err)
	}
	team := server.APIKeys(map[string]*server.User{"key-ann": {Identity: "ann"}, "key-bob": {Identity: "bob"}})
	team.Authorize = func(context.Context, *server.User, server.Access) (server.Grant, error) { return server.Grant{}, nil }
	api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"mail": g}, Saver: mem, Store: items, Queue: queue, Logger: slog.New(slog.DiscardHandler),
		Auth: team})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(api)
	t.Cleanup(func() { s.CloseClientConnections(); _ = api.Close(); s.Close() })
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	as := func(key string) *httptest.Server {
		page := httptest.NewServer(New(Remote(to, http.Header{"X-Api-Key": {key}}), Options{}))
		t.Cleanup(page.Close)
		return page
	}
	page, bobs := as("key-ann"), as("key-bob")
	thread := backend{page.URL + "/api"}.thread(t, "hello ann")
	backend{bobs.URL + "/api"}.call(t, "POST", "/threads/"+thread+"/runs/wait", map[string]any{"assistant_id": "mail", "command": map[string]any{"resume": map[string]any{"decisions": []any{map[string]any{"type": "approve"}}}}}, nil)
	p := open(t, page.URL)
	p.show("#/threads/" + thread)
	p.see("who approved what", whats+`.includes("Approved refund, by bob")`)
	p.see("what was asked", `document.querySelector(".then.waiting").innerText === "asks to run refund"`)
}

// teamGraph is the team of docs/guide/agents.md: a supervisor that hands the conversation over, and two workers that hand
// it back.
func teamGraph(s saver.Saver) (*pregel.Graph, error) {
	handoff := func(to string) tool.Tool {
		return tool.Must(tool.New("give_to_"+to, "Hands over to "+to+".", tool.Unchecked(`{"type":"object"}`),
			func(ctx context.Context, _ struct{}) (pregel.Command, error) {
				call, _ := tool.CallOf(ctx)
				state, err := tool.State[message.State](ctx)
				messages := slices.Concat(message.List{message.Remove(message.RemoveAllID)}, state.Messages,
					message.List{message.ToolResult(call.ToolCall, to+" takes over")})
				return pregel.Command{Graph: pregel.Parent, Goto: []any{to}, Update: map[string]any{"messages": messages}}, err
			}))
	}
	add := tool.Must(tool.New("add", "Adds.", tool.Unchecked(`{"type":"object"}`), func(_ context.Context, in struct{ A, B int }) (string, error) {
		return fmt.Sprint(in.A + in.B), nil
	}))
	call := func(name string, args map[string]any) model.Answer {
		return model.Calls(message.ToolCall{Name: name, ID: name, Args: args})
	}
	models := map[string]model.Model{
		"supervisor":    model.NewScripted(call("give_to_mathematician", nil), call("give_to_poet", nil), model.Text("That was all.")),
		"mathematician": model.NewScripted(call("add", map[string]any{"a": 40, "b": 2}), model.Text("It is 42.")),
		"poet":          model.NewScripted(model.Text("Forty and two, the sum is true.")),
	}
	b := graph.New(graph.Key("messages", message.Channel(nil))).Edge(graph.Start, "supervisor")
	for _, o := range []agent.Options{{Name: "supervisor", Tools: []tool.Tool{handoff("mathematician"), handoff("poet")}}, {Name: "mathematician", Tools: []tool.Tool{add}}, {Name: "poet"}} {
		member, err := agent.New(models[o.Name], o)
		if err != nil {
			return nil, err
		}
		b.Subgraph(o.Name, member)
		if o.Name != "supervisor" {
			b.Edge(o.Name, "supervisor")
		}
	}
	return b.Compile(graph.Options{Name: "team", Saver: s})
}

// A team's history says who spoke, what it called, and what it answered in the end; its graph where the Commands led.
func TestTeamSays(t *testing.T) {
	chromium(t)
	b := serveGraphs(t, func(s saver.Saver, _ store.Store) map[string]*pregel.Graph {
		g, err := teamGraph(s)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*pregel.Graph{"team": g}
	})
	var made struct {
		ID string `json:"thread_id"`
	}
	b.call(t, "POST", "/threads", map[string]any{}, &made)
	b.call(t, "POST", "/threads/"+made.ID+"/runs/wait", map[string]any{"assistant_id": "team",
		"input": map[string]any{"messages": []any{map[string]any{"role": "user", "content": "Add 40 and 2, and make a verse of it."}}}}, nil)
	p := open(t, serve(t, b))
	p.show("#/threads/" + made.ID)
	p.see("the rows", `document.querySelectorAll(".history .row").length === 7`)
	var got []string
	p.eval(whats, &got)
	want := []string{"supervisor answered That was all.", "poet answered Forty and two, the sum is true.", "supervisor called give_to_poet",
		"mathematician answered with add It is 42.", "supervisor called give_to_mathematician", "Began", "Person wrote Add 40 and 2, and make a verse of it."}
	if quote(got) != quote(want) {
		t.Errorf("the history says\n%s, want\n%s", quote(got), quote(want))
	}
	var edges []string
	p.see("the graph", `document.querySelector(".graph .edge.taken")`)
	p.eval(`[...document.querySelectorAll(".graph .edge.taken")].map(e => e.dataset.from + " " + e.dataset.to).sort()`, &edges)
	// As LangGraph, the drawing leaves out what cannot be reached by what is declared, and the edges that lead on from there.
	if !slices.Equal(edges, []string{"mathematician supervisor", "poet supervisor", "supervisor mathematician", "supervisor poet"}) {
		t.Errorf("the edges that were taken are %q", edges)
	}
	p.show("#/threads/" + made.ID + "?view=timeline")
	p.see("who spoke, once", `[...document.querySelectorAll(".wave .what")].some(e => e.innerText.replace(/\s+/g, " ").trim() === "mathematician answered with add")`)
}

// Tools that answered in one step are named, and of those of which one failed that one alone.
func TestToolsSay(t *testing.T) {
	chromium(t)
	type m = map[string]any
	at := func(i int) m {
		return m{"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": checkpointID(i)}
	}
	tool := func(name, status string) m {
		return m{"type": "tool", "id": name + status, "name": name, "status": status, "content": "of " + name, "tool_call_id": name}
	}
	history := []any{}
	for i, messages := range [][]any{{tool("look", "success"), tool("count", "success")}, {tool("write", "success"), tool("send", "error")}, nil} {
		s := m{"checkpoint": at(i), "metadata": m{"source": "loop", "step": i}, "created_at": "2026-03-01T11:50:00Z", "next": []string{}, "values": m{}, "tasks": []any{}}
		if i > 0 {
			s["parent_checkpoint"] = at(i - 1)
		}
		if messages != nil {
			s["tasks"] = []any{m{"id": fmt.Sprint(i), "name": "tools", "interrupts": []any{}, "result": m{"messages": messages}}}
		}
		history = slices.Insert(history, 0, any(s))
	}
	p := open(t, serveAnswers(t, m{"GET /info": m{"version": "test"}, "POST /assistants/search": []any{}, "GET /threads/t": m{"thread_id": "t", "status": "idle", "metadata": m{}, "values": m{}},
		"GET /threads/t/runs": []any{}, "POST /threads/t/history": history}))
	p.show("#/threads/t")
	p.see("the rows", `document.querySelectorAll(".history .row").length === 3`)
	var got []string
	p.eval(whats, &got)
	if want := []string{"Tool failed: send of send", "2 tools answered: look, count"}; quote(got[:2]) != quote(want) {
		t.Errorf("the history says %s, want %s", quote(got[:2]), quote(want))
	}
}

// counting counts the requests for histories that reach a server, and the checkpoints that it gave.
func counting(t *testing.T, b backend) (base string, requests, states *atomic.Int64) {
	t.Helper()
	requests, states = new(atomic.Int64), new(atomic.Int64)
	return watching(t, b, "/history", func(_ *http.Request, answer []byte) {
		requests.Add(1)
		var list []json.RawMessage
		if json.Unmarshal(answer, &list) == nil {
			states.Add(int64(len(list)))
		}
	}), requests, states
}

// watching serves the page for a server, and shows the requests whose path has an end, with their answers, before the page has these.
func watching(t *testing.T, b backend, end string, see func(r *http.Request, answer []byte)) (base string) {
	t.Helper()
	to, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	api := Remote(to, nil)
	s := httptest.NewServer(New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, end) {
			api.ServeHTTP(w, r)
			return
		}
		kept := httptest.NewRecorder()
		api.ServeHTTP(kept, r)
		see(r, kept.Body.Bytes())
		for k, v := range kept.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(kept.Code)
		_, _ = io.Copy(w, bytes.NewReader(kept.Body.Bytes()))
	}), Options{}))
	t.Cleanup(s.Close)
	return s.URL
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
