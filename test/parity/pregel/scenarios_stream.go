package traces

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

func init() {
	for name, f := range map[string]func(*trace){
		"many_writes": manyWrites, "messages_of_nodes": messagesOfNodes,
		"messages_in_parts": messagesInParts, "messages_without_ids": messagesWithoutIDs, "functional_messages": functionalMessages,
		"messages_removed": messagesRemoved, "debug_of_updates": debugOfUpdates, "task_metadata": taskMetadata, "messages_to_packets": messagesToPackets,
		"delta_messages": deltaMessages,
	} {
		scenarios[name] = f
	}
}

func canonMessage(id, role, content any) any {
	if content == nil { // of a removal
		content = ""
	}
	return m{"$message": m{"id": id, "role": role, "content": canon(content)}}
}

var every = []pregel.Mode{pregel.ModeValues, pregel.ModeUpdates, pregel.ModeCustom, pregel.ModeMessages, pregel.ModeCheckpoints, pregel.ModeTasks, pregel.ModeDebug}

func chat() *program { return newProgram(graph.Key("messages", channel.Messages(nil))) }

func ai(text, id string) channel.Message { return channel.Message{ID: id, Role: "ai", Content: text} }

func human(text, id string) channel.Message {
	return channel.Message{ID: id, Role: "human", Content: text}
}

func says(list ...channel.Message) pregel.Func { return returns(m{"messages": list}) }

func manyWrites(tr *trace) {
	b := builder().Node("one", returns([]any{pregel.Command{Update: in("one.0")}, in("one.1"), in("one.2")}))
	addNodes(b, "two")
	g := tr.saved(b.Sequence(graph.Start, "one", "two"))
	tr.runModes(g, in("input"), tr.config(), every...)
	tr.history(g)
}

func messagesOfNodes(tr *trace) {
	inner := tr.compile(chat().Node("deep", says(ai("deep", "m4"))).Edge(graph.Start, "deep"), graph.Options{})
	b := chat().Node("bot", says(ai("one", "m1"), ai("two", "m2")))
	b.Node("echo", func(_ context.Context, s any) (any, error) {
		return m{"messages": append(s.(m)["messages"].([]channel.Message), ai("three", "m3"))}, nil
	})
	b.Subgraph("sub", inner)
	b.Node("steer", returns(pregel.Command{Update: m{"messages": []channel.Message{ai("five", "m5")}}, Goto: "both"}))
	b.Node("both", returns([]any{pregel.Command{Update: m{"messages": ai("six", "m6")}}, m{"messages": []channel.Message{ai("seven", "m7")}}}))
	b.Node("late", says(ai("two again", "m2"), channel.RemoveMessage("m1")))
	g := tr.saved(b.Sequence(graph.Start, "bot", "echo", "sub", "steer").Edge("both", "late"))
	tr.runModes(g, m{"messages": []channel.Message{human("hi", "m0")}}, tr.config(), every...)
	tr.state(g, false)
	tr.runModes(g, m{"messages": human("more", "m8")}, tr.config(), pregel.ModeMessages)
	tr.runModes(g, m{"messages": []channel.Message{}}, tr.config(), pregel.ModeMessages, pregel.ModeUpdates)
	tr.history(g)
}

// speaks says two words in two parts, and then both in one message.
func speaks(ctx context.Context, s any) (any, error) {
	n := len(s.(m)["messages"].([]channel.Message))
	id := fmt.Sprint("p", n)
	for _, part := range []string{"po", "lly"} {
		if err := pregel.EmitMessage(ctx, ai(part, id)); err != nil {
			return nil, err
		}
	}
	return m{"messages": []channel.Message{ai("polly", id), ai("done", fmt.Sprint("d", n))}}, nil
}

func messagesInParts(tr *trace) {
	b := chat().Node("speak", speaks).Subgraph("sub", tr.compile(chat().Node("inner", speaks).Edge(graph.Start, "inner"), graph.Options{}))
	g := tr.saved(b.Sequence(graph.Start, "speak", "sub"))
	for _, tr.flat = range []bool{false, true} {
		id := map[bool]string{false: "mFalse", true: "mTrue"}[tr.flat]
		tr.runModes(g, m{"messages": []channel.Message{human("hi", id)}}, tr.config(), pregel.ModeMessages, pregel.ModeUpdates, pregel.ModeCustom)
	}
}

// numbered names messages in the order in which they come.
func numbered() func() string {
	n := -1
	return func() string { n++; return fmt.Sprint("id-", n) }
}

func messagesWithoutIDs(tr *trace) {
	tr.env.MessageID = numbered()
	b := chat().Node("bot", says(ai("one", ""), ai("two", "m2"), ai("three", "")))
	b.Node("steer", returns(pregel.Command{Update: m{"messages": ai("four", "")}, Goto: "late"}))
	b.Node("late", says(ai("five", "")))
	g := tr.saved(b.Sequence(graph.Start, "bot", "steer"))
	tr.runModes(g, m{"messages": []channel.Message{human("hi", "m0")}}, tr.config(), pregel.ModeMessages, pregel.ModeUpdates, pregel.ModeTasks)
	tr.state(g, false)
}

