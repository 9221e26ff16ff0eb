package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
)

// asks are the calls of the model in these tests: two of the tool that gates are for, and one of another.
func asks() []message.ToolCall {
	return []message.ToolCall{wipe("1", "a"), wipe("2", "b"), echo("3", "c")}
}

func wipe(id, text string) message.ToolCall {
	return message.ToolCall{Name: "wipe", ID: id, Args: map[string]any{"text": text}}
}

// wiped is what the tool wiped, by the id of the call.
type wiped struct {
	mu  sync.Mutex
	ran map[string]string
	all int
}

func (w *wiped) tool() tool.Tool {
	return tool.Must(tool.New("wipe", "", worded{}, func(ctx context.Context, in text) (string, error) {
		call, _ := tool.CallOf(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ran[call.ID] = in.Text
		w.all++
		return "wiped " + in.Text, nil
	}))
}

// way is how calls come to the tools.
type way struct {
	name   string
	router func() agent.Middleware
	// given says that the input has the calls; no model made them.
	given bool
	// first is done to the thread when it first stops; what it returns is the input of the next run.
	first func(g *pregel.Graph, at pregel.Address) (any, error)
	// never says that no call runs with this way.
	never bool
}

// once is a hook that does something on its first call in a run.
func once(out func(state map[string]any) any) agent.Hook {
	done := false
	return func(_ context.Context, state map[string]any) (any, error) {
		if done {
			return nil, nil
		}
		done = true
		return out(state), nil
	}
}

func ways() []way {
	jump := func(j agent.Jump) func(map[string]any) any {
		return func(map[string]any) any { return map[string]any{agent.KeyJump: string(j)} }
	}
	all := []agent.Jump{agent.JumpModel, agent.JumpTools, agent.JumpEnd}
	router := func(m func() agent.Middleware) func() agent.Middleware {
		return func() agent.Middleware {
			r := m()
			r.Name, r.Jumps = "router", all
			return r
		}
	}
	last := func(state map[string]any) message.Message {
		list := must(agent.Messages(state))
		at := len(list) - 1
		for list[at].Type != message.TypeAI {
			at--
		}
		return list[at]
	}
	sends := func(calls []message.ToolCall) pregel.Command {
		return pregel.Command{Goto: tool.Send(agent.NodeTools, calls)}
	}
	rewrite := func(state map[string]any, c message.ToolCall) any {
		m := last(state)
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i := range m.ToolCalls {
			if m.ToolCalls[i].ID == c.ID {
				m.ToolCalls[i] = c
			}
		}
		return map[string]any{agent.KeyMessages: m}
	}
	return []way{
		{name: "none", router: router(func() agent.Middleware { return agent.Middleware{} })},
		{name: "after model to tools", router: router(func() agent.Middleware { return agent.Middleware{AfterModel: once(jump(agent.JumpTools))} })},
		{name: "after model to model", router: router(func() agent.Middleware { return agent.Middleware{AfterModel: once(jump(agent.JumpModel))} }), never: true},
		{name: "after model to end", router: router(func() agent.Middleware { return agent.Middleware{AfterModel: once(jump(agent.JumpEnd))} }), never: true},
		{name: "before model to tools", given: true, router: router(func() agent.Middleware { return agent.Middleware{BeforeModel: once(jump(agent.JumpTools))} })},
		{name: "before agent to tools", given: true, router: router(func() agent.Middleware { return agent.Middleware{BeforeAgent: once(jump(agent.JumpTools))} })},
		{name: "after agent to tools", router: router(func() agent.Middleware {
			return agent.Middleware{AfterModel: once(jump(agent.JumpEnd)), AfterAgent: once(jump(agent.JumpTools))}
		})},
		{name: "a hook rewrites", router: router(func() agent.Middleware {
			return agent.Middleware{AfterModel: once(func(state map[string]any) any { return rewrite(state, wipe("1", "other")) })}
		})},
		{name: "a hook renames", router: router(func() agent.Middleware {
			return agent.Middleware{AfterModel: once(func(state map[string]any) any { return rewrite(state, wipe("3", "c")) })}
		})},
		{name: "a hook adds a message", router: router(func() agent.Middleware {
			return agent.Middleware{AfterModel: once(func(map[string]any) any {
				return map[string]any{agent.KeyMessages: message.AI("", wipe("8", "h"), wipe("9", "i"))}
			})}
		})},
		{name: "a middleware renames", router: router(func() agent.Middleware {
			return agent.Middleware{WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
				r.Name = "wipe"
				return next(ctx, r)
			}}
		})},
		{name: "a middleware tries twice", router: router(func() agent.Middleware {
			return agent.Middleware{WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
				if out, err := next(ctx, r); err != nil {
					return out, err
				}
				return next(ctx, r)
			}}
		})},
		{name: "a tool goes to the tools", router: router(func() agent.Middleware {
			return agent.Middleware{WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
				out, err := next(ctx, r)
				if m, ok := out.(message.Message); ok && r.Name == "echo" {
					return pregel.Command{Update: map[string]any{agent.KeyMessages: m}, Goto: agent.NodeTools}, err
				}
				return out, err
			}}
		})},
		{name: "a client goes to the tools", first: func(*pregel.Graph, pregel.Address) (any, error) { return pregel.Command{Goto: agent.NodeTools}, nil }},
		{name: "a client sends", first: func(*pregel.Graph, pregel.Address) (any, error) { return sends(asks()), nil }},
		{name: "a client sends another", first: func(*pregel.Graph, pregel.Address) (any, error) {
			return sends([]message.ToolCall{wipe("1", "other")}), nil
		}},
		{name: "a client writes as the gate", first: func(g *pregel.Graph, at pregel.Address) (any, error) {
			_, err := g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: "last.after_model", Values: map[string]any{}})
			return nil, err
		}},
		{name: "a client writes other calls", first: func(g *pregel.Graph, at pregel.Address) (any, error) {
			state := must(g.GetState(ctx, at)).Values.(map[string]any)
			_, err := g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: "last.after_model", Values: rewrite(state, wipe("1", "other"))})
			return nil, err
		}},
	}
}

