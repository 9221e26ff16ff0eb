package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/serde"
)

// QueueOptions configure a Queue. The zero value is ready for use.
type QueueOptions struct {
	// Serializer encodes inputs and events. Nil is that of the Saver.
	Serializer serde.Serializer
	// Clock tells the time, for tests. Nil is the server's clock: those of the programs need
	// not agree.
	Clock func() time.Time
	// LeaseTime is how long a claim holds without being renewed. Zero is 15 seconds.
	LeaseTime time.Duration
	// PollEvery is how often those who watch are told to look where the server cannot tell
	// them, as behind PgBouncer, and how often the connection that listens is tried. Zero is
	// 500 milliseconds.
	PollEvery time.Duration
}

// Queue is a runs.Queue for a fleet of workers, in tables beside the checkpoints. Its
// methods are safe for concurrent use, by any number of Queues and processes on one
// database.
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
type Queue struct {
	s       *Saver
	opts    QueueOptions
	sql     *runStatements
	channel string

	topics    runs.Topics
	listening atomic.Bool
	watched   sync.Once
	stop      context.CancelFunc
	stopping  context.Context
	stopped   sync.WaitGroup
}

var _ runs.Queue = (*Queue)(nil)

// OpenQueue is the queue in the schema of a Saver, whose pool and options of time it uses:
// StatementTimeout, RetryTime. Close it before the Saver.
func OpenQueue(s *Saver, opts QueueOptions) *Queue {
	if opts.Serializer == nil {
		opts.Serializer = s.opts.Serializer
	}
	if opts.LeaseTime == 0 {
		opts.LeaseTime = 15 * time.Second
	}
	if opts.PollEvery == 0 {
		opts.PollEvery = 500 * time.Millisecond
	}
	q := &Queue{s: s, opts: opts, sql: newRunStatements(s.schema), channel: fmt.Sprintf("stele_runs_%016x", uint64(lockKey(s.schema, "\x00runs")))}
	q.stopping, q.stop = context.WithCancel(context.Background())
	return q
}

// Close ends the watching. Claims stay as they are.
func (q *Queue) Close() error {
	q.stop()
	q.stopped.Wait()
	return nil
}

// Serializer implements runs.Queue.
func (q *Queue) Serializer() serde.Serializer { return q.opts.Serializer }

// LeaseTime implements runs.Queue.
func (q *Queue) LeaseTime() time.Duration { return q.opts.LeaseTime }

// clock is the time for statements; NULL is the server's.
func (q *Queue) clock() *time.Time {
	if q.opts.Clock == nil {
		return nil
	}
	now := q.now()
	return &now
}

// now is about the time: ids grow with it.
func (q *Queue) now() time.Time {
	if q.opts.Clock == nil {
		return time.Now()
	}
	return q.opts.Clock().UTC().Truncate(time.Microsecond)
}

// runLock is the name of the lock of a run. It is no thread's, as those have no U+0000.
func runLock(id string) string { return "\x00run\x00" + id }

// scheduleLock is the name of the lock of a schedule.
func scheduleLock(id string) string { return "\x00schedule\x00" + id }

// stamp is a time as it is stored; the zero time is NULL.
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}

// runRow is a row of stele_runs as runColumns selects it. All is NULL where a join found
// none.
type runRow struct {
	id, key, status, error, cancel, worker, mark *string
	attempt                                      *int
	epoch                                        *int64
	waiting                                      *bool
	spec                                         []byte
	after, created, started, ended               *time.Time
	changedBy                                    *[16]byte
}

