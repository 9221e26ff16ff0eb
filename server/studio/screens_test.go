package studio

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "write the screenshots of testdata/screens anew; look at each before you commit it")

// look asks a page what takes the room, until it says so.
const look = `document.querySelector(".room") || (document.querySelector("main button")?.click(), false)`

// Screens are what they were. The page has its own fonts, the answers are fixed, and so is the
// time; what differs between machines is the edges of letters.
func TestScreens(t *testing.T) {
	chromium(t)
	s := httptest.NewServer(New(fixture(), Options{}))
	defer s.Close()
	own := httptest.NewServer(New(steleFixture(), Options{}))
	defer own.Close()
	tl := httptest.NewServer(New(timelineFixture(), Options{Prices: &Prices{Currency: "USD", Models: map[string]Price{"large": {Input: 3, Output: 15}}}}))
	defer tl.Close()
	wf := httptest.NewServer(New(workflowFixture(), Options{}))
	defer wf.Close()
	single := httptest.NewServer(New(singleFixture(), Options{}))
	defer single.Close()
	none := httptest.NewServer(New(answering(map[string]any{"GET /info": map[string]any{"version": "test"}, "POST /assistants/search": []any{}, "POST /threads/search": []any{}, "POST /threads/count": 0}), Options{}))
	defer none.Close()
	locked := httptest.NewServer(New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"detail":"no key"}`, http.StatusUnauthorized)
	}), Options{}))
	defer locked.Close()
	const thread = "#/threads/0192f7c0-1111-7000-8000-000000000003"
	const runs, steps = `document.querySelectorAll("tbody tr").length === 12 && document.querySelectorAll(".schedules li").length === 3`, `document.querySelectorAll(".steps .did").length === 6 && document.querySelector("form.signal") && document.querySelector(".node") && document.querySelector(".runs li")`
	const inbox, asked = "#/inbox?id=0192f7c0-1111-7000-8000-000000000005", `document.querySelectorAll(".questions .call").length === 2`
	// A form takes no decision in its first moment.
	const decide = `document.querySelectorAll(".questions .chosen").length === 2 ? document.activeElement.matches("textarea") && (document.activeElement.blur(), true)
		: (document.querySelector(".call:not([data-decided]) [data-decision=" + (document.querySelector(".call[data-decided]") ? "reject]" : "approve]"))?.click(), false)`
	compared := thread + "?at=" + checkpointID(6) + "&with=" + checkpointID(4)
	for _, c := range []struct {
		name, scheme, hash, ready string
		width                     int64
		other                     string // what changes a word
	}{
		{"threads", "light", "#/threads", `document.querySelectorAll(".row").length === 6`, 1280, `document.querySelectorAll(".row .status")[1].innerText = "waiting"`},
		{"threads-dark", "dark", "#/threads", `document.querySelectorAll(".row").length === 6`, 1280, `document.querySelectorAll(".row .status")[1].innerText = "waiting"`},
		{"threads-phone", "light", "#/threads", `document.querySelectorAll(".row").length === 6`, 390, `document.querySelectorAll(".row .status")[1].innerText = "waiting"`},
		{"inbox", "light", inbox, asked, 1280, `document.querySelector(".questions h3").innerText = "Two calls"`},
		{"inbox-dark", "dark", inbox, asked, 1280, `document.querySelector(".questions h3").innerText = "Two calls"`},
		{"inbox-phone", "light", inbox, asked, 390, `document.querySelector(".questions h3").innerText = "Two calls"`},
		{"inbox-list-phone", "light", "#/inbox", `document.querySelectorAll(".ask").length === 2`, 390, `document.querySelector(".ask .words").innerText = "refund, write"`},
		{"inbox-decided", "light", inbox, decide, 1280, `document.querySelector(".questions .chosen").innerText = "Approved"`},
		{"inbox-decided-phone", "dark", inbox, decide, 390, `document.querySelector(".questions .chosen").innerText = "Approved"`},
		{"inbox-single", "light", "#/inbox", `document.querySelectorAll(".questions .call").length === 1`, 1280, `document.querySelector(".questions h3").innerText = "A question"`},
		{"inbox-single-phone", "light", inbox, `document.querySelectorAll(".questions .call").length === 1`, 390, `document.querySelector(".questions h3").innerText = "A question"`},
		{"thread", "light", thread, `document.querySelector(".questions") && document.querySelector(".node") && document.querySelector(".runs li")`, 1280, `document.querySelector(".actions button").innerText = "Send output"`},
		{"compare", "light", compared, `document.querySelector(".difference") && document.querySelector(".node")`, 1280, `document.querySelector(".difference td + td .scalar").innerText = "78"`},
		{"store", "light", "#/store", `document.querySelector(".item")`, 1280, `document.querySelector(".item b").innerText = "foot"`},
		{"thread-dark", "dark", thread, `document.querySelector(".questions") && document.querySelector(".node") && document.querySelector(".runs li")`, 1280, `document.querySelector(".node text").textContent = "stare"`},
		{"runs", "light", "#/runs", runs, 1280, `document.querySelector("tbody td:nth-child(5)").innerText = "8"`},
		{"runs-dark", "dark", "#/runs", runs, 1280, `document.querySelector("tbody td:nth-child(5)").innerText = "8"`},
		{"health", "light", "#/health", look, 1280, `document.querySelector("main h1, main h2").innerText += "s"`},
		{"health-dark", "dark", "#/health", look, 1280, `document.querySelector("main h1, main h2").innerText += "s"`},
		{"health-phone", "light", "#/health", look, 390, `document.querySelector("main h1, main h2").innerText += "s"`},
		{"thread-phone", "light", thread, `document.querySelector(".questions") && document.querySelector(".node") && document.querySelector(".runs li")`, 390, `document.querySelector(".actions button").innerText = "Send output"`},
		{"runs-phone", "light", "#/runs", runs, 390, `document.querySelector("main h1").innerText = "Rins"`},
		{"timeline", "light", thread + "?view=timeline", `document.querySelectorAll(".wave").length === 6 && document.querySelector(".run h2").innerText.includes("USD")`, 1280, `document.querySelector(".wave b").innerText = "sent"`},
		{"timeline-dark", "dark", thread + "?view=timeline", `document.querySelectorAll(".wave").length === 6 && document.querySelector(".run h2").innerText.includes("USD")`, 1280, `document.querySelector(".wave b").innerText = "sent"`},
		{"timeline-phone", "dark", thread + "?view=timeline", `document.querySelectorAll(".wave").length === 6 && document.querySelector(".run h2").innerText.includes("USD")`, 390, `document.querySelector(".legend").innerText = "nodal"`},
		{"compare-dark", "dark", compared, `document.querySelector(".difference") && document.querySelector(".node")`, 1280, `document.querySelector(".difference td + td .scalar").innerText = "78"`},
		{"store-dark", "dark", "#/store", `document.querySelector(".item")`, 1280, `document.querySelector(".item b").innerText = "foot"`},
		{"store-phone", "light", "#/store", `document.querySelector(".item")`, 390, `document.querySelector(".item b").innerText = "foot"`},
		{"workflow", "light", thread, steps, 1280, `document.querySelector(".waits b").innerText = "sleeps"`},
		{"workflow-dark", "dark", thread, steps, 1280, `document.querySelector(".waits b").innerText = "sleeps"`},
		{"workflow-phone", "light", thread, steps, 390, `document.querySelector(".waits b").innerText = "sleeps"`},
		{"sign-in", "light", "", `document.querySelector(".signin input")`, 1280, `document.querySelector(".signin button").innerText = "Sign on"`},
		{"empty", "light", "#/threads", `document.querySelector("div.empty")`, 1280, `document.querySelector("div.empty b, div.empty p").innerText = "There is none."`},
		{"compare-phone", "light", compared, `document.querySelector(".difference")`, 390, `document.querySelector(".end b").innerText = "step 8"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, height := s.URL, int64(800)
			switch name, _, _ := strings.Cut(c.name, "-"); name {
			case "timeline":
				base = tl.URL
			case "workflow":
				base, height = wf.URL, 1160
			case "sign":
				base = locked.URL
			case "empty":
				base = none.URL
			}
			if strings.HasPrefix(c.name, "inbox-single") {
				base = single.URL
			}
			if strings.HasPrefix(c.name, "runs") || strings.HasPrefix(c.name, "health") {
				base, height = own.URL, 960
			}
			p := open(t, base)
			p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
				_, err := cdp.Call(ctx, t, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{
					Source: `Date.now = () => Date.parse("2026-03-01T12:00:00Z")`})
				if err == nil {
					_, err = cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
						Width: c.width, Height: height, DeviceScaleFactor: 1})
				}
				if err == nil {
					_, err = cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"})
				}
				return chromedp.Void{}, err
			}, emulate(c.scheme), chromedp.Navigate(base+"/"+c.hash), chromedp.Reload())
			p.see("the screen", c.ready)
			if base == s.URL || base == tl.URL || base == single.URL {
				p.see("how many wait", `document.querySelector(".badge")`)
			}
			p.see("its fonts", `document.fonts.status === "loaded"`)
			got, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "screens", c.name+".png")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := different(decode(t, want), decode(t, got)); n > mostDifferent {
				out := filepath.Join(t.TempDir(), c.name+".png")
				if dir := os.Getenv("STELE_SCREENSHOTS"); dir != "" {
					out = filepath.Join(dir, c.name+".png")
				}
				if err := os.WriteFile(out, got, 0o644); err != nil {
					t.Error(err)
				}
				t.Errorf("%d pixels differ from %s; what was seen is in %s (set STELE_SCREENSHOTS to keep it)", n, file, out)
			}
			// One word that is another must be seen.
			p.do(js(c.other))
			got, err = chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			if n := different(decode(t, want), decode(t, got)); n <= 2*mostDifferent {
				t.Errorf("after %s %d pixels differ, and that would pass", c.other, n)
			}
		})
	}
}