// person answers questions by the name of the tool, and knows what it has allowed.
type person struct {
	decide  map[string]func(args map[string]any) agent.Decision
	allowed []string // the texts that may be wiped
	asked   int
}

func (p *person) one(name string, args map[string]any) agent.Decision {
	p.asked++
	d := p.decide[name](args)
	switch {
	case d.Type == agent.Approve && name == "wipe":
		p.allowed = append(p.allowed, args["text"].(string))
	case d.Type == agent.Edit && d.Edited.Name == "wipe":
		p.allowed = append(p.allowed, d.Edited.Args["text"].(string))
	}
	return d
}

func (p *person) answer(questions []pregel.Interrupt) pregel.Command {
	answers := map[string]any{}
	for _, q := range questions {
		if a, err := channel.Convert[agent.Approval](q.Value); err == nil && a.Type == "tool_approval" {
			answers[q.ID] = p.one(a.Name, a.Args)
			continue
		}
		r := agent.ReviewAnswer{}
		for _, a := range must(channel.Convert[agent.ReviewRequest](q.Value)).Actions {
			r.Decisions = append(r.Decisions, p.one(a.Name, a.Args))
		}
		answers[q.ID] = r
	}
	return pregel.Command{Resume: answers}
}

// decisions are those of a person about the calls of each tool. Where no gate asks, nobody decides, and there is
// one row.
func decisions(asks bool) map[string]map[string]func(args map[string]any) agent.Decision {
	say := func(t agent.DecisionType) func(map[string]any) agent.Decision {
		return func(map[string]any) agent.Decision { return agent.Decision{Type: t, Message: "so"} }
	}
	other := func(name string) func(args map[string]any) agent.Decision {
		return func(args map[string]any) agent.Decision {
			return edit(name, map[string]any{"text": args["text"].(string) + "!"})
		}
	}
	if !asks {
		return map[string]map[string]func(args map[string]any) agent.Decision{"nobody": {"wipe": say(agent.Approve)}}
	}
	return map[string]map[string]func(args map[string]any) agent.Decision{
		"approve":  {"wipe": say(agent.Approve), "echo": say(agent.Approve)},
		"reject":   {"wipe": say(agent.Reject), "echo": say(agent.Approve)},
		"respond":  {"wipe": say(agent.Respond), "echo": say(agent.Reject)},
		"edit":     {"wipe": other("wipe"), "echo": other("echo")},
		"exchange": {"wipe": other("echo"), "echo": other("wipe")},
	}
}

