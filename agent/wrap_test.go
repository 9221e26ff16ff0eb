package agent_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/stele-go/stele/saver/memory"
)

// run makes an agent, says hi, and returns the state it ends with.
func run(m model.Model, o agent.Options) (map[string]any, error) {
	g, err := agent.New(m, o)
	if err != nil {
		return nil, err
	}
	res, err := g.Invoke(ctx, pregel.Address{}, agent.Say("hi"))
	if err != nil {
		return nil, err
	}
	return res.Map(), nil
}

// texts are the texts of the messages in a state.
func texts(state map[string]any) (out []string) {
	for _, m := range must(agent.Messages(state)) {
		out = append(out, m.Text())
	}
	return out
}

// TestOrder: hooks and what is around the model run in the order of the middleware, those behind the
// model in reverse, each time that the model is asked.
func TestOrder(t *testing.T) {
	var log []string
	logs := func(what string) agent.Hook {
		return func(context.Context, map[string]any) (any, error) { log = append(log, what); return nil, nil }
	}
	both := func(name string) agent.Middleware {
		return agent.Middleware{Name: name, BeforeModel: logs(name + " before"), AfterModel: logs(name + " after"),
			WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
				log = append(log, name+" around")
				return next(ctx, r)
			}}
	}
	must(run(model.NewScripted(model.Calls(echo("1", "x")), model.Text("bye")), agent.Options{Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{both("A"), both("B")}}))
	round := "A before, B before, A around, B around, B after, A after"
	if got := strings.Join(log, ", "); got != round+", "+round {
		t.Error(got)
	}
}

// TestAround: three middleware are around a call of the model or of a tool, one in the other. One may
// call what it is around again, after an error or without, change the answer, or give its own.
func TestAround(t *testing.T) {
	type next func() (string, error)
	plain := func(next next) (string, error) { return next() }
	twice := func(next next) (string, error) { _, _ = next(); return next() }
	again := func(next next) (string, error) {
		text, err := next()
		if err != nil {
			return next()
		}
		return text, err
	}
	upper := func(next next) (string, error) { text, err := next(); return strings.ToUpper(text), err }
	other := func(next next) (string, error) { _, err := next(); return "other", err }
	sorry := func(next next) (string, error) {
		text, err := next()
		if boom := new(Boom); errors.As(err, &boom) {
			return "sorry: " + boom.text, nil
		}
		return text, err
	}
	for name, c := range map[string]struct {
		around   [3]func(next) (string, error)
		failures int
		log      string
		text     string // empty is an error
	}{
		"each once":         {[3]func(next) (string, error){plain, plain, plain}, 0, "A( B( C( C) B) A)", "word"},
		"an error":          {[3]func(next) (string, error){plain, plain, plain}, 1, "A( B( C( C! B! A!", ""},
		"the middle twice":  {[3]func(next) (string, error){plain, twice, plain}, 0, "A( B( C( C) C( C) B) A)", "word"},
		"again, inside":     {[3]func(next) (string, error){plain, plain, again}, 1, "A( B( C( C) B) A)", "word"},
		"again, outside":    {[3]func(next) (string, error){again, plain, upper}, 1, "A( B( C( C! B! B( C( C) B) A)", "WORD"},
		"an own answer":     {[3]func(next) (string, error){plain, other, upper}, 0, "A( B( C( C) B) A)", "other"},
		"the outermost's":   {[3]func(next) (string, error){other, plain, plain}, 0, "A( B( C( C) B) A)", "other"},
		"an error answered": {[3]func(next) (string, error){sorry, plain, plain}, 1, "A( B( C( C! B! A)", "sorry: no"},
		"no error to mind":  {[3]func(next) (string, error){sorry, plain, plain}, 0, "A( B( C( C) B) A)", "word"},
	} {
		for _, what := range []string{"model", "tool"} {
			failures := c.failures
			fails := func() error {
				if failures--; failures >= 0 {
					return &Boom{"no"}
				}
				return nil
			}
			var log []string
			logged := func(name string, call func() (string, error)) (string, error) {
				log = append(log, name+"(")
				text, err := call()
				log = append(log, name+map[bool]string{true: ")", false: "!"}[err == nil])
				return text, err
			}
			var list []agent.Middleware
			for i, name := range []string{"A", "B", "C"} {
				m := agent.Middleware{Name: name}
				if what == "model" {
					m.WrapModel = func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
						text, err := logged(name, func() (string, error) {
							return c.around[i](func() (string, error) {
								res, err := next(ctx, r)
								if err != nil {
									return "", err
								}
								return res.Messages[0].Text(), nil
							})
						})
						return agent.ModelResponse{Messages: []message.Message{message.AI(text)}}, err
					}
				} else {
					m.WrapTool = func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
						return logged(name, func() (string, error) {
							return c.around[i](func() (string, error) {
								out, err := next(ctx, r)
								if err != nil {
									return "", err
								}
								return out.(message.Message).Text(), nil
							})
						})
					}
				}
				list = append(list, m)
			}
			m := model.NewScriptedFunc(func(_ context.Context, r model.Request) (model.Answer, error) {
				switch {
				case what == "tool" && len(r.Messages) == 1:
					return model.Calls(message.ToolCall{Name: "word", ID: "1"}), nil
				case what == "tool":
					return model.Text("done"), nil
				}
				if err := fails(); err != nil {
					return model.Fail(err), nil
				}
				return model.Text("word"), nil
			})
			word := must(tool.New("word", "", object, func(context.Context, struct{}) (string, error) {
				if err := fails(); err != nil {
					return "", err
				}
				return "word", nil
			}))
			at := map[string]int{"model": 1, "tool": 2}[what]
			state, err := run(m, agent.Options{Tools: []tool.Tool{word}, Middleware: list})
			boom := new(Boom)
			if got := strings.Join(log, " "); got != c.log || errors.As(err, &boom) != (c.text == "") || err == nil && texts(state)[at] != c.text {
				t.Errorf("%s, %s: %s: %v, %v", what, name, got, state[agent.KeyMessages], err)
			}
		}
	}
}

