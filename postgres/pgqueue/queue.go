package pgqueue

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
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/serde"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// Options configure a Queue. The zero value is ready for use.
type Options struct {
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
type Queue struct {
	db      *pgdb.DB
	opts    Options
	sql     *statements
	channel string

	topics    runs.Topics
	listening atomic.Bool
	watched   sync.Once
	stop      context.CancelFunc
	stopping  context.Context
	stopped   sync.WaitGroup
}

var _ runs.Queue = (*Queue)(nil)

// Open opens the queue in the schema of a Saver, whose pool and options of time it uses:
// StatementTimeout, RetryTime. Close it before the Saver.
func Open(s *postgres.Saver, opts Options) *Queue {
	if opts.Serializer == nil {
		opts.Serializer = s.Serializer()
	}
	if opts.LeaseTime == 0 {
		opts.LeaseTime = 15 * time.Second
	}
	if opts.PollEvery == 0 {
		opts.PollEvery = 500 * time.Millisecond
	}
	db := postgres.Inside(s)
	q := &Queue{db: db, opts: opts, sql: newStatements(db.Schema), channel: fmt.Sprintf("stele_runs_%016x", uint64(pgdb.LockKey(db.Schema, "\x00runs")))}
	q.stopping, q.stop = context.WithCancel(context.Background())
	return q
}

// Close closes the connection on which the queue listens for changes, and waits until it is closed.
// Watchers get no more notifications. Claims stay as they are.
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
func (q *Queue) clock() (now zeronull.Timestamptz) {
	if q.opts.Clock != nil {
		now = zeronull.Timestamptz(q.now())
	}
	return now
}

// now returns the time for new ids, which grow with it. It need not be exact.
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

// runRow is a row of stele_runs as runColumns selects it. All is zero where a join found none.
type runRow struct {
	runs.Run  // without its Spec
	spec      []byte
	changedBy zeronull.UUID
}

// targets returns the destinations for scanning runColumns.
func (r *runRow) targets() []any {
	text, at := func(s *string) any { return (*zeronull.Text)(s) }, func(t *time.Time) any { return (*zeronull.Timestamptz)(t) }
	return []any{text(&r.ID), text(&r.Key), (*zeronull.Text)(&r.Status), &r.Attempt, &r.Waiting, text(&r.Error), (*zeronull.Text)(&r.Cancel),
		text(&r.Worker), &r.Epoch, text(&r.Mark), &r.spec, at(&r.After), at(&r.Created), at(&r.Started), at(&r.Ended), &r.changedBy,
		text(&r.Version), &r.Pinned, text(&r.Parent), &r.Detached}
}

// run is the run of a row that was scanned.
func (r *runRow) run() (runs.Run, error) {
	run := r.Run
	for _, at := range []*time.Time{&run.After, &run.Created, &run.Started, &run.Ended} {
		*at = at.UTC()
	}
	if err := runs.UnmarshalSpec(r.spec, &run.Spec); err != nil {
		return run, &runs.UnreadableError{RunID: run.ID, Err: fmt.Errorf("spec: %w", err)}
	}
	return run, runs.CheckStored(run)
}

// scanRun makes a function of a batch that reads one row, if there is one. It is decoded later, as those of scanRuns.
func scanRun(r *runRow, found *bool) func(pgx.Row) error {
	*r = runRow{} // of an earlier try
	return pgdb.MaybeRow(found, r.targets()...)
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
	key := zeronull.Text(r.Key)
	var row runRow
	var found bool
	err = q.db.Write(ctx, pgdb.Write{
		Thread: r.ThreadID,
		Queue: func(b *pgx.Batch, c pgdb.Call) {
			if r.Multitask == runs.Reject {
				b.Queue(q.sql.busy, r.ThreadID, r.ID, key)
			}
			if p := req.Parent; p != nil {
				b.Queue(q.sql.startedBy, r.ID, key, p.ID, p.Epoch)
			}
			b.Queue(q.sql.submit, r.ID, r.ThreadID, r.Graph, key, int64(r.Priority), int64(r.Attempts), spec, zeronull.Timestamptz(req.After), q.clock(), [16]byte(c),
				zeronull.Text(r.Parent), r.Detached)
			if r.Multitask == runs.Interrupt || r.Multitask == runs.Rollback {
				b.Queue(q.sql.cancelOthers, r.ThreadID, string(r.Multitask), end.Kind, end.Data, q.clock(), [16]byte(c), q.channel, r.ID)
			}
			b.Queue(q.sql.notify, q.channel, "")
			b.Queue(q.sql.submitted, r.ID, key).QueryRow(scanRun(&row, &found))
		},
		Trace: func(b *pgx.Batch, _ pgdb.Call, applied *bool) {
			b.Queue(q.sql.get, r.ID).QueryRow(scanRun(&row, applied))
		},
		Refused: func(code, detail string) error {
			switch code {
			case refusedBusy:
				return &runs.BusyError{ThreadID: r.ThreadID, RunID: detail}
			case pgdb.RefusedFenced:
				return fencedClaim(*req.Parent)
			}
			return nil
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
	typed.Data = pgdb.NotNull(typed.Data)
	return typed, err
}

// Get implements runs.Queue.
func (q *Queue) Get(ctx context.Context, id string) (runs.Run, error) {
	if pgdb.CheckText("run", id) != nil {
		return runs.Run{}, fmt.Errorf("run %q: %w", id, runs.ErrNotFound)
	}
	var found []runRow
	err := q.db.Read(ctx, func(b *pgx.Batch) { b.Queue(q.sql.get, id).Query(scanRuns(&found)) })
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("run %q: %w", id, runs.ErrNotFound)
	}
	if err != nil {
		return runs.Run{}, err
	}
	return found[0].run()
}

// ChildEnd implements runs.Queue: one round trip, and one more for the output.
func (q *Queue) ChildEnd(ctx context.Context, threadID string) (end runs.ChildEnd, ok bool, err error) {
	if pgdb.CheckText("thread", threadID) != nil {
		return end, true, nil // there is none of that name
	}
	var found []runRow
	err = q.db.Repeat(ctx, "", func(b *pgx.Batch) { b.Queue(q.sql.childRuns, threadID).Query(scanRuns(&found)) })
	if err != nil {
		return end, false, err
	}
	var all []runs.Run
	for _, row := range found {
		r, err := row.run()
		if err != nil {
			return end, false, err
		}
		all = append(all, r)
	}
	if end.Run, ok = runs.EndOf(all); !ok || end.Run.Status != runs.Success {
		return end, ok, nil
	}
	err = q.db.Read(ctx, func(b *pgx.Batch) {
		end.Output = serde.Typed{}
		found := false
		b.Queue(q.sql.output, end.Run.ID).QueryRow(pgdb.MaybeRow(&found, &end.Output.Kind, &end.Output.Data))
	})
	return end, err == nil, err
}

// listPage is how many runs a listing reads at a time.
const listPage = 500

// List implements runs.Queue. It reads page after page: runs that are submitted meanwhile
// may be among them, and each is as it was when its page was read.
func (q *Queue) List(ctx context.Context, sel runs.Query) iter.Seq2[runs.Run, error] {
	return func(yield func(runs.Run, error) bool) {
		for _, s := range []string{sel.ThreadID, sel.Graph, string(sel.Status), sel.After} {
			if pgdb.CheckText("query", s) != nil {
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
	err = q.db.Read(ctx, func(b *pgx.Batch) { b.Queue(sql, args...).Query(scanRuns(&found)) })
	return found, err
}

// Count implements runs.Queue. The database counts.
func (q *Queue) Count(ctx context.Context, sel runs.Query) (n int, err error) {
	if pgdb.CheckText("query", sel.ThreadID, "query", sel.Graph, "query", string(sel.Status)) != nil {
		return 0, nil
	}
	sel.After, sel.Newest = "", false
	where, args, _ := conditions(sel)
	sql := q.db.Qualify("SELECT count(*) FROM @.stele_runs WHERE " + where)
	err = q.db.Read(ctx, func(b *pgx.Batch) { b.Queue(sql, args...).QueryRow(pgdb.Row(&n)) })
	return n, err
}

// listing is the statement of page.
func (q *Queue) listing(sel runs.Query, limit int) (sql string, args []any) {
	where, args, order := conditions(sel)
	args = append(args, limit)
	return fmt.Sprintf("%s WHERE %s ORDER BY %s LIMIT $%d", q.sql.all, where, order, len(args)), args
}

// conditions select the runs of a query, and order is theirs.
func conditions(sel runs.Query) (sql string, args []any, order string) {
	id := "id"
	if sel.ThreadID != "" {
		// The collation gives the same order, and only the index of threads has it. Without it the
		// planner would walk all runs, as if those of the thread were evenly spread.
		id = `id COLLATE "POSIX"`
	}
	where := []string{id + " > $1"}
	order = id
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
	return strings.Join(where, " AND "), args, order
}

// scanRuns returns a function for a batch that reads rows. The runs are decoded later, so that an
// undecodable one does not end the transaction.
func scanRuns(found *[]runRow) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*found = nil // of an earlier try
		var row runRow
		return pgdb.Each(func() error {
			*found = append(*found, row)
			return nil
		}, row.targets()...)(rows)
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
	r, _, err := q.change(ctx, id, func(b *pgx.Batch, c pgdb.Call) {
		b.Queue(q.sql.cancel, id, string(how), end.Kind, end.Data, q.clock(), [16]byte(c), q.channel)
	})
	return r, err
}

// Retry implements runs.Queue.
func (q *Queue) Retry(ctx context.Context, id string) (runs.Run, error) {
	r, changed, err := q.change(ctx, id, func(b *pgx.Batch, c pgdb.Call) { b.Queue(q.sql.retry, id, q.clock(), [16]byte(c), q.channel) })
	if err == nil && !changed {
		err = runs.CheckRetry(r)
	}
	return r, err
}

// change sends a statement that changes a run and stores the name of the call in it. It returns the run
// as it is then, and whether it was changed. With an UnreadableError it returns the known fields of the
// run; changed is valid then, too.
func (q *Queue) change(ctx context.Context, id string, queue func(b *pgx.Batch, c pgdb.Call)) (r runs.Run, changed bool, err error) {
	if pgdb.CheckText("run", id) != nil {
		return runs.Run{}, false, fmt.Errorf("run %q: %w", id, runs.ErrNotFound)
	}
	var row runRow
	var found bool
	read := func(b *pgx.Batch, c pgdb.Call, applied *bool) {
		scan := scanRun(&row, &found)
		b.Queue(q.sql.get, id).QueryRow(func(got pgx.Row) error {
			err := scan(got)
			changed = row.changedBy == zeronull.UUID(c)
			*applied = changed
			return err
		})
	}
	err = q.db.Write(ctx, pgdb.Write{
		Thread: runLock(id),
		Queue: func(b *pgx.Batch, c pgdb.Call) {
			queue(b, c)
			read(b, c, &changed)
		},
		Trace: read,
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
	err = q.db.Repeat(ctx, "", func(b *pgx.Batch) {
		b.Queue(q.sql.remove, id).QueryRow(pgdb.Row(&n))
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
		err := q.db.Repeat(ctx, "", func(b *pgx.Batch) {
			b.Queue(q.sql.sweep, before, sweepPage).QueryRow(pgdb.Row(&n))
		})
		total += n
		if err != nil || n < sweepPage {
			return total, err
		}
	}
}
