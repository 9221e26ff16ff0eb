package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

func echo(id, text string) message.ToolCall {
	return message.ToolCall{Name: "echo", ID: id, Args: map[string]any{"text": text}}
}

// TestOptions: an agent that cannot be made is an error that says why.
func TestOptions(t *testing.T) {
	m := model.NewScripted()
	form := agent.Form{Name: "City", Schema: named{}}
	with := func(list ...agent.Middleware) agent.Options { return agent.Options{Middleware: list} }
	hello := func(context.Context, map[string]any) (any, error) { return nil, nil }
	for name, o := range map[string]agent.Options{
		"no name":           with(agent.Middleware{BeforeModel: hello}),
		"two of one name":   with(agent.Middleware{Name: "a"}, agent.Middleware{Name: "a"}),
		"own messages":      {State: []graph.Field{graph.Key("messages", nil)}},
		"a key twice":       {State: []graph.Field{graph.Key("a", nil), graph.Key("a", nil)}},
		"no forms":          {Response: &agent.Response{}},
		"two for provider":  {Response: &agent.Response{Strategy: agent.ByProvider, Forms: []agent.Form{form, {Name: "Land", Schema: named{}}}}},
		"strategy":          {Response: &agent.Response{Strategy: "guess", Forms: []agent.Form{form}}},
		"form of no name":   {Response: &agent.Response{Forms: []agent.Form{{Schema: named{}}}}},
		"forms of one name": {Response: &agent.Response{Forms: []agent.Form{form, form}}},
		"form of no JSON":   {Response: &agent.Response{Forms: []agent.Form{{Name: "a", Schema: tool.Unchecked("{")}}}},
		"tool and form":     {Tools: tools([]string{"echo"}), Response: &agent.Response{Forms: []agent.Form{{Name: "echo", Schema: named{}}}}},
		"no limit":          with(agent.LimitModelCalls(agent.Limit{})),
		"continue":          with(agent.LimitModelCalls(agent.Limit{Run: 1, Exceeded: agent.Continue})),
		"run above thread":  with(agent.LimitToolCalls("", agent.Limit{Run: 2, Thread: 1})),
		"negative":          with(agent.LimitToolCalls("", agent.Limit{Run: -1})),
		"no fallback":       with(agent.Fallback()),
		"nil fallback":      with(agent.Fallback(nil)),
		"negative delay":    with(agent.RetryModel(agent.Retry{MaxDelay: -1})),
		"negative factor":   with(agent.RetryTools(agent.Retry{Factor: -1})),
		"decision":          with(agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"a": {Decisions: []agent.DecisionType{"shrug"}}}})),
		"no decisions":      with(agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"a": {Decisions: []agent.DecisionType{}}}})),
		"gate of no tool":   {Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"ecko": {}}})}},
		"limit of no tool":  {Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{agent.LimitToolCalls("ecko", agent.Limit{Run: 1})}},
		"retry of no tool":  {Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{agent.RetryTools(agent.Retry{}, "ecko")}},
		"no model":          with(agent.Summarize(agent.Summary{Triggers: []agent.Trigger{{Messages: 3}}})),
		"no trigger":        with(agent.Summarize(agent.Summary{Model: m})),
		"no room to tell":   with(agent.Summarize(agent.Summary{Model: m, Triggers: []agent.Trigger{{Messages: 3}}, MaxTokens: 3})),
		"empty trigger":     with(agent.Summarize(agent.Summary{Model: m, Triggers: []agent.Trigger{{}}})),
		"two ways to keep":  with(agent.Summarize(agent.Summary{Model: m, Triggers: []agent.Trigger{{Messages: 3}}, Keep: agent.Trigger{Messages: 1, Tokens: 1}})),
	} {
		if _, err := agent.New(m, o); !errors.Is(err, agent.ErrOptions) || strings.Contains(err.Error(), "Middleware") && !strings.Contains(err.Error(), "have the name") {
			t.Errorf("%s, in the words of the program: %v", name, err)
		}
	}
	if _, err := agent.New(nil, agent.Options{}); !errors.Is(err, agent.ErrOptions) {
		t.Errorf("no model: %v", err)
	}
	if _, err := agent.New(m, agent.Options{Tools: tools([]string{"echo", "echo"})}); !errors.Is(err, tool.ErrDefinition) {
		t.Errorf("two tools: %v", err)
	}
}

