package pgqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/stele-go/stele/runs"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// claimGrace is how much longer a claim under way may take when its context has ended.
const claimGrace = time.Second

// Claim implements runs.Queue: one statement.
func (q *Queue) Claim(ctx context.Context, worker string, graphs []string) (*runs.Claim, time.Time, error) {
	if err := runs.CheckText("worker", worker); err != nil {
		return nil, time.Time{}, err
	}
	if err := q.db.Ready(ctx); err != nil {
		return nil, time.Time{}, err
	}
	known := slices.DeleteFunc(slices.Clone(graphs), func(g string) bool { return pgdb.CheckText("graph", g) != nil })
	if len(known) == 0 {
		return nil, time.Time{}, nil
	}
	// A claim whose answer does not arrive holds its run for LeaseTime.
	graced, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(claimGrace, cancel) })()
	for {
		got, err := q.claim(ctx, graced, worker, known)
		switch {
		case errors.Is(err, runs.ErrUnreadable): // it is held, and given up after some attempts: another worker may know it
			if err := ctx.Err(); err != nil {
				return nil, time.Time{}, err
			}
			continue
		case err != nil:
			return nil, time.Time{}, err
		case !got.gone:
			return got.claim, got.next, nil
		}
		if err := q.giveUp(ctx, got.id); err != nil {
			return nil, time.Time{}, err
		}
	}
}

// inOrder makes the planner walk the index of the runs that wait: with the statistics of a
// table that was small a moment ago it would look at all of them, and sort. No plan of a claim is worth
// compiling, which takes a second.
const inOrder = `SELECT set_config('enable_sort', 'off', true), set_config('jit', 'off', true)`

// claimAnswer is the result of a claim statement.
type claimAnswer struct {
	id    string // "" if there is no run to claim
	gone  bool   // it was claimed as often as it may be
	row   runRow
	claim *runs.Claim // without its Run until the row is decoded, which is no part of the transaction
	next  time.Time
}

// claim claims a run, and tries again. ctx ends the tries, graced the statement.
func (q *Queue) claim(ctx, graced context.Context, worker string, graphs []string) (got claimAnswer, err error) {
	c := pgdb.NewCall()
	lost := false
	err = q.db.Again(ctx, func() (bool, error) {
		err := q.db.SendBatch(graced, func(b *pgx.Batch) {
			got = claimAnswer{}
			if lost { // an earlier try may have claimed a run
				b.Queue(q.sql.claimedBy, [16]byte(c)).QueryRow(got.scan)
				return
			}
			b.Queue(inOrder)
			b.Queue(q.sql.claim, worker, graphs, q.opts.LeaseTime.Microseconds(), q.clock(), [16]byte(c), q.channel).QueryRow(got.scan)
		})
		if err == nil && lost && got.id == "" {
			lost = false
			return true, errors.New("the answer to a claim was lost")
		}
		if err == nil || pgdb.HasCode(err, pgdb.CodeUnique) { // another run of the thread was begun meanwhile
			return true, err
		}
		outcome := pgdb.OutcomeOf(err)
		lost = lost || outcome == pgdb.Unknown
		return outcome != pgdb.RolledBack || pgdb.Passing(err), q.db.Translate(err)
	})
	if err == nil && got.claim != nil {
		q.tell(got.id)
		got.claim.Run, err = got.row.run()
	}
	return got, err
}

// scan reads the row of the statements claim and claimedBy.
func (c *claimAnswer) scan(row pgx.Row) error {
	var found, discard bool
	var before zeronull.Text
	var notified any
	err := pgdb.MaybeRow(&found, append([]any{(*zeronull.Text)(&c.id), &c.gone, (*zeronull.Timestamptz)(&c.next), &discard, &before, &notified},
		c.row.targets()...)...)(row)
	if c.next = c.next.UTC(); !found || c.id == "" || c.gone {
		return err
	}
	c.claim = &runs.Claim{Discard: discard, Before: string(before)}
	return nil
}

