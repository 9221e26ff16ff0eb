// Package layout says how checkpoints and what is stored beside them lie in the engine:
// the keys of threads and entries ([ThreadKey], [CheckpointKey]), the bytes of a checkpoint
// ([CheckpointRecord.Encode]) and of a value ([KindPrefix]), and what the flags of an entry
// and a thread mean. docs/format/key.md and docs/format/checkpoint.md have it byte by
// byte.
//
// It is codec alone: it reads and writes no file. Decoders return an error or a value for
// any input, and allocate a small multiple of its length.
//
// It is for this repository, and makes no promise to others.
package layout
