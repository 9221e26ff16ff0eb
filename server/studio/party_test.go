package studio

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// partyState is what the graph `party` stores.
type partyState struct {
	Values struct {
		Task   string
		Guests []string
		Dish   string
	}
	Next []string
}

func (b backend) party(t *testing.T, thread string) (s partyState) {
	t.Helper()
	b.call(t, "GET", "/threads/"+url.PathEscape(thread)+"/state", nil, &s)
	return s
}

// begin makes a thread of the graph `party` in the page, and runs it with a task.
func (p *tab) begin(task string, pauses ...string) (thread string) {
	p.t.Helper()
	p.show("#/threads")
	p.click("New thread")
	p.submit("Create")
	p.says("This thread has no checkpoint yet.")
	var hash string
	p.eval(`location.hash`, &hash)
	p.click("Send input")
	p.see("the assistants", `document.querySelectorAll("dialog select option").length === 4`)
	p.choose("dialog select", "party")
	p.fill("textarea[name=input]", `{"task": `+quote(task)+`}`)
	for _, node := range pauses {
		p.do(chromedp.Click(chromedp.CSS(`dialog .pauses input[value=` + quote(node) + `]`)))
	}
	p.submit("Run")
	return strings.TrimPrefix(hash, "#/threads/")
}

// choose takes the option that says text.
func (p *tab) choose(selector, text string) {
	p.t.Helper()
	p.see("the option "+text, `[...document.querySelectorAll(`+quote(selector+" option")+`)].some(o => o.innerText === `+quote(text)+`)`)
	p.do(js(`{ const e = document.querySelector(` + quote(selector) + `); e.value = [...e.options].find(o => o.innerText === ` + quote(text) + `).value; e.dispatchEvent(new Event("change", {bubbles: true})) }`))
}

// keepTalking lets the node `talk` say all it has to, until the function that it returns is called.
func keepTalking() (end func()) {
	quit := make(chan struct{})
	go func() {
		for {
			select {
			case moreWords <- struct{}{}:
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit) }
}

// ended is true when the run that the page follows has ended.
const ended = `document.querySelector(".live")?.innerText.includes("The run ended")`

// Two questions of one superstep are answered at once, each by its id: one in the form that its
// schema describes, one as text. What ran in a subgraph is shown inside its task.
func TestParty(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		p := open(t, base)
		thread := p.begin("invite")
		p.says("2 questions wait")
		p.see("the graph that the thread is of", `document.querySelector(".questions select[name=assistant]").selectedOptions[0].innerText === "party"`)
		p.see("a form and a text", `document.querySelectorAll(".questions .choices, .questions input[inputmode=numeric], .questions textarea").length === 3`)
		p.do(chromedp.Click(`//label[normalize-space()="Yes"]`))
		p.fill(".questions input[inputmode=numeric]", "three")
		p.click("Answer")
		p.says("How many: write a whole number.")
		p.fill(".questions input[inputmode=numeric]", "3")
		p.fill(".questions textarea", "no")
		p.click("Answer")
		p.see("four more checkpoints", `document.querySelectorAll(".history .row").length === 5 && !document.querySelector(".questions")`)
		s := b.party(t, thread)
		slices.Sort(s.Values.Guests)
		// The kitchen gives back the guests that it was given, and they are added again.
		if !slices.Equal(slices.Compact(s.Values.Guests), []string{"ann true 3", "bob no"}) || s.Values.Dish != "soup for 2" || len(s.Next) != 0 {
			t.Fatalf("after the answers the thread has %+v", s)
		}
		// The kitchen is the task of the checkpoint before the newest.
		p.do(chromedp.Click(chromedp.CSS(`.history .row:nth-child(2)`)))
		p.see("its task", `[...document.querySelectorAll(".task > summary")].some(e => e.innerText.includes("kitchen") && (e.click(), true))`)
		p.see("its subgraph", `[...document.querySelectorAll(".task .toggle")].some(e => e.innerText.includes("subgraph") && (e.click(), true))`)
		p.see("what ran in it", `[...document.querySelectorAll(".task .task > summary")].some(e => e.innerText.includes("next: soup")) && document.querySelector(".task .task").innerText.includes("soup for 2")`)
	})
}

// Tokens appear as they come, and become the message that is stored.
func TestTokens(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		p := open(t, base)
		p.begin("talk")
		if strings.HasSuffix(t.Name(), "/stele") { // its model waits to be seen
			p.see("the first words", `document.querySelector(".live .bubble")?.innerText.trim() === "one two" && !(`+ended+`)`)
			moreWords <- struct{}{}
		}
		p.see("the end of the run", ended)
		p.see("the whole message, once", `document.querySelectorAll(".live .bubble").length === 1 && document.querySelector(".live .bubble").innerText === "one two three four five"`)
		p.see("the message that is stored", `document.querySelector(".conversation .bubble")?.innerText.includes("one two three four five")`)
	})
}

