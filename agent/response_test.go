package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

func city(id, name string) message.ToolCall {
	return message.ToolCall{Name: "City", ID: id, Args: map[string]any{"name": name}}
}

var cities = []agent.Form{{Name: "City", Description: "A city.", Schema: named{}}}

// TestSeveralResponses: a program decides about several answers at once by their error; the model
// knows what each form is for.
func TestSeveralResponses(t *testing.T) {
	land := city("2", "Norway")
	land.Name = "Land"
	forms := append(slices.Clone(cities), agent.Form{Name: "Land", Description: "A land.", Schema: named{}})
	for _, stop := range []bool{true, false} {
		m := model.NewScripted(model.Calls(city("1", "Oslo"), land), model.Calls(city("3", "Oslo")))
		g := must(agent.New(m, agent.Options{Response: &agent.Response{Forms: forms, Errors: func(_ context.Context, err error) (string, error) {
			var several *agent.SeveralResponsesError
			if !errors.As(err, &several) || !slices.Equal(several.Forms, []string{"City", "Land"}) {
				t.Errorf("error %v", err)
			}
			if stop {
				return "", err
			}
			return "one, please", nil
		}}}))
		res, err := g.Invoke(ctx, pregel.Address{}, agent.Say("hi"))
		if defs := m.Requests()[0].Tools; defs[0].Description != "A city." || defs[1].Description != "A land." {
			t.Errorf("tools %+v", defs)
		}
		if stop {
			var several *agent.SeveralResponsesError
			if !errors.As(err, &several) {
				t.Errorf("error %v", err)
			}
			continue
		}
		list := must(agent.Messages(res.Map()))
		if len(list) != 6 || list[2].Text() != "one, please" || list[3].Text() != "one, please" || res.Map()[agent.KeyResponse] == nil {
			t.Errorf("%v", list)
		}
	}
}

// TestOldResponse: an answer of an earlier run does not end a run whose own answer does not fit.
func TestOldResponse(t *testing.T) {
	wrong := message.ToolCall{Name: "City", ID: "2"}
	m := model.NewScripted(model.Calls(city("1", "Oslo")), model.Calls(wrong), model.Calls(city("3", "Bergen")))
	g := must(agent.New(m, agent.Options{Response: &agent.Response{Forms: cities}, Graph: graph.Options{Saver: memory.New(memory.Options{})}}))
	for i, want := range []string{"Oslo", "Bergen"} {
		res := must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
		if got := must(agent.ResponseOf[map[string]string](res.Map()))["name"]; got != want || len(m.Requests()) != 1+2*i {
			t.Errorf("%q after %d requests", got, len(m.Requests()))
		}
	}
}

// TestSwappedModel: how the answer is given depends on the model that is asked, not on the agent's.
func TestSwappedModel(t *testing.T) {
	own := model.NewScripted()
	other := model.NewScripted(model.Text(`{"name": "Oslo"}`)).WithProfile(model.Profile{StructuredOutput: true})
	swap := agent.Middleware{Name: "swap", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		r.Model = other
		return next(ctx, r)
	}}
	res := must(must(agent.New(own, agent.Options{Response: &agent.Response{Forms: cities}, Middleware: []agent.Middleware{swap}})).Invoke(ctx, pregel.Address{}, agent.Say("hi")))
	if got := must(agent.ResponseOf[map[string]string](res.Map())); got["name"] != "Oslo" || len(must(agent.Messages(res.Map()))) != 2 {
		t.Errorf("%v", res.Map())
	}
	if q := other.Requests()[0]; q.Format == nil || q.Format.Name != "City" || q.Format.Strict || len(q.Tools) > 0 {
		t.Errorf("asked %+v", q)
	}
}

// TestResponseBlocks: an answer in the provider's own way may come in blocks of text.
func TestResponseBlocks(t *testing.T) {
	said := message.AI("")
	said.Blocks = []any{`{"name":`, message.TextBlock(` "Oslo"}`)}
	m := model.NewScripted(model.Answer{Message: said})
	res := must(must(agent.New(m, agent.Options{Response: &agent.Response{Strategy: agent.ByProvider, Forms: cities}})).Invoke(ctx, pregel.Address{}, agent.Say("hi")))
	if got := must(agent.ResponseOf[map[string]string](res.Map())); got["name"] != "Oslo" {
		t.Errorf("%v", got)
	}
}

// TestInvalidForm: an answer in a form that cannot be read, beside a call of a tool, is answered as
// a failure, and the agent goes on.
func TestInvalidForm(t *testing.T) {
	mixed := message.AI("", echo("1", "x"))
	mixed.InvalidToolCalls = []message.InvalidToolCall{{Name: "City", Args: `{"name":`, ID: "2"}}
	m := model.NewScripted(model.Answer{Message: mixed}, model.Calls(city("3", "Oslo")))
	res := must(must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Response: &agent.Response{Forms: cities}})).Invoke(ctx, pregel.Address{}, agent.Say("hi")))
	answered := map[string]message.Status{}
	for _, a := range m.Requests()[1].Messages {
		if a.Type == message.TypeTool {
			answered[a.ToolCallID] = a.Status
		}
	}
	if len(answered) != 2 || answered["1"] != message.StatusSuccess || answered["2"] != message.StatusError || res.Map()[agent.KeyResponse] == nil {
		t.Errorf("answered %v, %v", answered, res.Map()[agent.KeyResponse])
	}
}

