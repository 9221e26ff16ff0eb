package studio

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

const timelineThread = "#/threads/0192f7c0-1111-7000-8000-000000000003"

// The timeline shows each run with its tasks: where they lie in time, how often they were tried, what they cost, how
// they ended; and leads to the step of each.
func TestTimeline(t *testing.T) {
	chromium(t)
	axe := axe(t)
	s := httptest.NewServer(New(timelineFixture(), Options{Prices: &Prices{Currency: "EUR", Models: map[string]Price{"large": {Input: 3000, Output: 1000}, "large-1-old": {}}}}))
	defer s.Close()
	p := open(t, s.URL)
	p.show(timelineThread)
	p.see("the thread", `document.querySelector(".tabs")`)
	p.do(js(`[...document.querySelectorAll(".tabs a")].find(a => a.innerText === "Timeline").click()`))
	p.see("two runs, with money", `document.querySelectorAll(".timeline .run").length === 2 && document.querySelector(".run h2").innerText.includes("EUR")`)
	var got [][]string
	p.eval(`[...document.querySelectorAll(".wave")].map(e => [e.className, e.querySelector(".step").innerText, e.querySelector(".what").innerText.trim(), e.querySelector(".figures").innerText])`, &got)
	want := [][]string{
		{"wave tool first", "step 3", "send Tool answered: send_mail", "760 ms, 2 attempts"},
		{"wave model", "", "model", "400 ms"},
		{"wave model first", "step 4", "model Model answered", "2.2 s, 212 tokens, 0.59 EUR"}, // (190 * 3000 + 22 * 1000) / 1e6
		{"wave failed", "", "archive", "90 ms, failed, 3 attempts"},
		{"wave model first", "step 1", "model Model called send_mail", "2.2 s, 3 attempts, 148 tokens, 0.39 EUR"},
		{"wave waiting", "", "send", "asked"},
	}
	if quote(got) != quote(want) {
		t.Errorf("the timeline is\n%s, want\n%s", quote(got), quote(want))
	}
	p.see("names that lead nowhere, as dark as others", `getComputedStyle(document.querySelector(".wave .name:disabled")).opacity === "1"`)
	// A model that has no price leaves the sum of the others, and is named.
	partly := httptest.NewServer(New(timelineFixture(), Options{Prices: &Prices{Currency: "EUR", Models: map[string]Price{"other": {Input: 1}}}}))
	defer partly.Close()
	q := open(t, partly.URL)
	q.show(timelineThread + "?view=timeline")
	q.see("which has none", `[...document.querySelectorAll(".unpriced")].length === 3 && [...document.querySelectorAll(".unpriced")].every(e => e.innerText === ", no price of large-1")`)
	q.see("no sum of nothing", `!document.querySelector(".timeline").innerText.match(/EUR|undefined|NaN/)`)
	// A bar lies where its task did: behind those that ended before, beside those that ran at once.
	var bars [][2]float64
	p.eval(`[...document.querySelectorAll(".run")][0].querySelectorAll(".track span").values().map(e => { const a = e.getBoundingClientRect(), b = e.parentElement.getBoundingClientRect(); return [(a.left - b.left) / b.width, a.width / b.width] }).toArray()`, &bars)
	if len(bars) != 4 || bars[1][0] < bars[0][0] || bars[1][0]+bars[1][1] > bars[0][0]+bars[0][1] || bars[2][0] < bars[0][0]+bars[0][1]-0.01 || bars[2][1] < 0.6 || bars[3][0] < 0.9 {
		t.Errorf("the bars lie at %v", bars)
	}
	for _, scheme := range []string{"light", "dark"} {
		p.do(emulate(scheme))
		p.check(axe, scheme+" timeline")
	}
	p.do(js(`document.querySelectorAll(".wave .name")[2].click()`))
	p.see("its step", `!location.hash.includes("view=") && document.querySelector(".title h2")?.innerText.startsWith("Model answered")`)

	// Where no queue noted the tasks, the page says whose times it shows.
	other := httptest.NewServer(New(fixture(), Options{}))
	defer other.Close()
	p.do(chromedp.Navigate(other.URL + "/" + timelineThread + "?view=timeline"))
	p.see("the times of checkpoints", `document.querySelectorAll(".wave").length === 4 && [...document.querySelectorAll(".run")].every(e => e.innerText.includes("From the times of the checkpoints"))`)
	p.see("no money", `!document.querySelector(".timeline").innerText.match(/EUR|undefined|NaN/)`)
}

