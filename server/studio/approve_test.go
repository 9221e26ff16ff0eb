package studio

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// desk makes a thread on which the clerk of a graph asks for approval.
func (b backend) desk(t *testing.T, graph, text string) (thread string) {
	t.Helper()
	var made struct {
		ID string `json:"thread_id"`
	}
	b.call(t, "POST", "/threads", map[string]any{"metadata": map[string]any{"owner": "ann"}}, &made)
	b.call(t, "POST", "/threads/"+made.ID+"/runs/wait", map[string]any{
		"assistant_id": graph,
		"input":        map[string]any{"messages": []any{map[string]any{"role": "user", "content": text}}},
	}, nil)
	return made.ID
}

// answered waits for the end of the run, and returns the last words of the thread.
func (p *tab) answered(t *testing.T, b backend, thread string) string {
	t.Helper()
	p.see("the end of the run", ended)
	s := b.state(t, thread)
	if len(s.Next) > 0 {
		t.Fatalf("after the answer the thread has %+v", s)
	}
	said, _ := s.Values.Messages[len(s.Values.Messages)-1]["content"].(string)
	return said
}

// The request of LangChain's HumanInTheLoopMiddleware, and of stele's AskPerson, is a form: about one
// call, in both of the middleware's modes, each decision does what it says.
func TestApprove(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		axe := axe(t)
		p := open(t, base)
		decision := func(name string) string { return `button[data-decision=` + name + `]` }
		for _, graph := range []string{"desk", "desk_each"} {
			ask := func() (thread string) {
				t.Helper()
				thread = b.desk(t, graph, "one please")
				p.show("#/threads/" + thread)
				p.says("A call waits for approval")
				p.see("the call in words", `((e) => e?.querySelector("h4").innerText === "refund" && e.querySelector(".args").innerText.includes("9007199254740993") && e.innerText.includes("it came late") && !e.innerText.includes("Tool:"))(document.querySelector(".questions .call"))`)
				p.see("the decisions that are allowed", `[...document.querySelectorAll(".decisions button")].map(e => e.dataset.decision).join() === "approve,edit,reject,respond"`)
				return thread
			}
			expect := func(thread, want string) {
				t.Helper()
				if got := p.answered(t, b, thread); !strings.Contains(got, want) {
					t.Errorf("%s: the agent says %q, want %q", graph, got, want)
				}
			}
			thread := ask()
			for _, scheme := range []string{"light", "dark"} {
				p.do(emulate(scheme))
				p.check(axe, scheme+" approval")
			}
			p.do(chromedp.Click(chromedp.CSS(decision("approve"))))
			expect(thread, "order 9007199254740993, because it came late, notify true")

			// The keyboard alone. A letter does not approve: it takes Enter as well.
			thread = ask()
			p.do(chromedp.KeyEvent("a"))
			p.see("the button", `document.activeElement.dataset.decision === "approve"`)
			p.do(chromedp.KeyEvent(kb.Enter))
			expect(thread, "order 9007199254740993")

			thread = ask()
			p.do(chromedp.KeyEvent("e"))
			p.see("the first argument", `document.activeElement.closest(".more") && document.querySelector("input[name='a0.0.order']").value.endsWith("9007199254740993") && document.querySelector("input[name='a0.0.amount']").value.endsWith("12.5")`)
			p.check(axe, "edit")
			p.fill(`input[name="a0.0.order"]`, "9007199254740993") // the tests' browser has typed the letter as well
			p.fill(`input[name="a0.0.amount"]`, "much")
			p.click("Run the edited call")
			p.see("what is wrong", `document.querySelector(".questions [role=alert]").innerText.includes("write a number") && document.activeElement.name === "a0.0.amount"`)
			p.fill(`input[name="a0.0.amount"]`, "2.50")
			p.fill(`input[name="a0.0.reason"]`, "it was lost")
			p.click("Run the edited call")
			expect(thread, "order 9007199254740993, because it was lost, notify true")

			thread = ask()
			p.do(chromedp.KeyEvent("r"))
			p.see("the reason", `document.activeElement.name === "a0.0.message"`)
			p.fill(`textarea[name="a0.0.message"]`, "not now")
			p.click("Reject the call")
			expect(thread, "with reason: not now")

			thread = ask()
			p.do(chromedp.KeyEvent("s"))
			p.see("the answer", `document.activeElement.name === "a0.0.message"`)
			p.click("Send the answer")
			p.says("Write what the agent is answered.")
			p.fill(`textarea[name="a0.0.message"]`, "it was refunded before")
			p.click("Send the answer")
			expect(thread, "it was refunded before")
		}
	})
}

// Several calls are decided at once, each as its gate allows, also by keys alone.
func TestApproveSeveral(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		p := open(t, base)
		for _, graph := range []string{"desk", "desk_each"} {
			thread := b.desk(t, graph, "both please")
			p.show("#/threads/" + thread)
			p.see("both calls", `document.querySelectorAll(".questions .call").length === 2`)
			p.says("Look at the tone.")
			p.see("the decisions that are allowed", `[...document.querySelectorAll(".decisions")].map(g => [...g.children].map(e => e.dataset.decision).join()).join(" ") === "approve,edit,reject,respond approve,reject"`)
			p.click("Send 2 decisions")
			p.says("Decide about refund first.")
			p.do(chromedp.KeyEvent("e"))
			p.see("the first argument", `document.activeElement.closest(".more")`)
			for name, value := range map[string]string{"order": "9007199254740995", "amount": "2.50", "reason": "sorry"} {
				p.fill(`[name="a0.0.`+name+`"]`, value)
			}
			if graph == "desk_each" {
				p.do(js(`document.querySelector("input[name='a0.0.notify']").click()`))
			}
			p.do(js(`document.activeElement.blur()`), chromedp.KeyEvent("r"))
			p.see("why", `document.activeElement.tagName === "TEXTAREA"`)
			p.fill(`[name="a`+map[string]string{"desk": "0.1", "desk_each": "1.0"}[graph]+`.message"]`, "no mails")
			p.see("both decisions", `document.querySelectorAll(".call[data-decided]").length === 2`)
			p.click("Send 2 decisions")
			want := "order 9007199254740995, because sorry, notify true"
			if graph == "desk_each" {
				want = "order 9007199254740995, because sorry, notify false"
			}
			if got := p.answered(t, b, thread); !strings.Contains(got, want) || !strings.Contains(got, "with reason: no mails") {
				t.Errorf("%s: the agent says %q, want %q", graph, got, want)
			}
			// All at once.
			thread = b.desk(t, graph, "both please")
			p.show("#/threads/" + thread)
			p.see("both calls", `document.querySelectorAll(".questions .call").length === 2`)
			p.click("Approve all")
			p.click("Send 2 decisions")
			if got := p.answered(t, b, thread); !strings.Contains(got, "order 9007199254740993") || !strings.Contains(got, "wrote to ann") {
				t.Errorf("%s: the agent says %q", graph, got)
			}
		}
	})
}