// gates are sets of middleware that keep wipe from running, or some calls of it.
func gates() map[string]func() []agent.Middleware {
	both := map[string]agent.Gate{"wipe": {}, "echo": {}}
	review := func(each bool) agent.Middleware {
		return agent.AskPerson(agent.Review{PerCall: each, Tools: both})
	}
	limit := func(e agent.Exceeded) agent.Middleware {
		return agent.LimitToolCalls("wipe", agent.Limit{Thread: 1, Exceeded: e})
	}
	list := func(make ...func() agent.Middleware) func() []agent.Middleware {
		return func() (out []agent.Middleware) {
			for _, m := range make {
				out = append(out, m())
			}
			return out
		}
	}
	person, each := func() agent.Middleware { return review(false) }, func() agent.Middleware { return review(true) }
	limited := func(e agent.Exceeded) func() agent.Middleware { return func() agent.Middleware { return limit(e) } }
	return map[string]func() []agent.Middleware{
		"person": list(person), "each": list(each),
		"limit": list(limited(agent.Continue)), "limit end": list(limited(agent.End)), "limit stop": list(limited(agent.Stop)),
		"run limit":    list(func() agent.Middleware { return agent.LimitToolCalls("wipe", agent.Limit{Run: 1}) }),
		"person+limit": list(person, limited(agent.Continue)), "each+limit": list(each, limited(agent.Continue)),
		"policy around": list(func() agent.Middleware {
			return agent.Middleware{Name: "policy", WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
				if r.Name == "wipe" {
					return "no", nil
				}
				return next(ctx, r)
			}}
		}),
		"policy behind the model": list(func() agent.Middleware {
			return agent.Middleware{Name: "policy", AfterModel: func(_ context.Context, state map[string]any) (any, error) {
				var no []message.Message
				list := must(agent.Messages(state))
				for _, c := range list[slices.IndexFunc(list, func(m message.Message) bool { return m.Type == message.TypeAI })].ToolCalls {
					if answered := slices.ContainsFunc(list, func(m message.Message) bool { return m.ToolCallID == c.ID }); c.Name == "wipe" && !answered {
						no = append(no, message.ToolResult(c, "no"))
					}
				}
				return map[string]any{agent.KeyMessages: no}, nil
			}}
		}),
	}
}

// orders are all orders of a list.
func orders[T any](list []T) (out [][]T) {
	if len(list) <= 1 {
		return [][]T{list}
	}
	for i := range list {
		for _, rest := range orders(slices.Delete(slices.Clone(list), i, i+1)) {
			out = append(out, append([]T{list[i]}, rest...))
		}
	}
	return out
}