// TestDirectEdge: the tools have an edge to the end if one of them, or a form of the answer, ends the
// agent there; a tool that is ReturnDirect ends it without a structured answer.
func TestDirectEdge(t *testing.T) {
	response := &agent.Response{Forms: cities}
	for name, c := range map[string]struct {
		tools    []string
		response *agent.Response
		want     bool
	}{
		"none": {[]string{"echo"}, nil, false}, "direct": {[]string{"final"}, nil, true}, "mixed": {[]string{"echo", "final"}, nil, true}, "form": {[]string{"echo"}, response, true},
		"by provider": {[]string{"echo"}, &agent.Response{Forms: cities, Strategy: agent.ByProvider}, false},
	} {
		g := must(agent.New(model.NewScripted(), agent.Options{Tools: tools(c.tools), Response: c.response}))
		got := slices.Contains(g.Draw().Edges, pregel.Edge{From: agent.NodeTools, To: graph.End, Conditional: true})
		if got != c.want || !slices.Contains(g.Draw().Edges, pregel.Edge{From: agent.NodeTools, To: agent.NodeModel, Conditional: true}) {
			t.Errorf("%s: %v", name, g.Draw().Edges)
		}
	}
	m := model.NewScripted(model.Calls(message.ToolCall{Name: "final", ID: "1", Args: map[string]any{"text": "end"}}))
	res := must(must(agent.New(m, agent.Options{Tools: tools([]string{"final"}), Response: response})).Invoke(ctx, pregel.Address{}, agent.Say("hi")))
	if list := must(agent.Messages(res.Map())); list[len(list)-1].Text() != "end" || res.Map()[agent.KeyResponse] != nil {
		t.Errorf("%v", res.Map())
	}
}

// TestResponseRetry: a middleware gets the error of an answer that does not fit, and may ask again
// with a message that says so.
func TestResponseRetry(t *testing.T) {
	give := func(id string, args map[string]any) model.Answer {
		return model.Calls(message.ToolCall{Name: "City", ID: id, Args: args})
	}
	wrong, missing, right := give("1", map[string]any{"name": 7}), give("2", nil), give("3", map[string]any{"name": "Oslo"})
	for name, c := range map[string]struct {
		answers []model.Answer
		retries int
		asked   int
		ok      bool
	}{
		"right at once":    {[]model.Answer{right}, 2, 1, true},
		"right at last":    {[]model.Answer{wrong, missing, right}, 2, 3, true},
		"wrong to the end": {[]model.Answer{wrong, missing, wrong, right}, 2, 3, false},
		"no retries":       {[]model.Answer{wrong, right}, 0, 1, false},
	} {
		retry := agent.Middleware{Name: "retry", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			for n := 0; ; n++ {
				res, err := next(ctx, r)
				var unfit *agent.ResponseError
				if n == c.retries || !errors.As(err, &unfit) {
					return res, err
				}
				r.Messages = append(slices.Clip(r.Messages), message.Human("Error: "+err.Error()))
			}
		}}
		m := model.NewScripted(c.answers...)
		g := must(agent.New(m, agent.Options{
			Tools:      tools([]string{"echo"}),
			Middleware: []agent.Middleware{retry},
			Response: &agent.Response{
				Strategy: agent.ByTool, Forms: []agent.Form{{Name: "City", Schema: named{}}},
				Errors: func(_ context.Context, err error) (string, error) { return "", err },
			},
		}))
		res, err := g.Invoke(ctx, pregel.Address{}, agent.Say("hi"))
		var unfit *agent.ResponseError
		if errors.As(err, &unfit) == c.ok || len(m.Requests()) != c.asked {
			t.Errorf("%s: asked %d times: %v", name, len(m.Requests()), err)
			continue
		}
		for n, r := range m.Requests() {
			if last := r.Messages[len(r.Messages)-1].Text(); len(r.Messages) != n+1 || strings.HasPrefix(last, "Error: ") != (n > 0) {
				t.Errorf("%s: call %d ends with %q", name, n, last)
			}
		}
		if c.ok && must(agent.ResponseOf[struct{ Name string }](res.Map())).Name != "Oslo" {
			t.Errorf("%s: %v", name, res.Map())
		}
	}
}

// TestResponseOfARunBefore: a run that ends before the model is asked has no structured answer of a run before, unless a hook
// gives one.
func TestResponseOfARunBefore(t *testing.T) {
	leave := func(update map[string]any) agent.Hook {
		first := true
		return func(context.Context, map[string]any) (any, error) {
			if first {
				first = false
				return nil, nil
			}
			return update, nil
		}
	}
	over := map[string]any{agent.KeyJump: agent.JumpEnd}
	cached := map[string]any{agent.KeyJump: agent.JumpEnd, agent.KeyResponse: map[string]any{"name": "Rome"}}
	end := []agent.Jump{agent.JumpEnd}
	for name, c := range map[string]struct {
		m    agent.Middleware
		want any
	}{
		"a limit":                 {agent.LimitModelCalls(agent.Limit{Thread: 1}), nil},
		"before the model":        {agent.Middleware{Name: "m", Jumps: end, BeforeModel: leave(over)}, nil},
		"before the agent":        {agent.Middleware{Name: "m", Jumps: end, BeforeAgent: leave(over)}, nil},
		"before the model, given": {agent.Middleware{Name: "m", Jumps: end, BeforeModel: leave(cached)}, "Rome"},
		"before the agent, given": {agent.Middleware{Name: "m", Jumps: end, BeforeAgent: leave(cached)}, "Rome"},
	} {
		m := model.NewScripted(model.Calls(message.ToolCall{Name: "City", ID: "1", Args: map[string]any{"name": "Oslo"}}))
		g := must(agent.New(m, agent.Options{Middleware: []agent.Middleware{c.m}, Response: &agent.Response{Forms: cities}, Graph: graph.Options{Saver: newStore()}}))
		must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("The capital of Norway?")))
		res := must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("The capital of Italy?")))
		if got, _ := agent.ResponseOf[map[string]any](res.Map()); got["name"] != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
