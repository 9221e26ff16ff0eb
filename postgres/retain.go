package postgres

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// retainPart is how many checkpoints of one thread one transaction of Retain removes, or, if that
// is more, half of what it reads: each reads the thread as it is then.
const retainPart = 500

// Retain implements saver.Saver. Bytes are those of values, metadata and pending writes as they are
// stored, before the server compresses them. A value inside a checkpoint counts for each checkpoint.
func (s *Saver) Retain(ctx context.Context, policy saver.RetentionPolicy, dryRun bool) (saver.RetentionReport, error) {
	if err := policy.Validate(); err != nil {
		return saver.RetentionReport{}, err
	}
	for _, id := range policy.ThreadIDs {
		if err := checkThread(id); err != nil {
			return saver.RetentionReport{}, err
		}
	}
	plans, rep, err := s.planRetain(ctx, policy)
	if err != nil || dryRun {
		return rep, err
	}
	rep = saver.RetentionReport{Left: rep.Left, StoreOver: rep.StoreOver}
	for _, p := range plans {
		again, err := s.retainThread(ctx, p.threadID, policy, p.now, p.plan.Cutoff)
		if err != nil {
			rep.Left = 0
			return rep, err
		}
		rep.Left -= p.plan.Left
		again.AddTo(&rep, p.threadID)
	}
	return rep, nil
}

// plannedRetain is the plan of Retain for a thread, in the state in which it was planned.
type plannedRetain struct {
	threadID string
	plan     *rules.RetainPlan
	now      time.Time
}

// planRetain returns the checkpoints to remove from each thread. Nothing is locked.
func (s *Saver) planRetain(ctx context.Context, policy saver.RetentionPolicy) (plans []plannedRetain, rep saver.RetentionReport, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		plans, rep = nil, saver.RetentionReport{}
		now := s.db.Now()
		ids := slices.Compact(slices.Sorted(slices.Values(policy.ThreadIDs)))
		if policy.ThreadIDs == nil {
			if ids, err = s.allThreads(ctx, tx); err != nil {
				return err
			}
		}
		views := func() iter.Seq2[rules.RetainView, error] { return s.retainViews(ctx, tx, ids) }
		rep, err = rules.PlanRetention(views, policy, now, func(id string, plan *rules.RetainPlan) {
			plans = append(plans, plannedRetain{id, plan, now})
		})
		return err
	})
	return plans, rep, err
}