// At 200 % zoom, and at a phone's width, no screen is wider than the window: nobody has to scroll
// to the side to read. At any width bars that are compared have one scale.
func TestNarrow(t *testing.T) {
	chromium(t)
	s := httptest.NewServer(New(fixture(), Options{}))
	defer s.Close()
	own := httptest.NewServer(New(steleFixture(), Options{}))
	defer own.Close()
	tl := httptest.NewServer(New(timelineFixture(), Options{}))
	defer tl.Close()
	wf := httptest.NewServer(New(workflowFixture(), Options{}))
	defer wf.Close()
	const thread = "/#/threads/0192f7c0-1111-7000-8000-000000000003"
	p := open(t, s.URL)
	for _, width := range []int64{1280, 1000, 640, 390} { // 640 is 1280 at 200 %
		p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
			_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 600, DeviceScaleFactor: 2})
			return chromedp.Void{}, err
		})
		for _, c := range []struct{ at, ready string }{
			{s.URL + "/#/threads", `document.querySelector(".row")`},
			{s.URL + thread, `document.querySelector(".questions") && document.querySelector(".node")`},
			{s.URL + thread + "?at=" + checkpointID(6) + "&with=" + checkpointID(4), `document.querySelector(".difference")`},
			{s.URL + "/#/inbox", `document.querySelector(".ask")`},
			{s.URL + "/#/inbox?id=0192f7c0-1111-7000-8000-000000000005", `document.querySelector(".questions .call")`},
			{s.URL + "/#/store", `document.querySelector(".item")`},
			{own.URL + "/#/runs", `document.querySelector("tbody tr")`},
			{own.URL + "/#/health", `document.querySelector(".tiles")`},
			{tl.URL + thread + "?view=timeline", `document.querySelector(".wave")`},
			{wf.URL + thread, `document.querySelector(".steps .did") && document.querySelector("form.signal")`},
		} {
			p.do(chromedp.Navigate(c.at))
			p.see(c.at, c.ready)
			var wide []string
			p.eval(`document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("#app *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + "." + e.className).slice(0, 5)`, &wide)
			if len(wide) > 0 {
				t.Errorf("%d pixels, %s: wider than the window: %v", width, c.at, wide)
			}
			// What deletes is not beside what does not: nobody presses it by a slip.
			var near float64
			p.eval(`(() => { const d = document.querySelector(".actions > .danger")?.getBoundingClientRect(); if (!d) return 1e9;
				const beside = [...document.querySelectorAll(".actions button")].filter(e => !e.matches(".danger")).map(e => e.getBoundingClientRect()).filter(r => r.top < d.bottom && r.bottom > d.top);
				return Math.min(1e9, ...beside.map(r => Math.max(d.left - r.right, r.left - d.right))) })()`, &near)
			if near < 20 {
				t.Errorf("%d pixels, %s: %g pixels are between Delete and what is beside it", width, c.at, near)
			}
			var scales []float64
			for _, bars := range []string{".history .meter", ".wave .track"} {
				p.eval(`[...new Set([...document.querySelectorAll(`+quote(bars)+`)].map(e => e.getBoundingClientRect().width).filter(w => w > 0))]`, &scales)
				if len(scales) > 1 {
					t.Errorf("%d pixels, %s: %s are drawn to the scales %v", width, c.at, bars, scales)
				}
			}
		}
	}
}

