package graph_test

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Map-reduce: one packet for each part of the work, results in the order of the
// packets, whichever ends first.
func ExampleBuilder_Conditional() {
	split := func(_ context.Context, state any) (any, error) {
		var out []pregel.Send
		for _, word := range state.(map[string]any)["words"].([]string) {
			out = append(out, pregel.Send{Node: "count", Arg: word})
		}
		return out, nil
	}
	count := pregel.NodeOf(func(_ context.Context, word string) (any, error) {
		return map[string]any{"lengths": []int{len(word)}}, nil
	})
	g := must(graph.New(graph.Key("words", channel.LastValue[[]string]()), graph.Key("lengths", channel.Reduce(channel.Append[int]))).
		Node("count", count).
		Conditional(graph.Start, "split", split, "count").
		Compile(graph.Options{}))
	res := must(g.Invoke(context.Background(), pregel.Address{}, map[string]any{"words": []string{"one", "three", "eleven"}}))
	fmt.Println(res.Map()["lengths"])
	// Output: [3 5 6]
}

// Back to an earlier checkpoint, and on from there with another state. The old
// branch stays as it was.
func Example_timeTravel() {
	says := func(word string) pregel.Func {
		return func(context.Context, any) (any, error) { return map[string]any{"steps": []string{word}}, nil }
	}
	g := must(graph.New(graph.Key("steps", channel.Reduce(channel.Append[string]))).
		Node("draft", says("draft")).Node("send", says("send")).
		Sequence(graph.Start, "draft", "send", graph.End).
		Compile(graph.Options{Saver: memory.New(memory.Options{})}))
	ctx, thread := context.Background(), pregel.Thread("t")
	must(g.Invoke(ctx, thread, map[string]any{"steps": []string{}}))
	for s, err := range g.GetStateHistory(ctx, thread, pregel.HistoryQuery{}) {
		if err != nil {
			panic(err)
		}
		if len(s.Next) == 1 && s.Next[0] == "send" {
			fork := must(g.UpdateState(ctx, s.Address, pregel.StateUpdate{Values: map[string]any{"steps": []string{"edited"}}, AsNode: "draft"}))
			fmt.Println(must(g.Invoke(ctx, fork, nil)).Map()["steps"])
			break
		}
	}
	// Output: [draft edited send]
}

// What a graph does can be watched while it runs.
func Example_stream() {
	g := must(graph.New(graph.Key("n", channel.LastValue[int]())).
		Node("double", func(ctx context.Context, s any) (any, error) {
			n := s.(map[string]any)["n"].(int)
			return map[string]any{"n": n * 2}, pregel.Emit(ctx, fmt.Sprintf("doubling %d", n))
		}).
		Edge(graph.Start, "double").Compile(graph.Options{}))
	for e, err := range g.Stream(context.Background(), pregel.Address{}, map[string]any{"n": 21}, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeCustom, pregel.ModeUpdates}}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(e.Mode, e.Data)
	}
	// Output:
	// custom doubling 21
	// updates {double map[n:42] false}
}

// A function whose calls are durable: when it goes on after its question, the
// call that ended is not made again.
func Example_functional() {
	fetch := pregel.NewTask("fetch", func(_ context.Context, city string) (string, error) {
		fmt.Println("fetching", city)
		return "sun in " + city, nil
	})
	flow := must(pregel.Entrypoint("weather", func(ctx context.Context, city string) (string, error) {
		report, err := fetch.Call(ctx, city)
		if err != nil {
			return "", err
		}
		to, err := pregel.AskFor[string](ctx, "send to whom?")
		return to + ": " + report, err
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: memory.New(memory.Options{})}}))
	ctx, thread := context.Background(), pregel.Thread("t")
	fmt.Println(must(flow.Invoke(ctx, thread, "Oslo")).Interrupts[0].Value)
	fmt.Println(must(flow.Invoke(ctx, thread, pregel.Command{Resume: "Ada"})).Value)
	// Output:
	// fetching Oslo
	// send to whom?
	// Ada: sun in Oslo
}

// The graphs inside are listed by the nodes that run them.
func ExampleBuilder_Subgraph() {
	step := func(context.Context, any) (any, error) { return map[string]any{"n": 1}, nil }
	n := graph.Key("n", channel.Reduce(channel.Add[int]))
	inner := must(graph.New(n).Node("one", step).Node("two", step).Sequence(graph.Start, "one", "two").Compile(graph.Options{Name: "inner"}))
	g := must(graph.New(n).Subgraph("twice", inner).Node("once", step).Sequence(graph.Start, "twice", "once").Compile(graph.Options{}))
	for _, s := range g.GetSubgraphs() {
		fmt.Println(s.Namespace, s.Graph.Name(), s.Graph.Nodes())
	}
	fmt.Println(must(g.Invoke(context.Background(), pregel.Address{}, map[string]any{"n": 0})).Map()["n"])
	// Output:
	// twice inner [__start__ one two]
	// 3
}

// A node that runs once two others have, in whatever supersteps, and one that waits
// until nothing else is left to run.
func ExampleBuilder_Join() {
	says := func(word string) pregel.Func {
		return func(context.Context, any) (any, error) { return map[string]any{"said": []string{word}}, nil }
	}
	g := must(graph.New(graph.Key("said", channel.Reduce(channel.Append[string]))).
		Node("left", says("left")).Node("right", says("right")).Node("middle", says("middle")).
		Node("both", says("both")).Node("last", says("last"), graph.NodeOptions{Defer: true}).
		Edge(graph.Start, "left").Edge(graph.Start, "middle").Edge("middle", "right").Edge(graph.Start, "last").
		Join([]string{"left", "right"}, "both").
		Compile(graph.Options{}))
	fmt.Println(must(g.Invoke(context.Background(), pregel.Address{}, map[string]any{"said": []string{}})).Map()["said"])
	// Output: [left middle right both last]
}

// A node that fails for good hands over to its handler, in the same superstep.
func ExampleNodeOptions() {
	type state = map[string]any
	g := must(graph.New(graph.Key("log", channel.LastValue[string]())).
		Node("risky", func(context.Context, any) (any, error) { return nil, fmt.Errorf("no route to host") },
			graph.NodeOptions{Retry: []pregel.RetryPolicy{{MaxAttempts: 1}},
				OnError: func(ctx context.Context, _ any) (any, error) {
					task, _ := pregel.Task(ctx)
					return state{"log": task.Failure.Node + ": " + task.Failure.Err.Error()}, nil
				}}).
		Edge(graph.Start, "risky").Compile(graph.Options{}))
	fmt.Println(must(g.Invoke(context.Background(), pregel.Address{}, state{"log": ""})).Map()["log"])
	// Output: risky: no route to host
}
