package message_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

var ctx = context.Background()

type chat struct {
	message.State
	Topic string `json:"topic"`
}

func compile(t *testing.T, b *graph.Builder, o graph.Options) *pregel.Graph {
	t.Helper()
	g, err := b.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// echo is a graph whose node answers the last message.
func echo(t *testing.T, s saver.Saver) *pregel.Graph {
	t.Helper()
	b := graph.New(graph.Key("messages", message.Channel(nil)), graph.Key("topic", nil))
	b.Node("model", pregel.NodeOf(func(_ context.Context, s chat) (any, error) {
		last := s.Messages[len(s.Messages)-1]
		return chat{State: message.State{Messages: message.List{message.AI("re: " + last.Text())}}, Topic: "t"}, nil
	}))
	b.Sequence(graph.Start, "model")
	return compile(t, b, graph.Options{Saver: s, Env: pregel.Environment{MessageID: counter("m")}})
}

func counter(prefix string) func() string {
	n := 0
	return func() string { n++; return fmt.Sprint(prefix, n) }
}

// storedMessages is the bytes of the conversation in the newest checkpoint.
func storedMessages(t *testing.T, s saver.Saver, thread string) []byte {
	t.Helper()
	tuple, err := s.GetTuple(ctx, saver.Config{ThreadID: thread})
	if err != nil || tuple == nil {
		t.Fatal(tuple, err)
	}
	v := tuple.Checkpoint.Values["messages"]
	typed, err := v.Typed()
	if err != nil {
		t.Fatal(err)
	}
	return typed.Data
}

// TestStateInGraph: a graph over a struct that embeds State adds up its conversation, and what
// it stores is what was stored before, and more.
func TestStateInGraph(t *testing.T) {
	s := memory.New(memory.Options{})
	g := echo(t, s)
	at := pregel.Address{ThreadID: "1"}
	for i, text := range []string{"a", "b", "c"} {
		if _, err := g.Invoke(ctx, at, chat{State: message.State{Messages: message.List{{Type: message.TypeHuman, Content: text, ID: fmt.Sprint(i)}}}}); err != nil {
			t.Fatal(err)
		}
	}
	data := storedMessages(t, s, "1")
	var list message.List
	decodeInto(t, data, &list)
	var texts []string
	ids := map[string]bool{}
	for _, m := range list {
		texts = append(texts, m.Text())
		ids[m.ID] = m.ID != ""
	}
	if want := []string{"a", "re: a", "b", "re: b", "c", "re: c"}; !slices.Equal(texts, want) || len(ids) != 6 {
		t.Errorf("texts %q, ids %v", texts, ids)
	}
	made := make(message.List, len(list))
	for i, m := range list {
		made[i] = fresh(m)
	}
	if got := encoded(t, made); !bytes.Equal(got, data) {
		t.Errorf("stored %q, want %q", data, got)
	}
}

// TestThreadOfPython: a graph goes on with a thread whose messages Python stored, and leaves
// those bytes as they were.
func TestThreadOfPython(t *testing.T) {
	for _, s := range python().Other[:8] {
		store := memory.New(memory.Options{})
		var ext any
		decodeInto(t, s.Data, &ext)
		b := graph.New(graph.Key("messages", channel.LastValue[any]()))
		b.Node("n", func(context.Context, any) (any, error) { return map[string]any{"messages": []any{ext}}, nil })
		b.Sequence(graph.Start, "n")
		if _, err := compile(t, b, graph.Options{Saver: store}).Invoke(ctx, pregel.Address{ThreadID: "1"}, map[string]any{"messages": nil}); err != nil {
			t.Fatal(err)
		}
		if data := storedMessages(t, store, "1"); !bytes.Equal(data[1:], s.Data) {
			t.Fatalf("Python stored %q, the thread has %q", s.Data, data)
		}
		if _, err := echo(t, store).Invoke(ctx, pregel.Address{ThreadID: "1"}, chat{State: message.State{Messages: message.List{message.Human("hi")}}}); err != nil {
			t.Fatal(err)
		}
		var m message.Message
		decodeInto(t, s.Data, &m)
		want := s.Data
		var list message.List
		data := storedMessages(t, store, "1")
		decodeInto(t, data, &list)
		if m.ID == "" { // it has one since
			m.ID = list[0].ID
			want = encoded(t, m)
		}
		if !bytes.HasPrefix(data[1:], want) || len(list) != 3 {
			t.Errorf("%s: %d messages, and %q\n became %q", s.Class, len(list), s.Data, data)
		}
	}
}

// TestDeltaInGraph: a conversation in a DeltaChannel gets its ids before it is stored, and is the
// same when it is read again from what was written.
func TestDeltaInGraph(t *testing.T) {
	s := memory.New(memory.Options{})
	n := 0
	newID := counter("d")
	run := func() message.List {
		b := graph.New(graph.Key("topic", nil), graph.Key("messages", message.DeltaChannel(2, newID)))
		b.Node("model", pregel.NodeOf(func(_ context.Context, s chat) (any, error) {
			n++
			return map[string]any{"messages": []any{message.AI(fmt.Sprint("answer ", n)), "and you?"}}, nil
		}))
		b.Sequence(graph.Start, "model")
		res, err := compile(t, b, graph.Options{Saver: s}).Invoke(ctx, pregel.Address{ThreadID: "1"}, map[string]any{"messages": "hi"})
		if err != nil {
			t.Fatal(err)
		}
		return res.Map()["messages"].(message.List)
	}
	var before message.List
	for range 5 {
		list := run()
		if len(list) != len(before)+3 || !slices.EqualFunc(list[:len(before)], before, message.Equal) || slices.ContainsFunc(list, func(m message.Message) bool { return m.ID == "" }) {
			t.Fatalf("%s\nafter %s", show(list), show(before))
		}
		before = list
	}
	g := compile(t, graph.New(graph.Key("topic", nil), graph.Key("messages", message.DeltaChannel(2, nil))).Node("n", func(context.Context, any) (any, error) { return nil, nil }).Edge(graph.Start, "n"), graph.Options{Saver: memory.New(memory.Options{})})
	if _, err := g.Invoke(ctx, pregel.Address{ThreadID: "1"}, map[string]any{"messages": 7}); !errors.Is(err, message.ErrNotMessage) {
		t.Errorf("a number: %v", err)
	}
}

// TestThreadOfJavaScript: a graph reads a thread whose messages JavaScript stored, and goes on with
// it.
func TestThreadOfJavaScript(t *testing.T) {
	s := memory.New(memory.Options{})
	at := pregel.Address{ThreadID: "1"}
	if _, err := echo(t, s).Invoke(ctx, at, map[string]any{"messages": "hi"}); err != nil {
		t.Fatal(err)
	}
	tuple, err := s.GetTuple(ctx, saver.Config{ThreadID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	cp := tuple.Checkpoint
	cp.ID = cp.ID[:24] + "ffffffffffff" // a newer one
	cp.Values["messages"] = saver.ValueTyped(serde.Typed{Kind: serde.KindJSON, Data: []byte(javascript().List)})
	version, err := s.NextVersion(cp.Versions["messages"], "messages")
	if err != nil {
		t.Fatal(err)
	}
	cp.Versions["messages"] = version
	if _, err := s.Put(ctx, saver.Config{ThreadID: "1", CheckpointID: tuple.Checkpoint.ID}, cp, tuple.Metadata, map[string]saver.Version{"messages": version}); err != nil {
		t.Fatal(err)
	}
	res, err := echo(t, s).Invoke(ctx, at, map[string]any{"messages": "go on"})
	if err != nil {
		t.Fatal(err)
	}
	list := res.Map()["messages"].(message.List)
	if len(list) < 10 || list[len(list)-1].Text() != "re: go on" || list[len(list)-2].Text() != "go on" {
		t.Errorf("%s", show(list))
	}
	var stored message.List
	decodeInto(t, storedMessages(t, s, "1"), &stored)
	if !slices.EqualFunc(list, stored, message.Equal) {
		t.Errorf("stored %s", show(stored))
	}
}

// TestThreadOfPlainMessages: a graph that kept its conversation in channel.Messages goes on with
// this package's.
func TestThreadOfPlainMessages(t *testing.T) {
	s := memory.New(memory.Options{})
	b := graph.New(graph.Key("messages", channel.Messages(nil)))
	b.Node("n", func(context.Context, any) (any, error) {
		return map[string]any{"messages": []channel.Message{{Role: "tool", Content: "x", ToolCallID: "c", Name: "f", Extra: map[string]any{"a": 1}}}}, nil
	})
	b.Sequence(graph.Start, "n")
	at := pregel.Address{ThreadID: "1"}
	if _, err := compile(t, b, graph.Options{Saver: s}).Invoke(ctx, at, map[string]any{"messages": channel.Message{ID: "h", Role: "human", Content: []any{"hi"}}}); err != nil {
		t.Fatal(err)
	}
	res, err := echo(t, s).Invoke(ctx, at, map[string]any{"messages": []channel.Message{{Role: "user", Content: "more"}, channel.RemoveMessage("h")}})
	if err != nil {
		t.Fatal(err)
	}
	list := res.Map()["messages"].(message.List)
	if len(list) != 3 || list[0].ToolCallID != "c" || list[0].Name != "f" || show(list[0].AdditionalKwargs) != `{"extra":{"a":1}}` || list[1].Type != message.TypeHuman {
		t.Errorf("%s", show(list))
	}
}

// TestChannelRefuses: what is no message, and the removal of what is not there, is refused
// before the run begins, or as the error of the step.
func TestChannelRefuses(t *testing.T) {
	g := echo(t, memory.New(memory.Options{}))
	var update *channel.UpdateError
	if _, err := g.Invoke(ctx, pregel.Address{ThreadID: "1"}, map[string]any{"messages": 7}); !errors.Is(err, message.ErrNotMessage) || !errors.As(err, &update) {
		t.Errorf("a number: %v", err)
	}
	if _, err := g.Invoke(ctx, pregel.Address{ThreadID: "1"}, map[string]any{"messages": message.List{{Type: "robot"}}}); !errors.Is(err, message.ErrNotMessage) || !errors.As(err, &update) {
		t.Errorf("a type that there is not: %v", err)
	}
	var unknown *message.UnknownIDError
	if _, err := g.Invoke(ctx, pregel.Address{ThreadID: "1"}, map[string]any{"messages": message.Remove("x")}); !errors.As(err, &unknown) || unknown.ID != "x" {
		t.Errorf("a removal: %v", err)
	}
}

// TestOverrideOfDeclaredChannel: a Field takes the place of the channel of a List.
func TestOverrideOfDeclaredChannel(t *testing.T) {
	b := graph.New(graph.Key("topic", nil), graph.Key("messages", message.Channel(counter("own"))))
	b.Node("n", pregel.NodeOf(func(context.Context, chat) (any, error) { return nil, nil }))
	b.Sequence(graph.Start, "n")
	res, err := compile(t, b, graph.Options{}).Invoke(ctx, pregel.Address{}, map[string]any{"messages": "hi"})
	if err != nil {
		t.Fatal(err)
	}
	if list := res.Map()["messages"].(message.List); list[0].ID != "own1" {
		t.Errorf("id %q", list[0].ID)
	}
}

// TestMessageMode: messages and chunks are shown once, as they are sent or when their node
// ends.
func TestMessageMode(t *testing.T) {
	b := graph.New(graph.Key("messages", message.Channel(nil)), graph.Key("topic", nil))
	b.Node("model", pregel.NodeOf(func(ctx context.Context, s chat) (any, error) {
		var sum message.Chunk
		for i, text := range []string{"he", "llo"} {
			part := message.Chunk{Message: message.AI(text)}
			part.ID = "a"
			if err := pregel.EmitMessage(ctx, part); err != nil {
				return nil, err
			}
			if i == 0 {
				sum = part
				continue
			}
			var err error
			if sum, err = sum.Add(part); err != nil {
				return nil, err
			}
		}
		return map[string]any{"messages": []any{sum, message.AI("bye")}}, nil
	}))
	b.Sequence(graph.Start, "model")
	g := compile(t, b, graph.Options{Env: pregel.Environment{MessageID: counter("m")}})
	var got []string
	for e, err := range g.Stream(ctx, pregel.Address{}, chat{State: message.State{Messages: message.List{message.Human("hi")}}}, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
		if err != nil {
			t.Fatal(err)
		}
		switch m := e.Data.(pregel.MessageEvent).Message.(type) {
		case message.Chunk:
			got = append(got, "part "+m.ID+" "+m.Text())
		case message.Message:
			got = append(got, m.ID+" "+m.Text())
		}
	}
	if want := []string{"part a he", "part a llo", "m1 bye"}; !slices.Equal(got, want) {
		t.Errorf("shown %q, want %q", got, want)
	}
}

// TestRoundTrip: messages among the pending writes of a node are read again as what
// they were.
func TestRoundTrip(t *testing.T) {
	b := graph.New(graph.Key("messages", message.Channel(nil)), graph.Key("topic", nil))
	b.Node("model", pregel.NodeOf(func(_ context.Context, s chat) (any, error) {
		return map[string]any{"messages": []any{message.AI("x", message.ToolCall{Name: "f", ID: "1", Args: map[string]any{"a": 1}}), "text"}}, nil
	}))
	b.Sequence(graph.Start, "model")
	g := compile(t, b, graph.Options{RoundTrip: true})
	res, err := g.Invoke(ctx, pregel.Address{}, chat{State: message.State{Messages: message.List{message.Human("hi")}}})
	if err != nil {
		t.Fatal(err)
	}
	list := res.Map()["messages"].(message.List)
	if len(list) != 3 || list[1].ToolCalls[0].Args["a"] != int64(1) || list[2].Type != message.TypeHuman {
		t.Errorf("%s", show(list))
	}
}

// TestWithoutType: where nothing asks for a message, a stored one is what it is without this
// package, and From reads it.
func TestWithoutType(t *testing.T) {
	for _, s := range python().Plain {
		v, err := serde.Default().Decode(serde.Typed{Kind: serde.KindMsgpack, Data: s.Data})
		x, ok := v.(*serde.Ext)
		if err != nil || !ok || x.Name != s.Class {
			t.Fatalf("%T %v", v, err)
		}
		m, err := message.From(v)
		if err != nil || !bytes.Equal(encoded(t, m), s.Data) {
			t.Errorf("%s: %s %v", s.Class, show(m), err)
		}
	}
}
