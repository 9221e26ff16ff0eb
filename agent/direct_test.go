package agent_test

import (
	"context"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
)

// TestDirectTogether: calls of tools that are ReturnDirect, of which one fails, has no answer, or becomes one of another
// tool, do not end the agent, and those that succeed together do; AfterAgent runs once, at its end.
func TestDirectTogether(t *testing.T) {
	second := agent.Middleware{Name: "second", WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
		switch r.Args["text"] {
		case "fails":
			failure := message.ToolResult(r.ToolCall, "no")
			failure.Status = message.StatusError
			return failure, nil
		case "unanswered":
			return pregel.Command{}, nil
		case "becomes another":
			return message.Message{Type: message.TypeTool, Name: "echo", Content: "x", ToolCallID: r.ID}, nil
		}
		return next(ctx, r)
	}}
	final := func(id, text string) message.ToolCall {
		return message.ToolCall{Name: "final", ID: id, Args: map[string]any{"text": text}}
	}
	for name, c := range map[string]struct {
		calls []message.ToolCall
		asked int
	}{
		"alone":               {[]message.ToolCall{final("1", "x")}, 1},
		"alone, fails":        {[]message.ToolCall{final("1", "fails")}, 3},
		"both":                {[]message.ToolCall{final("1", "x"), final("2", "y")}, 1},
		"one fails":           {[]message.ToolCall{final("1", "x"), final("2", "fails")}, 3},
		"the first fails":     {[]message.ToolCall{final("1", "fails"), final("2", "x")}, 3},
		"both fail":           {[]message.ToolCall{final("1", "fails"), final("2", "fails")}, 3},
		"one is unanswered":   {[]message.ToolCall{final("1", "x"), final("2", "unanswered")}, 3},
		"one becomes another": {[]message.ToolCall{final("1", "x"), final("2", "becomes another")}, 3},
		"beside another":      {[]message.ToolCall{final("1", "x"), echo("2", "y")}, 3},
	} {
		var ends []int
		m := model.NewScripted(model.Calls(c.calls...), model.Calls(echo("3", "z")), model.Text("done"))
		hook := func(name string) agent.Middleware {
			return agent.Middleware{Name: name, AfterAgent: func(context.Context, map[string]any) (any, error) {
				ends = append(ends, len(m.Requests()))
				return nil, nil
			}}
		}
		g := must(agent.New(m, agent.Options{Tools: tools([]string{"final", "echo"}), Middleware: []agent.Middleware{second, hook("one"), hook("two")}}))
		if _, err := g.Invoke(start, pregel.Address{}, agent.Say("hi")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(ends) != 2 || ends[0] != c.asked || ends[1] != c.asked {
			t.Errorf("%s: hooks behind the agent ran after %v requests of the model; want two after %d", name, ends, c.asked)
		}
	}
}
