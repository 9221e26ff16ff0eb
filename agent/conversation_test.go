package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// strict is a model that refuses what OpenAI and Anthropic refuse. It remembers its refusals.
type strict struct {
	model.Model
	mu       sync.Mutex
	refusals []error
}

func (s *strict) Stream(ctx context.Context, r model.Request) iter.Seq2[message.Chunk, error] {
	if err := errors.Join(asOpenAI(r.Messages), asAnthropic(r.Messages)); err != nil {
		err = fmt.Errorf("%w: %v", err, r.Messages)
		s.mu.Lock()
		s.refusals = append(s.refusals, err)
		s.mu.Unlock()
		return func(yield func(message.Chunk, error) bool) { yield(message.Chunk{}, err) }
	}
	return s.Model.Stream(ctx, r)
}

// callsOf are the ids of the calls that an adapter sends of a message.
func callsOf(m message.Message) (ids []string) {
	for _, c := range m.ToolCalls {
		ids = append(ids, c.ID)
	}
	for _, c := range m.InvalidToolCalls {
		ids = append(ids, c.ID)
	}
	return ids
}

// asOpenAI refuses as chat completions do: the messages of tools behind an assistant's are counted.
func asOpenAI(list []message.Message) error {
	for i := 0; i < len(list); {
		m := list[i]
		i++
		if m.Type == message.TypeTool {
			return errors.New("messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
		}
		answered := map[string]int{}
		for n := len(callsOf(m)); n > 0 && i < len(list) && list[i].Type == message.TypeTool; i++ {
			answered[list[i].ToolCallID]++
			n--
		}
		for _, id := range callsOf(m) {
			if id == "" || answered[id] != 1 {
				return fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id': %q", id)
			}
		}
	}
	return nil
}

// asAnthropic refuses as messages do: what is not the assistant's joins to one turn, which begins with
// the results of the turn before.
func asAnthropic(list []message.Message) error {
	used := map[string]bool{}
	var waiting []string
	results := true // whether results may still come in this turn
	for _, m := range append(slices.Clip(list), message.AI("")) {
		switch m.Type {
		case message.TypeSystem:
		case message.TypeTool:
			at := slices.Index(waiting, m.ToolCallID)
			if at < 0 || !results {
				return fmt.Errorf("unexpected `tool_use_id` found in `tool_result` blocks: %q", m.ToolCallID)
			}
			waiting = slices.Delete(waiting, at, at+1)
		case message.TypeAI:
			if len(waiting) > 0 {
				return fmt.Errorf("`tool_use` ids were found without `tool_result` blocks immediately after: %q", waiting)
			}
			waiting, results = callsOf(m), true
			for _, id := range waiting {
				if id == "" || used[id] {
					return fmt.Errorf("`tool_use` ids must be unique: %q", id)
				}
				used[id] = true
			}
		default:
			results = false
		}
	}
	return nil
}

// TestStrict: the strict model refuses each kind of illegal conversation, so that the tests below can
// fail.
func TestStrict(t *testing.T) {
	one, other := echo("1", "x"), echo("2", "x")
	asks, both := message.AI("", one), message.AI("", one, other)
	answer, second, hi := message.ToolResult(one, "x"), message.ToolResult(other, "x"), message.Human("hi")
	for name, list := range map[string][]message.Message{
		"no answer": {hi, asks, hi}, "none at the end": {hi, asks}, "one of two": {hi, both, answer, hi}, "no call": {hi, answer},
		"two answers": {asks, answer, answer}, "words between": {both, answer, hi, second}, "no id": {message.AI("", echo("", "x")), message.ToolResult(echo("", "x"), "x")},
	} {
		if asOpenAI(list) == nil || asAnthropic(list) == nil {
			t.Errorf("%s: %v, %v", name, asOpenAI(list), asAnthropic(list))
		}
	}
	if again := []message.Message{asks, answer, asks, answer}; asAnthropic(again) == nil || asOpenAI(again) != nil {
		t.Error("an id again")
	}
	if legal := []message.Message{message.System("s"), hi, both, second, answer, hi, message.AI("a")}; asAnthropic(legal) != nil || asOpenAI(legal) != nil {
		t.Error("a legal one is refused")
	}
}

// head are the newest messages of the thread.
func head(g *pregel.Graph) []message.Message {
	return must(agent.Messages(must(g.GetState(ctx, pregel.Thread("1"))).Values.(map[string]any)))
}

// stored is a conversation in a few words: the type of each message and its text, or its calls.
func stored(g *pregel.Graph) (out []string) {
	for _, m := range head(g) {
		text := m.Text()
		if m.Type == message.TypeTool {
			text = m.ToolCallID + ": " + text
		}
		for _, c := range m.ToolCalls {
			text += "+" + c.ID
		}
		out = append(out, string(m.Type)+" "+text)
	}
	return out
}

// noResult is the text of an answer to a call that was not run.
func noResult(name, id string) string {
	return fmt.Sprintf("tool %s: Tool call %s with id %s has no result. It was not run, or was broken off before it ended.", id, name, id)
}

// TestConversations: in all the ways in which a call can come to have no answer or two, the next input
// is answered, and the thread is legal from then on.
func TestConversations(t *testing.T) {
	const limited = "tool 2: Tool call limit exceeded. Do not call 'echo' again."
	gated := agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"echo": {}}})
	limit := agent.LimitToolCalls("echo", agent.Limit{Run: 1})
	reject := pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{{Type: agent.Reject, Message: "no"}}}}
	rejected := func(id string) string {
		return "tool " + id + ": User rejected the tool call for `echo` with reason: no"
	}
	fail := message.ToolCall{Name: "fail", ID: "1", Args: map[string]any{"text": "no"}}
	more, drop := agent.Say("more"), pregel.RunOptions{Unfinished: pregel.DiscardUnfinished}
	said := func(list ...string) []string { return append([]string{"human hi"}, list...) }
	for name, c := range map[string]struct {
		calls      []message.ToolCall
		middleware []agent.Middleware
		then       func(g *pregel.Graph) error
		want       []string
		notes      int
	}{
		"a tool fails the run": {
			[]message.ToolCall{fail, echo("2", "x")}, nil,
			func(g *pregel.Graph) error { return invoke(g, more) },
			said("ai +1+2", noResult("fail", "1"), noResult("echo", "2"), "human more", "ai done"), 2,
		},
		"a message in place of an approval": {
			[]message.ToolCall{echo("1", "x")}, []agent.Middleware{gated},
			func(g *pregel.Graph) error { return invoke(g, more, drop) },
			said("ai +1", noResult("echo", "1"), "human more", "ai done"), 1,
		},
		"a message beside an approval": {
			[]message.ToolCall{echo("1", "x")}, []agent.Middleware{gated},
			func(g *pregel.Graph) error {
				return invoke(g, pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{{Type: agent.Approve}}}, Update: more})
			},
			said("ai +1", "tool 1: x", "human more", "ai done"), 1,
		},
		"a limit, then a person": {
			[]message.ToolCall{echo("1", "x"), echo("2", "y")}, []agent.Middleware{gated, limit},
			func(g *pregel.Graph) error { return invoke(g, reject) },
			said("ai +1+2", limited, rejected("1"), "ai done"), 0,
		},
		"a person, then a limit": {
			[]message.ToolCall{echo("1", "x"), echo("2", "y")}, []agent.Middleware{limit, gated},
			func(g *pregel.Graph) error {
				both := agent.ReviewAnswer{Decisions: []agent.Decision{{Type: agent.Reject, Message: "no"}, {Type: agent.Reject, Message: "no"}}}
				return invoke(g, pregel.Command{Resume: both})
			},
			said("ai +1+2", rejected("1"), rejected("2"), "ai done"), 0,
		},
		"a cancelled tool": {
			[]message.ToolCall{{Name: "wait", ID: "1"}}, nil,
			func(g *pregel.Graph) error { return invoke(g, more, drop) },
			said("ai +1", noResult("wait", "1"), "human more", "ai done"), 1,
		},
		"an answer that is taken out": {
			[]message.ToolCall{echo("1", "x")}, nil,
			func(g *pregel.Graph) error {
				list := head(g)
				must(g.UpdateState(ctx, pregel.Thread("1"), pregel.StateUpdate{Values: map[string]any{"messages": message.Remove(list[2].ID)}}))
				return invoke(g, more)
			},
			said("ai +1", noResult("echo", "1"), "ai done", "human more", "ai done"), 1,
		},
		"a call that is taken out": {
			[]message.ToolCall{echo("1", "x")}, nil,
			func(g *pregel.Graph) error {
				list := head(g)
				must(g.UpdateState(ctx, pregel.Thread("1"), pregel.StateUpdate{Values: map[string]any{"messages": message.Remove(list[1].ID)}}))
				return invoke(g, more)
			},
			said("ai done", "human more", "ai done"), 1,
		},
		"a fork before the tools": {
			[]message.ToolCall{echo("1", "x")}, nil,
			func(g *pregel.Graph) error {
				for s, err := range g.GetStateHistory(ctx, pregel.Thread("1"), pregel.HistoryQuery{}) {
					if err == nil && slices.Contains(s.Next, "tools") {
						_, err = g.Invoke(ctx, pregel.Address{ThreadID: "1", CheckpointID: s.Address.CheckpointID}, more)
						return err
					}
				}
				return errors.New("no checkpoint before the tools")
			},
			said("ai +1", noResult("echo", "1"), "human more", "ai done"), 1,
		},
	} {
		wait := must(tool.New("wait", "", object, func(ctx context.Context, _ struct{}) (string, error) {
			stop, _ := ctx.Value(stopKey{}).(context.CancelFunc)
			stop()
			<-ctx.Done()
			return "", ctx.Err()
		}))
		m := &strict{Model: model.NewScripted(model.Calls(c.calls...), model.Text("done"), model.Text("done"), model.Text("done"))}
		g := must(agent.New(m, agent.Options{
			Tools: append(tools([]string{"echo", "fail"}), wait), Middleware: c.middleware, Graph: graph.Options{Saver: memory.New(memory.Options{})},
		}))
		first, stop := context.WithCancel(ctx)
		_, err := g.Invoke(context.WithValue(first, stopKey{}, stop), pregel.Thread("1"), agent.Say("hi"))
		stop()
		if failed := c.calls[0].Name != "echo"; (err != nil) != failed {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.then(g); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := stored(g)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
		list := head(g)
		notes, _ := list[len(list)-1].ResponseMetadata["stele_repaired"].([]any)
		if len(notes) != c.notes || m.refusals != nil {
			t.Errorf("%s: notes %q, refused %v", name, notes, m.refusals)
		}
		before := len(head(g))
		if err := invoke(g, agent.Say("last")); err != nil || len(stored(g)) != before+2 || m.refusals != nil {
			t.Errorf("%s: then %q, %v", name, stored(g), err)
		}
	}
}

