package studio

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// Of a run that is under way the page reads what is new, whatever it noted before, and nothing of one that has ended.
func TestReadsWhatIsNew(t *testing.T) {
	chromium(t)
	const many = 400
	next := make(chan struct{})
	b := serveGraphs(t, func(s saver.Saver, _ store.Store) map[string]*pregel.Graph {
		g, err := graph.New(graph.Key("turn", channel.LastValue[int]())).
			Node("work", func(context.Context, any) (any, error) { return map[string]any{}, nil }).
			Node("turn", func(ctx context.Context, v any) (any, error) {
				select {
				case <-next:
				case <-ctx.Done():
				}
				turn, _ := v.(map[string]any)["turn"].(int)
				return map[string]any{"turn": turn + 1}, ctx.Err()
			}).
			Conditional(graph.Start, "all", func(context.Context, any) (any, error) {
				all := []any{"turn"}
				for range many {
					all = append(all, pregel.Send{Node: "work", Arg: map[string]any{}})
				}
				return all, nil
			}).
			Conditional("turn", "next", func(_ context.Context, v any) (any, error) {
				if turn, _ := v.(map[string]any)["turn"].(int); turn < 4 {
					return "turn", nil
				}
				return graph.End, nil
			}).
			Compile(graph.Options{Name: "wide", Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*pregel.Graph{"wide": g}
	})
	var mu sync.Mutex
	var asked []string // what was read behind
	var told int       // bytes
	base := watching(t, b, "/tasks", func(r *http.Request, answer []byte) {
		mu.Lock()
		defer mu.Unlock()
		asked, told = append(asked, r.URL.RawQuery), told+len(answer)
	})
	since := func() (queries []string, bytes int) {
		mu.Lock()
		defer mu.Unlock()
		queries, bytes = asked, told
		asked, told = nil, 0
		return queries, bytes
	}
	var made struct {
		ID string `json:"thread_id"`
	}
	b.call(t, "POST", "/threads", map[string]any{}, &made)
	b.call(t, "POST", "/threads/"+made.ID+"/runs", map[string]any{"assistant_id": "wide", "input": map[string]any{"turn": 0}}, nil)
	p := open(t, base)
	p.show("#/threads/" + made.ID)
	next <- struct{}{} // the first superstep ends
	p.show("#/threads/" + made.ID + "?view=timeline")
	p.see("the tasks of the first", fmt.Sprintf(`document.querySelectorAll(".wave").length === %d`, many+2))
	if _, bytes := since(); bytes < 50*many {
		t.Errorf("%d tasks were told in %d bytes", many, bytes)
	}
	for turn := range 2 {
		next <- struct{}{}
		p.see("one more", fmt.Sprintf(`document.querySelectorAll(".wave").length === %d`, many+3+turn))
		// Each change of the thread is a request, and the page may see a superstep as two of them.
		queries, bytes := since()
		if len(queries) > 4 || bytes > 300*(4+len(queries)) {
			t.Errorf("a superstep took %d requests, of %d bytes", len(queries), bytes)
		}
		for _, q := range queries {
			if !strings.HasPrefix(q, "after=") {
				t.Errorf("the page reads from the beginning: %q", q)
			}
		}
	}
	next <- struct{}{}
	p.see("the end", `document.querySelector(".run h2").innerText.startsWith("done") && !document.querySelector(".wave.begun")`)
	since()
	b.call(t, "POST", "/threads/"+made.ID+"/state", map[string]any{"values": map[string]any{"turn": 9}, "as_node": "turn"}, nil)
	p.see("a change by hand", `document.querySelector(".history").innerText.includes("Edited by hand")`)
	p.show("#/threads/" + made.ID)
	p.see("the newest checkpoint", `document.querySelector("[aria-label=Values]")`)
	if queries, _ := since(); len(queries) > 0 {
		t.Errorf("of a run that has ended the page reads %q", queries)
	}
}

// Each call of a model counts once: one that a node makes itself and tells in its message alone, one that the queue noted, and
// one that is both, which the id of the answer tells, or its figures if it had no id yet. What nobody tells is said.
func TestTokensOnce(t *testing.T) {
	chromium(t)
	answer := func(id string, tokens int64) message.Message {
		m := message.AI("answer " + id)
		m.ID = id
		if tokens > 0 {
			m.Usage = &message.Usage{InputTokens: tokens, TotalTokens: tokens}
		}
		return m
	}
	b := serveGraphs(t, func(s saver.Saver, _ store.Store) map[string]*pregel.Graph {
		write := func(m ...message.Message) map[string]any { return map[string]any{"messages": message.List(m)} }
		g, err := graph.New(graph.Key("messages", message.Channel(nil))).
			Node("summary", func(ctx context.Context, _ any) (any, error) { // asks a vendor itself, and has a summary made
				if _, err := model.Collect(ctx, model.NewScripted(model.Answer{Message: answer("in no message", 1)}), model.Request{Messages: message.List{message.Human("x")}}); err != nil {
					return nil, err
				}
				return write(answer("vendor", 10)), nil
			}).
			Node("metered", func(ctx context.Context, _ any) (any, error) {
				m, err := model.Call(ctx, model.NewScripted(model.Answer{Message: answer("", 100)}), model.Request{Messages: message.List{message.Human("x")}})
				return write(m), err
			}).
			Node("nameless", func(ctx context.Context, _ any) (any, error) { // one of two equal answers is metered
				message.Metered(ctx, answer("", 1_000))
				return write(answer("", 1_000), answer("", 1_000)), nil
			}).
			Node("again", func(_ context.Context, v any) (any, error) { // writes the whole conversation again
				list := v.(map[string]any)["messages"].(message.List)
				for i, m := range list {
					if m.Type == message.TypeHuman && m.Text() == "and be silent" {
						return write(append(list[:i:i], answer("silent", 0))...), nil
					}
				}
				return write(list...), nil
			}).
			Sequence(graph.Start, "summary", "metered", "nameless", "again").Compile(graph.Options{Name: "calls", Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*pregel.Graph{"calls": g}
	})
	p := open(t, serve(t, b))
	for _, c := range []struct{ said, lacks string }{{"hello", ""}, {"and be silent", "an answer that does not tell them"}} {
		thread := b.desk(t, "calls", c.said)
		p.show("#/threads/" + thread + "?view=timeline")
		p.see("all tokens, each once", `document.querySelector(".timeline .sum")?.innerText.startsWith("2,111 tokens")`)
		var waves []string
		p.eval(`[...document.querySelectorAll(".wave")].map(e => e.querySelector("b").innerText + (e.querySelector(".figures").innerText.match(/[\d,]+ tokens/) ?? [""])[0])`, &waves)
		if want := `["summary11 tokens","metered100 tokens","nameless2,000 tokens","again"]`; quote(waves) != want {
			t.Errorf("the tasks have %s, want %s", quote(waves), want)
		}
		p.see("those of the run", `/, 2,111 tokens$/.test(document.querySelector(".run h2 .note").innerText)`)
		p.lacks(c.lacks)
	}
}

// lacks looks at what the page says that its sums of tokens lack.
func (p *tab) lacks(want string) {
	p.t.Helper()
	if want == "" {
		p.see("nothing that sums lack", `document.querySelector(".timeline .sum") && !document.querySelector(".timeline").innerText.includes("Not in these sums")`)
		return
	}
	p.see("what sums lack", `[...document.querySelectorAll(".timeline > .note")].some(e => e.innerText === `+quote("Not in these sums: tokens of "+want+". They are not known.")+`)`)
}

// Wherever a sum of tokens lacks those of a call, the page says so. The tasks of a graph that a node runs again and again are as
// deep as those of the first time, and below the node that runs them, whatever else ran beside it.
func TestSumsLack(t *testing.T) {
	chromium(t)
	type m = map[string]any
	const cut, outside = "tasks that were cut off", "calls whose answers are not among the messages of this thread, as in a subgraph with its own"
	for _, c := range []struct {
		name, lacks string
		change      func(answers m, of func(run string) []any)
	}{
		{"nothing", "", func(m, func(string) []any) {}},
		{"a start that was cut off", cut, func(_ m, of func(string) []any) { of(secondRun)[0].(m)["ends"] = 1 }},
		{"an end that was not noted", cut, func(_ m, of func(string) []any) { of(secondRun)[3].(m)["status"] = "begun" }},
		{"under way", "tasks that are under way", func(answers m, of func(string) []any) {
			of(secondRun)[3].(m)["status"] = "begun"
			answers["GET /threads/"+fixedThread+"/runs"].([]any)[0].(m)["status"] = "running"
		}},
		{"a run that noted nothing", outside, func(answers m, of func(string) []any) {
			answers["GET /stele/threads/"+fixedThread+"/runs/"+firstRun+"/tasks"] = m{"recorded": false, "tasks": []any{}}
		}},
		{"a run that is not kept, and no checkpoint of it", outside, func(answers m, of func(string) []any) {
			list := answers["GET /threads/"+fixedThread+"/runs"].([]any)
			answers["GET /threads/"+fixedThread+"/runs"] = append(list, m{"run_id": "0192f7c0-2222-7000-8000-000000000009", "status": "error", "created_at": "2026-03-01T11:40:00Z"})
		}},
		{"a run that has not begun", "", func(answers m, of func(string) []any) {
			list := answers["GET /threads/"+fixedThread+"/runs"].([]any)
			answers["GET /threads/"+fixedThread+"/runs"] = append(list, m{"run_id": "0192f7c0-2222-7000-8000-000000000009", "status": "pending", "created_at": "2026-03-01T11:57:00Z"})
		}},
		{"calls without figures, in a graph that is run twice, beside another", "2 answers that do not tell them, and of " + cut, func(answers m, of func(string) []any) {
			list := of(secondRun)
			inside := func(id string, namespace ...string) m {
				return m{"id": id, "name": id, "namespace": namespace, "starts": 1, "ends": 1, "attempts": 1, "status": "ended", "began_at": "2026-03-01T11:53:03.300Z", "took_ns": 1}
			}
			list[0].(m)["uses"], list[0].(m)["ends"] = []any{m{"model": "m", "total": 0}, m{"model": "m", "total": 0}}, 1
			answers["GET /stele/threads/"+fixedThread+"/runs/"+secondRun+"/tasks"] = m{"recorded": true, "tasks": append(list[:3:3],
				inside("first", "send:send-2"), inside("other", "model:model-2"), inside("second", "send:send-2", "1"), inside("deep", "send:send-2", "1", "second:second", "7"))}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			answers := timelineAnswers()
			c.change(answers, func(run string) []any {
				return answers["GET /stele/threads/"+fixedThread+"/runs/"+run+"/tasks"].(m)["tasks"].([]any)
			})
			s := httptest.NewServer(New(answering(answers), Options{}))
			defer s.Close()
			p := open(t, s.URL)
			p.show(timelineThread + "?view=timeline")
			p.see("the runs", `document.querySelectorAll(".timeline .run").length === 2`)
			p.lacks(c.lacks)
			if !strings.Contains(c.name, "twice") {
				return
			}
			var waves []string
			p.eval(`[...document.querySelector(".run").querySelectorAll(".wave")].map(e => e.querySelector(".name").style.paddingLeft + " " + e.querySelector("b").innerText)`, &waves)
			if want := `["0rem send","1rem model","1rem first","1rem second","2rem deep","0rem model","1rem other"]`; quote(waves) != want {
				t.Errorf("the tasks are %s, want %s", quote(waves), want)
			}
		})
	}
}
