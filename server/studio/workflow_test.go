package studio

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// onWorkflows is a server with the workflow `order`, which starts the workflow `parcel`, `post`, which starts `letter`,
// and with an agent of which a graph inside asks.
func onWorkflows(t *testing.T) backend {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	items, err := store.NewMemory(store.Options{})
	must(err)
	saver := memory.New(memory.Options{})
	queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	must(err)
	o := pregel.EntrypointOptions{Options: pregel.Options{Saver: saver, Store: items, Version: "seven"}}
	tried := 0
	charge := pregel.NewTask("charge", func(_ context.Context, cents int) (map[string]any, error) {
		if tried++; tried == 1 {
			return nil, errors.New("busy")
		}
		return map[string]any{"payment": "p-1", "cents": cents}, nil
	}, pregel.TaskOptions{Retry: []pregel.RetryPolicy{{MaxAttempts: 2, InitialInterval: time.Microsecond, RetryOn: func(error) bool { return true }}}})
	invoice := pregel.NewTask("print invoice", func(context.Context, int) (string, error) { return "", errors.New("no paper") })
	parcels := pregel.NewChild[string, string]("parcel")
	there := pregel.NewSignal[string]("there")
	order, err := pregel.Entrypoint("order", func(ctx context.Context, cents int) (string, error) {
		if _, err := charge.Call(ctx, cents); err != nil {
			return "", err
		}
		if _, err := invoice.Call(ctx, cents); err == nil {
			return "", errors.New("paper")
		}
		if err := pregel.Expose(ctx, "days left", 3); err != nil {
			return "", err
		}
		return parcels.Call(ctx, "to ada")
	}, o)
	must(err)
	parcel, err := pregel.Entrypoint("parcel", func(ctx context.Context, to string) (string, error) { return there.Receive(ctx) }, o)
	must(err)

	helper, err := graph.For[message.State]().Node("ask", func(ctx context.Context, s *message.State) (graph.Update, error) {
		a, err := pregel.AskFor[string](ctx, map[string]any{"question": "Which colour?"})
		if err != nil {
			return nil, err
		}
		return graph.Write(&s.Messages, message.List{message.AI("It is " + a)}), nil
	}).Node("think", func(_ context.Context, s *message.State) (graph.Update, error) {
		return graph.Write(&s.Messages, message.List{message.AI("The painter wants to know the colour.")}), nil
	}).Sequence(graph.Start, "think", "ask").Compile(graph.Options{Name: "painter"})
	must(err)
	house, err := graph.For[message.State]().Subgraph("painter", helper.Untyped()).Edge(graph.Start, "painter").Compile(graph.Options{Name: "house", Saver: saver})
	must(err)

	letters := pregel.NewChild[string, string]("letter")
	post, err := pregel.Entrypoint("post", func(ctx context.Context, to string) (string, error) { return letters.Call(ctx, to) }, o)
	must(err)
	letter, err := pregel.Entrypoint("letter", func(ctx context.Context, to string) (string, error) {
		if _, err := there.Receive(ctx); err != nil {
			return "", err
		}
		return pregel.AskFor[string](ctx, "Who has taken it?")
	}, o)
	must(err)

	graphs := map[string]*pregel.Graph{"order": order, "parcel": parcel, "post": post, "letter": letter, "house": house.Untyped()}
	api, err := server.New(server.Config{Graphs: graphs, Saver: saver, Store: items, Queue: queue, Auth: server.NoAuth()})
	must(err)
	t.Cleanup(func() { _ = api.Close() })
	s := httptest.NewServer(api)
	t.Cleanup(s.Close)
	return backend{s.URL}
}

// begun makes a thread, and a run of a graph on it.
func (b backend) begun(t *testing.T, graph string, input any) (thread string) {
	t.Helper()
	var made struct {
		ID string `json:"thread_id"`
	}
	b.call(t, "POST", "/threads", map[string]any{}, &made)
	b.call(t, "POST", "/threads/"+made.ID+"/runs", map[string]any{"assistant_id": graph, "input": input}, nil)
	return made.ID
}

