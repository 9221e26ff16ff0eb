package studio

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// branches is a server with a thread of two branches, whose ends differ in a text, a list, a map
// and a conversation.
func branches() map[string]any {
	type m = map[string]any
	at := func(i string) m {
		return m{"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1f0a0000-0000-6000-800" + i + "-000000000000"}
	}
	var poem []string
	for _, line := range strings.Split("abcdefghijklmnopqrst", "") {
		poem = append(poem, "line "+line+" of the poem")
	}
	other := slices.Clone(poem)
	other[9] = "line j of another poem"
	other = slices.Insert(other, 12, "a new line")
	other = slices.Delete(other, 16, 17)
	said := func(text string) m { return m{"type": "human", "id": text, "content": text} }
	state := func(i, parent string, step int, values m) m {
		s := m{"checkpoint": at(i), "metadata": m{"source": "loop", "step": step}, "created_at": "2026-03-01T11:50:00Z", "next": []any{}, "tasks": []any{}, "values": values}
		if parent != "" {
			s["parent_checkpoint"] = at(parent)
		}
		return s
	}
	return m{
		"GET /info":               m{"version": "test"},
		"POST /assistants/search": []any{},
		"GET /threads/t":          m{"thread_id": "t", "status": "idle", "metadata": m{}, "values": m{}},
		"GET /threads/t/runs":     []any{},
		"POST /threads/t/history": []any{
			state("2", "0", 1, m{"poem": strings.Join(other, "\n"), "tags": []any{"a", "c", "d", "e"}, "plan": m{"days": 3, "where": "Rome", "who": "Ann"}, "messages": []any{said("hello"), said("and you?")}, "same": 1}),
			state("1", "0", 1, m{"poem": strings.Join(poem, "\n"), "tags": []any{"a", "b", "c", "d"}, "plan": m{"days": 2, "where": "Rome", "with": "Bob"}, "messages": []any{said("hello"), said("goodbye")}, "same": 1}),
			state("0", "", 0, m{}),
		},
	}
}

