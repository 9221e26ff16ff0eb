// Package transfer copies checkpoints from one saver to another, items from one long-term
// store to another, and both to and from files of NDJSON. Package ops/transfer/sqlite reads the
// files of LangGraph's SQLite savers and stores.
//
//	report, err := transfer.Copy(ctx, transfer.FromSaver(src), dst, transfer.Options{})
//	items, err := transfer.CopyItems(ctx, transfer.FromStore(from), to, nil, transfer.Options{})
//
// # What is copied
//
// Everything that the contract of package saver shows: ids, timestamps, versions, the typed
// bytes of values, parents, metadata, pending writes with their task paths and indexes, and
// notes; and the TTLs that threads have of their own, which count from the copy on. It does not
// show when a thread was written last, its counted recoveries, and writes on a checkpoint that
// does not exist; these are not copied. Neither is what package store/cache keeps.
//
// Of items everything is copied that package store shows: values, times, and for how long
// reads renew them. Those that have expired are left out. Vectors are not copied: a store with
// an index makes them anew when it gets an item. CopyItems reads each batch back.
//
// # The protocol
//
// A Source yields one thread after the other. Within a thread it yields a checkpoint after
// its parent, whatever the order of their ids. Copy takes each checkpoint in turn:
//
//  1. It reads the checkpoint of that id from the target. If it is there and equal, it is
//     left alone. If it is there and differs, the copy ends with a DiffersError, unless
//     Options.Replace is set.
//  2. A channel that has the version and the bytes that it has in the parent is stored as
//     unchanged, so that the target shares the value. All other channels are stored.
//  3. Checkpoint, pending writes and note are one PutRequest, so that a checkpoint is in the
//     target as a whole or not at all.
//
// When all are copied, Copy calls Sync and reads every checkpoint back from the target. The
// digest of what it reads must be that of what the source gave.
//
// So a copy that was killed, at any moment, is continued by the same call.
//
// # What cannot be copied
//
// Some checkpoints cannot be read, and some are refused by the target: a name that PostgreSQL
// cannot hold, a value over the limits. Each is a Rejected, which says which it is and why,
// and has the raw bytes. The copy goes on. The children of a rejected checkpoint are copied
// with all their values; their parent is then one that does not exist in the target, as
// after a removal of old checkpoints. If a pending write cannot be copied, none of its task is,
// so that the task does not pass for done, and runs again. Nothing is left out without a Rejected.
package transfer
