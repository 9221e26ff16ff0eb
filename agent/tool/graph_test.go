package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

type state struct {
	message.State
	Topic string `json:"topic"`
}

// agent is a graph of a model that makes calls once, and a node that runs them.
func agent(t *testing.T, n *tool.Node, o graph.Options, calls ...message.ToolCall) *pregel.Graph {
	t.Helper()
	b := graph.New(graph.Key("messages", message.Channel(nil)), graph.Key("topic", nil))
	b.Node("model", pregel.NodeOf(func(_ context.Context, s state) (any, error) {
		m := message.AI("done")
		if s.Messages[len(s.Messages)-1].Type == message.TypeHuman {
			m = message.AI("", calls...)
		}
		return map[string]any{"messages": m}, nil
	}))
	b.Node("tools", n.Run)
	b.Edge(graph.Start, "model")
	b.Conditional("model", "route", tool.Condition, "tools", graph.End)
	b.Edge("tools", "model")
	return must(b.Compile(o))
}

var hi = map[string]any{"messages": message.Human("hi")}

func texts(v any) (out []string) {
	list, err := message.FromList(v.(map[string]any)["messages"])
	if err != nil {
		return []string{err.Error()}
	}
	for _, m := range list {
		out = append(out, m.Text())
	}
	return out
}

func calls(names ...string) (out []message.ToolCall) {
	for i, n := range names {
		out = append(out, message.ToolCall{Name: n, ID: fmt.Sprint("c", i), Args: map[string]any{"text": fmt.Sprint(i)}})
	}
	return out
}

