package studio

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// What a person can do, from a new thread to its end: each step's effect is looked up in the
// server, not on the page alone.
func TestAct(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		p := open(t, base)
		p.click("New thread")
		p.submit("Create")
		p.says("This thread has no checkpoint yet.")
		var hash string
		p.eval(`location.hash`, &hash)
		thread := strings.TrimPrefix(hash, "#/threads/")

		p.click("Send input")
		p.choose("dialog select", "mail")
		p.fill("textarea[name=input]", `{"messages": [{"role": "user", "content": "hello ann"}]}`)
		p.submit("Run")
		p.says("A question waits")
		p.says("Send this mail?")
		if s := b.state(t, thread); len(s.Next) != 1 || s.Next[0] != "send" || len(s.Values.Messages) != 2 {
			t.Fatalf("after the input the thread has %+v", s)
		}

		p.fill("textarea[name=a0]", "certainly")
		p.click("Answer")
		p.see("the end of the run", `document.querySelector(".live")?.innerText.includes("The run ended")`)
		p.see("five checkpoints", `document.querySelectorAll(".history .row").length === 5`)
		s := b.state(t, thread)
		if len(s.Next) != 0 || !slices.Equal(s.Values.Sent, []string{"ann"}) || s.Values.Messages[2]["content"] != "answer: certainly" {
			t.Fatalf("after the answer the thread has %+v", s)
		}

		// Fork: edit the checkpoint at which the question was asked, and go on from there.
		p.do(chromedp.Click(chromedp.CSS(`.history .row:nth-child(3)`)))
		p.click("Fork with an edit")
		p.fill("textarea[name=values]", `{"note": "edited by a person"}`)
		p.submit("Save")
		p.see("a second branch", `document.querySelectorAll(".history .row").length === 6 && document.querySelectorAll(".lanes path").length === 1`)
		if s := b.state(t, thread); s.Values.Note != "edited by a person" || len(s.Values.Sent) != 0 {
			t.Fatalf("after the edit the thread has %+v", s)
		}
		p.do(js(`document.querySelectorAll(".history .row")[1].dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true, shiftKey: true}))`))
		p.says("Compared with")
		p.see("the differences", `[...document.querySelectorAll(".difference > h3")].map(e => e.innerText.split(" ")[0]).join() === "messages,note,sent"`)
		p.do(chromedp.Reload())
		p.says("Compared with") // a link shows what was on the screen

		p.show("#/threads/" + thread)
		p.click("Continue")
		p.submit("Continue")
		p.says("A question waits")

		p.click("Copy")
		p.submit("Copy")
		p.see("another thread", `location.hash.startsWith("#/threads/") && location.hash !== `+quote("#/threads/"+thread))
		p.see("its history", `document.querySelectorAll(".history .row").length >= 6`)
		p.eval(`location.hash`, &hash)
		dup := strings.TrimPrefix(hash, "#/threads/")
		if s := b.state(t, dup); s.Values.Note == "" {
			t.Errorf("the copy has %+v", s)
		}

		p.click("Delete")
		p.see("a question", `document.querySelector("dialog[open]")`)
		p.do(chromedp.KeyEvent(kb.Escape))
		p.see("no dialog", `!document.querySelector("dialog")`)
		b.state(t, dup)
		p.click("Delete")
		p.submit("Delete")
		p.see("the list", `location.hash === "#/threads"`)
		resp, err := http.Get(b.url + "/threads/" + dup)
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("the deleted thread: %v %v", resp.StatusCode, err)
		}
		resp.Body.Close()
	})
}

// A node that fails says so: the thread in the list, the run, and the task.
func TestFailure(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		var made struct {
			ID string `json:"thread_id"`
		}
		b.call(t, "POST", "/threads", map[string]any{}, &made)
		p := open(t, base)
		p.show("#/threads/" + made.ID)
		p.says("no checkpoint yet")
		p.click("Send input")
		p.choose("dialog select", "mail")
		p.fill("textarea[name=input]", `{"messages": [`)
		p.submit("Run")
		p.says("This is not JSON")
		p.fill("textarea[name=input]", `{"messages": [{"role": "user", "content": "fail"}]}`)
		p.submit("Run")
		p.says("The run failed")
		p.says("the model is not there")
		p.see("the failed task", `document.querySelector(".task.failed[open]")?.innerText.includes("the model is not there")`)
		p.see("its dot", `document.querySelector(".history .row .stand.failed")`)
		p.show("#/threads?status=error")
		p.see("the thread among those that failed", `document.querySelector(".threads .row")?.href.endsWith(`+quote(made.ID)+`)`)
	})
}

