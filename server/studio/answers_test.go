package studio

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// manyThreads is a server with a list of threads, newest first.
type manyThreads struct {
	http.Handler
	mu   sync.Mutex
	ids  []string
	most int // the most that were asked for at once
}

func (s *manyThreads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/threads/search" {
		s.Handler.ServeHTTP(w, r)
		return
	}
	var q struct {
		Limit, Offset int
		IDs           []string
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, q.Limit)
	ids := s.ids
	if q.IDs != nil {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(q.IDs, id) })
	}
	from := min(q.Offset, len(ids))
	page := []any{}
	for _, id := range ids[from:min(from+q.Limit, len(ids))] {
		page = append(page, map[string]any{"thread_id": id, "status": "idle", "metadata": map[string]any{}, "values": map[string]any{}})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(quote(page)))
}

// A list that is longer than what is read again keeps all its rows while threads come to its top.
func TestLongList(t *testing.T) {
	chromium(t)
	for _, c := range []struct {
		name        string
		stele       map[string]any
		rows, again int
	}{
		{"stele's server", map[string]any{"brief_values": true}, 1200, 1000},
		{"a server that gives all values", nil, 500, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &manyThreads{Handler: answering(map[string]any{
				"GET /info":               map[string]any{"version": "test", "stele": c.stele},
				"POST /assistants/search": []any{},
			})}
			for i := range c.rows {
				s.ids = append(s.ids, fmt.Sprintf("old-%04d", i))
			}
			web := httptest.NewServer(New(s, Options{}))
			defer web.Close()
			p := open(t, web.URL)
			long := func(rows int) string {
				return fmt.Sprintf(`document.querySelector(".threads .scroll > div")?.style.height === "%dpx"`, rows*56)
			}
			p.see("rows", `document.querySelector(".threads .row")`)
			p.see("all rows", `(document.querySelector(".threads .scroll").scrollTop = 1e6) && `+long(c.rows))
			// One is new, and one comes from below what is read again.
			s.mu.Lock()
			moved := s.ids[c.rows-10]
			s.ids = append([]string{"new", moved}, append(s.ids[:c.rows-10:c.rows-10], s.ids[c.rows-9:]...)...)
			s.mu.Unlock()
			p.see("one more row", long(c.rows+1))
			// One that is below what is read again is deleted by somebody else, while it is seen.
			s.mu.Lock()
			gone := s.ids[len(s.ids)-5]
			s.ids = slices.Delete(s.ids, len(s.ids)-5, len(s.ids)-4)
			s.mu.Unlock()
			p.do(js(`document.querySelector(".threads .scroll").scrollTop = 1e6`))
			p.see("that it is gone", long(c.rows)+` && ![...document.querySelectorAll(".threads .row")].some(a => a.href.endsWith(`+quote(gone)+`))`)
			// Every other row is there, once, in its place.
			var shown []string
			p.eval(`(async () => {
				const scroll = document.querySelector(".threads .scroll"), ids = []
				for (let top = 0; top < scroll.scrollHeight; top += 640) {
					scroll.scrollTop = top
					for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame)
					for (const a of document.querySelectorAll(".threads .row")) ids[a.id.slice(4)] = decodeURIComponent(a.href.split("/").at(-1))
				}
				return ids
			})()`, &shown)
			s.mu.Lock()
			defer s.mu.Unlock()
			if got, want := strings.Join(shown, " "), strings.Join(s.ids, " "); got != want {
				t.Errorf("the list has\n%s, want\n%s", got, want)
			}
			if s.most != c.again {
				t.Errorf("%d threads were asked for at once, want %d", s.most, c.again)
			}
		})
	}
}

