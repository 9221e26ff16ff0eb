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
				p.settled()
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
			p.key("a")
			p.see("the button", `document.activeElement.dataset.decision === "approve"`)
			p.do(chromedp.KeyEvent(kb.Enter))
			expect(thread, "order 9007199254740993")

			thread = ask()
			p.key("e")
			p.see("the first argument", `document.activeElement.closest(".more") && document.querySelector("input[name='a0.0.order']").value === "9007199254740993" && document.querySelector("input[name='a0.0.amount']").value === "12.5"`)
			p.check(axe, "edit")
			p.fill(`input[name="a0.0.amount"]`, "much")
			p.click("Run the edited call")
			p.see("what is wrong", `document.querySelector(".questions [role=alert]").innerText.includes("write a number") && document.activeElement.name === "a0.0.amount"`)
			p.fill(`input[name="a0.0.amount"]`, "2.50")
			p.fill(`input[name="a0.0.reason"]`, "it was lost")
			p.click("Run the edited call")
			expect(thread, "order 9007199254740993, because it was lost, notify true")

			thread = ask()
			p.key("r")
			p.see("the reason", `document.activeElement.name === "a0.0.message"`)
			p.fill(`textarea[name="a0.0.message"]`, "not now")
			p.click("Reject the call")
			expect(thread, "with reason: not now")

			thread = ask()
			p.key("s")
			p.see("the answer", `document.activeElement.name === "a0.0.message"`)
			p.click("Send the answer instead of running it")
			p.says("Write what the agent is answered.")
			p.fill(`textarea[name="a0.0.message"]`, "it was refunded before")
			p.click("Send the answer instead of running it")
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
			p.settled()
			p.says("Look at the tone.")
			p.see("the decisions that are allowed", `[...document.querySelectorAll(".decisions")].map(g => [...g.children].map(e => e.dataset.decision).join()).join(" ") === "approve,edit,reject,respond approve,reject"`)
			p.see("colours that tell apart, and what each does", `(([yes, , no, other]) => getComputedStyle(yes).color !== getComputedStyle(no).color && getComputedStyle(no).color === getComputedStyle(other).color && other.title.startsWith("Does not run"))([...document.querySelectorAll(".decisions button")])`)
			p.see("that two are left", `document.querySelector(".questions [type=submit][aria-disabled=true]").innerText === "Decide 2 more"`)
			p.click("Decide 2 more")
			p.says("Decide about refund first.")
			p.key("e")
			p.see("the first argument", `document.activeElement.closest(".more")`)
			for name, value := range map[string]string{"order": "9007199254740995", "amount": "2.50", "reason": "sorry"} {
				p.fill(`[name="a0.0.`+name+`"]`, value)
			}
			if graph == "desk_each" {
				p.do(js(`document.querySelector("input[name='a0.0.notify']").click()`))
			}
			p.do(js(`document.activeElement.blur()`))
			p.key("r")
			p.see("why", `document.activeElement.tagName === "TEXTAREA"`)
			p.fill(`[name="a`+map[string]string{"desk": "0.1", "desk_each": "1.0"}[graph]+`.message"]`, "no mails")
			p.see("both decisions", `document.querySelectorAll(".call[data-decided]").length === 2`)
			p.says("Not sent yet")
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
			p.settled()
			p.click("Mark all approved")
			p.click("Send 2 decisions")
			if got := p.answered(t, b, thread); !strings.Contains(got, "order 9007199254740993") || !strings.Contains(got, "wrote to ann") {
				t.Errorf("%s: the agent says %q", graph, got)
			}
		}
	})
}

