// Package memory keeps threads in plain maps, with exactly the semantics of the
// durable saver: it is the model that one is tested against, and serves tests
// and programs that need no durability. Nothing in it is clever.
//
// Decisions that the contract leaves to the saver, and that the durable saver
// shares:
//
//   - A value that is not given anew, and that neither the parent nor
//     PutRequest.ValuesFrom has at the same version, is the one stored last at
//     that version among the checkpoints that are still in the namespace.
//   - PruneAll is DeleteThread: the deletion is remembered.
//   - KeepLatest keeps the writes of what it keeps, and writes that wait for a
//     checkpoint newer than the newest; older ones without a checkpoint go.
//   - A thread that DeleteForRuns leaves without checkpoints and writes is gone,
//     but not remembered as deleted.
//   - Deleting an unknown thread changes nothing, not even the memory of an
//     earlier deletion.
//   - A call is refused for the deletion before its ExpectHead is looked at.
//   - A PutWrites without writes is checked like any other, and stores nothing.
//   - Removing is not writing: it leaves ThreadInfo.UpdatedAt as it was.
package memory