// refusedLoads are the requests of the page that were answered with an error, which a browser reports.
const refusedLoads = `performance.getEntriesByType("resource").filter(e => e.responseStatus >= 400).map(e => e.responseStatus + " " + e.name)`

// A workflow has a row for each of its steps; its child has a link, and the child one to its parent. What the body exposes
// stands above. All this is there when it has ended, too.
func TestWorkflow(t *testing.T) {
	chromium(t)
	b := onWorkflows(t)
	thread := b.begun(t, "order", 1200)
	p := open(t, serve(t, b))
	p.show("#/threads/" + thread)
	p.see("its steps, and that its child sleeps", `document.querySelectorAll(".steps .did").length === 3 && document.querySelector(".steps .status")?.innerText === "sleeping"`)
	rows := func() (rows [][]string) {
		t.Helper()
		p.eval(`[...document.querySelectorAll(".steps .did")].map(e => [e.className, e.querySelector(".what").innerText.trim().replace(/[0-9a-f]{8}….{4}/, "ID"), e.querySelector(".state").innerText, e.querySelector(".figures").innerText.replace(/[0-9.]+ (m?s)/, "1 s"), e.querySelector(".said, .error")?.innerText.trim() ?? ""])`, &rows)
		return rows
	}
	want := [][]string{{"did done", "call charge", "done", "1 s, 2 attempts", "{ cents, payment }"}, {"did failed", "call print invoice", "failed", "", "no paper"}, {"did asleep", "child parcel ID", "sleeping", "", ""}}
	if got := rows(); quote(got) != quote(want) {
		t.Errorf("the steps are\n%s, want\n%s", quote(got), quote(want))
	}
	p.see("what it waits for, and no failure that it has handled", `document.querySelector(".history .then")?.innerText.startsWith("waits for a child")`)
	p.see("what is exposed", `document.querySelector("[aria-label=Exposed]")?.innerText.replace(/\s+/g, " ").includes("days left 3")`)
	for _, scheme := range []string{"light", "dark"} {
		p.do(emulate(scheme))
		p.check(axe(t), scheme+" workflow")
		p.picture("workflow-" + scheme)
	}
	p.narrow(390)
	var wide bool
	if p.eval(`document.documentElement.scrollWidth > innerWidth`, &wide); wide {
		t.Error("the steps are wider than a phone")
	}
	p.do(js(`document.querySelector(".steps").scrollIntoView()`))
	p.picture("workflow-phone")
	p.narrow(1280)

	// To the child, and back.
	p.do(js(`document.querySelector(".steps a").click()`))
	p.see("what the child waits for", `document.querySelector(".steps .did .state")?.innerText === "waits for the signal" && document.querySelector(".steps .what").innerText.trim() === "signal there"`)
	p.see("its parent", `[...document.querySelectorAll(".named a")].some(a => a.innerText.startsWith("child of"))`)
	p.check(axe(t), "child")
	p.picture("child")
	var child string
	p.eval(`location.hash.split("/").at(-1)`, &child)
	b.call(t, "POST", "/stele/threads/"+child+"/signals/there", map[string]any{"value": "at the door"}, nil)
	p.see("what the child got", `document.querySelector(".steps .said")?.innerText.trim() === "at the door" && document.querySelector(".steps .state").innerText === "done"`)
	p.do(js(`[...document.querySelectorAll(".named a")].find(a => a.innerText.startsWith("child of")).click()`))
	p.see("the parent, ended", `location.hash.endsWith(`+quote(thread)+`) && document.querySelector("main .bar .status")?.innerText === "done" && document.querySelectorAll(".steps .did").length === 3 && document.querySelector(".steps .did:last-child .said")?.innerText.trim() === "at the door"`)
	want[2] = []string{"did done", "child parcel ID", "done", "", "at the door"}
	if got := rows(); quote(got) != quote(want) {
		t.Errorf("when it has ended, the steps are\n%s, want\n%s", quote(got), quote(want))
	}
	p.see("no parent", `![...document.querySelectorAll(".named a")].some(a => a.innerText.startsWith("child of"))`)
	// An older checkpoint has its own, and that of the end began none.
	p.do(chromedp.Click(chromedp.CSS(`.history .row:nth-child(2)`)))
	p.see("the steps of the checkpoint", `location.hash.includes("at=") && document.querySelectorAll(".steps .did").length === 3`)

	p.show("#/runs")
	p.see("the version, and its worker", `[...document.querySelectorAll(".versions tbody tr")].some(e => e.innerText.includes("order") && e.innerText.includes("seven") && e.innerText.includes("this server's"))`)
	p.check(axe(t), "versions")
	p.picture("versions")
}

