package studio

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// The page to hand on has the conversation and each checkpoint, runs nothing that a thread holds,
// and asks for nothing. The lines are the history that the server tells, and can be read again.
func TestExport(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		thread := b.thread(t, "tell me **all** & <b>more</b>")
		evil := strings.Join(hostile[:6], "\n") + "</pre></section><script>window.harmed = true</script><style>body{display:none}</style><meta http-equiv=refresh content='0;url=/gone'><link rel=stylesheet href=/x.css><img src=/x.png><iframe src=/y></iframe>"
		b.call(t, "POST", "/threads/"+thread+"/state", map[string]any{"values": map[string]any{"note": evil, "messages": []any{
			map[string]any{"role": "user", "content": evil, "name": evil},
			map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{"id": "c", "name": evil, "args": map[string]any{evil: evil}}}},
		}}, "as_node": "model"}, nil)
		p := open(t, base)
		p.show("#/threads/" + thread)
		p.see("the history", `document.querySelectorAll(".history .row").length === 4`)
		p.do(js(`URL.createObjectURL = (b) => (window.exported = b, "blob:none")`))
		p.click("Export")
		p.click("NDJSON")
		p.see("the lines", `window.exported?.type === "application/x-ndjson"`)
		var text string
		p.eval(`exported.text()`, &text)
		var want []any
		b.call(t, "POST", "/threads/"+thread+"/history", map[string]any{"limit": 100}, &want)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) != len(want) || len(lines) != 4 {
			t.Fatalf("%d lines of %d checkpoints", len(lines), len(want))
		}
		for i, line := range lines {
			var got any
			if err := json.Unmarshal([]byte(line), &got); err != nil || !reflect.DeepEqual(got, want[i]) {
				t.Errorf("line %d: %v\n%s\nwant\n%s", i, err, line, quote(want[i]))
			}
		}

		p.click("Export")
		p.click("A page to hand on")
		p.see("the page", `window.exported?.type === "text/html"`)
		p.eval(`exported.text()`, &text)
		// A colleague opens it. Its server would give it whatever it asks for.
		var mu sync.Mutex
		var asked []string
		colleague := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked = append(asked, r.URL.Path)
			mu.Unlock()
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(text))
		}))
		defer colleague.Close()
		c := open(t, colleague.URL)
		c.see("the conversation", `document.querySelectorAll("section").length === 4`)
		var said []string
		c.eval(`[...document.querySelectorAll("section")].map(e => e.innerText)`, &said)
		for i, part := range []string{"tell me **all** & <b>more</b>", "calls send_mail", "<script>window.harmed = true</script>", "calls <script>"} {
			if i < len(said) && !strings.Contains(said[i], part) {
				t.Errorf("the conversation lacks %q: %q", part, said[i])
			}
		}
		var page struct {
			Harmed, Seen bool
			Markup       []string
			Checkpoints  int
			Text         string
		}
		c.eval(`(document.querySelectorAll("details").forEach(d => d.open = true), {harmed: !!window.harmed, seen: document.body.offsetHeight > 100, checkpoints: document.querySelectorAll("details").length,
			markup: [...document.querySelectorAll("script, img, svg, iframe, link, a, meta[http-equiv=refresh], body style, [onerror], [onload], [onclick]")].map(e => e.outerHTML), text: document.body.innerText})`, &page)
		if page.Harmed || !page.Seen || len(page.Markup) > 0 || page.Checkpoints != 4 || !strings.Contains(page.Text, `\u202egnp.exe`) {
			t.Errorf("the page: harmed %t, seen %t, %d checkpoints, markup %q", page.Harmed, page.Seen, page.Checkpoints, page.Markup)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, path := range asked {
			if path != "/" && path != "/favicon.ico" {
				t.Errorf("the page asked for %s", path)
			}
		}
	})
}