// TestRequest: a request is a value. What one middleware puts into it the next one has, and the model,
// and neither the state nor whoever was before it.
func TestRequest(t *testing.T) {
	var before, inner agent.ModelRequest
	outer := agent.Middleware{Name: "outer", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		before = r
		changed := r
		changed.System, changed.ToolChoice = message.System("new"), "echo"
		changed.Messages = append(changed.Messages, message.Human("be nice"))
		changed.Settings = map[string]any{"temperature": 0.9}
		changed.State = maps.Clone(r.State)
		changed.State["topic"] = "tea"
		return next(ctx, changed)
	}}
	m := model.NewScripted(model.Text("bye"))
	state := must(run(m, agent.Options{System: "old", Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{outer, {
		Name: "inner", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			inner = r
			return next(ctx, r)
		},
	}}}))
	if before.System.Text() != "old" || before.ToolChoice != "" || len(before.Messages) != 1 || before.Settings != nil || before.State["topic"] != nil {
		t.Errorf("before: %+v", before)
	}
	if inner.System.Text() != "new" || inner.ToolChoice != "echo" || len(inner.Messages) != 2 || inner.State["topic"] != "tea" || len(inner.Tools) != 1 {
		t.Errorf("inner: %+v", inner)
	}
	if r := m.Requests()[0]; r.ToolChoice != "echo" || r.Settings["temperature"] != 0.9 || len(r.Messages) != 3 || r.Messages[0].Text() != "new" || r.Messages[2].Text() != "be nice" {
		t.Errorf("asked %+v", r)
	}
	if got := strings.Join(texts(state), ", "); got != "hi, bye" {
		t.Error(got)
	}
	none := agent.Middleware{Name: "none", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		r.System, r.Tools = message.Message{}, nil
		return next(ctx, r)
	}}
	m = model.NewScripted(model.Text("bye"))
	must(run(m, agent.Options{System: "old", Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{none}}))
	if r := m.Requests()[0]; len(r.Messages) != 1 || len(r.Tools) != 0 {
		t.Errorf("asked %+v", r)
	}
}

