package studio

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// waitingRoom is a server with threads that wait, each for the approval of one call, until they are
// answered.
type waitingRoom struct {
	http.Handler
	mu      sync.Mutex
	threads []string          // that wait, oldest first
	text    map[string]string // what the call of a thread says
	answers []string          // thread and decision, in the order in which they came
	refused string            // the thread whose answers are refused
	held    chan struct{}     // if set, states are given once it is closed
	asking  chan struct{}     // gets a value for each state that is held
	streams int               // runs that were to be followed
}

func (s *waitingRoom) question(id string) map[string]any {
	type m = map[string]any
	return m{"id": "same", "value": m{"action_requests": []any{m{"name": "refund", "args": m{"text": s.text[id]}}},
		"review_configs": []any{m{"action_name": "refund", "allowed_decisions": []string{"approve", "reject"}}}}}
}

func (s *waitingRoom) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type m = map[string]any
	_, path, _ := strings.Cut(r.URL.Path, "/threads/")
	id, what, _ := strings.Cut(path, "/")
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if what == "state" && held != nil {
		s.asking <- struct{}{}
		<-held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	thread := func(id string) m {
		return m{"thread_id": id, "status": "interrupted", "updated_at": "2026-03-01T09:00:00Z", "metadata": m{"title": "the case " + id}, "values": m{}, "interrupts": m{"t": []any{s.question(id)}}}
	}
	var answer any
	switch {
	case what == "state":
		answer = m{"checkpoint": m{"checkpoint_id": "c-" + id}, "metadata": m{}, "next": []any{"ask"}, "values": m{}, "tasks": []any{m{"id": "t", "name": "ask", "interrupts": []any{s.question(id)}}}}
	case what == "runs" && r.Method == http.MethodPost:
		if id == s.refused {
			http.Error(w, `{"detail":"not yours"}`, http.StatusForbidden)
			return
		}
		var body struct {
			Command struct {
				Resume map[string]struct {
					Decisions []struct{ Type, Message string }
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d := body.Command.Resume["same"].Decisions[0]
		s.answers = append(s.answers, strings.TrimSpace(id+" "+d.Type+" "+d.Message))
		s.threads = slices.DeleteFunc(s.threads, func(t string) bool { return t == id })
		answer = m{"run_id": "r", "thread_id": id, "status": "pending"}
	case what == "runs/r":
		answer = m{"run_id": "r", "thread_id": id, "status": "success"}
	case what == "runs/stream":
		s.streams++
	case path == "search":
		all := []any{}
		for _, t := range s.threads {
			all = append(all, thread(t))
		}
		answer = all
	case path == "count":
		answer = len(s.threads)
	default:
		s.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(quote(answer)))
}

func (s *waitingRoom) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// press presses Enter and holds it until it has been repeated.
func (p *tab) press(repeats int) {
	p.t.Helper()
	for i := range repeats + 1 {
		p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
			repeated := i > 0
			_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13, Text: "\r", UnmodifiedText: "\r", AutoRepeat: &repeated})
			return chromedp.Void{}, err
		})
	}
	p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyUp", Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13})
		return chromedp.Void{}, err
	})
}

