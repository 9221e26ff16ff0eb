package agent_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// TestSummaryOptions: sizes that are none are refused, and a fraction needs a window.
func TestSummaryOptions(t *testing.T) {
	m := model.NewScripted()
	known := model.NewScripted().WithProfile(model.Profile{MaxInputTokens: 100})
	half := []agent.Trigger{{Fraction: 0.5}}
	for name, c := range map[string]struct {
		s  agent.Summary
		ok bool
	}{
		"a window":              {agent.Summary{Model: m, Triggers: half, Window: 10}, true},
		"a profile":             {agent.Summary{Model: known, Triggers: half, Keep: agent.Trigger{Fraction: 1}}, true},
		"no window":             {agent.Summary{Model: m, Triggers: half}, false},
		"no window to keep":     {agent.Summary{Model: m, Triggers: []agent.Trigger{{Messages: 1}}, Keep: agent.Trigger{Fraction: 0.1}}, false},
		"more than all":         {agent.Summary{Model: known, Triggers: []agent.Trigger{{Fraction: 1.1}}}, false},
		"a negative fraction":   {agent.Summary{Model: known, Triggers: []agent.Trigger{{Fraction: -0.1}}}, false},
		"no number":             {agent.Summary{Model: known, Triggers: []agent.Trigger{{Fraction: math.NaN()}}}, false},
		"a negative number":     {agent.Summary{Model: known, Triggers: []agent.Trigger{{Tokens: -1}}}, false},
		"an empty trigger":      {agent.Summary{Model: known, Triggers: []agent.Trigger{{}}}, false},
		"two sizes to keep":     {agent.Summary{Model: known, Triggers: half, Keep: agent.Trigger{Tokens: 1, Fraction: 0.5}}, false},
		"a trigger of all":      {agent.Summary{Model: known, Triggers: []agent.Trigger{{Messages: 1, Tokens: 1, Fraction: 1}}}, true},
		"a window of less than": {agent.Summary{Model: known, Triggers: half, Window: -1}, false},
	} {
		_, err := agent.New(m, agent.Options{Middleware: []agent.Middleware{agent.Summarize(c.s)}})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, agent.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRetryOn: On decides which errors are tried again.
func TestRetryOn(t *testing.T) {
	for only, want := range map[string]int{"no": 2, "other": 1} {
		calls := 0
		m := model.NewScriptedFunc(func(context.Context, model.Request) (model.Answer, error) {
			if calls++; calls == 1 {
				return model.Fail(&Boom{"no"}), nil
			}
			return model.Text("hello"), nil
		})
		retry := agent.Retry{Delay: -1, On: func(err error) bool { return strings.HasSuffix(err.Error(), only) }}
		g := must(agent.New(m, agent.Options{Middleware: []agent.Middleware{agent.RetryModel(retry)}}))
		_, err := g.Invoke(ctx, pregel.Address{}, agent.Say("hi"))
		var boom *Boom
		if calls != want || (want == 1) != errors.As(err, &boom) {
			t.Errorf("%s: %d calls, %v", only, calls, err)
		}
	}
}

// TestNotice: the notice of an edit goes before content that is a list, and is not put there twice.
func TestNotice(t *testing.T) {
	const told = "It was me. Executed instead: show with arguments {}."
	for name, c := range map[string]struct {
		answer any
		want   string
	}{
		"blocks": {[]any{message.TextBlock("picture")}, told + "\n\nTool response:picture"},
		"twice":  {told + " and more", told + " and more"},
		"empty":  {"", told},
	} {
		show := must(tool.New("show", "Shows.", object, func(context.Context, struct{}) (any, error) { return c.answer, nil }))
		g := must(agent.New(model.NewScripted(model.Calls(message.ToolCall{Name: "show", ID: "1"}), model.Text("done")), agent.Options{
			Tools:      []tool.Tool{show},
			Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"show": {}}, Notice: "It was me."})},
			Graph:      graph.Options{Saver: memory.New(memory.Options{})},
		}))
		at := pregel.Thread("t")
		asked := must(g.Invoke(ctx, at, agent.Say("hi"))).Interrupts
		answer := must(agent.Decide(asked[0], func(agent.ActionRequest) agent.Decision {
			return agent.Decision{Type: agent.Edit, Edited: &agent.Action{Name: "show"}}
		}))
		list := must(agent.Messages(must(g.Invoke(ctx, at, answer)).Map()))
		if got := list[2].Text(); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestWordsOfMiddleware: errors name a middleware as the program wrote it, not as LangChain's nodes are called.
func TestWordsOfMiddleware(t *testing.T) {
	m := model.NewScripted()
	gate := func(tool string) agent.Middleware {
		return agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{tool: {}}})
	}
	sum := func() agent.Middleware {
		return agent.Summarize(agent.Summary{Model: m, Triggers: []agent.Trigger{{Messages: 1}}, Keep: agent.Trigger{Messages: 1}})
	}
	own := agent.Middleware{Name: "own"}
	for want, mw := range map[string][]agent.Middleware{
		`two middleware (AskPerson) have the name "HumanInTheLoopMiddleware"; give one another Name`: {gate("a"), gate("a")},
		`two middleware (Summarize) have the name "SummarizationMiddleware"; give one another Name`:  {sum(), sum()},
		`two middleware (own) have the name "own"; give one another Name`:                            {own, own},
		`AskPerson is for a tool "refund"; the agent has []`:                                         {gate("refund")},
	} {
		if _, err := agent.New(m, agent.Options{Middleware: mw}); !errors.Is(err, agent.ErrOptions) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
