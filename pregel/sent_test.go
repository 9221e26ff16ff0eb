package pregel_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestSent: each task of a superstep knows all Sends that made tasks of it, and which is its own.
func TestSent(t *testing.T) {
	want := []pregel.Send{{Node: "work", Arg: "a"}, {Node: "work", Arg: "b"}}
	b := graph.New(graph.Key("seen", channel.Reduce(channel.Append[any])))
	look := func(ctx context.Context, in any) (any, error) {
		all, own, err := pregel.Sent(ctx)
		if _, sent := in.(string); sent && (own < 0 || all[own].Arg != in) || !sent && own != -1 {
			t.Errorf("the task of %v is Send %d of %v", in, own, all)
		}
		if !reflect.DeepEqual(all, want) {
			t.Errorf("Sends %v", all)
		}
		return map[string]any{"seen": []any{own}}, err
	}
	b.Node("start", func(ctx context.Context, _ any) (any, error) {
		if all, own, err := pregel.Sent(ctx); len(all) != 0 || own != -1 || err != nil {
			t.Errorf("nothing was sent: %v, %d, %v", all, own, err)
		}
		return pregel.Command{Goto: []any{"beside", want[0], want[1]}}, nil
	})
	b.Node("work", look).Node("beside", look).Edge(graph.Start, "start")
	g, err := b.Compile(graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Invoke(context.Background(), pregel.Address{}, map[string]any{})
	if err != nil || len(res.Map()["seen"].([]any)) != 3 {
		t.Errorf("%v, %v", res, err)
	}
	if _, _, err := pregel.Sent(context.Background()); !errors.Is(err, pregel.ErrOutsideTask) {
		t.Errorf("outside of a task: %v", err)
	}
}

// TestSentBehindItsEnd: a body that was abandoned after a timeout reads no channel that later supersteps
// change; the race detector sees it if it does.
func TestSentBehindItsEnd(t *testing.T) {
	ended := make(chan struct{})
	b := graph.New(graph.Key("n", channel.LastValue[int]()))
	b.Node("slow", func(ctx context.Context, _ any) (any, error) {
		defer close(ended)
		for {
			if _, _, err := pregel.Sent(ctx); err != nil {
				if !errors.Is(err, pregel.ErrOutsideTask) {
					t.Error(err)
				}
				return nil, err
			}
		}
	}, graph.NodeOptions{Timeout: pregel.Timeout(time.Millisecond, 0), OnError: func(context.Context, any) (any, error) {
		return pregel.Command{Goto: []any{pregel.Send{Node: "next", Arg: 30}}}, nil
	}})
	b.Node("next", func(_ context.Context, in any) (any, error) {
		if n := in.(int); n > 0 {
			return pregel.Command{Goto: []any{pregel.Send{Node: "next", Arg: n - 1}}}, nil
		}
		return nil, nil
	})
	b.Edge(graph.Start, "slow")
	g, err := b.Compile(graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(t.Context(), pregel.Address{}, map[string]any{"n": 1}, pregel.RunOptions{RecursionLimit: 50}); err != nil {
		t.Error(err)
	}
	<-ended
}