// What was run shows its time line on each server, with the time in which a person was waited for.
func TestTimelineOfRuns(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, base string) {
		thread := b.thread(t, "hello ann")
		b.call(t, "POST", "/threads/"+thread+"/runs/wait", map[string]any{"assistant_id": "mail", "command": map[string]any{"resume": "certainly"}}, nil)
		p := open(t, base)
		p.show("#/threads/" + thread + "?view=timeline")
		p.see("two runs", `document.querySelectorAll(".timeline .run").length === 2`)
		p.see("the wait between them", `/^waited .* for an answer$/.test(document.querySelector(".pause").innerText)`)
		p.see("the newest first", `document.querySelector(".run").innerText.includes("Model answered")`)
		noted := strings.HasSuffix(t.Name(), "/stele")
		p.see("whose times they are", `document.querySelector(".timeline").innerText.includes("From the times of the checkpoints") !== `+quote(noted))
	})
}

// The nodes of the last day are told from the runs of the queue, with those that failed.
func TestNodes(t *testing.T) {
	onStele(t, func(t *testing.T, b backend, base string) {
		var made struct {
			ID string `json:"thread_id"`
		}
		b.call(t, "POST", "/threads", map[string]any{}, &made)
		p := open(t, base)
		p.show("#/threads/" + made.ID)
		p.says("no checkpoint yet")
		b.call(t, "POST", "/threads/"+made.ID+"/runs/wait", map[string]any{"assistant_id": "mail", "input": map[string]any{"messages": []any{map[string]any{"role": "user", "content": "fail"}}}}, nil)
		p.show("#/runs")
		p.see("the node, and that it failed", `[...document.querySelectorAll("[aria-label='Nodes of the last day'] tbody tr")].some(e => e.innerText.startsWith("model") && / of /.test(e.querySelector(".bad")?.innerText))`)
		p.check(axe(t), "nodes")
		p.do(js(`document.querySelector("[aria-label='Nodes of the last day'] .bad").click()`))
		p.see("the failure in its run", `document.querySelector(".wave.failed")`)
	})
}