// TestToolRequest: a call is a value too. With another name it goes to the tool of that name, and the
// message that made it stays as it is.
func TestToolRequest(t *testing.T) {
	var before tool.Request
	m := model.NewScripted(model.Calls(echo("1", "x")), model.Text("bye"))
	state := must(run(m, agent.Options{Tools: tools([]string{"echo", "add"}), Middleware: []agent.Middleware{{
		Name: "other", WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
			before = r
			changed := r
			changed.Name, changed.Args = "add", map[string]any{"a": 1, "b": 2}
			return next(ctx, changed)
		},
	}}}))
	list := must(agent.Messages(state))
	if list[2].Text() != "3" || list[2].Name != "add" || list[2].ToolCallID != "1" || before.Name != "echo" || list[1].ToolCalls[0].Args["text"] != "x" {
		t.Errorf("%+v, before %+v", list, before)
	}
}

// TestSeen: the functions of a middleware see the state, with its own keys, and the context of the
// run; what is around a tool sees the tool.
func TestSeen(t *testing.T) {
	var log []string
	see := func(ctx context.Context, what string, state map[string]any) {
		info, ok := pregel.Task(ctx)
		log = append(log, fmt.Sprint(what, " ", len(must(agent.Messages(state))), " ", state["topic"], " ", info.Context, " ", ok))
	}
	hook := func(what string) agent.Hook {
		return func(ctx context.Context, state map[string]any) (any, error) { see(ctx, what, state); return nil, nil }
	}
	watch := func(name string) agent.Middleware {
		return agent.Middleware{
			Name:        name,
			BeforeModel: hook(name + " before"), AfterModel: hook(name + " after"),
			WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
				see(ctx, name+" model", r.State)
				return next(ctx, r)
			},
			WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
				see(ctx, name+" "+r.Tool.Definition().Name, r.State.(map[string]any))
				return next(ctx, r)
			},
		}
	}
	look := must(tool.New("look", "", object, func(ctx context.Context, _ struct{}) (string, error) {
		return fmt.Sprint(must(tool.State[map[string]any](ctx))["topic"]), nil
	}))
	g := must(agent.New(model.NewScripted(model.Calls(message.ToolCall{Name: "look", ID: "1"}), model.Text("bye")), agent.Options{
		Tools: []tool.Tool{look}, State: []graph.Field{graph.Key("topic", channel.LastValue[string]())}, Middleware: []agent.Middleware{watch("A"), watch("B")},
	}))
	input := agent.Say("hi")
	input["topic"] = "tea"
	var last map[string]any
	for e, err := range g.Stream(ctx, pregel.Address{}, input, pregel.RunOptions{Context: 7, Modes: []pregel.Mode{pregel.ModeValues}}) {
		if err != nil {
			t.Fatal(err)
		}
		last = e.Data.(map[string]any)
	}
	want := []string{
		"A before 1", "B before 1", "A model 1", "B model 1", "B after 2", "A after 2", "A look 2", "B look 2",
		"A before 3", "B before 3", "A model 3", "B model 3", "B after 4", "A after 4",
	}
	for i := range want {
		want[i] += " tea 7 true"
	}
	if !slices.Equal(log, want) || texts(last)[2] != "tea" {
		t.Errorf("%q, want %q: %q", log, want, texts(last))
	}
}

// TestPrivateState: keys of a middleware are for its functions: they are stored, and neither the input
// nor the result has them.
func TestPrivateState(t *testing.T) {
	var seen []any
	m := agent.Middleware{
		Name: "m", State: []graph.Field{graph.Key("secret", channel.LastValue[string]())},
		BeforeModel: func(_ context.Context, state map[string]any) (any, error) {
			seen = append(seen, state["secret"])
			return map[string]any{"secret": "own"}, nil
		},
		WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			seen = append(seen, r.State["secret"])
			res, err := next(ctx, r)
			res.Updates = append(res.Updates, map[string]any{"secret": "changed"})
			return res, err
		},
		AfterModel: func(_ context.Context, state map[string]any) (any, error) {
			seen = append(seen, state["secret"])
			return nil, nil
		},
	}
	g := must(agent.New(model.NewScripted(model.Text("a"), model.Text("b")), agent.Options{Middleware: []agent.Middleware{m}, Graph: graph.Options{Saver: memory.New(memory.Options{})}}))
	for range 2 {
		input := agent.Say("hi")
		input["secret"] = "in"
		res := must(g.Invoke(ctx, pregel.Thread("1"), input)).Map()
		if _, ok := res["secret"]; ok {
			t.Errorf("the result is %v", res)
		}
	}
	if got := fmt.Sprint(seen); got != "[<nil> own changed changed own changed]" {
		t.Error(got)
	}
}