// A run is cancelled from the page, and from the list of the thread's runs.
func TestCancel(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		p := open(t, base)
		thread := p.begin("wait")
		status := func() string {
			var th struct{ Status string }
			b.call(t, "GET", "/threads/"+thread, nil, &th)
			return th.Status
		}
		// LangGraph's server ends the run first, and the thread a moment later.
		idle := func() {
			t.Helper()
			for range 600 {
				if status() != "busy" {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Error("the thread is busy still")
		}
		p.see("the run", `document.querySelector(".runs .status")?.innerText === "running"`)
		if got := status(); got != "busy" {
			t.Errorf("the thread is %s", got)
		}
		p.see("the button", `[...document.querySelectorAll(".live button")].some(e => e.innerText === "cancel" && (e.click(), true))`)
		p.submit("Cancel it")
		p.see("the end of the run", `!document.querySelector(".runs .status.busy") && document.querySelector(".runs .status")`)
		idle()
		// Somebody else's run, which this page does not follow.
		b.call(t, "POST", "/threads/"+thread+"/runs", map[string]any{"assistant_id": "party", "input": map[string]any{"task": "wait"}}, nil)
		p.see("the other run", `[...document.querySelectorAll(".runs .status.busy ~ button")].some(e => (e.click(), true))`)
		p.submit("Cancel it")
		p.see("its end", `document.querySelectorAll(".runs li").length === 2 && !document.querySelector(".runs .status.busy")`)
		idle()
	})
}

// A run pauses before the nodes that were chosen, and goes on; from an older checkpoint it runs
// again, and another input begins a branch.
func TestPauseAndFork(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		p := open(t, base)
		if strings.HasSuffix(t.Name(), "/stele") {
			defer keepTalking()()
		}
		thread := p.begin("talk", "talk")
		p.see("the pause", ended)
		if s := b.party(t, thread); !slices.Equal(s.Next, []string{"talk"}) {
			t.Fatalf("at the breakpoint the thread has %+v", s)
		}
		p.see("two checkpoints", `document.querySelectorAll(".history .row").length === 2`)
		p.click("Continue")
		p.submit("Continue")
		p.see("three checkpoints", `document.querySelectorAll(".history .row").length === 3`)
		if s := b.party(t, thread); len(s.Next) != 0 {
			t.Fatalf("after the breakpoint the thread has %+v", s)
		}
		// Again from the middle: a branch with what the node did again.
		p.do(chromedp.Click(chromedp.CSS(`.history .row:nth-child(2)`)))
		p.click("Run again from here")
		p.submit("Run")
		p.see("a branch", `document.querySelectorAll(".history .row").length >= 4 && document.querySelectorAll(".lanes path").length === 1`)
		p.see("the newest", `document.querySelector(".history .row[aria-selected=true]") === document.querySelector(".history .row")`)
		// Another input from there.
		var rows int
		p.eval(`document.querySelectorAll(".history .row").length`, &rows)
		p.do(js(`[...document.querySelectorAll(".history .row")].at(-2).click()`))
		p.click("Fork with input")
		p.choose("dialog select", "party")
		p.fill("textarea[name=input]", `{"task": "invite"}`)
		p.submit("Run")
		p.says("2 questions wait")
		if s := b.party(t, thread); s.Values.Task != "invite" || s.Values.Dish != "not known" {
			t.Fatalf("after the other input the thread has %+v", s)
		}
		var history []partyState
		b.call(t, "POST", "/threads/"+thread+"/history", map[string]any{"limit": 100}, &history)
		if len(history) <= rows {
			t.Errorf("the history has %d checkpoints after %d", len(history), rows)
		}
	})
}

// What a person is typing, or has chosen, stays when the page reads the thread again. The list
// follows what is typed; the keyboard alone compares two checkpoints.
func TestTyping(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		thread := b.thread(t, "typing")
		p := open(t, base)
		p.show("#/threads/" + thread)
		p.says("A question waits")
		p.choose(".questions select", "party")
		p.click("Edit state")
		p.fill("textarea[name=values]", `{"note": "mine"}`)
		p.fill("input[name=node]", "mod")
		b.call(t, "POST", "/threads/"+thread+"/state", map[string]any{"values": map[string]any{"note": "other"}, "as_node": "model"}, nil)
		p.see("the other's edit", `document.querySelectorAll(".history .row").length === 4`)
		p.see("what was typed", `document.querySelector("textarea[name=values]").value === '{"note": "mine"}' && document.querySelector("input[name=node]").value === "mod"`)
		p.do(chromedp.KeyEvent(kb.Escape))
		p.see("no dialog", `!document.querySelector("dialog")`)

		p.do(chromedp.Focus(chromedp.CSS(`.history .scroll`)), chromedp.KeyEvent(kb.ArrowDown, chromedp.KeyModifiers(chromedp.ModifierShift)))
		p.says("Compared with")
		p.see("both ends", `document.querySelector(".history .row.other") && document.querySelector(".history .row[aria-selected=true]:not(.other)")`)

		p.show("#/threads")
		p.see("the list", `document.querySelectorAll(".threads .row").length > 0`)
		p.do(chromedp.KeyEvent("/"))
		p.see("the search", `document.activeElement.type === "search" && (document.activeElement.value = "", true)`)
		p.do(chromedp.KeyEvent("user=ann"))
		p.see("the address", `location.hash.includes("q=user%3Dann")`)
		p.see("the thread", `[...document.querySelectorAll(".threads .row")].some(a => a.href.endsWith(`+quote(thread)+`))`)
		p.do(chromedp.KeyEvent("-and-more"))
		p.says("No thread is like that.")
		p.see("the field", `document.querySelector("input[type=search]").value === "user=ann-and-more"`)

		// By the assistant.
		p.show("#/threads")
		p.choose(".bar label:nth-of-type(2) select", "mail")
		p.see("threads of it", `location.hash.includes("assistant=") && document.querySelector("input[type=search]").value === "" && [...document.querySelectorAll(".threads .row")].some(a => a.href.endsWith(`+quote(thread)+`))`)
		p.choose(".bar label:nth-of-type(2) select", "party")
		p.see("others", `![...document.querySelectorAll(".threads .row")].some(a => a.href.endsWith(`+quote(thread)+`))`)
	})
}
