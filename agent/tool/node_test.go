package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/serde"
)

var ctx = context.Background()

// object is the schema of any arguments.
var object = tool.Unchecked(`{"type":"object"}`)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// required is a schema that wants arguments to be there.
type required []string

func (r required) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"type": "object", "required": []string(r)})
}

func (r required) Validate(args map[string]any) error {
	for _, name := range r {
		if _, ok := args[name]; !ok {
			return fmt.Errorf("%s: Field required", name)
		}
	}
	return nil
}

type numbers struct{ A, B int }

type text struct {
	Text string `json:"text"`
}

type kind struct {
	Kind string `json:"kind"`
}

// tools are the twins of those in testdata/record.py.
func tools() []tool.Tool {
	return []tool.Tool{
		must(tool.New("add", "Adds.", required{"a", "b"}, func(_ context.Context, in numbers) (int, error) { return in.A + in.B, nil })),
		must(tool.New("echo", "Echoes.", object, func(_ context.Context, in text) (string, error) { return in.Text, nil })),
		must(tool.New("shape", "Returns values of many kinds.", object, func(_ context.Context, in kind) (any, error) { return shapes[in.Kind], nil })),
		must(tool.New("artifact", "Returns an artifact.", object, func(_ context.Context, in text) (tool.Result, error) {
			return tool.Result{Content: in.Text, Artifact: map[string]any{"n": int64(1)}}, nil
		})),
		must(tool.New("fail", "Fails.", object, func(_ context.Context, in text) (string, error) { return "", errors.New(in.Text) })),
		must(tool.New("command", "Returns a Command.", object, func(ctx context.Context, in kind) (any, error) {
			call, ok := tool.CallOf(ctx)
			if !ok {
				return nil, errors.New("no call")
			}
			return commandOf(in.Kind, call.ID), nil
		})),
	}
}

var shapes = map[string]any{
	"dict": struct {
		A int   `json:"a"`
		B []any `json:"b"`
	}{1, []any{1.5, nil, true, "é\n\""}},
	"none": nil, "float": 1.5, "bool": true, "list": []int{1, 2}, "texts": []string{"a", "b"}, "empty": []any{},
	"blocks": []message.Block{message.TextBlock("a"), {"type": "image", "url": "u"}}, "odd": []any{message.Block{"type": "odd"}},
	"mixed": []any{json.RawMessage(`{"type":"text","text":"a"}`), "b"},
}

func commandOf(kind, id string) any {
	m := message.Message{Type: message.TypeTool, Content: "done", ToolCallID: id}
	messages := func(v any) map[string]any { return map[string]any{"messages": v} }
	topic := pregel.Command{Update: map[string]any{"topic": "t"}}
	return map[string]any{
		"state":         pregel.Command{Update: map[string]any{"messages": []any{m}, "topic": "t"}},
		"goto":          &pregel.Command{Update: messages(message.List{m}), Goto: "next"},
		"none":          pregel.Command{Goto: "next"},
		"unanswered":    topic,
		"parent":        pregel.Command{Graph: pregel.Parent, Goto: []any{pregel.Send{Node: "x", Arg: 1}}},
		"parent-update": pregel.Command{Graph: pregel.Parent, Update: map[string]any{"topic": "t"}, Goto: "x"},
		"list":          pregel.Command{Update: []message.Message{m}},
		"clear":         pregel.Command{Update: messages([]any{message.Remove(message.RemoveAllID)})},
		"described":     pregel.Command{Update: messages([]any{map[string]any{"role": "tool", "content": "done", "tool_call_id": id}})},
		"many":          []any{m, topic},
		"many-twice":    []any{m, &pregel.Command{Update: messages(m)}},
		"many-none":     []pregel.Command{topic},
		"message":       m,
		"human":         message.Human("hi"),
	}[kind]
}

var modes = map[string]tool.ErrorPolicy{"default": nil, "answer": tool.AnswerErrors, "stop": tool.StopOnError, "text": tool.AnswerWith("went wrong")}

// show is what the recording has for an output of a node.
func show(v any) any {
	switch x := v.(type) {
	case pregel.Command:
		var graph any
		if x.Graph != "" {
			graph = x.Graph
		}
		return map[string]any{"command": map[string]any{"graph": graph, "update": show(x.Update), "goto": show(x.Goto)}}
	case pregel.Send:
		return map[string]any{"node": x.Node, "arg": x.Arg}
	case message.Message:
		return map[string]any{"message": compact(x)}
	case message.List:
		out := []any{}
		for _, m := range x {
			out = append(out, show(m))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			out[k] = show(e)
		}
		return map[string]any{"state": out}
	case pregel.Pairs:
		out := map[string]any{}
		for _, p := range x {
			out[p.Key] = show(p.Value)
		}
		return map[string]any{"state": out}
	case []any:
		out := []any{}
		for _, e := range x {
			out = append(out, show(e))
		}
		return out
	}
	return v
}