// targets are what to scan runColumns into.
func (r *runRow) targets() []any {
	return []any{&r.id, &r.key, &r.status, &r.attempt, &r.waiting, &r.error, &r.cancel, &r.worker, &r.epoch, &r.mark,
		&r.spec, &r.after, &r.created, &r.started, &r.ended, &r.changedBy}
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// run is the run of a row that was scanned.
func (r *runRow) run() (runs.Run, error) {
	run := runs.Run{
		ID: orZero(r.id), Key: orZero(r.key), Status: runs.Status(orZero(r.status)), Attempt: orZero(r.attempt), Waiting: orZero(r.waiting),
		Error: orZero(r.error), Cancel: runs.Strategy(orZero(r.cancel)), Worker: orZero(r.worker), Epoch: orZero(r.epoch), Mark: orZero(r.mark),
		After: utc(r.after), Created: utc(r.created), Started: utc(r.started), Ended: utc(r.ended),
	}
	if err := json.Unmarshal(r.spec, &run.Spec); err != nil {
		return run, &runs.UnreadableError{RunID: run.ID, Err: fmt.Errorf("spec: %w", err)}
	}
	return run, runs.CheckStored(run)
}

// reads makes a function of a batch that reads one row, if there is one. It is decoded later, as those of into.
func reads(r *runRow, found *bool) func(pgx.Row) error {
	return func(row pgx.Row) error {
		*r, *found = runRow{}, false
		err := row.Scan(r.targets()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		*found = err == nil
		return err
	}
}

// Submit implements runs.Queue: one round trip, under the lock of the thread.
func (q *Queue) Submit(ctx context.Context, req runs.Request) (runs.Run, error) {
	r, err := runs.NewRun(req, q.opts.Serializer, q.now())
	if err != nil {
		return runs.Run{}, err
	}
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return runs.Run{}, err
	}
	end, err := q.endOf(runs.Interrupted)
	if err != nil {
		return runs.Run{}, err
	}
	var key *string
	if r.Key != "" {
		key = &r.Key
	}
	var row runRow
	var found bool
	err = q.s.run(ctx, write{
		threadID: r.ThreadID,
		queue: func(b *pgx.Batch, c call) {
			b.Queue(q.s.sql.voidGuard, [16]byte(c))
			if r.Multitask == runs.Reject {
				b.Queue(q.sql.busy, r.ThreadID, r.ID, key)
			}
			b.Queue(q.sql.submit, r.ID, r.ThreadID, r.Graph, key, int64(r.Priority), int64(r.Attempts), spec, stamp(req.After), q.clock(), [16]byte(c))
			if r.Multitask == runs.Interrupt || r.Multitask == runs.Rollback {
				b.Queue(q.sql.cancelOthers, r.ThreadID, string(r.Multitask), end.Kind, end.Data, q.clock(), [16]byte(c), q.channel, r.ID)
			}
			b.Queue(q.sql.notify, q.channel, "")
			b.Queue(q.sql.submitted, r.ID, key).QueryRow(reads(&row, &found))
		},
		trace: func(b *pgx.Batch, _ call, applied *bool) {
			b.Queue(q.sql.get, r.ID).QueryRow(reads(&row, applied))
		},
		refused: func(code, detail string) error {
			if code == refusedBusy {
				return &runs.BusyError{ThreadID: r.ThreadID, RunID: detail}
			}
			return fmt.Errorf("refused: %s %s", code, detail)
		},
	})
	if err != nil {
		return runs.Run{}, err
	}
	got, err := row.run()
	if err != nil { // the one that has the key
		return runs.Run{}, err
	}
	if r.Key != "" {
		if err := runs.SameKey(got, req); err != nil {
			return runs.Run{}, err
		}
	}
	q.tell("")
	return got, nil
}

// endOf is the data of the last event of a run that ends with a status.
func (q *Queue) endOf(s runs.Status) (serde.Typed, error) {
	typed, err := q.opts.Serializer.Encode(string(s))
	typed.Data = notNull(typed.Data)
	return typed, err
}

// Get implements runs.Queue.
func (q *Queue) Get(ctx context.Context, id string) (runs.Run, error) {
	if checkText("run", id) != nil {
		return runs.Run{}, fmt.Errorf("run %q: %w", id, runs.ErrNotFound)
	}
	var found []runRow
	err := q.s.read(ctx, func(b *pgx.Batch) { b.Queue(q.sql.get, id).Query(into(&found)) })
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("run %q: %w", id, runs.ErrNotFound)
	}
	if err != nil {
		return runs.Run{}, err
	}
	return found[0].run()
}

