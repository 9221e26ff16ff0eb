package agent_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

var ctx = context.Background()

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Boom is the error of what fails on purpose.
type Boom struct{ text string }

func (b *Boom) Error() string { return b.text }

// scenario is one of testdata/scenarios.py.
type scenario struct {
	Name       string
	Agent      string `json:"name of agent"`
	System     string
	Model      []answer
	Tools      []string
	State      bool
	Middleware []struct {
		Kind    string
		Options json.RawMessage
	}
	Response *struct {
		Strategy agent.Strategy
		Forms    []string
		Answer   string
		Errors   string
	}
	Auto, Structured bool
	Runs             []map[string]any
}

type answer struct {
	Text    string
	Calls   []message.ToolCall
	Invalid []message.InvalidToolCall
	Error   string
	// Usage and Provider are what the message says of itself.
	Usage    int64
	Provider string
}

// trace is what came of a scenario.
type trace struct {
	Outcomes    []map[string]any `json:"outcomes"`
	Checkpoints []map[string]any `json:"checkpoints"`
	Asked       []map[string]any `json:"asked"`
}

// asked collects the requests of all models of a scenario.
type asked struct {
	mu  sync.Mutex
	all []map[string]any
}

func (a *asked) script(label string, answers []answer) *model.Scripted {
	next := 0
	return model.NewScriptedFunc(func(_ context.Context, r model.Request) (model.Answer, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		e := map[string]any{"model": label, "choice": r.ToolChoice, "format": "", "tools": []any{}, "messages": []any{}}
		for _, t := range r.Tools {
			e["tools"] = append(e["tools"].([]any), t.Name)
		}
		for _, m := range r.Messages {
			if label != "summary" { // its prompt is stele's own
				e["messages"] = append(e["messages"].([]any), []any{string(m.Type), m.Text()})
			}
		}
		if r.Format != nil {
			e["format"] = r.Format.Name
		}
		a.all = append(a.all, e)
		if next == len(answers) {
			return model.Answer{}, model.ErrScriptEnded
		}
		s := answers[next]
		next++
		switch s.Error {
		case "":
		case "denied", "busy":
			return model.Fail(&model.ProviderError{Provider: s.Error, Temporary: s.Error == "busy"}), nil
		default:
			return model.Fail(&Boom{s.Error}), nil
		}
		m := message.AI(s.Text, s.Calls...)
		if s.Usage > 0 {
			m.Usage = &message.Usage{InputTokens: s.Usage, TotalTokens: s.Usage}
		}
		if s.Provider != "" {
			m.ResponseMetadata = map[string]any{"model_provider": s.Provider}
		}
		m.InvalidToolCalls = s.Invalid
		return model.Answer{Message: m}, nil
	})
}

var object = tool.Unchecked(`{"type":"object"}`)

var number = tool.Unchecked(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`)

// worded is the schema of an object with a text.
type worded struct{}

func (worded) MarshalJSON() ([]byte, error) {
	return []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`), nil
}

func (worded) Validate(args map[string]any) error {
	if _, ok := args["text"].(string); !ok {
		return errors.New("text: Field required")
	}
	return nil
}

type text struct {
	Text string `json:"text"`
}

// tools are the twins of those in testdata/record.py.
func tools(names []string) (out []tool.Tool) {
	failures := 0
	have := map[string]tool.Tool{
		"add": must(tool.New("add", "Adds.", number, func(_ context.Context, in struct{ A, B int }) (int, error) { return in.A + in.B, nil })),
		"flaky": must(tool.New("flaky", "Fails twice.", worded{}, func(_ context.Context, in text) (string, error) {
			if failures++; failures < 3 {
				return "", &Boom{in.Text}
			}
			return in.Text, nil
		})),
		"echo":  must(tool.New("echo", "Echoes.", worded{}, func(_ context.Context, in text) (string, error) { return in.Text, nil })),
		"final": agent.ReturnDirect(must(tool.New("final", "Ends.", worded{}, func(_ context.Context, in text) (string, error) { return in.Text, nil }))),
		"fail":  must(tool.New("fail", "Fails.", worded{}, func(_ context.Context, in text) (string, error) { return "", &Boom{in.Text} })),
		"ask": must(tool.New("ask", "Asks.", worded{}, func(ctx context.Context, in text) (string, error) {
			answer, err := pregel.AskFor[string](ctx, in.Text)
			return "said " + answer, err
		})),
		"topic": must(tool.New("topic", "Sets the topic.", worded{}, func(ctx context.Context, in text) (any, error) {
			m := message.Message{Type: message.TypeTool, Name: "topic", Content: "set", ToolCallID: "c0"}
			return pregel.Command{Update: pregel.Pairs{{Key: "topic", Value: in.Text}, {Key: "messages", Value: []any{m}}}}, nil
		})),
	}
	for _, n := range names {
		out = append(out, have[n])
	}
	return out
}