// mostDifferent is how many pixels of a screen may differ.
const mostDifferent = 12

// different counts the pixels of one image that have nothing like them in the other, there or
// beside it. So the edges of letters may be drawn another way, and letters may not.
func different(x, y image.Image) int {
	if x.Bounds() != y.Bounds() {
		return 1 << 30
	}
	count := 0
	for j := range x.Bounds().Dy() {
		for i := range x.Bounds().Dx() {
			if !near(x, y, i, j) || !near(y, x, i, j) {
				count++
			}
		}
	}
	return count
}

// near reports whether a pixel of x is like one of y, there or beside it.
func near(x, y image.Image, i, j int) bool {
	if alike(x.At(i, j), y.At(i, j)) {
		return true
	}
	for dj := -1; dj <= 1; dj++ {
		for di := -1; di <= 1; di++ {
			if image.Pt(i+di, j+dj).In(y.Bounds()) && alike(x.At(i, j), y.At(i+di, j+dj)) {
				return true
			}
		}
	}
	return false
}

// alike colours are apart by at most 6 % in each channel.
func alike(a, b color.Color) bool {
	r1, g1, b1, _ := a.RGBA()
	r2, g2, b2, _ := b.RGBA()
	return !far(r1, r2) && !far(g1, g2) && !far(b1, b2)
}