// listPage is how many runs a listing reads at a time.
const listPage = 500

// List implements runs.Queue. It reads page after page: runs that are submitted meanwhile
// may be among them, and each is as it was when its page was read.
func (q *Queue) List(ctx context.Context, sel runs.Query) iter.Seq2[runs.Run, error] {
	return func(yield func(runs.Run, error) bool) {
		for _, s := range []string{sel.ThreadID, sel.Graph, string(sel.Status), sel.After} {
			if checkText("query", s) != nil {
				return // there are none of that name
			}
		}
		for n := 0; ; {
			page := listPage
			if sel.Limit > 0 {
				page = min(page, sel.Limit-n)
			}
			found, err := q.page(ctx, sel, page)
			if err != nil {
				yield(runs.Run{}, err)
				return
			}
			for _, row := range found {
				r, err := row.run()
				if n++; !yield(r, err) || n == sel.Limit {
					return
				}
				sel.After = r.ID
			}
			if len(found) < page {
				return
			}
		}
	}
}

// page reads some runs behind sel.After.
func (q *Queue) page(ctx context.Context, sel runs.Query, limit int) (found []runRow, err error) {
	sql, args := q.listing(sel, limit)
	err = q.s.read(ctx, func(b *pgx.Batch) { b.Queue(sql, args...).Query(into(&found)) })
	return found, err
}

// listing is the statement of page.
func (q *Queue) listing(sel runs.Query, limit int) (sql string, args []any) {
	id := "id"
	if sel.ThreadID != "" {
		// The order is the same, and no other index has it: the planner would walk all runs, as if
		// those of a thread were evenly among them.
		id = `id COLLATE "POSIX"`
	}
	where, order := []string{id + " > $1"}, id
	args = []any{sel.After}
	if sel.Newest {
		where[0], order = id+" < $1", id+" DESC"
		if sel.After == "" {
			where[0] = "$1 = ''"
		}
	}
	for _, c := range []struct{ column, value string }{{"thread_id", sel.ThreadID}, {"graph", sel.Graph}, {"status", string(sel.Status)}} {
		if c.value != "" {
			args = append(args, c.value)
			where = append(where, fmt.Sprintf("%s = $%d", c.column, len(args)))
		}
	}
	if sel.Status != "" && !sel.Status.Ended() { // they are few, and have an index
		where = append(where, "ended_at IS NULL")
	}
	args = append(args, limit)
	return fmt.Sprintf("%s WHERE %s ORDER BY %s LIMIT $%d", q.sql.all, strings.Join(where, " AND "), order, len(args)), args
}

// into makes a function of a batch that reads rows. What a run is made of is looked at later: a
// transaction is not given up for it.
func into(found *[]runRow) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*found = nil // of an earlier try
		for rows.Next() {
			var row runRow
			if err := rows.Scan(row.targets()...); err != nil {
				return err
			}
			*found = append(*found, row)
		}
		return rows.Err()
	}
}

// Cancel implements runs.Queue.
func (q *Queue) Cancel(ctx context.Context, id string, how runs.Strategy) (runs.Run, error) {
	if err := runs.CheckCancel(how); err != nil {
		return runs.Run{}, err
	}
	end, err := q.endOf(runs.Interrupted)
	if err != nil {
		return runs.Run{}, err
	}
	r, _, err := q.change(ctx, id, func(b *pgx.Batch, c call) {
		b.Queue(q.sql.cancel, id, string(how), end.Kind, end.Data, q.clock(), [16]byte(c), q.channel)
	})
	return r, err
}

