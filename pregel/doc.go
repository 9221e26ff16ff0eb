// Package pregel runs graphs in supersteps and stores their progress. It is
// LangGraph's engine in Go. Nodes read channels, run in parallel and write to
// channels. At the end of a superstep all writes are applied at once, and the
// channels that changed decide which nodes run next. A checkpoint is stored after
// every superstep, and a task's writes are stored as soon as it ends. So a run that
// dies resumes where it was, and no finished task runs again.
//
// There are three ways to build a graph. Package graph builds graphs over a shared
// state, a struct or a map. Entrypoint and NewTask turn functions into durable ones.
// NodeBuilder and New build anything else.
//
//	type Numbers struct{ N int }
//	g, err := graph.For[Numbers]().
//		Node("double", double). // func(ctx context.Context, n *Numbers) (graph.Update, error)
//		Edge(graph.Start, "double").
//		Compile(graph.Options{Saver: s})
//	res, err := g.Run(ctx, pregel.Thread("t"), Numbers{N: 21})
//
// This package speaks of graphs of any kind: their input, state and answers are of type
// any. A typed graph has the same behaviour.
//
// An Address says where a call works: on which thread, and at which checkpoint if not
// the newest. RunOptions say how a run is run.
//
// # Asking and resuming
//
// A node asks a question with Ask and returns the error that it gets. The run ends,
// and Result holds the question. To resume, call Invoke with a Command that has
// Resume: the node runs again from its start, and Ask returns the answer. Everything
// the node does before it asks is done again. Put what must not be repeated into a
// TaskFunc.
//
// An answer goes to a question that is stored as waiting, and to no other. If none
// waits, the answer is refused with ErrNoInterrupt. A run that failed or died is
// resumed with nil input, and asks again if it needs to.
//
// A caller who does not know whether an answer arrived may give it again, preferably
// by the id of the question. If the tasks of the superstep already have it, nobody
// gets it and the run goes on. If the thread has moved past those tasks, the error is
// ErrNoInterrupt. An answer without an id cannot be told from an answer to the next
// question of the same node.
//
// At an older checkpoint, or one of a graph inside, the same holds: a question that waits
// there is answered, and one that has been answered is not answered anew. To answer it
// anew, run from that checkpoint with nil. It asks again, on a branch of its own.
//
// # Waiting
//
// A node waits for an instant with Sleep, for a signal with Signal.Receive, and for a run of another graph with
// Child.Call. Each of these ends the run, as a question does. When the thread goes on, the node runs again from
// its start. What it waits for is stored, and is not begun anew. Result.Waits and StateSnapshot.Waits list it; LangGraph sees an interrupt.
//
// A run that goes on with such a thread runs the tasks whose wait is over or whose question has an answer,
// and those that were cut off or failed. The others keep their place. So a run with nil, or Recover, is how
// a thread is woken; a run of package runs is claimed when it is due. No answer ends a wait, and new input
// on a thread that waits so is refused with ErrSleeping, unless it discards what was left.
// docs/guide/timers.md shows it.
//
// # One run on a thread
//
// A run owns its thread. It acquires the thread from the saver (saver.Saver.Own)
// before it loads it, and releases it when its saves have ended, however the run ends.
// A task that was left behind after a timeout owns nothing. Another run that arrives
// meanwhile fails with ErrConflict before it runs or stores anything, in every
// durability mode; with RunOptions.ConflictRetries it waits instead. A node that
// starts a separate run on the thread of its own run is refused as well. Graphs that a
// node runs Inside belong to the run around them.
//
// Every checkpoint is stored on condition that the newest checkpoint is the one the
// run knows. Three things may move the head of a thread under a run, and are never
// refused: UpdateState, a fork (a run from a checkpoint that is not the newest), and a
// run with Options.LangGraph. The run under way then fails with ErrConflict when it
// stores its next checkpoint. The nodes before that checkpoint have run.
//
// If several processes write to one store, as on PostgreSQL, the saver coordinates them.
// A run has a lease of its thread, and each of its saves has the lease's epoch. A process
// that was stopped for longer than the lease lasts may find that another one took the
// thread over. Its run then ends with saver.ErrFenced, the contexts of its nodes are
// cancelled, and nothing that it saves is stored.
//
// # After a crash
//
// A process that dies leaves threads in the middle of a run. Nothing that was stored
// is lost, but something has to resume those threads. A program does that when it
// starts, with one call for each of its graphs. The graph needs a name, Options.Name:
//
//	report, err := g.Recover(ctx, pregel.RecoverOptions{})
//
// Tasks that ended do not run again. Attempts are counted before they begin, and
// RecoverOptions.Attempts bounds them, so that a node that kills its process does not
// do so for ever. Threads that other graphs left are reported and not run. A thread
// whose next nodes the graph no longer has is reported as failed, with ErrUnknownNode,
// and is left as it is.
//
// StateSnapshot.Status says whether a thread is done, waits, failed or is unfinished;
// saver.Saver.Threads finds threads by status. A run that its caller cancelled or
// drained leaves its thread unfinished, like a crash, whatever its nodes returned.
//
// New input on an unfinished thread first finishes what was left, unseen and under the
// RunID of the earlier run. Then it is taken. If the earlier run fails or stops, the
// input is not taken, and the error matches ErrUnfinished. The same happens if the
// earlier run cannot be resumed: another graph left it, the graph lacks one of its
// nodes (ErrUnknownNode), or it was tried too often (ErrGivenUp).
// RunOptions.Unfinished can refuse the input at once, or discard what was left.
//
// All this concerns new input only. A run with nil resumes what was left, and so does
// any Command, also one that only updates or steers. Input at a named checkpoint forks
// the thread and leaves that checkpoint alone. As in LangGraph, new input discards what
// a run left that failed or waits. docs/guide/crash.md explains it step by step.
//
// # A changed graph
//
// A graph has a version (Graph.Version), which each of its checkpoints has too. Before a new version is
// deployed, Graph.Preflight says which of the stored threads go on with it. docs/guide/changes.md lists
// what changes do.
//
// # Side effects
//
// A task may run again after a failure, an interrupt or a crash. IdempotencyKey
// returns a key to pass to a service that must act only once. It is the same in every
// run of the task, in every durability mode. The id of a task is not such a key.
//
// # Concurrency
//
// Each task has its own goroutine. Results do not depend on scheduling, because writes
// are applied in the order of the tasks' paths. A node's context ends when a sibling
// fails, the caller cancels or a timeout passes. The run waits for its nodes to return,
// except after a timeout. Tasks share the values in channels and must not change them
// in place.
//
// # Types of values
//
// A value keeps the type that its channel declares, also after a restart. Anything in
// an any, in a map[string]any or in a message's Extra comes back as plain data, unless
// its type is registered with the serializer (serde.Registry): a struct becomes a
// map[string]any, an int an int64, a []Call a []any. A type assertion that worked in
// one process then fails in the next. Options.RoundTrip exposes this in the first test:
// it encodes and decodes every value between supersteps, as if the process had died. In a
// typed graph (graph.For) a value has what it will be read as from the start.
//
// # What is stored when
//
// One pipeline carries a run's saves in order, and holds the run back when it is full.
// A checkpoint is never stored before the writes that made it. Values are serialized
// when their superstep ends, so reducers may append in place. After a save fails
// nothing more is stored, and the run fails with ErrPersist. An interrupt is reported
// once it is stored. A run that is cancelled still stores what ended, for at most
// Environment.DrainTimeout.
//
// # Where stele differs from LangGraph
//
// Ids of checkpoints, tasks and interrupts, stored checkpoints and writes, and stream
// events are those of LangGraph 1.2. test/parity/pregel compares them line by line,
// with Options.LangGraph set. The differences are deliberate.
//
// Options.LangGraph turns these off:
//
//   - A run that goes back to a checkpoint inside a graph inside goes on from there. In
//     LangGraph that graph runs from its beginning, unless it is Stable.
//   - New input first finishes what a crash left; see After a crash. LangGraph discards
//     it, with what its tasks had stored. RunOptions.Unfinished does so for one run.
//   - A question in a graph without a saver is ErrNoSaver: nobody could answer it.
//   - A run with a breakpoint at a node that the graph lacks is refused. LangGraph never stops there.
//   - A Command, from outside or of a node, that goes, or sends a packet, to a node that the graph lacks is
//     refused, as is a Send of a node. LangGraph ignores it.
//   - If the graph lacks a node that is left to run, the error is ErrUnknownNode.
//     LangGraph skips the node.
//   - A body that runs again has to make the calls that ended before, at their places and
//     with their inputs, and to run the graphs inside that it ran, by their names, else the error is
//     ErrCallMismatch. LangGraph goes by the order alone: it runs a call again that another one was put in
//     front of, as a new task.
//   - What a Command that begins a thread writes to a delta channel is read back. LangGraph applies
//     it twice, and reads one of the two back.
//   - Where MaxConcurrency bounds the tasks, those that wait behind one that fails do not run.
//     LangGraph's threads take them until somebody has seen the failure; with Options.LangGraph
//     that is when nothing is queued any more, or Environment.DrainTimeout has passed.
//   - The values of a Copy are []StateUpdate. LangGraph ignores a map.
//   - One run at a time owns a thread; others get ErrConflict. In LangGraph all go on,
//     and the last checkpoint counts.
//   - An answer reaches the question that waits and no other. It is refused with
//     ErrNoInterrupt if nothing waits, and with ErrUnknownInterrupt if nobody asked
//     the ids it names. At a breakpoint it only resumes the run. An answer that nobody
//     took is void once all tasks wait again: so is one that follows an update of a
//     graph inside, whose question is then another one. LangGraph refuses none, gives
//     it to whoever asks first, and begins an empty thread with one. At a checkpoint
//     that the thread has moved past it runs on with the answers of then.
//   - An answer is stored by the id of its question before any task runs. After a crash the
//     thread is unfinished, its question does not wait, the next run goes on with the answer, and
//     another one is ErrNoInterrupt. LangGraph forgets an answer by id, and takes another.
//   - Runs and UpdateState refuse a CheckpointID that does not exist. LangGraph takes
//     the thread for empty. GetState returns an empty
//     snapshot and no error in both.
//   - The update of a Command that begins a thread counts once. LangGraph applies it twice,
//     and fails if the Command goes nowhere.
//   - If the last writes of a thread conflict, GetState shows the state before them.
//     LangGraph raises.
//   - A node that ends because the caller cancelled the run stores no error, so the
//     thread is unfinished. The error of a called function alone is no failure of the
//     thread.
//   - How a run ended is stored beside the writes of tasks, where LangGraph does not
//     look, so that a list of threads can show it.
//
// These always apply:
//
//   - Sync also waits for the input checkpoint and for the writes of tasks.
//   - Exit reports interrupts after they are stored.
//   - Input and updates of a type that the channels cannot take are refused before
//     anything is stored. LangGraph stores such input, and raises.
//   - A Namespace that names no graph inside is a SubgraphError, for runs and for reads.
//     LangGraph finds state in any namespace.
//   - After the first failed save nothing more is stored.
//   - What a task wrote before it failed is dropped, so that the next run does not take
//     the task for finished. LangGraph stores it beside the error if a conditional edge
//     fails, and the next run then goes on without that edge.
//   - Of metadata that a graph inside and the graph around it both have, that of the graph
//     inside counts. In LangGraph it does if a node calls the graph; if the graph is the
//     node, that of the graph around it counts.
//   - A superstep whose writes are refused changes nothing, also under Exit, and so does an
//     update. LangGraph stores the writes of an update before it raises.
//   - Of a task that fails and one that sends a Command to the graph around, in one superstep,
//     the failure counts. In LangGraph one of them does, by chance.
//   - An error handler that ended does not run again when the run resumes.
//   - A fork of a thread with a delta channel does not show what was written behind its
//     checkpoint on another branch.
//   - An answer that was taken, also by a graph inside, is not given to a later question
//     when a run resumes without a new answer.
//   - An answer without an id that is given again after a crash does not go to the next
//     question of a graph inside.
//   - A Stable graph inside that was not called yet takes its input when the graph
//     around it resumes, whatever an earlier call left.
//   - A question that a called function asks in a graph inside is reported once to the
//     graphs around it, not again for each of its callers.
//   - Exit does not store an answer that was taken.
//   - What a graph inside stores follows the checkpoint around it, also under Async.
//   - An answer by interrupt id reaches a nested task that has stored nothing yet.
//   - A retry counts calls and nested graphs from the first again, and finds the calls
//     that ended.
//   - Messages that follow a removal of all are merged by id like others, so that no two have
//     one id and no removal stays.
//   - An empty Command is ErrEmptyInput.
//   - Of two nodes that read one channel, one alone and one in a map, each gets what it
//     asked for.
//   - A failed cache is a miss, and only successes are cached. Cached values are
//     serialized: a hit returns what a resumed run would read.
//   - A map that a node returns is written in the order of its keys. Pairs keep their
//     own order.
//   - Results carry interrupts beside the values, not among them.
//   - IdempotencyKey, and a signal that is received, store a checkpoint of an Exit run before the run ends.
//
// # Where to read
//
// The way of one superstep stands at loop.supersteps; a protocol is explained whole at its type. What a
// file of the same beginning holds belongs to it.
//
//	graph.go      Graph, New, NodeBuilder        channels.go   the channels of one loop
//	run.go        Invoke, Stream, Resume         position.go   where a run stands: checkpoint, tasks, writes
//	loop.go       loop: supersteps in turn       prepare.go    which tasks come next
//	start.go      what a run finds and begins    superstep.go  superstep: tasks side by side
//	entry.go      how an input meets a thread    taskwork.go   job: one task, its attempts and retries
//	view.go       what is shown while it runs    apply.go      writes into channels
//	saves.go      saves: what is saved and when  pipeline.go   pipeline: saves in order, beside the run
//
//	wait.go        Sleep, and what waits share          version.go    versions and fingerprints
//	signal.go      signals; inbox.go keeps them         migration.go  state of an older version
//	child.go       runs of other graphs                 preflight.go  a program against stored threads
//	call.go        functions as tasks (Entrypoint)      travel.go     graphs inside at an old checkpoint
//	idempotency.go keys of effects                      recover.go    threads that a crash cut off
//	steps.go       what a body did                      update.go     UpdateState
package pregel
