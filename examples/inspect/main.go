// Command inspect reads what runs have stored: a checkpoint with its pending writes, the
// history of a thread, the paths of tasks, and the state of a graph inside another. Clock and
// random numbers are fixed, so the ids are those that LangGraph derives from the same
// checkpoint.
//
//	go run ./examples/inspect
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

var (
	thread = pregel.Thread("123")
	inTurn = pregel.RunOptions{MaxConcurrency: 1} // so that the order of tasks is always the same
)

func main() {
	for _, part := range []func(context.Context, io.Writer) error{tuple, history, paths, nested} {
		if err := part(context.Background(), os.Stdout); err != nil {
			log.Fatal(err)
		}
	}
}

// graph makes a graph of nodes. The first checkpoint of a run would be made at.
func graph(spec pregel.Spec, o pregel.Options, at time.Time, nodes ...*pregel.NodeBuilder) (*pregel.Graph, error) {
	o.Env.Now = func() time.Time { return at }
	o.Env.IDs = pregel.NewIDSource(o.Env.Now, func() uint64 { return 0xbde4e02ab92b })
	for _, b := range nodes {
		n, err := b.Build()
		if err != nil {
			return nil, err
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	return pregel.New(spec, o)
}

// tuple stops a superstep in the middle, and shows what is stored: the state it
// began with, and the writes that one task made and the question of the other.
func tuple(ctx context.Context, out io.Writer) error {
	says := func(name string) pregel.Func {
		return func(context.Context, any) (any, error) { return []string{name}, nil }
	}
	random, calls := []float64{0.06769883673554666, 0.3174924500871408}, 0
	kept := memory.New(memory.Options{Random: func() float64 { calls++; return random[min(calls, 2)-1] }})
	app, err := graph(pregel.Spec{Input: pregel.Many("foo"), Output: pregel.Many("nodes"), Channels: map[string]channel.Channel{
		"foo": channel.LastValue[string](), "bar": channel.LastValue[string](), "nodes": channel.Reduce(channel.Append[string]),
	}}, pregel.Options{Saver: kept}, time.Date(2026, 1, 19, 10, 17, 7, 498_073_600, time.UTC),
		pregel.NewNode("foo").SubscribeTo("foo").Do(says("foo")).WriteTo("nodes").WriteConst("bar", "triggered by foo"),
		pregel.NewNode("bar1").SubscribeTo("bar").Do(func(context.Context, any) (any, error) {
			return nil, &pregel.InterruptError{Interrupts: []pregel.Interrupt{{Value: "manual interrupt"}}}
		}).WriteTo("nodes"),
		pregel.NewNode("bar2").SubscribeTo("bar").Do(says("bar2")).WriteTo("nodes"))
	if err != nil {
		return err
	}
	res, err := app.Invoke(ctx, thread, map[string]any{"foo": "triggered by user"}, inTurn)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "result:", res.Map()["nodes"])
	tup, err := kept.GetTuple(ctx, saver.Config{ThreadID: thread.ThreadID})
	if err != nil {
		return err
	}
	cp := tup.Checkpoint
	fmt.Fprintln(out, "config:", tup.Config.ThreadID, tup.Config.CheckpointID)
	fmt.Fprintln(out, "checkpoint: v", cp.V, cp.ID, "updated", cp.Updated)
	for _, name := range slices.Sorted(maps.Keys(cp.Values)) {
		v, err := cp.Values[name].Any()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %s = %s at %s\n", name, text(v), cp.Versions[name])
	}
	fmt.Fprintln(out, "  seen by foo:", cp.Seen["foo"]["foo"])
	fmt.Fprintln(out, "metadata:", text(tup.Metadata))
	fmt.Fprintln(out, "parent_config:", tup.Parent.ThreadID, tup.Parent.CheckpointID)
	fmt.Fprintln(out, "pending_writes:")
	for _, w := range slices.SortedFunc(slices.Values(tup.PendingWrites), func(a, b saver.PendingWrite) int { return strings.Compare(a.TaskID, b.TaskID) }) {
		v, err := w.Value.Any()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, " ", w.TaskID, w.Channel, text(v))
	}
	return nil
}