// A call of a tool in OpenAI's form, in a message of LangChain's, is shown and exported; so is one
// that says nothing.
func TestOtherCalls(t *testing.T) {
	chromium(t)
	type m = map[string]any
	at := m{"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1f0a0000-0000-6000-8000-000000000000"}
	state := m{"checkpoint": at, "metadata": m{"source": "loop", "step": 0}, "created_at": "2026-03-01T11:50:00Z", "next": []any{}, "tasks": []any{},
		"values": m{"messages": []any{m{"type": "ai", "content": "", "tool_calls": []any{
			m{"id": "1", "type": "function", "function": m{"name": "send_mail", "arguments": `{"to": "ann"}`}}, m{"id": "2"}}}}}}
	s := httptest.NewServer(New(answering(m{
		"GET /info":               m{"version": "test"},
		"POST /assistants/search": []any{},
		"GET /threads/t":          m{"thread_id": "t", "status": "idle", "metadata": m{}, "values": m{}},
		"GET /threads/t/runs":     []any{},
		"POST /threads/t/history": []any{state},
		"GET /threads/t/state":    state,
	}), Options{}))
	defer s.Close()
	p := open(t, s.URL)
	p.show("#/threads/t")
	p.see("both calls", `document.querySelectorAll(".bubble .call").length === 2`)
	p.see("what the first calls", `document.querySelector(".bubble .call").textContent.includes("send_mail") && document.querySelector(".bubble .call").textContent.includes("ann")`)
	p.do(js(`URL.createObjectURL = (b) => (window.exported = b, "blob:none")`))
	p.click("Export")
	p.click("A page to hand on")
	p.see("the page", `window.exported?.type === "text/html"`)
	var exported string
	p.eval(`exported.text()`, &exported)
	if want := `<pre>calls send_mail {&quot;to&quot;: &quot;ann&quot;}</pre><pre>calls  </pre></section>`; !strings.Contains(exported, want) {
		t.Errorf("the exported page lacks %s:\n%s", want, exported)
	}
}

// odd is whatever a program may have stored in place of a name.
var odd = []any{nil, 7, true, "", []any{"a", nil}, map[string]any{"toString": 1, "length": -1}, map[string]any{"$stele": "bytes", "bytes": "many", "start": 5},
	map[string]any{"$stele": "type", "type": map[string]any{"toString": 1}}, map[string]any{"$stele": "large", "bytes": nil}}

