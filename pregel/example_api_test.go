package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store/cache"
)

// adder adds by to n whenever it is started.
func adder(by int, o pregel.Options) *pregel.Graph {
	spec := pregel.Spec{Input: pregel.Many("start", "n"), Output: pregel.One("n"),
		Channels: map[string]channel.Channel{"start": channel.Ephemeral[int](channel.Guarded), "n": channel.Reduce(channel.Add[int])}}
	return build(spec, o, pregel.NewNode("add").TriggerOn("start").
		Do(func(context.Context, any) (any, error) { return by, nil }).WriteTo("n"))
}

func ExampleNew() {
	g := adder(5, pregel.Options{})
	res := must(g.Invoke(context.Background(), pregel.Address{}, map[string]any{"start": 0, "n": 1}))
	fmt.Println(res.Value)
	// Output: 6
}

// A node gets the channels it subscribes to and those it reads besides, and
// writes its output, functions of it, and constants.
func ExampleNodeBuilder() {
	g := build(pregel.Spec{Channels: map[string]channel.Channel{"text": channel.LastValue[string](), "sign": channel.LastValue[string](),
		"letter": channel.LastValue[string](), "length": channel.LastValue[int](), "done": channel.LastValue[bool]()}, Input: pregel.Many("text", "sign"), Output: pregel.Many("letter", "length", "done")}, pregel.Options{}, pregel.NewNode("write").SubscribeTo("text").ReadFrom("sign").
		Do(func(_ context.Context, in any) (any, error) {
			m := in.(map[string]any)
			return fmt.Sprintf("%v, %v", m["text"], m["sign"]), nil
		}).
		WriteTo("letter").
		WriteFunc("length", func(out any) (any, error) { return len(out.(string)), nil }).
		WriteConst("done", true).
		Retry(pregel.RetryPolicy{MaxAttempts: 2}).
		Timeout(pregel.Timeout(time.Minute, 0)).
		Meta(map[string]any{"team": "post"}))
	res := must(g.Invoke(context.Background(), pregel.Address{}, map[string]any{"text": "hello", "sign": "Ada"}))
	fmt.Println(res.Value)
	// Output: map[done:true length:10 letter:hello, Ada]
}

// The state of a thread is changed from outside as if a node had written.
func ExampleGraph_UpdateState() {
	ctx, thread := context.Background(), pregel.Thread("t")
	g := adder(5, pregel.Options{Saver: memory.New(memory.Options{})})
	must(g.Invoke(ctx, thread, map[string]any{"start": 0}))
	at := must(g.UpdateState(ctx, thread, pregel.StateUpdate{Values: 100, AsNode: "add"}))
	s := must(g.GetState(ctx, at))
	fmt.Println(s.Map()["n"], s.Metadata["source"])
	// Output: 105 update
}

// Several supersteps of updates, each a checkpoint.
func ExampleGraph_BulkUpdateState() {
	ctx, thread := context.Background(), pregel.Thread("t")
	g := adder(0, pregel.Options{Saver: memory.New(memory.Options{})})
	must(g.BulkUpdateState(ctx, thread, [][]pregel.StateUpdate{
		{{Values: 1, AsNode: "add"}, {Values: 2, AsNode: "add"}},
		{{Values: 10, AsNode: "add"}},
	}))
	for s, err := range g.GetStateHistory(ctx, thread, pregel.HistoryQuery{Limit: 2}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(s.Map()["n"])
	}
	// Output:
	// 13
	// 3
}

// A call that needs a saver says so if there is none.
func ExampleGraph_GetState() {
	_, err := adder(1, pregel.Options{}).GetState(context.Background(), pregel.Thread("t"))
	fmt.Println(errors.Is(err, pregel.ErrNoSaver))
	// Output: true
}