// How far a child is changes on the page of its parent, though the parent does not change.
func TestChildOfAWorkflow(t *testing.T) {
	chromium(t)
	b := onWorkflows(t)
	thread := b.begun(t, "post", "to ada")
	p := open(t, serve(t, b))
	p.show("#/threads/" + thread)
	p.see("that its child sleeps", `document.querySelector(".steps .status")?.innerText === "sleeping" && document.querySelector("main .bar .status")?.innerText === "sleeping"`)
	var child string
	p.eval(`document.querySelector(".steps a").getAttribute("href").split("/").at(-1)`, &child)
	b.call(t, "POST", "/stele/threads/"+child+"/signals/there", map[string]any{"value": "at the door"}, nil)
	p.see("that its child asks", `document.querySelector(".steps .status")?.innerText === "waiting" && document.querySelector("main .bar .status")?.innerText === "sleeping"`)
	p.picture("child-asks")
}

// The question of a graph inside comes with what was said there.
func TestInboxOfAGraphInside(t *testing.T) {
	chromium(t)
	b := onWorkflows(t)
	thread := b.begun(t, "house", map[string]any{"messages": []any{map[string]any{"role": "user", "content": "Paint the door."}}})
	p := open(t, serve(t, b))
	p.show("#/inbox?id=" + thread)
	p.see("the question", `document.querySelector(".questions")?.innerText.includes("Which colour?")`)
	p.see("what was said in the graph inside", `document.querySelector("[aria-label='What was said']")?.innerText.includes("The painter wants to know the colour.")`)
	p.see("where", `document.querySelector("[aria-label='What was said'] h3").innerText === "What was said in painter"`)
	p.picture("inbox-inside")
}

// The tab of a thread has its title, also when it is opened from another one. What LangGraph keeps for itself comes last.
// A thread that no run of the queue made is shown without a request that fails, on each of its tabs.
func TestThreadOfAProgram(t *testing.T) {
	chromium(t)
	type m = map[string]any
	at := func(i int) m { return m{"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": checkpointID(i)} }
	said := []any{m{"type": "human", "content": "Water the plants.", "id": "m1"}}
	values := m{"branch:to:water": nil, "__start__": m{"x": 1}, "messages": said, "amount": 3}
	th := m{"thread_id": "t", "status": "idle", "metadata": m{"graph_id": "garden"}, "values": m{"messages": said}, "created_at": "2026-03-01T09:00:00Z", "updated_at": "2026-03-01T09:05:00Z"}
	first := m{"checkpoint": at(1), "metadata": m{"source": "input", "step": -1, "run_id": "gone"}, "created_at": "2026-03-01T09:00:00Z", "next": []any{"water"}, "values": values,
		"tasks": []any{m{"id": "t1", "name": "water", "interrupts": []any{}, "result": m{"amount": 3}}}}
	last := m{"checkpoint": at(2), "parent_checkpoint": at(1), "metadata": m{"source": "loop", "step": 0, "run_id": "gone"}, "created_at": "2026-03-01T09:05:00Z", "next": []any{}, "values": values, "tasks": []any{}}
	answers := m{
		"GET /info":                  m{"version": "test", "stele": m{"runs": true, "tasks": true, "steps": true}},
		"POST /assistants/search":    []any{},
		"POST /threads/search":       []any{th},
		"POST /threads/count":        0,
		"GET /threads/t":             th,
		"GET /threads/t/runs":        []any{},
		"POST /threads/t/history":    []any{last, first},
		"GET /stele/threads/t/steps": m{"steps": []any{}},
		"GET /stele/runs":            m{"runs": []any{}, "total": 0},
		"GET /threads/t/state":       last,
	}
	p := open(t, serveAnswers(t, answers))
	p.show("#/threads/t")
	p.see("the title of the tab", `document.title === "Water the plants. · stele studio"`)
	p.show("#/threads/t?view=timeline")
	p.see("the timeline", `document.querySelectorAll(".wave").length === 1`)
	p.show("#/threads/t?raw=1&at=" + checkpointID(1))
	p.see("the task", `document.querySelector(".task")`)
	p.do(js(`document.querySelector(".task").open = true`))
	p.see("that its times are not asked for", `document.querySelector(".task").innerText.includes("No run of the server's queue noted")`)
	var order []string
	p.eval(`[...document.querySelectorAll("[aria-label=Values] > div .key, [aria-label=Values] > div h4")].map(e => e.innerText).filter(name => name in `+quote(values)+`)`, &order)
	if got := strings.Join(order, " "); got != "amount messages __start__ branch:to:water" {
		t.Errorf("the values are in the order %s", got)
	}
	p.show("#/threads/t?at=" + checkpointID(2) + "&with=" + checkpointID(1))
	p.says("Compared with")
	var refused []string
	if p.eval(refusedLoads, &refused); len(refused) > 0 {
		t.Errorf("requests that were refused: %q", refused)
	}
	p.show("#/threads")
	p.see("the title of the list", `document.title === "stele studio"`)
}

