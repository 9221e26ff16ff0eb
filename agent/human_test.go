package agent_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// reviewed is an agent whose calls a person decides.
func reviewed(s saver.Saver, r agent.Review, m model.Model, list []tool.Tool, more ...agent.Middleware) *pregel.Graph {
	return must(agent.New(m, agent.Options{
		Tools:      list,
		Middleware: append([]agent.Middleware{agent.AskPerson(r)}, more...),
		Graph:      graph.Options{Saver: s},
	}))
}

func newStore() saver.Saver { return memory.New(memory.Options{}) }

// edit is a decision.
func edit(name string, args map[string]any) agent.Decision {
	return agent.Decision{Type: agent.Edit, Edited: &agent.Action{Name: name, Args: args}}
}

// answersOf are the texts of tool messages, by the id of the call.
func answersOf(res *pregel.Result) map[string]string {
	out := map[string]string{}
	for _, m := range must(agent.Messages(res.Map())) {
		if m.Type == message.TypeTool {
			out[m.ToolCallID] = m.Text()
		}
	}
	return out
}

// TestGate: a Gate gets the call and the state, with one question about all calls and with one about
// each; a call that it does not describe is told behind the Prefix.
func TestGate(t *testing.T) {
	for _, each := range []bool{false, true} {
		when := func(_ context.Context, c message.ToolCall, state map[string]any) (bool, error) {
			if list := must(agent.Messages(state)); len(list) != 2 || c.ID == "" || c.Args["text"] == nil && c.Args["a"] == nil {
				t.Errorf("each %t: asked about %+v with %d messages", each, c, len(list))
			}
			return true, nil
		}
		describe := func(_ context.Context, c message.ToolCall, state map[string]any) (string, error) {
			return fmt.Sprintf("Echo %v? (%d messages)", c.Args["text"], len(must(agent.Messages(state)))), nil
		}
		m := model.NewScripted(model.Calls(echo("1", "x"), message.ToolCall{Name: "add", ID: "2", Args: map[string]any{"a": 1, "b": 2}}))
		g := reviewed(newStore(), agent.Review{PerCall: each, Prefix: "Custom prefix", Tools: map[string]agent.Gate{
			"echo": {When: when, Describe: describe}, "add": {When: when},
		}}, m, tools([]string{"echo", "add"}))
		var told []string
		for _, q := range must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi"))).Interrupts {
			if each {
				told = append(told, must(channel.Convert[agent.Approval](q.Value)).Description)
				continue
			}
			for _, a := range must(channel.Convert[agent.ReviewRequest](q.Value)).Actions {
				told = append(told, a.Description)
			}
		}
		want := []string{"Echo x? (2 messages)", "Custom prefix\n\nTool: add\nArgs: {'a': 1, 'b': 2}"}
		if !slices.Equal(told, want) {
			t.Errorf("each %t: told %q", each, told)
		}
	}
}

// TestEditSeveral: several calls of a message are edited; the message stays as it was, with its calls
// in their order.
func TestEditSeveral(t *testing.T) {
	add := message.ToolCall{Name: "add", Args: map[string]any{"a": int64(1), "b": int64(2)}}
	first, second := add, add
	first.ID, second.ID = "1", "3"
	asked := []message.ToolCall{first, echo("2", "x"), second, echo("4", "y")}
	g := reviewed(newStore(), agent.Review{Tools: map[string]agent.Gate{"echo": {}}}, model.NewScripted(model.Calls(asked...), model.Text("done")), tools([]string{"echo", "add"}))
	must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
	res := must(g.Invoke(ctx, pregel.Thread("1"), pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{
		edit("echo", map[string]any{"text": "X"}), edit("echo", map[string]any{"text": "Y"}),
	}}}))
	if got := must(agent.Messages(res.Map()))[1].ToolCalls; !reflect.DeepEqual(got, asked) {
		t.Errorf("calls %+v, want %+v", got, asked)
	}
	got := answersOf(res)
	if got["1"] != "3" || got["3"] != "3" || !strings.HasSuffix(got["2"], "\nX") || !strings.HasSuffix(got["4"], "\nY") {
		t.Errorf("answers %q", got)
	}
}

// TestEditDirect: the agent ends if the tool that ran is ReturnDirect, and not if the one that was
// asked for is.
func TestEditDirect(t *testing.T) {
	for name, other := range map[string]string{"final": "echo", "echo": "final"} {
		m := model.NewScripted(model.Calls(message.ToolCall{Name: name, ID: "1", Args: map[string]any{"text": "x"}}), model.Text("done"))
		g := reviewed(newStore(), agent.Review{Tools: map[string]agent.Gate{name: {}}}, m, tools([]string{"echo", "final"}))
		must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
		answer := agent.ReviewAnswer{Decisions: []agent.Decision{edit(other, map[string]any{"text": "y"})}}
		must(g.Invoke(ctx, pregel.Thread("1"), pregel.Command{Resume: answer}))
		if n := len(m.Requests()); (n == 1) != (other == "final") {
			t.Errorf("%s in place of %s: the model was asked %d times", other, name, n)
		}
	}
}