// history shows every checkpoint of a thread with the tasks it led to: one that
// ended, one that asks, one that failed.
func history(ctx context.Context, out io.Writer) error {
	nothing := func(context.Context, any) (any, error) { return nil, nil }
	app, err := graph(pregel.Spec{Input: pregel.Many("foo"), ChannelOrder: []string{"foo", "bar"},
		Channels: map[string]channel.Channel{"foo": channel.LastValue[any](), "bar": channel.LastValue[any]()}},
		pregel.Options{Saver: memory.New(memory.Options{})}, time.Date(2026, 2, 20, 0, 55, 58, 0, time.UTC),
		pregel.NewNode("foo").TriggerOn("foo").Do(nothing).WriteConst("bar", nil),
		pregel.NewNode("bar1").TriggerOn("bar").Do(nothing),
		pregel.NewNode("bar2").TriggerOn("bar").Do(func(ctx context.Context, _ any) (any, error) {
			return pregel.Ask(ctx, "Manually be interrupted at bar2")
		}),
		pregel.NewNode("bar3").TriggerOn("bar").Do(func(context.Context, any) (any, error) {
			return nil, errors.New("manually raised error at bar3")
		}))
	if err != nil {
		return err
	}
	if _, err := app.Invoke(ctx, thread, map[string]any{"foo": "begin"}, inTurn); err != nil {
		fmt.Fprintln(out, "failed:", err)
	}
	for s, err := range app.GetStateHistory(ctx, thread, pregel.HistoryQuery{}) {
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "values:", s.Values, "next:", s.Next)
		for _, in := range s.Interrupts {
			fmt.Fprintln(out, "interrupt:", in.ID, in.Value)
		}
		for _, t := range s.Tasks {
			fmt.Fprintln(out, "  id:", t.ID, "name:", t.Name, "path:", []any(t.Path), "error:", t.Err, "interrupts:", len(t.Interrupts), "result:", t.Result)
		}
	}
	return nil
}

// paths shows the paths of tasks that packets have made.
func paths(ctx context.Context, out io.Writer) error {
	bars := []string{"bar1", "bar2", "bar3"}
	nodes := []*pregel.NodeBuilder{pregel.NewNode("foo").SubscribeTo("foo").Write(func(w *pregel.Writing, _ any) error {
		for _, n := range bars {
			w.Send(pregel.Send{Node: n, Arg: "foo"})
		}
		return nil
	})}
	for _, n := range bars {
		nodes = append(nodes, pregel.NewNode(n).Do(func(_ context.Context, v any) (any, error) { return v, nil }))
	}
	app, err := graph(pregel.Spec{Channels: map[string]channel.Channel{"foo": channel.LastValue[any]()}, Input: pregel.Many("foo")},
		pregel.Options{Saver: memory.New(memory.Options{})}, time.Date(2026, 2, 20, 0, 55, 58, 0, time.UTC), nodes...)
	if err != nil {
		return err
	}
	before := pregel.RunOptions{MaxConcurrency: 1, InterruptBefore: []string{"bar2"}}
	if _, err := app.Invoke(ctx, thread, map[string]any{"foo": nil}, before); err != nil {
		return err
	}
	s, err := app.GetState(ctx, thread)
	if err != nil {
		return err
	}
	for _, t := range s.Tasks {
		fmt.Fprintln(out, t.Name+":", []any(t.Path))
	}
	return nil
}

// nested shows the state of a graph that a node runs: its namespace is the name
// and the id of the task that runs it.
func nested(ctx context.Context, out io.Writer) error {
	at := time.Date(2026, 2, 20, 0, 55, 58, 0, time.UTC)
	start := map[string]channel.Channel{"start": channel.LastValue[string]()}
	sub, err := graph(pregel.Spec{Channels: start, Input: pregel.Many("start")}, pregel.Options{Name: "sub_graph"}, at,
		pregel.NewNode("sub_node").SubscribeTo("start").Do(func(ctx context.Context, _ any) (any, error) {
			return pregel.Ask(ctx, "manual interrupt")
		}))
	if err != nil {
		return err
	}
	app, err := graph(pregel.Spec{Channels: start, Input: pregel.Many("start")}, pregel.Options{Saver: memory.New(memory.Options{})}, at,
		pregel.NewNode("main_node").SubscribeTo("start").Do(func(ctx context.Context, _ any) (any, error) {
			if _, err := sub.Invoke(ctx, pregel.Inside(), map[string]any{"start": "begin"}); err != nil {
				return nil, err
			}
			return pregel.Ask(ctx, "main graph interrupt")
		}).Subgraphs(sub))
	if err != nil {
		return err
	}
	if _, err := app.Invoke(ctx, thread, map[string]any{"start": "begin"}, inTurn); err != nil {
		return err
	}
	s, err := app.GetState(ctx, thread, pregel.StateOptions{Subgraphs: true})
	if err != nil {
		return err
	}
	show(out, s, "")
	return nil
}

func show(out io.Writer, s *pregel.StateSnapshot, indent string) {
	fmt.Fprintf(out, "%scheckpoint_ns: %q\n", indent, s.Address.Namespace)
	for _, t := range s.Tasks {
		fmt.Fprintf(out, "%stask: %s:%s\n", indent, t.Name, t.ID)
		if t.State != nil {
			show(out, t.State, indent+"  ")
		}
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
