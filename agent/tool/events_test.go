package tool_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// TestEvents: who streams in mode tools sees each call start, its parts, and how it ends: with an answer, a Command or an
// error, whatever the policy makes of it. A call that asks starts and does not end, and so does one that is cancelled. A
// call of no tool has no events, and other modes have none of this.
func TestEvents(t *testing.T) {
	tools := []tool.Tool{
		must(tool.New("parts", "", object, func(ctx context.Context, in text) (string, error) {
			for _, p := range []any{"a", 1} {
				if err := tool.Emit(ctx, p); err != nil {
					return "", err
				}
			}
			return "a1" + in.Text, nil
		})),
		must(tool.New("fail", "", object, func(context.Context, text) (string, error) { return "", errors.New("broken") })),
		must(tool.New("command", "", object, func(ctx context.Context, _ text) (pregel.Command, error) {
			call, _ := tool.CallOf(ctx)
			return pregel.Command{Update: map[string]any{"messages": message.List{message.ToolResult(call.ToolCall, "done")}}}, nil
		})),
		must(tool.New("ask", "", object, func(ctx context.Context, _ text) (string, error) {
			answer, err := pregel.Ask(ctx, "?")
			return fmt.Sprint(answer), err
		})),
	}
	n := must(tool.NewNode(tool.Options{Errors: tool.AnswerErrors}, tools...))
	say := func(e pregel.ToolEvent) string {
		out := fmt.Sprint(e.Step, " ", e.CallID)
		switch x := e.Output.(type) {
		case message.Message:
			out += " answers " + x.Text()
		case pregel.Command:
			out += " commands"
		case nil:
		default:
			out += fmt.Sprint(" ", x)
		}
		if e.Step == pregel.ToolStarted {
			out += fmt.Sprint(" ", e.Name, e.Input)
		}
		return out + e.Err
	}
	for _, c := range []struct {
		tool   string
		answer any
		want   []string
	}{
		{"parts", nil, []string{"tool-started c0 partsmap[text:0]", "tool-output-delta c0 a", "tool-output-delta c0 1", "tool-finished c0 answers a10"}},
		{"fail", nil, []string{"tool-started c0 failmap[text:0]", "tool-error c0broken"}},
		{"command", nil, []string{"tool-started c0 commandmap[text:0]", "tool-finished c0 commands"}},
		{"nobody", nil, nil},
		{"ask", "yes", []string{"tool-started c0 askmap[text:0]", "tool-started c0 askmap[text:0]", "tool-finished c0 answers yes"}},
	} {
		g := agent(t, n, graph.Options{Saver: memory.New(memory.Options{})}, calls(c.tool)...)
		for _, modes := range [][]pregel.Mode{{pregel.ModeTools, pregel.ModeUpdates}, {pregel.ModeUpdates, pregel.ModeMessages, pregel.ModeCustom}} {
			at := pregel.Thread(fmt.Sprint(modes))
			var got []string
			for _, input := range []any{hi, pregel.Command{Resume: c.answer}} {
				if _, again := input.(pregel.Command); again && c.answer == nil {
					break
				}
				for e, err := range g.Stream(t.Context(), at, input, pregel.RunOptions{Modes: modes}) {
					if err != nil {
						t.Fatal(c.tool, err)
					}
					if x, ok := e.Data.(pregel.ToolEvent); ok {
						got = append(got, say(x))
						if e.Mode != pregel.ModeTools || len(e.NS) != 0 {
							t.Errorf("%s: %s at %v", c.tool, e.Mode, e.NS)
						}
					}
				}
			}
			want := c.want
			if modes[0] != pregel.ModeTools {
				want = nil
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s in %v:\n got %q\nwant %q", c.tool, modes, got, want)
			}
		}
	}
	if err := tool.Emit(t.Context(), "x"); !errors.Is(err, tool.ErrOutsideCall) {
		t.Error("outside of a tool: ", err)
	}
	if _, err := n.Run(t.Context(), map[string]any{"messages": message.List{message.AI("", calls("parts")...)}}); err != nil {
		t.Error("without a graph: ", err)
	}
}
