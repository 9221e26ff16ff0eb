// Package saver is LangGraph's checkpoint contract in Go: the data model, the
// Saver interface, the optional Eraser, and its errors.
//
// A checkpoint is the state of one graph after one superstep. The writes of tasks since then
// are kept with it, as pending writes. To continue a run that died, load the newest
// checkpoint of its thread and apply the pending writes.
//
// # Implementations
//
// Package saver/disk is the durable saver, in a directory. Package saver/memory
// keeps the same semantics in plain maps and is the reference model; package
// saver/savertest is the conformance kit that holds any implementation to them. To write
// one of your own, begin with package saver/rules.
//
// # Where the reference implementations disagree
//
// LangGraph ships several savers whose answers differ. stele decides once, for
// all of its savers, and pins every decision by a test of the kit:
//
//   - Pending writes come in the order of (task path, task id, index), as the
//     base contract of current LangGraph asks; it is the order in which a
//     superstep applies its tasks.
//   - A write on a special channel (error, scheduled, interrupt, resume) replaces
//     the earlier one of the same task, whatever else is in the call. On any other
//     channel the first value stored at an index is kept.
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
//   - If two forks reach the same channel version with different bytes, each reads
//     its own: a checkpoint remembers its values, not only their versions.
//   - If a value is not given in Put, and the parent does not have it at the same
//     version, the checkpoint reads the value that was stored last at that version
//     by a checkpoint that is still in the namespace.
//   - A write to a deleted thread is refused with ErrThreadDeleted. A checkpoint
//     without a parent starts the thread anew, empty.
package saver