// A graph has an edge to each node that can be reached, as far as the program or the thread tells, and a loop is a
// line that leads from a node's side to the same side.
func TestGraphEdges(t *testing.T) {
	chromium(t)
	type m = map[string]any
	at := func(i int) m {
		return m{"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": fmt.Sprintf("1f0a0000-0000-6000-80%02d-000000000000", i)}
	}
	// A task is a name, and with a colon where it led, as a server of stele's tells it.
	task := func(i int, told string) m {
		name, to, tells := strings.Cut(told, ":")
		task := m{"id": fmt.Sprint(name, i), "name": name, "interrupts": []any{}, "result": m{"note": "x"}}
		if tells {
			task["stele_leads"] = append([]string{}, strings.Fields(to)...)
		}
		return task
	}
	edge := func(from, to string, conditional bool) m {
		return m{"source": from, "target": to, "conditional": conditional}
	}
	for _, c := range []struct {
		name  string
		nodes string
		edges []any
		steps [][2]string // what ran, and what was next
		want  []string
	}{
		// As LangGraph draws a supervisor that says nothing of where its Commands lead, and one node with a loop.
		{"a supervisor", "supervisor poet critic",
			[]any{edge("__start__", "supervisor", false), edge("supervisor", "supervisor", true), edge("supervisor", "__end__", true)},
			[][2]string{{"supervisor", "poet"}, {"poet", "supervisor"}, {"supervisor", ""}},
			[]string{"supervisor poet taken", "poet supervisor taken"}},
		{"between two that are reached", "router a b",
			[]any{edge("__start__", "router", false), edge("router", "a", true), edge("router", "b", true), edge("b", "__end__", false)},
			[][2]string{{"router", "a"}, {"a", "b"}, {"b", ""}},
			[]string{"a b taken"}},
		{"to the end", "a b",
			[]any{edge("__start__", "a", false), edge("a", "b", true), edge("b", "__end__", false)},
			[][2]string{{"a", ""}}, []string{"a __end__ taken"}},
		{"one of two", "a b c",
			[]any{edge("__start__", "a", false), edge("__start__", "b", false), edge("b", "__end__", false)},
			[][2]string{{"a b", "c"}, {"c", ""}}, []string{"a c taken", "c __end__ taken"}},
		{"of two nobody knows which", "a b c",
			[]any{edge("__start__", "a", false), edge("__start__", "b", false)},
			[][2]string{{"a b", "c"}}, nil},
		{"of two the server knows which", "a b c d",
			[]any{edge("__start__", "a", false), edge("__start__", "b", false)},
			[][2]string{{"a:c b:c,d", "c d"}, {"c: d:", ""}}, []string{"a c taken", "b c taken", "b d taken", "c __end__ taken", "d __end__ taken"}},
		{"by an edge of a join", "a b c",
			[]any{edge("__start__", "a", false), edge("__start__", "b", false), edge("a", "c", false), edge("b", "c", false), edge("c", "__end__", false)},
			[][2]string{{"a b", "c"}, {"c", ""}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := []any{m{"id": "__start__"}, m{"id": "__end__"}}
			for _, n := range strings.Fields(c.nodes) {
				nodes = append(nodes, m{"id": n})
			}
			history := []any{}
			for i := 0; i <= len(c.steps); i++ {
				s := m{"checkpoint": at(i), "metadata": m{"source": "loop", "step": i}, "created_at": "2026-03-01T11:50:00Z", "next": []string{}, "tasks": []any{}, "values": m{}}
				if i > 0 {
					s["parent_checkpoint"], s["next"] = at(i-1), append([]string{}, strings.Fields(c.steps[i-1][1])...)
				}
				if i < len(c.steps) {
					var tasks []any
					for _, told := range strings.Fields(c.steps[i][0]) {
						tasks = append(tasks, task(i, strings.ReplaceAll(told, ",", " ")))
					}
					s["tasks"] = tasks
				}
				history = slices.Insert(history, 0, any(s))
			}
			s := httptest.NewServer(New(answering(m{
				"GET /info":                m{"version": "test"},
				"POST /assistants/search":  []any{m{"assistant_id": "a1", "graph_id": "team", "name": "team", "metadata": m{}}},
				"GET /assistants/a1/graph": m{"nodes": nodes, "edges": c.edges},
				"GET /threads/t":           m{"thread_id": "t", "status": "idle", "metadata": m{"graph_id": "team"}, "values": m{}},
				"GET /threads/t/runs":      []any{},
				"POST /threads/t/history":  history,
			}), Options{}))
			defer s.Close()
			p := open(t, s.URL)
			p.show("#/threads/t")
			p.see("the graph", fmt.Sprintf(`document.querySelectorAll(".graph .node").length === %d`, len(nodes)))
			var taken []string
			p.eval(`[...document.querySelectorAll(".graph .edge.taken")].map(e => e.dataset.from + " " + e.dataset.to + " taken")`, &taken)
			slices.Sort(taken)
			want := append([]string{}, c.want...)
			if slices.Sort(want); !slices.Equal(taken, want) {
				t.Errorf("the edges that were taken are %q, want %q", taken, want)
			}
			var declared int
			if p.eval(`document.querySelectorAll(".graph .edge:not(.taken)").length`, &declared); declared != len(c.edges) {
				t.Errorf("%d edges are declared, want %d", declared, len(c.edges))
			}
			if c.name != "a supervisor" {
				return
			}
			// The loop begins and ends on the right side of its node, and lies beside it.
			var loop [5]float64
			p.eval(`(() => { const e = document.querySelector(".edge[data-from=supervisor][data-to=supervisor]"), n = e.getTotalLength(), a = e.getPointAtLength(0), b = e.getPointAtLength(n), c = e.getPointAtLength(n / 2);
				const r = [...document.querySelectorAll(".node")].find(x => x.textContent.startsWith("supervisor")), w = r.querySelector("rect").width.baseVal.value, x = r.transform.baseVal[0].matrix.e;
				return [a.x - (x + w), b.x - (x + w), Math.abs(a.y - b.y), c.x - (x + w), e.ownerSVGElement.viewBox.baseVal.width - c.x] })()`, &loop)
			if loop[0] > 1 || loop[0] < -1 || loop[1] > 1 || loop[1] < -1 || loop[2] < 8 || loop[3] < 10 || loop[4] < 1 {
				t.Errorf("the loop lies at %v", loop)
			}
		})
	}
}