// TestGatesHold: whatever leads to the tools, in whatever order middleware are listed and however a
// person decides, no call runs that a gate keeps, each call is answered once, and no hook is skipped.
func TestGatesHold(t *testing.T) {
	runs, wipes := 0, 0
	for gateName, set := range gates() {
		for name, decide := range decisions(strings.Contains(gateName, "person") || strings.Contains(gateName, "each")) {
			for _, w := range ways() {
				n := len(set()) + 1
				if w.router == nil {
					n--
				}
				places := make([]int, n)
				for i := range places {
					places[i] = i
				}
				for _, order := range orders(places) {
					list := set()
					if w.router != nil {
						list = append(list, w.router())
					}
					var middleware []agent.Middleware
					var names []string
					for _, i := range order {
						middleware, names = append(middleware, list[i]), append(names, list[i].Name)
					}
					label := fmt.Sprintf("%s, %s, %s, %v", gateName, w.name, name, names)
					runs++
					wipes += holds(t, label, gateName, w, &person{decide: decide}, middleware)
				}
			}
		}
	}
	if runs < 500 || wipes < runs/3 {
		t.Errorf("%d runs wiped %d times: the test tests little", runs, wipes)
	}
	t.Logf("%d runs, %d calls of the tool", runs, wipes)
}

// holds plays one run, and returns how many calls of the tool ran.
func holds(t *testing.T, label, gate string, w way, p *person, middleware []agent.Middleware) int {
	t.Helper()
	var seen []string // the messages that the hook behind the model saw, whose calls may run
	look := agent.Middleware{Name: "last", AfterModel: func(_ context.Context, state map[string]any) (any, error) {
		seen = append(seen, must(agent.Messages(state))[0].ID)
		return nil, nil
	}}
	m := model.NewScriptedFunc(func(_ context.Context, r model.Request) (model.Answer, error) {
		if slices.ContainsFunc(r.Messages, func(m message.Message) bool { return m.Type == message.TypeAI }) {
			return model.Text("done"), nil
		}
		return model.Calls(asks()...), nil
	})
	tool := &wiped{ran: map[string]string{}}
	g := must(agent.New(m, agent.Options{
		Tools: append(tools([]string{"echo"}), tool.tool()), Graph: graph.Options{Saver: newStore()},
		Middleware: slices.Concat([]agent.Middleware{look, agent.LimitModelCalls(agent.Limit{Thread: 50})}, middleware),
	}))
	at, bounded := pregel.Thread("1"), pregel.RunOptions{RecursionLimit: 60}
	input := any(agent.Say("hi"))
	if w.given {
		input = map[string]any{agent.KeyMessages: []message.Message{message.Human("hi"), message.AI("", asks()...)}}
	}
	res, err := g.Invoke(ctx, at, input, bounded)
	stopped := w.first == nil
	for n := 0; err == nil && len(res.Interrupts) > 0; n++ {
		if n == 12 {
			t.Errorf("%s: asks for ever: %+v", label, res.Interrupts)
			return 0
		}
		if next := any(nil); !stopped {
			stopped = true
			if next, err = w.first(g, at); err == nil {
				res, err = g.Invoke(ctx, at, next, bounded)
			}
			continue
		}
		res, err = g.Invoke(ctx, at, p.answer(res.Interrupts), bounded)
	}
	var limit *agent.LimitError
	switch {
	case errors.As(err, &limit) && gate == "limit stop":
	case errors.Is(err, agent.ErrDecision) && strings.Contains(gate, "each"): // the edit of one call does not make it one of another tool
		if p.decide["wipe"](map[string]any{"text": ""}).Edited.Name == "wipe" || len(tool.ran) > 0 {
			t.Errorf("%s: %v, and wiped %v", label, err, tool.ran)
		}
		return 0
	case err != nil:
		t.Errorf("%s: %v", label, err)
		return 0
	}
	state := must(g.GetState(ctx, at)).Values.(map[string]any)
	for id, text := range tool.ran {
		if strings.Contains(gate, "person") || strings.Contains(gate, "each") {
			if !slices.Contains(p.allowed, text) {
				t.Errorf("%s: wiped %q by call %s; the person allowed %q", label, text, id, p.allowed)
			}
		}
	}
	// A policy around the tools does not see the name that a middleware behind it gives.
	if strings.Contains(gate, "limit") && len(tool.ran) > 1 || strings.Contains(gate, "policy around") && len(tool.ran) > 0 && w.name != "a middleware renames" {
		t.Errorf("%s: wiped %v", label, tool.ran)
	}
	if strings.Contains(gate, "policy behind") && slices.ContainsFunc([]string{"1", "2"}, func(id string) bool { return tool.ran[id] != "" }) {
		t.Errorf("%s: wiped %v", label, tool.ran)
	}
	// A node that runs several calls runs them all again when a question of one is answered.
	again := w.name == "a middleware tries twice" || w.name == "a client goes to the tools" && strings.Contains(gate, "person")
	if !again && tool.all != len(tool.ran) {
		t.Errorf("%s: %d calls ran %d times", label, len(tool.ran), tool.all)
	}
	// A limit counts a call when the model has made it. A person, a jump or another message may then keep it from running.
	if counted, ok := state["thread_tool_call_count"].(map[string]any); ok && plain(counted["wipe"]) != float64(len(tool.ran)) && !strings.Contains(gate, "+") && !w.never && w.name != "a hook adds a message" {
		t.Errorf("%s: counted %v, and %d ran", label, counted, len(tool.ran))
	}
	// A run that a limit stops, and a write of a client in the place of a hook, skip hooks that count and see.
	if n := len(m.Requests()); err == nil && !strings.HasPrefix(w.name, "a client writes") && (plain(state["thread_model_call_count"]) != float64(n) && !(n == 0 && state["thread_model_call_count"] == nil) || len(seen) < n) {
		t.Errorf("%s: the model was asked %d times, counted as %v, and seen %d times", label, n, state["thread_model_call_count"], len(seen))
	}
	answers := map[string]int{}
	for _, m := range must(agent.Messages(state)) {
		if m.Type == message.TypeTool {
			if answers[m.ToolCallID]++; answers[m.ToolCallID] > 1 {
				t.Errorf("%s: call %s is answered again: %q", label, m.ToolCallID, m.Text())
			}
		}
	}
	if approves := p.decide["wipe"](map[string]any{"text": ""}).Type == agent.Approve; approves && err == nil && !w.never && len(tool.ran) == 0 && !strings.Contains(gate, "policy") && gate != "limit end" && !(w.name == "a hook adds a message" && strings.Contains(gate, "limit")) {
		t.Errorf("%s: nothing ran", label)
	}
	return len(tool.ran)
}

