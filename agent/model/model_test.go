package model_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

var ctx = context.Background()

func ask(text string) model.Request {
	return model.Request{Messages: []message.Message{message.Human(text)}}
}

// TestInOrder: a scripted model gives its answers in order, in parts that make them whole, and
// remembers what it was asked.
func TestInOrder(t *testing.T) {
	boom := errors.New("boom")
	whole := message.AI("It rains in Oslo.", message.ToolCall{Name: "weather", ID: "1", Args: map[string]any{"city": "Oslo", "days": int64(2)}}, message.ToolCall{Name: "now", ID: "2", Args: map[string]any{}})
	whole.Usage = &message.Usage{InputTokens: 3, OutputTokens: 4, TotalTokens: 7}
	whole.ResponseMetadata = map[string]any{"finish_reason": "stop"}
	whole.ID = "m1"
	broken := message.Message{Type: message.TypeAI, ID: "m2", InvalidToolCalls: []message.InvalidToolCall{{Name: "broken", ID: "3", Args: "nope"}}}
	m := model.NewScripted(model.Answer{Message: whole}, model.Fail(boom), model.Text("bye"), model.Answer{Message: broken})
	got, err := model.Call(ctx, m, ask("weather?"))
	if err != nil {
		t.Fatal(err)
	}
	if !message.Equal(got, whole) {
		t.Errorf("got %+v, want %+v", got, whole)
	}
	if _, err := model.Call(ctx, m, ask("again?")); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if got, err := model.Collect(ctx, m, ask("last?")); err != nil || got.Content != "bye" || got.ID == "" {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := model.Call(ctx, m, ask("broken?")); err != nil || !message.Equal(got, broken) {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := model.Call(ctx, m, ask("more?")); !errors.Is(err, model.ErrScriptEnded) {
		t.Errorf("error %v", err)
	}
	var asked []string
	for _, r := range m.Requests() {
		asked = append(asked, r.Messages[0].Content)
	}
	if got := strings.Join(asked, " "); got != "weather? again? last? broken? more?" {
		t.Errorf("asked %s", got)
	}
}

// TestByFunction: a scripted model answers by what it is asked; a script that cannot be streamed
// is an error.
func TestByFunction(t *testing.T) {
	m := model.NewScriptedFunc(func(_ context.Context, r model.Request) (model.Answer, error) {
		switch r.Messages[0].Content {
		case "tools":
			return model.Text(r.Tools[0].Name), nil
		case "unjson":
			return model.Calls(message.ToolCall{Name: "f", Args: map[string]any{"c": make(chan int)}}), nil
		case "human":
			return model.Answer{Message: message.Human("I")}, nil
		case "empty":
			return model.Answer{Chunks: []message.Chunk{}}, nil
		}
		return model.Answer{}, errors.ErrUnsupported
	}).WithProfile(model.Profile{MaxInputTokens: 9})
	r := ask("tools")
	r.Tools = []tool.Definition{{Name: "weather"}}
	if got, err := model.Call(ctx, m, r); err != nil || got.Content != "weather" {
		t.Errorf("%+v %v", got, err)
	}
	for text, want := range map[string]error{"human": model.ErrNoAnswer, "empty": model.ErrNoAnswer, "else": errors.ErrUnsupported} {
		if _, err := model.Call(ctx, m, ask(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := model.Call(ctx, m, ask("unjson")); err == nil {
		t.Error("a channel was sent as arguments")
	}
	if got := model.ProfileOf(m).MaxInputTokens; got != 9 {
		t.Errorf("profile %d", got)
	}
	if got := model.ProfileOf(struct{ model.Model }{m}); got != (model.Profile{}) {
		t.Errorf("profile %+v", got)
	}
}

// TestShown: mode messages shows each part of an answer once, under the id of the message that the
// node then returns, and nothing of what was collected.
func TestShown(t *testing.T) {
	m := model.NewScripted(model.Text("thought"), model.Text("one two three"))
	g, err := graph.New(graph.Key("messages", message.Channel(nil))).Node("model", pregel.NodeOf(func(ctx context.Context, s message.State) (any, error) {
		if _, err := model.Collect(ctx, m, model.Request{Messages: s.Messages}); err != nil {
			return nil, err
		}
		answer, err := model.Call(ctx, m, model.Request{Messages: s.Messages})
		return map[string]any{"messages": answer}, err
	})).Edge(graph.Start, "model").Compile(graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	ids := map[string]bool{}
	for e, err := range g.Stream(ctx, pregel.Address{}, map[string]any{"messages": message.Human("hi")}, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
		if err != nil {
			t.Fatal(err)
		}
		c, ok := e.Data.(pregel.MessageEvent).Message.(message.Chunk)
		if !ok {
			t.Fatalf("shown: %T", e.Data.(pregel.MessageEvent).Message)
		}
		shown = append(shown, c.Content)
		ids[c.ID] = true
	}
	if got := strings.Join(shown, "|"); got != "one |two |three|" || len(ids) != 1 {
		t.Errorf("shown %q under %v", got, ids)
	}
}

// TestCancelled: the context ends a stream, also one that waits, and one that ends in silence.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(ctx)
	slow := model.NewScripted(model.Answer{Message: message.AI("never"), Delay: time.Hour})
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := model.Call(ctx, slow, ask("hi")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := model.Call(ctx, silent{}, ask("hi")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// silent is a model that ends its stream early when it is cancelled, without an error.
type silent struct{}

func (silent) Stream(context.Context, model.Request) iter.Seq2[message.Chunk, error] {
	return func(yield func(message.Chunk, error) bool) {
		yield(message.Chunk{Message: message.AI("cut of")}, nil)
	}
}

// TestUnmerged: chunks that do not fit together, and a cut stream, are errors.
func TestUnmerged(t *testing.T) {
	text := message.Chunk{Message: message.AI("a")}
	blocks := message.Chunk{Message: message.Message{Type: message.TypeAI, AdditionalKwargs: map[string]any{"k": "text"}}}
	other := message.Chunk{Message: message.Message{Type: message.TypeAI, AdditionalKwargs: map[string]any{"k": int64(1)}}}
	cut := errors.New("cut")
	m := model.NewScripted(model.Answer{Chunks: []message.Chunk{text, blocks, other}}, model.Answer{Chunks: []message.Chunk{text}, Err: cut})
	if _, err := model.Call(ctx, m, ask("hi")); !errors.Is(err, message.ErrMerge) {
		t.Errorf("error %v", err)
	}
	if _, err := model.Call(ctx, m, ask("hi")); !errors.Is(err, cut) {
		t.Errorf("error %v", err)
	}
}

// TestCallRepairs: a model is given a conversation that providers take, and its calls get ids of their
// own. What the caller has stays.
func TestCallRepairs(t *testing.T) {
	call := message.ToolCall{Name: "f", ID: "1"}
	m := model.NewScripted(model.Calls(call, message.ToolCall{Name: "g"}), model.Text("x"))
	given := []message.Message{message.Human("hi"), message.AI("", call), message.Human("more")}
	got, err := model.Call(ctx, m, model.Request{Messages: given})
	if err != nil || got.ToolCalls[0].ID != "1-1" || got.ToolCalls[1].ID == "" {
		t.Errorf("%+v %v", got.ToolCalls, err)
	}
	if _, err := model.Collect(ctx, m, model.Request{Messages: append(given, got)}); err != nil || len(given) != 3 {
		t.Error(err)
	}
	for i, want := range []int{4, 7} {
		list := m.Requests()[i].Messages
		if err := message.Validate(list, message.Rules{}); err != nil || len(list) != want {
			t.Errorf("asked with %v: %v", list, err)
		}
	}
}

// TestMeter: an answer is given to the meter of its context, and to the meters around that one, whoever asks.
func TestMeter(t *testing.T) {
	answer := message.AI("It rains.")
	answer.Usage = &message.Usage{InputTokens: 3, OutputTokens: 4, TotalTokens: 7}
	var inner, outer []int64
	metered := message.WithMeter(ctx, func(_ context.Context, m message.Message) { outer = append(outer, m.Usage.TotalTokens) })
	metered = message.WithMeter(metered, func(_ context.Context, m message.Message) { inner = append(inner, m.Usage.TotalTokens) })
	m := model.NewScripted(model.Answer{Message: answer}, model.Answer{Message: answer}, model.Fail(errors.New("busy")))
	for i, call := range []func(context.Context, model.Model, model.Request) (message.Message, error){model.Call, model.Collect, model.Call} {
		if _, err := call(metered, m, ask("weather?")); (err != nil) != (i == 2) {
			t.Fatal(err)
		}
	}
	if len(inner) != 2 || len(outer) != 2 || inner[0] != 7 || outer[1] != 7 {
		t.Errorf("the meters have %v and %v", inner, outer)
	}
}
