package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestOneIDOfAnswers: a tool whose answers have one id, as from a cache, answers each call, one after the other and
// together.
func TestOneIDOfAnswers(t *testing.T) {
	pay := func(id string) message.ToolCall { return message.ToolCall{Name: "pay", ID: id} }
	for name, answers := range map[string][]model.Answer{
		"one by one": {model.Calls(pay("1")), model.Calls(pay("2")), model.Text("done")},
		"together":   {model.Calls(pay("1"), pay("2")), model.Text("done")},
	} {
		for how, give := range map[string]func(m message.Message) any{
			"a message": func(m message.Message) any { return m },
			"a list":    func(m message.Message) any { return []any{m} },
			"a Command": func(m message.Message) any {
				return pregel.Command{Update: map[string]any{"messages": []message.Message{m}}}
			},
			"a Command with any": func(m message.Message) any {
				return pregel.Command{Update: pregel.Pairs{{Key: "messages", Value: []any{m}}}}
			},
		} {
			paid := must(tool.New("pay", "", object, func(ctx context.Context, _ struct{}) (any, error) {
				call, _ := tool.CallOf(ctx)
				m := message.ToolResult(call.ToolCall, "paid")
				m.ID = "result"
				return give(m), nil
			}))
			g := must(agent.New(model.NewScripted(answers...), agent.Options{Tools: []tool.Tool{paid}, Graph: graph.Options{Saver: newStore()}}))
			must(0, invoke(g, agent.Say("hi")))
			if n := strings.Count(strings.Join(stored(g), "\n"), ": paid"); n != 2 {
				t.Errorf("%s, by %s: %q", name, how, stored(g))
			}
		}
	}
}

// TestOneIDOfModel: an answer of the model takes the place of none, whatever id the provider gives it.
func TestOneIDOfModel(t *testing.T) {
	say := func(m message.Message) model.Answer { m.ID = "chatcmpl-7"; return model.Answer{Message: m} }
	m := model.NewScripted(say(message.AI("", echo("1", "a"))), say(message.AI("done")), model.Text("x"))
	g := must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Graph: graph.Options{Saver: newStore()}}))
	must(0, invoke(g, agent.Say("hi")))
	if list := head(g); list[len(list)-1].Text() != "done" || list[1].ID != "chatcmpl-7" {
		t.Errorf("%q", stored(g))
	}
	must(0, invoke(g, agent.Say("more")))
	if got := stored(g); len(got) != 6 {
		t.Errorf("%q", got)
	}
	same := model.NewScriptedFunc(func(context.Context, model.Request) (model.Answer, error) { return say(message.AI("x")), nil })
	g = must(agent.New(same, agent.Options{Graph: graph.Options{Saver: newStore()}}))
	must(0, invoke(g, agent.Say("hi")))
	send := pregel.Send{Node: agent.NodeModel, Arg: agent.Say("hi")}
	must(0, invoke(g, pregel.Command{Goto: send}))
	must(0, invoke(g, pregel.Command{Goto: []pregel.Send{send, send}}))
	if got := stored(g); len(got) != 5 {
		t.Errorf("asked by Sends: %q", got)
	}
}

// TestStoredRemoval: a removal that another program has stored as a message is not sent to the model, and goes with the
// next answer.
func TestStoredRemoval(t *testing.T) {
	s := newStore()
	b := graph.New(graph.Key("messages", channel.LastValue[any]()))
	b.Node("write", func(context.Context, any) (any, error) {
		h, a := message.Human("hi"), message.AI("a")
		h.ID, a.ID = "h", "1"
		return map[string]any{"messages": message.List{h, a, message.Remove("1")}}, nil
	}).Edge(graph.Start, "write")
	must(must(b.Compile(graph.Options{Saver: s})).Invoke(ctx, pregel.Thread("1"), map[string]any{"messages": "x"}))
	m := model.NewScripted(model.Text("done"))
	g := must(agent.New(m, agent.Options{Graph: graph.Options{Saver: s}}))
	must(0, invoke(g, agent.Say("more")))
	is := func(m message.Message) bool { return m.Type == message.TypeRemove }
	if slices.ContainsFunc(m.Requests()[0].Messages, is) || slices.ContainsFunc(head(g), is) {
		t.Errorf("%q", stored(g))
	}
}