func TestSearch(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		waiting := b.thread(t, "search me")
		for range 130 {
			b.call(t, "POST", "/threads", map[string]any{"metadata": map[string]any{"kind": "filler"}}, nil)
		}
		p := open(t, base)
		p.see("rows", `document.querySelectorAll(".threads .row").length > 5`)
		var rows int
		p.eval(`document.querySelectorAll(".threads .row").length`, &rows)
		if rows > 60 {
			t.Errorf("%d rows are in the page, though few can be seen", rows)
		}
		p.fill(`input[type=search]`, "kind=filler")
		p.see("the first of the fillers", `location.hash.includes("q=kind") && document.querySelectorAll(".threads .row").length > 5`)
		p.see("the second page", `(document.querySelector(".threads .scroll").scrollTop = 1e6) && document.querySelector(".threads .scroll").scrollHeight >= 130 * 56`)
		p.fill(`input[type=search]`, waiting)
		p.see("one thread", `document.querySelectorAll(".threads .row").length === 1`)
		p.fill(`input[type=search]`, "user=ann")
		p.see("the thread by its metadata", `[...document.querySelectorAll(".threads .row")].some(a => a.href.endsWith(`+quote(waiting)+`))`)
		p.fill(`input[type=search]`, "user=nobody")
		p.says("No thread is like that.")
		p.show("#/threads?status=interrupted")
		p.see("waiting threads alone", `document.querySelectorAll(".threads .row").length > 0 && [...document.querySelectorAll(".threads .row .status")].every(s => s.innerText === "waiting")`)

		// The keyboard alone: down to a thread, and into it.
		p.do(chromedp.Focus(chromedp.CSS(`.threads .scroll`)), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
		p.says("A question waits")
	})
}

// TestLostAnswers: an answer that the network cut, and a server that was away, are asked for
// again by the page itself.
func TestLostAnswers(t *testing.T) {
	b, err := steleServer()
	if err != nil {
		t.Fatal(err)
	}
	thread := b.thread(t, "lost")
	to, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	api := Remote(to, nil)
	var searches atomic.Int32
	s := httptest.NewServer(New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/threads/search" && searches.Add(1) <= 4 {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("["))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		api.ServeHTTP(w, r)
	}), Options{}))
	t.Cleanup(s.Close)
	p := open(t, s.URL)
	p.says("broke off")
	p.see("threads", `document.querySelector(".threads .row")`)
	p.see("no error", `!document.querySelector("[role=alert]")`)
	p.show("#/threads/" + thread)
	p.says("A question waits")
}

// TestSearchByPrefix: the beginning of an id finds its thread, where the server can.
func TestSearchByPrefix(t *testing.T) {
	onStele(t, func(t *testing.T, b backend, base string) {
		waiting, other := b.thread(t, "search me"), b.thread(t, "and me")
		p := open(t, base)
		p.see("both", `document.querySelectorAll(".threads .row").length >= 2`)
		p.fill(`input[type=search]`, waiting[:13])
		p.see("one thread", `document.querySelectorAll(".threads .row").length === 1 && document.querySelector(".threads .row").href.endsWith(`+quote(waiting)+`)`)
		p.fill(`input[type=search]`, waiting[:13]+" "+other[:13])
		p.see("both of two", `document.querySelectorAll(".threads .row").length === 2`)
	})
}

func TestStore(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		p := open(t, base)
		p.show("#/store")
		p.click("New item")
		p.fill("input[name=namespace]", "users / ann")
		p.fill("input[name=key]", "food")
		p.fill("textarea[name=value]", `{"likes": "soup"}`)
		p.submit("Create")
		p.says("soup")
		item := func() (v struct{ Value map[string]any }) {
			b.call(t, "GET", "/store/items?namespace=users.ann&key=food", nil, &v)
			return v
		}
		if got := item(); got.Value["likes"] != "soup" {
			t.Fatalf("the item is %v", got)
		}
		p.click("edit")
		p.fill("textarea[name=value]", `{"likes": "bread"}`)
		p.submit("Save")
		p.says("bread")
		if got := item(); got.Value["likes"] != "bread" {
			t.Fatalf("the item is %v", got)
		}
		p.fill("input[type=search]", "zzz")
		p.says("no index by meaning")
		p.fill("input[type=search]", "")
		p.says("users / ann")
		p.click("delete")
		p.submit("Delete")
		p.see("no items", `!document.querySelector("article.item")`)
	})
}