// Whatever stands where a name, a text or a list is expected, the page shows the thread.
func TestOdd(t *testing.T) {
	chromium(t)
	type m = map[string]any
	for i, x := range odd {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			at := func(i int) m {
				return m{"thread_id": "t", "checkpoint_ns": x, "checkpoint_id": fmt.Sprintf("1f0a0000-0000-6000-800%d-000000000000", i)}
			}
			messages := []any{
				m{"type": "human", "id": x, "name": x, "content": x},
				m{"type": "ai", "id": x, "content": []any{x, m{"type": x, "text": x}, m{"type": "text", "text": x}}, "usage_metadata": x, "tool_calls": x, "invalid_tool_calls": x},
				m{"type": "ai", "content": x, "usage_metadata": m{"total_tokens": x}, "invalid_tool_calls": []any{x, m{"name": x}},
					"tool_calls": []any{x, m{"id": x, "name": x, "args": x}, m{"id": "c", "function": x}, m{"function": m{"name": x, "arguments": x}}}},
				m{"type": "tool", "tool_call_id": x, "content": x, "status": x}, m{"type": "tool", "tool_call_id": "c", "content": x, "status": x},
				m{"type": "ai", "content": "the last words"},
			}
			task := m{"id": x, "name": x, "path": x, "error": x, "result": x, "checkpoint": x, "interrupts": []any{x, m{"id": x, "value": x, "response_schema": x},
				m{"id": "q", "value": x, "response_schema": m{"properties": m{"a": x}}}, m{"id": x, "value": x, "response_schema": m{"properties": m{"a": m{"type": "string", "title": x, "enum": []any{x, "b"}}}}}}}
			states := []any{
				m{"checkpoint": at(1), "parent_checkpoint": at(0), "metadata": m{"source": x, "step": x, "run_id": x}, "created_at": x, "next": []any{x, "n"}, "tasks": []any{x, task, m{"name": x, "interrupts": x}},
					"interrupts": x, "values": m{"messages": messages, "odd": x, "": x, "__proto__": x}},
				m{"checkpoint": at(0), "parent_checkpoint": x, "metadata": x, "created_at": x, "next": x, "tasks": x, "values": m{"messages": messages[1:], "odd": "even"}},
			}
			thread := m{"thread_id": "t", "status": x, "stele_status": x, "created_at": x, "updated_at": x, "metadata": x, "values": x, "stele_about": x, "interrupts": m{"a": x, "b": []any{x, m{"id": x, "value": x, "response_schema": x}, m{"id": "q", "value": m{"action_requests": []any{x, m{"name": x, "args": x}}, "review_configs": x}}}}}
			s := httptest.NewServer(New(answering(m{
				"GET /info":                m{"version": x, "flags": x},
				"POST /assistants/search":  []any{m{"assistant_id": "a", "graph_id": x, "name": x, "metadata": x}, m{"assistant_id": "b", "graph_id": "g", "name": x}},
				"GET /assistants/a/graph":  m{"nodes": []any{x, m{"id": x}, m{"id": "n"}}, "edges": []any{x, m{"source": x, "target": "n", "data": x}, m{"source": "n", "target": "n", "data": x}}},
				"POST /threads/search":     []any{thread},
				"GET /threads/t":           thread,
				"GET /threads/t/runs":      []any{m{"run_id": x, "status": x, "created_at": x}},
				"POST /threads/t/history":  states,
				"GET /threads/t/state":     states[0],
				"POST /store/namespaces":   m{"namespaces": []any{[]any{x, "b"}}},
				"POST /store/items/search": m{"items": []any{m{"namespace": []any{x}, "key": x, "value": x, "updated_at": x}}},
			}), Options{}))
			defer s.Close()
			p := open(t, s.URL)
			p.see("the list", `document.querySelectorAll(".threads .row").length === 1`)
			p.show("#/threads/t")
			p.see("the whole conversation", `document.querySelectorAll(".bubble").length > 3 && document.querySelector(".conversation").innerText.includes("the last words")`)
			p.do(js(`document.querySelectorAll("details").forEach(d => d.open = true)`))
			for range 3 {
				p.do(js(`document.querySelectorAll('.toggle[aria-expanded="false"]').forEach(b => b.click())`))
			}
			p.show("#/threads/t?at=1f0a0000-0000-6000-8001-000000000000&with=1f0a0000-0000-6000-8000-000000000000")
			p.see("the differences", `document.querySelectorAll(".difference").length >= 2`)
			p.do(js(`URL.createObjectURL = (b) => (window.exported = b, "blob:none")`))
			p.click("Export")
			p.click("A page to hand on")
			p.see("the page", `window.exported?.type === "text/html"`)
			p.show("#/inbox?id=t")
			p.see("the questions", `document.querySelectorAll(".ask").length === 1 && document.querySelector(".inbox .questions")`)
			p.show("#/store?ns=%7Bnot")
			p.see("the items", `document.querySelector(".item")`)
			var broken []string
			if p.eval(`[...document.querySelectorAll("[role=alert]")].map(e => e.innerText)`, &broken); len(broken) > 0 {
				t.Errorf("the page says %q", broken)
			}
		})
	}
}

// serveAnswers serves the page for a server that has one answer for each request.
func serveAnswers(t *testing.T, answers map[string]any) string {
	t.Helper()
	s := httptest.NewServer(New(answering(answers), Options{}))
	t.Cleanup(s.Close)
	return s.URL
}

// Problems of a store are told in words, and those of a later store by their names.
func TestProblemsInWords(t *testing.T) {
	chromium(t)
	type m = map[string]any
	p := open(t, serveAnswers(t, m{
		"GET /info":               m{"version": "test", "stele": m{"health": true}},
		"POST /assistants/search": []any{},
		"POST /threads/search":    []any{},
		"GET /stele/health":       m{"health": m{"problems": []any{m{"kind": "disk_low", "detail": "3 GB are free"}, m{"kind": "of_tomorrow", "detail": "rain"}}, "space": m{"free": 3, "total": 4}}, "stats": m{"threads": 0, "log_files": 0, "log_bytes": 0, "segments": 0, "segment_bytes": 0, "raw_bytes": 0, "dead_bytes": 0, "images": 0, "compaction_debt": 0, "resident": 0}},
	}))
	p.see("no first choice where nothing can run", `document.querySelector(".bar button")?.innerText === "New thread" && !document.querySelector(".bar .primary")`)
	p.show("#/health")
	p.see("both in their boxes", `[...document.querySelectorAll(".task.failed")].map(e => e.innerText.replace(/\s+/g, " ")).join("; ") === "Low disk space 3 GB are free; of_tomorrow rain"`)
}

