package studio

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// store10k is a server of stele's on a store of 10,000 threads that wait, and one of 10,000
// checkpoints.
func store10k(b *testing.B) http.Handler {
	b.Helper()
	d, err := disk.Open(b.TempDir(), disk.Options{})
	if err != nil {
		b.Fatal(err)
	}
	items, err := store.On(d, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	queue, err := runs.NewLocal(context.Background(), items, runs.LocalOptions{})
	if err != nil {
		b.Fatal(err)
	}
	g, err := mailGraph(d)
	if err != nil {
		b.Fatal(err)
	}
	run := func(thread string) {
		if _, err := g.Invoke(context.Background(), pregel.Thread(thread), map[string]any{"messages": []any{map[string]any{"role": "user", "content": "hello ann"}}}); err != nil {
			b.Error(err)
		}
	}
	var all sync.WaitGroup
	for k := range 100 {
		all.Go(func() {
			for i := range 100 {
				run(fmt.Sprintf("thread-%d", 100*k+i))
			}
		})
	}
	all.Wait()
	run("long")
	at := pregel.Thread("long")
	for i := range 10_000 {
		if at, err = g.UpdateState(context.Background(), at, pregel.StateUpdate{Values: map[string]any{"note": fmt.Sprintf("note %d", i)}, AsNode: "model"}, pregel.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"mail": g}, Saver: d, Store: items, Queue: queue, Auth: server.NoAuth(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = api.Close()
		_ = items.Close()
		_ = d.Close()
	})
	return api
}

// large is a server of 10,000 threads, each of which has 10,000 checkpoints. It answers at once,
// so that what is measured is the page.
func large() http.Handler {
	const n = 10_000
	type m = map[string]any
	id := func(i int) string { return fmt.Sprintf("1f0a0000-0000-6000-8000-%012d", i) }
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	state := func(i int) m {
		s := m{"checkpoint": m{"checkpoint_id": id(i), "checkpoint_ns": ""}, "metadata": m{"source": "loop", "step": i},
			"created_at": "2026-03-01T11:50:00Z", "values": m{"count": i, "note": "step " + fmt.Sprint(i)}, "next": []string{"work"},
			"tasks": []any{m{"id": id(i), "name": "work", "interrupts": []any{}}}}
		if i > 0 {
			s["parent_checkpoint"] = m{"checkpoint_id": id(i - 1), "checkpoint_ns": ""}
		}
		return s
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/info", func(w http.ResponseWriter, _ *http.Request) { answer(w, m{"version": "bench"}) })
	mux.HandleFunc("/assistants/search", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, []any{m{"assistant_id": "a", "graph_id": "a", "name": "a", "metadata": m{}}})
	})
	mux.HandleFunc("/assistants/a/graph", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, m{"nodes": []any{m{"id": "__start__"}, m{"id": "work"}}, "edges": []any{m{"source": "__start__", "target": "work"}}})
	})
	mux.HandleFunc("/threads/search", func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Limit, Offset int }
		_ = json.NewDecoder(r.Body).Decode(&q)
		list := []any{}
		for i := q.Offset; i < min(n, q.Offset+q.Limit); i++ {
			list = append(list, m{"thread_id": id(i), "status": "idle", "updated_at": "2026-03-01T11:50:00Z", "metadata": m{}, "values": m{"note": "thread"}})
		}
		answer(w, list)
	})
	mux.HandleFunc("/threads/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, m{"thread_id": r.PathValue("id"), "status": "idle", "updated_at": "2026-03-01T11:50:00Z", "metadata": m{"graph_id": "a"}})
	})
	mux.HandleFunc("/threads/{id}/runs", func(w http.ResponseWriter, _ *http.Request) { answer(w, []any{}) })
	mux.HandleFunc("/threads/{id}/state", func(w http.ResponseWriter, _ *http.Request) { answer(w, state(n-1)) })
	mux.HandleFunc("/threads/{id}/history", func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Limit  int
			Before struct {
				ID string `json:"checkpoint_id"`
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		from := n - 1
		if q.Before.ID != "" {
			_, _ = fmt.Sscanf(q.Before.ID[24:], "%d", &from)
			from--
		}
		list := []any{}
		for i := from; i > from-q.Limit && i >= 0; i-- {
			list = append(list, state(i))
		}
		answer(w, list)
	})
	mux.HandleFunc("/threads/{id}/runs/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := range 1000 {
			fmt.Fprintf(w, "event: messages\r\ndata: [{\"type\":\"AIMessageChunk\",\"id\":\"m\",\"content\":\"word%d \"},{}]\r\n\r\n", i)
			w.(http.Flusher).Flush()
			<-tick.C
		}
		sent.Store(time.Now())
		fmt.Fprint(w, "event: messages\r\ndata: [{\"type\":\"AIMessageChunk\",\"id\":\"m\",\"content\":\"LAST\"},{}]\r\n\r\n")
	})
	return mux
}

// sent is when the last token of the stream was sent.
var sent atomic.Value