// Two branches are beside each other, row by row: what is equal is in one row, and so is what
// stands in place of something else, with the words that differ marked on their own side.
func TestSides(t *testing.T) {
	chromium(t)
	axe := axe(t)
	s := httptest.NewServer(New(answering(branches()), Options{}))
	defer s.Close()
	p := open(t, s.URL)
	p.show("#/threads/t?at=1f0a0000-0000-6000-8002-000000000000&with=1f0a0000-0000-6000-8001-000000000000")
	p.says("Two branches, which part at …0000-6000.")
	p.see("which is which", `[...document.querySelectorAll(".end .note:first-child")].map(e => e.innerText).join() === "one branch,other branch"`)
	p.see("signs beside the colours", `getComputedStyle(document.querySelector("td.removed"), "::before").content === '"−"' && getComputedStyle(document.querySelector("td.added"), "::before").content === '"+"'`)
	rows := func(channel string) (rows [][]string) {
		t.Helper()
		p.eval(`[...[...document.querySelectorAll("table.sides")].find(t => t.caption.innerText === `+quote(channel)+`).querySelectorAll("tbody tr")].map(r => [...r.cells].map(c => c.innerText.trim()))`, &rows)
		return rows
	}
	equal := func(channel string, want ...[]string) {
		t.Helper()
		if got := rows(channel); quote(got) != quote(want) {
			t.Errorf("%s is\n%s, want\n%s", channel, quote(got), quote(want))
		}
	}
	both := func(l string) []string { return []string{"line " + l + " of the poem", "line " + l + " of the poem"} }
	equal("poem", []string{"7 lines the same"}, both("h"), both("i"), []string{"line j of the poem", "line j of another poem"}, both("k"), both("l"),
		[]string{"", "a new line"}, both("m"), both("n"), both("o"), []string{"line p of the poem", ""}, both("q"), both("r"), []string{"2 lines the same"})
	equal("tags", []string{"0"}, []string{"a", "a"}, []string{"1"}, []string{"b", ""}, []string{"c", "c"}, []string{"2"}, []string{"d", "d"}, []string{"3"}, []string{"", "e"})
	equal("plan", []string{"days"}, []string{"2", "3"}, []string{"who"}, []string{"", "Ann"}, []string{"with"}, []string{"Bob", ""})
	var marked [2][]string
	p.eval(`["del", "ins"].map(m => [...[...document.querySelectorAll("table.sides")].find(t => t.caption.innerText === "poem").querySelectorAll(m)].map(e => e.innerText))`, &marked)
	if quote(marked) != `[["the","line p of the poem"],["another","a new line"]]` {
		t.Errorf("marked are %q", marked)
	}
	// The rows are aligned on the screen, the left half and the right one.
	var aligned bool
	p.eval(`[...document.querySelectorAll("table.sides tbody tr")].filter(r => r.cells.length === 2).every(r => { const [a, b] = [...r.cells].map(c => c.getBoundingClientRect()); return a.top === b.top && Math.abs(a.right - b.left) < 2 && Math.abs(a.width - b.width) < 2 })`, &aligned)
	if !aligned {
		t.Error("the sides are not aligned")
	}
	var heads []string
	p.eval(`[...document.querySelector("table.sides").querySelectorAll("th[scope=col]")].map(e => e.textContent)`, &heads)
	if quote(heads) != `["step 1 1f0a0000-0000-6000-8001-000000000000","step 1 1f0a0000-0000-6000-8002-000000000000"]` {
		t.Errorf("the columns are called %q", heads)
	}
	for _, scheme := range []string{"light", "dark"} {
		p.do(emulate(scheme))
		p.check(axe, scheme+" sides")
	}
	// The keyboard alone opens what is folded, and swaps the sides.
	p.do(chromedp.Focus(chromedp.CSS("table.sides .fold button")), chromedp.KeyEvent(kb.Enter))
	p.see("all lines", `[...document.querySelectorAll("table.sides td")].some(c => c.innerText === "line a of the poem")`)
	p.do(js(`[...document.querySelectorAll("button")].find(b => b.innerText === "swap the sides").focus()`), chromedp.KeyEvent(kb.Enter))
	p.see("the other side first", `location.hash.includes("at=1f0a0000-0000-6000-8001") && [...document.querySelectorAll("table.sides ins")].some(e => e.innerText === "line p of the poem")`)

	// On a phone one is below the other, and what is equal is there once.
	p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 800, DeviceScaleFactor: 1})
		return chromedp.Void{}, err
	})
	p.see("the sides in one column", `[...document.querySelectorAll("table.sides tbody tr:not(.same)")].filter(r => r.cells.length === 2 && r.cells[0].innerText && r.cells[1].innerText).every(r => r.cells[0].getBoundingClientRect().bottom <= r.cells[1].getBoundingClientRect().top + 1)`)
	var twice int
	if p.eval(`[...document.querySelectorAll("table.sides tr.same")].filter(r => r.cells[1].offsetHeight > 0).length`, &twice); twice > 0 {
		t.Errorf("%d equal rows are there twice", twice)
	}
	p.check(axe, "sides on a phone")
	// Two are chosen by a finger alone.
	p.click("close comparison")
	p.see("one checkpoint", `!document.querySelector("table.sides")`)
	p.do(js(`document.querySelector(".history > .toggle").click()`))
	p.click("compare two")
	p.says("Choose the other one.")
	p.do(js(`document.querySelectorAll(".history .row")[2].click()`))
	p.see("both", `location.hash.includes("at=1f0a0000-0000-6000-8001") && location.hash.includes("with=1f0a0000-0000-6000-8000") && document.querySelector("table.sides")`)
}

// Words are compared of so much text, and of lines that have enough in common: the rest is marked
// whole, so that the page does not stand still.
func TestSidesOfMuchText(t *testing.T) {
	chromium(t)
	thread := branches()
	states := thread["POST /threads/t/history"].([]any)
	for i, word := range []string{"old", "new"} {
		long := strings.Repeat("a word ", 700)
		var lines []string
		for range 50 {
			lines = append(lines, long+word)
		}
		unlike := make([]string, 800)
		for j := range unlike {
			unlike[j] = fmt.Sprint(word, j)
		}
		states[i].(map[string]any)["values"] = map[string]any{"log": strings.Join(lines, "\n"), "unlike": strings.Join(unlike, " ")}
	}
	s := httptest.NewServer(New(answering(thread), Options{}))
	defer s.Close()
	p := open(t, s.URL)
	p.show("#/threads/t?at=1f0a0000-0000-6000-8002-000000000000&with=1f0a0000-0000-6000-8001-000000000000")
	p.says("Two branches")
	var marks [][]int // how many characters are marked in each row
	p.eval(`["log", "unlike"].map(name => [...[...document.querySelectorAll("table.sides")].find(t => t.caption.innerText === name).querySelectorAll("tbody tr")].map(r => [...r.querySelectorAll("del")].reduce((n, e) => n + e.textContent.length, 0)))`, &marks)
	if log := marks[0]; len(log) != 50 || log[0] != 3 || log[19] != 3 || log[49] < 2000 {
		t.Errorf("of lines with another word are marked %v", log)
	}
	var pieces int
	if p.eval(`[...document.querySelectorAll("table.sides")].find(t => t.caption.innerText === "unlike").querySelectorAll("del").length`, &pieces); pieces != 1 {
		t.Errorf("a line that has nothing in common with the other is marked in %d pieces", pieces)
	}
}
