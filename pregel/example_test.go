package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// idsFrom mints the checkpoint ids first, first+1, … ticks of 100 ns, as a
// machine with the given node number would.
func idsFrom(at time.Time, node uint64) pregel.Environment {
	return pregel.Environment{IDs: pregel.NewIDSource(func() time.Time { return at }, func() uint64 { return node })}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func build(spec pregel.Spec, o pregel.Options, nodes ...*pregel.NodeBuilder) *pregel.Graph {
	for _, b := range nodes {
		spec.Nodes = append(spec.Nodes, must(b.Build()))
	}
	return must(pregel.New(spec, o))
}

// Of a superstep in which one node was interrupted, the checkpoint holds the
// state it began with, and the pending writes what its tasks did since. The ids
// are those LangGraph derives from the same checkpoint id.
func Example_pendingWrites() {
	says := func(v any) pregel.Func { return func(context.Context, any) (any, error) { return v, nil } }
	app := build(pregel.Spec{Channels: map[string]channel.Channel{"foo": channel.LastValue[string](), "bar": channel.LastValue[string](),
		"nodes": channel.Reduce(channel.Append[string])}, Input: pregel.Many("foo"), Output: pregel.Many("nodes")}, pregel.Options{Saver: memory.New(memory.Options{}), Env: idsFrom(time.Date(2026, 1, 19, 10, 17, 7, 498073600, time.UTC), 0xbde4e02ab92b)},
		pregel.NewNode("foo").SubscribeTo("foo").Do(says([]string{"foo"})).WriteTo("nodes").WriteConst("bar", "triggered by foo"),
		pregel.NewNode("bar1").SubscribeTo("bar").Do(func(context.Context, any) (any, error) {
			return nil, &pregel.InterruptError{Interrupts: []pregel.Interrupt{{Value: "manual interrupt"}}}
		}).WriteTo("nodes"),
		pregel.NewNode("bar2").SubscribeTo("bar").Do(says([]string{"bar2"})).WriteTo("nodes"))

	res := must(app.Invoke(context.Background(), pregel.Thread("123"), map[string]any{"foo": "triggered by user"}))
	fmt.Println(res.Map()["nodes"])
	state := must(app.GetState(context.Background(), pregel.Thread("123")))
	fmt.Println(state.Address.CheckpointID, state.Metadata["source"], state.Metadata["step"])
	for _, t := range state.Tasks {
		fmt.Println(t.ID, t.Name, t.Finished, t.Result, len(t.Interrupts))
	}
	// Output:
	// [foo bar2]
	// 1f0f5200-24f1-6382-8000-bde4e02ab92b loop 0
	// e126d089-c354-0ac8-bb9e-b12bbe3f20b8 bar1 false <nil> 1
	// 30b17cb1-76f1-3c5a-0d32-33f544fcabdf bar2 true map[nodes:[bar2]] 0
}

// The history of a thread shows for every checkpoint which tasks it led to and
// how they ended.
func Example_stateHistory() {
	nothing := func(context.Context, any) (any, error) { return nil, nil }
	app := build(pregel.Spec{Channels: map[string]channel.Channel{"foo": channel.LastValue[any](), "bar": channel.LastValue[any]()}, ChannelOrder: []string{"foo", "bar"}, Input: pregel.Many("foo")},
		pregel.Options{Saver: memory.New(memory.Options{})},
		pregel.NewNode("foo").TriggerOn("foo").Do(nothing).WriteConst("bar", nil),
		pregel.NewNode("bar1").TriggerOn("bar").Do(nothing),
		pregel.NewNode("bar2").TriggerOn("bar").Do(func(ctx context.Context, _ any) (any, error) { return pregel.Ask(ctx, "interrupted at bar2") }),
		pregel.NewNode("bar3").TriggerOn("bar").Do(func(context.Context, any) (any, error) { return nil, errors.New("raised at bar3") }))

	ctx, at, cfg := context.Background(), pregel.Thread("123"), pregel.RunOptions{MaxConcurrency: 1}
	_, err := app.Invoke(ctx, at, map[string]any{"foo": "begin"}, cfg)
	fmt.Println("failed:", err != nil)
	for s, err := range app.GetStateHistory(ctx, at, pregel.HistoryQuery{}) {
		if err != nil {
			panic(err)
		}
		fmt.Println("values:", s.Values, "next:", s.Next)
		for _, t := range s.Tasks {
			fmt.Println(" ", t.Name, t.Path, "finished:", t.Finished, "error:", t.Err, "interrupts:", len(t.Interrupts))
		}
	}
	// Output:
	// failed: true
	// values: map[bar:<nil> foo:begin] next: [bar1 bar2 bar3]
	//   bar1 ~__pregel_pull, bar1 finished: true error: <nil> interrupts: 0
	//   bar2 ~__pregel_pull, bar2 finished: false error: <nil> interrupts: 1
	//   bar3 ~__pregel_pull, bar3 finished: false error: raised at bar3 interrupts: 0
	// values: map[foo:begin] next: [foo]
	//   foo ~__pregel_pull, foo finished: true error: <nil> interrupts: 0
}

// A packet runs a node with an input of its own; the tasks are known by the
// packets' places.
func Example_packets() {
	pass := func(_ context.Context, v any) (any, error) { return v, nil }
	app := build(pregel.Spec{Channels: map[string]channel.Channel{"foo": channel.LastValue[any]()}, Input: pregel.Many("foo")},
		pregel.Options{Saver: memory.New(memory.Options{}), InterruptBefore: []string{"bar2"}},
		pregel.NewNode("foo").SubscribeTo("foo").Write(func(w *pregel.Writing, _ any) error {
			for _, n := range []string{"bar1", "bar2", "bar3"} {
				w.Send(pregel.Send{Node: n, Arg: "foo"})
			}
			return nil
		}),
		pregel.NewNode("bar1").Do(pass), pregel.NewNode("bar2").Do(pass), pregel.NewNode("bar3").Do(pass))

	ctx, at := context.Background(), pregel.Thread("123")
	must(app.Invoke(ctx, at, map[string]any{"foo": ""}))
	for _, t := range must(app.GetState(ctx, at)).Tasks {
		fmt.Println(t.Name, t.Path)
	}
	// Output:
	// bar1 ~__pregel_push, 0000000000, 0000000000
	// bar2 ~__pregel_push, 0000000001, 0000000000
	// bar3 ~__pregel_push, 0000000002, 0000000000
}

// A graph that a node runs has a state of its own, under the namespace of the
// task.
func Example_nestedState() {
	in := map[string]channel.Channel{"start": channel.LastValue[string]()}
	sub := build(pregel.Spec{Channels: in, Input: pregel.Many("start")}, pregel.Options{Name: "sub"},
		pregel.NewNode("sub_node").SubscribeTo("start").Do(func(ctx context.Context, _ any) (any, error) { return pregel.Ask(ctx, "manual interrupt") }))
	app := build(pregel.Spec{Channels: in, Input: pregel.Many("start")}, pregel.Options{Saver: memory.New(memory.Options{})},
		pregel.NewNode("main_node").SubscribeTo("start").Do(func(ctx context.Context, _ any) (any, error) {
			if _, err := sub.Invoke(ctx, pregel.Inside(), map[string]any{"start": "begin"}); err != nil {
				return nil, err
			}
			return pregel.Ask(ctx, "main graph interrupt")
		}).Subgraphs(sub))

	ctx, at := context.Background(), pregel.Thread("123")
	must(app.Invoke(ctx, at, map[string]any{"start": "begin"}))
	outer := must(app.GetState(ctx, at, pregel.StateOptions{Subgraphs: true}))
	task := outer.Tasks[0]
	fmt.Println(task.Name, "->", task.State.Tasks[0].Name, task.State.Interrupts[0].Value)
	fmt.Println("namespace:", task.State.Address.Namespace == "main_node:"+task.ID)
	// Output:
	// main_node -> sub_node manual interrupt
	// namespace: true
}

// telling prints what is stored. Puts wait for the gate, as on a slow disk.
type telling struct {
	*memory.Saver
	gate func(step any)
}

func (s telling) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	s.gate(req.Metadata["step"])
	fmt.Println("put called with checkpoint for step", req.Metadata["step"])
	return s.Saver.PutRequest(ctx, req)
}

