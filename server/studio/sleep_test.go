package studio

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// A thread that waits for an instant, or for a signal, asks nobody: every screen says what it waits for, none has a
// form, and it is not in the inbox. The version of the graph is told.
func TestSleeping(t *testing.T) {
	chromium(t)
	replies := pregel.NewSignal[string]("reply")
	b := serveGraphs(t, func(s saver.Saver, items store.Store) map[string]*pregel.Graph {
		g, err := graph.New(graph.Key("how", channel.LastValue[string]())).Node("nap", func(ctx context.Context, in any) (any, error) {
			if in.(map[string]any)["how"] == "signal" {
				_, err := replies.Receive(ctx)
				return nil, err
			}
			return nil, pregel.Sleep(ctx, 72*time.Hour)
		}).Edge(graph.Start, "nap").Compile(graph.Options{Name: "nap", Saver: s, Store: items, Version: "seven"})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*pregel.Graph{"nap": g}
	})
	ids := map[string]string{}
	for _, how := range []string{"instant", "signal"} {
		var made struct {
			ID string `json:"thread_id"`
		}
		b.call(t, "POST", "/threads", map[string]any{}, &made)
		b.call(t, "POST", "/threads/"+made.ID+"/runs", map[string]any{"assistant_id": "nap", "input": map[string]any{"how": how}}, nil)
		ids[how] = made.ID
	}
	p := open(t, serve(t, b))
	row := func(how string) string {
		return `[...document.querySelectorAll(".threads .row")].find(a => a.href.endsWith(` + quote(ids[how]) + `))`
	}
	p.see("both asleep", `[...document.querySelectorAll(".threads .row .status")].filter(e => e.innerText === "sleeping").length === 2`)
	p.see("until when", `/^sleeps until \d{4}-\d\d-\d\d \d\d:\d\d, in 3 d$/.test(`+row("instant")+`.querySelector(".about").innerText)`)
	p.see("for what", row("signal")+`.querySelector(".about").innerText === "waits for the signal reply"`)
	p.show("#/threads?status=sleeping")
	p.see("both", row("instant")+` && `+row("signal"))
	p.show("#/threads?status=waiting")
	p.says("No thread is like that.")
	p.show("#/inbox")
	p.says("Nobody is asked anything.")

	p.show("#/threads/" + ids["instant"])
	p.see("until when", `document.querySelector(".waits")?.innerText.includes("sleeps until 20")`)
	p.see("the run", `document.querySelector(".runs .status")?.innerText === "sleeping" && document.querySelector(".runs .note").innerText.startsWith("until 20")`)
	p.see("its row", `document.querySelector(".history .then")?.innerText.startsWith("sleeps until 20") && document.querySelector(".history .stand.sleeping")`)
	p.see("the version", `document.querySelector(".named .note").innerText.includes("version seven")`)
	p.see("no form", `!document.querySelector(".questions") && document.querySelector("main .status").innerText === "sleeping"`)
	p.check(axe(t), "a thread that sleeps")
	p.show("#/threads/" + ids["instant"] + "?view=timeline")
	p.see("that it sleeps", `document.querySelector(".wave.asleep .figures")?.innerText === "sleeps"`)
	p.show("#/threads/" + ids["signal"])
	p.see("for what", `document.querySelector(".waits")?.innerText.includes("waits for the signal reply")`)

	p.show("#/runs")
	p.see("until when", `[...document.querySelectorAll("tbody .error-of")].map(e => e.innerText).sort().map(e => e.slice(0, 8)).join() === "until 20,until it"`)
	p.do(chromedp.Click(chromedp.CSS(`tbody a`)))
	p.see("its thread", `location.hash.startsWith("#/threads/")`)
}

// What goes on with a thread is the assistant that made its checkpoint, also while the thread does not tell it yet: the
// first of all would run another graph on it.
func TestAssistantOfACheckpoint(t *testing.T) {
	chromium(t)
	type m = map[string]any
	th := m{"thread_id": "t", "status": "interrupted", "metadata": m{}, "values": m{}, "created_at": "2026-03-01T09:00:00Z", "updated_at": "2026-03-01T09:05:00Z"}
	p := open(t, serveAnswers(t, m{
		"GET /info":               m{"version": "test"},
		"POST /assistants/search": []any{m{"assistant_id": "a", "graph_id": "first", "name": "first", "metadata": m{}}, m{"assistant_id": "b", "graph_id": "second", "name": "second", "metadata": m{}}},
		"GET /assistants/a/graph": m{"nodes": []any{}, "edges": []any{}},
		"GET /assistants/b/graph": m{"nodes": []any{}, "edges": []any{}},
		"POST /threads/search":    []any{th},
		"POST /threads/count":     0,
		"GET /threads/t":          th,
		"GET /threads/t/runs":     []any{},
		"POST /threads/t/history": []any{m{"checkpoint": m{"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": checkpointID(1)}, "metadata": m{"source": "loop", "step": 0, "graph_id": "second"}, "created_at": "2026-03-01T11:50:00Z", "next": []any{"talk"}, "tasks": []any{}, "values": m{}}},
	}))
	p.show("#/threads/t")
	p.click("Continue")
	p.see("the assistant", `document.querySelector("dialog select")?.selectedOptions[0].innerText === "second"`)
}

// A text is a message, in a thread that has messages, or nothing yet. Who deletes a thread is told its title.
func TestMessage(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		p := open(t, base)
		p.click("New thread")
		p.submit("Create")
		p.says("This thread has no checkpoint yet.")
		p.click("Send input")
		p.choose("dialog select", "mail")
		p.fill("textarea[name=input]", "hello {ann}")
		p.submit("Run")
		p.says("A question waits")
		p.see("what was said", `document.querySelector(".bubble.human")?.innerText.includes("hello {ann}")`)
		p.see("that nothing goes on without an answer", `(all => all.includes("Edit state") && !all.includes("Continue"))([...document.querySelectorAll(".actions button")].map(e => e.innerText))`)
		p.click("Delete")
		p.see("which thread", `document.querySelector("dialog b")?.innerText.trim() === "hello {ann}"`)
	})
}