// TestEditStays: an edit that was allowed when it was made runs, also if the tool asks again and
// edits are no longer allowed.
func TestEditStays(t *testing.T) {
	s := newStore()
	build := func(only ...agent.DecisionType) *pregel.Graph {
		m := model.NewScripted(model.Calls(message.ToolCall{Name: "ask", ID: "1", Args: map[string]any{"text": "theirs"}}))
		if only != nil {
			m = model.NewScripted(model.Text("done"))
		}
		return reviewed(s, agent.Review{Tools: map[string]agent.Gate{"ask": {Decisions: only}}}, m, tools([]string{"ask"}))
	}
	at := pregel.Thread("1")
	g := build()
	must(g.Invoke(ctx, at, agent.Say("hi")))
	res := must(g.Invoke(ctx, at, pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{edit("ask", map[string]any{"text": "mine"})}}}))
	if len(res.Interrupts) != 1 || res.Interrupts[0].Value != "mine" {
		t.Fatalf("asked %+v", res.Interrupts)
	}
	res = must(build(agent.Approve, agent.Reject).Invoke(ctx, at, pregel.Command{Resume: "yes"}))
	if got := answersOf(res)["1"]; !strings.Contains(got, `ask with arguments {"text": "mine"}`) || !strings.HasSuffix(got, "said yes") {
		t.Errorf("answer %q", got)
	}
}

// TestDecisionCount: there is a decision for each call, and none more. Where that is not so, or a
// decision is none, the question waits for another answer. Who has no types is told the form of one, and where it is wrong.
func TestDecisionCount(t *testing.T) {
	decide := func(list ...agent.Decision) any { return agent.ReviewAnswer{Decisions: list} }
	for name, answer := range map[string]any{
		"none": decide(), "two": decide(agent.Decision{Type: agent.Approve}, agent.Decision{Type: agent.Approve}),
		"unknown": decide(agent.Decision{Type: "dance"}), "no edited call": decide(agent.Decision{Type: agent.Edit}),
		"form: a text": "approve", "form: one decision": map[string]any{"type": "approve"}, "form: a list": []any{map[string]any{"type": "approve"}},
		"form: no list":      map[string]any{"decisions": "approve"},
		"form: no arguments": map[string]any{"decisions": []any{map[string]any{"type": "edit", "edited_action": map[string]any{"name": "echo", "args": "x"}}}},
	} {
		words := map[string]string{
			"form: a text": ": want an object, got a string;", "form: no list": ": decisions: want a list, got a string;",
			"form: no arguments": ": decisions[0].edited_action.args: want an object, got a string;",
		}[name]
		g := reviewed(newStore(), agent.Review{Tools: map[string]agent.Gate{"echo": {}}}, model.NewScripted(model.Calls(echo("1", "x")), model.Text("done")), tools([]string{"echo"}))
		at := pregel.Thread("1")
		must(g.Invoke(ctx, at, agent.Say("hi")))
		var refused *pregel.AnswerError
		if _, err := g.Invoke(ctx, at, pregel.Command{Resume: answer}); !errors.Is(err, agent.ErrDecision) || !errors.As(err, &refused) ||
			strings.HasPrefix(name, "form") && !strings.Contains(err.Error(), `{"decisions": [{"type": "approve"}]}`) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", name, err)
		}
		asked := must(g.GetState(ctx, at)).Interrupts
		if len(asked) != 1 {
			t.Fatalf("%s: %d questions wait", name, len(asked))
		}
		approve := must(agent.Decide(asked[0], func(agent.ActionRequest) agent.Decision { return agent.Decision{Type: agent.Approve} }))
		if got := answersOf(must(g.Invoke(ctx, at, approve)))["1"]; got != "x" {
			t.Errorf("%s: then the tool said %q", name, got)
		}
	}
}

// TestNoticeInCommand: the notice is put before the answer to the edited call alone; what else the
// tool writes stays.
func TestNoticeInCommand(t *testing.T) {
	write := must(tool.New("write", "", object, func(ctx context.Context, _ struct{}) (any, error) {
		call, _ := tool.CallOf(ctx)
		return pregel.Command{Update: map[string]any{"topic": "tea", "messages": []message.Message{
			message.ToolResult(call.ToolCall, "wrote it"), message.Human("other"),
		}}}, nil
	}))
	g := must(agent.New(model.NewScripted(model.Calls(message.ToolCall{Name: "write", ID: "1"}), model.Text("done")), agent.Options{
		Tools:      []tool.Tool{write},
		State:      []graph.Field{graph.Key("topic", channel.LastValue[string]())},
		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Notice: "N", Tools: map[string]agent.Gate{"write": {}}})},
		Graph:      graph.Options{Saver: newStore()},
	}))
	must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
	res := must(g.Invoke(ctx, pregel.Thread("1"), pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{edit("write", nil)}}}))
	got := answersOf(res)
	if got["1"] != "N Executed instead: write with arguments {}.\n\nTool response:\nwrote it" || must(agent.Messages(res.Map()))[3].Text() != "other" || res.Map()["topic"] != "tea" {
		t.Errorf("answers %q, topic %v", got, res.Map()["topic"])
	}
}

