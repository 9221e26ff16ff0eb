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
//	res, err := g.Invoke(ctx, pregel.Thread("t"), map[string]any{"n": 21})
//
// # Asking and resuming
//
// A node asks with Ask and returns the error it gets. The run ends, Result has
// the question, and Invoke with a Command that has Resume goes on: the node runs
// again from its start, and Ask returns the answer. Everything a node does before
// it asks is done again; what must not be goes into a TaskFunc.
//
// An answer is for a question that waits in what is stored, and no other question
// gets it. Where none waits it is ErrNoInterrupt: a run that failed or died goes on
// with nil, and asks if it has to. A caller who was not told whether an answer
// arrived gives it again, best by the id of the question: if the tasks of the
// superstep have it already it is given to nobody, and the run goes on; if the thread
// has moved past them it is ErrNoInterrupt. An answer without an id cannot be told
// from one to the next question of the same node.
//
// # One run on a thread
//
// A run has its thread for itself: it asks the saver for it (saver.Coordinator) before it
// loads it, and gives it back when its saves have ended, however it ends. A task that
// is left behind after a timeout holds nothing. A run that comes meanwhile fails with
// ErrConflict before anything of it is run or stored, in every durability mode; with
// RunOptions.ConflictRetries it waits instead. A node that runs a graph on the thread of
// its own run is refused too. Graphs inside belong to the run around them.
//
// Every checkpoint is put on the condition that the newest one is that which the run
// knows. Three things may move the head under a run, and are never refused: UpdateState,
// a run from a checkpoint that is not the newest (a fork), and a run with RunOptions.Shared.
// The run under way then fails with ErrConflict at its next checkpoint. The nodes before
// that checkpoint have run.
//
// Where several processes write to one store, which the disk saver does not allow,
// the saver should be a saver.Coordinator among them. If it is none the condition alone
// judges between processes: of runs with input that begin from one head all but one
// fail before their nodes run, because every save on such a saver is waited for, and so
// does a run whose head another one took over, with its next
// checkpoint. A run that resumes, and one under Exit, learns of it with the first
// checkpoint it stores: its first tasks have run.
//
// # After a crash
//
// A process that dies leaves threads in the middle of a run. Nothing that was stored
// of them is lost; somebody has to go on with them. A program does that at its start,
// with one call for each of its graphs, which has a name in Options.Name for it:
//
//	report, err := g.Recover(ctx, pregel.RecoverOptions{})
//
// Tasks that ended are not run again. A thread is run as often as
// RecoverOptions.Attempts says, counted before it runs, so that a node that kills its
// process does not do so for ever. Threads that other graphs left are reported, and
// not run. A thread whose next nodes the graph does not have any more is reported as
// failed, with ErrUnknownNode, and stays as it is.
//
// StateSnapshot.Status says of one thread whether it is done, waits, failed or is
// unfinished; saver.ThreadManager finds threads by it. A run that was cancelled by its
// caller or drained leaves its thread unfinished like a crash, whatever its nodes made of
// the end of their context. New input on such a thread first goes on with what was left,
// unseen and under its own RunID, and is taken after that.
// If that fails or stops the input is not taken, and the error matches ErrUnfinished.
// So it does if what was left cannot be gone on with: another graph left it, the graph
// does not have its nodes (ErrUnknownNode), or it was tried too often (ErrGivenUp).
// RunOptions.Unfinished says otherwise: refuse the input, or discard what was left.
//
// This is about new input alone. A run with nil goes on with what was left. So does a
// run with a Command, also one that only updates or steers. Input with a CheckpointID is
// a fork, and leaves that checkpoint as it is. New input discards what a run left that
// failed or waits, as in LangGraph. docs/guide/crash.md tells it step by step.
//
// # Side effects
//
// A task may run again after a failure, an interrupt or a crash. IdempotencyKey is
// what to give to a service that is asked to do something once: the same key in every
// run of the task, in every durability mode. The id of a task is no such key.
//
// # Concurrency
//
// Each task has a goroutine. Results do not depend on how they are scheduled:
// writes are applied in the order of the tasks' paths. A node's context ends when
// a sibling fails, the caller cancels or a timeout passes; the run waits for
// nodes to return, except after a timeout. Values in channels are shared between
// tasks and must not be changed in place.
//
// # Types of values
//
// What a channel declares as its type it has after a restart too. What is in an any, in
// a map[string]any or in a message's Extra comes back as plain data: a struct as a
// map[string]any, an int as an int64, a []Call as a []any, unless its type is
// registered with the serializer (serde.Registry). A type assertion that passes within
// one process fails then. Options.RoundTrip shows it in the first test: with it every
// value that crosses a superstep is encoded and decoded again, as if the process had
// died there.
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
// by line, with Options.LangGraph set. The differences are deliberate.
//
// Options.LangGraph takes these back; what is named with one takes it back alone:
//
//   - Unfinished work comes first: new input finishes what a crash left and is taken
//     after that, see After a crash. LangGraph drops it, with what its tasks had
//     stored. RunOptions.Unfinished.
//   - Nodes that are left to run and that the graph does not have are ErrUnknownNode.
//     LangGraph passes over them.
//   - One run at a time has a thread; the others are ErrConflict. RunOptions.Shared: all
//     go on, and the last checkpoint counts.
//   - An answer where nothing waits is ErrNoInterrupt, ids that nothing asked are
//     ErrUnknownInterrupt, and an answer reaches the question that waited and no
//     other; a breakpoint is passed by one, which nobody gets. An answer that nobody
//     took when all tasks wait again is taken back. RunOptions.AnyAnswer: an answer is
//     refused only where nothing is left to run, and whoever asks first gets it.
//   - A CheckpointID that does not exist is an error of runs and of UpdateState.
//     RunOptions.AnyCheckpoint: the thread counts as empty. GetState returns an empty
//     snapshot and nil either way, as LangGraph does.
//   - GetState of a thread whose last writes do not go together shows the state before
//     them; LangGraph raises.
//   - A node that ends because the caller cancelled the run stores no error: the thread is
//     unfinished. The error of a called function is no failure of the thread by itself.
//   - What tells a list of threads how a run ended is stored beside the writes of tasks,
//     where LangGraph does not look.
//
// These stay:
//
//   - Sync also waits for the input checkpoint, and for the writes of tasks.
//   - Exit reports interrupts after they are stored.
//   - Input and updates of a type that the channels cannot take are refused before they
//     are stored; LangGraph stores such input, and raises.
//   - A Namespace that names no graph inside is a SubgraphError for runs, too.
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
//   - A question that a called function asks in a graph inside is told once to the
//     graphs around it, not again for each of its callers.
//   - Exit does not store an answer that was taken.
//   - What a graph inside stores comes after the checkpoint around it, also under
//     Async.
//   - An answer by interrupt id reaches a nested task that stored nothing yet.
//   - A retry counts calls and nested graphs from the first again, and finds
//     the calls that ended.
//   - An empty Command is ErrEmptyInput.
//   - Two nodes that read one channel, one of them alone and one in a map, get
//     what they ask for.
//   - Only the state of a graph that a node names is found by namespace; any
//     other namespace is a SubgraphError also for reads.
//   - A failed cache is a miss, and only successes are cached. What is cached is
//     serialized: a hit gives what a resumed run would read.
//   - A map that a node returns is written in the order of its keys; Pairs have
//     an order of their own.
//   - Results carry interrupts beside the values, not among them.
//   - IdempotencyKey stores a checkpoint of an Exit run before its end.
package pregel