// named is the schema of an object with a name.
type named struct{}

func (named) MarshalJSON() ([]byte, error) {
	return []byte(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`), nil
}

func (named) Validate(args map[string]any) error {
	if _, ok := args["name"].(string); !ok {
		return errors.New("name: Field required")
	}
	return nil
}

func (s *scenario) response() *agent.Response {
	if s.Auto {
		return &agent.Response{Forms: []agent.Form{{Name: "City", Schema: named{}}}}
	}
	if s.Response == nil {
		return nil
	}
	r := &agent.Response{Strategy: s.Response.Strategy, Answer: s.Response.Answer}
	for _, f := range s.Response.Forms {
		r.Forms = append(r.Forms, agent.Form{Name: f, Schema: named{}})
	}
	say := func(text string) func(context.Context, error) (string, error) {
		return func(context.Context, error) (string, error) { return text, nil }
	}
	switch s.Response.Errors {
	case "":
		r.Errors = say("does not fit")
	case "text":
		r.Errors = say("try again")
	case "stop":
		r.Errors = func(_ context.Context, err error) (string, error) { return "", err }
	}
	return r
}

// middleware makes the twin of make_middleware.
func middleware(kind string, options json.RawMessage, q *asked) agent.Middleware {
	var o struct {
		Tools     json.RawMessage
		Models    [][]answer
		Answers   []answer
		When      map[string][]string
		Window    int
		Approx    bool `json:"approximately"`
		Notice    *string
		PerCall   bool `json:"per call"`
		Trigger   []any
		Keep      [2]any
		Run       int            `json:"run_limit"`
		Thread    int            `json:"thread_limit"`
		Exit      agent.Exceeded `json:"exit_behavior"`
		Tool      string         `json:"tool_name"`
		Retries   *int           `json:"max_retries"`
		OnFailure string         `json:"on_failure"`
	}
	if options != nil {
		must(0, json.Unmarshal(options, &o))
	}
	retry := agent.Retry{Delay: -1, Stop: o.OnFailure == "error"}
	if o.Retries != nil {
		if retry.Retries = *o.Retries; retry.Retries == 0 {
			retry.Retries = -1
		}
	}
	size := func(v [2]any) agent.Trigger {
		n := v[1].(float64)
		switch v[0] {
		case "messages":
			return agent.Trigger{Messages: int(n)}
		case "fraction":
			return agent.Trigger{Fraction: n}
		}
		return agent.Trigger{Tokens: int(n)}
	}
	switch kind {
	case "human":
		var gates map[string][]agent.DecisionType
		must(0, json.Unmarshal(o.Tools, &gates))
		r := agent.Review{Tools: map[string]agent.Gate{}, PerCall: o.PerCall}
		for name, decisions := range gates {
			if len(decisions) == 0 {
				decisions = nil
			}
			r.Tools[name] = agent.Gate{Decisions: decisions}
		}
		for name, texts := range o.When {
			r.Tools[name] = agent.Gate{When: func(_ context.Context, c message.ToolCall, _ map[string]any) (bool, error) {
				return slices.Contains(texts, c.Args["text"].(string)), nil
			}}
		}
		if o.Notice != nil {
			r.Notice, r.NoNotice = *o.Notice, *o.Notice == ""
		}
		return agent.AskPerson(r)
	case "model limit":
		return agent.LimitModelCalls(agent.Limit{Run: o.Run, Thread: o.Thread, Exceeded: o.Exit})
	case "tool limit":
		return agent.LimitToolCalls(o.Tool, agent.Limit{Run: o.Run, Thread: o.Thread, Exceeded: o.Exit})
	case "model retry":
		return agent.RetryModel(retry)
	case "tool retry":
		var names []string
		if o.Tools != nil {
			must(0, json.Unmarshal(o.Tools, &names))
		}
		return agent.RetryTools(retry, names...)
	case "fallback":
		var models []model.Model
		for i, a := range o.Models {
			models = append(models, q.script(fmt.Sprint("other ", i), a))
		}
		return agent.Fallback(models...)
	case "summary":
		summarizer := q.script("summary", o.Answers).WithProfile(model.Profile{MaxInputTokens: o.Window, Provider: "script"})
		s := agent.Summary{Model: summarizer, Retry: agent.Retry{Delay: -1}, Keep: size(o.Keep), Count: func(list []message.Message) (n int) {
			for _, m := range list {
				n += len(m.Text())
			}
			return n
		}}
		for _, t := range o.Trigger {
			switch t := t.(type) {
			case []any:
				s.Triggers = append(s.Triggers, size([2]any(t)))
			case map[string]any:
				both := agent.Trigger{}
				for name, n := range t {
					one := size([2]any{name, n})
					both.Messages, both.Tokens, both.Fraction = both.Messages+one.Messages, both.Tokens+one.Tokens, both.Fraction+one.Fraction
				}
				s.Triggers = append(s.Triggers, both)
			}
		}
		if o.Approx {
			s.Count = nil
		}
		return agent.Summarize(s)
	}
	return hooks(options)
}

type on struct {
	Say, As, When, Jump    string
	System, Answer, Prefix string
	Suffix                 string
	Tools, Forms           []string
	Twice                  bool
	Update                 map[string]any
}

// hooks makes the twin of make_hooks.
func hooks(options json.RawMessage) agent.Middleware {
	var o struct {
		Name  string
		Jumps []agent.Jump
		On    map[string]on
	}
	must(0, json.Unmarshal(options, &o))
	m := agent.Middleware{Name: o.Name, Jumps: o.Jumps}
	hook := func(which string) agent.Hook {
		at, ok := o.On[which]
		if !ok {
			return nil
		}
		return func(_ context.Context, state map[string]any) (any, error) {
			list := must(agent.Messages(state))
			if !strings.Contains(list[len(list)-1].Text(), at.When) {
				return nil, nil
			}
			out := pregel.Pairs{}
			if at.Say != "" {
				said := message.AI(at.Say)
				if at.As == "human" {
					said = message.Human(at.Say)
				}
				out = append(out, pregel.Pair{Key: "messages", Value: []message.Message{said}})
			}
			if at.Jump != "" {
				out = append(out, pregel.Pair{Key: "jump_to", Value: at.Jump})
			}
			if len(out) == 0 {
				return nil, nil
			}
			return out, nil
		}
	}
	m.BeforeAgent, m.BeforeModel, m.AfterModel, m.AfterAgent = hook("before_agent"), hook("before_model"), hook("after_model"), hook("after_agent")
	if at, ok := o.On["wrap_model"]; ok {
		m.WrapModel = func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			if at.System != "" {
				r.System = message.System(at.System)
			}
			if at.Tools != nil {
				r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(d tool.Definition) bool { return !slices.Contains(at.Tools, d.Name) })
			}
			if at.Forms != nil {
				r.Response = &agent.Response{Strategy: agent.ByTool}
				for _, f := range at.Forms {
					r.Response.Forms = append(r.Response.Forms, agent.Form{Name: f, Schema: named{}})
				}
			}
			if at.Answer != "" {
				return agent.ModelResponse{Messages: []message.Message{message.AI(at.Answer)}}, nil
			}
			res, err := next(ctx, r)
			if at.Twice {
				res, err = next(ctx, r)
			}
			if err != nil {
				return res, err
			}
			for i := range res.Messages {
				res.Messages[i].Content += at.Suffix
			}
			update := pregel.Pairs{}
			for k, v := range at.Update {
				update = append(update, pregel.Pair{Key: k, Value: v})
			}
			if at.Say != "" {
				update = append(update, pregel.Pair{Key: "messages", Value: []message.Message{message.Human(at.Say)}})
			}
			if len(update) > 0 {
				res.Updates = append(res.Updates, update)
			}
			return res, nil
		}
	}
	if at, ok := o.On["wrap_tool"]; ok {
		m.WrapTool = func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
			if at.Answer != "" {
				return at.Answer, nil
			}
			out, err := next(ctx, r)
			if answer, ok := out.(message.Message); ok {
				answer.Content = at.Prefix + answer.Content
				return answer, err
			}
			return out, err
		}
	}
	return m
}

// play runs a scenario with stele.
func (s *scenario) play(t *testing.T) trace {
	t.Helper()
	q := &asked{}
	sv := memory.New(memory.Options{})
	o := agent.Options{Name: s.Agent, System: s.System, Tools: tools(s.Tools), Response: s.response(), Graph: graph.Options{Saver: sv}}
	if s.State {
		o.State = []graph.Field{graph.Key("topic", channel.LastValue[string]())}
	}
	for _, m := range s.Middleware {
		o.Middleware = append(o.Middleware, middleware(m.Kind, m.Options, q))
	}
	if strings.HasSuffix(s.Name, "a tool that is not there") { // which New refuses if nobody else could run it
		o.Middleware = append(o.Middleware, passing)
	}
	g, err := agent.New(q.script("main", s.Model).WithProfile(model.Profile{StructuredOutput: s.Structured}), o)
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	out := trace{Asked: []map[string]any{}}
	for _, r := range s.Runs {
		var input any
		if decisions, ok := r["resume each"].([]any); ok {
			waiting := must(g.GetState(ctx, pregel.Thread("1"))).Interrupts
			answers := map[string]any{}
			for i, d := range decisions {
				if d != nil {
					answers[waiting[i].ID] = d
				}
			}
			input = pregel.Command{Resume: answers}
		} else if answer, ok := r["resume"]; ok {
			input = pregel.Command{Resume: answer}
		} else if r["again"] == nil {
			said := message.Human(r["say"].(string))
			said.ID = r["id"].(string)
			state := map[string]any{"messages": []any{said}}
			more, _ := r["state"].(map[string]any)
			for k, v := range more {
				state[k] = v
			}
			input = state
		}
		heard := supersteps{all: [][]any{nil}}
		var err error
		for ev, failed := range g.Stream(ctx, pregel.Thread("1"), input, pregel.RunOptions{Durability: pregel.Sync, Modes: everyMode}) {
			if err = failed; err == nil {
				heard.add(ev)
			}
		}
		if err != nil {
			heard.failed(err)
			out.Outcomes = append(out.Outcomes, map[string]any{"error": errorName(err), "events": heard.shown()})
			continue
		}
		keys, texts := []any{}, []any{}
		for k := range heard.values {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		for _, m := range must(agent.Messages(heard.values)) {
			texts = append(texts, m.Text())
		}
		out.Outcomes = append(out.Outcomes, map[string]any{"keys": keys, "texts": texts, "events": heard.shown()})
	}
	out.Asked = append(out.Asked, q.all...)
	shown := shower{ids: map[string]string{}}
	var tuples []*saver.Tuple
	for tuple, err := range sv.List(ctx, saver.Query{ThreadID: "1"}) {
		if err != nil {
			t.Fatal(err)
		}
		tuples = append(tuples, tuple)
	}
	slices.Reverse(tuples)
	var snapshots []*pregel.StateSnapshot
	for snapshot, err := range g.GetStateHistory(ctx, pregel.Thread("1"), pregel.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		snapshots = append(snapshots, snapshot)
	}
	slices.Reverse(snapshots)
	for i, tuple := range tuples {
		values := map[string]any{}
		for k, v := range tuple.Checkpoint.Values {
			values[k] = shown.show(must(v.Any()))
		}
		out.Checkpoints = append(out.Checkpoints, map[string]any{
			"metadata": tuple.Metadata, "next": append([]string{}, snapshots[i].Next...), "values": values,
		})
	}
	for i, tuple := range tuples {
		type write struct {
			task  int
			shown []any
		}
		var writes []write
		for _, w := range tuple.PendingWrites {
			at := write{-1, []any{"", w.Channel, "error"}}
			for n, task := range snapshots[i].Tasks {
				if task.ID == w.TaskID {
					at.task, at.shown[0] = n, task.Name
				}
			}
			if at.task < 0 && w.Channel == "__error__" {
				continue // that the superstep failed, which LangGraph does not store
			}
			if w.Channel != "__error__" {
				at.shown[2] = shower{}.show(must(w.Value.Any()))
			}
			writes = append(writes, at)
		}
		slices.SortStableFunc(writes, func(a, b write) int { return a.task - b.task })
		list := []any{}
		for _, w := range writes {
			list = append(list, w.shown)
		}
		out.Checkpoints[i]["writes"] = list
	}
	return out
}

var everyMode = []pregel.Mode{pregel.ModeValues, pregel.ModeUpdates, pregel.ModeMessages, pregel.ModeTasks}

// supersteps are the events of a run, as the recording's class of that name shows them.
type supersteps struct {
	all    [][]any
	values map[string]any
	heard  map[string][]any // messages, by id
}

func (s *supersteps) add(ev pregel.Event) {
	last := &s.all[len(s.all)-1]
	show := shower{}.show
	asked := func(list []pregel.Interrupt) []any {
		out := []any{}
		for _, i := range list {
			out = append(out, shower{}.asked(i))
		}
		return out
	}
	switch d := ev.Data.(type) {
	case pregel.MessageEvent:
		id, text := messageOf(d.Message)
		if at, ok := s.heard[id]; ok {
			at[2] = at[2].(string) + text
			return
		}
		if s.heard == nil {
			s.heard = map[string][]any{}
		}
		s.heard[id] = []any{"messages", []any{d.Metadata["langgraph_node"], d.Metadata["langgraph_step"], d.Metadata["langgraph_path"]}, text}
		*last = append(*last, s.heard[id])
	case pregel.TaskEvent:
		*last = append(*last, []any{"task", d.Name, show(d.Input), d.Triggers})
	case pregel.TaskResult:
		*last = append(*last, []any{"ended", d.Name, d.Err != nil, show(d.Result), asked(d.Interrupts)})
	case pregel.Update:
		if ev.Interrupts != nil {
			*last = append(*last, []any{"updates", d.Node, asked(ev.Interrupts)})
			return
		}
		*last = append(*last, []any{"updates", d.Node, show(d.Value)})
		if d.Cached {
			*last = append(*last, []any{"updates", "__metadata__", map[string]any{"cached": true}})
		}
	default:
		values, _ := ev.Data.(map[string]any)
		if len(values) > 0 {
			s.values = values
		}
		shown := []any{"values", show(values), asked(ev.Interrupts)}
		if len(ev.Interrupts) > 0 { // other tasks may still be at work
			*last = append(*last, shown)
			return
		}
		s.all = append(s.all, []any{shown}, nil)
	}
}

// messageOf is the id and the text of a message or a chunk.
func messageOf(v any) (id, text string) {
	switch m := v.(type) {
	case message.Message:
		return m.ID, m.Text()
	case message.Chunk:
		return m.ID, m.Text()
	}
	panic(fmt.Sprintf("%T is no message", v))
}

// failed leaves out what is chance: which other tasks of the superstep were heard of. It also
// leaves out the question whose answer was refused, which stele shows again.
func (s *supersteps) failed(err error) {
	last := &s.all[len(s.all)-1]
	*last = slices.DeleteFunc(*last, func(e any) bool {
		l := e.([]any)
		return l[0] != "task" && (l[0] != "ended" || l[2] != true)
	})
	if refused := new(pregel.AnswerError); errors.As(err, &refused) {
		for _, e := range *last {
			if l := e.([]any); l[0] == "ended" {
				l[4] = []any{}
			}
		}
	}
}

func (s *supersteps) shown() []any {
	out := []any{}
	for _, some := range s.all {
		if len(some) > 0 {
			out = append(out, some)
		}
	}
	return out
}

// sortEvents puts the events of each superstep of a trace in one order: that of its JSON.
func sortEvents(trace any) {
	for _, o := range trace.(map[string]any)["outcomes"].([]any) {
		for _, some := range o.(map[string]any)["events"].([]any) {
			slices.SortFunc(some.([]any), func(a, b any) int {
				return bytes.Compare(must(json.Marshal(a)), must(json.Marshal(b)))
			})
		}
	}
}

// untake takes the answers out of a recording that LangChain's middleware refused after LangGraph
// had stored them for its task: each later run is given such an answer again, and refuses it. Here
// the question still waits.
func untake(trace any) {
	for _, c := range trace.(map[string]any)["checkpoints"].([]any) {
		c := c.(map[string]any)
		writes, _ := c["writes"].([]any)
		is := func(channel string) func(w any) bool {
			return func(w any) bool {
				l := w.([]any)
				return l[0] == "HumanInTheLoopMiddleware.after_model" && l[1] == channel
			}
		}
		if slices.ContainsFunc(writes, is("__error__")) {
			c["writes"] = slices.DeleteFunc(writes, is("__resume__"))
		}
	}
}

// withoutNotes is a trace without what gates note of the calls that they let pass, which LangChain does
// not store.
func withoutNotes(v any) any {
	const key = "gates_passed"
	switch x := v.(type) {
	case map[string]any:
		delete(x, key)
		for k, e := range x {
			x[k] = withoutNotes(e)
		}
	case []any:
		out := []any{}
		for _, e := range x {
			l, ok := e.([]any)
			if e == key || ok && (len(l) == 3 && (l[1] == key || isNote(l[1])) || len(l) == 2 && l[0] == key) {
				continue
			}
			out = append(out, withoutNotes(e))
		}
		return out
	}
	return v
}

// isNote reports whether a write is a record of stele's own: LangGraph carries it along.
func isNote(channel any) bool {
	s, _ := channel.(string)
	return strings.HasPrefix(s, "__stele_")
}

// errorName is the name that Python's error has.
func errorName(err error) string {
	var boom *Boom
	var limit *agent.LimitError
	var refused *pregel.AnswerError
	var provider *model.ProviderError
	var response *agent.ResponseError
	switch {
	case errors.As(err, &boom):
		return "Boom"
	case errors.As(err, &limit) && strings.HasPrefix(limit.Error(), "Model"):
		return "ModelCallLimitExceededError"
	case errors.As(err, &limit):
		return "ToolCallLimitExceededError"
	case errors.As(err, &response):
		return "StructuredOutputValidationError"
	case errors.As(err, &provider):
		return map[string]string{"denied": "Denied", "busy": "Busy"}[provider.Provider]
	case errors.Is(err, channel.ErrInvalidUpdate):
		return "InvalidUpdateError"
	case errors.Is(err, agent.ErrDecision) && strings.Contains(err.Error(), "HumanInTheLoopMiddleware.after_model"):
		return "ValueError"
	case errors.As(err, &refused):
		return "ValidationError"
	}
	return err.Error()
}

// shower shows values as the recording does: ids of messages in the order in which they come, or
// none.
type shower struct{ ids map[string]string }

// asked is a question, with its schema if it has one.

func (s shower) asked(i pregel.Interrupt) any {
	value := s.show(i.Value)
	if i.ResponseSchema == nil {
		return value
	}
	return map[string]any{"question": value, "schema": shape(i.ResponseSchema)}
}

// shape is a schema without its words.
func shape(schema any) any {
	switch x := schema.(type) {
	case []any:
		out := []any{}
		for _, e := range x {
			out = append(out, shape(e))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, v := range x {
			if k != "title" && k != "description" {
				out[k] = shape(v)
			}
		}
		return out
	}
	return schema
}

func (s shower) show(v any) any {
	switch x := v.(type) {
	case message.Message:
		var fields map[string]any
		must(0, json.Unmarshal(must(json.Marshal(x)), &fields))
		for k, v := range fields {
			if empty := v == nil || v == "" || reflect.DeepEqual(v, map[string]any{}) || reflect.DeepEqual(v, []any{}); empty && k != "content" {
				delete(fields, k)
			}
		}
		if x.ID != "" && x.ID != message.RemoveAllID {
			delete(fields, "id")
			if s.ids != nil {
				if s.ids[x.ID] == "" {
					s.ids[x.ID] = fmt.Sprint("m", len(s.ids))
				}
				fields["id"] = s.ids[x.ID]
			}
		}
		return fields
	case message.ToolCall:
		var fields any
		must(0, json.Unmarshal(must(pregeljson.Marshal(x)), &fields))
		return fields
	case *serde.Ext:
		return s.show(must(message.From(x)))
	case pregel.RepeatedWrites:
		return map[string]any{"$writes": s.show(x.Writes)}
	case pregel.Send:
		return map[string]any{"send": x.Node, "arg": s.show(x.Arg)}
	case pregel.Interrupt:
		return map[string]any{"interrupt": s.asked(x)}
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Map:
		out := map[string]any{}
		for _, k := range rv.MapKeys() {
			out[k.String()] = s.show(rv.MapIndex(k).Interface())
		}
		return out
	case reflect.Slice:
		out := []any{}
		for i := range rv.Len() {
			out = append(out, s.show(rv.Index(i).Interface()))
		}
		return out
	}
	return v
}

// plain is v as JSON has it.
func plain(v any) (out any) {
	must(0, json.Unmarshal(must(json.Marshal(v)), &out))
	return out
}

// difference is the first place where two traces differ.
func difference(at string, got, want any) string {
	if reflect.DeepEqual(got, want) {
		return ""
	}
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			for _, k := range slices.Sorted(keysOf(g, w)) {
				if d := difference(at+"."+k, g[k], w[k]); d != "" {
					return d
				}
			}
		}
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			for i := range w {
				if d := difference(fmt.Sprint(at, "[", i, "]"), g[i], w[i]); d != "" {
					return d
				}
			}
		}
	}
	return fmt.Sprintf("%s:\n got %s\nwant %s", at, must(json.Marshal(got)), must(json.Marshal(want)))
}

func keysOf(maps ...map[string]any) func(yield func(string) bool) {
	all := map[string]bool{}
	for _, m := range maps {
		for k := range m {
			all[k] = true
		}
	}
	return func(yield func(string) bool) {
		for k := range all {
			if !yield(k) {
				return
			}
		}
	}
}

type recorded struct {
	Scenario scenario
	Trace    any
}

// refused are the scenarios in which LangChain stores a conversation that providers refuse, or sends it,
// and stele does not. Each names the test with the right values.
var refused = map[string]string{
	"edit, and the id is used again": "TestIDUsedAgain",
	"invalid call without an id":     "TestInvalidCallWithoutID",
	"response and a tool limit":      "TestLimitOfAnsweredCall",
}

// mustBeRefused fails if the last messages of a recording are legal.
func mustBeRefused(t *testing.T, r recorded) {
	t.Helper()
	checkpoints := r.Trace.(map[string]any)["checkpoints"].([]any)
	values := checkpoints[len(checkpoints)-1].(map[string]any)["values"].(map[string]any)
	var list []message.Message
	must(0, json.Unmarshal(must(json.Marshal(values["messages"])), &list))
	if message.Validate(list, message.Rules{}) == nil {
		t.Errorf("%s: what LangChain stores is legal", r.Scenario.Name)
	}
}

// passing is a middleware that might run tools which the agent does not have.
var passing = agent.Middleware{Name: "passing", WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (any, error) { return next(ctx, r) }}

// recording is what LangChain did.
func recording(t *testing.T) (all []recorded) {
	t.Helper()
	z := must(gzip.NewReader(bytes.NewReader(must(os.ReadFile("testdata/agent.json.gz")))))
	must(0, json.Unmarshal(must(io.ReadAll(z)), &all))
	return all
}

// apart are the scenarios in which LangChain does wrong, and what stele does there. TestEnds has the
// ends of such agents.
var apart = map[string]string{
	"call without tools":                  "it fails",
	"invalid call":                        "the model is asked again",
	"two invalid calls, answered once":    "the model is asked again",
	"per call, return direct is rejected": "the model is asked again, as it is without per call",
}

// TestParity: what an agent stores, asks its models and answers is what LangChain's create_agent
// does, but where providers refuse what that stores.
func TestParity(t *testing.T) {
	all, different := recording(t), 0
	for _, r := range all {
		got := withoutNotes(plain(r.Scenario.play(t)))
		sortEvents(got)
		sortEvents(r.Trace)
		untake(r.Trace)
		d := difference("", got, r.Trace)
		switch {
		case refused[r.Scenario.Name] != "":
			if mustBeRefused(t, r); d == "" {
				t.Errorf("%s: is as LangChain's", r.Scenario.Name)
			}
		case apart[r.Scenario.Name] != "":
			if different++; d == "" {
				t.Errorf("%s: stele does what LangChain does, and not: %s", r.Scenario.Name, apart[r.Scenario.Name])
			}
		case d != "":
			different++
			t.Errorf("%s%s", r.Scenario.Name, d)
		}
	}
	t.Logf("scenarios: %d of %d, %d different, %d refused by providers", len(all)-different-len(refused), len(all), different, len(refused))
}
