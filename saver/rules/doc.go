// Package rules is what all implementations of saver.Saver have in common, whatever their
// storage. With it, package serde, and a storage that has transactions, you write a saver of your
// own: this page says which rule is called where. Nothing in the package does I/O or holds a lock
// while it calls you. Package test/bolt of the repository is such a saver, on bbolt; package
// savertest tells whether yours does what the contract says.
//
// # What a saver stores
//
// Names are any bytes, in UTF-8 or not, and may contain zeros; the root namespace is empty. Ids of
// checkpoints order as bytes. Store
//
//   - of each checkpoint a [Record], and for each channel that has a version what the checkpoint
//     reads for it: a value, nothing because the channel became empty, or nothing at all;
//   - of each checkpoint the calls that wrote against it, each a [WritesPlan], in commit order. The
//     checkpoint need not exist;
//   - of each thread the time of its last write, as whole microseconds, and its TTL;
//   - of each deleted thread a [Deleted].
//
// Values want numbers in commit order that are never used again. They say which value was stored
// last, and a value that is read late is then never another one. A saver.Version has a kind, which
// its text does not tell.
//
// # Put
//
// Before anything is locked, [PutPlan.Make] validates and serializes the request. Refuse
// PutRequest.Changes of types that are not yours, with [saver.Invalidf]. Then, in the transaction that
// writes, and before it changes anything:
//
//  1. [Owners.Check] refuses an epoch that is gone. [Owners] implements Own where one process has
//     the store.
//  2. [PutPlan.Check] refuses what hangs on something deleted, values from a checkpoint that is
//     not there, and another head than expected.
//
// Then find what each channel reads. A channel of Record.Stored reads its new value, and one of
// Record.Emptied reads nothing. Any other reads what the checkpoint [Record.Source] has for it, if
// that has the channel at the same version; else what was stored last for the channel at that
// version by a checkpoint that is still in the namespace; else nothing. This counts for good:
// later puts do not change it. Store the checkpoint, then PutPlan.Writes, and note the time. A
// checkpoint that is put again loses its old values, and keeps its writes and attempts.
//
// # PutWrites
//
// [NewWritesPlan] validates and serializes. In the transaction call Owners.Check, and
// [Deleted.CheckWrites] if the thread was deleted. A call without writes is checked too, and then
// stores nothing, nor does it make the thread. Append the plan to the calls of the checkpoint;
// which of repeated writes count is found when they are read. CountAttempt is a write as well.
//
// # GetTuple and List
//
// [saver.Config.Validate], or [saver.Query.Validate] and then [saver.Config.CompareListing] for the order. Of one checkpoint,
// [saver.DecodeMetadata] gives the metadata, [PendingWrites] the writes, and [MigratePendingSends] what a
// checkpoint of an old format takes from the calls of its parent. Values may be saver.ValueLazy.
// A missing checkpoint is [NotFound]. A listing is one state of the store: [saver.Metadata.Match] picks
// from it, and the limit counts what matched. Who iterates may write meanwhile. DeltaChannelHistory
// is [DeltaHistories] in one transaction.
//
// Threads calls [saver.ThreadQuery.Validate], [StatusOf] with a [NewWriteCall] for each call upon the
// head of the root namespace, and saver.ThreadInfo.Describe.
//
// # Removals
//
// DeleteThread calls [saver.ValidateThreadID], collects the greatest id of the thread, with those that
// have only writes, before it removes anything, and stores it as a Deleted. [Deleted.Merge] adds
// what is remembered from before, unless that is [Deleted.Expired]. A thread that is not there is
// not remembered.
//
// DeleteForRuns and Prune first say which checkpoints are to go, and ask [PruneMark] which of them
// the others need. Those stay, and are reported with saver.Removal.Keep. DeleteForRuns calls
// [Owners.CheckLease]. Prune calls [saver.PruneStrategy.Validate]; KeepLatest also removes writes without a
// checkpoint that are older than the newest one, and PruneAll is DeleteThread. Values go when the
// last checkpoint that reads them does, and a thread when it has neither checkpoints nor writes.
//
// [SpaceView] and [ThreadView] show what you read to PruneMark and to PlanRetention. A saver that
// can answer with less reading implements [PruneView] and [RetainView] itself.
//
// Retain calls [saver.RetentionPolicy.Validate] and then [PlanRetention], with a view of each thread,
// and removes RetainPlan.Gone in that order. SetTTL calls [saver.ValidateTTL], and Sweep deletes what is
// [Expired].
//
// # Copies
//
// CopyThread calls [saver.ValidateThreadID]. A copy has checkpoints, writes and attempts, but a TTL of
// its own, and a deletion of the target is forgotten. If there is nothing to copy, the target stays
// as it was, and is remembered as before.
package rules