type stopKey struct{}

func invoke(g *pregel.Graph, input any, o ...pregel.RunOptions) error {
	_, err := g.Invoke(ctx, pregel.Thread("1"), input, o...)
	return err
}

// TestIDUsedAgain: a call with the id of an earlier one gets another, and no edit of that one.
func TestIDUsedAgain(t *testing.T) {
	m := &strict{Model: model.NewScripted(model.Calls(echo("c0", "e0")), model.Text("done"), model.Calls(echo("c0", "e1")), model.Text("done"))}
	g := reviewed(newStore(), agent.Review{NoNotice: true, Tools: map[string]agent.Gate{"echo": {}}}, m, tools([]string{"echo"}))
	for _, d := range []agent.Decision{edit("echo", map[string]any{"text": "mine"}), {Type: agent.Approve}} {
		must(0, invoke(g, agent.Say("hi")))
		must(0, invoke(g, pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{d}}}))
	}
	want := []string{"human hi", "ai +c0", "tool c0: mine", "ai done", "human hi", "ai +c0-1", "tool c0-1: e1", "ai done"}
	if got := stored(g); !slices.Equal(got, want) || m.refusals != nil {
		t.Errorf("%q, refused %v", got, m.refusals)
	}
}

// TestIDsInPart: an id is new in the whole conversation, also if the model saw a part of it.
func TestIDsInPart(t *testing.T) {
	last := agent.Middleware{Name: "last", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		r.Messages = r.Messages[len(r.Messages)-1:]
		return next(ctx, r)
	}}
	m := &strict{Model: model.NewScripted(model.Calls(echo("c0", "e0"), echo("", "e1")), model.Calls(echo("c0", "e2"), echo("", "e3")), model.Text("done"))}
	g := must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{last}, Graph: graph.Options{Saver: newStore()}}))
	must(0, invoke(g, agent.Say("hi")))
	list := head(g)
	if err := errors.Join(asOpenAI(list), asAnthropic(list)); err != nil || m.refusals != nil || len(list) != 8 {
		t.Errorf("%v, refused %v: %v", err, m.refusals, list)
	}
	for i, m := range list {
		if m.ResponseMetadata["stele_repaired"] != nil {
			t.Errorf("message %d: %v", i, m.ResponseMetadata)
		}
	}
}

