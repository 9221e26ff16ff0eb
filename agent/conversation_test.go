package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
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
			func(g *pregel.Graph) error { return invoke(g, more) },
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
		notes, _ := list[len(list)-1].ResponseMetadata["stele_repaired"].(string)
		if len(strings.FieldsFunc(notes, func(r rune) bool { return r == ';' })) != c.notes || m.refusals != nil {
			t.Errorf("%s: notes %q, refused %v", name, notes, m.refusals)
		}
		before := len(head(g))
		if err := invoke(g, agent.Say("last")); err != nil || len(stored(g)) != before+2 || m.refusals != nil {
			t.Errorf("%s: then %q, %v", name, stored(g), err)
		}
	}
}

// TestRepairBehindAFailingModel: what is repaired is stored with the answer. A model that fails leaves the thread as it was, and the next
// run repairs it.
func TestRepairBehindAFailingModel(t *testing.T) {
	m := &strict{Model: model.NewScripted(model.Calls(message.ToolCall{Name: "fail", ID: "1", Args: map[string]any{"text": "no"}}), model.Fail(errors.New("away")), model.Text("done"))}
	g := must(agent.New(m, agent.Options{Tools: tools([]string{"fail"}), Graph: graph.Options{Saver: memory.New(memory.Options{})}}))
	if invoke(g, agent.Say("hi")) == nil || invoke(g, agent.Say("more")) == nil {
		t.Fatal("neither the tool nor the model failed")
	}
	if got, want := stored(g), []string{"human hi", "ai +1", "human more"}; !slices.Equal(got, want) || message.Validate(head(g), message.Rules{}) == nil {
		t.Errorf("the model failed: %q", got)
	}
	must(0, invoke(g, agent.Say("last"), pregel.RunOptions{Unfinished: pregel.DiscardUnfinished}))
	want := []string{"human hi", "ai +1", noResult("fail", "1"), "human more", "human last", "ai done"}
	if got := stored(g); !slices.Equal(got, want) || m.refusals != nil {
		t.Errorf("%q, refused %v", got, m.refusals)
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

// chunked is a model that says the arguments of its calls as texts, as providers do.
type chunked struct {
	model.Model
	first bool
}

func (c *chunked) Stream(ctx context.Context, r model.Request) iter.Seq2[message.Chunk, error] {
	if !c.first {
		return c.Model.Stream(ctx, r)
	}
	c.first = false
	return func(yield func(message.Chunk, error) bool) {
		one := 0
		yield(message.Chunk{Message: message.AI(""), Last: true, ToolCallChunks: []message.ToolCallChunk{{Name: "echo", ID: "1", Args: `{"text": "x", "size": NaN}`, Index: &one}}}, nil)
	}
}

// TestArgumentsNoJSON: a call with a number that JSON does not have is answered as one that cannot be read, gates or
// not, and the thread goes on. So does one that has stored such a call.
func TestArgumentsNoJSON(t *testing.T) {
	for _, middleware := range [][]agent.Middleware{nil, {agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"echo": {}}})}, {agent.LimitToolCalls("", agent.Limit{Run: 1})}} {
		m := &strict{Model: &chunked{model.NewScripted(model.Text("done"), model.Text("done")), true}}
		g := must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Middleware: middleware, Graph: graph.Options{Saver: newStore()}}))
		bad := "tool 1: Tool call echo with id 1 could not be executed - arguments were malformed or truncated."
		must(0, invoke(g, agent.Say("hi")))
		if got, want := stored(g), []string{"human hi", "ai ", bad, "ai done"}; !slices.Equal(got, want) || m.refusals != nil {
			t.Errorf("%q, refused %v", got, m.refusals)
		}
		call := echo("7", "x")
		call.Args["size"] = math.Inf(1)
		must(g.UpdateState(ctx, pregel.Thread("1"), pregel.StateUpdate{Values: map[string]any{"messages": []message.Message{message.AI("", call), message.ToolResult(call, "y")}}, AsNode: agent.NodeTools}))
		must(0, invoke(g, nil))
		list := head(g)
		if err := message.Validate(list, message.Rules{}); err != nil || list[len(list)-1].Text() != "done" || list[len(list)-2].Text() != "y" {
			t.Errorf("%v: %v", err, list)
		}
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

// TestSummaryKeepsLateAnswer: an answer that stands behind other messages is kept, or summarized, with
// its call.
func TestSummaryKeepsLateAnswer(t *testing.T) {
	short := agent.Summarize(agent.Summary{Model: model.NewScripted(model.Text("so far")), Triggers: []agent.Trigger{{Messages: 6}}, Keep: agent.Trigger{Messages: 3}})
	m := &strict{Model: model.NewScripted(model.Text("done"))}
	g := must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{short}, Graph: graph.Options{Saver: newStore()}}))
	must(0, invoke(g, map[string]any{"messages": []message.Message{
		message.Human("hi"), message.Human("again"), message.AI("", echo("1", "x")), message.Human("one"), message.ToolResult(echo("1", "x"), "x"), message.Human("two"),
	}}))
	if got := stored(g)[1:]; !slices.Equal(got, []string{"ai +1", "tool 1: x", "human one", "human two", "ai done"}) || m.refusals != nil {
		t.Errorf("%q, refused %v", got, m.refusals)
	}
}

