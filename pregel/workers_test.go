package pregel_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
)

// After a wide superstep only few goroutines wait for the next.
func TestWorkersOfAWideStep(t *testing.T) {
	const wide, few = 100, 20
	before := runtime.NumGoroutine()
	var gate sync.WaitGroup // all tasks of the first superstep run at once
	gate.Add(wide)
	spec, o := pregel.Spec{Input: pregel.One("in"), Output: pregel.One("out"), Channels: map[string]channel.Channel{"in": channel.LastValue[any](), "out": channel.Reduce(channel.Append[int])}},
		pregel.Options{}
	add := func(b *pregel.NodeBuilder) {
		n, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	for i := range wide {
		add(node(fmt.Sprintf("n%02d", i), func(context.Context, any) (any, error) {
			gate.Done()
			gate.Wait()
			return []int{i}, nil
		}).SubscribeOnly("in").WriteTo("out"))
	}
	left := 0
	add(node("last", func(context.Context, any) (any, error) {
		for range 1000 { // those that go need a moment
			if left = runtime.NumGoroutine() - before; left <= few {
				break
			}
			time.Sleep(time.Millisecond)
		}
		return nil, nil
	}).SubscribeOnly("out"))
	g, err := pregel.New(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Invoke(ctx, pregel.Address{}, 1)
	if err != nil || len(res.Value.([]int)) != wide {
		t.Fatalf("%v, %v", res, err)
	}
	if left > few {
		t.Errorf("%d goroutines are left of %d tasks", left, wide)
	}
}