// compact is the fields of a message that are not empty.
func compact(m message.Message) map[string]any {
	var fields map[string]any
	if err := json.Unmarshal(must(json.Marshal(m)), &fields); err != nil {
		panic(err)
	}
	for k, v := range fields {
		if empty := v == nil || v == "" || reflect.DeepEqual(v, map[string]any{}) || reflect.DeepEqual(v, []any{}); empty && k != "content" {
			delete(fields, k)
		}
	}
	return fields
}

type scenario struct {
	Name       string
	Calls      json.RawMessage
	Mode, Form string
	Out        any
	Error      string
}

type recording struct {
	Cases      []scenario
	Conditions []struct {
		In    []message.Message
		Form  string
		Out   any
		Error string
	}
}

func recorded(t *testing.T) (r recording) {
	t.Helper()
	if err := json.Unmarshal(must(os.ReadFile("testdata/node.json")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (s scenario) calls() []message.ToolCall {
	list := must(serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: s.Calls}))
	return must(message.From(map[string]any{"role": "ai", "content": "", "tool_calls": list})).ToolCalls
}

// input is the input of the node in the form of the scenario.
func (s scenario) input() any {
	ai := message.AI("", s.calls()...)
	switch s.Form {
	case "list":
		return []message.Message{ai}
	case "calls":
		out := []any{}
		for _, c := range s.calls() {
			out = append(out, c)
		}
		return out
	}
	return map[string]any{"messages": message.List{message.Human("hi"), ai, message.Human("later")}}
}

// reason is why arguments do not fit.
var reason = regexp.MustCompile(`(Error invoking tool 'add' with kwargs \{[^}]*\}).*?(","name")`)

// different names where a Node differs from LangGraph on purpose.
func (s scenario) different(got, want string) string {
	plain := func(s string) string {
		return reason.ReplaceAllString(strings.Replace(s, `ToolInvocationError(\"`, "", 1), "$1$2")
	}
	switch {
	case plain(got) == plain(want):
		return "why arguments do not fit is said by the schema, not by pydantic"
	case strings.Contains(got, "Error: no answer to the tool call: ") && strings.Contains(want, `Error: ValueError(`):
		return "what a tool did wrong is said in other words"
	case s.Name == "command human":
		return "a message that is no tool message is no answer, rather than its repr"
	case s.Name == "command described" && strings.Replace(got, `"name":"command",`, "", 1) == strings.Replace(want, `"content":"done",`, `"content":"done","status":"success",`, 1):
		return "a described message is written as a message"
	}
	return ""
}

// TestNode: what a Node answers is what LangGraph's ToolNode answers.
func TestNode(t *testing.T) {
	named := map[string]int{}
	for i, s := range recorded(t).Cases {
		n := must(tool.NewNode(tool.Options{Errors: modes[s.Mode]}, tools()...))
		out, err := n.Run(ctx, s.input())
		got, want := "", string(must(json.Marshal(s.Out)))
		if err == nil {
			got = string(must(json.Marshal(show(out))))
		}
		if (err != nil) == (s.Error != "") && (err != nil || got == want) {
			continue
		}
		if why := s.different(got, want); why != "" {
			named[why]++
			continue
		}
		t.Errorf("case %d, %s of a %s, mode %s: %v\n got %s %v\nwant %s %s", i, s.Name, s.Form, s.Mode, s.calls(), got, err, want, s.Error)
	}
	t.Logf("scenarios: %d, 0 different, but for %v", len(recorded(t).Cases), named)
}

func TestCondition(t *testing.T) {
	for i, c := range recorded(t).Conditions {
		var state any = message.List(c.In)
		if c.Form == "state" {
			state = struct {
				message.State
				N int
			}{State: message.State{Messages: c.In}}
		}
		got, err := tool.Condition(ctx, state)
		if (err != nil) != (c.Error != "") || err == nil && got != c.Out {
			t.Errorf("case %d: %v %v, want %v %s", i, got, err, c.Out, c.Error)
		}
	}
}