// A decision is about what the person saw: one press sends one answer; what is shown is not swapped for
// another; what was refused stays; and what was asked anew meanwhile is not answered.
func TestDecisionMeansWhatWasSeen(t *testing.T) {
	chromium(t)
	s := &waitingRoom{text: map[string]string{"b": "pay\u00ad\u061c\u034f\u180e\u3164\ufe0f\U000e0041 \u2600\ufe0f"}, asking: make(chan struct{}, 100), Handler: answering(map[string]any{
		"GET /info":               map[string]any{"version": "test"},
		"POST /assistants/search": []any{map[string]any{"assistant_id": "a", "graph_id": "g", "name": "g", "metadata": map[string]any{}}},
	})}
	for i := range 9 {
		s.threads = append(s.threads, string(rune('b'+i)))
	}
	web := httptest.NewServer(New(s, Options{}))
	defer web.Close()
	p := open(t, web.URL)
	p.show("#/inbox")
	shows := func(id string) {
		t.Helper()
		p.see("the question of "+id, `document.querySelector(".inbox h2")?.innerText === "the case `+id+`" && document.querySelector(".questions .call")`)
	}
	answers := func(want ...string) {
		t.Helper()
		s.with(func() {
			if !slices.Equal(s.answers, want) {
				t.Errorf("the answers are %q, want %q", s.answers, want)
			}
			s.answers = nil
		})
	}
	const approve = `document.querySelector(".questions [data-decision=approve]")`
	decided := func(id string) string {
		return `document.querySelector(".inset[role=status]")?.innerText.includes("Answered: the case ` + id + `.") && document.querySelector(".inset[role=status]").innerText.includes("has ended")`
	}

	// What cannot be seen is made visible, and an emoji stays one.
	shows("b")
	p.see("the hidden characters", `document.querySelector(".args dd").innerText === "pay\\u00ad\\u061c\\u034f\\u180e\\u3164\\ufe0f\\u{e0041} \u2600\ufe0f"`)

	// The first of the list stays on the screen when another comes before it.
	s.with(func() { s.threads = append([]string{"a"}, s.threads...) })
	p.see("the new one", `document.querySelector(".ask")?.innerText.includes("the case a")`)
	shows("b")

	// Two clicks, and one on what comes in the place of the first, at once.
	p.settled()
	p.eval(`new Promise(done => {
		`+approve+`.click(); `+approve+`.click()
		const seen = () => document.querySelector(".inbox h2")?.innerText === "the case c" && `+approve+` ? (`+approve+`.click(), setTimeout(() => done(true), 300)) : requestAnimationFrame(seen)
		seen()
	})`, new(bool))
	p.see("the end of b", decided("b"))
	answers("b approve")

	// Enter that is held.
	shows("c")
	p.settled()
	p.do(chromedp.Focus(chromedp.CSS(`.inbox .scroll`)))
	p.press(20)
	p.see("that it chose the form, and no more", `document.activeElement === `+approve)
	p.press(20)
	p.see("the end of c", decided("c"))
	shows("d")
	p.settled()
	answers("c approve")

	// What the server refuses stays, with what was written.
	s.with(func() { s.refused = "d" })
	p.key("r")
	p.fill(`.questions textarea`, "not today")
	p.click("Reject the call")
	p.see("why it was refused", `document.querySelector(".questions [role=alert]")?.innerText.includes("not yours")`)
	p.see("what was written, in its place", `document.querySelector(".questions textarea")?.value === "not today" && [...document.querySelectorAll(".ask")].some(a => a.innerText.includes("the case d"))`)
	s.with(func() { s.refused = "" })
	p.click("Reject the call")
	p.see("the end of d", decided("d"))
	answers("d reject not today")

	// The node asks another question at the same checkpoint, under the same id.
	shows("e")
	p.settled()
	p.key("r")
	p.fill(`.questions textarea`, "no part of it")
	s.with(func() { s.text["e"] = "all of it" })
	p.click("Reject the call")
	p.says("Somebody else was first")
	p.see("the other question", `document.querySelector(".args dd")?.innerText === "all of it" && !document.querySelector(".questions [data-decided], .questions textarea")`)
	answers()

	// Whoever goes on before the answer is on its way stays where they are; and an answer to that may
	// be sent beside it.
	p.settled()
	hold := make(chan struct{})
	s.with(func() { s.held = hold })
	p.do(js(approve + `.click()`))
	<-s.asking
	s.with(func() { s.held = nil })
	p.do(chromedp.Focus(chromedp.CSS(`.inbox .scroll`)))
	p.key("j")
	shows("f")
	p.settled()
	p.key("r")
	p.fill(`.questions textarea`, "wait")
	close(hold)
	p.see("the end of e", decided("e"))
	shows("f")
	p.see("what was written", `document.querySelector(".questions textarea")?.value === "wait"`)
	p.click("Reject the call")
	p.see("the end of f", decided("f"))
	answers("e approve", "f reject wait")
	// The letters that decide can be switched off, for good.
	shows("g")
	p.settled()
	p.key("?")
	p.do(chromedp.Click(chromedp.CSS(`dialog .switch input`)))
	p.submit("Close")
	p.do(chromedp.Reload())
	shows("g")
	p.settled()
	var touched bool
	p.eval(`(async () => {
		document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "r", bubbles: true, cancelable: true}))
		for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame)
		return !!document.querySelector(".questions [data-decided], .questions kbd")
	})()`, &touched)
	if touched {
		t.Error("a letter decides, although that is switched off")
	}
	answers()
	if s.streams != 0 {
		t.Errorf("%d runs keep a connection of the browser's open", s.streams)
	}
}

