package agents

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent/providers/schema"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

func conversation(call func(context.Context, []message.Message) (message.Message, error)) *graph.StateBuilder[State] {
	model := func(ctx context.Context, s *State) (graph.Update, error) {
		seen, err := message.Trim(s.Messages, message.TrimOptions{
			MaxTokens: 4000, Count: message.CountApproximately,
			IncludeSystem: true, StartOn: []message.Type{message.TypeHuman},
		})
		if err != nil {
			return nil, err
		}
		answer, err := call(ctx, seen)
		return graph.Write(&s.Messages, message.List{answer}), err
	}
	return graph.For[State]().Node("model", model).Edge(graph.Start, "model")
}

// TestConversation: the node of the page sees what fits, and its answer is kept.
func TestConversation(t *testing.T) {
	var seen []string
	call := func(_ context.Context, list []message.Message) (message.Message, error) {
		for _, m := range list {
			seen = append(seen, m.Text())
		}
		return message.AI("Fine."), nil
	}
	g, err := conversation(call).Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	list := []message.Message{message.System("Be brief."), message.Human(strings.Repeat("long ", 4000)), message.AI("Oh."), message.Human("How are you?")}
	res, err := g.Run(t.Context(), pregel.Thread("t"), State{State: message.State{Messages: list}, Topic: "health"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"Be brief.", "How are you?"}; !slices.Equal(seen, want) {
		t.Errorf("the model saw %.80q, want %q", seen, want)
	}
	if n := len(res.State.Messages); n != 5 {
		t.Errorf("%d messages", n)
	}
}

func show(ctx context.Context, parts []message.Chunk) (message.Message, error) {
	sum := parts[0]
	for i, part := range parts {
		if err := pregel.EmitMessage(ctx, part); err != nil {
			return message.Message{}, err
		}
		if i > 0 {
			var err error
			if sum, err = sum.Add(part); err != nil {
				return message.Message{}, err
			}
		}
	}
	return sum.Whole() // Text, ToolCalls, Usage
}

func repair(list []message.Message) []message.Message {
	if err := message.Validate(list, message.Rules{}); err != nil {
		log.Print(err) // message 1: tool call "1" has no answer right behind it
	}
	repaired, notes := message.Repair(list, message.Rules{})
	log.Print(len(repaired), notes)
	return repaired
}

// TestRepair: a conversation whose call has no answer is told, and repaired.
func TestRepair(t *testing.T) {
	list := []message.Message{message.Human("hi"), message.AI("", message.ToolCall{ID: "1", Name: "search"}), message.Human("and?")}
	if repaired := repair(list); len(repaired) != 4 || message.Validate(repaired, message.Rules{}) != nil {
		t.Error(repaired)
	}
}

// TestStreams: who streams in mode messages hears each part.
func TestStreams(t *testing.T) {
	parts := []message.Chunk{{Message: message.AI("Hello")}, {Message: message.AI(" Ada")}}
	for i := range parts {
		parts[i].ID = "1"
	}
	g, err := graph.New(graph.Key("messages", message.Channel(nil))).Node("model", func(ctx context.Context, _ any) (any, error) {
		sum, err := show(ctx, parts)
		return map[string]any{"messages": sum}, err
	}).Edge(graph.Start, "model").Compile(graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var heard []string
	for e, err := range g.Stream(t.Context(), pregel.Address{}, map[string]any{"messages": "Hi"}, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
		if err != nil {
			t.Fatal(err)
		}
		if part, ok := e.Data.(pregel.MessageEvent).Message.(message.Chunk); ok {
			heard = append(heard, part.Text())
		}
	}
	if want := []string{"Hello", " Ada"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

type State struct {
	message.State
	Topic string `json:"topic"`
}

type order struct {
	Item  string `json:"item" jsonschema:"what to buy"`
	Count int    `json:"count"`
}

func buying(b *graph.StateBuilder[State], buy func(ctx context.Context, key string, o order) error) error {
	shop, err := schema.Tool("buy", "Buys something.", func(ctx context.Context, in order) (string, error) {
		if ok, err := pregel.AskFor[bool](ctx, fmt.Sprintf("buy %d %s?", in.Count, in.Item)); err != nil || !ok {
			return "not allowed", err
		}
		key, err := tool.IdempotencyKey(ctx) // the same after a crash
		if err != nil {
			return "", err
		}
		return "bought", buy(ctx, key, in)
	})
	if err != nil {
		return err
	}
	tools, err := tool.NewNode(tool.Options{}, shop)
	if err != nil {
		return err
	}
	next := func(_ context.Context, s *State) (string, error) {
		if len(s.Messages[len(s.Messages)-1].ToolCalls) > 0 {
			return "tools", nil
		}
		return graph.End, nil
	}
	b.Func("tools", tools.Run).
		Edge("tools", "model").
		Conditional("model", next, "tools", graph.End)
	return nil
}

type Shop struct {
	message.State
	Looked []string `json:"looked"`
}

type User struct{ Name string }

func lookUp(ctx context.Context, in order) (any, error) {
	state, err := tool.State[Shop](ctx) // as it was when the model asked
	if err != nil {
		return nil, err
	}
	user, err := graph.ContextOf[User](ctx) // RunOptions.Context
	if err != nil {
		return nil, err
	}
	task, _ := pregel.Task(ctx)
	known, err := task.Store.Get(ctx, store.Namespace{"prices"}, in.Item) // Options.Store
	if err != nil {
		return nil, err
	}
	if err := pregel.Emit(ctx, "asked for "+in.Item); err != nil { // an event of mode custom
		return nil, err
	}
	call, _ := tool.CallOf(ctx)
	answer := fmt.Sprintf("%s: %v, %s", in.Item, known.Value["price"], user.Name)
	return pregel.Command{Update: map[string]any{
		"messages": message.ToolResult(call.ToolCall, answer),
		"looked":   append(slices.Clone(state.Looked), in.Item),
	}}, nil
}

// TestReach: the tool of the page reads what is around it, tells where it is, and changes the state.
func TestReach(t *testing.T) {
	prices, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer prices.Close()
	if err := prices.Put(t.Context(), store.Namespace{"prices"}, "tea", map[string]any{"price": 3}); err != nil {
		t.Fatal(err)
	}
	look, err := schema.Tool("look_up", "Looks up a price.", lookUp)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewNode(tool.Options{}, look)
	if err != nil {
		t.Fatal(err)
	}
	g, err := graph.For[Shop]().Func("tools", tools.Run).Edge(graph.Start, "tools").Compile(graph.Options{Store: prices})
	if err != nil {
		t.Fatal(err)
	}
	call := message.ToolCall{Name: "look_up", ID: "c1", Args: map[string]any{"item": "tea", "count": 1}}
	in := Shop{State: message.State{Messages: message.List{message.AI("", call)}}, Looked: []string{"milk"}}
	var told []any
	var last Shop
	modes := pregel.RunOptions{Context: User{"Ada"}, Modes: []pregel.Mode{pregel.ModeCustom, pregel.ModeValues}}
	for e, err := range g.Stream(t.Context(), pregel.Address{}, in, modes) {
		if err != nil {
			t.Fatal(err)
		}
		if e.State != nil {
			last = *e.State
		} else {
			told = append(told, e.Data)
		}
	}
	if !slices.Equal(last.Looked, []string{"milk", "tea"}) || last.Messages[1].Text() != "tea: 3, Ada" || !slices.Equal(told, []any{"asked for tea"}) {
		t.Errorf("%+v, told %v", last, told)
	}
}

// TestTools: the tool of the page asks, and buys once, under its key.
func TestTools(t *testing.T) {
	bought := map[string]order{}
	answers := 0
	b := graph.For[State]().Node("model", func(_ context.Context, s *State) (graph.Update, error) {
		answers++
		if answers > 1 {
			return graph.Write(&s.Messages, message.List{message.AI("Done.")}), nil
		}
		call := message.ToolCall{Name: "buy", ID: "c1", Args: map[string]any{"item": "tea", "count": 2}}
		return graph.Write(&s.Messages, message.List{message.AI("", call)}), nil
	}).Edge(graph.Start, "model")
	err := buying(b, func(_ context.Context, key string, o order) error {
		if _, twice := bought[key]; twice || key == "" {
			return errors.New("bought twice")
		}
		bought[key] = o
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Run(t.Context(), pregel.Thread("t"), State{State: message.State{Messages: message.List{message.Human("Buy tea.")}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Waiting) != 1 || res.Waiting[0].Value != "buy 2 tea?" || len(bought) != 0 {
		t.Fatalf("%v before it was allowed; bought %v", res.Waiting, bought)
	}
	if res, err = g.Resume(t.Context(), pregel.Thread("t"), true); err != nil || len(bought) != 1 || res.State.Messages[2].Text() != "bought" {
		t.Errorf("bought %v, %v, %v", bought, res, err)
	}
}
