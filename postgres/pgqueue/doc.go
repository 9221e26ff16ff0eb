// Package pgqueue is the queue of package runs on PostgreSQL, for a fleet of workers, in
// tables beside the checkpoints, which postgres.Setup makes.
//
// # How a run is claimed
//
// A claim is one statement, and takes no lock but that of the run's row. It looks for the
// first run, in the order of the contract, that is due and that no other run of its thread
// holds up, and skips rows that another claim has locked. A run that is locked but not yet
// claimed still holds up those behind it: the snapshot of the statement shows it as it was.
// Two claims whose snapshots differ may both take a run of one thread. Of these one fails at
// the unique index stele_runs_begun, which has the run that was begun of each thread, and is
// tried again.
//
// A claim does not look at runs that are marked in stele_runs.behind: so it takes no longer
// when thousands wait. A mark says that something of the thread is ahead, and is never all
// that keeps a run back: one that is missing costs time alone. What must hold is that in a
// thread with marked runs there is one without a mark that has not ended, and that was begun
// or is due and before the marked ones. So a submission locks such a run, against its end,
// until it is committed, and leaves the mark out where it cannot; and the end of a run that
// may be such a one takes the mark off the first that has one: a trigger, stele_next_behind,
// as programs of an older version end runs too. The end sees the marks that it has waited for
// at the level read committed alone; where the server has another default, nothing is marked.
//
// # Versions
//
// A run that was given back for workers of one version is in the index stele_runs_pinned, and due later for all
// others. A claim looks there first, for the versions that the worker has in stele_workers.
//
// # Children
//
// The end of a run makes its parent due, and marks its children to be interrupted, by a trigger, stele_kin, in the
// transaction of the end. Whoever looks how a child has ended locks the rows of its runs, and so waits for an end
// under way: either the parent sees the end, or the end sees the parent, which looked before. A parent and a
// child that end at the same moment may wait for each other; the server refuses one of the two calls, which is
// tried again.
//
// # Calls of unknown outcome
//
// All other calls that write are transactions under an advisory lock, that of the thread
// for Submit and one of the run for calls about a run, and are settled as those of a Saver
// are: when an answer is lost, the call is voided under its lock, so that it was written
// already or never will be. Then it is looked up, or tried again. What it wrote has its name:
// stele_runs.changed_by, or stele_run_events.call. A submission is known by the id of its run
// as well. Mark, PutSchedule, Advance and DeleteSchedule do no harm when they are written
// twice. Renew does no harm at any time.
//
// A claim cannot be voided, as nobody knows of which run it is. It is looked up by its name,
// stele_runs.claimed_by. One that the server takes up only after that is one of a worker that
// died: it is void after LeaseTime. A claim that is under way when its context ends is waited
// for, for a second.
//
// # Who is told
//
// Transactions that change runs send a notification (NOTIFY) to the channel of the schema,
// with what has changed. One connection listens, from the first Watch on, and is opened again
// when it is lost. It is not of the pool. Where a pooler gives each transaction another server
// connection, nothing is sent that way: Queue finds that out, and tells those who watch to
// look every PollEvery. So a hint that was lost costs no longer than that. Transactions of
// checkpoints never notify.
package pgqueue
