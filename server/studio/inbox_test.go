package studio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The inbox has the questions of all threads, and the form that answers one; filters choose among them,
// and the tab's title says how many there are.
func TestInbox(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		first := b.desk(t, "desk", "one please")
		second := b.desk(t, "desk_each", "both please")
		mine := b.thread(t, "of the mail")
		p := open(t, base)
		p.see("the count in the title", `/^\([0-9]+\) stele studio$/.test(document.title) && document.querySelector(".badge")?.innerText`)
		p.do(js(`[...document.querySelectorAll("nav a")].find(a => a.innerText.startsWith("Inbox")).click()`))
		row := func(thread string) string {
			return `[...document.querySelectorAll(".ask")].find(a => a.href.includes(` + quote(thread) + `))`
		}
		p.see("all three", row(first)+` && `+row(second)+` && `+row(mine))
		p.see("the title", `/^\([0-9]+\) Inbox · stele studio$/.test(document.title)`)
		p.see("the question in words", row(first)+`.innerText.includes("refund: ") && `+row(first)+`.innerText.includes("9007199254740993") && `+row(mine)+`.innerText.includes("Send this mail?")`)

		// Filters: the graph and the owner on the server, the age by its order.
		p.choose(".bar label:nth-of-type(1) select", "desk")
		p.see("those of the graph", row(first)+` && !`+row(second)+` && !`+row(mine))
		p.choose(".bar label:nth-of-type(1) select", "all")
		p.see("its owner", row(mine)+` && [...document.querySelectorAll(".bar option")].some(o => o.innerText === "ann")`)
		p.fill(`input[type=search]`, "user=ann")
		p.see("those of the person", row(mine)+` && !`+row(second))
		p.fill(`input[type=search]`, "owner=ann")
		p.see("those of the owner", row(first)+` && !`+row(mine))
		p.choose(".bar label:nth-of-type(3) select", "over 7 days")
		p.says("No question is like that.")
		p.show("#/inbox?order=desc&q=" + "owner%3Dann")
		p.see("newest first", `document.querySelector(".ask")?.href.includes(`+quote(second)+`)`)

		// The keyboard alone: down to the other thread, into its form, and answered.
		p.see("the form of the first", `document.querySelectorAll(".questions .call").length === 2`)
		p.do(chromedp.Focus(chromedp.CSS(`.inbox .scroll`)), chromedp.KeyEvent(kb.ArrowDown))
		p.see("the other", `document.querySelector(".ask[aria-selected=true]")?.href.includes(`+quote(first)+`) && document.querySelectorAll(".questions .call").length === 1`)
		p.key("Enter")
		p.see("its first decision", `document.activeElement.dataset.decision === "approve"`)
		p.settled()
		p.do(chromedp.KeyEvent(kb.Enter))
		p.says("Answered: one please")
		p.see("that it waits no longer", `!`+row(first)+` && `+row(second))
		p.says("The run has ended.")
		if s := b.state(t, first); len(s.Next) != 0 {
			t.Errorf("after the answer the thread has %+v", s)
		}
		// A link to a question that is answered says so.
		p.show("#/inbox?id=" + first)
		p.says("Nothing waits here any more")
	})
}

// The inbox asks the server for a page of what waits, never for more, and counts without a list.
func TestInboxIsCheap(t *testing.T) {
	chromium(t)
	var threads []any
	for i := range 50 {
		threads = append(threads, map[string]any{"thread_id": fmt.Sprintf("t%d", i), "status": "interrupted", "metadata": map[string]any{}, "created_at": "2026-03-01T09:00:00Z", "updated_at": "2026-03-01T09:00:00Z",
			"stele_title": fmt.Sprint("thread ", i), "interrupts": map[string]any{"t": []any{map[string]any{"id": "q", "value": "Really?"}}}})
	}
	p := open(t, serveAnswers(t, map[string]any{
		"GET /info":               map[string]any{"version": "test", "stele": map[string]any{"thread_status": true, "brief_values": true}},
		"POST /assistants/search": []any{},
		"POST /threads/search":    threads,
		"POST /threads/count":     100_000,
		"GET /threads/t0/state":   map[string]any{"values": map[string]any{}, "next": []any{}, "tasks": []any{}, "metadata": map[string]any{}, "checkpoint": map[string]any{}},
	}))
	p.show("#/inbox")
	p.see("the page, and the count", `document.querySelectorAll(".ask").length === 50 && document.querySelector(".badge")?.innerText === "100,000"`)
	p.do(js(`{ const before = window.fetch; window.asked = []; window.fetch = (u, o) => { if (String(u).includes("/threads/")) asked.push(new URL(u).pathname + " " + (o?.body ?? "")); return before(u, o) } }`))
	p.click("show more")
	p.see("the larger page", `asked.some(a => a.includes('"limit":100'))`)
	var asked []string
	p.eval(`asked.filter(a => a.startsWith("/api/threads/search"))`, &asked)
	for _, a := range asked {
		if !strings.Contains(a, `"stele_status":"waiting"`) || !strings.Contains(a, `"stele_values":"about"`) || !strings.Contains(a, `"limit":50`) && !strings.Contains(a, `"limit":100`) {
			t.Errorf("asked for %s", a)
		}
	}
}