// giveUp ends a run that was claimed as often as it may be, if it still is as it was found.
func (q *Queue) giveUp(ctx context.Context, id string) error {
	r, err := q.Get(ctx, id)
	if errors.Is(err, runs.ErrNotFound) {
		return nil
	}
	if err != nil && !errors.Is(err, runs.ErrUnreadable) { // the fields needed here are set even then
		return err
	}
	end, err := q.endOf(runs.Error)
	if err != nil {
		return err
	}
	_, _, err = q.change(ctx, id, func(b *pgx.Batch, c pgdb.Call) {
		b.Queue(q.sql.giveUp, id, r.Epoch, runs.GivenUp(r), end.Kind, end.Data, q.clock(), [16]byte(c), q.channel)
	})
	if errors.Is(err, runs.ErrNotFound) || errors.Is(err, runs.ErrUnreadable) {
		return nil
	}
	return err
}

// Wake implements runs.Queue: one statement.
func (q *Queue) Wake(ctx context.Context, threadID string) error {
	if err := runs.CheckText("thread", threadID); err != nil {
		return err
	}
	if pgdb.CheckText("thread", threadID) != nil {
		return nil // there is none of that name
	}
	err := q.db.Repeat(ctx, "", func(b *pgx.Batch) { b.Queue(q.sql.wake, threadID, q.clock(), q.channel) })
	if err == nil {
		q.tell("")
	}
	return err
}

// Renew implements runs.Queue: all in one statement.
func (q *Queue) Renew(ctx context.Context, claims []runs.Claim) (renewed []runs.Run, err error) {
	var ids []string
	var epochs []int64
	for _, c := range claims {
		if pgdb.CheckText("run", c.ID) == nil {
			ids, epochs = append(ids, c.ID), append(epochs, c.Epoch)
		}
	}
	if len(ids) == 0 {
		return nil, q.db.Ready(ctx)
	}
	var rows []runRow
	err = q.db.Repeat(ctx, "", func(b *pgx.Batch) {
		b.Queue(q.sql.renew, ids, epochs, q.opts.LeaseTime.Microseconds(), q.clock()).Query(scanRuns(&rows))
	})
	for _, row := range rows {
		r, unread := row.run()
		if err = cmp.Or(err, unread); err != nil {
			return nil, err
		}
		renewed = append(renewed, r)
	}
	return renewed, err
}

// withClaim performs a write that a claim allows. A statement of it refuses one that is void.
func (q *Queue) withClaim(ctx context.Context, c runs.Claim, queue func(b *pgx.Batch, c pgdb.Call), trace func(b *pgx.Batch, c pgdb.Call, applied *bool)) error {
	fenced := fencedClaim(c)
	if pgdb.CheckText("run", c.ID) != nil {
		return fenced
	}
	return q.db.Write(ctx, pgdb.Write{
		Thread: runLock(c.ID),
		Queue:  queue,
		Trace:  trace,
		Refused: func(code, detail string) error {
			if code != pgdb.RefusedFenced {
				return nil
			}
			return fenced
		},
	})
}

// Mark implements runs.Queue.
func (q *Queue) Mark(ctx context.Context, c runs.Claim, mark string) error {
	if err := runs.CheckText("mark", mark); err != nil {
		return err
	}
	err := q.withClaim(ctx, c, func(b *pgx.Batch, _ pgdb.Call) { b.Queue(q.sql.mark, c.ID, c.Epoch, mark, q.channel, c.Version) }, nil)
	if err == nil {
		q.tell(c.ID)
	}
	return err
}

// Finish implements runs.Queue: one round trip.
func (q *Queue) Finish(ctx context.Context, c runs.Claim, o runs.Outcome) error {
	if err := runs.CheckOutcome(o); err != nil {
		return err
	}
	interrupted, err := q.endOf(runs.Interrupted)
	if err != nil {
		return err
	}
	end, err := q.endOf(o.Status)
	if err != nil {
		return err
	}
	add, err := q.adding(c, o.Events)
	if err != nil {
		return err
	}
	err = q.withClaim(ctx, c, func(b *pgx.Batch, name pgdb.Call) {
		if len(o.Events) > 0 {
			add(b, name)
		}
		b.Queue(q.sql.finish, c.ID, c.Epoch, string(o.Status), o.Waiting, runs.Text(o.Error), zeronull.Timestamptz(o.After), o.Uncounted,
			end.Kind, end.Data, interrupted.Kind, interrupted.Data, q.clock(), [16]byte(name), q.channel, o.Yields, o.Version, o.Delay.Microseconds())
	}, func(b *pgx.Batch, name pgdb.Call, applied *bool) {
		b.Queue(q.sql.changedBy, c.ID, [16]byte(name)).QueryRow(pgdb.Row(applied))
	})
	if err == nil {
		q.tell("", c.ID)
	}
	return err
}