// hostile is what a page must show as text.
var hostile = []string{
	`<script>window.harmed = true</script>`,
	`<img src=x onerror="window.harmed = true">`,
	`"><svg onload="window.harmed = true">`,
	`javascript:window.harmed=true`,
	"\u202egnp.exe\u202c \u0000 \u0007 \u200b",
	`[a link](javascript:window.harmed=true) ![](http://127.0.0.1:1/x.png) <b onclick="window.harmed=true">bold</b> **strong**`,
	strings.Repeat("🙂 long ", 500_000), // 5 MB
}

func TestHostile(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		metadata, keys := map[string]any{"graph_id": "mail"}, map[string]any{}
		for i, text := range hostile[:4] {
			metadata[text] = hostile[(i+1)%4]
		}
		for i := range 10_000 {
			keys[strings.Repeat("k", i%20)+"<b>"+string(rune('a'+i%26))+strings.Repeat("x", i/26)] = i
		}
		deep := any("bottom")
		for range 50 {
			deep = map[string]any{"down": []any{deep}}
		}
		var made struct {
			ID string `json:"thread_id"`
		}
		b.call(t, "POST", "/threads", map[string]any{"metadata": metadata}, &made)
		messages := []any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": hostile[0]}, map[string]any{"type": "image_url", "image_url": "http://127.0.0.1:1/y.png"}}}}
		for _, text := range hostile {
			messages = append(messages, map[string]any{"role": "user", "content": text, "name": "<i>n</i>"})
		}
		messages = append(messages, map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{
			"id": "c", "name": hostile[0], "args": map[string]any{"keys": keys, "deep": deep, hostile[1]: hostile[2]}}}})
		b.call(t, "POST", "/threads/"+made.ID+"/state", map[string]any{"values": map[string]any{"messages": messages, "note": hostile[3]}, "as_node": "model"}, nil)

		p := open(t, base)
		p.see("the list", `document.querySelectorAll(".threads .row").length > 0`)
		p.show("#/threads/" + made.ID)
		// On stele's server it is large, and fetched when it is asked for.
		p.see("its messages", `document.querySelector(".bubble") || [...document.querySelectorAll(".leaf button")].some(e => e.innerText.startsWith("show ") && (e.click(), true))`)
		p.see("the conversation", `document.querySelectorAll(".bubble").length === 9`)
		// Everything that can be opened is opened.
		p.do(js(`document.querySelectorAll("details").forEach(d => d.open = true)`))
		for range 6 {
			p.do(js(`document.querySelectorAll('.toggle[aria-expanded="false"]').forEach(b => b.click())`))
		}
		p.do(js(`[...document.querySelectorAll("button")].filter(b => b.innerText === "as Markdown").forEach(b => b.click())`))
		p.see("Markdown, cleaned", `document.querySelector(".markdown strong")?.innerText === "strong"`)
		p.says(`\u202e`)
		var bad []string
		p.eval(`[...document.querySelectorAll("#app script, #app img, #app iframe, #app a[href^='javascript'], .markdown a, .markdown [onclick], #app [onerror]")].map(e => e.outerHTML.slice(0, 200))`, &bad)
		if len(bad) > 0 {
			t.Errorf("markup of the thread is in the page: %q", bad)
		}
		// The exports hold the thread, and no markup of it.
		p.do(js(`URL.createObjectURL = (b) => (window.exported = b, "blob:none")`))
		p.click("Export")
		p.click("A page to hand on")
		p.see("the page", `window.exported?.type === "text/html"`)
		var exported string
		p.eval(`exported.text()`, &exported)
		if strings.Contains(exported, "<script") || strings.Contains(exported, "<img") || strings.Contains(exported, "<svg") || !strings.Contains(exported, "&lt;script&gt;") {
			t.Error("markup of the thread is in the exported page")
		}
		p.click("Export")
		p.click("NDJSON")
		p.see("the lines", `window.exported?.type === "application/x-ndjson"`)
		p.eval(`exported.text()`, &exported)
		if lines := strings.Split(strings.TrimSuffix(exported, "\n"), "\n"); len(lines) != 1 || !json.Valid([]byte(lines[0])) {
			t.Errorf("the export has %d lines", len(lines))
		}
		var nodes int
		p.eval(`document.querySelectorAll("*").length`, &nodes)
		if nodes > 5000 {
			t.Errorf("the page has %d elements", nodes)
		}
		var harmed bool
		p.eval(`!!window.harmed`, &harmed)
		if harmed {
			t.Error("a script of the thread ran")
		}
	})
}

