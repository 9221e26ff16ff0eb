// Package runs makes runs of graphs durable: a program submits a run, and workers execute
// it, in this process or in others, now or later. A run that was submitted is executed to
// its end as long as one worker lives.
//
//	queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{}) // items: store.On(s, …), s: disk.Open(…)
//	worker := &runs.Worker{Queue: queue, Saver: s, Graphs: map[string]*pregel.Graph{"chat": g}}
//	go worker.Run(ctx)
//
//	run, err := queue.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "chat"}, Input: in})
//	run, err = runs.Wait(ctx, queue, run.ID)
//
// A graph of graph.For is given as g.Untyped(). NewLocal is the queue of one process, beside the checkpoints in the saver's directory.
// Package pgqueue of module postgres has one for a fleet.
//
// # What is guaranteed
//
//   - A run is executed to its end, also if workers are killed on the way, or it fails for a
//     reason that may pass (Worker.Final), up to Spec.Attempts times, 3 by default. Then it
//     ends with Error and stays to be looked at, until Retry submits it again. LangGraph's
//     server, and package server, fail a run at its first error.
//   - A new attempt goes on where the last one was. Tasks whose writes were stored do not
//     run again. A task that was under way does; an effect outside counts once if it carries
//     pregel.IdempotencyKey.
//   - At most one worker's writes count. A worker that slept past its claim learns that it
//     is void, and the fencing epochs of the saver refuse what it still stores; see
//     saver.Lease.
//   - Runs of one thread never overlap, and are begun in the order of their submission.
//   - Events are stored before anybody sees them, in one order for all, numbered without
//     gaps. Follow yields them from any number on, in any process.
//
// # How a run is executed
//
// A worker claims the run and renews the claim while the graph runs. It owns the thread,
// and then asks the queue whether the claim still holds, before it looks at the thread: so
// what it sees is what the run begins with, and who slept behind the claim does nothing.
//
// The run's ID is the graph's RunOptions.RunID, so that the thread's checkpoints say which
// run made them. When an attempt begins, either the thread's newest checkpoint is of this
// run: then the graph resumes from there. Or it is not: then the run has stored no
// checkpoint, and the graph is given the input. A Command may have been stored without a
// checkpoint. So before the first attempt the worker notes, by Queue.Mark, what was pending
// on the thread: if that has changed at a later attempt, the command was taken, and the
// graph resumes.
//
// A run whose graph sleeps is given back until that is over, with no attempt counted; see Run.Asleep. It
// needs no worker meanwhile, and no goroutine. The first time its mark becomes the checkpoint at which it
// sleeps: it has taken its input. If the thread is gone when it wakes, or is another one, the run fails. If another
// run has gone on with the thread, it ends.
//
// A worker leaves a thread that another version of its graph has stored to workers of that version while one is
// alive, unless it has a migration. Then it goes on if Preflight lets the thread pass, and else the run waits: it
// is Pinned. docs/guide/changes.md has the rules.
//
// A program with a queue does not call pregel's Recover: that would finish a run behind the
// queue's back, and its events would be missing. Runs that have ended stay, with their events,
// until Queue.Sweep.
//
// When a worker is told to stop, it asks its graphs to stop between supersteps, and gives
// the runs back. Another worker goes on with them.
//
// # Where to read
//
//	queue.go   Queue, what all queues promise    worker.go    Worker: claims, renews, stops
//	run.go     Run, Request                      attempt.go   one attempt of a run
//	rules.go   rules that all queues share       versions.go  runs of other versions of a graph
//	event.go   events and their data             children.go  runs that runs wait for
//	follow.go  Wait, Follow                      topics.go    who waits for a change
//
// Local: local.go (open, submit, close), localitems.go (its items), localclaims.go (lines of runs, claims),
// localevents.go, localschedules.go, locallist.go, localchildren.go, localheld.go (a store that was restored),
// localfollow.go (a store that follows a leader).
package runs
