package studio

import (
	"context"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// leadGraph is an agent whose tool runs another agent, which asks a person before it refunds.
func leadGraph(s saver.Saver) (*pregel.Graph, error) {
	answering := func(name string, input int64, call func(last message.Message) *message.ToolCall) model.Model {
		return model.NewScriptedFunc(func(_ context.Context, r model.Request) (model.Answer, error) {
			last := r.Messages[len(r.Messages)-1]
			m := message.AI(name + " says: " + last.Text())
			if c := call(last); c != nil {
				m = message.AI("", *c)
			}
			m.Usage = &message.Usage{InputTokens: input, OutputTokens: 1, TotalTokens: input + 1}
			m.ResponseMetadata = map[string]any{"model_name": name}
			return model.Answer{Message: m}, nil
		})
	}
	once := func(c message.ToolCall) func(message.Message) *message.ToolCall {
		return func(last message.Message) *message.ToolCall {
			if last.Type == message.TypeTool {
				return nil
			}
			return &c
		}
	}
	refund, err := tool.New("refund", "Gives money back.", tool.Unchecked(`{"type": "object"}`), func(context.Context, map[string]any) (string, error) { return "refunded", nil })
	if err != nil {
		return nil, err
	}
	clerk, err := agent.New(answering("small", 10, once(message.ToolCall{ID: "r1", Name: "refund", Args: map[string]any{"order": int64(7)}})),
		agent.Options{Name: "clerk", Tools: []tool.Tool{refund}, Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"refund": {}}})}})
	if err != nil {
		return nil, err
	}
	delegate, err := tool.New("delegate", "Asks the clerk.", tool.Unchecked(`{"type": "object"}`), func(ctx context.Context, in map[string]any) (string, error) {
		res, err := clerk.Invoke(ctx, pregel.Inside(), agent.Say("refund order 7"))
		if err != nil {
			return "", err
		}
		list, err := agent.Messages(res.Map())
		if err != nil {
			return "", err
		}
		return list[len(list)-1].Text(), nil
	})
	if err != nil {
		return nil, err
	}
	return agent.New(answering("large", 100, once(message.ToolCall{ID: "d1", Name: "delegate", Args: map[string]any{}})),
		agent.Options{Name: "lead", Tools: []tool.Tool{delegate}, Graph: graph.Options{Saver: s}})
}

// What an agent that a tool runs asks a person is in the inbox, and is answered there. Its tasks are in the timeline, below
// that of the tool, and its tokens and their price are those of the tool's task, of the run and of the thread.
func TestSubagent(t *testing.T) {
	chromium(t)
	b := serveGraphs(t, func(s saver.Saver, _ store.Store) map[string]*pregel.Graph {
		g, err := leadGraph(s)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*pregel.Graph{"lead": g}
	})
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewServer(New(Remote(u, nil), Options{Prices: &Prices{Currency: "EUR", Models: map[string]Price{"large": {Input: 10_000}, "small": {Input: 10_000}}}}))
	defer page.Close()
	thread := b.desk(t, "lead", "My order 7 is broken.")
	p := open(t, page.URL)
	p.show("#/inbox")
	p.see("its question", `document.querySelector(".ask")?.innerText.includes("refund: ") && document.querySelector(".questions .call")`)
	p.settled()
	p.do(chromedp.Click(chromedp.CSS(`.questions [data-decision=approve]`)))
	p.says("The run has ended.")
	if s := b.state(t, thread); len(s.Next) != 0 {
		t.Fatalf("after the answer the thread has %+v", s)
	}
	p.show("#/threads/" + thread + "?view=timeline")
	p.see("both runs", `document.querySelectorAll(".timeline .run").length === 2`)
	p.see("all tokens, and what they cost", `document.querySelector(".timeline .sum").innerText.startsWith("224 tokens") && document.querySelector(".timeline .sum").innerText.endsWith("2.20 EUR")`)
	p.see("that none is left out", `!document.querySelector(".timeline").innerText.includes("are not known")`)
	var runs [][]string
	p.eval(`[...document.querySelectorAll(".run")].reverse().map(r => [...r.querySelectorAll(".wave")].map(e => [e.classList[1], e.querySelector("b").innerText, e.querySelector(".name").style.paddingLeft, (e.querySelector(".figures").innerText.match(/\d+ tokens/) ?? [""])[0]].join(" ").trim()))`, &runs)
	want := [][]string{
		{"model model 0rem 101 tokens", "waiting tools 0rem 11 tokens", "model model 1rem 11 tokens", "waiting ask person, after the model 1rem"},
		{"tool tools 0rem 11 tokens", "work ask person, after the model 1rem", "tool tools 1rem", "model model 1rem 11 tokens", "work ask person, after the model 1rem", "model model 0rem 101 tokens"},
	}
	if quote(runs) != quote(want) {
		t.Errorf("the runs are\n%s, want\n%s", quote(runs), quote(want))
	}
	var sums []string
	p.eval(`[...document.querySelectorAll(".run h2 .note")].reverse().map(e => e.innerText.match(/\d+ tokens/)[0])`, &sums)
	if strings.Join(sums, ", ") != "112 tokens, 112 tokens" {
		t.Errorf("the runs took %q", sums)
	}
	// The row of the tool's step has the tokens of both runs.
	p.show("#/threads/" + thread)
	p.see("those of the step", `[...document.querySelectorAll(".history .row")].some(r => r.innerText.includes("Answered") && (r.click(), true)) && [...document.querySelectorAll(".facts span")].some(e => e.innerText === "22 tokens")`)
}
