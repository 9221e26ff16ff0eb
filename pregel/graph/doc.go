// Package graph builds graphs over a shared state, as LangGraph's StateGraph
// does: nodes read the state and return updates, edges say who runs next.
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
// Nil is no update. A map[string]any, pregel.Pairs or a struct with the state's
// keys is an update of those keys; unknown keys are ignored, and fields of a
// struct that are zero are not written. A pregel.Command updates and says where
// to go. A pregel.Send runs a node with an input of its own. A list that
// contains a Command is all of its elements together.
package graph