// TestShown: mode messages shows the words of an agent once each, and no summary.
func TestShown(t *testing.T) {
	m := model.NewScripted(model.Calls(echo("1", "x")), model.Text("well then done"))
	summary := agent.Summarize(agent.Summary{Model: model.NewScripted(model.Text("it was so")), Triggers: []agent.Trigger{{Messages: 3}}, Keep: agent.Trigger{Messages: 1}})
	g := must(agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{summary}}))
	var words []string
	for e, err := range g.Stream(ctx, pregel.Address{}, agent.Say("hi"), pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
		if err != nil {
			t.Fatal(err)
		}
		event := e.Data.(pregel.MessageEvent)
		if c, ok := event.Message.(message.Chunk); ok && c.Content != "" {
			words = append(words, c.Content)
		} else if m, ok := event.Message.(message.Message); ok && m.Type == message.TypeAI {
			t.Errorf("shown again: %q", m.Text())
		}
	}
	if got := strings.Join(words, "|"); got != "well |then |done" {
		t.Errorf("shown %q", got)
	}
}

// TestDecideAfterRestart: the decisions of a person are given as Go values, and what crosses a
// superstep may come from the store.
func TestDecideAfterRestart(t *testing.T) {
	sv := memory.New(memory.Options{})
	build := func(answers ...model.Answer) *pregel.Graph {
		described := agent.Gate{
			Describe: func(_ context.Context, c message.ToolCall, _ map[string]any) (string, error) {
				return "say " + c.ID, nil
			},
			When: func(_ context.Context, c message.ToolCall, _ map[string]any) (bool, error) {
				return c.ID != "free", nil
			},
		}
		return must(agent.New(model.NewScripted(answers...), agent.Options{
			Tools:      tools([]string{"echo"}),
			Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"echo": described}, Notice: "Edited."})},
			Graph:      graph.Options{Saver: sv, RoundTrip: true},
		}))
	}
	at := pregel.Thread("1")
	must(build(model.Calls(echo("1", "a"), echo("free", "b"), echo("3", "c"))).Invoke(ctx, at, agent.Say("hi")))
	g := build(model.Text("done"))
	q := must(channel.Convert[agent.ReviewRequest](must(g.GetState(ctx, at)).Interrupts[0].Value))
	if len(q.Actions) != 2 || q.Actions[1].Description != "say 3" || q.Actions[0].Args["text"] != "a" || q.Configs[0].Name != "echo" || len(q.Configs[0].Decisions) != 4 {
		t.Errorf("asked %+v", q)
	}
	res := must(g.Invoke(ctx, at, pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{
		{Type: agent.Edit, Edited: &agent.Action{Name: "echo", Args: map[string]any{"text": `<"b", {c}: "\">`}}}, {Type: agent.Reject, Message: "no"},
	}}}))
	var texts []string
	for _, m := range must(agent.Messages(res.Map()))[2:] {
		texts = append(texts, m.Text())
	}
	slices.Sort(texts)
	want := []string{
		"Edited. Executed instead: echo with arguments {\"text\": \"<\\\"b\\\", {c}: \\\"\\\\\\\">\"}.\n\nTool response:\n<\"b\", {c}: \"\\\">",
		"User rejected the tool call for `echo` with reason: no", "b", "done",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
}

// TestUnusableEdit: an edit needs the edited call, and a call with an id, which one that no model made
// may lack.
func TestUnusableEdit(t *testing.T) {
	for id, edited := range map[string]*agent.Action{"1": nil, "2": {}, "": {Name: "echo"}} {
		words := map[string]string{"1": "has no edited_action;", "2": "has no edited_action.name;", "": "that has no id"}[id]
		made := agent.Middleware{Name: "made", WrapModel: func(context.Context, agent.ModelRequest, agent.ModelHandler) (agent.ModelResponse, error) {
			return agent.ModelResponse{Messages: []message.Message{message.AI("", echo(id, "a"))}}, nil
		}}
		g := must(agent.New(model.NewScripted(), agent.Options{
			Tools:      tools([]string{"echo"}),
			Middleware: []agent.Middleware{made, agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"echo": {}}})},
			Graph:      graph.Options{Saver: memory.New(memory.Options{})},
		}))
		must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
		answer := agent.ReviewAnswer{Decisions: []agent.Decision{{Type: agent.Edit, Edited: edited}}}
		if _, err := g.Invoke(ctx, pregel.Thread("1"), pregel.Command{Resume: answer}); !errors.Is(err, agent.ErrDecision) || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v; want %q", id, err, words)
		}
	}
}