// A thread whose id is hostile, on a server that takes any, is shown, linked, copied and deleted.
func TestHostileID(t *testing.T) {
	onStele(t, func(t *testing.T, b backend, base string) {
		const id = "a/../b?c#d%2e \u202egnp\u0007<img src=x onerror=\"window.harmed = true\">'"
		g := theMail
		if _, err := g.Invoke(t.Context(), pregel.Thread(id), map[string]any{"messages": []any{map[string]any{"role": "user", "content": "mine \u202egnp"}}}); err != nil {
			t.Fatal(err)
		}
		p := open(t, base)
		row := `[...document.querySelectorAll(".threads .row")].find(e => e.innerText.includes("a/../b"))`
		p.see("the thread", row)
		p.see("its id with all that cannot be seen", row+`.innerText.includes("\\u202egnp\\u0007<img")`)
		p.do(js(row + `.click()`))
		p.says("A question waits")
		p.see("a title that turns nothing", `document.title.includes("\\u202e")`)
		p.fill("textarea[name=a0]", "yes")
		p.click("Answer")
		p.see("the end of the run", ended)
		if s := b.state(t, id); len(s.Next) != 0 || len(s.Values.Sent) != 1 {
			t.Errorf("after the answer the thread has %+v", s)
		}
		p.click("Delete")
		p.submit("Delete")
		p.see("the list", `location.hash === "#/threads"`)
		p.see("no such thread", `document.querySelector(".threads .row") && !`+row)
		if _, err := g.GetState(t.Context(), pregel.Thread(id)); err != nil {
			t.Fatal(err)
		}
		var harmed bool
		if p.eval(`!!window.harmed`, &harmed); harmed {
			t.Error("a script of the id ran")
		}
	})
}

// Large values are fetched when they are opened; bytes and types that no program here knows are
// shown for what they are.
func TestValues(t *testing.T) {
	onStele(t, func(t *testing.T, b backend, base string) {
		note := strings.Repeat("a long note. ", 40_000)
		thread := b.thread(t, "values")
		b.call(t, "POST", "/threads/"+thread+"/state", map[string]any{"values": map[string]any{"note": note}, "as_node": "model"}, nil)
		p := open(t, base)
		p.do(js(`{ const before = window.fetch; window.lengths = []; window.fetch = async (...a) => { const r = await before(...a); const c = r.clone(); c.text().then(t => lengths.push(t.length)); return r } }`))
		p.show("#/threads/" + thread)
		p.see("the size of the note", `[...document.querySelectorAll(".leaf button")].some(e => e.innerText === "show 520 kB")`)
		var most float64
		if p.eval(`Math.max(...lengths)`, &most); most > 100_000 {
			t.Errorf("an answer of %.0f characters was fetched before the note was opened", most)
		}
		p.do(js(`[...document.querySelectorAll(".leaf button")].find(e => e.innerText === "show 520 kB").click()`))
		p.says("more characters")
		// It can be compared too.
		p.do(js(`[...document.querySelectorAll("a")].find(e => e.innerText === "what changed").click()`))
		p.says("Compared with")
		p.see("the difference", `document.querySelector(".difference")?.innerText.includes("a long note.")`)
		// A store alone, with what Python and a program have left.
		p.show("#/threads/" + kindsThread)
		p.says("3 B of binary data 00 01 02")
		p.says("decimal.Decimal")
	})
}