func (s *Saver) retainViews(ctx context.Context, tx pgx.Tx, ids []string) iter.Seq2[rules.RetainView, error] {
	return func(yield func(rules.RetainView, error) bool) {
		for _, id := range ids {
			v, err := s.viewThread(ctx, tx, id)
			if err == nil && v.empty() {
				continue
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// retainThread removes what the policy does not keep of a thread, as it is now, in
// some transactions.
func (s *Saver) retainThread(ctx context.Context, threadID string, policy saver.RetentionPolicy, now time.Time, cutoff string) (*rules.RetainPlan, error) {
	var first *rules.RetainPlan
	for {
		var plan *rules.RetainPlan
		left := 0
		err := s.db.InTx(ctx, []string{threadID}, func(tx pgx.Tx) error {
			v, err := s.viewThread(ctx, tx, threadID)
			if err != nil {
				return err
			}
			if plan, err = rules.PlanRetain(v, policy, now, cutoff); err != nil {
				return err
			}
			gone := plan.Gone[:min(len(plan.Gone), max(retainPart, v.size()/2))]
			left = len(plan.Gone) - len(gone)
			byNamespace := map[string][]string{}
			for _, c := range gone {
				byNamespace[c.Namespace] = append(byNamespace[c.Namespace], c.ID)
			}
			for ns, ids := range byNamespace {
				if err := s.removeCheckpoints(ctx, tx, v, ns, ids); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = plan
		}
		if left == 0 {
			return first, nil
		}
	}
}

// SetTTL implements saver.Saver.
func (s *Saver) SetTTL(ctx context.Context, threadID string, ttl time.Duration) error {
	if err := saver.ValidateTTL(threadID, ttl); err != nil {
		return err
	}
	if err := checkThread(threadID); err != nil {
		return err
	}
	return s.db.InTx(ctx, []string{threadID}, func(tx pgx.Tx) error {
		t, err := s.threadState(ctx, tx, threadID)
		if err != nil {
			return err
		}
		if t == nil {
			return fmt.Errorf("set the TTL of thread %q: %w", threadID, saver.ErrNotFound)
		}
		_, err = tx.Exec(ctx, s.db.Qualify(`
INSERT INTO @.stele_threads (thread_id, updated_at, ttl) VALUES ($1, $2, $3)
ON CONFLICT (thread_id) DO UPDATE SET ttl = EXCLUDED.ttl`), threadID, t.UpdatedAt, toMicroseconds(ttl))
		return err
	})
}

// TTL returns the TTL that SetTTL has set for a thread; 0 if the thread has the default, or is not
// there.
func (s *Saver) TTL(ctx context.Context, threadID string) (time.Duration, error) {
	if err := checkThread(threadID); err != nil {
		return 0, err
	}
	var stored int64
	err := s.db.Read(ctx, func(b *pgx.Batch) {
		stored = 0
		b.Queue(s.sql.ttl, threadID).QueryRow(pgdb.Row(&stored))
	})
	return fromMicroseconds(stored), err
}

// toMicroseconds is a TTL as it is stored: in microseconds, rounded down; NoTTL is -1.
func toMicroseconds(ttl time.Duration) int64 {
	if ttl < 0 {
		return -1
	}
	return ttl.Microseconds()
}

func fromMicroseconds(n int64) time.Duration {
	if n < 0 {
		return saver.NoTTL
	}
	return time.Duration(n) * time.Microsecond
}

// Sweep implements saver.Saver. A thread of which no time of writing is known does not
// expire. Besides, Sweep removes rows of stele's tables whose threads or checkpoints
// Python has deleted.
func (s *Saver) Sweep(ctx context.Context) (saver.SweepReport, error) {
	rep := saver.SweepReport{}
	var expired []string
	err := s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		expired = nil
		ids, err := s.allThreads(ctx, tx)
		if err != nil {
			return err
		}
		for page := range slices.Chunk(ids, threadsPage) {
			states, err := s.threadStates(ctx, tx, page)
			if err != nil {
				return err
			}
			for _, t := range states {
				if s.expired(&t) {
					expired = append(expired, t.ThreadID)
				}
			}
		}
		return nil
	})
	if err != nil {
		return rep, err
	}
	for _, id := range expired {
		gone := false
		err := s.db.InTx(ctx, []string{id}, func(tx pgx.Tx) error {
			gone = false
			t, err := s.threadState(ctx, tx, id)
			if err != nil || t == nil || !s.expired(t) {
				return err
			}
			b := &pgx.Batch{}
			s.queueDelete(b, id)
			gone = true
			return tx.SendBatch(ctx, b).Close()
		})
		if err != nil {
			return rep, err
		}
		if gone {
			rep.Expired++
		}
	}
	return rep, s.sweepOwn(ctx)
}

func (s *Saver) expired(t *threadState) bool {
	return !t.UpdatedAt.IsZero() && rules.Expired(s.db.Now(), t.UpdatedAt, t.ttl, s.opts.DefaultTTL)
}

// sweepOwn removes rows of stele's tables that nothing needs. It takes some threads in a
// transaction, so that none takes long.
func (s *Saver) sweepOwn(ctx context.Context) error {
	old := func(b *pgx.Batch, _ []string) {
		b.Queue(s.db.Qualify(`DELETE FROM @.stele_voided WHERE at < $1`), s.db.Now().Add(-pgdb.VoidedFor))
		b.Queue(s.db.Qualify(`DELETE FROM @.stele_deleted WHERE at < $1`), s.db.Now().Add(-max(s.opts.DeletedMemory, 0)))
	}
	orphans := func(b *pgx.Batch, ids []string) {
		b.Queue(byIndex)
		for _, sql := range orphanStatements {
			b.Queue(s.db.Qualify(sql), ids)
		}
	}
	send := func(queue func(*pgx.Batch, []string), ids []string) error {
		return s.db.InTx(ctx, nil, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			queue(b, ids)
			return tx.SendBatch(ctx, b).Close()
		})
	}
	if err := send(old, nil); err != nil {
		return err
	}
	for last, full := "", true; full; {
		var ids []string
		err := s.db.Snapshot(ctx, func(tx pgx.Tx) (err error) {
			ids, err = s.collectIDs(ctx, tx, s.sql.ownThreadIDs, last, threadsPage)
			return err
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := send(orphans, ids); err != nil {
			return err
		}
		last, full = ids[len(ids)-1], len(ids) == threadsPage
	}
	return nil
}

// byIndex makes the planner look for each row of some threads by the index of the other table,
// which it might read as a whole.
const byIndex = `SELECT set_config(name, 'off', true) FROM pg_settings WHERE name IN ('enable_hashjoin', 'enable_mergejoin', 'enable_seqscan')`

// orphanStatements delete stele's rows of the threads $1 that belong to rows which Python has deleted.
var orphanStatements = []string{
	`DELETE FROM @.stele_checkpoints s WHERE s.thread_id = ANY($1) AND NOT EXISTS (
	SELECT FROM @.checkpoints c WHERE c.thread_id = s.thread_id AND c.checkpoint_ns = s.checkpoint_ns AND c.checkpoint_id = s.checkpoint_id)`,
	`DELETE FROM @.stele_calls s WHERE s.thread_id = ANY($1) AND NOT EXISTS (
	SELECT FROM @.checkpoint_writes w WHERE w.thread_id = s.thread_id AND w.checkpoint_ns = s.checkpoint_ns AND w.checkpoint_id = s.checkpoint_id)`,
	`DELETE FROM @.stele_threads t WHERE t.thread_id = ANY($1) AND NOT EXISTS (SELECT FROM @.checkpoints c WHERE c.thread_id = t.thread_id)
AND NOT EXISTS (SELECT FROM @.checkpoint_writes w WHERE w.thread_id = t.thread_id)`,
}
