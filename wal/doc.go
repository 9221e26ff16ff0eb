// Package wal is the write-ahead log of a store: a chain of files of checksummed
// frames, one record to a frame, committed in groups and replayed on open.
//
// Package engine writes and reads logs; engine/check,
// engine/backup and saver/admin read them.
//
// # Committing
//
// [Log.Commit] hands over one record and returns when it is committed. Records receive
// dense log sequence numbers (LSN) in commit order. Records that are queued together
// share one write and one sync. How, and what each stage is for, is described at the
// type committer.
//
// # What survives
//
// In SyncAlways, a nil from Commit means that the record survives power loss. In
// SyncInterval and SyncNever it survives the death of the process, and power loss only
// up to the last sync: that of [Log.Sync], of a rotation, of Close, or of the interval.
// What survives is always a prefix of commit order, and each record survives whole or
// not at all.
//
// # Torn tail or damage
//
// Each frame says up to which offset its file was durable when the frame was built.
// That is its promise. From the promises [Recover] knows which bytes a crash may have
// torn, those above the highest promise, and which it may not. An invalid frame below a
// promise is a [fault.CorruptionError]. Above it, the tail is cut off, and [Recovery]
// says how much.
//
// Promises leave two gaps: no frame promises the last batch before a crash, and a tail
// that somebody cuts off takes its promises along. So after each sync the log writes a
// [Mark] into a file beside it, which says the same of the whole log. The mark is exact
// when a process was killed. When power was lost it may be older; this is the blind spot
// that is left. A frame that the log writes about 10 ms after the last sync, the sync
// mark, narrows it.
//
// # A failed sync
//
// After a failed sync the page cache proves nothing, so the log never tries again. It is
// poisoned: all waiting and later calls get [fault.ErrPoisoned] with the first cause,
// and the durable LSN stays where it was. Nor does the next open trust the page cache:
// after any unclean end, [CopyEnd] copies the frames above the highest promise to a new
// file.
//
// # Where to read
//
//	log.go        Log: open, rotate, close        recover.go    reads a log back: torn tail or damage
//	queue.go      the order of commits            recovery.go   RecoverOptions, Recovery
//	committer.go  the commit pipeline             chain.go      the files of a log, one after the other
//	write.go      a batch into a file             displaced.go  frames out of their places
//	file.go       a file that is written          copyend.go    what was not synced, in a new file
//	syncer.go     syncs in the background         mark.go       Mark: the durable end, beside the log
//	prealloc.go   zeros ahead of the end          trace.go      is the end what was written?
//	replicate.go  records for a replica
//
//	header.go     the header of a file            reader.go     frames, one after the other
//	frame.go      one frame                       payload.go    parts of records, by place
//	inspect.go    a file for stele inspect
//
// The byte layout is in docs/format/log.md, and testdata has annotated dumps of it.
//
// It is for this repository, and makes no promise to others.
package wal