// TestEditedCommand: the notice is put before the answer of a tool that returns a Command, and of
// one that returns blocks.
func TestEditedCommand(t *testing.T) {
	set := must(tool.New("set", "", object, func(ctx context.Context, in text) (any, error) {
		call, _ := tool.CallOf(ctx)
		if in.Text == "blocks" {
			return []message.Block{message.TextBlock("b")}, nil
		}
		if in.Text == "" {
			return message.ToolResult(call.ToolCall, ""), nil
		}
		return []any{pregel.Command{Update: map[string]any{"messages": message.ToolResult(call.ToolCall, in.Text)}}}, nil
	}))
	for text, want := range map[string]string{"c": "N Executed instead: set with arguments {\"text\": \"c\"}.\n\nTool response:\nc", "blocks": "N Executed instead: set with arguments {\"text\": \"blocks\"}.\n\nTool response:b", "": "N Executed instead: set with arguments {\"text\": \"\"}."} {
		g := must(agent.New(model.NewScripted(model.Calls(message.ToolCall{Name: "set", ID: "1"}), model.Text("done")), agent.Options{
			Tools:      []tool.Tool{set},
			Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Notice: "N", Tools: map[string]agent.Gate{"set": {}}})},
			Graph:      graph.Options{Saver: memory.New(memory.Options{})},
		}))
		must(g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi")))
		res := must(g.Invoke(ctx, pregel.Thread("1"), pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{{Type: agent.Edit, Edited: &agent.Action{Name: "set", Args: map[string]any{"text": text}}}}}}))
		if got := must(agent.Messages(res.Map()))[2].Text(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestJumpNotAllowed: a hook that jumps where it may not fails the run.
func TestJumpNotAllowed(t *testing.T) {
	end := map[string]any{"jump_to": agent.JumpEnd}
	send := pregel.Send{Node: "tools", Arg: echo("1", "x")}
	for _, out := range []any{
		end, pregel.Command{Update: map[string]any{"jump_to": "nowhere"}}, map[string]any{"jump_to": "tools"}, &pregel.Command{Update: end}, []pregel.Command{{Update: end}},
		[]any{pregel.Command{}, end}, pregel.Command{Goto: "tools"}, pregel.Command{Graph: "m.after_model", Goto: "tools"}, pregel.Command{Goto: []string{"model"}}, send, &send, pregel.Command{Goto: []pregel.Send{send}},
		[]any{map[string]any{}, &pregel.Command{Goto: []any{&send}}},
	} {
		m := agent.Middleware{Name: "m", Jumps: []agent.Jump{agent.JumpModel, agent.JumpTools}, AfterModel: func(context.Context, map[string]any) (any, error) { return out, nil }}
		g := must(agent.New(model.NewScripted(model.Text("a")), agent.Options{Middleware: []agent.Middleware{m}}))
		var jump *agent.JumpError
		if _, err := g.Invoke(ctx, pregel.Address{}, agent.Say("hi")); !errors.As(err, &jump) || jump.Node != "m.after_model" {
			t.Errorf("%v: %v", out, err)
		}
	}
}

// TestUnknownTool: a middleware may not give the model a tool that nobody can run; one that runs it
// may.
func TestUnknownTool(t *testing.T) {
	add := agent.Middleware{Name: "add", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		r.Tools = append(r.Tools, tool.Definition{Name: "magic"})
		res, err := next(ctx, r)
		res.Updates = append(res.Updates, map[string]any{"topic": "magic"})
		return res, err
	}}
	state := []graph.Field{graph.Key("topic", channel.LastValue[string]())}
	g := must(agent.New(model.NewScripted(), agent.Options{Middleware: []agent.Middleware{add}, State: state}))
	if _, err := g.Invoke(ctx, pregel.Address{}, agent.Say("hi")); !errors.Is(err, agent.ErrUnknownTool) {
		t.Errorf("error %v", err)
	}
	run := agent.Middleware{Name: "run", WrapTool: func(_ context.Context, r tool.Request, _ tool.Runner) (any, error) {
		return "it is " + r.Name, nil
	}}
	m := model.NewScripted(model.Calls(message.ToolCall{Name: "magic", ID: "1"}), model.Text("done"))
	g = must(agent.New(m, agent.Options{Middleware: []agent.Middleware{add, run}, State: state}))
	res := must(g.Invoke(ctx, pregel.Address{}, agent.Say("hi")))
	if got := must(agent.Messages(res.Map()))[2].Text(); got != "it is magic" || res.Map()["topic"] != "magic" {
		t.Errorf("answer %q, topic %v", got, res.Map()["topic"])
	}
}