// TestMiddlewareTools: the tools of a middleware come before those of the agent, and run. What one
// middleware leaves of them the next one has.
func TestMiddlewareTools(t *testing.T) {
	var seen []string
	without := func(name string) agent.Middleware {
		return agent.Middleware{Name: "without " + name, WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			for _, d := range r.Tools {
				seen = append(seen, d.Name)
			}
			r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(d tool.Definition) bool { return d.Name == name })
			return next(ctx, r)
		}}
	}
	add := message.ToolCall{Name: "add", ID: "1", Args: map[string]any{"a": 1, "b": 2}}
	m := model.NewScripted(model.Calls(add), model.Text("bye"))
	state := must(run(m, agent.Options{Tools: tools([]string{"echo", "final"}), Middleware: []agent.Middleware{
		{Name: "m", Tools: tools([]string{"add"})}, without("final"), without("echo"),
	}}))
	if got := strings.Join(seen, " "); got != "add echo final add echo add echo final add echo" {
		t.Error(got)
	}
	if asked := m.Requests()[0].Tools; len(asked) != 1 || asked[0].Name != "add" || texts(state)[2] != "3" {
		t.Errorf("asked %+v, %q", asked, texts(state))
	}
}

// TestDynamicTools: a middleware gives the model tools that the agent does not have, if the state
// wants them, and runs them beside those that it has. Others are around it.
func TestDynamicTools(t *testing.T) {
	more := map[string]tool.Tool{}
	for _, x := range tools([]string{"add", "final"}) {
		more[x.Definition().Name] = x
	}
	dynamic := agent.Middleware{
		Name: "dynamic",
		WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			if list := must(agent.Messages(r.State)); list[len(list)-1].Text() == "hi" {
				r.Tools = append(r.Tools, more["add"].Definition(), more["final"].Definition())
			}
			return next(ctx, r)
		},
		WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
			if x := more[r.Name]; x != nil {
				r.Tool = x
			}
			return next(ctx, r)
		},
	}
	add := message.ToolCall{Name: "add", ID: "2", Args: map[string]any{"a": 1, "b": 2}}
	final := message.ToolCall{Name: "final", ID: "3", Args: map[string]any{"text": "z"}}
	for _, own := range [][]string{nil, {"echo"}} {
		around := make(chan string, 3)
		watch := agent.Middleware{Name: "watch", WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
			around <- r.Name
			return next(ctx, r)
		}}
		calls, want := []message.ToolCall{add, final}, "hi, , 3, z, bye"
		if own != nil {
			calls, want = append(calls, echo("1", "x")), "hi, , 3, z, x, bye"
		}
		m := model.NewScripted(model.Calls(calls...), model.Text("bye"))
		state := must(run(m, agent.Options{Tools: tools(own), Middleware: []agent.Middleware{watch, dynamic}}))
		if got := strings.Join(texts(state), ", "); got != want || len(around) != len(calls) {
			t.Errorf("%v: %s, %d around", own, got, len(around))
		}
		if r := m.Requests(); len(r[0].Tools) != len(own)+2 || len(r[1].Tools) != len(own) {
			t.Errorf("%v: asked %+v", own, r)
		}
	}
}

