package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestRetryTimes: a model that works is asked once, and one that fails three times; a middleware
// around the retry is called once.
func TestRetryTimes(t *testing.T) {
	for want, asked := range map[string]int{"hello": 1, "Model call failed after 3 attempts with Boom: no": 3} {
		m := model.NewScriptedFunc(func(context.Context, model.Request) (model.Answer, error) {
			if asked == 1 {
				return model.Text("hello"), nil
			}
			return model.Fail(&Boom{"no"}), nil
		})
		around := 0
		log := agent.Middleware{Name: "log", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			around++
			return next(ctx, r)
		}}
		g := must(agent.New(m, agent.Options{Middleware: []agent.Middleware{log, agent.RetryModel(agent.Retry{Delay: -1})}}))
		list := must(agent.Messages(must(g.Invoke(ctx, pregel.Address{}, agent.Say("hi"))).Map()))
		if got := list[1].Text(); got != want || len(m.Requests()) != asked || around != 1 {
			t.Errorf("got %q, want %q; asked %d times, around %d", got, want, len(m.Requests()), around)
		}
	}
}

// TestModelQuestion: a question that a middleware asks in a call of the model is no failure of the
// model: nobody tries it again, and no other model is asked.
func TestModelQuestion(t *testing.T) {
	for stage, want := range map[string]int{"first": 1, "other": 2} {
		main, other, calls := model.NewScripted(model.Text("first")), model.NewScripted(model.Text("other")), 0
		ask := agent.Middleware{Name: "ask", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			calls++
			if r.Model == model.Model(main) && stage == "other" {
				return agent.ModelResponse{}, errors.New("busy")
			}
			if _, err := pregel.AskFor[string](ctx, "sure?"); err != nil {
				return agent.ModelResponse{}, err
			}
			return next(ctx, r)
		}}
		g := must(agent.New(main, agent.Options{
			Middleware: []agent.Middleware{agent.RetryModel(agent.Retry{Delay: -1}), agent.Fallback(other), ask},
			Graph:      graph.Options{Saver: newStore()},
		}))
		res := must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
		if len(res.Interrupts) != 1 || calls != want || len(main.Requests())+len(other.Requests()) != 0 {
			t.Errorf("%s: %d calls, questions %v", stage, calls, res.Interrupts)
		}
		list := must(agent.Messages(must(g.Invoke(ctx, pregel.Thread("1"), pregel.Command{Resume: "yes"})).Map()))
		if got := list[len(list)-1].Text(); got != stage {
			t.Errorf("%s: answered %q", stage, got)
		}
	}
}
