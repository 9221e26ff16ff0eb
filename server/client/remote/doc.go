// Package remote makes a graph of a server usable as a graph, or as a node of one: LangGraph's
// RemoteGraph. The server is one of stele or LangGraph's own.
//
//	g := remote.New(c, "agent") // c is a *client.Client
//	res, err := g.Invoke(ctx, pregel.Thread(id), input)
//
//	b.Node("agent", g.Node(remote.CallOptions{})) // of a graph here
//
// # Values
//
// Values come as plain data: map[string]any, []any, string, int64, float64, bool and nil.
// Events of mode messages have a message.Message or a message.Chunk. Values are sent as package
// pregeljson writes them.
//
// # Threads
//
// The id of a thread must be a UUID: servers ask for it. A thread that is not there is made. An
// Address without a thread makes a run without one; nothing is left of it, and a connection
// that breaks ends it. Every other run goes on when the connection breaks, and so do its events.
//
// # As a node
//
// Call runs a remote graph as a part of the task that calls it. Its questions become questions
// of the task, all of them at once, and their answers are passed on. The question of an answer
// that the remote graph refuses still waits. Each run is made once: a
// task that runs again, after a crash or an interrupt, finds the run that it made, and one that
// failed is resumed where it failed. See Graph.Call.
package remote
