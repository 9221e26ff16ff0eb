package tool_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestWrapUnknown: a wrapper sees that there is no tool. It runs the call with one of its own, fails
// as the policy says, or passes it on, to be told which tools there are, whatever the policy is.
func TestWrapUnknown(t *testing.T) {
	failed := errors.New("no wand")
	wand := must(tool.New("wand", "", object, func(context.Context, text) (string, error) { return "abracadabra", nil }))
	wrap := func(ctx context.Context, r tool.Request, run tool.Runner) (any, error) {
		if (r.Tool == nil) == (r.Name == "echo") {
			t.Errorf("%s: the tool is %v", r.Name, r.Tool)
		}
		switch r.Name {
		case "magic":
			r.Tool = wand
		case "fail":
			return nil, failed
		}
		return run(ctx, r)
	}
	echo := tools()[1]
	for name, policy := range map[string]tool.ErrorPolicy{"answer": tool.AnswerErrors, "stop": tool.StopOnError} {
		n := must(tool.NewNode(tool.Options{Errors: policy, Wrap: wrap}, echo))
		out := must(n.Run(ctx, []message.Message{message.AI("", calls("magic", "echo", "nobody")...)})).(message.List)
		if out[0].Text() != "abracadabra" || out[1].Text() != "1" || out[2].Text() != "Error: nobody is not a valid tool, try one of [echo]." || out[2].Status != message.StatusError {
			t.Errorf("%s: %v", name, out)
		}
		answer, err := n.Run(ctx, map[string]any{"messages": message.AI("", calls("fail")...)})
		if name == "stop" {
			if !errors.Is(err, failed) {
				t.Errorf("%s: %v", name, err)
			}
		} else if m := answer.(map[string]any)["messages"].(message.List)[0]; err != nil || m.Status != message.StatusError || !strings.Contains(m.Text(), "no wand") {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

// TestWrapState: a wrapper sees the state that was put in, a map or a list, and a tool that which the
// wrapper gives it.
func TestWrapState(t *testing.T) {
	note := must(tool.New("note", "", object, func(ctx context.Context, _ text) (string, error) {
		s, err := tool.State[map[string]any](ctx)
		return fmt.Sprint(s["note"]), err
	}))
	asks := message.AI("", calls("note")...)
	for _, in := range []any{map[string]any{"messages": message.List{asks}, "note": "old"}, message.List{asks}} {
		n := must(tool.NewNode(tool.Options{Wrap: func(ctx context.Context, r tool.Request, run tool.Runner) (any, error) {
			if !reflect.DeepEqual(r.State, in) {
				t.Errorf("the state is %v", r.State)
			}
			r.State = map[string]any{"note": "new"}
			return run(ctx, r)
		}}, note))
		out := must(n.Run(ctx, in))
		list, ok := out.(message.List)
		if !ok {
			list = out.(map[string]any)["messages"].(message.List)
		}
		if list[0].Text() != "new" {
			t.Errorf("%T: %v", in, list)
		}
	}
}

// TestWrapCommand: a wrapper gets the Command of a tool, and may change it.
func TestWrapCommand(t *testing.T) {
	move := must(tool.New("move", "", object, func(ctx context.Context, _ text) (pregel.Command, error) {
		call, _ := tool.CallOf(ctx)
		return pregel.Command{Update: map[string]any{"messages": message.ToolResult(call.ToolCall, "moving")}, Goto: "there"}, nil
	}))
	for _, change := range []bool{false, true} {
		n := must(tool.NewNode(tool.Options{Wrap: func(ctx context.Context, r tool.Request, run tool.Runner) (any, error) {
			out, err := run(ctx, r)
			c, ok := out.(pregel.Command)
			if !ok || c.Goto != "there" {
				t.Errorf("the tool returns %v", out)
			}
			if change {
				return pregel.Command{Goto: "elsewhere"}, err
			}
			return out, err
		}}, move))
		out := must(n.Run(ctx, map[string]any{"messages": message.AI("", calls("move")...)})).([]any)
		if got := out[0].(pregel.Command).Goto; len(out) != 1 || (got == "there") == change || (got == "elsewhere") != change {
			t.Errorf("changed %t: %v", change, out)
		}
	}
}

// TestErrorPolicy: a policy knows the call and its error, and may let it end the node; arguments that
// a tool does not take are an *InvocationError that names it.
func TestErrorPolicy(t *testing.T) {
	known, other := errors.New("known"), errors.New("other")
	bad := must(tool.New("bad", "", required{"text"}, func(_ context.Context, in text) (string, error) {
		return "", map[string]error{"0": known, "1": other}[in.Text]
	}))
	n := must(tool.NewNode(tool.Options{Errors: func(_ context.Context, call message.ToolCall, err error) (string, error) {
		if errors.Is(err, known) {
			return call.Name + " knows", nil
		}
		return "", err
	}}, bad))
	out := must(n.Run(ctx, message.List{message.AI("", calls("bad")...)})).(message.List)
	if out[0].Text() != "bad knows" || out[0].Status != message.StatusError {
		t.Errorf("%v", out)
	}
	if _, err := n.Run(ctx, message.List{message.AI("", calls("bad", "bad")...)}); !errors.Is(err, other) {
		t.Errorf("error %v", err)
	}
	var invalid *tool.InvocationError
	if _, err := n.Run(ctx, message.List{message.AI("", message.ToolCall{Name: "bad", ID: "1"})}); !errors.As(err, &invalid) || invalid.Tool != "bad" {
		t.Errorf("error %v", err)
	}
}

// TestAnsweringCommands: in a list of Commands one may have the message that answers the call, also
// beside one for the graph around; a message that answers another call does not.
func TestAnsweringCommands(t *testing.T) {
	done := message.ToolResult(message.ToolCall{Name: "many", ID: "c0"}, "done")
	another := message.ToolResult(message.ToolCall{Name: "many", ID: "c1"}, "done")
	update := func(m message.Message) pregel.Command {
		return pregel.Command{Update: map[string]any{"messages": message.List{m}}}
	}
	topic := pregel.Command{Update: map[string]any{"topic": "t"}}
	around := pregel.Command{Graph: pregel.Parent, Goto: []pregel.Send{{Node: "x"}}}
	for name, c := range map[string]struct {
		out any
		ok  bool
	}{
		"inside a Command": {[]any{topic, update(done)}, true},
		"beside a Send":    {[]any{around, done}, true},
		"of another call":  {update(another), false},
		"another in many":  {[]any{topic, update(another)}, false},
	} {
		n := must(tool.NewNode(tool.Options{}, must(tool.New("many", "", object, func(context.Context, text) (any, error) { return c.out, nil }))))
		out, err := n.Run(ctx, map[string]any{"messages": message.AI("", calls("many")...)})
		if c.ok != (err == nil) || err != nil && !errors.Is(err, tool.ErrAnswer) {
			t.Errorf("%s: %v", name, err)
		}
		if list, _ := out.([]any); c.ok && len(list) != 2 {
			t.Errorf("%s: %v", name, out)
		}
	}
}

// TestKey: a node finds the calls under another key of the state, and answers there.
func TestKey(t *testing.T) {
	n := must(tool.NewNode(tool.Options{Key: "chat"}, tools()...))
	b := graph.New(graph.Key("chat", message.Channel(nil)))
	b.Node("tools", n.Run).Sequence(graph.Start, "tools", graph.End)
	res := must(must(b.Compile(graph.Options{})).Invoke(ctx, pregel.Address{}, map[string]any{"chat": message.AI("", calls("echo")...)}))
	if list := must(message.FromList(res.Map()["chat"])); len(list) != 2 || list[1].Text() != "0" {
		t.Errorf("%v", list)
	}
}

// TestRunByHand: a node of tools that a node calls by hand knows the state of the graph that it is in,
// also if that was sent to by another.
func TestRunByHand(t *testing.T) {
	var seen []any
	look := must(tool.New("look", "", object, func(ctx context.Context, _ text) (string, error) {
		s, err := tool.State[map[string]any](ctx)
		seen = append(seen, s["value"])
		return "", err
	}))
	n := must(tool.NewNode(tool.Options{}, look))
	value := graph.Key("value", channel.LastValue[string]())
	inner := must(graph.New(value).Node("hand", func(ctx context.Context, _ any) (any, error) {
		_, err := n.Run(ctx, calls("look"))
		return nil, err
	}).Sequence(graph.Start, "hand", graph.End).Compile(graph.Options{}))
	outer := must(graph.New(value).Subgraph("inner", inner).Conditional(graph.Start, "route", func(context.Context, any) (any, error) {
		return []pregel.Send{{Node: "inner", Arg: map[string]any{"value": "inner"}}}, nil
	}, "inner").Compile(graph.Options{}))
	must(outer.Invoke(ctx, pregel.Address{}, map[string]any{"value": "outer"}))
	if !reflect.DeepEqual(seen, []any{"inner"}) {
		t.Errorf("seen %v", seen)
	}
}

// TestSentWithState: a call that create_react_agent of LangGraph sent, with the state, is run with
// that state.
func TestSentWithState(t *testing.T) {
	topic := must(tool.New("topic", "", object, func(ctx context.Context, _ text) (string, error) {
		s, err := tool.State[state](ctx)
		return fmt.Sprint(s.Topic, len(s.Messages)), err
	}))
	n := must(tool.NewNode(tool.Options{}, topic))
	sent := map[string]any{"__type": "tool_call_with_context",
		"tool_call": map[string]any{"type": "tool_call", "name": "topic", "args": map[string]any{}, "id": "1"},
		"state":     map[string]any{"messages": message.List{message.Human("hi")}, "topic": "tea"}}
	if out, err := n.Run(ctx, sent); err != nil || texts(out)[0] != "tea1" {
		t.Errorf("%v, %v", out, err)
	}
	sent["tool_call"] = "none"
	if _, err := n.Run(ctx, sent); !errors.Is(err, tool.ErrNoMessage) {
		t.Errorf("error %v", err)
	}
}