// TestResponseOf: a structured answer is read as a struct; forms that the agent was made without
// are refused.
func TestResponseOf(t *testing.T) {
	type city struct {
		Name string `json:"name"`
	}
	form := agent.Form{Name: "City", Schema: named{}}
	g := must(agent.New(model.NewScripted(model.Calls(message.ToolCall{Name: "City", ID: "1", Args: map[string]any{"name": "Oslo"}})), agent.Options{Response: &agent.Response{Forms: []agent.Form{form}}}))
	res := must(g.Invoke(ctx, pregel.Address{}, agent.Say("hi")))
	if got, err := agent.ResponseOf[city](res.Map()); err != nil || got.Name != "Oslo" {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := agent.ResponseOf[int](res.Map()); err == nil {
		t.Error("an object was read as a number")
	}
	if _, err := agent.ResponseOf[city](nil); !errors.Is(err, agent.ErrNoResponse) {
		t.Errorf("error %v", err)
	}
	other := agent.Middleware{Name: "other", WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		r.Response = &agent.Response{Forms: []agent.Form{{Name: "Land", Schema: named{}}}}
		return next(ctx, r)
	}}
	g = must(agent.New(model.NewScripted(), agent.Options{Response: &agent.Response{Forms: []agent.Form{form}}, Middleware: []agent.Middleware{other}}))
	if _, err := g.Invoke(ctx, pregel.Address{}, agent.Say("hi")); !errors.Is(err, agent.ErrOptions) {
		t.Errorf("error %v", err)
	}
}

