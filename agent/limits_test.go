package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestLimitError: the error of a limit has the calls and the limits, and says which was exceeded.
func TestLimitError(t *testing.T) {
	adds := message.ToolCall{Name: "add", ID: "a", Args: map[string]any{"a": 1, "b": 2}}
	for want, c := range map[string]struct {
		limit       agent.Middleware
		answers     []model.Answer // of two runs, the second of which fails
		tool        string
		thread, run int
	}{
		"Model call limits exceeded: thread limit (2/2), run limit (1/1)": {
			agent.LimitModelCalls(agent.Limit{Thread: 2, Run: 1, Exceeded: agent.Stop}), []model.Answer{model.Text("a"), model.Calls(adds)}, "", 2, 1,
		},
		"Model call limits exceeded: thread limit (1/1)": {
			agent.LimitModelCalls(agent.Limit{Thread: 1, Exceeded: agent.Stop}), []model.Answer{model.Text("a")}, "", 1, 0,
		},
		"Tool call limit reached: thread limit exceeded (3/2 calls).": {
			agent.LimitToolCalls("", agent.Limit{Thread: 2, Exceeded: agent.Stop}), []model.Answer{model.Calls(echo("1", "x")), model.Text("a"), model.Calls(adds), model.Calls(echo("2", "y"))}, "", 3, 2,
		},
		"'echo' tool call limit reached: thread limit exceeded (3/1 calls) and run limit exceeded (2/1 calls).": {
			agent.LimitToolCalls("echo", agent.Limit{Thread: 1, Run: 1, Exceeded: agent.Stop}), []model.Answer{model.Calls(echo("1", "x"), adds), model.Text("a"), model.Calls(echo("2", "y"), echo("3", "z"))}, "echo", 3, 2,
		},
	} {
		g := must(agent.New(model.NewScripted(c.answers...), agent.Options{Tools: tools([]string{"add", "echo"}), Middleware: []agent.Middleware{c.limit}, Graph: graph.Options{Saver: newStore()}}))
		must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
		var limit *agent.LimitError
		_, err := g.Invoke(ctx, pregel.Thread("1"), agent.Say("more"))
		if !errors.As(err, &limit) {
			t.Errorf("%s: %v", want, err)
		} else if limit.Error() != want || limit.Tool != c.tool || limit.Thread != c.thread || limit.Run != c.run {
			t.Errorf("got %s %+v, want %s", limit, limit, want)
		}
	}
}

// TestToolLimitEnds: an agent that ends at the limit of a thread answers every call of the message,
// runs none, counts none, and says so.
func TestToolLimitEnds(t *testing.T) {
	m := model.NewScripted(model.Calls(echo("1", "x")), model.Text("a"), model.Calls(echo("2", "y"), message.ToolCall{Name: "add", ID: "3", Args: map[string]any{"a": 1, "b": 2}}))
	var counted any
	g := must(agent.New(m, agent.Options{
		Tools: tools([]string{"add", "echo"}),
		Middleware: []agent.Middleware{agent.LimitToolCalls("", agent.Limit{Thread: 2, Exceeded: agent.End}), {
			Name: "look",
			AfterAgent: func(_ context.Context, state map[string]any) (any, error) {
				counted = state["thread_tool_call_count"].(map[string]any)["__all__"]
				return nil, nil
			},
		}},
		Graph: graph.Options{Saver: newStore()},
	}))
	must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
	list := must(agent.Messages(must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("more"))).Map()))
	answers := map[string]message.Message{}
	for _, m := range list {
		answers[m.ToolCallID] = m
	}
	if last := list[len(list)-1].Text(); last != "Tool call limit reached: thread limit exceeded (3/2 calls)." || plain(counted) != 1.0 {
		t.Errorf("said %q, counted %v", last, counted)
	}
	for id, want := range map[string]string{"2": "exceeded the limit", "3": "Do not make additional tool calls"} {
		if a := answers[id]; a.Status != message.StatusError || !strings.Contains(a.Text(), want) {
			t.Errorf("call %s: %+v", id, a)
		}
	}
}

// TestLimitInside: the limit of an agent inside a tool is an error of the tool, for which the agent around
// may have an answer, and may try it again; its own limit still stops it.
func TestLimitInside(t *testing.T) {
	stop := func(l agent.Limit) agent.Middleware {
		l.Exceeded = agent.Stop
		return agent.LimitToolCalls("echo", l)
	}
	renames := agent.Middleware{Name: "renames", WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
		r.Name = "echo"
		return next(ctx, r)
	}}
	other := message.ToolCall{Name: "add", Args: map[string]any{"text": "x"}}
	call := func(id string) message.ToolCall {
		c := other
		c.ID = id
		return c
	}
	for name, middleware := range map[string][]agent.Middleware{
		"hook": {stop(agent.Limit{Run: 1})}, "door": {stop(agent.Limit{Run: 1}), renames},
	} {
		asks := model.Calls(echo("1", "x"), echo("2", "y"))
		if name == "door" {
			asks = model.Calls(call("1"), call("2"))
		}
		tries := 0
		inner := func(ctx context.Context) error {
			tries++
			_, err := must(agent.New(model.NewScripted(asks), agent.Options{Tools: tools([]string{"echo", "add"}), Middleware: middleware})).Invoke(ctx, pregel.Address{}, agent.Say("go"))
			var limit *agent.LimitError
			if !errors.As(err, &limit) {
				t.Errorf("%s: the agent inside ended with %v", name, err)
			}
			return err
		}
		sub := must(tool.New("sub", "", object, func(ctx context.Context, _ struct{}) (string, error) { return "", inner(ctx) }))
		run := func(o agent.Options) (*pregel.Result, error) {
			tries = 0
			o.Tools = []tool.Tool{sub}
			g := must(agent.New(model.NewScripted(model.Calls(message.ToolCall{Name: "sub", ID: "1"}), model.Text("done")), o))
			return g.Invoke(ctx, pregel.Address{}, agent.Say("hi"))
		}
		if res, err := run(agent.Options{Errors: tool.AnswerErrors}); err != nil || !strings.Contains(answersOf(res)["1"], "limit") {
			t.Errorf("%s, answered: %v", name, err)
		}
		res, err := run(agent.Options{Errors: func(_ context.Context, _ message.ToolCall, err error) (string, error) { return "", err }, Middleware: []agent.Middleware{agent.RetryTools(agent.Retry{Retries: 1, Delay: -1})}})
		if err != nil || tries != 2 || !strings.Contains(answersOf(res)["1"], "2 attempts") {
			t.Errorf("%s, tried again: %d times, %v", name, tries, err)
		}
	}
}