// A jump waits for the page that is being loaded, and tells what is not there from what could not be read;
// what failed is asked for again.
func TestJumpTells(t *testing.T) {
	chromium(t)
	type m = map[string]any
	state := func(i int) m {
		return m{"checkpoint": m{"checkpoint_id": fmt.Sprintf("1f0a0000-0000-6000-8000-%012d", i)}, "metadata": m{"source": "loop", "step": i}, "created_at": "2026-03-01T11:50:00Z", "next": []any{}, "tasks": []any{}, "values": m{}}
	}
	var mu sync.Mutex
	hold, broken := make(chan struct{}), false
	answers := answering(m{
		"GET /info":               m{"version": "test"},
		"POST /assistants/search": []any{},
		"GET /threads/t":          m{"thread_id": "t", "status": "idle", "metadata": m{}, "values": m{}},
		"GET /threads/t/runs":     []any{},
	})
	s := httptest.NewServer(New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/threads/t/history" {
			answers.ServeHTTP(w, r)
			return
		}
		<-hold
		mu.Lock()
		defer mu.Unlock()
		if broken {
			http.Error(w, `{"detail":"the disk is away"}`, http.StatusInternalServerError)
			return
		}
		var q struct {
			Metadata *struct{ Step int }
			Before   *struct{}
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		page := []any{}
		for i := 130; i > 30 && q.Metadata == nil && q.Before == nil; i-- {
			page = append(page, state(i))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(quote(page)))
	}), Options{}))
	defer s.Close()
	p := open(t, s.URL)
	p.show("#/threads/t")
	jump := func(to string) {
		t.Helper()
		p.fill(".jump input", to)
		p.do(js(`document.querySelector(".jump").requestSubmit()`))
	}
	jump("step 125")
	p.do(js(`new Promise(requestAnimationFrame)`))
	close(hold)
	p.see("the step", `document.querySelector(".history .row[aria-selected=true] .step")?.innerText === "step 125" && !document.querySelector(".jump [role=alert]")`)
	jump("7")
	p.says("No checkpoint of step 7 was found.")
	jump("May 5")
	p.says("Write the number of a step")
	mu.Lock()
	broken = true
	mu.Unlock()
	jump("8")
	p.says("The history could not be read: the disk is away")
	mu.Lock()
	broken = false
	mu.Unlock()
	p.click("Try again")
	p.see("no error", `!document.querySelector(".history .scroll [role=alert]")`)
}

// An answer is not sent where it is not known what it is for, or what goes on with it.
func TestAnswerIsForWhat(t *testing.T) {
	chromium(t)
	type m = map[string]any
	ask := func(id any) m {
		return m{"id": fmt.Sprint("t", id), "name": "ask", "interrupts": []any{m{"id": id, "value": "Well?"}}}
	}
	thread := func(id string) m { return m{"thread_id": id, "status": "interrupted", "metadata": m{}, "values": m{}} }
	state := func(tasks ...any) m {
		return m{"checkpoint": m{"checkpoint_id": "1f0a0000-0000-6000-8000-000000000001"}, "metadata": m{"step": 0}, "created_at": "2026-03-01T11:50:00Z", "next": []any{"ask"}, "values": m{}, "tasks": tasks}
	}
	one, two := state(ask(nil)), state(ask("q"), ask(nil))
	p := open(t, serveAnswers(t, m{
		"GET /info":                     m{"version": "test"},
		"POST /assistants/search":       []any{m{"assistant_id": "a", "graph_id": "g", "name": "first"}, m{"assistant_id": "b", "graph_id": "h", "name": "second"}},
		"GET /threads/one":              thread("one"),
		"GET /threads/one/runs":         []any{},
		"GET /threads/one/state":        one,
		"POST /threads/one/history":     []any{one},
		"POST /threads/one/runs/stream": m{},
		"GET /threads/two":              thread("two"),
		"GET /threads/two/runs":         []any{},
		"GET /threads/two/state":        two,
		"POST /threads/two/history":     []any{two},
		"POST /threads/count":           2,
	}))
	p.do(js(`{ const before = window.fetch; window.sent = []; window.fetch = (u, o) => { if (String(u).endsWith("/runs/stream")) sent.push(o.body); return before(u, o) } }`))
	p.show("#/threads/one")
	p.fill(".questions textarea", "yes")
	p.click("Answer")
	p.says("Choose the assistant that continues the thread.")
	p.see("where", `document.activeElement.name === "assistant" && sent.length === 0`)
	p.choose(".questions select[name=assistant]", "second")
	p.click("Answer")
	p.see("the answer", `sent.length === 1 && sent[0].includes('"assistant_id":"b","command":{"resume":"yes"}')`)
	p.show("#/threads/two")
	p.says("2 questions wait")
	p.fill("textarea[name=a0]", "yes")
	p.fill("textarea[name=a1]", "no")
	p.choose(".questions select[name=assistant]", "second")
	p.click("Answer")
	p.says("an answer cannot say which one it is for")
	p.see("nothing more", `sent.length === 1`)
}