// TestModelLimitHolds: a limit of the model's calls holds whatever leads back to the model, and
// whichever middleware is first.
func TestModelLimitHolds(t *testing.T) {
	back := func(context.Context, map[string]any) (any, error) {
		return map[string]any{agent.KeyJump: string(agent.JumpModel)}, nil
	}
	again := must(tool.New("again", "", object, func(ctx context.Context, _ struct{}) (any, error) {
		call, _ := tool.CallOf(ctx)
		return pregel.Command{Goto: agent.NodeModel, Update: map[string]any{agent.KeyMessages: message.ToolResult(call.ToolCall, "again")}}, nil
	}))
	for name, router := range map[string]agent.Middleware{
		"behind the model": {AfterModel: back}, "behind the agent": {AfterAgent: back}, "before the agent": {BeforeAgent: back}, "a tool": {Tools: []tool.Tool{again}},
	} {
		for _, e := range []agent.Exceeded{agent.End, agent.Stop} {
			for _, order := range orders([]int{0, 1}) {
				n := 0
				m := model.NewScriptedFunc(func(context.Context, model.Request) (model.Answer, error) {
					if n++; router.Tools != nil {
						return model.Calls(message.ToolCall{Name: "again", ID: fmt.Sprint(n)}), nil
					}
					return model.Text("bad"), nil
				})
				router.Name, router.Jumps = "router", []agent.Jump{agent.JumpModel}
				list := []agent.Middleware{agent.LimitModelCalls(agent.Limit{Run: 3, Exceeded: e}), router}
				g := must(agent.New(m, agent.Options{Middleware: []agent.Middleware{list[order[0]], list[order[1]]}, Graph: graph.Options{Saver: newStore()}}))
				_, err := g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi"), pregel.RunOptions{RecursionLimit: 60})
				want := 3
				if router.BeforeAgent != nil {
					want = 1
				}
				var limit *agent.LimitError
				var endless *pregel.RecursionError // the hook leads back, though the agent has ended
				if n != want || err != nil && !(errors.As(err, &limit) && e == agent.Stop) && !(errors.As(err, &endless) && router.AfterAgent != nil) {
					t.Errorf("%s, %s, %v: asked %d times, want %d: %v", name, e, order, n, want, err)
				}
			}
		}
	}
}