func functionalMessages(tr *trace) {
	ask := pregel.NewTask("ask_model", func(_ context.Context, text string) (channel.Message, error) { return ai(text, text), nil })
	outer := pregel.NewTask("outer_call", func(ctx context.Context, text string) ([]channel.Message, error) {
		inner, err := ask.Call(ctx, text)
		return []channel.Message{inner, ai("outer", "outer")}, err
	})
	flow := entry(tr, func(ctx context.Context, text string) ([]channel.Message, error) {
		first, err := ask.Call(ctx, text)
		if err != nil {
			return nil, err
		}
		more, err := outer.Call(ctx, text+"2")
		return append(append([]channel.Message{first}, more...), ai("last", "last")), err
	})
	tr.runModes(flow, "m1", tr.config(), pregel.ModeMessages, pregel.ModeUpdates)
}

func messagesToPackets(tr *trace) {
	var list []channel.Message
	for i := range 6 {
		list = append(list, ai(fmt.Sprint(i), fmt.Sprint("m", i)))
	}
	b := chat().Node("one", says(list[1], list[2])).Node("two", says(list[2], list[3]))
	b.Node("odd", returns(pregel.Pairs{{Key: "messages", Value: list[4]}, {Key: "other", Value: []any{list[5]}}})).Node("bare", returns(nil))
	b.Conditional(graph.Start, "fan", func(context.Context, any) (any, error) {
		return []pregel.Send{{Node: "one", Arg: m{"x": list[1]}}, {Node: "two", Arg: []channel.Message{list[3]}}, {Node: "odd", Arg: list[4]}, {Node: "bare", Arg: m{}}}, nil
	}, "one", "two", "odd", "bare")
	tr.runModes(tr.saved(b), m{"messages": list[:1]}, tr.config(), pregel.ModeMessages, pregel.ModeUpdates)
}

func messagesRemoved(tr *trace) {
	b := chat().Node("bot", says(ai("one", "m1"), ai("two", "m2"))).Node("end", says(ai("three", "m3")))
	g := tr.saved(b.Sequence(graph.Start, "bot", "end"))
	tr.run(g, m{"messages": []channel.Message{human("hi", "m0")}})
	tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"messages": []channel.Message{channel.RemoveMessage("m1")}}})
	tr.state(g, false)
	tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"messages": []channel.Message{channel.RemoveMessage("m2"), ai("changed", "m3")}}, AsNode: "bot"})
	tr.run(g, nil)
	tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"messages": channel.RemoveMessage(channel.RemoveAll)}, AsNode: "end"})
	tr.history(g)
}

func debugOfUpdates(tr *trace) {
	g := tr.line([]string{"one", "two", "three"}, graph.Options{})
	tr.runModes(g, in("in"), tr.config(), pregel.ModeDebug)
	h := tr.history(g)
	tr.runModes(g, nil, tr.update(g, on(h[2].Address), pregel.StateUpdate{}), pregel.ModeDebug)
	tr.history(g)
	tr.runModes(g, nil, tr.update(g, on(h[3].Address), pregel.StateUpdate{Values: in("patched"), AsNode: graph.Start}), pregel.ModeDebug)
	tr.history(g)
}

func taskMetadata(tr *trace) {
	tr.metadata = true
	inner := tr.compile(builder().Node("i", adds("i"), graph.NodeOptions{Metadata: m{"of": "i"}}).Edge(graph.Start, "i"), graph.Options{})
	b := builder().Node("a", adds("a"), graph.NodeOptions{Metadata: m{"of": "a", "langgraph_step": 7}})
	b.Subgraph("sub", inner, graph.NodeOptions{Metadata: m{"of": "sub", "more": []int{1}}})
	addNodes(b, "c")
	b.Conditional("sub", "fan", func(context.Context, any) (any, error) { return pregel.Send{Node: "c", Arg: in()}, nil }, "c")
	g := tr.saved(b.Sequence(graph.Start, "a", "sub", "c"))
	c := tr.config()
	c.Configurable = m{"user": "u", "__private": "p", "n": 3}
	c.Metadata = m{"who": "me", "thread_id": "other", "checkpoint_ns": "x"}
	c.Tags = []string{"t1", "seq:step:2", "t2"}
	tr.run(g, in(), c)
	tr.runModes(g, in(), tr.config(), pregel.ModeDebug, pregel.ModeMessages)
}

func deltaMessages(tr *trace) {
	tr.env.MessageID = numbered()
	b := newProgram(graph.Key("messages", channel.DeltaMessages(1000, tr.env.MessageID)))
	b.Node("bot", says(ai("one", ""), ai("two", "m2")))
	b.Node("dict", returns(m{"messages": m{"role": "ai", "content": "three"}}))
	b.Node("dicts", returns(m{"messages": []any{m{"role": "user", "content": "four"}, m{"type": "ai", "content": "five", "id": "m5"}}}))
	b.Node("gone", says(channel.RemoveMessage("m2"), channel.RemoveMessage("nobody")))
	g := tr.saved(b.Sequence(graph.Start, "bot", "dict", "dicts", "gone"))
	tr.run(g, m{"messages": []channel.Message{human("hi", "")}})
	tr.state(g, false)
	tr.state(g, false)
	tr.run(g, m{"messages": human("more", "")})
	if tr.durability != pregel.Exit {
		tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"messages": []channel.Message{ai("update", "")}}, AsNode: "gone"})
		tr.update(g, tr.config(), pregel.StateUpdate{Values: m{"messages": pregel.Overwrite{Value: []any{human("reset", ""), m{"role": "ai", "content": "again"}}}}, AsNode: "gone"})
	}
	tr.state(g, false)
	tr.history(g)
}
