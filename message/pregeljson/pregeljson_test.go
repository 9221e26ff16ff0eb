package pregeljson_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

var update = flag.Bool("update", false, "write the golden file")

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestMain(m *testing.M) { os.Exit(m.Run()) }

func TestValues(t *testing.T) {
	type point struct {
		X int `json:"x"`
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, `null`},
		{map[string]any{"b": 1, "a": "<&>"}, `{"a":"<&>","b":1}`},
		{[]string(nil), `[]`},
		{map[string]int(nil), `{}`},
		{[]any{math.NaN(), math.Inf(1), 1.5, float32(2)}, `[null,null,1.5,2]`},
		{time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), `"2026-01-02T03:04:05.000006+00:00"`},
		{[]byte("ab"), `"YWI="`},
		{errors.New("no"), `"no"`},
		{&point{X: 1}, `{"x":1}`},
		{map[any]any{1: "a"}, `{"1":"a"}`},
		{serde.Interrupt{ID: "i", Value: "q"}, `{"id":"i","response_schema":null,"value":"q"}`},
		{serde.Send{Node: "n", Arg: 1}, `{"input":1,"node":"n"}`},
		{pregel.Pairs{{Key: "a", Value: 1}}, `{"a":1}`},
		{channel.Message{ID: "1", Role: "human", Content: "hi"}, `{"content":"hi","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":"1"}`},
		{message.List{message.Human("hi")}, `[{"content":"hi","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":null}]`},
		{message.ToolCall{Name: "f", Args: map[string]any{"x": 1}, ID: "c"}, `{"args":{"x":1},"id":"c","name":"f","type":"tool_call"}`},
		{[]message.ToolCall{{Name: "f"}}, `[{"args":{},"id":null,"name":"f","type":"tool_call"}]`},
		{[]any{&message.ToolCall{Name: "f"}}, `[{"args":{},"id":null,"name":"f","type":"tool_call"}]`},
		{tool.Call{ToolCall: message.ToolCall{Name: "f", ID: "c"}, State: 1}, `{"name":"f","args":null,"id":"c","State":1}`},
		{stored(message.Human("hi")), `{"content":"hi","additional_kwargs":{},"response_metadata":{},"type":"human","name":null,"id":null}`},
		{serde.NewExt(serde.ExtKeyword, "m", "C", map[string]any{"a": 1}, ""), `{"a":1}`},
	} {
		got, err := pregeljson.Marshal(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("%#v: %s, %v; want %s", c.v, got, err, c.want)
		}
	}
	loop := map[string]any{}
	loop["again"] = loop
	if _, err := pregeljson.Marshal(loop); err == nil {
		t.Error("a value that contains itself was written")
	}
}

// stored is a message as a checkpoint has it where nothing says that it is one.
func stored(m message.Message) any {
	return must(serde.Default().Decode(must(serde.Default().Encode(m))))
}

// An update of a task that had ended before says so.
func TestCachedUpdate(t *testing.T) {
	got := must(pregeljson.Event(pregel.Event{Mode: pregel.ModeUpdates, Data: pregel.Update{Node: "n", Value: 1, Cached: true}}))
	if want := `{"__metadata__":{"cached":true},"n":1}`; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A task that failed says why as a run that failed does.
func TestFailedTask(t *testing.T) {
	got := must(pregeljson.Event(pregel.Event{Mode: pregel.ModeTasks, Data: pregel.TaskResult{ID: "i", Name: "n", Err: &os.PathError{Op: "open", Path: "p", Err: os.ErrNotExist}}}))
	if want := `{"error":{"error":"PathError","message":"open p: file does not exist"},"id":"i","interrupts":[],"name":"n","result":{}}`; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFailures(t *testing.T) {
	task := &pregel.TaskError{Node: "n", Err: errors.New("boom")}
	panicked := &pregel.PanicError{Value: "of n", Stack: []byte("goroutine 1")}
	for _, c := range []struct {
		err  error
		want pregeljson.Failure
	}{
		{task, pregeljson.Failure{Error: "Error", Message: "boom"}},
		{fmt.Errorf("run: %w", task), pregeljson.Failure{Error: "Error", Message: "boom"}},
		{&os.PathError{Op: "open", Path: "p", Err: os.ErrNotExist}, pregeljson.Failure{Error: "PathError", Message: "open p: file does not exist"}},
		{pregel.ErrEmptyInput, pregeljson.Failure{Error: "EmptyInputError", Message: "received no input"}},
		{fmt.Errorf("run: %w", panicked), pregeljson.Failure{Error: "Error", Message: "run: panic: of n"}},
		{&pregel.TaskError{Node: "n", Err: fmt.Errorf("asked: %w", &pregel.AnswerError{Err: errors.New("no")})},
			pregeljson.Failure{Error: "AnswerError", Message: "asked: the answer to a question is refused: no"}},
		{&pregel.AnswerError{Err: &channel.TypeError{Want: reflect.TypeFor[pregeljson.Failure](), Got: "x"}},
			pregeljson.Failure{Error: "AnswerError", Message: "the answer to a question is refused: want an object, got a string"}},
		{&pregel.TaskError{Node: "n", Err: panicked}, pregeljson.Failure{Error: "PanicError", Message: "panic: of n"}},
	} {
		if got := pregeljson.FailureOf(c.err); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.err, got, c.want)
		}
	}
}