// TestSentCalls: a call that no AI message has fails the run, whatever the agent says of errors of
// tools; so does one that a limit stops when it starts.
func TestSentCalls(t *testing.T) {
	ran := &wiped{ran: map[string]string{}}
	stop := agent.LimitToolCalls("wipe", agent.Limit{Thread: 1, Exceeded: agent.Stop})
	renames := agent.Middleware{Name: "renames", WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
		r.Name = "wipe"
		return next(ctx, r)
	}}
	agentOf := func(answers ...model.Answer) *pregel.Graph {
		return must(agent.New(model.NewScripted(answers...), agent.Options{
			Tools: append(tools([]string{"echo"}), ran.tool()), Errors: tool.AnswerErrors, Graph: graph.Options{Saver: newStore()},
			Middleware: []agent.Middleware{agent.RetryTools(agent.Retry{Delay: -1}), stop, renames},
		}))
	}
	g, at := agentOf(model.Text("hello")), pregel.Thread("1")
	must(g.Invoke(ctx, at, agent.Say("hi")))
	if _, err := g.Invoke(ctx, at, pregel.Command{Goto: tool.Send(agent.NodeTools, []message.ToolCall{wipe("7", "x")})}); !errors.Is(err, agent.ErrNoCall) || ran.all != 0 {
		t.Errorf("sent: ran %d times, %v", ran.all, err)
	}
	var limit *agent.LimitError
	if _, err := agentOf(model.Calls(echo("1", "a")), model.Calls(echo("2", "b"))).Invoke(ctx, at, agent.Say("hi")); !errors.As(err, &limit) || limit.Tool != "wipe" || limit.Thread != 2 {
		t.Errorf("limit: %v", err)
	}
	if ran.all != 1 {
		t.Errorf("ran %v", ran.ran)
	}
}

// secondPerson is AskPerson under another name.
func secondPerson(r agent.Review) agent.Middleware {
	m := agent.AskPerson(r)
	m.Name = "second"
	return m
}