// TestProviderText: an answer in the provider's own way keeps its integers; a text that is no object
// is a *ResponseError.
func TestProviderText(t *testing.T) {
	r := &agent.Response{Strategy: agent.ByProvider, Forms: []agent.Form{{Name: "City", Schema: named{}, Strict: true}}}
	m := model.NewScripted(model.Text(`{"name": "Oslo", "people": 717710}`))
	res := must(must(agent.New(m, agent.Options{Response: r})).Invoke(ctx, pregel.Address{}, agent.Say("hi")))
	if got := res.Map()[agent.KeyResponse].(map[string]any)["people"]; got != int64(717710) {
		t.Errorf("got %v, a %T", got, got)
	}
	if f := m.Requests()[0].Format; f == nil || !f.Strict || f.Name != "City" || !strings.Contains(string(f.Schema), "required") {
		t.Errorf("format %+v", f)
	}
	for _, text := range []string{"[1]", "null", "", `{"name": "Oslo"} and more`, `{"name": 1}`} {
		var wrong *agent.ResponseError
		if _, err := must(agent.New(model.NewScripted(model.Text(text)), agent.Options{Response: r})).Invoke(ctx, pregel.Address{}, agent.Say("hi")); !errors.As(err, &wrong) || wrong.Message.Text() != text {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// busy is what a provider says that has too much to do.
type busy struct{ after time.Duration }

func (b busy) Error() string             { return "busy" }
func (b busy) RetryAfter() time.Duration { return b.after }

// TestRetryWaits: a retry waits as long as the provider says, and no longer than the run lives.
func TestRetryWaits(t *testing.T) {
	within, cancel := context.WithCancel(ctx)
	m := model.NewScriptedFunc(func(context.Context, model.Request) (model.Answer, error) {
		time.AfterFunc(time.Millisecond, cancel)
		return model.Fail(fmt.Errorf("asking: %w", busy{time.Hour})), nil
	})
	g := must(agent.New(m, agent.Options{Middleware: []agent.Middleware{agent.RetryModel(agent.Retry{Delay: -1})}}))
	if _, err := g.Invoke(within, pregel.Address{}, agent.Say("hi")); !errors.Is(err, context.Canceled) || len(m.Requests()) != 1 {
		t.Errorf("asked %d times: %v", len(m.Requests()), err)
	}
}

// TestRetryAsksNobodyTwice: a question of a tool is no failure; an error that is not to be tried
// again is returned.
func TestRetryAsksNobodyTwice(t *testing.T) {
	calls := 0
	once := must(tool.New("once", "", object, func(ctx context.Context, in text) (string, error) {
		calls++
		if in.Text == "ask" {
			return pregel.AskFor[string](ctx, "sure?")
		}
		return "", errors.ErrUnsupported
	}))
	for text, on := range map[string]func(error) bool{"ask": nil, "fail": func(err error) bool { return !errors.Is(err, errors.ErrUnsupported) }} {
		calls = 0
		g := must(agent.New(model.NewScripted(model.Calls(message.ToolCall{Name: "once", ID: "1", Args: map[string]any{"text": text}})), agent.Options{
			Tools: []tool.Tool{once}, Graph: graph.Options{Saver: memory.New(memory.Options{})},
			Middleware: []agent.Middleware{agent.RetryTools(agent.Retry{Delay: -1, On: on}), agent.Fallback(model.NewScripted())},
		}))
		res, err := g.Invoke(ctx, pregel.Thread("1"), agent.Say("hi"))
		if calls != 1 || text == "ask" && (err != nil || len(res.Interrupts) != 1) || text == "fail" && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: called %d times: %v", text, calls, err)
		}
	}
}

// TestRetryLeavesQuestions: a tool refuses a person's answer. Its question waits for another, and no
// retry asks it again or answers in its place.
func TestRetryLeavesQuestions(t *testing.T) {
	calls := 0
	age := must(tool.New("age", "", object, func(ctx context.Context, _ text) (int, error) {
		calls++
		return pregel.AskFor[int](ctx, "how old?")
	}))
	g := must(agent.New(model.NewScripted(model.Calls(message.ToolCall{Name: "age", ID: "1", Args: map[string]any{"text": ""}}), model.Text("done")), agent.Options{
		Tools: []tool.Tool{age}, Graph: graph.Options{Saver: memory.New(memory.Options{})},
		Middleware: []agent.Middleware{agent.RetryTools(agent.Retry{Delay: -1})},
	}))
	at := pregel.Thread("1")
	must(g.Invoke(ctx, at, agent.Say("hi")))
	var refused *pregel.AnswerError
	if _, err := g.Invoke(ctx, at, pregel.Command{Resume: "old"}); !errors.As(err, &refused) || calls != 2 {
		t.Errorf("called %d times: %v", calls, err)
	}
	if res, err := g.Invoke(ctx, at, pregel.Command{Resume: 7}); err != nil || must(agent.Messages(res.Map()))[2].Text() != "7" {
		t.Errorf("%v", err)
	}
}

// TestFailedText: the text for the last error is the program's own.
func TestFailedText(t *testing.T) {
	fail := model.Fail(errors.New("no"))
	for want, o := range map[string]agent.Retry{"sorry: no": {Failed: func(err error) string { return "sorry: " + err.Error() }}, "Model call failed after 1 attempt: no": {}} {
		o.Retries = -1
		g := must(agent.New(model.NewScripted(fail), agent.Options{Middleware: []agent.Middleware{agent.RetryModel(o)}}))
		res := must(g.Invoke(ctx, pregel.Address{}, agent.Say("hi")))
		if got := must(agent.Messages(res.Map()))[1].Text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSummaryFails: without a summary the run fails, and nothing is removed; what is to be
// summarized is bounded.
func TestSummaryFails(t *testing.T) {
	boom := errors.New("boom")
	asked := model.NewScripted(model.Fail(boom), model.Fail(boom), model.Text(" so "))
	s := agent.Summary{Model: asked, Triggers: []agent.Trigger{{Messages: 2}}, Keep: agent.Trigger{Messages: 1}, Retry: agent.Retry{Delay: -1, Retries: 1}, Prompt: "short: {messages}"}
	g := must(agent.New(model.NewScripted(model.Text("a"), model.Text("b")), agent.Options{Middleware: []agent.Middleware{agent.Summarize(s)}, Graph: graph.Options{Saver: memory.New(memory.Options{})}}))
	at := pregel.Thread("1")
	must(g.Invoke(ctx, at, agent.Say("hi")))
	if _, err := g.Invoke(ctx, at, agent.Say("more")); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	res := must(g.Invoke(ctx, at, nil))
	if got := must(agent.Messages(res.Map()))[0].Text(); got != "Here is a summary of the conversation to date:\n\nso" {
		t.Errorf("got %q", got)
	}
	if got := asked.Requests()[2].Messages[0].Text(); got != "short: human: hi\nai: a" {
		t.Errorf("asked %q", got)
	}
}

// TestSummaryBound: a negative bound gives the model the whole conversation, and any other the end of
// it, also where that is in the middle of a word, and the summary before.
func TestSummaryBound(t *testing.T) {
	old := message.Human("Here is a summary of the conversation to date:\n\nThe cat is Tom.")
	old.AdditionalKwargs = map[string]any{"lc_source": "summarization"}
	rounds := []message.Message{message.Human("go")}
	for n := range 400 {
		id := fmt.Sprint(n)
		rounds = append(rounds, message.AI("", echo(id, "round "+id)), message.ToolResult(echo(id, ""), "answer "+id))
	}
	words := message.Human("first" + strings.Repeat(" word", 5000) + " last")
	letters := message.Human("first" + strings.Repeat("ä", 20000) + "last")
	for name, c := range map[string]struct {
		bound       int
		list        []message.Message
		told, hides string
	}{
		"no bound":                {-1, []message.Message{words}, "human: first word", "-"},
		"one line":                {0, []message.Message{words}, "word last", "first"},
		"one word":                {0, []message.Message{letters}, "äälast", "first"},
		"no human in the end":     {0, rounds, "answer 398\n", "human: go"},
		"only calls":              {50, rounds, "answer 398\n", "round 300"},
		"the summary before":      {0, slices.Concat([]message.Message{old}, rounds), "The cat is Tom.", "human: go"},
		"the end, with a summary": {0, slices.Concat([]message.Message{old}, rounds), "answer 398\n", "round 1\""},
		"a summary alone":         {0, []message.Message{old}, "The cat is Tom.", "-"},
	} {
		asked := model.NewScripted(model.Text("so"))
		s := agent.Summary{Model: asked, Triggers: []agent.Trigger{{Messages: 2}}, Keep: agent.Trigger{Messages: 1}, MaxTokens: c.bound, Prompt: "{messages}"}
		m := model.NewScripted(model.Text("a"))
		list := slices.Clone(c.list)
		if last := list[len(list)-1]; last.Type != message.TypeTool {
			list = append(list, message.Human("more"))
		}
		res := must(talk(m, agent.Options{Middleware: []agent.Middleware{agent.Summarize(s)}}, list))
		got := asked.Requests()[0].Messages[0].Text()
		if !strings.Contains(got+"\n", c.told) || strings.Contains(got, c.hides) || !utf8.ValidString(got) {
			t.Errorf("%s: told %.60q … %.60q", name, got, got[max(0, len(got)-60):])
		}
		if n := message.CountApproximately([]message.Message{message.Human(got)}); c.bound >= 0 && n > max(c.bound, 4000*(1-min(c.bound, 1)))+3 {
			t.Errorf("%s: told %d tokens", name, n)
		}
		if first := must(agent.Messages(res))[0].Text(); !strings.HasSuffix(first, "\n\nso") {
			t.Errorf("%s: it was %q", name, first)
		}
	}
}

// talk runs an agent on a conversation.
func talk(m model.Model, o agent.Options, list []message.Message) (map[string]any, error) {
	res, err := must(agent.New(m, o)).Invoke(ctx, pregel.Address{}, map[string]any{agent.KeyMessages: list})
	if err != nil {
		return nil, err
	}
	return res.Map(), nil
}

// TestLeaveForParent: a hook leads the graph around the agent where it likes, also to a node that has the
// name of one of the agent's.
func TestLeaveForParent(t *testing.T) {
	for _, node := range []string{agent.NodeTools, agent.NodeModel} {
		command := pregel.Command{Graph: pregel.Parent, Goto: node, Update: map[string]any{agent.KeyJump: "far"}}
		for _, out := range []any{command, &command, []pregel.Command{command}, []any{command}} {
			m := agent.Middleware{Name: "m", AfterModel: func(context.Context, map[string]any) (any, error) { return out, nil }}
			inner := must(agent.New(model.NewScripted(model.Text("a")), agent.Options{Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{m}}))
			came := any(nil)
			b := graph.New(graph.Key(agent.KeyMessages, message.Channel(nil)), graph.Key(agent.KeyJump, channel.LastValue[string]()))
			b.Subgraph("agent", inner)
			b.Node(node, func(_ context.Context, state any) (any, error) {
				came = state.(map[string]any)[agent.KeyJump]
				return nil, nil
			})
			b.Edge(pregel.Start, "agent")
			g := must(b.Compile(graph.Options{}))
			if _, err := g.Invoke(ctx, pregel.Address{}, agent.Say("hi")); err != nil || came != "far" {
				t.Errorf("%s, %T: came with %v: %v", node, out, came, err)
			}
		}
	}
}
