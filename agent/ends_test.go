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

// TestEnds: an agent ends with an answer, with an error of a type, or with a stop that the result
// names. Each way to end is a row; asked is how often the model was asked.
func TestEnds(t *testing.T) {
	unread := func(name, id string) message.Message {
		m := message.AI("")
		m.InvalidToolCalls = []message.InvalidToolCall{{Name: name, Args: `{"text":`, ID: id}}
		return m
	}
	say := func(m message.Message) model.Answer { return model.Answer{Message: m} }
	told := unread("echo", "c9")
	told.Content = "Let me look."
	final := message.ToolCall{Name: "final", ID: "1", Args: map[string]any{"text": "end"}}
	bad := message.ToolCall{Name: "final", ID: "0"}
	boom := &Boom{"no"}
	form, provider := &agent.Response{Forms: cities}, &agent.Response{Forms: cities, Strategy: agent.ByProvider}
	stop := &agent.Response{Forms: cities, Errors: func(_ context.Context, err error) (string, error) { return "", err }}
	retry := agent.RetryModel(agent.Retry{Retries: 1, Delay: -1})
	with := func(tools []tool.Tool, r *agent.Response, list ...agent.Middleware) agent.Options {
		return agent.Options{Tools: tools, Response: r, Middleware: list}
	}
	echoes, direct := tools([]string{"echo"}), tools([]string{"final", "echo"})
	silent := agent.Middleware{Name: "silent", WrapModel: func(context.Context, agent.ModelRequest, agent.ModelHandler) (agent.ModelResponse, error) {
		return agent.ModelResponse{Messages: []message.Message{message.Human("hm")}}, nil
	}}
	once := agent.Middleware{Name: "once", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		res, err := next(ctx, r)
		if len(r.Messages) == 1 {
			res.Response = "old"
		} else if len(r.Messages) == 3 { // answers the call by itself
			res.Messages = append(res.Messages, message.ToolResult(res.Messages[0].ToolCalls[0], "made up"))
		}
		return res, err
	}}
	leave := agent.Middleware{Name: "leave", Jumps: []agent.Jump{agent.JumpEnd}, BeforeModel: func(context.Context, map[string]any) (any, error) {
		return map[string]any{agent.KeyJump: agent.JumpEnd, agent.KeyMessages: message.AI("We are closed.")}, nil
	}}
	summary := agent.Summarize(agent.Summary{Model: model.NewScripted(model.Text(" "), model.Text("")), Triggers: []agent.Trigger{{Messages: 1}}, Keep: agent.Trigger{Tokens: 1}, Retry: agent.Retry{Retries: 1, Delay: -1}})
	panics := tool.Must(tool.New("echo", "", object, func(context.Context, text) (string, error) { panic("oh") }))
	called, paused := message.AI(""), message.AI("")
	called.ResponseMetadata, paused.ResponseMetadata = map[string]any{"finish_reason": "tool_calls"}, map[string]any{"stop_reason": "pause_turn"}
	closed := message.AI("")
	closed.ResponseMetadata = map[string]any{"finish_reason": "content_filter"}

	blocked := message.AI("")
	blocked.ResponseMetadata = map[string]any{"prompt_feedback": map[string]any{"block_reason": "SAFETY"}}
	thoughts := message.AI("")
	thoughts.Blocks = []any{message.Block{"type": "thinking", "thinking": "hm", "signature": "s"}}
	refusal := message.AI("")
	refusal.AdditionalKwargs = map[string]any{"refusal": "no"}
	refusal.ResponseMetadata = closed.ResponseMetadata
	mute := agent.Middleware{Name: "mute", WrapModel: func(context.Context, agent.ModelRequest, agent.ModelHandler) (agent.ModelResponse, error) {
		return agent.ModelResponse{Messages: []message.Message{message.AI(" ")}}, nil
	}}
	unanswered := func(out any) agent.Middleware {
		return agent.Middleware{Name: "w", WrapTool: func(context.Context, tool.Request, tool.Runner) (any, error) { return out, nil }}
	}

	type is func(err error) bool
	one := func(target error) is { return func(err error) bool { return errors.Is(err, target) } }
	for name, c := range map[string]struct {
		o       agent.Options
		answers []model.Answer
		last    string // the end of the last message
		err     is
		asked   int
		more    string // what is said in a second run
	}{
		"a text":                              {with(echoes, nil), []model.Answer{model.Text("hello")}, "hello", nil, 1, ""},
		"a text after a tool":                 {with(echoes, nil), []model.Answer{model.Calls(echo("1", "x")), model.Text("done")}, "done", nil, 2, ""},
		"nothing, for a reason":               {with(echoes, nil), []model.Answer{say(closed)}, "", nil, 1, ""},
		"nothing, for no reason":              {with(echoes, nil), []model.Answer{model.Text("")}, "", one(model.ErrNoAnswer), 1, ""},
		"nothing, and calls that are not":     {with(echoes, nil), []model.Answer{say(called)}, "", one(model.ErrNoAnswer), 1, ""},
		"nothing, and more to come":           {with(echoes, nil), []model.Answer{say(paused)}, "", one(model.ErrNoAnswer), 1, ""},
		"white space":                         {with(nil, nil), []model.Answer{model.Text(" \n")}, "", one(model.ErrNoAnswer), 1, ""},
		"thoughts alone":                      {with(echoes, nil), []model.Answer{say(thoughts)}, "", one(model.ErrNoAnswer), 1, ""},
		"nothing in place of a form":          {with(nil, form), []model.Answer{model.Text("")}, "", one(model.ErrNoAnswer), 1, ""},
		"a prompt that was blocked":           {with(echoes, nil), []model.Answer{say(blocked)}, "", nil, 1, ""},
		"nothing, then something":             {with(echoes, nil, retry), []model.Answer{model.Text(""), model.Text("now")}, "now", nil, 2, ""},
		"a refusal":                           {with(echoes, nil), []model.Answer{say(refusal)}, "", nil, 1, ""},
		"a middleware with nothing to say":    {with(echoes, nil, mute), nil, "", one(model.ErrNoAnswer), 0, ""},
		"a call that ends, unanswered":        {with(direct, nil, unanswered(pregel.Command{})), []model.Answer{model.Calls(final), model.Text("so")}, "so", nil, 2, ""},
		"one that ends, another answered":     {with(direct, nil, unanswered(message.ToolResult(message.ToolCall{ID: "other"}, "x"))), []model.Answer{model.Calls(final), model.Text("so")}, "so", nil, 2, ""},
		"a call that cannot be read":          {with(echoes, nil), []model.Answer{say(unread("echo", "c9")), model.Text("sorry")}, "sorry", nil, 2, ""},
		"one without an id":                   {with(echoes, nil), []model.Answer{say(unread("echo", "")), model.Text("sorry")}, "sorry", nil, 2, ""},
		"one with words":                      {with(echoes, nil), []model.Answer{say(told), model.Text("sorry")}, "sorry", nil, 2, ""},
		"one beside a hook":                   {with(echoes, nil, agent.LimitModelCalls(agent.Limit{Run: 5})), []model.Answer{say(told), model.Text("sorry")}, "sorry", nil, 2, ""},
		"one of a form":                       {with(nil, form), []model.Answer{say(unread("City", "c9")), model.Calls(city("1", "Oslo"))}, "{'name': 'Oslo'}", nil, 2, ""},
		"one of a form, with tools":           {with(echoes, form), []model.Answer{say(unread("City", "c9")), model.Calls(city("1", "Oslo"))}, "{'name': 'Oslo'}", nil, 2, ""},
		"one before a form by provider":       {with(echoes, provider), []model.Answer{say(unread("echo", "c9")), model.Text(`{"name": "Oslo"}`)}, `{"name": "Oslo"}`, nil, 2, ""},
		"a call, and no tools":                {with(nil, nil), []model.Answer{model.Calls(echo("1", "x"))}, "", one(agent.ErrUnknownTool), 1, ""},
		"a call, no tools, by provider":       {with(nil, provider), []model.Answer{model.Calls(echo("1", "x"))}, "", one(agent.ErrUnknownTool), 1, ""},
		"an unread call, and no tools":        {with(nil, nil), []model.Answer{say(unread("echo", "c9"))}, "", one(agent.ErrUnknownTool), 1, ""},
		"an unread call, none, by provider":   {with(nil, provider), []model.Answer{say(unread("echo", "c9"))}, "", one(agent.ErrUnknownTool), 1, ""},
		"a middleware that says nothing":      {with(echoes, nil, silent), nil, "", one(model.ErrNoAnswer), 0, ""},
		"a middleware that leaves":            {with(echoes, nil, leave), nil, "We are closed.", nil, 0, ""},
		"a tool that ends":                    {with(direct, nil), []model.Answer{model.Calls(final)}, "end", nil, 1, ""},
		"a tool that ends, and fails":         {with(direct, nil), []model.Answer{model.Calls(bad), model.Calls(final)}, "end", nil, 2, ""},
		"one that ends, one that is not":      {with(direct, nil), []model.Answer{model.Calls(final, message.ToolCall{Name: "nope", ID: "2"}), model.Text("so")}, "so", nil, 2, ""},
		"one that ends, one unread":           {with(direct, nil), []model.Answer{say(both(final, unread("echo", "c9"))), model.Text("so")}, "so", nil, 2, ""},
		"a tool that fails":                   {with(tools([]string{"fail"}), nil), []model.Answer{model.Calls(message.ToolCall{Name: "fail", ID: "1", Args: map[string]any{"text": "x"}})}, "", func(err error) bool { return errors.As(err, new(*Boom)) }, 1, ""},
		"a tool that panics":                  {with([]tool.Tool{panics}, nil), []model.Answer{model.Calls(echo("1", "x"))}, "", func(err error) bool { return errors.As(err, new(*pregel.PanicError)) }, 1, ""},
		"calls without end":                   {with(echoes, nil), slices.Repeat([]model.Answer{model.Calls(echo("1", "x"))}, 20), "", func(err error) bool { return errors.As(err, new(*pregel.RecursionError)) }, 10, ""},
		"unread calls without end":            {with(echoes, nil), slices.Repeat([]model.Answer{say(unread("echo", "c9"))}, 21), "", func(err error) bool { return errors.As(err, new(*pregel.RecursionError)) }, 20, ""},
		"texts in place of a form":            {with(nil, form), slices.Repeat([]model.Answer{model.Text("no")}, 21), "", func(err error) bool { return errors.As(err, new(*pregel.RecursionError)) }, 20, ""},
		"a text in place of a form, tools":    {with(echoes, form), []model.Answer{model.Text("Which city?")}, "Which city?", nil, 1, ""},
		"a wrong form, stop":                  {with(nil, stop), []model.Answer{model.Calls(message.ToolCall{Name: "City", ID: "1"})}, "", func(err error) bool { return errors.As(err, new(*agent.ResponseError)) }, 1, ""},
		"a wrong form by provider":            {with(echoes, provider), []model.Answer{model.Text("")}, "", func(err error) bool { return errors.As(err, new(*agent.ResponseError)) }, 1, ""},
		"a model that fails":                  {with(echoes, nil), []model.Answer{model.Fail(boom)}, "", one(boom), 1, ""},
		"one that fails again":                {with(echoes, nil, retry), []model.Answer{model.Fail(boom), model.Fail(boom)}, "Model call failed after 2 attempts with Boom: no", nil, 2, ""},
		"one that fails again, form":          {with(nil, form, retry), []model.Answer{model.Fail(boom), model.Fail(boom)}, "", one(boom), 2, ""},
		"one that fails again, form, tools":   {with(echoes, form, retry), []model.Answer{model.Fail(boom), model.Fail(boom)}, "", one(boom), 2, ""},
		"a fallback that fails":               {with(echoes, nil, agent.Fallback(model.NewScripted(model.Fail(boom)))), []model.Answer{model.Fail(errors.New("first"))}, "", one(boom), 1, ""},
		"a limit of the model":                {with(echoes, nil, agent.LimitModelCalls(agent.Limit{Run: 1})), []model.Answer{model.Calls(echo("1", "x"))}, "Model call limits exceeded: run limit (1/1)", nil, 1, ""},
		"a limit of the model, stop":          {with(echoes, nil, agent.LimitModelCalls(agent.Limit{Run: 1, Exceeded: agent.Stop})), []model.Answer{model.Calls(echo("1", "x"))}, "", func(err error) bool { return errors.As(err, new(*agent.LimitError)) }, 1, ""},
		"a limit of tools, end":               {with(echoes, nil, agent.LimitToolCalls("", agent.Limit{Run: 1, Exceeded: agent.End})), []model.Answer{model.Calls(echo("1", "x"), echo("2", "y"))}, "Tool call limit reached: run limit exceeded (2/1 calls).", nil, 1, ""},
		"a limit of tools, stop":              {with(echoes, nil, agent.LimitToolCalls("", agent.Limit{Run: 1, Exceeded: agent.Stop})), []model.Answer{model.Calls(echo("1", "x"), echo("2", "y"))}, "", func(err error) bool { return errors.As(err, new(*agent.LimitError)) }, 1, ""},
		"a limit of tools, continue":          {with(echoes, nil, agent.LimitToolCalls("", agent.Limit{Run: 1})), []model.Answer{model.Calls(echo("1", "x"), echo("2", "y")), model.Text("enough")}, "enough", nil, 2, ""},
		"an empty summary":                    {with(echoes, nil, summary), nil, "", one(model.ErrNoAnswer), 0, ""},
		"an old structured answer is no end":  {with(echoes, nil, once), []model.Answer{model.Text("a"), model.Calls(echo("1", "x")), model.Text("new")}, "new", nil, 3, "more"},
		"a model that is interrupted midway":  {with(echoes, nil), []model.Answer{{Message: message.AI("half a"), Err: boom}}, "", one(boom), 1, ""},
		"a person's no to a tool that ends":   {with(direct, nil, agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"final": {}}})), []model.Answer{model.Calls(final), model.Text("fine")}, "fine", nil, 2, "-"},
		"a person's no to it when it starts":  {with(direct, nil, agent.AskPerson(agent.Review{PerCall: true, Tools: map[string]agent.Gate{"final": {}}})), []model.Answer{model.Calls(final), model.Text("fine")}, "fine", nil, 2, "-"},
		"a question":                          {with(tools([]string{"ask"}), nil), []model.Answer{model.Calls(message.ToolCall{Name: "ask", ID: "1", Args: map[string]any{"text": "?"}})}, "", nil, 1, ""},
		"a structured answer beside a broken": {with(nil, form), []model.Answer{say(both(city("1", "Oslo"), unread("City", "c9")))}, "{'name': 'Oslo'}", nil, 1, ""},
	} {
		if len(c.o.Middleware) > 0 && c.o.Middleware[0].Name == "SummarizationMiddleware" {
			c.answers = append(c.answers, model.Text("never"))
		}
		m := model.NewScripted(c.answers...)
		c.o.Graph = graph.Options{Saver: newStore()}
		g, at, bounded := must(agent.New(m, c.o)), pregel.Thread("1"), pregel.RunOptions{RecursionLimit: 20}
		input := any(agent.Say("hi"))
		if name == "an empty summary" {
			input = map[string]any{agent.KeyMessages: []message.Message{message.Human("hi"), message.AI("a"), message.Human("more")}}
		}
		res, err := g.Invoke(ctx, at, input, bounded)
		if c.more == "-" {
			no := func(agent.ActionRequest) agent.Decision { return agent.Decision{Type: agent.Reject} }
			answer, wrong := agent.Decide(res.Interrupts[0], no)
			if wrong != nil || len(answer.Resume.(map[string]any)[res.Interrupts[0].ID].(agent.ReviewAnswer).Decisions) == 0 {
				answer = must(agent.DecideEach(res.Interrupts, func(agent.Approval) agent.Decision { return agent.Decision{Type: agent.Reject} }))
			}
			res, err = g.Invoke(ctx, at, answer, bounded)
		} else if c.more != "" {
			res, err = g.Invoke(ctx, at, agent.Say(c.more), bounded)
		}
		if n := len(m.Requests()); n != c.asked {
			t.Errorf("%s: the model was asked %d times, want %d", name, n, c.asked)
		}
		if c.err != nil || err != nil {
			if c.err == nil || err == nil || !c.err(err) {
				t.Errorf("%s: error %v", name, err)
			}
			continue
		}
		list := must(agent.Messages(res.Map()))
		last := list[len(list)-1]
		if !strings.HasSuffix(last.Text(), c.last) || c.last == "" && len(res.Interrupts) == 0 && len(last.ResponseMetadata) == 0 {
			t.Errorf("%s: ends with %q", name, last.Text())
		}
		if _, none := agent.ResponseOf[map[string]any](res.Map()); c.o.Response != nil && (none == nil) != strings.Contains(c.last, "Oslo") {
			t.Errorf("%s: the structured answer: %v", name, none)
		}
	}
}