// TestTwoPeople: each AskPerson asks its own person, whatever another decided or let pass, and about the
// call as it stands.
func TestTwoPeople(t *testing.T) {
	never := func(context.Context, message.ToolCall, map[string]any) (bool, error) { return false, nil }
	approve := agent.Decision{Type: agent.Approve}
	for name, c := range map[string]struct {
		first, second agent.Gate
		each          bool
		answers       []agent.Decision
		asked         []string // the texts that people were asked about
		ran           string
	}{
		"both approve":            {answers: []agent.Decision{approve, approve}, asked: []string{"a", "a"}, ran: "a"},
		"one rejects":             {answers: []agent.Decision{approve, {Type: agent.Reject}}, asked: []string{"a", "a"}},
		"the first asks never":    {first: agent.Gate{When: never}, answers: []agent.Decision{approve}, asked: []string{"a"}, ran: "a"},
		"the second asks never":   {second: agent.Gate{When: never}, answers: []agent.Decision{approve}, asked: []string{"a"}, ran: "a"},
		"one edits":               {answers: []agent.Decision{edit("wipe", map[string]any{"text": "b"}), approve}, asked: []string{"a", "b"}, ran: "b"},
		"an edit is rejected":     {answers: []agent.Decision{edit("wipe", map[string]any{"text": "b"}), {Type: agent.Reject}}, asked: []string{"a", "b"}},
		"the other edits":         {answers: []agent.Decision{approve, edit("wipe", map[string]any{"text": "b"}), approve}, asked: []string{"a", "a", "b"}, ran: "b"},
		"each, both approve":      {each: true, answers: []agent.Decision{approve, approve}, asked: []string{"a", "a"}, ran: "a"},
		"each, one rejects":       {each: true, answers: []agent.Decision{approve, {Type: agent.Reject}}, asked: []string{"a", "a"}},
		"each, one edits":         {each: true, answers: []agent.Decision{edit("wipe", map[string]any{"text": "b"}), approve}, asked: []string{"a", "b"}, ran: "b"},
		"each, first asks never":  {each: true, first: agent.Gate{When: never}, answers: []agent.Decision{approve}, asked: []string{"a"}, ran: "a"},
		"each, second never asks": {each: true, second: agent.Gate{When: never}, answers: []agent.Decision{approve}, asked: []string{"a"}, ran: "a"},
	} {
		wiped := &wiped{ran: map[string]string{}}
		review := func(g agent.Gate) agent.Review {
			return agent.Review{PerCall: c.each, Tools: map[string]agent.Gate{"wipe": g}}
		}
		g := must(agent.New(model.NewScripted(model.Calls(wipe("1", "a")), model.Text("done")), agent.Options{
			Tools: []tool.Tool{wiped.tool()}, Graph: graph.Options{Saver: newStore()},
			Middleware: []agent.Middleware{agent.AskPerson(review(c.first)), secondPerson(review(c.second))},
		}))
		var asked []string
		res, err := g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi"))
		for err == nil && len(res.Interrupts) > 0 && len(asked) < len(c.answers) {
			decision := c.answers[len(asked)]
			p := &person{decide: map[string]func(map[string]any) agent.Decision{"wipe": func(args map[string]any) agent.Decision {
				asked = append(asked, args["text"].(string))
				return decision
			}}}
			res, err = g.Invoke(ctx, pregel.Thread("1"), p.answer(res.Interrupts))
		}
		if err != nil || len(res.Interrupts) > 0 || !slices.Equal(asked, c.asked) || wiped.ran["1"] != c.ran || wiped.all > 1 {
			t.Errorf("%s: asked about %q, want %q; wiped %q %d times, want %q; %v", name, asked, c.asked, wiped.ran["1"], wiped.all, c.ran, err)
		}
	}
}

// TestChangedUnasked: a call that needed no decision, and gets arguments behind the gate that need one, is
// asked about when it starts.
func TestChangedUnasked(t *testing.T) {
	large := func(_ context.Context, c message.ToolCall, _ map[string]any) (bool, error) {
		return c.Args["text"] != "50", nil
	}
	for _, each := range []bool{false, true} {
		for _, twice := range []bool{false, true} { // the first try is as it was
			for _, allow := range []bool{false, true} {
				tool := &wiped{ran: map[string]string{}}
				change := agent.Middleware{Name: "change", WrapTool: changing(twice)}
				// The other call is asked about, in the same message.
				m := model.NewScripted(model.Calls(wipe("1", "50"), wipe("2", "60")), model.Text("done"))
				g := reviewed(newStore(), agent.Review{PerCall: each, Tools: map[string]agent.Gate{"wipe": {When: large}}}, m, append(tools([]string{"echo"}), tool.tool()), change)
				p := &person{decide: decisions(true)[map[bool]string{true: "approve", false: "reject"}[allow]]}
				res := must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
				for len(res.Interrupts) > 0 && p.asked < 4 {
					res = must(g.Invoke(ctx, pregel.Thread("1"), p.answer(res.Interrupts)))
				}
				if p.asked != 2 || (tool.ran["1"] == "5000") != allow {
					t.Errorf("each %t, twice %t, allow %t: asked %d times, wiped %q", each, twice, allow, p.asked, tool.ran)
				}
			}
		}
	}
}

