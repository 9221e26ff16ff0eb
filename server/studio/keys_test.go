package studio

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/server"
)

// The keys work wherever the focus is; and who comes back to the list finds it, and the focus, where it was.
func TestKeys(t *testing.T) {
	chromium(t)
	axe := axe(t)
	type m = map[string]any
	var threads []any
	for i := range 40 {
		threads = append(threads, m{"thread_id": fmt.Sprintf("t%d", i), "status": "idle", "metadata": m{"title": fmt.Sprint("thread ", i)}, "values": m{}, "created_at": "2026-03-01T09:00:00Z", "updated_at": "2026-03-01T09:00:00Z"})
	}
	checkpoint := func(i int) m {
		return m{"checkpoint": m{"thread_id": "t25", "checkpoint_ns": "", "checkpoint_id": fmt.Sprintf("1f0a0000-0000-6000-8000-00000000000%d", i)}, "metadata": m{"source": "loop", "step": i}, "created_at": "2026-03-01T11:50:00Z", "next": []any{}, "tasks": []any{}, "values": m{}}
	}
	p := open(t, serveAnswers(t, m{
		"GET /info":                 m{"version": "test"},
		"POST /assistants/search":   []any{},
		"POST /threads/search":      threads,
		"POST /threads/count":       0,
		"GET /threads/t25":          threads[25],
		"GET /threads/t25/runs":     []any{},
		"POST /threads/t25/history": []any{checkpoint(3), checkpoint(2), checkpoint(1)},
	}))
	p.see("the list", `document.querySelector(".threads .row") && document.activeElement === document.body`)
	p.key("Enter") // no row is chosen
	p.key("j")
	p.see("the first row", `location.hash.endsWith("row=t0") && document.activeElement.matches(".threads .scroll")`)
	for range 25 {
		p.key("j")
	}
	p.key("k")
	p.key("j")
	p.see("a row below", `document.querySelector('.threads .row[aria-selected=true]')?.href.endsWith("/t25")`)
	p.do(js(`document.querySelector("nav a").focus()`)) // somewhere else
	p.key("k")
	p.key("j")
	var top float64
	p.eval(`document.querySelector(".threads .scroll").scrollTop`, &top)
	p.key("Enter")
	p.see("its history", `location.hash === "#/threads/t25" && document.querySelectorAll(".history .row").length === 3`)
	p.key("j")
	p.see("the next checkpoint", `document.querySelectorAll(".history .row")[1].matches("[aria-selected=true]")`)
	p.do(js(`history.back()`))
	back := func(how string) {
		t.Helper()
		p.see("the list as it was, "+how, `document.querySelector('.threads .row[aria-selected=true]')?.href.endsWith("/t25") && document.activeElement.matches(".threads .scroll")`)
		var now float64
		if p.eval(`document.querySelector(".threads .scroll").scrollTop`, &now); now != top || top == 0 {
			t.Errorf("%s the list is at %v, and was at %v", how, now, top)
		}
	}
	back("by the browser's way back")
	p.key("Enter")
	p.see("its history", `document.querySelectorAll(".history .row").length === 3`)
	p.do(js(`document.activeElement.blur()`))
	p.key("Escape")
	back("by Escape")
	p.do(js(`document.activeElement.blur()`))
	p.key("/")
	p.see("the search", `document.activeElement.type === "search"`)
	p.key("?")
	p.key("j") // it is typed there
	p.see("the search still", `document.activeElement.type === "search" && !document.querySelector("dialog")`)
	p.do(js(`document.activeElement.blur()`))
	p.key("?")
	p.see("the keys", `document.querySelector("dialog[open]")?.innerText.includes("copy the id of the row")`)
	for _, scheme := range []string{"light", "dark"} {
		p.do(emulate(scheme))
		p.check(axe, scheme+" keys")
	}
	p.key("j") // within the dialog it does nothing
	p.submit("Close")
	p.see("the row as before", `!document.querySelector("dialog") && location.hash.endsWith("row=t25")`)
}