// TestLimitOfRepeatedCalls: what asks the model again, in one node, is bounded and counted too, wherever it stands.
func TestLimitOfRepeatedCalls(t *testing.T) {
	twice := agent.Middleware{Name: "twice", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		r.State = nil // a limit knows it by itself
		if _, err := next(ctx, r); err != nil {
			return agent.ModelResponse{}, err
		}
		return next(ctx, r)
	}}
	fails := []model.Answer{model.Fail(errors.New("a")), model.Fail(errors.New("b")), model.Text("late")}
	for name, c := range map[string]struct {
		again   agent.Middleware
		calls   int // without a limit, of all models
		answers []model.Answer
	}{
		"a middleware": {twice, 2, []model.Answer{model.Text("a"), model.Text("b"), model.Text("c")}},
		"RetryModel":   {agent.RetryModel(agent.Retry{Retries: 5, Delay: -1}), 3, fails},
		"Fallback":     {agent.Fallback(model.NewScripted(fails[0]), model.NewScripted(fails[0])), 3, fails[:1]},
	} {
		for _, limit := range []int{1, 2, 3} {
			for _, exceeded := range []agent.Exceeded{agent.End, agent.Stop} {
				for _, first := range []bool{true, false} {
					list := []agent.Middleware{agent.LimitModelCalls(agent.Limit{Thread: limit, Exceeded: exceeded}), c.again}
					if !first {
						slices.Reverse(list)
					}
					m := model.NewScripted(c.answers...)
					g := must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Middleware: list, Graph: graph.Options{Saver: newStore()}}))
					_, err := g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi"))
					asked := len(m.Requests())
					if name != "Fallback" && asked != min(limit, c.calls) {
						t.Errorf("%s, limit %d, %s: the model was asked %d times", name, limit, exceeded, asked)
					}
					over := limit < c.calls
					if stopped := over && exceeded == agent.Stop; errors.As(err, new(*agent.LimitError)) != stopped {
						t.Errorf("%s, limit %d, %s: %v", name, limit, exceeded, err)
					}
					if fails := name == "Fallback" && !over; !fails && exceeded == agent.End && err != nil || fails && err == nil {
						t.Errorf("%s, limit %d, %s: %v", name, limit, exceeded, err)
					}
					if err != nil || name == "Fallback" {
						continue
					}
					counted := must(g.GetState(ctx, pregel.Thread("1"))).Map()["thread_model_call_count"]
					if counted != asked {
						t.Errorf("%s, limit %d, %s: asked %d times, and counted %v", name, limit, exceeded, asked, counted)
					}
				}
			}
		}
	}
}

// TestModelLimitOfSends: a limit of the model's calls holds for those that Sends make, one after the other and together,
// whatever state they bring.
func TestModelLimitOfSends(t *testing.T) {
	say := func(context.Context, model.Request) (model.Answer, error) { return model.Text("done"), nil }
	s := pregel.Send{Node: agent.NodeModel, Arg: agent.Say("hi")}
	for name, c := range map[string]struct {
		limit agent.Limit
		gotos []any
		asked int
	}{
		"one by one":          {agent.Limit{Thread: 1}, []any{s, s, s}, 1},
		"one by one, stop":    {agent.Limit{Thread: 2, Exceeded: agent.Stop}, []any{s, s, s}, 2},
		"together":            {agent.Limit{Run: 2}, []any{[]pregel.Send{s, s, s}}, 3},
		"together, and again": {agent.Limit{Thread: 4}, []any{[]pregel.Send{s, s, s}, s}, 4},
		"together, cut":       {agent.Limit{Thread: 3}, []any{[]pregel.Send{s, s, s}, s}, 3},
	} {
		m := model.NewScriptedFunc(say)
		g := must(agent.New(m, agent.Options{Graph: graph.Options{Saver: newStore()}, Middleware: []agent.Middleware{agent.LimitModelCalls(c.limit)}}))
		must(0, invoke(g, agent.Say("hi")))
		for _, to := range c.gotos {
			if err := invoke(g, pregel.Command{Goto: to}); err != nil && !errors.As(err, new(*agent.LimitError)) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(m.Requests()); n != c.asked {
			t.Errorf("%s: the model was asked %d times, want %d", name, n, c.asked)
		}
	}
}