func fencedClaim(c runs.Claim) error {
	return fmt.Errorf("run %q, epoch %d: %w", c.ID, c.Epoch, runs.ErrFenced)
}

// Append implements runs.Queue: one round trip. No events are a question, whether the claim holds,
// which writes nothing: no disk is waited for. The row of the run counts its events, and is
// locked by each transaction that stores some, so that their order is that of the commits.
func (q *Queue) Append(ctx context.Context, c runs.Claim, events []runs.Event) (last int64, err error) {
	if err := runs.CheckEvents(events); err != nil {
		return 0, err
	}
	if len(events) == 0 {
		return q.lastOf(ctx, c)
	}
	add, err := q.adding(c, events)
	if err != nil {
		return 0, err
	}
	err = q.withClaim(ctx, c, func(b *pgx.Batch, name pgdb.Call) {
		add(b, name).QueryRow(pgdb.Row(new(any), &last))
	}, func(b *pgx.Batch, name pgdb.Call, applied *bool) {
		b.Queue(q.sql.appendedBy, c.ID, [16]byte(name)).QueryRow(pgdb.MaybeRow(applied, &last))
	})
	if err != nil {
		return 0, err
	}
	q.tell(c.ID)
	return last, nil
}

// lastOf is the number of a run's last event, if the claim holds.
func (q *Queue) lastOf(ctx context.Context, c runs.Claim) (last int64, err error) {
	holds := false
	if pgdb.CheckText("run", c.ID) == nil {
		err = q.db.Read(ctx, func(b *pgx.Batch) { b.Queue(q.sql.holds, c.ID, c.Epoch).QueryRow(pgdb.MaybeRow(&holds, &last)) })
	}
	if err == nil && !holds {
		err = fencedClaim(c)
	}
	return last, err
}

// adding makes the statement that stores events of a run.
func (q *Queue) adding(c runs.Claim, events []runs.Event) (func(b *pgx.Batch, name pgdb.Call) *pgx.QueuedQuery, error) {
	kinds, dataKinds := make([]string, len(events)), make([]string, len(events))
	spaces, data := make([]*string, len(events)), make([][]byte, len(events))
	for i, ev := range events {
		kinds[i], dataKinds[i], data[i] = string(ev.Kind), ev.Data.Kind, pgdb.NotNull(ev.Data.Data)
		if len(ev.Namespace) > 0 {
			text, err := json.Marshal(ev.Namespace)
			if err != nil {
				return nil, err
			}
			space := string(text)
			spaces[i] = &space
		}
	}
	return func(b *pgx.Batch, name pgdb.Call) *pgx.QueuedQuery {
		return b.Queue(q.sql.append, c.ID, c.Epoch, kinds, spaces, dataKinds, data, q.clock(), [16]byte(name), q.channel)
	}, nil
}

// Events implements runs.Queue.
func (q *Queue) Events(ctx context.Context, id string, after int64, limit int) (found []runs.Event, err error) {
	if pgdb.CheckText("run", id) != nil {
		return nil, nil
	}
	var most *int
	if limit > 0 {
		most = &limit
	}
	err = q.db.Read(ctx, func(b *pgx.Batch) {
		found = nil
		var ev runs.Event
		var space []byte
		b.Queue(q.sql.events, id, after, most).Query(pgdb.Each(func() error {
			ev.Namespace, ev.Time = nil, ev.Time.UTC()
			if space != nil {
				if err := json.Unmarshal(space, &ev.Namespace); err != nil {
					return fmt.Errorf("run %s: event %d: %w", id, ev.Seq, err)
				}
			}
			found = append(found, ev)
			return nil
		}, &ev.Seq, &ev.Attempt, &ev.Kind, &space, &ev.Data.Kind, &ev.Data.Data, &ev.Time))
	})
	return found, err
}
