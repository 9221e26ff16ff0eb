// Package saver is LangGraph's checkpoint contract in Go: the data model, the
// Saver interface, its optional powers, and its errors.
//
// A checkpoint is the state of one graph after one superstep. What tasks wrote
// since is kept beside it as pending writes. Loading the newest checkpoint of a
// thread and replaying its pending writes continues a run where it died.
//
// # Implementations
//
// Package saver/disk is the durable saver, in a directory. Package saver/memory
// keeps the same semantics in plain maps and is the reference model; package
// saver/savertest is the conformance kit that holds any implementation to them.
//
// # Where the reference implementations disagree
//
// LangGraph ships several savers whose answers differ. stele decides once, for
// all of its savers, and pins every decision by a test of the kit:
//
//   - Pending writes come in the order of (task path, task id, index), as the
//     base contract of current LangGraph asks; it is the order in which a
//     superstep applies its tasks.
//   - A write on a special channel (error, scheduled, interrupt, resume)
//     replaces the earlier one of the same task, whatever else is in the call;
//     a write on any other channel keeps the first value stored at its index.
//   - A filter compares by deep equality, before the limit is counted. A nil
//     filter value also matches a missing key. A dotted key that is not itself
//     a metadata key descends into nested maps.
//   - The returned Config is always a fresh triple of thread, namespace and
//     checkpoint id.
//   - Putting a checkpoint id again replaces checkpoint, metadata and parent.
//   - A listing is ordered by checkpoint id descending, over all namespaces and
//     threads it covers; equal ids by thread, then namespace, ascending.
//   - Before without a checkpoint id is ignored.
//   - A stored nil is a value: it is a seed of a delta channel.
//   - An absent namespace in a Config is the root namespace, also in Put.
//   - Two forks that reach the same channel version with different bytes each
//     read their own: a checkpoint remembers the values it was put with, not
//     only their versions.
//   - A value that is neither given anew nor read by the parent at the same
//     version is the one stored last at that version among the checkpoints that
//     are still in the namespace.
//   - A write that hangs on a deleted thread is refused with ErrThreadDeleted;
//     a checkpoint without a parent starts the thread anew, empty.
package saver