// TestInvalidCallWithoutID: an invalid call without an id gets one, and an answer.
func TestInvalidCallWithoutID(t *testing.T) {
	m := &strict{Model: model.NewScripted(model.Answer{Message: message.Message{InvalidToolCalls: []message.InvalidToolCall{{Name: "echo", Args: "nope"}}}}, model.Text("done"), model.Text("done"))}
	g := must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Graph: graph.Options{Saver: newStore()}}))
	must(0, invoke(g, agent.Say("hi")))
	must(0, invoke(g, agent.Say("more")))
	if got := stored(g); len(got) < 5 || !strings.HasPrefix(got[2], "tool call-") || m.refusals != nil {
		t.Errorf("%q, refused %v", got, m.refusals)
	}
}

// TestLimitOfAnsweredCall: a structured answer that is over the limit of calls has one answer, and the
// agent ends with it.
func TestLimitOfAnsweredCall(t *testing.T) {
	m := &strict{Model: model.NewScripted(model.Calls(echo("0", "x"), echo("1", "x")), model.Calls(message.ToolCall{Name: "City", ID: "2", Args: map[string]any{"name": "Oslo"}}), model.Text("done"))}
	g := must(agent.New(m, agent.Options{
		Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{agent.LimitToolCalls("", agent.Limit{Run: 1})}, Graph: graph.Options{Saver: newStore()},
		Response: &agent.Response{Answer: "got it", Forms: []agent.Form{{Name: "City", Schema: named{}}}},
	}))
	must(0, invoke(g, agent.Say("hi")))
	if got := stored(g); got[len(got)-1] != "tool 2: got it" || got[len(got)-2] != "ai +2" {
		t.Errorf("%q", got)
	}
}
