// Package pregel runs graphs in supersteps and stores what they do: LangGraph's
// engine in Go. Nodes read channels, run in parallel, and write to channels; the
// writes of a superstep are applied together, and what changed says which nodes
// run next. After every superstep there is a checkpoint, and every task's
// writes are stored the moment it ends, so a run that dies goes on where it was,
// without repeating what ended.
//
// Graphs over a shared state are built with package graph; functions that call
// durable tasks with Entrypoint and NewTask; anything else with NodeBuilder and
// New.
//
//	g, err := graph.New(graph.Key("n", channel.LastValue[int]())).
//		Node("double", double).
//		Edge(graph.Start, "double").
//		Compile(graph.Options{Saver: s})
//	res, err := g.Invoke(ctx, map[string]any{"n": 21}, pregel.Config{ThreadID: "t"})
//
// # Asking and resuming
//
// A node asks with Ask and returns the error it gets. The run ends, Result has
// the question, and Invoke with a Command that has Resume goes on: the node runs
// again from its start, and Ask returns the answer. Everything a node does before
// it asks is done again; what must not be goes into a TaskFunc.
//
// # Concurrency
//
// Each task has a goroutine. Results do not depend on how they are scheduled:
// writes are applied in the order of the tasks' paths. A node's context ends when
// a sibling fails, the caller cancels or a timeout passes; the run waits for
// nodes to return, except after a timeout. Values in channels are shared between
// tasks and must not be changed in place.
//
// # What is stored when
//
// One pipeline carries a run's saves in order, and holds the run back when it is
// full. A checkpoint is never stored before the writes that made it. Values are
// serialized when their superstep ends, so a reducer may append in place. If a
// save fails, nothing more is stored and the run fails with ErrPersist. An
// interrupt is reported once it is stored. A run that is cancelled still stores
// what ended, for at most Environment.DrainTimeout.
//
// # Where stele differs from LangGraph
//
// Ids of checkpoints, tasks and interrupts, stored checkpoints, writes and
// stream events are those of LangGraph 1.2; test/parity/pregel compares them line
// by line. The differences are deliberate:
//
//   - Sync also waits for the input checkpoint, and for the writes of tasks.
//   - Exit reports interrupts after they are stored.
//   - After the first failed save nothing more is stored.
//   - What a task wrote before it failed is dropped, so that it does not look
//     finished to the next run.
//   - A superstep whose writes are refused changes nothing, also under Exit.
//   - An answer that was taken, also by a graph inside, is not given again to a
//     later question when a run goes on without a new one.
//   - An answer without an id that is given again after a crash is not taken by
//     what a graph inside asks next.
//   - A Stable graph inside that was not called yet is called when the graph
//     around it is resumed, whatever an earlier call left.
//   - What a graph inside stores comes after the checkpoint around it, also under
//     Async.
//   - An answer by interrupt id reaches a nested task that stored nothing yet.
//   - A retry counts calls and nested graphs from the first again, and finds
//     the calls that ended.
//   - Resuming a thread on which nothing waits is ErrNoInterrupt; an empty
//     Command is ErrEmptyInput.
//   - Two nodes that read one channel, one of them alone and one in a map, get
//     what they ask for.
//   - Only the state of a graph that a node names is found by namespace; any
//     other namespace is a SubgraphError also for reads.
//   - A failed cache is a miss, and only successes are cached. What is cached is
//     serialized: a hit gives what a resumed run would read.
//   - A map that a node returns is written in the order of its keys; Pairs have
//     an order of their own.
//   - Results carry interrupts beside the values, not among them.
package pregel