// randomTools are tools that answer, fail, ask a person, stop the run, and say more than their answer.
func randomTools() []tool.Tool {
	stop := must(tool.New("stop", "", object, func(ctx context.Context, _ struct{}) (string, error) {
		if end, ok := ctx.Value(stopKey{}).(context.CancelFunc); ok {
			end()
			<-ctx.Done()
		}
		return "", ctx.Err()
	}))
	talk := must(tool.New("talk", "", object, func(ctx context.Context, _ struct{}) (any, error) {
		call, _ := tool.CallOf(ctx)
		return pregel.Command{Update: map[string]any{"messages": []message.Message{message.ToolResult(call.ToolCall, "x"), message.Human("by the way")}}}, nil
	}))
	return append(tools([]string{"echo", "fail", "ask"}), stop, talk)
}

// TestAnyConversation: whatever people, tools, middleware and edits do to a thread, no model is asked
// with a conversation that providers refuse, and what is stored with its answer is legal.
func TestAnyConversation(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("STELE_SEED"); text != "" {
		seed = must(strconv.ParseUint(text, 10, 64))
	}
	t.Logf("repeat with STELE_SEED=%d", seed)
	asked, repaired, failed := 0, 0, 0
	for n := range uint64(25) {
		a, r, f := anyConversation(t, rand.New(rand.NewPCG(seed, n)))
		asked, repaired, failed = asked+a, repaired+r, failed+f
	}
	t.Logf("models were asked %d times; %d threads were stored repaired; %d runs failed", asked, repaired, failed)
	if asked < 100 || repaired < 20 {
		t.Errorf("too little happened: %d questions, %d repairs", asked, repaired)
	}
}

