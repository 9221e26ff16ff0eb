package agent_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/stele-go/stele/saver/memory"
)

// TestInside: each tool knows its call, the state, the thread and the configuration of its run, and
// that there is no store.
func TestInside(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]string{}
	look := func(name string) tool.Tool {
		return must(tool.New(name, "", object, func(ctx context.Context, _ struct{}) (string, error) {
			call, _ := tool.CallOf(ctx)
			info, _ := pregel.Task(ctx)
			state, err := tool.State[map[string]any](ctx)
			if err != nil {
				return "", err
			}
			mu.Lock()
			defer mu.Unlock()
			seen[call.ID] = fmt.Sprint(name, " ", len(must(agent.Messages(state))), " ", info.ThreadID, " ", info.Configurable["user"], " ", info.Store == nil)
			return "", nil
		}))
	}
	m := model.NewScripted(model.Calls(message.ToolCall{Name: "a", ID: "1"}, message.ToolCall{Name: "b", ID: "2"}), model.Text("done"))
	g := must(agent.New(m, agent.Options{Tools: []tool.Tool{look("a"), look("b")}, Graph: graph.Options{Saver: memory.New(memory.Options{})}}))
	must(g.Invoke(ctx, pregel.Thread("t"), agent.Say("hi"), pregel.RunOptions{Configurable: map[string]any{"user": "ada"}}))
	if !maps.Equal(seen, map[string]string{"1": "a 2 t ada true", "2": "b 2 t ada true"}) {
		t.Errorf("seen %v", seen)
	}
}

// TestMiddlewareState: a key of a middleware is neither input nor result, unless it is also one of
// Options.State. Of several middleware with a key, the last says how it is written.
func TestMiddlewareState(t *testing.T) {
	last, sum := graph.Key("n", channel.LastValue[int]()), graph.Key("n", channel.Reduce(channel.Add[int]))
	for name, c := range map[string]struct {
		own    []graph.Field
		second graph.Field
		seen   string
		result any
	}{
		"private": {nil, last, "<nil> 1 1", nil}, "the last counts": {nil, sum, "0 1 2", nil}, "the agent's too": {[]graph.Field{last}, sum, "5 1 1", 1},
	} {
		var seen []string
		hook := func(_ context.Context, state map[string]any) (any, error) {
			seen = append(seen, fmt.Sprint(state["n"]))
			return map[string]any{"n": 1}, nil
		}
		show := must(tool.New("show", "", object, func(ctx context.Context, _ struct{}) (string, error) {
			state, err := tool.State[map[string]any](ctx)
			seen = append(seen, fmt.Sprint(state["n"]))
			return "", err
		}))
		m := model.NewScripted(model.Calls(message.ToolCall{Name: "show", ID: "1"}), model.Text("done"))
		g := must(agent.New(m, agent.Options{Tools: []tool.Tool{show}, State: c.own, Middleware: []agent.Middleware{
			{Name: "first", State: []graph.Field{last}, BeforeAgent: hook}, {Name: "second", State: []graph.Field{c.second}, AfterModel: hook},
		}}))
		input := agent.Say("hi")
		input["n"] = 5
		res, err := g.Invoke(ctx, pregel.Address{}, input)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(seen[:3], " "); got != c.seen || res.Map()["n"] != c.result {
			t.Errorf("%s: seen %q, result %v", name, got, res.Map()["n"])
		}
	}
}

// TestErrors: the policy of an agent makes a text of an error that it knows, of which the model is
// told no more, and lets others end the run.
func TestErrors(t *testing.T) {
	secret := errors.New("secret")
	policy := func(_ context.Context, call message.ToolCall, err error) (string, error) {
		if call.Args["text"] == "known" {
			return call.Name + " failed", nil
		}
		return "", err
	}
	bad := must(tool.New("bad", "", object, func(context.Context, text) (string, error) { return "", secret }))
	for text, known := range map[string]bool{"known": true, "other": false} {
		m := model.NewScripted(model.Calls(message.ToolCall{Name: "bad", ID: "1", Args: map[string]any{"text": text}}), model.Text("done"))
		res, err := must(agent.New(m, agent.Options{Tools: []tool.Tool{bad}, Errors: policy})).Invoke(ctx, pregel.Address{}, agent.Say("hi"))
		if !known {
			if !errors.Is(err, secret) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if got := must(agent.Messages(res.Map()))[2]; err != nil || got.Text() != "bad failed" || got.Name != "bad" || got.Status != message.StatusError {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// TestRetryTools: a tool that is named is tried again after an error that On accepts; the last error
// is told, in the program's words if it has some. Another error, and a Command for the graph around,
// pass at once.
func TestRetryTools(t *testing.T) {
	again, other, parent := errors.New("again"), errors.New("other"), &pregel.ParentCommandError{}
	on := func(err error) bool { return !errors.Is(err, other) }
	for name, c := range map[string]struct {
		errs  []error
		retry agent.Retry
		want  string // "" if the last error is returned
	}{
		"in vain":       {[]error{again, again, again}, agent.Retry{On: on}, "Tool 'bad' failed after 3 attempts: again. Please try again."},
		"own words":     {[]error{again, again}, agent.Retry{Retries: 1, Failed: func(err error) string { return "sorry: " + err.Error() }}, "sorry: again"},
		"then another":  {[]error{again, other}, agent.Retry{On: on}, ""},
		"for the graph": {[]error{parent}, agent.Retry{}, ""},
	} {
		var calls []string
		c.retry.Delay = -1
		bad := must(tool.New("bad", "", object, func(context.Context, text) (string, error) {
			calls = append(calls, "bad")
			return "", c.errs[min(len(calls), len(c.errs))-1]
		}))
		m := model.NewScripted(model.Calls(message.ToolCall{Name: "bad", ID: "1"}), model.Calls(echo("2", "fine")), model.Text("done"))
		g := must(agent.New(m, agent.Options{Tools: append(tools([]string{"echo"}), bad), Middleware: []agent.Middleware{agent.RetryTools(c.retry, "bad")}}))
		res, err := g.Invoke(ctx, pregel.Address{}, agent.Say("hi"))
		if len(calls) != len(c.errs) {
			t.Errorf("%s: called %d times", name, len(calls))
		}
		if c.want == "" {
			if !errors.Is(err, c.errs[len(c.errs)-1]) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		list := must(agent.Messages(res.Map()))
		if list[2].Text() != c.want || list[2].Status != message.StatusError || list[4].Text() != "fine" || list[4].Status == message.StatusError {
			t.Errorf("%s: %v", name, list)
		}
	}
}

// TestSubagentUpdates: the updates of an agent that a tool runs inside are shown with its namespace.
func TestSubagentUpdates(t *testing.T) {
	helper := must(agent.New(model.NewScripted(model.Text("inside")), agent.Options{Name: "helper"}))
	help := must(tool.New("help", "", object, func(ctx context.Context, _ struct{}) (string, error) {
		_, err := helper.Invoke(ctx, pregel.Inside(), agent.Say("help"))
		return "helped", err
	}))
	m := model.NewScripted(model.Calls(message.ToolCall{Name: "help", ID: "1"}), model.Text("done"))
	g := must(agent.New(m, agent.Options{Tools: []tool.Tool{help}}))
	var nodes []string
	for e, err := range g.Stream(ctx, pregel.Address{}, agent.Say("hi"), pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeUpdates}, Subgraphs: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(e.NS) > 0 {
			nodes = append(nodes, e.Data.(pregel.Update).Node)
		}
	}
	if !slices.Equal(nodes, []string{agent.NodeModel}) {
		t.Errorf("updates inside: %v", nodes)
	}
}