// A page of another site can neither read nor change anything, though the browser can reach
// the studio.
func TestOtherSite(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		text := "leave me alone, " + rand.Text() // of this thread alone, however often the test runs
		id := b.thread(t, text)
		evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<body>evil</body>`))
		}))
		defer evil.Close()
		target := base + "/api/threads/" + id
		p := open(t, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1))
		var got []string
		p.eval(`(async () => {
			const tries = [
				[{}, "read"], [{mode: "no-cors"}, "opaque read"], [{method: "DELETE"}, "delete"],
				[{method: "POST", mode: "no-cors", body: "{}"}, "simple post"],
				[{method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: "{}"}, "plain post"],
			];
			const said = [];
			for (const [init, name] of tries) {
				try { const r = await fetch(`+quote(target)+`, init); if (r.type !== "opaque") said.push(name + " " + r.status); } catch {}
			}
			const f = document.createElement("form"); f.method = "POST"; f.action = `+quote(target+"/copy")+`; f.target = "x";
			const frame = document.createElement("iframe"); frame.name = "x"; document.body.append(frame, f); f.submit();
			await new Promise(r => setTimeout(r, 500));
			return said;
		})()`, &got)
		if len(got) > 0 {
			t.Errorf("another site's page was answered: %q", got)
		}
		b.state(t, id)
		var threads []map[string]any
		b.call(t, "POST", "/threads/search", map[string]any{"limit": 1000, "metadata": map[string]any{"user": "ann"}}, &threads)
		copies := 0
		for _, th := range threads {
			if v, ok := th["values"].(map[string]any); ok && strings.Contains(quote(v), text) {
				copies++
			}
		}
		if copies != 1 {
			t.Errorf("there are %d threads of one", copies)
		}
		p.mu.Lock()
		p.reports = nil // what the browser refused to that page
		p.mu.Unlock()
	})
}

// axe finds nothing on any screen, in light and in dark.
// A thread whose run was cut off is not one that waits for an answer, though LangGraph calls
// both interrupted.
func TestStatuses(t *testing.T) {
	chromium(t)
	axe := axe(t)
	onStele(t, func(t *testing.T, b backend, base string) {
		waiting := b.thread(t, "statuses")
		var cut struct {
			ID string `json:"thread_id"`
		}
		b.call(t, "POST", "/threads", map[string]any{}, &cut)
		var run struct {
			ID string `json:"run_id"`
		}
		b.call(t, "POST", "/threads/"+cut.ID+"/runs", map[string]any{"assistant_id": "mail", "input": map[string]any{"messages": []any{map[string]any{"role": "user", "content": "think for ever"}}}}, &run)
		p := open(t, base)
		among := func(status, thread, not string) {
			t.Helper()
			p.do(js(`{ const e = document.querySelector(".bar select"); e.value = ` + quote(status) + `; e.dispatchEvent(new Event("change", {bubbles: true})) }`))
			p.see(status+" threads alone", `document.querySelector(".threads .row") && [...document.querySelectorAll(".threads .row .status")].every(s => s.innerText === `+quote(status)+`)`)
			p.see("the thread among them", `((all) => all.some(a => a.href.endsWith(`+quote(thread)+`)) && !all.some(a => a.href.endsWith(`+quote(not)+`)))([...document.querySelectorAll(".threads .row")])`)
		}
		p.see("the filter", `document.querySelector(".bar select")`)
		among("running", cut.ID, waiting)
		b.call(t, "POST", "/threads/"+cut.ID+"/runs/"+run.ID+"/cancel?wait=true&action=interrupt", map[string]any{}, nil)
		among("unfinished", cut.ID, waiting)
		for _, scheme := range []string{"light", "dark"} {
			p.do(emulate(scheme), chromedp.Reload())
			p.see("the list", `document.querySelector(".threads .row .status.unfinished")`)
			p.check(axe, scheme+" unfinished threads")
		}
		among("waiting", waiting, cut.ID)
		p.show("#/threads?status=interrupted") // a link from before
		p.see("the same", `document.querySelector(".bar select").value === "waiting" && document.querySelector(".threads .row")`)
		p.show("#/threads/" + cut.ID)
		p.see("its status", `document.querySelector(".thread .bar .status")?.innerText === "unfinished"`)
		p.see("its history", `document.querySelector(".history .row .stand.unfinished")`)
	})
}

// axe is the script that finds what people with disabilities cannot use.
func axe(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(cmp.Or(os.Getenv("STELE_AXE"), "web/node_modules/axe-core/axe.min.js"))
	if err != nil {
		missing(t, "NOT TESTED: accessibility. Run npm ci in server/studio/web for axe-core")
	}
	return string(script)
}

func TestAccessible(t *testing.T) {
	axe := axe(t)
	onEach(t, func(t *testing.T, b backend, base string) {
		thread := b.thread(t, "# a title\n\n- a list")
		b.call(t, "PUT", "/store/items", map[string]any{"namespace": []string{"a"}, "key": "k", "value": map[string]any{"v": 1}}, nil)
		p := open(t, base)
		for _, scheme := range []string{"light", "dark"} {
			p.do(emulate(scheme))
			for _, hash := range []string{"#/threads", "#/inbox", "#/threads/" + thread, "#/store"} {
				p.show(hash)
				p.see("the screen", `document.querySelector(".row, .item, .ask") && !document.body.innerText.includes("Loading")`)
				if hash == "#/inbox" || strings.Contains(hash, thread) {
					p.says("A question waits")
				}
				p.check(axe, scheme+" "+hash)
			}
			var own bool
			if p.eval(`[...document.querySelectorAll(".top nav a")].some(a => a.innerText === "Health")`, &own); own {
				p.show("#/runs")
				p.see("the runs", `document.querySelector("tbody tr")`)
				p.check(axe, scheme+" runs")
				p.show("#/health")
				p.says("Free on the device")
				p.check(axe, scheme+" health")
			}
			p.show("#/threads/" + thread)
			p.says("A question waits")
			p.see("what is compared", `document.querySelector("a.quiet")?.innerText === "what changed" && (document.querySelector("a.quiet").click(), true)`)
			p.says("Compared with")
			p.check(axe, scheme+" compared")
			p.show("#/threads/" + thread)
			p.says("A question waits")
			p.click("Send input")
			p.see("the dialog", `document.querySelector("dialog[open]")`)
			p.check(axe, scheme+" dialog")
			p.do(chromedp.KeyEvent(kb.Escape))
			p.see("no dialog", `!document.querySelector("dialog")`)
		}
	})
}

func (p *tab) check(axe, where string) {
	p.t.Helper()
	p.see("the colours that stay", `document.getAnimations().length === 0`)
	p.do(js(axe))
	var found []string
	p.eval(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.target + " " + n.failureSummary).join("; ")))`, &found)
	for _, f := range found {
		p.t.Errorf("%s: %s", where, f)
	}
}

