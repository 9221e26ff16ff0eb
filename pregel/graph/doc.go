// Package graph builds graphs over a shared state, like LangGraph's StateGraph. Nodes read
// the state and return updates; edges say which node runs next.
//
// There are two builders. For builds a typed graph: its state is a struct, and the compiler
// checks what nodes write. New builds a graph whose keys are known at run time only; its
// state is a map. Both make a pregel.Graph. A node of an untyped graph may return a struct,
// whose fields are written unless they are zero, and pregel.NodeOf gives it one.
//
// # Typed graphs
//
//	type Letter struct {
//		To   string   `json:"to"`
//		Text []string `json:"text" state:"append"`
//	}
//
//	g, err := graph.For[Letter]().
//		Node("draft", func(_ context.Context, l *Letter) (graph.Update, error) {
//			return graph.Write(&l.Text, []string{"Dear " + l.To}), nil
//		}).
//		Node("approve", approve).
//		Sequence(graph.Start, "draft", "approve", graph.End).
//		Compile(graph.Options{Saver: s})
//
//	res, err := g.Run(ctx, pregel.Thread("letter-1"), Letter{To: "Ada"})  // res.Waiting are questions
//	res, err = g.Resume(ctx, pregel.Thread("letter-1"), "yes")            // res.State is a Letter
//
// A node gets a pointer to a state of its own, and returns an Update. Write names the field
// by a pointer into that state, so a wrong name or type does not compile, and any value can
// be written, also zero. And joins updates; Goto and Send say what runs next, besides where
// edges lead. Nil is no update. These are errors of the node, an
// *pregel.InvalidUpdateError: a pointer to anything else, also into a copy of the state; a
// field that was changed in place and not written; a node that does not exist; a packet
// with input of a wrong type.
//
// Outside of nodes there is no state to point into. There, a function gets an S without
// values that lends its addresses:
//
//	g.Fork(ctx, snapshot.Address, func(l *Letter) graph.Update { return graph.Write(&l.To, "Bob") })
//
// # Fields
//
// The exported fields of the struct are the keys of the state, and so are those of structs
// that it embeds. A key is the name in the field's stele or json tag, or the field's own;
// "-" leaves the field out. Compile refuses a struct that could not be stored and read
// back: a channel, a function, a field that is not exported, an interface with methods, two
// fields with one key. The GraphError names the field.
//
// The tag state says how a field is kept, and what it was called before:
//
//	state:"append"      a slice; each write is appended
//	state:"add"         a number or a string; writes are added
//	state:"merge"       a map; writes replace single entries
//	state:"messages"    a []channel.Message, merged by id; see channel.Messages
//	state:"alias=old"   is read under the key old in threads that an older program stored
//
// Options are separated by commas. A field without a reducer holds the last value, and two
// nodes of a superstep must not both write it. For any other reducer, a delta channel or an
// untracked value give For the channel; a value that the engine computes is Computed:
//
//	graph.For[Chat](graph.Key("score", channel.Reduce(highest)), graph.Computed("left", channel.RemainingSteps))
//
// A type that is a channel.Declared, such as message.List, brings its own channel.
//
// Values have the same Go types before and after a restart. Where they could not, they are
// converted when they are written, so that a program meets what it will read: what is in an
// any becomes plain data (map[string]any, []any, int64, float64, string, …) unless its type
// is registered with the serializer, and a time.Time keeps microseconds. A nil slice or map
// may come back empty. docs/guide/state.md says how the type of a state may change while
// threads of the older one are stored.
//
// # Runs
//
// Run takes new input: the fields that are not zero. Resume answers a question, and
// Continue goes on with what is left. Do takes a Command, which can do each of these with
// writes beside it, and new input with zero values. Stream and StreamDo yield events. State,
// History, Update and Fork read and change what is stored. The address of a thread is one
// argument, and pregel.RunOptions another. The defaults are the safe ones of package pregel:
// what a crash left is finished before new input is taken, one run has a thread, and an
// answer goes only to a question that waits.
//
// Input and updates may also come as maps of keys: from a queue, over HTTP, or by the methods of
// Untyped. A key that the state does not have is a *pregel.InvalidUpdateError then, and nothing is
// stored or run. A typed graph inside another takes the keys that it has, and
// pregel.Options.LangGraph ignores the others everywhere, as LangGraph does.
//
// A graph inside may have a state of its own: a node calls its Run at pregel.Inside.
//
// # Untyped graphs
//
//	b := graph.New(
//		graph.Key("steps", channel.Reduce(channel.Append[string])),
//		graph.Key("n", channel.LastValue[int]()))
//	b.Node("count", count)
//	b.Edge(graph.Start, "count")
//	b.Edge("count", graph.End)
//	g, err := b.Compile(graph.Options{Saver: s})
//
// What a node returns: nil updates nothing. A map[string]any, pregel.Pairs or a struct with
// keys of the state updates those keys. Unknown keys are ignored, and zero fields of a
// struct are not written. Input and updates from outside may be the same; there a map or a
// struct that has keys, and none of the state, is refused, and a Command to a node that the
// graph does not have. A pregel.Command updates the state and says where to go. A
// pregel.Send runs a node with an input of its own. A list that contains a Command stands
// for all of its elements.
package graph