// changing is a WrapTool that turns 50 into 5000, at once or in a second try.
func changing(twice bool) func(context.Context, tool.Request, tool.Runner) (any, error) {
	return func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
		if r.ID != "1" {
			return next(ctx, r)
		}
		if twice {
			if out, err := next(ctx, r); err != nil {
				return out, err
			}
		}
		r.Args = map[string]any{"text": "5000"}
		return next(ctx, r)
	}
}

// TestEditAtDoor: a call that a person makes one of another tool when it starts goes through the gates of
// that tool, wherever they are listed; people who edit in a circle fail the call.
func TestEditAtDoor(t *testing.T) {
	renames := func() agent.Middleware {
		return agent.Middleware{Name: "renames", WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
			r.Name = "echo"
			return next(ctx, r)
		}}
	}
	to := func(name string) func(map[string]any) agent.Decision {
		return func(args map[string]any) agent.Decision { return edit(name, args) }
	}
	approve := func(map[string]any) agent.Decision { return agent.Decision{Type: agent.Approve} }
	limit := func() agent.Middleware { return agent.LimitToolCalls("wipe", agent.Limit{Thread: 1}) }
	first := func() agent.Middleware {
		return agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"echo": {}}})
	}
	second := func(each bool) func() agent.Middleware {
		return func() agent.Middleware {
			return secondPerson(agent.Review{PerCall: each, Tools: map[string]agent.Gate{"wipe": {}}})
		}
	}
	for name, c := range map[string]struct {
		list       []func() agent.Middleware
		wipe       func(map[string]any) agent.Decision
		asked, ran int
		circle     bool
	}{
		"limit":              {list: []func() agent.Middleware{limit, first, renames}, asked: 2, ran: 1},
		"second person":      {list: []func() agent.Middleware{second(false), first, renames}, wipe: approve, asked: 4, ran: 2},
		"second, about each": {list: []func() agent.Middleware{second(true), first, renames}, wipe: approve, asked: 4, ran: 2},
		"circle":             {list: []func() agent.Middleware{second(false), first, renames}, wipe: to("echo"), asked: 4, circle: true},
	} {
		for _, order := range orders(c.list) {
			var middleware []agent.Middleware
			for _, m := range order {
				middleware = append(middleware, m())
			}
			tool, at := &wiped{ran: map[string]string{}}, pregel.Thread("1")
			ping := func(id string) message.ToolCall {
				return message.ToolCall{Name: "ask", ID: id, Args: map[string]any{"text": id}}
			}
			g := must(agent.New(model.NewScripted(model.Calls(ping("1"), ping("2")), model.Text("done")), agent.Options{
				Tools: append(tools([]string{"echo", "ask"}), tool.tool()), Graph: graph.Options{Saver: newStore()}, Middleware: middleware,
			}))
			p := &person{decide: map[string]func(map[string]any) agent.Decision{"echo": to("wipe"), "wipe": c.wipe}}
			res, err := g.Invoke(ctx, at, agent.Say("hi"))
			for err == nil && len(res.Interrupts) > 0 && p.asked <= c.asked {
				res, err = g.Invoke(ctx, at, p.answer(res.Interrupts))
			}
			if errors.Is(err, agent.ErrDecision) != c.circle || err != nil && !c.circle || p.asked != c.asked || tool.all != c.ran {
				t.Errorf("%s, %v: asked %d times, wiped %d times: %v", name, names(middleware), p.asked, tool.all, err)
			}
		}
	}
}

func names(list []agent.Middleware) (out []string) {
	for _, m := range list {
		out = append(out, m.Name)
	}
	return out
}
