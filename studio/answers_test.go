package studio

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	var q struct{ Limit, Offset int }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, q.Limit)
	from := min(q.Offset, len(s.ids))
	page := []any{}
	for _, id := range s.ids[from:min(from+q.Limit, len(s.ids))] {
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
				return fmt.Sprintf(`document.querySelector(".threads .scroll > div")?.style.height === "%dpx"`, rows*44)
			}
			p.see("rows", `document.querySelector(".threads .row")`)
			p.see("all rows", `(document.querySelector(".threads .scroll").scrollTop = 1e6) && `+long(c.rows))
			// One is new, and one comes from below what is read again.
			s.mu.Lock()
			moved := s.ids[c.rows-10]
			s.ids = append([]string{"new", moved}, append(s.ids[:c.rows-10:c.rows-10], s.ids[c.rows-9:]...)...)
			s.mu.Unlock()
			p.see("one more row", long(c.rows+1))
			// Every row is there, once, in its place.
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
