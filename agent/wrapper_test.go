package agent_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
)

// system is a middleware that changes the system message.
func system(name string, change func(message.Message) message.Message) agent.Middleware {
	return agent.Middleware{Name: name, WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		r.System = change(r.System)
		return next(ctx, r)
	}}
}

// TestSystemMessage: middleware make a system message where there is none, add to one, with its
// blocks and metadata, and take it away.
func TestSystemMessage(t *testing.T) {
	cached := message.Block{"type": "text", "text": "Be kind.", "cache_control": map[string]any{"type": "ephemeral"}}
	made := system("made", func(m message.Message) message.Message {
		if !m.IsZero() {
			t.Errorf("there is %v", m)
		}
		m = message.System("")
		m.Blocks, m.AdditionalKwargs = []any{cached}, map[string]any{"made": true}
		return m
	})
	more := system("more", func(m message.Message) message.Message {
		m.Blocks = append([]any{}, append(m.Blocks, message.TextBlock(" Be brief."))...)
		m.AdditionalKwargs = map[string]any{"made": m.AdditionalKwargs["made"], "more": true}
		return m
	})
	word := system("word", func(m message.Message) message.Message { return message.System(m.Text() + " Really.") })
	none := system("none", func(message.Message) message.Message { return message.Message{} })
	both := message.System("")
	both.Blocks, both.AdditionalKwargs = []any{cached, message.TextBlock(" Be brief.")}, map[string]any{"made": true, "more": true}
	for name, c := range map[string]struct {
		list []agent.Middleware
		want []message.Message
	}{
		"made":        {[]agent.Middleware{made, more}, []message.Message{both}},
		"then a text": {[]agent.Middleware{made, more, word}, []message.Message{message.System("Be kind. Be brief. Really.")}},
		"taken away":  {[]agent.Middleware{made, none}, nil},
	} {
		m := model.NewScripted(model.Text("hello"))
		must(must(agent.New(m, agent.Options{Middleware: c.list})).Invoke(ctx, pregel.Address{}, agent.Say("hi")))
		got := m.Requests()[0].Messages
		if got = got[:len(got)-1]; len(got) != len(c.want) || len(got) > 0 && !reflect.DeepEqual(got[0], c.want[0]) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestBroughtTool: a middleware runs a call with a tool that the agent does not have, whatever its
// name is, and that tool knows its call.
func TestBroughtTool(t *testing.T) {
	for _, name := range []string{"magic", "wand"} {
		brought := must(tool.New(name, "", object, func(ctx context.Context, in text) (string, error) {
			call, _ := tool.CallOf(ctx)
			return call.ID + in.Text, nil
		}))
		bring := agent.Middleware{Name: "bring", WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
			if r.Name == "magic" {
				if r.Tool != nil {
					t.Errorf("the agent has %v", r.Tool)
				}
				r.Tool = brought
			}
			return next(ctx, r)
		}}
		m := model.NewScripted(model.Calls(message.ToolCall{Name: "magic", ID: "c", Args: map[string]any{"text": "!"}}, echo("1", "e")), model.Text("done"))
		res := must(must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{bring}})).Invoke(ctx, pregel.Address{}, agent.Say("hi")))
		if list := must(agent.Messages(res.Map())); list[2].Text() != "c!" || list[2].Name != "magic" || list[3].Text() != "e" {
			t.Errorf("%s: %v", name, list)
		}
	}
}
