package tool_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// TestIdempotencyKey: two calls of one message have two keys, and each has the same when it runs
// again.
func TestIdempotencyKey(t *testing.T) {
	keys, fail := map[string]map[string]bool{}, true
	mail := tool.Must(tool.New("mail", "", tool.Unchecked(`{"type":"object"}`), func(ctx context.Context, _ struct{}) (string, error) {
		key, err := tool.IdempotencyKey(ctx)
		if err != nil {
			return "", err
		}
		call, _ := tool.CallOf(ctx)
		keys[call.ID] = map[string]bool{key: true}
		return "sent", nil
	}))
	n, err := tool.NewNode(tool.Options{}, mail)
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]map[string]bool{}
	var at = pregel.Thread("t")
	g, err := graph.New(graph.Key("messages", message.Channel(nil))).
		Node("tools", func(ctx context.Context, state any) (any, error) {
			for _, id := range []string{"1", "2"} { // one after the other
				if _, err := n.Run(ctx, []message.Message{message.AI("", message.ToolCall{Name: "mail", ID: id})}); err != nil {
					return nil, err
				}
			}
			if fail {
				first, keys = keys, map[string]map[string]bool{}
				return nil, errors.New("oh")
			}
			return nil, nil
		}).Sequence(graph.Start, "tools", graph.End).Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(ctx, at, map[string]any{"messages": "hi"}); err == nil {
		t.Fatal("no error")
	}
	fail = false
	if _, err := g.Invoke(ctx, at, nil); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, id := range []string{"1", "2"} {
		for key := range keys[id] {
			all[key] = true
			if !first[id][key] {
				t.Errorf("call %s had another key before", id)
			}
		}
	}
	if len(all) != 2 {
		t.Errorf("two calls have the keys %v", all)
	}
	if _, err := tool.IdempotencyKey(ctx); !errors.Is(err, tool.ErrOutsideCall) {
		t.Errorf("outside of a call: %v", err)
	}
}

func TestMust(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a tool without a name is one")
		}
	}()
	tool.Must(tool.New("", "", tool.Unchecked("{}"), func(context.Context, struct{}) (string, error) { return "", nil }))
}