// TestAnswered: if a middleware around the model answers its calls, no tool runs, and the model is
// asked again.
func TestAnswered(t *testing.T) {
	m := model.NewScripted(model.Calls(echo("1", "x")), model.Text("bye"))
	state := must(run(m, agent.Options{Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{{
		Name: "m", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			res, err := next(ctx, r)
			for _, c := range res.Messages[0].ToolCalls {
				res.Updates = append(res.Updates, map[string]any{agent.KeyMessages: message.ToolResult(c, "made up")})
			}
			return res, err
		},
	}}}))
	if got := strings.Join(texts(state), ", "); got != "hi, , made up, bye" {
		t.Error(got)
	}
	g := must(agent.New(model.NewScripted(model.Calls(echo("1", "x")), model.Text("bye")), agent.Options{
		Tools: tools([]string{"echo"}), Graph: graph.Options{Saver: memory.New(memory.Options{}), InterruptBefore: []string{agent.NodeTools}},
	}))
	must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
	answer := map[string]any{agent.KeyMessages: message.ToolResult(echo("1", "x"), "by hand")}
	must(g.UpdateState(ctx, pregel.Thread("1"), pregel.StateUpdate{AsNode: agent.NodeModel, Values: answer}))
	res := must(g.Invoke(ctx, pregel.Thread("1"), nil))
	if got := strings.Join(texts(res.Map()), ", "); got != "hi, , by hand, bye" {
		t.Error(got)
	}
}

// TestOwnResponse: a middleware around the model may give the structured answer, once. Of a call that
// is made twice the updates of the last count.
func TestOwnResponse(t *testing.T) {
	respond := func(updates ...any) agent.Middleware {
		return agent.Middleware{Name: "m", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			res, err := next(ctx, r)
			res.Response, res.Updates = "own", append(res.Updates, updates...)
			return res, err
		}}
	}
	state := must(run(model.NewScripted(model.Text("a")), agent.Options{Middleware: []agent.Middleware{respond()}}))
	if got := strings.Join(texts(state), ", "); state[agent.KeyResponse] != "own" || got != "hi, a" {
		t.Errorf("%v, %s", state[agent.KeyResponse], got)
	}
	_, err := run(model.NewScripted(model.Text("a")), agent.Options{Middleware: []agent.Middleware{respond(map[string]any{agent.KeyResponse: "another"})}})
	if !errors.Is(err, channel.ErrInvalidUpdate) {
		t.Errorf("two answers: %v", err)
	}
	n := 0
	twice := agent.Middleware{Name: "twice", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		if res, err := next(ctx, r); err != nil {
			return res, err
		}
		return next(ctx, r)
	}}
	count := agent.Middleware{Name: "count", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		n++
		res, err := next(ctx, r)
		res.Updates = append(res.Updates, map[string]any{"topic": fmt.Sprint(n)})
		return res, err
	}}
	state = must(run(model.NewScripted(model.Text("a"), model.Text("b")), agent.Options{
		State: []graph.Field{graph.Key("topic", channel.LastValue[string]())}, Middleware: []agent.Middleware{twice, count},
	}))
	if got := strings.Join(texts(state), ", "); got != "hi, b" || state["topic"] != "2" {
		t.Errorf("%s, topic %v", got, state["topic"])
	}
}

// TestNothingSaid: an agent that ends before it asks a model needs no message.
func TestNothingSaid(t *testing.T) {
	var log []string
	logs := func(what string, out any) agent.Hook {
		return func(context.Context, map[string]any) (any, error) { log = append(log, what); return out, nil }
	}
	m := model.NewScripted()
	g := must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{
		{Name: "A", BeforeModel: logs("A before", nil), AfterModel: logs("A after", nil)},
		{Name: "B", BeforeModel: logs("B before", map[string]any{agent.KeyJump: agent.JumpEnd}), AfterModel: logs("B after", nil), Jumps: []agent.Jump{agent.JumpEnd}},
	}}))
	res := must(g.Invoke(ctx, pregel.Address{}, map[string]any{agent.KeyMessages: []message.Message{}})).Map()
	if got := strings.Join(log, ", "); got != "A before, B before" || len(texts(res)) != 0 || len(m.Requests()) != 0 {
		t.Errorf("%s: %v", got, res)
	}
}