// Two people on one thread: each sees what the other did; who was late is told so, and changes
// nothing.
func TestTwoPeople(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		thread := b.thread(t, "two people")
		ann, bob := open(t, base), open(t, base)
		for _, p := range []*tab{ann, bob} {
			p.show("#/threads/" + thread)
			p.says("A question waits")
		}
		// Bob's page is behind another window: it does not refresh itself.
		bob.do(js(`Object.defineProperty(document, "visibilityState", {value: "hidden"})`))
		ann.fill("textarea[name=a0]", "ann's answer")
		ann.click("Answer")
		ann.see("the end", `document.querySelectorAll(".history .row").length === 5`)

		bob.fill("textarea[name=a0]", "bob's answer")
		bob.click("Answer")
		bob.says("Somebody else was first")
		if s := b.state(t, thread); s.Values.Messages[2]["content"] != "answer: ann's answer" || len(s.Values.Sent) != 1 {
			t.Fatalf("after both answers the thread has %+v", s)
		}
		bob.see("what ann did", `document.querySelectorAll(".history .row").length === 5`)

		// The other way round, with an edit.
		bob.click("Edit state")
		bob.fill("textarea[name=values]", `{"note": "bob's"}`)
		b.call(t, "POST", "/threads/"+thread+"/state", map[string]any{"values": map[string]any{"note": "ann's"}, "as_node": "model"}, nil)
		bob.submit("Save")
		bob.says("Somebody else was first")
		if s := b.state(t, thread); s.Values.Note != "ann's" {
			t.Errorf("after both edits the note is %q", s.Values.Note)
		}
		ann.see("the edit", `document.querySelectorAll(".history .row").length === 6`)
	})
}