// TestRun shows a run with a graph inside, a question and a failure: all its events, and
// the states after it.
func TestRun(t *testing.T) {
	s := memory.New(memory.Options{})
	add := func(word string) pregel.Func {
		return func(context.Context, any) (any, error) { return map[string]any{"log": []string{word}}, nil }
	}
	var fixed fixedWorld
	inner := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
		Node("ask", func(ctx context.Context, _ any) (any, error) {
			answer, err := pregel.AskFor[string](ctx, map[string]any{"q": "ok?"})
			return map[string]any{"log": []string{answer}}, err
		}).Edge(graph.Start, "ask").Compile(graph.Options{Name: "inner", Env: fixed.env()}))
	g := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string])), graph.Key("messages", message.Channel(fixed.id))).
		Node("a", func(ctx context.Context, _ any) (any, error) {
			if err := pregel.Emit(ctx, map[string]any{"progress": 0.5}); err != nil {
				return nil, err
			}
			return map[string]any{"log": []string{"a"}, "messages": message.AI("hello", message.ToolCall{Name: "f", Args: map[string]any{"x": 1}, ID: "c"})}, nil
		}).Subgraph("inner", inner).Node("z", add("z")).
		Sequence(graph.Start, "a", "inner", "z").
		Compile(graph.Options{Name: "outer", Saver: s, Env: fixed.env()}))
	var out strings.Builder
	ctx := t.Context()
	show := func(title string, input any, before ...string) {
		fmt.Fprintf(&out, "# %s\n", title)
		opts := pregel.RunOptions{RunID: "00000000-0000-7000-8000-000000000001", Subgraphs: true, InterruptBefore: before, Modes: []pregel.Mode{
			pregel.ModeValues, pregel.ModeUpdates, pregel.ModeCustom, pregel.ModeMessages, pregel.ModeTasks, pregel.ModeCheckpoints, pregel.ModeDebug}}
		for ev, err := range g.Stream(ctx, pregel.Thread("t"), input, opts) {
			if err != nil {
				fmt.Fprintf(&out, "error %s\n", must(pregeljson.Marshal(pregeljson.FailureOf(err))))
				continue
			}
			fmt.Fprintf(&out, "%s|%s %s\n", ev.Mode, strings.Join(ev.NS, "|"), must(pregeljson.Event(ev)))
		}
		st := must(g.GetState(ctx, pregel.Thread("t"), pregel.StateOptions{Subgraphs: true}))
		fmt.Fprintf(&out, "state %s\n", must(pregeljson.Marshal(must(pregeljson.State(st)))))
	}
	st := must(g.GetState(ctx, pregel.Thread("t")))
	fmt.Fprintf(&out, "# empty\nstate %s\n", must(pregeljson.Marshal(must(pregeljson.State(st)))))
	show("input", map[string]any{"log": []string{"in"}})
	show("answer, to a breakpoint", pregel.Command{Resume: "yes"}, "z")
	show("end", nil)
	const golden = "testdata/run.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Split(string(must(os.ReadFile(golden))), "\n")
	for i, line := range strings.Split(out.String(), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s:%d: got\n%s\nwant\n%s\ngo test ./message/pregeljson -update writes it anew", golden, i+1, line, strings.Join(want[min(i, len(want)):min(i+1, len(want))], ""))
		}
	}
}

// fixedWorld has clocks and ids that are the same in every run.
type fixedWorld struct{ n int }

func (w *fixedWorld) id() string {
	w.n++
	return fmt.Sprintf("m%d", w.n)
}

func (w *fixedWorld) env() pregel.Environment {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := func() time.Time { return at }
	return pregel.Environment{Now: now, IDs: pregel.NewIDSource(now, func() uint64 { return 1 }), MessageID: w.id}
}
