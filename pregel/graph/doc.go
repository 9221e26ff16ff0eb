// Package graph builds graphs over a shared state, like LangGraph's StateGraph.
// Nodes read the state and return updates; edges say which node runs next.
//
//	b := graph.New(
//		graph.Key("steps", channel.Reduce(channel.Append[string])),
//		graph.Key("n", channel.LastValue[int]()))
//	b.Node("count", count)
//	b.Edge(graph.Start, "count")
//	b.Edge("count", graph.End)
//	g, err := b.Compile(graph.Options{Saver: s})
//
// The state can also be a struct: see Of.
//
// # What a node returns
//
// Nil updates nothing. A map[string]any, pregel.Pairs or a struct with keys of the
// state updates those keys. Unknown keys are ignored, and zero fields of a struct are
// not written. A pregel.Command updates the state and says where to go. A pregel.Send
// runs a node with an input of its own. A list that contains a Command stands for all
// of its elements.
package graph