// both is a message with a call and one that cannot be read.
func both(c message.ToolCall, m message.Message) message.Message {
	m.ToolCalls = []message.ToolCall{c}
	return m
}

// TestSummaryIsWhole: a summary that is cut off, withheld, or a call, takes the place of no conversation.
func TestSummaryIsWhole(t *testing.T) {
	because := func(key string, reason any) message.Message {
		m := message.AI("## Goal\nThe person wan")
		m.ResponseMetadata = map[string]any{key: reason}
		return m
	}
	for name, bad := range map[string]message.Message{
		"cut off, OpenAI": because("finish_reason", "length"), "cut off, Anthropic": because("stop_reason", "max_tokens"), "cut off, Google": because("finish_reason", "MAX_TOKENS"),
		"filtered": because("finish_reason", "content_filter"), "refused": because("stop_reason", "refusal"), "a call": message.AI("Let me", echo("1", "x")),
	} {
		for _, second := range []model.Answer{{Message: bad}, model.Text("Nuts make the person ill.")} {
			short := agent.Summarize(agent.Summary{Model: model.NewScripted(model.Answer{Message: bad}, second), Triggers: []agent.Trigger{{Messages: 3}}, Keep: agent.Trigger{Messages: 1}, Retry: agent.Retry{Retries: 1, Delay: -1}})
			g := must(agent.New(model.NewScripted(model.Text("done")), agent.Options{Middleware: []agent.Middleware{short}, Graph: graph.Options{Saver: newStore()}}))
			err := invoke(g, map[string]any{"messages": []message.Message{message.Human("I am allergic to nuts"), message.AI("ok"), message.Human("Cook!")}})
			if whole := second.Message.Text() != bad.Text(); whole && err != nil || !whole && (!errors.Is(err, model.ErrNoAnswer) || len(head(g)) != 3) {
				t.Errorf("%s: %v, %q", name, err, stored(g))
			}
		}
	}
}