// A row of the list tells threads apart: what a person would call one, whose it is, what it waits for or
// was said last, how long it lasted; its id is short and is copied whole.
func TestList(t *testing.T) {
	chromium(t)
	type m = map[string]any
	said := func(kind, text string, more m) m {
		out := m{"type": kind, "content": text}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	structured := []any{said("human", "Where is\nmy parcel?", nil), said("ai", "", m{"tool_calls": []any{m{"id": "1", "name": "category", "args": m{}}}}), said("tool", "Returning structured response: {'category': 'parcel'}", m{"tool_call_id": "1"})}
	thread := func(id, status string, metadata, more m) m {
		out := m{"thread_id": id, "status": status, "metadata": metadata, "created_at": "2026-03-01T09:00:00Z", "updated_at": "2026-03-01T09:05:00Z", "values": m{}}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	review := m{"action_requests": []any{m{"name": "refund", "args": m{"order": 7}}}, "review_configs": []any{m{"action_name": "refund", "allowed_decisions": []any{"approve"}}}}
	threads := []any{
		thread("0192f7c0-1111-7000-8000-000000000001", "idle", m{"graph_id": "desk", "owner": "ann"}, m{"values": m{"messages": structured}}),
		thread("0192f7c0-1111-7000-8000-000000000002", "interrupted", m{"title": "A title", "user": "bob"}, m{"values": m{"messages": structured}, "interrupts": m{"t": []any{m{"id": "q", "value": review}}}}),
		thread("of a program", "error", m{}, m{"stele_title": "from the server", "stele_about": "its line", "stele_status": "failed"}),
		thread("0192f7c0-1111-7000-8000-000000000004", "idle", nil, m{"values": nil}),
		thread("0192f7c0-1111-7000-8000-000000000005", "error", m{"graph_id": "desk"}, m{"error": m{"error": "TaskError", "message": "out of paper (task 08f9dbe1-9a26-9c9e-aa14-6b38d9989584)"}}),
	}
	p := open(t, serveAnswers(t, m{"GET /info": m{"version": "test"}, "POST /assistants/search": []any{}, "POST /threads/search": threads, "POST /threads/count": 91}))
	p.see("the rows", `document.querySelectorAll(".threads .row").length === 5`)
	var rows [][]string
	p.eval(`[...document.querySelectorAll(".threads .row")].map(r => [r.querySelector("b").innerText, r.querySelector(".about").innerText, ...[...r.querySelectorAll(".of, .copy, .status")].map(e => e.innerText)])`, &rows)
	want := [][]string{
		{"Where is my parcel?", "calls category", "done", "desk", "ann", "0192f7c0…0001", "5 min"},
		{"A title", "refund: order 7", "waiting", "", "bob", "0192f7c0…0002", "5 min"},
		{"from the server", "its line", "failed", "", "", "of a program", "5 min"},
		{"untitled", "", "done", "", "", "0192f7c0…0004", "5 min"},
		{"desk", "out of paper", "failed", "desk", "", "0192f7c0…0005", "5 min"},
	}
	if quote(rows) != quote(want) {
		t.Errorf("the list has\n%s, want\n%s", quote(rows), quote(want))
	}
	p.says("5 threads")
	p.do(js(`document.execCommand = () => (window.copied = document.activeElement.value, true); navigator.clipboard.writeText = async (text) => { window.copied = text }`))
	p.do(js(`document.querySelector(".threads .copy").click()`))
	p.see("the whole id", `window.copied === "0192f7c0-1111-7000-8000-000000000001" && location.hash === "" && document.querySelector(".threads .copy").innerText === "copied"`)
}

// What has ended well has one colour, whether it is a thread, a checkpoint or a run; and a run that waits is
// no success, and asks nobody any more once a later one has gone on.
func TestOneColour(t *testing.T) {
	chromium(t)
	type m = map[string]any
	at := m{"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1f0a0000-0000-6000-8000-000000000000"}
	th := func(id, status, stele string) m {
		return m{"thread_id": id, "status": status, "stele_status": stele, "metadata": m{}, "values": m{}, "created_at": "2026-03-01T09:00:00Z", "updated_at": "2026-03-01T09:05:00Z"}
	}
	runs := []any{m{"run_id": "r1", "thread_id": "t", "status": "success", "waiting": true, "created_at": "2026-03-01T09:00:00Z", "attempt": 1}, m{"run_id": "r2", "thread_id": "t", "status": "success", "created_at": "2026-03-01T09:00:00Z", "attempt": 1},
		m{"run_id": "r3", "thread_id": "t", "status": "success", "waiting": true, "created_at": "2026-03-01T09:00:00Z", "attempt": 1}}
	p := open(t, serveAnswers(t, m{
		"GET /info":               m{"version": "test", "stele": m{"runs": true, "thread_status": true}},
		"POST /assistants/search": []any{},
		"POST /threads/search":    []any{th("t", "idle", "done"), th("u", "interrupted", "waiting")},
		"GET /threads/t":          th("t", "interrupted", "waiting"),
		"GET /threads/t/runs":     runs,
		"GET /stele/runs":         m{"runs": runs, "total": 3},
		"GET /stele/schedules":    m{"schedules": []any{}},
		"POST /threads/t/history": []any{m{"checkpoint": at, "metadata": m{"source": "loop", "step": 0}, "created_at": "2026-03-01T11:50:00Z", "next": []any{}, "tasks": []any{}, "values": m{}}},
	}))
	var colours []string
	look := func(what, script string) {
		t.Helper()
		p.see(what, script)
		var all []string
		p.eval(`[...document.querySelectorAll(".status:not(.readonly), .stand")].filter(e => e.offsetParent).map(e => (e.innerText || e.title) + " " + (e.className.startsWith("stand") ? getComputedStyle(e).backgroundColor : getComputedStyle(e).color))`, &all)
		colours = append(colours, all...)
	}
	look("the list", `document.querySelectorAll(".threads .row").length === 2`)
	p.show("#/threads/t")
	look("the thread", `document.querySelectorAll(".runs .status").length === 3 && [...document.querySelectorAll(".status:not(.readonly), .stand")].filter(e => e.offsetParent).length === 5`)
	p.show("#/runs")
	look("the runs", `document.querySelectorAll("tbody tr").length === 3`)
	by := map[string]string{}
	for _, c := range colours {
		word, colour, _ := strings.Cut(c, " ")
		if by[word] != "" && by[word] != colour {
			t.Errorf("%s is %s, and %s elsewhere", word, colour, by[word])
		}
		by[word] = colour
	}
	if len(by) != 3 || by["done"] == by["waiting"] || by["asked"] == by["waiting"] || len(colours) != 10 {
		t.Errorf("the states are %q", colours)
	}
}

// A screen with nothing on it says what would be there, and where it comes from.
func TestEmptyStates(t *testing.T) {
	chromium(t)
	type m = map[string]any
	none := []any{}
	p := open(t, serveAnswers(t, m{"GET /info": m{"version": "test", "stele": m{"runs": true, "tasks": true}}, "POST /assistants/search": none, "POST /threads/search": none, "POST /threads/count": 0,
		"GET /threads/t": m{"thread_id": "t", "status": "idle", "metadata": m{}, "values": m{}}, "GET /threads/t/runs": none, "POST /threads/t/history": none,
		"GET /stele/runs": m{"runs": none, "total": 0}, "GET /stele/schedules": m{"schedules": none}, "POST /store/namespaces": m{"namespaces": none}, "POST /store/items/search": m{"items": none}}))
	for hash, says := range map[string]string{"#/threads": "A thread is one conversation", "#/inbox": "the question waits here until somebody answers it", "#/store": "An item is what agents remember",
		"#/runs": "A run is one call of a graph on a thread", "#/threads/t": "This thread has no checkpoint yet."} {
		p.show(hash)
		p.see(hash, `document.querySelector(".empty")?.innerText.replace(/\s+/g, " ").includes(`+quote(says)+`)`)
	}
}