// The queue: a run that failed is tried again, and goes on where it was, but not one whose answer was refused: its question
// waits in the inbox.
func TestQueue(t *testing.T) {
	chromium(t)
	onStele(t, func(t *testing.T, b backend, base string) {
		var made struct {
			ID string `json:"thread_id"`
		}
		b.call(t, "POST", "/threads", map[string]any{}, &made)
		b.call(t, "POST", "/threads/"+made.ID+"/runs/wait", map[string]any{"assistant_id": "mail", "input": map[string]any{"messages": []any{map[string]any{"role": "user", "content": "fail once"}}}}, nil)
		p := open(t, base)
		p.show("#/runs") // the links of the header move when a count comes
		p.says("the model is not there")
		p.show("#/runs?status=error")
		p.see("failed runs alone", `[...document.querySelectorAll("tbody .status")].every(s => s.innerText === "failed")`)
		p.see("its rows whole, and named", `(e => e && e.scrollHeight <= e.clientHeight + 1)(document.querySelector(".wide")) && [...document.querySelectorAll("tbody .thread-of")].some(e => e.innerText === "fail once")`)
		row := `[...document.querySelectorAll(".wide tbody tr")].find(r => r.querySelector("a").href.endsWith(` + quote(made.ID) + `))`
		p.see("the run", row)
		modelWorks.Store(true)
		defer modelWorks.Store(false)
		p.do(js(row + `.querySelector("button").click()`))
		p.submit("Try again")
		p.see("no such failed run", `!(`+row+`)`)
		p.show("#/threads/" + made.ID)
		p.says("A question waits")
		if s := b.state(t, made.ID); len(s.Next) != 1 || s.Next[0] != "send" {
			t.Errorf("after the second try the thread has %+v", s)
		}

		b.call(t, "POST", "/threads", map[string]any{}, &made)
		var run struct {
			ID     string `json:"run_id"`
			Status string
		}
		b.call(t, "POST", "/threads/"+made.ID+"/runs", map[string]any{"assistant_id": "party", "input": map[string]any{"task": "wait"}}, &run)
		p.show("#/runs?status=running")
		row = `[...document.querySelectorAll(".wide tbody tr")].find(r => r.querySelector("a").href.endsWith(` + quote(made.ID) + `))`
		p.see("the run that is under way", row)
		p.do(js(row + `.querySelector("button").click()`))
		p.submit("Cancel it")
		p.see("no such run", `!(`+row+`)`)
		if b.call(t, "GET", "/threads/"+made.ID+"/runs/"+run.ID, nil, &run); run.Status != "interrupted" {
			t.Errorf("the cancelled run is %s", run.Status)
		}

		refused := b.desk(t, "desk", "one please")
		b.call(t, "POST", "/threads/"+refused+"/runs/wait", map[string]any{"assistant_id": "desk", "command": map[string]any{"resume": true}}, nil)
		p.show("#/runs?status=error")
		row = `[...document.querySelectorAll(".wide tbody tr")].find(r => r.querySelector("a").href.endsWith(` + quote(refused) + `))`
		p.see("the refused answer, with nothing to try again", row+`?.innerText.includes("the answer to a question is refused") && !`+row+`.innerText.includes("try again")`)
		p.show("#/inbox")
		p.see("its question", `[...document.querySelectorAll(".ask")].some(a => a.href.includes(`+quote(refused)+`))`)
	})
}

// A schedule is made in the page, seen, paused and deleted: the server keeps it until then.
func TestSchedules(t *testing.T) {
	chromium(t)
	axe := axe(t)
	onStele(t, func(t *testing.T, b backend, base string) {
		thread := b.thread(t, "every year")
		type cron struct {
			ID       string `json:"cron_id"`
			Schedule string
			Thread   string `json:"thread_id"`
			Enabled  bool
			Payload  struct{ Input struct{ Note string } }
		}
		kept := func() (all []cron) {
			t.Helper()
			b.call(t, "POST", "/runs/crons/search", map[string]any{"thread_id": thread}, &all)
			return all
		}
		p := open(t, base)
		p.show("#/runs")
		p.says("Nothing is scheduled.")
		p.click("new schedule")
		p.choose("dialog select", "mail")
		p.fill("dialog input[name=schedule]", "not a time")
		p.fill("dialog input[name=thread]", thread)
		p.fill("dialog textarea[name=input]", `{"note": "from the schedule"}`)
		p.check(axe, "a new schedule")
		p.submit("Create")
		p.says("Invalid cron schedule")
		if got := kept(); len(got) != 0 {
			t.Errorf("the server keeps %+v", got)
		}
		p.fill("dialog input[name=schedule]", "0 0 29 2 *")
		p.submit("Create")
		p.see("the schedule", `!document.querySelector("dialog") && document.querySelector(".schedules li")?.innerText.startsWith("0 0 29 2 * runs mail on")`)
		p.see("its thread", `document.querySelector(".schedules li a").href.endsWith(`+quote(thread)+`)`)
		got := kept()
		if len(got) != 1 || got[0].Schedule != "0 0 29 2 *" || got[0].Thread != thread || !got[0].Enabled || got[0].Payload.Input.Note != "from the schedule" {
			t.Fatalf("the server keeps %+v", got)
		}
		p.check(axe, "schedules")
		p.see("when, to the minute, and in which zone", `/next at \d{4}-\d\d-\d\d \d\d:\d\d [A-Z]/.test(document.querySelector(".schedules li").innerText)`)
		p.click("pause")
		p.see("that it pauses", `document.querySelector(".schedules li").innerText.includes(", paused")`)
		if got := kept(); len(got) != 1 || got[0].Enabled {
			t.Errorf("the server keeps %+v", got)
		}
		p.click("resume")
		p.see("that it goes on", `document.querySelector(".schedules li").innerText.includes("next at")`)
		p.do(js(`document.querySelector(".schedules li button:last-child").click()`))
		p.see("a question", `document.querySelector("dialog[open]")`)
		p.do(chromedp.KeyEvent(kb.Escape))
		p.see("no dialog", `!document.querySelector("dialog")`)
		if got := kept(); len(got) != 1 {
			t.Errorf("after no the server keeps %+v", got)
		}
		p.do(js(`document.querySelector(".schedules li button:last-child").click()`))
		p.submit("Delete")
		p.says("Nothing is scheduled.")
		if got := kept(); len(got) != 0 {
			t.Errorf("the server keeps %+v", got)
		}
	})
}