// anyConversation is one thread of a random agent. Only nodes that run alone use rng.
func anyConversation(t *testing.T, rng *rand.Rand) (asked, repaired, failed int) {
	one := func(n int) bool { return rng.IntN(n) == 0 }
	ids, answered := 0, false // answered: the model's node has just run, and is no edit
	newCall := func() message.ToolCall {
		ids++
		c := message.ToolCall{Name: []string{"echo", "echo", "talk", "ask", "fail", "stop", "nope"}[rng.IntN(7)], ID: fmt.Sprint("c", ids), Args: map[string]any{"text": "x"}}
		if one(6) {
			c.ID = []string{"", "c1", "again"}[rng.IntN(3)]
		}
		return c
	}
	m := &strict{Model: model.NewScriptedFunc(func(_ context.Context, r model.Request) (model.Answer, error) {
		asked++
		answered = true
		if one(8) {
			return model.Fail(&Boom{"model"}), nil
		}
		if len(r.Tools) == 0 || one(3) {
			return model.Text("well"), nil
		}
		answer := message.AI("")
		for range 1 + rng.IntN(3) {
			answer.ToolCalls = append(answer.ToolCalls, newCall())
		}
		if one(5) {
			answer.InvalidToolCalls = []message.InvalidToolCall{{Name: "echo", Args: "nope", ID: newCall().ID}}
		}
		return model.Answer{Message: answer}, nil
	})}
	var middleware []agent.Middleware
	add := func(some bool, m agent.Middleware) {
		if some {
			middleware = append(middleware, m)
		}
	}
	add(one(2), agent.AskPerson(agent.Review{PerCall: one(2), Tools: map[string]agent.Gate{"echo": {}, "talk": {}}}))
	add(one(2), agent.LimitToolCalls("echo", agent.Limit{Run: 1 + rng.IntN(2), Exceeded: []agent.Exceeded{agent.Continue, agent.End}[rng.IntN(2)]}))
	add(one(3), agent.Summarize(agent.Summary{Model: model.NewScriptedFunc(func(context.Context, model.Request) (model.Answer, error) { return model.Text("so far"), nil }), Triggers: []agent.Trigger{{Messages: 8}}, Keep: agent.Trigger{Messages: 1 + rng.IntN(5)}}))
	add(one(3), agent.Middleware{Name: "trim", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		r.Messages = r.Messages[rng.IntN(len(r.Messages)+1):]
		return next(ctx, r)
	}})
	add(one(3), agent.Middleware{Name: "jump", Jumps: []agent.Jump{agent.JumpModel, agent.JumpEnd, agent.JumpTools}, AfterModel: func(context.Context, map[string]any) (any, error) {
		update := pregel.Pairs{}
		if one(3) {
			update = append(update, pregel.Pair{Key: "messages", Value: message.Human("hm")})
		}
		if one(3) {
			update = append(update, pregel.Pair{Key: "jump_to", Value: []any{agent.JumpModel, agent.JumpEnd, agent.JumpTools}[rng.IntN(3)]})
		}
		return update, nil
	}})
	add(one(3), agent.LimitModelCalls(agent.Limit{Run: 3}))
	rng.Shuffle(len(middleware), func(i, j int) { middleware[i], middleware[j] = middleware[j], middleware[i] })
	// The last one's hook runs right behind the model.
	add(true, agent.Middleware{Name: "check", AfterModel: func(_ context.Context, state map[string]any) (any, error) {
		list := must(agent.Messages(state))
		if !answered {
			return nil, nil
		}
		if err := message.Validate(list, message.Rules{Open: true}); err != nil {
			t.Errorf("stored with an answer: %v: %v", err, list)
		}
		if list[len(list)-1].ResponseMetadata["stele_repaired"] != nil {
			repaired++
		}
		return nil, nil
	}})
	g := must(agent.New(m, agent.Options{Tools: randomTools(), Middleware: middleware, Graph: graph.Options{Saver: memory.New(memory.Options{})}}))

	decide := func() agent.Decision {
		return []agent.Decision{{Type: agent.Approve}, {Type: agent.Reject}, {Type: agent.Respond, Message: "so"}}[rng.IntN(3)]
	}
	// answers decides all questions, or some.
	answers := func(questions []pregel.Interrupt) pregel.Command {
		resume := map[string]any{}
		for i, q := range questions {
			if i > 0 && one(3) {
				continue
			}
			switch request, err := channel.Convert[agent.ReviewRequest](q.Value); {
			case err == nil && len(request.Actions) > 0:
				answer := agent.ReviewAnswer{}
				for range request.Actions {
					answer.Decisions = append(answer.Decisions, decide())
				}
				resume[q.ID] = answer
			case err == nil:
				resume[q.ID] = decide()
			default:
				resume[q.ID] = "yes"
			}
		}
		return pregel.Command{Resume: resume}
	}
	at, say := pregel.Thread("1"), map[string]any{"messages": message.Human("hi")}
	for range 15 {
		answered = false
		run, stop := context.WithCancel(ctx)
		run = context.WithValue(run, stopKey{}, stop)
		state := must(g.GetState(ctx, at))
		var input any = say
		from, o := at, pregel.RunOptions{RecursionLimit: 40}
		list := must(agent.Messages(state.Map()))
		switch {
		case len(state.Interrupts) > 0 && !one(4):
			c := answers(state.Interrupts)
			if one(4) {
				c.Update = say
			}
			input = c
		case len(list) > 0 && one(3): // an edit
			var edits []message.Message
			switch m := list[rng.IntN(len(list))]; rng.IntN(4) {
			case 0:
				edits = append(edits, message.Remove(m.ID))
			case 1:
				edits = append(edits, message.ToolResult(newCall(), "by hand"))
			case 2:
				m.ID = ""
				edits = append(edits, m)
			case 3:
				m.ToolCalls, m.ToolCallID = nil, ""
				edits = append(edits, m)
			}
			if _, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: map[string]any{"messages": edits}, AsNode: []string{"", agent.NodeModel, agent.NodeTools}[rng.IntN(3)]}); err != nil {
				failed++
			}
			if one(2) {
				input = nil
			}
		case one(4): // a fork
			var history []pregel.Address
			for s, err := range g.GetStateHistory(ctx, at, pregel.HistoryQuery{}) {
				must(0, err)
				history = append(history, s.Address)
			}
			if len(history) > 0 {
				from = history[rng.IntN(len(history))]
				if one(2) {
					input = nil
				}
			}
		}
		if one(2) {
			o.Unfinished = pregel.DiscardUnfinished
		}
		if _, err := g.Invoke(run, from, input, o); err != nil {
			if boom := (*Boom)(nil); !errors.As(err, &boom) && !errors.Is(err, context.Canceled) && !errors.Is(err, tool.ErrNoMessage) { // an edit may leave nothing to run
				t.Errorf("%T: %v", err, err)
			}
			failed++
		}
		stop()
		if m.refusals != nil {
			t.Fatalf("a model was asked what providers refuse: %v", m.refusals[0])
		}
	}
	return asked, repaired, failed
}

// TestPartIsNotStored: a part of the conversation that something sends to the model, and that has to be
// repaired, does not take the place of the thread.
func TestPartIsNotStored(t *testing.T) {
	whole := []message.Message{message.Human("one"), message.AI("first"), message.Human("two"), message.AI("", echo("1", "x")), message.ToolResult(echo("1", "x"), "x"), message.Human("three")}
	for i := range whole {
		whole[i].ID = fmt.Sprint("m", i)
	}
	m := &strict{Model: model.NewScripted(model.Text("done"), model.Text("more"))}
	g := must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Graph: graph.Options{Saver: newStore()}}))
	must(0, invoke(g, map[string]any{"messages": whole}))
	before := stored(g)
	part := map[string]any{"messages": whole[4:]} // its answer has lost its call
	must(0, invoke(g, pregel.Command{Goto: pregel.Send{Node: agent.NodeModel, Arg: part}}))
	if got := stored(g); !slices.Equal(got, append(before, "ai more")) || m.refusals != nil {
		t.Errorf("%q, refused %v", got, m.refusals)
	}
}