// TestSideBySide: calls of one message run at the same time, and are answered in their order.
func TestSideBySide(t *testing.T) {
	const n = 8
	var mu sync.Mutex
	here := 0
	all := make(chan struct{})
	meet := must(tool.New("meet", "", object, func(ctx context.Context, in text) (string, error) {
		mu.Lock()
		if here++; here == n {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
			return in.Text, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}))
	res := must(agent(t, must(tool.NewNode(tool.Options{}, meet)), graph.Options{}, calls(slices.Repeat([]string{"meet"}, n)...)...).Invoke(ctx, pregel.Address{}, hi))
	if got, want := strings.Join(texts(res.Map())[2:], ""), "01234567done"; got != want {
		t.Errorf("answers %q, want %q", got, want)
	}
}

// TestRuntime: a tool reads the state, the context and the store of its run, and sends progress.
func TestRuntime(t *testing.T) {
	look := must(tool.New("look", "", object, func(ctx context.Context, in text) (string, error) {
		s, err := tool.State[state](ctx)
		if err != nil {
			return "", err
		}
		info, ok := pregel.Task(ctx)
		if !ok || info.Store == nil {
			return "", errors.New("no task")
		}
		if err := info.Store.Put(ctx, []string{"x"}, in.Text, map[string]any{"seen": true}); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %d %v", s.Topic, len(s.Messages), info.Context), pregel.Emit(ctx, "looking "+in.Text)
	}))
	long := must(store.NewMemory(store.Options{}))
	n := must(tool.NewNode(tool.Options{}, look))
	g := agent(t, n, graph.Options{Store: long}, calls("look")...)
	var progress []any
	for e, err := range g.Stream(ctx, pregel.Address{}, map[string]any{"messages": message.Human("hi"), "topic": "tea"}, pregel.RunOptions{Context: 7, Modes: []pregel.Mode{pregel.ModeCustom, pregel.ModeValues}}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Mode == pregel.ModeCustom {
			progress = append(progress, e.Data)
		} else if got := texts(e.Data); len(got) == 4 && got[2] != "tea 2 7" {
			t.Errorf("answer %q", got[2])
		}
	}
	if fmt.Sprint(progress) != "[looking 0]" {
		t.Errorf("progress %v", progress)
	}
	if item, err := long.Get(ctx, []string{"x"}, "0"); err != nil || item == nil {
		t.Errorf("store: %v %v", item, err)
	}
	if _, err := tool.State[state](ctx); !errors.Is(err, tool.ErrOutsideCall) {
		t.Errorf("outside: %v", err)
	}
}

// TestQuestions: two tools of one message ask; each gets the answer to its own question, whichever
// comes first.
func TestQuestions(t *testing.T) {
	for range 20 {
		var once sync.Once
		ready := make(chan struct{})
		ask := must(tool.New("ask", "", object, func(ctx context.Context, in text) (string, error) {
			if in.Text == "1" {
				once.Do(func() { close(ready) })
			} else { // it comes second, if it may
				<-ready
				for range 100 {
					runtime.Gosched()
				}
			}
			answer, err := pregel.AskFor[string](ctx, "question "+in.Text)
			return "answer " + answer, err
		}))
		g := agent(t, must(tool.NewNode(tool.Options{Errors: tool.AnswerErrors}, ask)), graph.Options{Saver: memory.New(memory.Options{})}, calls("ask", "ask")...)
		at := pregel.Address{ThreadID: "1"}
		var input any = hi
		var asked []any
		for i := range 3 {
			res, err := g.Invoke(ctx, at, input)
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range res.Interrupts {
				asked = append(asked, in.Value)
			}
			if i == 2 {
				if got, want := strings.Join(texts(res.Map()), ", "), "hi, , answer to 0, answer to 1, done"; got != want {
					t.Fatalf("%q, want %q", got, want)
				}
			}
			input = pregel.Command{Resume: fmt.Sprint("to ", i)}
		}
		if fmt.Sprint(asked) != "[question 0 question 1]" {
			t.Fatalf("asked %v", asked)
		}
	}
}

// TestSend: calls that are sent run as tasks of their own: those that do not ask run once, and
// each knows the state.
func TestSend(t *testing.T) {
	var mu sync.Mutex
	ran := map[string]int{}
	work := must(tool.New("work", "", object, func(ctx context.Context, in text) (string, error) {
		s, err := tool.State[state](ctx)
		if err != nil {
			return "", err
		}
		mu.Lock()
		ran[in.Text]++
		mu.Unlock()
		if in.Text != "1" {
			return s.Topic + in.Text, nil
		}
		return pregel.AskFor[string](ctx, "sure?")
	}))
	n := must(tool.NewNode(tool.Options{}, work))
	b := graph.New(graph.Key("messages", message.Channel(nil)), graph.Key("topic", nil))
	b.Node("model", pregel.NodeOf(func(context.Context, state) (any, error) {
		return map[string]any{"messages": message.AI("", calls("work", "work", "work")...)}, nil
	}))
	b.Node("tools", n.Run)
	b.Edge(graph.Start, "model")
	b.Conditional("model", "route", func(_ context.Context, v any) (any, error) {
		s, err := channel.Convert[state](v)
		if err != nil {
			return nil, err
		}
		return tool.Send("tools", s.Messages[len(s.Messages)-1].ToolCalls), nil
	}, "tools")
	g := must(b.Compile(graph.Options{Saver: memory.New(memory.Options{}), RoundTrip: true}))
	at := pregel.Address{ThreadID: "1"}
	must(g.Invoke(ctx, at, map[string]any{"messages": message.Human("hi"), "topic": "t"}))
	res := must(g.Invoke(ctx, at, pregel.Command{Resume: "yes"}))
	if got := strings.Join(texts(res.Map())[2:], " "); got != "t0 yes t2" {
		t.Errorf("answers %q", got)
	}
	if fmt.Sprint(ran) != "map[0:1 1:2 2:1]" {
		t.Errorf("ran %v", ran)
	}
}

// TestFailures: what always ends the node, whatever the policy is.
func TestFailures(t *testing.T) {
	boom := must(tool.New("boom", "", object, func(context.Context, text) (string, error) { panic("boom") }))
	leave := must(tool.New("leave", "", object, func(context.Context, text) (string, error) { runtime.Goexit(); return "", nil }))
	fine := must(tool.New("fine", "", object, func(context.Context, text) (string, error) { return "fine", nil }))
	wrong := must(tool.New("wrong", "", object, func(ctx context.Context, _ text) (string, error) {
		n, err := pregel.AskFor[int](ctx, "a number?")
		return fmt.Sprint(n), err
	}))
	policies := 0
	n := must(tool.NewNode(tool.Options{Errors: func(context.Context, message.ToolCall, error) (string, error) {
		policies++
		return "answered", nil
	}}, boom, leave, fine, wrong))
	var panicked *pregel.PanicError
	if _, err := agent(t, n, graph.Options{}, calls("fine", "boom")...).Invoke(ctx, pregel.Address{}, hi); !errors.As(err, &panicked) || !strings.Contains(err.Error(), `tool call 1, "boom"`) {
		t.Errorf("a panic: %v", err)
	}
	if _, err := agent(t, n, graph.Options{}, calls("leave")...).Invoke(ctx, pregel.Address{}, hi); err == nil || !strings.Contains(err.Error(), "ended its goroutine") {
		t.Errorf("a goroutine that ended: %v", err)
	}
	g := agent(t, n, graph.Options{Saver: memory.New(memory.Options{})}, calls("wrong")...)
	at := pregel.Address{ThreadID: "1"}
	must(g.Invoke(ctx, at, hi))
	if _, err := g.Invoke(ctx, at, pregel.Command{Resume: "no number"}); err == nil {
		t.Error("a wrong answer is told to the model")
	}
	if res := must(g.Invoke(ctx, at, pregel.Command{Resume: 7})); texts(res.Map())[2] != "7" {
		t.Errorf("answers %q", texts(res.Map()))
	}
	if policies > 0 {
		t.Errorf("the policy was asked %d times", policies)
	}
}

// TestWrap: a wrapper sees each call with its tool, and may change it, repeat it, or answer for it.
func TestWrap(t *testing.T) {
	tries := 0
	flaky := must(tool.New("flaky", "", object, func(_ context.Context, in text) (string, error) {
		if tries++; tries < 3 {
			return "", errors.New("busy")
		}
		return in.Text, nil
	}))
	n := must(tool.NewNode(tool.Options{Errors: tool.AnswerErrors, Wrap: func(ctx context.Context, r tool.Request, run tool.Runner) (any, error) {
		switch r.Name {
		case "late":
			return message.ToolResult(r.ToolCall, "made up"), nil
		case "never":
			return nil, errors.New("refused")
		case "text":
			return "just a text", nil
		case "nothing":
			return nil, nil
		case "many":
			return []any{&pregel.Command{Update: map[string]any{"topic": "t"}}, message.ToolResult(r.ToolCall, "of many")}, nil
		case "command":
			return &pregel.Command{Update: map[string]any{"messages": message.ToolResult(r.ToolCall, "by command")}}, nil
		}
		r.Args = map[string]any{"text": "changed"}
		for {
			out, err := run(ctx, r)
			if m, ok := out.(message.Message); err != nil || !ok || m.Status == message.StatusSuccess {
				return out, err
			}
		}
	}}, flaky))
	res := must(agent(t, n, graph.Options{}, calls("flaky", "late", "never", "text", "nothing", "command", "many")...).Invoke(ctx, pregel.Address{}, hi))
	if got, want := strings.Join(texts(res.Map())[2:9], "|"), "changed|made up|Error: refused\n Please fix your mistakes.|just a text|null|by command|of many"; got != want || tries != 3 {
		t.Errorf("%q after %d tries, want %q", got, tries, want)
	}
}

func TestDefinitions(t *testing.T) {
	list := tools()
	defs := must(tool.NewNode(tool.Options{}, list...)).Definitions()
	if len(defs) != len(list) || defs[0].Name != "add" || defs[0].Description != "Adds." || string(defs[0].Parameters) != `{"required":["a","b"],"type":"object"}` {
		t.Errorf("%+v", defs)
	}
	f := func(context.Context, text) (string, error) { return "", nil }
	for name, make := range map[string]func() (any, error){
		"no name": func() (any, error) { return tool.New("", "", object, f) },
		"no function": func() (any, error) {
			return tool.New[struct{}, string]("x", "", tool.Unchecked(`{}`), nil)
		},
		"no schema":  func() (any, error) { return tool.New("x", "", nil, f) },
		"bad schema": func() (any, error) { return tool.New("x", "", tool.Unchecked("{"), f) },
		"two":        func() (any, error) { return tool.NewNode(tool.Options{}, list[0], list[0]) },
		"nil":        func() (any, error) { return tool.NewNode(tool.Options{}, nil) },
	} {
		if _, err := make(); !errors.Is(err, tool.ErrDefinition) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestToolMessages: the blocks of a tool's own message must be those of a content, or it is JSON.
func TestToolMessages(t *testing.T) {
	own := func(m message.Message) (message.Message, error) {
		n := must(tool.NewNode(tool.Options{}, must(tool.New("own", "", object, func(context.Context, text) (message.Message, error) { return m, nil }))))
		out, err := n.Run(ctx, []message.Message{message.AI("", calls("own")...)})
		if err != nil {
			return message.Message{}, err
		}
		return out.(message.List)[0], nil
	}
	blocks := message.Message{Type: message.TypeTool, ToolCallID: "c0", Blocks: []any{message.TextBlock("a")}}
	if m, err := own(blocks); err != nil || len(m.Blocks) != 1 {
		t.Errorf("%+v %v", m, err)
	}
	blocks.Blocks = []any{"a", message.Block{"type": "odd"}}
	if m, err := own(blocks); err != nil || m.Blocks != nil || m.Content != `["a", {"type": "odd"}]` {
		t.Errorf("%+v %v", m, err)
	}
	blocks.Blocks = []any{make(chan int)}
	if _, err := own(blocks); !errors.Is(err, tool.ErrAnswer) {
		t.Errorf("a channel: %v", err)
	}
	if _, err := own(message.AI("x")); !errors.Is(err, tool.ErrAnswer) {
		t.Errorf("an AI message: %v", err)
	}
}

// TestInputs: what a node cannot find calls in is an error.
func TestInputs(t *testing.T) {
	n := must(tool.NewNode(tool.Options{}, tools()...))
	for _, in := range []any{nil, 7, map[string]any{}, map[string]any{"messages": message.List{}}, message.List{message.Human("x")}, struct{ X int }{}, []any{map[string]any{"type": "tool_call"}}} {
		if _, err := n.Run(ctx, in); !errors.Is(err, tool.ErrNoMessage) && !errors.Is(err, message.ErrNotMessage) {
			t.Errorf("%v: %v", in, err)
		}
	}
	for _, in := range []any{message.ToolCall{Name: "echo", Args: map[string]any{"text": "x"}}, []message.ToolCall{{Name: "echo", Args: map[string]any{"text": "x"}}}} {
		if out, err := n.Run(ctx, in); err != nil || texts(out)[0] != "x" {
			t.Errorf("%T: %v %v", in, out, err)
		}
	}
	stored := []any{map[string]any{"type": "tool_call", "name": "echo", "args": map[string]any{"text": "x"}, "id": "1"}}
	if out, err := n.Run(ctx, stored); err != nil || texts(out)[0] != "x" {
		t.Errorf("stored calls: %v %v", out, err)
	}
}

// FuzzArguments: whatever arguments a model sends, they are read or refused.
func FuzzArguments(f *testing.F) {
	f.Add(`{"a":1,"b":2}`)
	f.Add(`{"a":"x"}`)
	f.Add(`{"a":1e999,"A":{"b":[]}}`)
	n := must(tool.NewNode(tool.Options{}, tools()...))
	f.Fuzz(func(t *testing.T, args string) {
		var m message.Message
		call := map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{"id": "1", "function": map[string]any{"name": "add", "arguments": args}}}}
		m, err := message.From(call)
		if err != nil {
			return
		}
		out, err := n.Run(ctx, []message.Message{m})
		if err != nil {
			t.Fatal(err)
		}
		if list := out.(message.List); len(list) != 1 || !json.Valid([]byte(list[0].Content)) && list[0].Status != message.StatusError {
			t.Errorf("%s: %v", args, out)
		}
	})
}

// TestCommands: a tool changes the state and steers its graph, beside tools that answer, and the
// graph around.
func TestCommands(t *testing.T) {
	move := must(tool.New("move", "", object, func(ctx context.Context, _ text) (pregel.Command, error) {
		call, _ := tool.CallOf(ctx)
		return pregel.Command{Update: map[string]any{"topic": "moved", "messages": message.ToolResult(call.ToolCall, "moving")}, Goto: "other"}, nil
	}))
	leave := must(tool.New("leave", "", object, func(ctx context.Context, _ text) (pregel.Command, error) {
		call, _ := tool.CallOf(ctx)
		return pregel.Command{Graph: pregel.Parent, Update: map[string]any{"messages": message.ToolResult(call.ToolCall, "leaving")}, Goto: "outside"}, nil
	}))
	fine := must(tool.New("fine", "", object, func(context.Context, text) (string, error) { return "fine", nil }))
	build := func(names ...string) *graph.Builder {
		b := graph.New(graph.Key("messages", message.Channel(nil)), graph.Key("topic", nil))
		b.Node("model", pregel.NodeOf(func(context.Context, state) (any, error) {
			return map[string]any{"messages": message.AI("", calls(names...)...)}, nil
		}))
		b.Node("tools", must(tool.NewNode(tool.Options{}, move, leave, fine)).Run, graph.NodeOptions{Targets: []string{"other"}})
		b.Node("other", pregel.NodeOf(func(_ context.Context, s state) (any, error) {
			return map[string]any{"messages": message.AI("in " + s.Topic)}, nil
		}))
		return b.Sequence(graph.Start, "model", "tools")
	}
	res := must(must(build("fine", "move").Compile(graph.Options{RoundTrip: true})).Invoke(ctx, pregel.Address{}, hi))
	if got := strings.Join(texts(res.Map()), ", "); got != "hi, , fine, moving, in moved" {
		t.Errorf("%q", got)
	}
	inner := must(build("leave").Compile(graph.Options{}))
	b := graph.New(graph.Key("messages", message.Channel(nil)), graph.Key("topic", nil))
	b.Subgraph("inner", inner)
	b.Node("outside", pregel.NodeOf(func(context.Context, state) (any, error) {
		return map[string]any{"messages": message.AI("outside")}, nil
	}))
	b.Edge(graph.Start, "inner")
	res = must(must(b.Compile(graph.Options{})).Invoke(ctx, pregel.Address{}, hi))
	if got := strings.Join(texts(res.Map()), ", "); got != "hi, leaving, outside" {
		t.Errorf("%q", got)
	}
}

// TestUnread: a message whose calls cannot be read is no end: the node answers those that nobody has
// answered, so that the model is asked again.
func TestUnread(t *testing.T) {
	asked := message.AI("")
	asked.InvalidToolCalls = []message.InvalidToolCall{{Name: "echo", Args: "{", ID: "1"}, {Args: "{", ID: "2"}, {Name: "echo", ID: ""}}
	list := []message.Message{message.Human("hi"), asked, message.ToolResult(message.ToolCall{Name: "echo", ID: "1"}, "by hand")}
	if to, err := tool.Condition(ctx, list[:2]); to != "tools" || err != nil {
		t.Errorf("goes to %v, %v", to, err)
	}
	n := must(tool.NewNode(tool.Options{}))
	for _, input := range []any{list, map[string]any{"messages": list}} {
		out := must(n.Run(ctx, input))
		if m, ok := out.(map[string]any); ok {
			out = m["messages"]
		}
		got := must(message.FromList(out))
		if len(got) != 1 || got[0].ToolCallID != "2" || got[0].Name != "unknown" || got[0].Status != message.StatusError {
			t.Errorf("answered %+v", got)
		}
	}
}

// TestRefusedAnswer: an answer that a question refuses is not told to the model, whoever asked: a
// tool, a graph inside it, or what wraps it. The question still waits.
func TestRefusedAnswer(t *testing.T) {
	no := errors.New("not that one")
	ask := func(ctx context.Context) (any, error) {
		return pregel.Ask(ctx, "which?", pregel.AskOptions{Check: func(answer any) error {
			if answer != "one" {
				return no
			}
			return nil
		}})
	}
	asker := must(graph.New(graph.Key("said", channel.LastValue[any]())).Node("ask", func(ctx context.Context, _ any) (any, error) {
		said, err := ask(ctx)
		return map[string]any{"said": said}, err
	}).Sequence(graph.Start, "ask", graph.End).Compile(graph.Options{}))
	inside := func(ctx context.Context) (any, error) {
		res, err := asker.Invoke(ctx, pregel.Inside(), map[string]any{"said": ""})
		if err != nil {
			return nil, err
		}
		return res.Map()["said"], nil
	}
	plain := tool.Options{Errors: tool.AnswerErrors}
	wraps := tool.Options{Errors: tool.AnswerErrors, Wrap: func(ctx context.Context, _ tool.Request, _ tool.Runner) (any, error) { return ask(ctx) }}
	passes := tool.Options{Errors: tool.AnswerErrors, Wrap: func(ctx context.Context, r tool.Request, run tool.Runner) (any, error) { return run(ctx, r) }}
	for name, c := range map[string]struct {
		o   tool.Options
		ask func(context.Context) (any, error)
	}{
		"tool": {plain, ask}, "wrapper": {wraps, nil}, "wrapped tool": {passes, ask}, "graph": {plain, inside}, "wrapped graph": {passes, inside}, "default": {tool.Options{}, inside},
	} {
		which := must(tool.New("which", "", object, func(ctx context.Context, _ text) (any, error) { return c.ask(ctx) }))
		g := agent(t, must(tool.NewNode(c.o, which)), graph.Options{Saver: memory.New(memory.Options{})}, calls("which")...)
		at := pregel.Thread("1")
		must(g.Invoke(ctx, at, hi))
		var refused *pregel.AnswerError
		if _, err := g.Invoke(ctx, at, pregel.Command{Resume: "two"}); !errors.As(err, &refused) || !errors.Is(err, no) {
			t.Errorf("%s: %v", name, err)
		}
		res, err := g.Invoke(ctx, at, pregel.Command{Resume: "one"})
		if err != nil || texts(res.Map())[2] != "one" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