// The store is looked after from the page: what takes the room, a check, a backup, each after a
// question where it takes long or writes.
func TestHealth(t *testing.T) {
	chromium(t)
	axe := axe(t)
	onStele(t, func(t *testing.T, b backend, base string) {
		b.thread(t, strings.Repeat("a long mail ", 500))
		p := open(t, base)
		p.show("#/health")
		p.says("Nothing is wrong.")
		p.click("look")
		p.see("the channels", `[...document.querySelectorAll(".room tbody th")].some(e => e.innerText === "messages")`)
		p.click("Verify")
		p.see("a question", `document.querySelector("dialog[open]")`)
		p.do(chromedp.KeyEvent(kb.Escape))
		p.see("no dialog", `!document.querySelector("dialog")`)
		p.click("Verify")
		p.submit("Verify")
		p.says("Nothing is damaged:")
		p.click("Back up")
		p.submit("Back up")
		p.says("Backed up")
		var to string
		p.eval(`document.querySelector("[aria-live]").innerText.match(/to (\S+):/)[1]`, &to)
		rep, err := admin.Verify(t.Context(), to, admin.VerifyOptions{})
		if err != nil || !rep.Clean() || !rep.Backup {
			t.Errorf("the backup in %s: %+v, %v", to, rep, err)
		}
		for _, scheme := range []string{"light", "dark"} {
			p.do(emulate(scheme), chromedp.Reload())
			p.says("Nothing is wrong.")
			p.click("look")
			p.see("the channels", `document.querySelector(".room")`)
			p.check(axe, scheme+" health")
		}
	})
}

// mailStore is a new store on disk with all of its parts, and the graph of mails in it.
func mailStore(t *testing.T) (*disk.Saver, *store.Local, *runs.Local, *pregel.Graph) {
	t.Helper()
	d, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	items, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { items.Close() })
	queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := mailGraph(d)
	if err != nil {
		t.Fatal(err)
	}
	return d, items, queue, g
}

// A server that lets the page change nothing has no buttons for it.
func TestReadOnly(t *testing.T) {
	chromium(t)
	d, items, queue, g := mailStore(t)
	if _, err := g.Invoke(t.Context(), pregel.Thread("of a program"), map[string]any{"messages": []any{map[string]any{"role": "user", "content": "look only"}}}); err != nil {
		t.Fatal(err)
	}
	api, err := server.New(server.Config{Saver: d, Store: items, Queue: queue, Auth: server.NoAuth(), ReadOnly: true, BackupDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	s := httptest.NewServer(New(api, Options{}))
	defer s.Close()
	p := open(t, s.URL)
	p.show("#/health")
	p.says("stele backup DIR TO")
	p.says("stele verify DIR")
	p.see("no buttons but to look", `[...document.querySelectorAll("main button")].map(e => e.innerText).join() === "look"`)
	p.show("#/threads")
	p.see("the thread, and no buttons", `document.querySelector(".threads .row") && !document.querySelector("main button")`)
	p.show("#/threads/of a program")
	p.says("A question waits")
	p.says("Send this mail?")
	p.see("no buttons but to look closer", `document.querySelector(".conversation") && [...document.querySelectorAll("main button")].every(e => ["Export", "as Markdown", "compare two", "show", "newest"].includes(e.textContent) || e.matches(".toggle, .copy")) && !document.querySelector("main textarea, main input:not(.jump input, .switch input)")`)
	p.show("#/store")
	p.see("no items, and no buttons", `document.querySelector(".empty") && !document.querySelector("main button")`)
}
