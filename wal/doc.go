// Package wal is the log of a store: files of checksummed frames, one record
// per frame, committed in groups and replayed on open.
//
// # What a caller gets
//
// [Log.Commit] hands one record to the log and returns when it is committed.
// Records receive dense log sequence numbers (LSN) in commit order. A
// committer drains the queue: it asks each record for its bytes
// ([Record.Prepare]), writes the batch with one write, makes it durable with
// one sync if the mode asks for it, hands the batch to Options.Apply and wakes
// the callers. Two goroutines take turns at it: while one syncs a batch, the
// other prepares and frames the next, which is written when the sync has ended.
// So group commit needs no timer. Where callers come back within half a sync,
// the next batch waits for them instead.
//
// # What survives
//
// In SyncAlways, a nil from Commit means the record survives power loss. In
// SyncInterval and SyncNever it survives the death of the process, and power
// loss up to the last sync ([Log.Sync], rotation, Close, or the interval). What
// survives is always a prefix of commit order, and each record is there whole
// or not at all.
//
// # Torn tail or damage
//
// Each frame says up to which offset its file was durable when the frame was
// built: the promise. [Recover] therefore knows which bytes a crash may have
// torn (those above the highest promise) and which it may not. An invalid frame
// below a promise is a [fault.CorruptionError]; only above it may the tail be
// cut, and [Recovery] says how much was. The last batch before a crash has no
// promise behind it, and a tail that is cut off takes its promises with it: for
// both the log writes, after each sync, a [Mark] into a file beside it. The mark
// is exact when a process was killed. When power was lost it may be older, which
// is the blind spot that is left; a sync mark in the log about 10 ms after the
// last sync narrows it.
//
// # A failed sync
//
// After a failed sync the page cache proves nothing, so the log never retries:
// it is poisoned, every waiting and later call gets [fault.ErrPoisoned] with the
// first cause, and the durable LSN stays where it was. After any unclean end,
// [Rewrite] re-encodes the frames above the highest promise into a new file
// rather than trust what the page cache shows.
//
// The byte layout is docs/format/log.md; testdata holds it as annotated dumps.
package wal
