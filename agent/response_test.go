package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/model"
	"github.com/stele-go/stele/pregel"
)

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