// On a phone no field cuts what stands in it for an example.
func TestPlaceholdersOfAPhone(t *testing.T) {
	chromium(t)
	s := httptest.NewServer(New(fixture(), Options{}))
	defer s.Close()
	p := open(t, s.URL)
	p.narrow(390)
	for _, screen := range []string{"#/threads", "#/inbox", "#/store", "#/threads/0192f7c0-1111-7000-8000-000000000003"} {
		p.show(screen)
		p.see("a field of "+screen, `document.querySelector("main input[placeholder]")`)
		p.do(js(`document.querySelector(".history > .toggle")?.click()`))
		var cut []string
		p.eval(`[...document.querySelectorAll("main input[placeholder]")].filter(e => { const c = document.createElement("canvas").getContext("2d"), s = getComputedStyle(e); c.font = s.font; return e.offsetWidth > 0 && c.measureText(e.placeholder).width > e.clientWidth - parseFloat(s.paddingLeft) - parseFloat(s.paddingRight) }).map(e => e.placeholder)`, &cut)
		if len(cut) > 0 {
			t.Errorf("%s: cut off: %q", screen, cut)
		}
	}
}

// On a phone what decides is as large as a finger, and in sight; no field makes the browser magnify the page.
func TestFingers(t *testing.T) {
	chromium(t)
	s := httptest.NewServer(New(fixture(), Options{}))
	defer s.Close()
	p := open(t, s.URL)
	p.narrow(390)
	p.see("the whole button", `document.querySelector(".bar > button")?.offsetWidth > 340`)
	p.see("large letters", `[...document.querySelectorAll("input, select")].every(e => parseFloat(getComputedStyle(e).fontSize) >= 16)`)
	p.show("#/inbox?id=0192f7c0-1111-7000-8000-000000000005")
	p.see("both calls", `document.querySelectorAll(".questions .call").length === 2`)
	p.see("large buttons", `[...document.querySelectorAll(".decisions button, .questions [type=submit]")].every(e => e.offsetHeight >= 41)`)
	p.see("the button that sends, in sight", `document.querySelector(".questions [type=submit]").getBoundingClientRect().bottom <= innerHeight`)
}

// narrow gives the window a width.
func (p *tab) narrow(width int64) {
	p.t.Helper()
	p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1})
		return chromedp.Void{}, err
	})
}

// picture keeps what a test sees, where STELE_SCREENSHOTS says.
func (p *tab) picture(name string) {
	p.t.Helper()
	dir := os.Getenv("STELE_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		p.t.Error(err)
	}
}