// Numbers are shown and stored as they are written, those that JavaScript has no number for as well: as
// values, as they are edited, compared and exported, and as a condition of a search.
func TestExactNumbers(t *testing.T) {
	chromium(t)
	const numbers = `{"big":9007199254740993,"huge":-123456789012345678901234567890,"float":1.0,"price":0.10,"tiny":1e-400,"zero":-0,"plain":7}`
	const at = `{"thread_id":"t","checkpoint_ns":"","checkpoint_id":"1f0a0000-0000-6000-8000-000000000001"}`
	const before = `{"checkpoint":{"thread_id":"t","checkpoint_ns":"","checkpoint_id":"1f0a0000-0000-6000-8000-000000000000"},"metadata":{"step":-1},"created_at":"2026-03-01T11:50:00Z","next":[],"tasks":[],"values":{"big":9007199254740992}}`
	const state = `{"checkpoint":` + at + `,"parent_checkpoint":{"checkpoint_id":"1f0a0000-0000-6000-8000-000000000000"},"metadata":{"step":0},"created_at":"2026-03-01T11:50:00.250Z","next":[],"tasks":[],"values":` + numbers + `}`
	var mu sync.Mutex
	sent := map[string]string{}
	answers := answering(map[string]any{
		"GET /info":                json.RawMessage(`{"version":"test"}`),
		"POST /assistants/search":  json.RawMessage(`[]`),
		"POST /threads/search":     json.RawMessage(`[]`),
		"POST /threads/count":      json.RawMessage(`0`),
		"GET /threads/t":           json.RawMessage(`{"thread_id":"t","status":"idle","metadata":{},"values":{}}`),
		"GET /threads/t/runs":      json.RawMessage(`[]`),
		"GET /threads/t/state":     json.RawMessage(state),
		"POST /threads/t/history":  json.RawMessage(`[` + state + `,` + before + `]`),
		"POST /threads/t/state":    json.RawMessage(`{"checkpoint":` + at + `}`),
		"POST /store/namespaces":   json.RawMessage(`{"namespaces":[]}`),
		"POST /store/items/search": json.RawMessage(`{"items":[{"namespace":["a"],"key":"k","value":` + numbers + `,"updated_at":"2026-03-01T08:00:00Z"}]}`),
		"PUT /store/items":         json.RawMessage(`{}`),
	})
	s := httptest.NewServer(New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		sent[r.Method+" "+r.URL.Path] = string(body)
		mu.Unlock()
		answers.ServeHTTP(w, r)
	}), Options{}))
	defer s.Close()
	p := open(t, s.URL)
	each := func(where string) {
		t.Helper()
		for _, n := range []string{"9007199254740993", "-123456789012345678901234567890", "1.0", "0.10", "1e-400", "-0", "7"} {
			if !strings.Contains(where, n) {
				t.Errorf("%s is not in %s", n, where)
			}
		}
	}
	stored := func(request, want string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(sent[request], want) {
			t.Errorf("%s was sent %s, want %s in it", request, sent[request], want)
		}
	}
	p.show("#/threads/t")
	p.see("the values", `document.querySelectorAll("[aria-label=Values] .leaf").length === 7`)
	var text string
	p.eval(`document.querySelector("[aria-label=Values]").innerText`, &text)
	each(text)
	p.click("Edit state")
	p.see("the dialog", `document.querySelector("textarea[name=values]")`)
	p.eval(`document.querySelector("textarea[name=values]").value`, &text)
	each(text)
	p.submit("Save")
	p.see("that it is stored", `!document.querySelector("dialog")`)
	stored("POST /threads/t/state", `"values":`+numbers)
	p.show("#/threads/t?with=1f0a0000-0000-6000-8000-000000000000")
	p.see("the difference of one", `document.querySelector(".difference")?.innerText.includes("9007199254740993") && document.querySelector(".difference").innerText.includes("9007199254740992")`)
	p.do(js(`URL.createObjectURL = (b) => (window.exported = b, "blob:none")`))
	p.click("Export")
	p.click("NDJSON")
	p.see("the lines", `window.exported?.type === "application/x-ndjson"`)
	p.eval(`exported.text()`, &text)
	each(text)
	p.show("#/store")
	p.says("9007199254740993")
	p.click("edit")
	p.submit("Save")
	p.see("that it is stored", `!document.querySelector("dialog")`)
	stored("PUT /store/items", `"value":`+numbers)
	p.show("#/threads?q=big%3D9007199254740993")
	p.says("No thread is like that.")
	stored("POST /threads/search", `"metadata":{"big":9007199254740993}`)
}

// A server that asks who one is gets a key that a person writes into a field; what it says is told in a
// sentence, not by its status.
func TestSignIn(t *testing.T) {
	chromium(t)
	axe := axe(t)
	d, items, queue, g := mailStore(t)
	api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"mail": g}, Saver: d, Store: items, Queue: queue, Auth: server.APIKeys(map[string]*server.User{"sesame": {Identity: "ann"}}), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	s := httptest.NewServer(New(api, Options{}))
	defer s.Close()
	p := open(t, s.URL)
	p.see("the field, and what it is", `document.querySelector("input[name=key]") && document.querySelector("h1").offsetHeight > 10 && document.querySelector("label").innerText.startsWith("Key or token")`)
	p.see("no status", `!document.body.innerText.includes("401") && !document.querySelector("[role=alert]")`)
	for _, scheme := range []string{"light", "dark"} {
		p.do(emulate(scheme))
		p.check(axe, scheme+" sign-in")
	}
	p.fill("input[name=key]", "wrong")
	p.click("Sign in")
	p.says("The server does not take this key.")
	p.see("one sentence of it", `document.querySelectorAll("[role=alert]").length === 1`)
	p.fill("input[name=key]", "sesame")
	p.click("Sign in")
	p.says("There are no threads yet.")
	p.do(chromedp.Reload())
	p.says("There are no threads yet.") // the tab keeps it
	p.see("the assistants", `[...document.querySelectorAll("button")].some(b => b.innerText === "New thread" && b.className === "primary")`)
	p.click("sign out")
	p.see("the field again", `document.querySelector("input[name=key]")`)
}