// Run with: go test -run '^$' -bench . -benchtime 1x
func BenchmarkPage(b *testing.B) {
	chromium(b)
	b.Run("Store", func(b *testing.B) { benchmarkPage(b, store10k(b), "long") })
	b.Run("AtOnce", func(b *testing.B) { benchmarkPage(b, large(), "t") })
}

// firstRows notes when rows of threads are first in a frame that is drawn.
const firstRows = `requestAnimationFrame(function look() {
	if (document.querySelectorAll(".row").length <= 5) return requestAnimationFrame(look);
	const drawn = new MessageChannel();
	drawn.port1.onmessage = () => (window.shownAt ??= performance.now());
	drawn.port2.postMessage(0);
})`

func benchmarkPage(b *testing.B, api http.Handler, thread string) {
	s := httptest.NewServer(New(api, Options{}))
	defer s.Close()

	b.Run("FirstScreen", func(b *testing.B) {
		p := open(b, s.URL)
		p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
			_, err := cdp.Call(ctx, t, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{Source: firstRows})
			return chromedp.Void{}, err
		})
		// When parts of the first screen were there, since the page was asked for.
		parts := []string{"page", "script", "info", "asked", "threads", "drawn"}
		times := map[string][]float64{}
		for b.Loop() {
			p.do(chromedp.Navigate("about:blank"))
			p.do(chromedp.Navigate(s.URL + "/"))
			p.see("the threads", `window.shownAt`)
			var at map[string]float64
			p.eval(`(() => {
				const of = (end) => performance.getEntriesByType("resource").find(e => e.name.endsWith(end)) ?? {};
				return {page: performance.getEntriesByType("navigation")[0].responseEnd, script: of("/studio.js").responseEnd, info: of("/api/info").responseEnd,
					asked: of("/api/threads/search").requestStart, threads: of("/api/threads/search").responseEnd, drawn: shownAt};
			})()`, &at)
			for _, part := range parts {
				times[part] = append(times[part], at[part])
			}
		}
		for _, part := range parts {
			slices.Sort(times[part])
			b.ReportMetric(times[part][len(times[part])/2], "ms/"+part)
		}
	})
	b.Run("Scroll", func(b *testing.B) {
		p := open(b, s.URL)
		p.show("#/threads/" + thread)
		p.see("the history", `document.querySelectorAll(".history .row").length > 5`)
		p.see("all of it", `((e) => (e.scrollTop = 1e9, e.scrollHeight >= 10000 * 40))(document.querySelector(".history .scroll"))`)
		for b.Loop() {
			before := metrics(b, p)
			var frames float64
			p.eval(`(async () => {
				const e = document.querySelector(".history .scroll");
				let frames = 0;
				for (let at = 0; at < 10000 * 40; at += 1500) { e.scrollTop = at; await new Promise(requestAnimationFrame); frames++; }
				return frames;
			})()`, &frames)
			after := metrics(b, p)
			work := 0.0
			for _, name := range []string{"ScriptDuration", "LayoutDuration", "RecalcStyleDuration"} {
				work += after[name] - before[name]
			}
			b.ReportMetric(1000*work/frames, "ms/frame")
			b.ReportMetric(after["JSHeapUsedSize"]/1e6, "MB/heap")
		}
	})
	if thread == "long" {
		b.Run("Search", func(b *testing.B) {
			p := open(b, s.URL)
			p.see("the threads", `document.querySelectorAll(".row").length > 5`)
			for b.Loop() {
				p.show("#/threads")
				p.see("all", `document.querySelectorAll(".row").length > 5`)
				var ms float64
				p.eval(`(async () => { const at = performance.now(); location.hash = "#/threads?q=thread-777"; while (document.querySelectorAll(".threads .row").length !== 11) await new Promise(requestAnimationFrame); return performance.now() - at })()`, &ms)
				b.ReportMetric(ms, "ms/search")
			}
		})
		return
	}
	b.Run("Stream", func(b *testing.B) {
		p := open(b, s.URL)
		p.show("#/threads/t")
		p.see("the history", `document.querySelectorAll(".history .row").length > 5`)
		for b.Loop() {
			p.see("no run of before", `!document.querySelector("dialog") && (document.querySelector(".live button")?.click(), !document.querySelector(".live"))`)
			p.click("Continue")
			p.submit("Continue")
			p.see("the last token", `document.querySelector(".live .bubble")?.innerText.endsWith("LAST")`)
			b.ReportMetric(float64(time.Since(sent.Load().(time.Time)).Milliseconds()), "ms/behind")
		}
	})
}

// metrics are the browser's figures. Durations are processor time of the page's thread, so
// that what else the machine does is not in them.
func metrics(t testing.TB, p *tab) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	p.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, target, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
			return chromedp.Void{}, err
		}
		res, err := cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
		for _, m := range res.Metrics {
			out[strings.TrimSpace(m.Name)] = m.Value
		}
		return chromedp.Void{}, err
	})
	return out
}