// A question with a response schema is a form of it, whatever the schema has; what does not fit is told, and
// nothing is sent before it does.
func TestAnswerForms(t *testing.T) {
	chromium(t)
	type m = map[string]any
	object := func(properties m, required ...string) m {
		return m{"type": "object", "properties": properties, "required": append([]string{}, required...)}
	}
	for _, c := range []struct {
		name          string
		schema        m
		wrong         map[string]string // what is filled first, by the name of its field
		told          string
		right         map[string]string
		answer, empty string // the JSON that is sent; and what an empty form says, or sends
	}{
		{"integer", object(m{"n": m{"type": "integer", "title": "Number", "minimum": 1, "maximum": 10}}, "n"), map[string]string{".n": "11"}, "n: 11 is greater than 10.", map[string]string{".n": " 7"}, `{"n":7}`, "Number: write a number."},
		{"large", object(m{"n": m{"type": "integer"}}, "n"), map[string]string{".n": "1.5"}, "n: write a whole number.", map[string]string{".n": "9007199254740993"}, `{"n":9007199254740993}`, "n: write a number."},
		{"choice", object(m{"size": m{"enum": []any{1, 2, "three"}}}, "size"), nil, "", map[string]string{".size": "2"}, `{"size":2}`, "size: choose one."},
		{"default", object(m{"n": m{"type": "number", "default": 2.5}, "yes": m{"type": "boolean", "default": true}}), map[string]string{".n": "x"}, "n: write a number.", map[string]string{".n": "0.10"}, `{"n":0.10,"yes":true}`, `{"n":2.5,"yes":true}`},
		{"optional", object(m{"who": m{"anyOf": []any{m{"type": "string"}, m{"type": "null"}}, "default": nil}, "n": m{"type": "integer"}, "ok": m{"type": "boolean"}}), nil, "", map[string]string{".who": "ann", ".ok": "false"}, `{"ok":false,"who":"ann"}`, `{}`},
		{"yes or no", object(m{"ok": m{"type": "boolean"}}, "ok"), nil, "", map[string]string{".ok": "false"}, `{"ok":false}`, "ok: choose one."},
		{"none of the choices", object(m{"n": m{"enum": []any{1, 2}, "default": 5}}), nil, "", map[string]string{".n": "2"}, `{"n":2}`, "n: "},
		{"reference", m{"$defs": m{"Day": m{"enum": []any{"mon", "tue"}, "title": "Day"}}, "type": "object", "properties": m{"day": m{"$ref": "#/$defs/Day"}}, "required": []any{"day"}}, nil, "", map[string]string{".day": `"tue"`}, `{"day":"tue"}`, "Day: choose one."},
		{"pattern", object(m{"code": m{"type": "string", "pattern": "^[A-Z]+$", "minLength": 2}}, "code"), map[string]string{".code": "ab"}, "code: ", map[string]string{".code": "AB"}, `{"code":"AB"}`, "code: "},
		{"nested", object(m{"to": m{"type": "array", "items": m{"type": "string"}}}, "to"), map[string]string{".to": `["ann", 7]`}, "to / 1: a value of type string is asked for", map[string]string{".to": `["ann", "bob"]`}, `{"to":["ann","bob"]}`, "to: write a value."},
		{"not JSON", object(m{"to": m{"type": "object"}}, "to"), map[string]string{".to": `{"a"`}, "to: this is not JSON", map[string]string{".to": `{"a":1}`}, `{"to":{"a":1}}`, "to: write a value."},
		{"one text", m{"type": "string", "minLength": 3}, map[string]string{"": "no"}, "The answer: ", map[string]string{"": "yes"}, `"yes"`, "The answer: "},
		{"one number", m{"type": "number"}, map[string]string{"": "1,5"}, "write a number.", map[string]string{"": "1.50"}, `1.50`, "write a number."},
		{"free", nil, map[string]string{"": `{"a":`}, "This is not JSON", map[string]string{"": "just words"}, `"just words"`, "Write an answer first."},
		{"unreadable", m{"type": "array", "pattern": "("}, map[string]string{"": "[1"}, "this is not JSON", map[string]string{"": "[1]"}, `[1]`, "write a value."},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := m{"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1f0a0000-0000-6000-8000-000000000001"}
			state := m{"checkpoint": at, "metadata": m{"step": 0}, "created_at": "2026-03-01T11:50:00Z", "next": []any{"ask"}, "values": m{},
				"tasks": []any{m{"id": "1", "name": "ask", "interrupts": []any{m{"id": "q", "value": "Well?", "response_schema": c.schema}}}}}
			p := open(t, serveAnswers(t, m{
				"GET /info":                   m{"version": "test"},
				"POST /assistants/search":     []any{m{"assistant_id": "a", "graph_id": "g", "name": "g", "metadata": m{}}},
				"GET /assistants/a/graph":     m{"nodes": []any{}, "edges": []any{}},
				"GET /threads/t":              m{"thread_id": "t", "status": "interrupted", "metadata": m{}, "values": m{}},
				"GET /threads/t/runs":         []any{},
				"GET /threads/t/state":        state,
				"POST /threads/t/history":     []any{state},
				"POST /threads/count":         1,
				"POST /threads/t/runs/stream": m{},
			}))
			p.do(js(`{ const before = window.fetch; window.sent = []; window.fetch = (u, o) => { if (String(u).endsWith("/runs/stream")) sent.push(o.body); return before(u, o) } }`))
			p.show("#/threads/t")
			p.see("the form", `document.querySelector(".questions [name^=a0]")`)
			send := func(fields map[string]string) {
				t.Helper()
				for name, value := range fields {
					p.fill(`.questions [name=`+quote("a0"+name)+`]`, value)
				}
				p.click("Answer")
			}
			refused := func(told string) {
				t.Helper()
				p.see("the error "+told, `document.querySelector(".questions [role=alert]")?.innerText.includes(`+quote(told)+`) && sent.length === 0`)
			}
			sent := func(answer string) {
				t.Helper()
				p.see("the answer "+answer, `sent.length === 1`)
				var body string
				if p.eval(`sent.pop()`, &body); !strings.Contains(body, `"command":{"resume":{"q":`+answer+`}}`) {
					t.Errorf("sent is %s, want the answer %s", body, answer)
				}
			}
			if strings.HasPrefix(c.empty, "{") {
				send(nil)
				sent(c.empty)
			} else {
				send(nil)
				refused(c.empty)
			}
			if c.wrong != nil {
				send(c.wrong)
				refused(c.told)
				p.see("the focus in the field", `document.activeElement.name?.startsWith("a0")`)
			}
			send(c.right)
			sent(c.answer)
		})
	}
}