// TestApprovalEdit: an edit of one call may have arguments that the tool's schema does not name, and
// any of a tool that does not check them, or is not there.
func TestApprovalEdit(t *testing.T) {
	loose := must(tool.New("loose", "", object, func(_ context.Context, in struct{ To any }) (string, error) { return fmt.Sprint("to ", in.To), nil }))
	list := append(tools([]string{"echo"}), loose)
	for name, c := range map[string]struct {
		args map[string]any
		want string
	}{
		"echo":  {map[string]any{"text": "b", "subject": "hi"}, "\nb"},
		"loose": {map[string]any{"to": int64(5)}, "\nto 5"},
		"nope":  {map[string]any{"to": int64(5)}, "try one of [echo, loose]."},
	} {
		g := reviewed(newStore(), agent.Review{PerCall: true, Tools: map[string]agent.Gate{name: {Decisions: []agent.DecisionType{agent.Edit}}}},
			model.NewScripted(model.Calls(message.ToolCall{Name: name, ID: "1", Args: map[string]any{"text": "a"}}), model.Text("done")), list, passing)
		asked := must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi"))).Interrupts
		args := asked[0].ResponseSchema.(map[string]any)["$defs"].(map[string]any)["EditedAction"].(map[string]any)["properties"].(map[string]any)["args"].(map[string]any)
		if args["type"] != "object" || name == "echo" && args["description"] != "Echoes." {
			t.Errorf("%s: arguments %v", name, args)
		}
		answer := must(agent.DecideEach(asked, func(agent.Approval) agent.Decision { return edit(name, c.args) }))
		res, err := g.Invoke(ctx, pregel.Thread("1"), answer)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := answersOf(res)["1"]; !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: answer %q", name, got)
		}
	}
}

// TestOneDecision: the schema of an answer that can only be one decision is that of the decision,
// also if it is named twice.
func TestOneDecision(t *testing.T) {
	for n := range 2 {
		only := slices.Repeat([]agent.DecisionType{agent.Respond}, n+1)
		g := reviewed(newStore(), agent.Review{PerCall: true, Tools: map[string]agent.Gate{"echo": {Decisions: only}}}, model.NewScripted(model.Calls(echo("1", "x"))), tools([]string{"echo"}))
		schema := must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi"))).Interrupts[0].ResponseSchema.(map[string]any)
		kind := schema["properties"].(map[string]any)["type"].(map[string]any)
		if kind["const"] != "respond" || !reflect.DeepEqual(schema["required"], []any{"type", "message"}) {
			t.Errorf("%v: schema %v", only, schema)
		}
	}
}

// TestApprovalWithoutID: a call whose id is empty gets one, is asked about, and gets its own answer.
func TestApprovalWithoutID(t *testing.T) {
	g := reviewed(newStore(), agent.Review{PerCall: true, Tools: map[string]agent.Gate{"echo": {}}}, model.NewScripted(model.Calls(echo("1", "x"), echo("", "y")), model.Text("done")), tools([]string{"echo"}))
	asked := must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi"))).Interrupts
	other := ""
	res := must(g.Invoke(ctx, pregel.Thread("1"), must(agent.DecideEach(asked, func(a agent.Approval) agent.Decision {
		if a.ID != "1" {
			other = a.ID
			return agent.Decision{Type: agent.Reject, Message: "no"}
		}
		return agent.Decision{Type: agent.Approve}
	}))))
	if got := answersOf(res); len(asked) != 2 || got["1"] != "x" || other == "" || !strings.HasSuffix(got[other], "no") {
		t.Errorf("%d questions, answers %q", len(asked), got)
	}
}

// TestEditUnknown: a call that is edited into one of a tool that is not there is answered as such a
// call of the model is.
func TestEditUnknown(t *testing.T) {
	g := reviewed(newStore(), agent.Review{NoNotice: true, Tools: map[string]agent.Gate{"echo": {}}}, model.NewScripted(model.Calls(echo("1", "x")), model.Text("done")), tools([]string{"echo"}))
	must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
	res := must(g.Invoke(ctx, pregel.Thread("1"), pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{edit("nope", nil)}}}))
	if got := answersOf(res)["1"]; !strings.HasPrefix(got, "Error: nope is not a valid tool") {
		t.Errorf("answer %q", got)
	}
}
