// Package tool lets models run Go functions.
//
// A [Tool] is a function with a struct argument. [New] makes one, with a [Schema] that tells a
// model about the argument; package github.com/stele-go/stele/agent/providers/schema, in another
// module, makes the schema from the struct. A [Node] runs the calls that a model asks for, as LangGraph's
// ToolNode does, and [Condition] leads to it:
//
//	n, err := tool.NewNode(tool.Options{}, weather, search)
//	b.Node("model", model)
//	b.Node("tools", n.Run)
//	b.Edge(graph.Start, "model")
//	b.Conditional("model", "tools", tool.Condition, "tools", graph.End)
//	b.Edge("tools", "model")
//
// StateBuilder.Func of package graph adds it to a typed graph.
//
// # What a tool can do
//
// The context of a tool is that of its node. [State] reads the state, and [CallOf] the call.
// pregel.Task has the store, the context value and the ids of the run; Emit streams a part of the answer, pregel.Emit
// progress; pregel.Ask asks a person. A tool that returns a pregel.Command changes state and says
// where the graph goes on.
//
// A tool may run more than once: after a crash, for a retry, and when a question that it or a call
// beside it has asked is answered. Side effects need a key that is the same each time:
// [IdempotencyKey].
//
// # What differs from LangGraph
//
//   - Why arguments do not fit is said in the words of the schema, not of pydantic.
//   - A tool that returns a message of another type than tool gets [ErrAnswer], rather than the
//     message's repr as its answer.
//   - Questions of calls in one message are asked in the order of the calls, whichever comes
//     first, so that each gets its own answer.
//   - Two tools with one name are an error.
//   - A tool has no error policy of its own. That of the node knows the call.
//   - A tool does not see the other tools of its node.
//   - Condition knows no other key of the messages than "messages".
//   - Calls whose arguments cannot be read lead to the tools, too, and the node answers them. LangGraph
//     ends the graph.
package tool