// Prices are shown to those who may see the page, and not to a page of another site.
func TestPrices(t *testing.T) {
	h := New(new(api), Options{Prices: &Prices{Currency: "EUR", Models: map[string]Price{"m": {Input: 1, Output: 2}}}})
	if got := answer(t, h, "GET", "http://localhost/prices.json", nil); got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, %s", got.StatusCode, got.Header.Get("Content-Type"))
	}
	for _, header := range []map[string]string{{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, {"Host": "evil.example"}, {"Origin": "https://evil.example"}} {
		if got := answer(t, h, "GET", "http://localhost/prices.json", header); got.StatusCode != http.StatusForbidden {
			t.Errorf("%v: status %d", header, got.StatusCode)
		}
	}
	got := answer(t, New(new(api), Options{}), "GET", "http://localhost/prices.json", nil)
	if text, err := io.ReadAll(got.Body); got.StatusCode != http.StatusOK || strings.TrimSpace(string(text)) != "null" || err != nil {
		t.Errorf("without prices: status %d, %q, %v", got.StatusCode, text, err)
	}
}

// Messages that differ in their ids alone are the same to a person; an order's id is not of that kind.
func TestSidesBesideIds(t *testing.T) {
	chromium(t)
	type m = map[string]any
	thread := branches()
	states := thread["POST /threads/t/history"].([]any)
	for i, id := range []string{"a", "b"} {
		said := func(name, text string) m { return m{"type": "ai", "id": name + id, "content": text} }
		states[i].(m)["values"] = m{
			"talk":     []any{m{"type": "ai", "id": id, "content": "one", "tool_calls": []any{m{"name": "f", "args": m{}, "id": "call-" + id}}, "response_metadata": m{"model_name": "m", "id": id}}},
			"messages": []any{said("1", "same"), said("2", "not "+id)},
			"order":    m{"id": id, "total": 3},
		}
	}
	s := httptest.NewServer(New(answering(thread), Options{}))
	defer s.Close()
	p := open(t, s.URL)
	p.show("#/threads/t?at=1f0a0000-0000-6000-8002-000000000000&with=1f0a0000-0000-6000-8001-000000000000")
	p.says("Only ids of messages and calls differ in talk.")
	var channels, tinted []string
	p.eval(`[...document.querySelectorAll(".difference h3")].map(e => e.innerText.split(" ")[0])`, &channels)
	p.eval(`[...document.querySelectorAll("td.removed, td.added")].map(e => e.innerText.trim().split("\n").at(-1))`, &tinted)
	if quote(channels) != `["messages","order"]` || quote(tinted) != `["not b","not a","b","a"]` {
		t.Errorf("%q differ, in %q", channels, tinted)
	}
	p.see("what is the same but for its id", `[...document.querySelectorAll(".path")].some(e => e.innerText.includes("only ids differ"))`)
}