func ExampleGraph_ClearCache() {
	runs := 0
	ctx := context.Background()
	g := build(pregel.Spec{Channels: map[string]channel.Channel{"in": channel.LastValue[int](), "out": channel.LastValue[int]()}, Input: pregel.One("in"), Output: pregel.One("out")},
		pregel.Options{Cache: must(cache.NewMemory(cache.Options{}))}, pregel.NewNode("square").SubscribeOnly("in").Cache(pregel.CachePolicy{TTL: time.Hour}).
			Do(func(_ context.Context, n any) (any, error) { runs++; return n.(int) * n.(int), nil }).WriteTo("out"))
	for range 2 {
		must(g.Invoke(ctx, pregel.Address{}, 7))
	}
	fmt.Println("runs:", runs)
	if err := g.ClearCache(ctx, "square"); err != nil {
		panic(err)
	}
	fmt.Println(must(g.Invoke(ctx, pregel.Address{}, 7)).Value, "runs:", runs)
	// Output:
	// runs: 1
	// 49 runs: 2
}

// Somebody outside asks a run to stop between supersteps; a run with nil goes on.
func ExampleControl() {
	var control pregel.Control
	ctx := context.Background()
	next := func(_ context.Context, n any) (any, error) { return n.(int) + 1, nil }
	g := build(pregel.Spec{Channels: map[string]channel.Channel{"a": channel.LastValue[int](), "b": channel.LastValue[int](), "c": channel.LastValue[int]()}, Input: pregel.One("a"), Output: pregel.One("c")},
		pregel.Options{Saver: memory.New(memory.Options{})},
		pregel.NewNode("first").SubscribeOnly("a").Do(func(ctx context.Context, n any) (any, error) {
			control.RequestDrain("deploy")
			return next(ctx, n)
		}).WriteTo("b"),
		pregel.NewNode("second").SubscribeOnly("b").Do(next).WriteTo("c"))
	_, err := g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Control: &control})
	fmt.Println(errors.Is(err, pregel.ErrDrained))
	fmt.Println(must(g.Invoke(ctx, pregel.Thread("t"), nil)).Value)
	// Output:
	// true
	// 3
}

// Calls that do not wait for each other.
func ExampleGetAll() {
	upper := pregel.NewTask("upper", func(_ context.Context, s string) (string, error) { return strings.ToUpper(s), nil })
	flow := must(pregel.Entrypoint("shout", func(ctx context.Context, words []string) ([]string, error) {
		var futures []pregel.Future[string]
		for _, w := range words {
			futures = append(futures, upper.Start(ctx, w))
		}
		return pregel.GetAll(ctx, futures...)
	}, pregel.EntrypointOptions{}))
	fmt.Println(must(flow.Invoke(context.Background(), pregel.Address{}, []string{"a", "b"})).Value)
	// Output: [A B]
}

// What an entrypoint keeps for its next run on the thread need not be what it
// returns.
func ExamplePrevious() {
	flow := must(pregel.Entrypoint("total", func(ctx context.Context, n int) (pregel.Final[string, int], error) {
		before, _, err := pregel.Previous[int](ctx)
		return pregel.Final[string, int]{Value: fmt.Sprintf("%d upon %d", n, before), Save: before + n}, err
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: memory.New(memory.Options{})}}))
	ctx, thread := context.Background(), pregel.Thread("t")
	for _, n := range []int{1, 2, 3} {
		fmt.Println(must(flow.Invoke(ctx, thread, n)).Value)
	}
	// Output:
	// 1 upon 0
	// 2 upon 1
	// 3 upon 3
}

