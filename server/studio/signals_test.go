package studio

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// A signal is sent where a thread waits for it; one that was refused is sent again, mended; one that nobody takes is seen.
func TestSignals(t *testing.T) {
	chromium(t)
	replies := pregel.NewSignal[string]("reply")
	b := serveGraphs(t, func(s saver.Saver, items store.Store) map[string]*pregel.Graph {
		g, err := graph.New(graph.Key("said", channel.LastValue[string]())).Node("wait", func(ctx context.Context, _ any) (any, error) {
			reply, err := replies.Receive(ctx)
			return map[string]any{"said": reply}, err
		}).Edge(graph.Start, "wait").Compile(graph.Options{Name: "letters", Saver: s, Store: items})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*pregel.Graph{"letters": g}
	})
	var made struct {
		ID string `json:"thread_id"`
	}
	b.call(t, "POST", "/threads", map[string]any{}, &made)
	b.call(t, "POST", "/threads/"+made.ID+"/runs", map[string]any{"assistant_id": "letters", "input": map[string]any{"said": ""}}, nil)
	p := open(t, serve(t, b))
	p.show("#/threads/" + made.ID)
	p.see("the form", `document.querySelector("form.signal[aria-label='Send reply'] textarea")`)
	p.see("an empty inbox", `!document.querySelector("[aria-label='Signals not received yet'], [aria-label='Refused signals']")`)
	p.check(axe(t), "a form of a signal")
	b.call(t, "POST", "/stele/threads/"+made.ID+"/signals/replay", map[string]any{"value": map[string]any{"n": 1}}, nil)
	p.do(chromedp.Reload())
	p.see("what nobody takes", `document.querySelector("[aria-label='Signals not received yet'] .item b")?.innerText === "replay"`)

	// What is no JSON, and no text either, is not sent.
	p.fill("form.signal textarea", `{"yes"`)
	p.click("Send signal “reply”")
	p.see("what is wrong", `document.querySelector("form.signal .error")?.innerText.startsWith("This is not JSON")`)
	p.fill("form.signal textarea", `{"yes": true}`)
	p.fill("form.signal input[name=key]", "first")
	p.click("Send signal “reply”")
	p.see("that it was refused", `document.querySelector("[aria-label='Refused signals'] .item")?.innerText.includes("string")`)
	p.see("the failure", `document.querySelector("main .status.error")`)
	p.check(axe(t), "refused signals")
	b.call(t, "POST", "/threads/"+made.ID+"/runs", map[string]any{"assistant_id": "letters"}, nil)
	p.see("that it waits again", `document.querySelector("form.signal textarea")`)
	p.do(js(`[...document.querySelectorAll("[aria-label='Refused signals'] button")].find(e => e.innerText === "send again").click()`))
	p.see("the value that was sent", `document.querySelector("dialog textarea")?.value.includes('"yes": true')`)
	p.fill("dialog textarea", "yes, with two")
	p.submit("Send")
	p.see("that it was taken", `document.querySelector("main .status.done") && !document.querySelector("form.signal, [aria-label='Refused signals']") && document.querySelector("[aria-label=Values]")?.innerText.includes("yes, with two")`)
	p.see("what nobody takes still", `document.querySelector("[aria-label='Signals not received yet'] .item b")?.innerText === "replay"`)
}