// Sync stores the checkpoint of a superstep before the next begins, Async while
// it runs, and Exit only the last one.
func Example_durability() {
	run := func(d pregel.Durability) {
		last := make(chan struct{})
		s := telling{memory.New(memory.Options{}), func(any) {
			if d == pregel.Async {
				<-last // the disk is slower than the whole run
			}
		}}
		says := func(name string) pregel.Func {
			return func(context.Context, any) (any, error) {
				fmt.Printf("node '%s' is called.\n", name)
				if name == "bar2" {
					close(last)
				}
				return []string{name}, nil
			}
		}
		app := build(pregel.Spec{Channels: map[string]channel.Channel{"foo": channel.LastValue[any](), "bar1": channel.LastValue[any](), "bar2": channel.LastValue[any](),
			"output": channel.Reduce(channel.Append[string])}, Input: pregel.Many("foo"), Output: pregel.Many("output")}, pregel.Options{Saver: s},
			pregel.NewNode("foo1").TriggerOn("foo").Do(says("foo1")).WriteTo("bar1"),
			pregel.NewNode("foo2").TriggerOn("foo").Do(says("foo2")).WriteTo("bar2"),
			pregel.NewNode("bar1").TriggerOn("bar1").Do(says("bar1")).WriteTo("output"),
			pregel.NewNode("bar2").TriggerOn("bar2").Do(says("bar2")).WriteTo("output"))
		fmt.Println(d)
		res := must(app.Invoke(context.Background(), pregel.Thread("123"), map[string]any{"foo": "start"}, pregel.RunOptions{Durability: d, MaxConcurrency: 1}))
		fmt.Println(res.Map()["output"])
	}
	run(pregel.Sync)
	run(pregel.Async)
	run(pregel.Exit)
	// Output:
	// sync
	// put called with checkpoint for step -1
	// node 'foo1' is called.
	// node 'foo2' is called.
	// put called with checkpoint for step 0
	// node 'bar1' is called.
	// node 'bar2' is called.
	// put called with checkpoint for step 1
	// [bar1 bar2]
	// async
	// node 'foo1' is called.
	// node 'foo2' is called.
	// node 'bar1' is called.
	// node 'bar2' is called.
	// put called with checkpoint for step -1
	// put called with checkpoint for step 0
	// put called with checkpoint for step 1
	// [bar1 bar2]
	// exit
	// node 'foo1' is called.
	// node 'foo2' is called.
	// node 'bar1' is called.
	// node 'bar2' is called.
	// put called with checkpoint for step 1
	// [bar1 bar2]
}