// An attempt that makes no progress for too long is given up and tried again.
func ExampleTimeout() {
	g := build(pregel.Spec{Channels: map[string]channel.Channel{"in": channel.LastValue[int](), "out": channel.LastValue[bool]()}, Input: pregel.One("in"), Output: pregel.One("out")},
		pregel.Options{}, pregel.NewNode("slow").SubscribeOnly("in").
			Timeout(pregel.Timeout(0, 50*time.Millisecond)).
			Retry(pregel.RetryPolicy{InitialInterval: time.Millisecond, NoJitter: true, MaxAttempts: 100}).
			Do(func(ctx context.Context, n any) (any, error) {
				if err := pregel.Heartbeat(ctx); err != nil {
					return nil, err
				}
				task, _ := pregel.Task(ctx)
				if task.Attempt == 1 {
					<-ctx.Done() // hangs
					return nil, ctx.Err()
				}
				return task.Attempt > 1, nil
			}).WriteTo("out"))
	fmt.Println("tried again:", must(g.Invoke(context.Background(), pregel.Address{}, 1)).Value)
	// Output: tried again: true
}

// Messages can be shown in parts, while a model still writes.
func ExampleEmitMessage() {
	g := build(pregel.Spec{Channels: map[string]channel.Channel{"in": channel.LastValue[string](), "chat": channel.Messages(nil)}, Input: pregel.One("in"), Output: pregel.One("chat")},
		pregel.Options{}, pregel.NewNode("model").SubscribeOnly("in").Do(func(ctx context.Context, _ any) (any, error) {
			for _, part := range []string{"he", "llo"} {
				if err := pregel.EmitMessage(ctx, channel.Message{ID: "m1", Role: "ai", Content: part}); err != nil {
					return nil, err
				}
			}
			return channel.Message{ID: "m1", Role: "ai", Content: "hello"}, nil
		}).WriteTo("chat"))
	for e, err := range g.Stream(context.Background(), pregel.Address{}, "hi", pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(e.Data.(pregel.MessageEvent).Message.(channel.Message).Content)
	}
	// Output:
	// he
	// llo
}

// Tracing is built on hooks.
func ExampleHooks() {
	g := adder(1, pregel.Options{Saver: memory.New(memory.Options{}), Hooks: pregel.Hooks{
		StepStart: func(i pregel.RunInfo, tasks []string) { fmt.Println("step", i.Step, tasks) },
		TaskEnd:   func(t pregel.TaskInfo, _ time.Duration, err error) { fmt.Println("task", t.Node, err) },
		Save: func(_ pregel.RunInfo, op string, _ time.Duration, err error) {
			fmt.Println("stored", strings.Fields(op)[0], err)
		},
		RunEnd: func(i pregel.RunInfo, err error) { fmt.Println("run", i.Status, err) },
	}})
	must(g.Invoke(context.Background(), pregel.Thread("t"), map[string]any{"start": 0}, pregel.RunOptions{Durability: pregel.Sync}))
	// Output:
	// stored checkpoint <nil>
	// step 0 [add]
	// task add <nil>
	// stored checkpoint <nil>
	// run done <nil>
}

func ExampleGraph_Mermaid() {
	n := func(context.Context, any) (any, error) { return 1, nil }
	g := build(pregel.Spec{Channels: map[string]channel.Channel{"a": channel.LastValue[int](), "b": channel.LastValue[int]()}, Input: pregel.One("a")},
		pregel.Options{},
		pregel.NewNode("first").SubscribeOnly("a").Do(n).WriteTo("b"), pregel.NewNode("second").SubscribeOnly("b").Do(n))
	for _, line := range strings.Split(g.Mermaid(), "\n") {
		if strings.Contains(line, "-->") {
			fmt.Println(strings.TrimSpace(line))
		}
	}
	// Output:
	// __start__ --> first;
	// first --> second;
	// second --> __end__;
}

func ExampleGraph_DOT() {
	g := adder(1, pregel.Options{Name: "adder"})
	fmt.Print(g.DOT())
	// Output:
	// digraph "adder" {
	// 	"add" [shape=box];
	// 	"__start__" [shape=oval];
	// 	"__end__" [shape=oval];
	// 	"__start__" -> "add";
	// 	"add" -> "__end__" [style=dashed];
	// }
}