func far(a, b uint32) bool { return max(a, b)-min(a, b) > 0x1000 }

func decode(t *testing.T, data []byte) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// fixture is a server whose answers are always the same: six threads, and one with a fork and
// a question that waits.
func fixture() http.Handler {
	answers := answersOfFixture()
	usual := answering(answers)
	oldest := slices.Clone(answers["POST /threads/search"].([]any))
	slices.Reverse(oldest)
	answers = maps.Clone(answers)
	answers["POST /threads/search"] = oldest
	oldestFirst := answering(answers)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"sort_order":"asc"`)) {
			oldestFirst.ServeHTTP(w, r)
			return
		}
		usual.ServeHTTP(w, r)
	})
}

// checkpointID is a UUID of version 6, whose time changes in the middle.
func checkpointID(i int) string {
	return fmt.Sprintf("1f115600-%04x-6%03x-8%03d-8d1c0b7e5a90", 0x2c41+i*0x1357, 0x1a3+i*0x111, i)
}

// timelineFixture is the same server with a queue, which noted the tasks of two runs: one that asked, and one
// that was answered, and failed in the end.
func timelineFixture() http.Handler { return answering(timelineAnswers()) }

// A thread of the fixture, and its runs.
const fixedThread, firstRun, secondRun = "0192f7c0-1111-7000-8000-000000000003", "0192f7c0-2222-7000-8000-000000000001", "0192f7c0-2222-7000-8000-000000000002"

func timelineAnswers() map[string]any {
	type m = map[string]any
	task := func(id, began string, took time.Duration, status string, starts, attempts int, namespace ...string) m {
		name, _, _ := strings.Cut(id, "-")
		return m{"id": id, "name": name, "namespace": append([]string{}, namespace...), "starts": starts, "attempts": attempts, "status": status, "began_at": "2026-03-01T11:" + began + "Z", "took_ns": took}
	}
	answers := answersOfFixture()
	answers["GET /info"] = m{"version": "test", "stele": m{"runs": true, "tasks": true}}
	answers["GET /threads/"+fixedThread+"/runs"] = []any{m{"run_id": secondRun, "status": "error", "created_at": "2026-03-01T11:53:03Z"}, m{"run_id": firstRun, "status": "interrupted", "created_at": "2026-03-01T11:50:00Z"}}
	answers["GET /stele/runs"] = m{"total": 0, "runs": []any{}}
	answers["GET /stele/threads/"+fixedThread+"/runs/"+firstRun+"/tasks"] = m{"recorded": true, "tasks": []any{
		task("model-1", "50:00.050", 2_200*time.Millisecond, "ended", 1, 3), task("send-1", "50:02.320", time.Millisecond, "waiting", 1, 1)}}
	answers["GET /stele/threads/"+fixedThread+"/runs/"+secondRun+"/tasks"] = m{"recorded": true, "tasks": []any{
		task("send-2", "53:03.130", 760*time.Millisecond, "ended", 2, 1), task("model-9", "53:03.200", 400*time.Millisecond, "ended", 1, 1, "send:send-2"), task("model-2", "53:03.910", 2_210*time.Millisecond, "ended", 1, 1),
		task("archive", "53:06.150", 90*time.Millisecond, "error", 1, 3)}}
	return answers
}

func answersOfFixture() map[string]any {
	type m = map[string]any
	id := func(i int) string { return fmt.Sprintf("0192f7c0-1111-7000-8000-%012d", i) }
	message := func(kind, content string, more m) m {
		out := m{"type": kind, "content": content, "id": kind + content}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	call := m{"id": "call-1", "name": "send_mail", "args": m{"to": "ann@example.org", "text": "See you on **Monday**."}}
	talk := []any{
		message("human", "Write to Ann that we meet on Monday.", nil),
		message("ai", "I will send her a mail.", m{"tool_calls": []any{call}, "usage_metadata": m{"input_tokens": 120, "output_tokens": 28, "total_tokens": 148}, "response_metadata": m{"model_name": "large-1"}}),
	}
	done := append(talk[:2:2],
		message("tool", "sent", m{"tool_call_id": "call-1", "name": "send_mail"}),
		message("ai", "Done: the mail is on its way.", m{"usage_metadata": m{"input_tokens": 190, "output_tokens": 22, "total_tokens": 212}, "response_metadata": m{"model_name": "large-1"}}))
	review := m{"id": "q2", "value": m{
		"action_requests": []any{
			m{"name": "refund", "args": m{"order": int64(9007199254740993), "amount": 49.9, "reason": "The parcel came two weeks late."}, "description": "Tool execution requires approval\n\nTool: refund\nArgs: {}"},
			m{"name": "write", "args": m{"to": "bob@example.org", "text": "Dear Bob,\nwe are sorry that your parcel was late. The money is on its way."}, "description": "Mails to customers are read by a person first."}},
		"review_configs": []any{m{"action_name": "refund", "allowed_decisions": []string{"approve", "edit", "reject", "respond"}}, m{"action_name": "write", "allowed_decisions": []string{"approve", "reject"}}}}}
	question := m{"id": "q1", "value": m{"question": "Send this mail?", "to": "ann@example.org"},
		"response_schema": m{"type": "object", "properties": m{"send": m{"type": "boolean", "title": "Send it"}, "note": m{"type": "string", "title": "A note for the agent"}}}}
	late := []any{message("human", "My parcel was two weeks late, I want my money back.", nil),
		message("ai", "I am sorry. I will refund it, and write to you.", m{"tool_calls": []any{m{"id": "c2", "name": "refund", "args": m{"order": int64(9007199254740993), "amount": 49.9}}}})}
	var threads []any
	for i, t := range []struct {
		status, title, owner string
		messages             []any
		asked                m
	}{
		{"idle", "", "ann", done, nil},
		{"busy", "Quarterly report for the board", "bob", talk[:1], nil},
		{"interrupted", "", "ann", talk, m{"t1": []any{question}}},
		{"error", "", "carla", []any{message("human", "Which of our suppliers deliver to Norway, and how long do they take for it on average?", nil), message("ai", "Let me look.", nil)}, nil},
		{"interrupted", "", "bob", late, m{"t2": []any{review}}},
		{"idle", "", "", done[:4], nil},
	} {
		metadata := m{"graph_id": "mail"}
		for key, v := range map[string]string{"title": t.title, "owner": t.owner} {
			if v != "" {
				metadata[key] = v
			}
		}
		th := m{"thread_id": id(i + 1), "status": t.status, "created_at": fmt.Sprintf("2026-03-01T0%d:12:00Z", 9-i), "interrupts": t.asked,
			"updated_at": fmt.Sprintf("2026-03-01T1%d:%d5:00Z", max(0, 1-i/3), 5-i%3), "metadata": metadata, "values": m{"messages": t.messages}}
		threads = append(threads, th)
	}
	checkpoint := func(i int) m {
		return m{"thread_id": id(3), "checkpoint_ns": "", "checkpoint_id": checkpointID(i)}
	}
	run := func(i int) string { return fmt.Sprintf("0192f7c0-2222-7000-8000-%012d", i) }
	runOf := []any{run(1), run(1), run(1), nil, run(2), run(2), nil}
	times := []string{"50:00.000", "50:00.040", "50:02.310", "53:03.120", "53:03.900", "53:06.140", "56:06.250"}
	state := func(i, parent, step int, source string, messages []any, next []string, tasks ...any) m {
		out := m{"checkpoint": checkpoint(i), "metadata": m{"source": source, "step": step, "run_id": runOf[i]}, "created_at": "2026-03-01T11:" + times[i] + "Z",
			"values": m{"messages": messages, "to": "ann@example.org", "budget": 3 - step}, "next": next, "tasks": append([]any{}, tasks...)}
		if parent >= 0 {
			out["parent_checkpoint"] = checkpoint(parent)
		}
		return out
	}
	task := func(name string, interrupts ...any) m {
		return m{"id": name, "name": name, "interrupts": append([]any{}, interrupts...)}
	}
	ended := func(id, name string, messages ...any) m {
		return m{"id": id, "name": name, "interrupts": []any{}, "result": m{"messages": messages}}
	}
	history := []any{
		state(6, 2, 2, "fork", talk, []string{"send"}, task("send", question)),
		state(5, 4, 4, "loop", done, []string{}),
		state(4, 3, 3, "loop", done[:3], []string{"model"}, ended("model-2", "model", done[3])),
		state(3, 2, 2, "update", talk, []string{"send"}, ended("send-2", "send", done[2])),
		state(2, 1, 1, "loop", talk, []string{"send"}, task("send", question)),
		state(1, 0, 0, "loop", talk[:1], []string{"model"}, ended("model-1", "model", talk[1])),
		state(0, -1, -1, "input", nil, []string{"__start__"}, ended("start-1", "__start__", talk[0])),
	}
	return map[string]any{
		"GET /info":               m{"version": "test"},
		"POST /assistants/search": []any{m{"assistant_id": "a1", "graph_id": "mail", "name": "mail", "metadata": m{}}},
		"GET /assistants/a1/graph": m{
			"nodes": []any{m{"id": "__start__"}, m{"id": "model"}, m{"id": "send"}, m{"id": "__end__"}},
			"edges": []any{m{"source": "__start__", "target": "model"}, m{"source": "model", "target": "send", "conditional": true},
				m{"source": "model", "target": "__end__", "conditional": true}, m{"source": "send", "target": "model"}}},
		"POST /threads/search":                threads,
		"GET /threads/" + id(3):               threads[2],
		"GET /threads/" + id(3) + "/runs":     []any{m{"run_id": "0192f7c0-2222-7000-8000-000000000001", "status": "interrupted", "created_at": "2026-03-01T11:51:00Z"}},
		"POST /threads/" + id(3) + "/history": history,
		"GET /threads/" + id(3) + "/state":    history[0],
		"POST /threads/count":                 2,
		"GET /threads/" + id(5) + "/state": m{"checkpoint": m{"thread_id": id(5), "checkpoint_ns": "", "checkpoint_id": checkpointID(9)}, "metadata": m{"source": "loop", "step": 1},
			"created_at": "2026-03-01T10:45:00Z", "next": []any{"approve"}, "values": m{"messages": late}, "tasks": []any{m{"id": "t2", "name": "HumanInTheLoopMiddleware.after_model", "interrupts": []any{review}}}},
		"POST /store/namespaces":   m{"namespaces": []any{[]string{"users", "ann"}, []string{"users", "bob", "facts"}}},
		"POST /store/items/search": m{"items": []any{m{"namespace": []string{"users", "ann"}, "key": "food", "value": m{"likes": "soup", "since": 2019}, "updated_at": "2026-03-01T08:00:00Z"}}},
	}
}

// singleFixture is a server on which one agent asks for one call.
func singleFixture() http.Handler {
	type m = map[string]any
	answers := answersOfFixture()
	asks := answers["POST /threads/search"].([]any)[4].(m)
	one := asks["interrupts"].(m)["t2"].([]any)[0].(m)["value"].(m)
	one["action_requests"], one["review_configs"] = one["action_requests"].([]any)[:1], one["review_configs"].([]any)[:1]
	answers["POST /threads/search"], answers["POST /threads/count"] = []any{asks}, 1
	return answering(answers)
}

// workflowFixture is a server of stele's with a workflow that waits for a signal.
func workflowFixture() http.Handler {
	type m = map[string]any
	const id = "0192f7c0-1111-7000-8000-000000000003"
	wait := m{"id": "wait-1", "value": m{"signal": "paid", "until": "2026-03-04T12:00:00Z"}}
	th := m{"thread_id": id, "status": "interrupted", "stele_status": "sleeping", "metadata": m{"graph_id": "order", "title": "Order 1042, two lamps", "owner": "ann"}, "values": m{},
		"interrupts": m{"t1": []any{wait}}, "created_at": "2026-03-01T09:12:00Z", "updated_at": "2026-03-01T09:12:09Z"}
	head := m{"checkpoint": m{"thread_id": id, "checkpoint_ns": "", "checkpoint_id": checkpointID(1)}, "metadata": m{"source": "input", "step": -1, "run_id": "r1"}, "created_at": "2026-03-01T09:12:00Z",
		"next": []any{"order"}, "stele_version": "2026-03", "values": m{"__start__": m{"order": 1042}}, "tasks": []any{m{"id": "t1", "name": "order", "interrupts": []any{wait}}}}
	at := func(second string) string { return "2026-03-01T09:12:" + second + "Z" }
	return answering(m{
		"GET /info":               m{"version": "test", "stele": m{"thread_status": true, "runs": true, "steps": true, "signals": true, "graph_versions": m{"order": "2026-03"}}},
		"POST /assistants/search": []any{m{"assistant_id": "a1", "graph_id": "order", "name": "order", "metadata": m{}}},
		"GET /assistants/a1/graph": m{"nodes": []any{m{"id": "__start__"}, m{"id": "order"}, m{"id": "__end__"}},
			"edges": []any{m{"source": "__start__", "target": "order"}, m{"source": "order", "target": "__end__"}}},
		"POST /threads/search":             []any{th},
		"POST /threads/count":              0,
		"GET /threads/" + id:               th,
		"GET /threads/" + id + "/runs":     []any{m{"run_id": "r1", "status": "pending", "created_at": at("00")}},
		"GET /stele/runs":                  m{"total": 1, "runs": []any{m{"run_id": "r1", "thread_id": id, "graph": "order", "status": "pending", "waiting": true, "attempt": 0, "after": "2026-03-04T12:00:00Z", "created_at": at("00"), "started_at": at("00")}}},
		"POST /threads/" + id + "/history": []any{head},
		"GET /threads/" + id + "/state":    head,
		"GET /stele/threads/" + id + "/steps": m{"steps": []any{
			m{"kind": "exposed", "name": "days left", "state": "done", "result": 3},
			m{"kind": "call", "node": "order", "name": "reserve", "state": "done", "result": m{"lamps": 2, "shelf": "B 12"}, "attempts": 2, "began": at("00"), "took_ns": int64(1_240_000_000)},
			m{"kind": "call", "node": "order", "name": "print the invoice", "state": "failed", "error": "the printer has no paper", "began": at("01")},
			m{"kind": "call", "node": "order", "name": "send the invoice", "state": "done", "result": "by mail to ann@example.org", "attempts": 1, "began": at("01"), "took_ns": int64(310_000_000)},
			m{"kind": "child", "node": "order", "name": "parcel", "state": "done", "result": "at the door", "thread_id": "0192f7c0-4444-7000-8000-000000000001", "began": at("02")},
			m{"kind": "sleep", "node": "order", "state": "done", "until": at("08"), "began": at("03")},
			m{"kind": "signal", "node": "order", "name": "paid", "state": "waiting", "until": "2026-03-04T12:00:00Z", "began": at("09")}}},
		"GET /stele/threads/" + id + "/signals":         m{"more": false, "signals": []any{m{"id": "1", "name": "payed", "keyed": true, "sent_at": "2026-03-01T10:40:00Z", "value": m{"amount": 120}}}},
		"GET /stele/threads/" + id + "/signals/refused": m{"refused": []any{m{"id": "2", "name": "paid", "value": "120 EUR", "error": "want an object with amount, got a string"}}},
	})
}

// steleFixture is a server of stele's whose answers are always the same.
func steleFixture() http.Handler {
	type m = map[string]any
	run := func(i int, status, err string, more m) m {
		out := m{"run_id": fmt.Sprintf("0192f7c0-3333-7000-8000-%012d", i), "thread_id": fmt.Sprintf("0192f7c0-1111-7000-8000-%012d", i), "graph": "mail", "status": status,
			"error": err, "attempt": 1, "created_at": fmt.Sprintf("2026-03-01T11:5%d:00Z", 9-i), "started_at": fmt.Sprintf("2026-03-01T11:5%d:00.100Z", 9-i), "ended_at": fmt.Sprintf("2026-03-01T11:5%d:04.350Z", 9-i)}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	return answering(map[string]any{
		"GET /info":               m{"version": "test", "flags": m{"crons": true}, "stele": m{"lazy_history": true, "thread_status": true, "thread_prefix": true, "runs": true, "nodes": true, "graph_versions": m{"mail": "2026-03"}, "health": true, "room": true, "verify": true, "backup": true}},
		"POST /assistants/search": []any{m{"assistant_id": "a1", "graph_id": "mail", "name": "mail", "metadata": m{}}},
		"POST /runs/crons/search": []any{m{"cron_id": "c1", "assistant_id": "a1", "schedule": "30 6 1 * *", "timezone": "Europe/Berlin", "enabled": true, "next_run_date": "2026-04-01T04:30:00Z"},
			m{"cron_id": "c2", "assistant_id": "a1", "thread_id": "0192f7c0-1111-7000-8000-000000000002", "schedule": "0 * * * *", "enabled": false}},
		"GET /stele/runs": m{"total": 5, "runs": []any{
			run(1, "pending", "", m{"started_at": nil, "ended_at": nil, "attempt": 0}),
			run(2, "success", "", m{"waiting": true}),
			run(3, "error", "the model is not there: dial tcp 10.0.0.7:443: connect: connection refused", m{"attempt": 3}),
			run(4, "interrupted", "", nil),
			run(5, "success", "", nil),
		}},
		"GET /stele/nodes": m{"runs": 5, "complete": true, "nodes": []any{
			m{"graph": "mail", "name": "model", "tasks": 41, "failed": 2, "waiting": 0, "retries": 5, "took_ns": int64(92_400_000_000), "longest_ns": int64(8_300_000_000), "run_id": "r", "thread_id": "t"},
			m{"graph": "mail", "name": "send", "tasks": 9, "failed": 0, "waiting": 0, "retries": 0, "took_ns": int64(12_700_000_000), "longest_ns": int64(2_100_000_000), "run_id": "r", "thread_id": "t"},
			m{"graph": "mail", "name": "HumanInTheLoopMiddleware.after_model", "tasks": 12, "failed": 0, "waiting": 6, "retries": 0, "took_ns": int64(41_000_000), "longest_ns": int64(5_000_000), "run_id": "r", "thread_id": "t"}}},
		"GET /stele/versions": m{"versions": []any{
			m{"graph": "mail", "version": "2026-03", "runs": 14, "pinned": 0, "workers": 2},
			m{"graph": "mail", "version": "2026-02", "runs": 3, "pinned": 3, "workers": 0},
			m{"graph": "mail", "version": "", "runs": 21, "pinned": 0, "workers": 0},
			m{"graph": "order", "version": "9f2c41d07a55", "runs": 0, "pinned": 0, "workers": 1}}},
		"GET /stele/schedules": m{"schedules": []any{m{"id": "s1", "cron": "0 7 * * 1-5", "graph": "mail", "next": "2026-03-02T07:00:00Z"}}},
		"GET /stele/health": m{
			"health": m{"problems": []any{m{"kind": "disk_low", "detail": "3 GB are free, 10 GB are asked for"}}, "space": m{"free": int64(3_100_000_000), "total": int64(64_000_000_000)}},
			"stats": m{"threads": 1284, "log_files": 2, "log_bytes": 1_200_000, "segments": 7, "segment_bytes": 84_000_000, "raw_bytes": 612_000_000, "dead_bytes": 9_400_000,
				"images": 2, "compaction_debt": 0, "resident": 96}},
		"GET /stele/room": m{"bytes": 640_000_000, "channels": []any{m{"channel": "messages", "values": 18_211, "bytes": 431_000_000}, m{"channel": "documents", "values": 902, "bytes": 122_000_000},
			m{"channel": "plan", "values": 4_410, "bytes": 21_000_000}, m{"channel": "budget", "values": 4_410, "bytes": 39_000}},
			"records": m{"values": 20_120, "bytes": 31_000_000}, "writes": m{"values": 11_004, "bytes": 27_000_000}, "items": m{"values": 377, "bytes": 7_900_000}, "other": m{"values": 12, "bytes": 61_000}},
	})
}

// answering is a server that has one answer for each request.
func answering(answers map[string]any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			http.Error(w, `{"detail":"not in the fixture"}`, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(quote(a)))
	})
}
