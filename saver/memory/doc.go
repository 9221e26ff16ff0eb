// Package memory keeps threads in plain maps, with exactly the semantics of the durable
// saver. It is the model against which the durable saver is tested, and serves tests and
// programs that need no durability. It is deliberately simple: List looks at the ids of all
// checkpoints of the threads it lists, and Threads at those of all threads, whatever their limit.
//
// The contract leaves some decisions to the saver. This one and the durable saver decide
// alike:
//
//   - If a value is not given, and neither the parent nor PutRequest.ValuesFrom has it at
//     the same version, the checkpoint reads the value that was stored last at that
//     version by a checkpoint that is still in the namespace.
//   - PruneAll deletes the thread like DeleteThread, and the deletion is remembered.
//   - KeepLatest keeps the writes of the checkpoints that it keeps, and writes for a
//     checkpoint newer than the newest. It removes older writes without a checkpoint.
//   - A thread without checkpoints and writes after DeleteForRuns no longer exists, but is
//     not remembered as deleted.
//   - Deleting an unknown thread changes nothing. An earlier deletion stays remembered as
//     it was.
//   - ErrThreadDeleted comes before a conflict with ExpectHead.
//   - A PutWrites without writes is checked like any other, and stores nothing.
//   - Removals do not change ThreadInfo.UpdatedAt.
package memory
