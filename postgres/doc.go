// Package postgres is the durable saver on PostgreSQL, in the tables of LangGraph's own
// saver (langgraph-checkpoint-postgres 3.2, migrations 0 to 9): programs in Python,
// JavaScript and Go read and write one database.
//
//	if err := postgres.Setup(ctx, url, postgres.Options{}); err != nil { … }
//	s, err := postgres.Open(ctx, url, postgres.Options{})
//
// # Tables
//
// LangGraph's tables hold all that LangGraph reads:
//
//	checkpoints        one row for a checkpoint; small scalars stand in its JSON
//	checkpoint_blobs   the other values, one row for a channel and a version of it
//	checkpoint_writes  pending writes, one row for a task and an index
//
// Tables of stele stand beside them. Nobody else needs them, and a row that is missing
// there means only that another program wrote.
//
//	stele_threads      when stele wrote last, and the thread's own TTL
//	stele_checkpoints  the Note of a checkpoint, its attempts, the order of puts
//	stele_calls        the order of calls that interrupt, resume or fail
//	stele_deleted      what is remembered of deleted threads
//	stele_voided       calls that were given up; see below
//	stele_leases       the threads that are owned, and the epochs of that
//	stele_runs         durable runs; this and the next two are those of package pgqueue
//	stele_run_events   their events
//	stele_schedules    what submits runs again and again
//	stele_workers      who executes runs, of which versions of graphs
//
// # Invariants
//
//   - A call that writes is one transaction, and takes the advisory lock of the thread
//     first, in the transaction. Each later statement of it has a snapshot of its own,
//     taken under the lock, so that it sees what all earlier calls of stele left. A lock is
//     never held over a call to user code.
//   - Put and PutWrites are calls of the functions stele_put and stele_put_writes, each in
//     one batch: one round trip, committed by the Sync at its end. What finds a reason to
//     refuse raises an error by stele_refuse, which ends the batch and rolls it back.
//   - Nothing needs a session: no named prepared statements, no session locks. The next
//     transaction may be on another server connection, as with PgBouncer in transaction
//     mode. Only a queue listens, and does without where it cannot.
//   - A checkpoint names its values by the versions of their channels. A blob never changes
//     while a checkpoint other than the one being put names it: a put that would change
//     what another reads is refused with a VersionTakenError. So forks never mix, for
//     Python either.
//   - A value stands in the checkpoint's JSON only if its JSON reads back as the same
//     bytes. Everything else is a blob: U+0000, NaN, infinities, -0.0, large strings. At one
//     version there is one or the other.
//   - Names that the columns cannot hold, or with which LangGraph's statements fail, are
//     refused before anything is sent.
//   - An error says that nothing was written, or it is ErrOutcomeUnknown. A call whose
//     answer was lost is settled on another connection: under the lock of the thread its
//     name goes into stele_voided, which every call looks at. From then on it has been
//     written already or never will be, however late its statements arrive. Then it is
//     tried again, or looked up. Sync settles those whose context has ended.
//
// The lock binds programs in Go. Python's savers take none, so that a run of theirs can
// move the head of a thread at any time; ExpectHead sees that, if it was before.
//
// The first statement after the lock decides whether a call may write: it looks at the
// epoch of the call's lease as well. A thread is taken over under the same lock. So what an
// owner wrote is there before the next one has the thread, and what it sends later is
// refused, however late it arrives.
//
// # Beside it
//
// Package pgqueue is the queue of package runs, and package pgstore the long-term store, in
// the schema of a Saver. The rows of the queue are made by Setup as well; pgstore has a Setup
// of its own.
package postgres