// Retry implements runs.Queue.
func (q *Queue) Retry(ctx context.Context, id string) (runs.Run, error) {
	r, changed, err := q.change(ctx, id, func(b *pgx.Batch, c call) { b.Queue(q.sql.retry, id, q.clock(), [16]byte(c), q.channel) })
	if err == nil && !changed {
		err = runs.CheckRetry(r)
	}
	return r, err
}

// change sends a statement that changes a run and leaves the name of the call in it, and
// returns the run as it is then, and whether it was changed. With an UnreadableError, too, what is
// known of the run is returned, and it was changed or not.
func (q *Queue) change(ctx context.Context, id string, queue func(b *pgx.Batch, c call)) (r runs.Run, changed bool, err error) {
	if checkText("run", id) != nil {
		return runs.Run{}, false, fmt.Errorf("run %q: %w", id, runs.ErrNotFound)
	}
	var row runRow
	var found bool
	err = q.s.run(ctx, write{
		threadID: runLock(id),
		queue: func(b *pgx.Batch, c call) {
			b.Queue(q.s.sql.voidGuard, [16]byte(c))
			queue(b, c)
			read := reads(&row, &found)
			b.Queue(q.sql.get, id).QueryRow(func(got pgx.Row) error {
				err := read(got)
				changed = orZero(row.changedBy) == c
				return err
			})
		},
		trace: func(b *pgx.Batch, c call, applied *bool) {
			read := reads(&row, &found)
			b.Queue(q.sql.get, id).QueryRow(func(got pgx.Row) error {
				err := read(got)
				changed = orZero(row.changedBy) == c
				*applied = changed
				return err
			})
		},
		refused: func(code, detail string) error { return fmt.Errorf("refused: %s %s", code, detail) },
	})
	if err == nil && !found {
		err = fmt.Errorf("run %q: %w", id, runs.ErrNotFound)
	}
	if err != nil {
		return runs.Run{}, false, err
	}
	q.tell("", id)
	r, err = row.run()
	return r, changed, err
}

// Delete implements runs.Queue.
func (q *Queue) Delete(ctx context.Context, id string) error {
	r, err := q.Get(ctx, id)
	if err != nil && !errors.Is(err, runs.ErrUnreadable) { // its status is known all the same
		return err
	}
	if err := runs.CheckDelete(r); err != nil && runs.CheckStored(r) == nil {
		return err
	}
	n := 0
	err = q.send(ctx, func(b *pgx.Batch) {
		b.Queue(q.sql.remove, id).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	})
	if err != nil || n > 0 {
		return err
	}
	// It was tried again meanwhile, or is gone: by another call, or by this one, whose answer
	// was lost.
	r, err = q.Get(ctx, id)
	if errors.Is(err, runs.ErrNotFound) {
		return nil
	}
	if err == nil || errors.Is(err, runs.ErrUnreadable) {
		err = runs.CheckDelete(r)
	}
	return err
}

// sweepPage is how many runs one transaction of Sweep removes.
const sweepPage = 500

// Sweep implements runs.Queue: some runs at a time, each with its events.
func (q *Queue) Sweep(ctx context.Context, before time.Time) (int, error) {
	total := 0
	for {
		n := 0
		err := q.send(ctx, func(b *pgx.Batch) {
			b.Queue(q.sql.sweep, before, sweepPage).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		})
		total += n
		if err != nil || n < sweepPage {
			return total, err
		}
	}
}

// send performs statements that take no lock and do no harm when they are sent twice, in
// one transaction and one round trip.
func (q *Queue) send(ctx context.Context, queue func(b *pgx.Batch)) error {
	if err := q.s.ready(ctx); err != nil {
		return err
	}
	err := q.s.again(ctx, func() (bool, error) {
		err := q.s.sendBatch(ctx, queue)
		if err == nil {
			return false, nil
		}
		return ctx.Err() == nil && !q.s.closed.Load() && (passing(err) || outcomeOf(err) != rolledBack), q.s.translate(err)
	})
	return q.s.readError(ctx, err)
}
