package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// DeleteThread implements saver.Saver.
func (s *Saver) DeleteThread(ctx context.Context, threadID string) error {
	if err := checkThread(threadID); err != nil {
		return err
	}
	return s.db.Write(ctx, pgdb.Write{Thread: threadID, Queue: func(b *pgx.Batch, _ pgdb.Call) { s.queueDelete(b, threadID) }})
}

// queueDelete adds the statements that delete a thread and remember it.
func (s *Saver) queueDelete(b *pgx.Batch, threadID string) {
	b.Queue(s.sql.deleteRemember, threadID, s.db.Now(), s.rememberedSince())
	for _, sql := range s.sql.deleteTables {
		b.Queue(sql, threadID)
	}
}

// Prune implements saver.Saver: all threads in one transaction. A checkpoint that
// is kept keeps its parent's id, although the parent may be gone.
//
// Runs of Python may go on meanwhile where they append to the newest checkpoint; a fork of
// one that is being removed may lose values.
func (s *Saver) Prune(ctx context.Context, threadIDs []string, strategy saver.PruneStrategy) (saver.Removal, error) {
	if err := strategy.Validate(); err != nil {
		return saver.Removal{}, err
	}
	if err := saver.ValidateThreadID(threadIDs...); err != nil {
		return saver.Removal{}, err
	}
	for _, id := range threadIDs {
		if err := checkThread(id); err != nil {
			return saver.Removal{}, err
		}
	}
	threads := slices.Compact(slices.Sorted(slices.Values(threadIDs)))
	var done saver.Removal
	err := s.db.InTx(ctx, threads, func(tx pgx.Tx) error {
		done = saver.Removal{}
		for _, id := range threads {
			v, err := s.viewThread(ctx, tx, id)
			if err != nil {
				return err
			}
			if strategy == saver.PruneAll {
				for _, n := range v.spaces {
					n.count(n.all(), &done)
				}
				b := &pgx.Batch{}
				s.queueDelete(b, id)
				err = tx.SendBatch(ctx, b).Close()
			} else {
				err = s.keepLatest(ctx, tx, v, &done)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return saver.Removal{}, err
	}
	return done, nil
}

// keepLatest removes all checkpoints except the newest one of each namespace and those needed to read
// it.
func (s *Saver) keepLatest(ctx context.Context, tx pgx.Tx, v *threadView, done *saver.Removal) error {
	for ns, n := range v.spaces {
		head := n.head()
		if head == "" {
			continue
		}
		gone := n.unneeded(v.id, ns, slices.DeleteFunc(slices.Collect(maps.Keys(n.checkpoints)), func(id string) bool { return id == head }), done)
		for id := range n.writes {
			if id < head && n.checkpoints[id] == nil {
				gone = append(gone, id)
			}
		}
		n.count(gone, done)
		if err := s.removeCheckpoints(ctx, tx, v, ns, gone); err != nil {
			return err
		}
	}
	return nil
}

// all are the ids that the namespace has checkpoints or writes of.
func (n *spaceView) all() []string {
	ids := slices.AppendSeq(slices.Collect(maps.Keys(n.checkpoints)), maps.Keys(n.writes))
	slices.Sort(ids)
	return slices.Compact(ids)
}

// count adds to done the checkpoints and writes that removing ids removes.
func (n *spaceView) count(ids []string, done *saver.Removal) {
	for _, id := range ids {
		if n.checkpoints[id] != nil {
			done.Checkpoints++
		}
		done.Writes += len(n.writes[id])
	}
}

// unneeded returns those of ids that no other checkpoint needs. It adds the others to done.
func (n *spaceView) unneeded(threadID, ns string, ids []string, done *saver.Removal) []string {
	kept := maps.Clone(n.checkpoints)
	for _, id := range ids {
		delete(kept, id)
	}
	support := rules.PruneMark(n, slices.Collect(maps.Keys(kept)))
	var gone []string
	for _, id := range ids {
		if why, needed := support[id]; needed {
			why.ThreadID, why.Namespace = threadID, ns
			done.Keep(why)
		} else {
			gone = append(gone, id)
		}
	}
	return gone
}

// DeleteForRuns implements saver.Saver: all threads in one transaction. Without a
// lease it looks at every checkpoint of the database, as LangGraph's tables have no index by
// run, page after page, so that no statement takes long.
func (s *Saver) DeleteForRuns(ctx context.Context, runIDs []string, owned *saver.Lease) (saver.Removal, error) {
	runs := slices.DeleteFunc(slices.Clone(runIDs), func(id string) bool { return id == "" || pgdb.CheckText("run_id", id) != nil })
	if err := s.db.Ready(ctx); err != nil || len(runs) == 0 {
		return saver.Removal{}, err
	}
	// Which threads to lock is found first, what to remove under the locks.
	threads := []string{}
	if owned != nil {
		threads = append(threads, owned.ThreadID())
	} else {
		var err error
		if threads, err = s.threadsOfRuns(ctx, runs); err != nil {
			return saver.Removal{}, err
		}
	}
	var done saver.Removal
	err := s.db.InTx(ctx, threads, func(tx pgx.Tx) error {
		done = saver.Removal{}
		if owned != nil {
			if err := s.fenced(ctx, tx, saver.Config{ThreadID: owned.ThreadID(), Epoch: owned.Epoch()}); err != nil {
				return err
			}
		}
		for _, id := range threads {
			if err := s.deleteRuns(ctx, tx, id, runs, &done); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return saver.Removal{}, err
	}
	return done, nil
}

// ofRuns is true of the checkpoints of the runs $1.
const ofRuns = `metadata ->> 'run_id' = ANY($1) AND jsonb_typeof(metadata -> 'run_id') = 'string'`

// pageByKey makes the planner walk the primary key from where a page begins: with the index of
// threads, and a sort, each page would read a long thread again.
const pageByKey = `SELECT set_config(name, 'off', true) FROM pg_settings WHERE name IN ('enable_sort', 'enable_incremental_sort')`

// runsPage is how many checkpoints one statement reads.
const runsPage = 2000

// threadsOfRuns are the threads that have checkpoints of runs.
func (s *Saver) threadsOfRuns(ctx context.Context, runs []string) ([]string, error) {
	// $2, $3, $4 the last checkpoint of the page before, $5 how many. The last of a full page is
	// always told.
	page := s.db.Qualify(`
SELECT thread_id, checkpoint_ns, checkpoint_id, n = $5, coalesce(found, false) FROM (
	SELECT thread_id, checkpoint_ns, checkpoint_id, ` + ofRuns + ` AS found,
		row_number() OVER (ORDER BY thread_id, checkpoint_ns, checkpoint_id) AS n
	FROM (SELECT thread_id, checkpoint_ns, checkpoint_id, metadata FROM @.checkpoints
		WHERE (thread_id, checkpoint_ns, checkpoint_id) > ($2, $3, $4)
		ORDER BY thread_id, checkpoint_ns, checkpoint_id LIMIT $5) page) numbered
WHERE found OR n = $5 ORDER BY n`)
	threads := []string{}
	var last checkpointKey
	for full := true; full; {
		var next checkpointKey
		var found []string
		err := s.db.Read(ctx, func(b *pgx.Batch) {
			full, found = false, nil
			b.Queue(pageByKey)
			var hit bool
			b.Queue(page, runs, last.thread, last.ns, last.id, runsPage).Query(pgdb.Each(func() error {
				if hit {
					found = append(found, next.thread)
				}
				return nil
			}, &next.thread, &next.ns, &next.id, &full, &hit))
		})
		if err != nil {
			return nil, err
		}
		threads, last = slices.Compact(append(threads, found...)), next
	}
	return threads, nil
}

// deleteRuns removes the checkpoints of runs from one thread, except those that the remaining
// ones need.
func (s *Saver) deleteRuns(ctx context.Context, tx pgx.Tx, threadID string, runs []string, done *saver.Removal) error {
	rows, err := tx.Query(ctx, s.db.Qualify(`SELECT checkpoint_ns, checkpoint_id FROM @.checkpoints WHERE thread_id = $2 AND `+ofRuns), runs, threadID)
	if err != nil {
		return err
	}
	doomed := map[string][]string{} // by namespace
	var ns, id string
	if _, err := pgx.ForEachRow(rows, []any{&ns, &id}, func() error {
		doomed[ns] = append(doomed[ns], id)
		return nil
	}); err != nil || len(doomed) == 0 {
		return err
	}
	v, err := s.viewThread(ctx, tx, threadID)
	if err != nil {
		return err
	}
	for ns, ids := range doomed {
		n := v.spaces[ns]
		gone := n.unneeded(threadID, ns, ids, done)
		n.count(gone, done)
		if err := s.removeCheckpoints(ctx, tx, v, ns, gone); err != nil {
			return err
		}
	}
	return nil
}

// copyStatements copy a thread, $1, to another, $2. Rows of stele that are left of an
// earlier thread of that name are gone by then.
var copyStatements = []string{
	`INSERT INTO @.checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
SELECT $2, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM @.checkpoints WHERE thread_id = $1`,
	`INSERT INTO @.checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
SELECT $2, checkpoint_ns, channel, version, type, blob FROM @.checkpoint_blobs WHERE thread_id = $1`,
	`INSERT INTO @.checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob, task_path)
SELECT $2, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob, task_path FROM @.checkpoint_writes WHERE thread_id = $1`,
	`INSERT INTO @.stele_checkpoints (thread_id, checkpoint_ns, checkpoint_id, attempts, note)
SELECT $2, checkpoint_ns, checkpoint_id, attempts, note FROM @.stele_checkpoints WHERE thread_id = $1 ORDER BY seq`,
	`INSERT INTO @.stele_calls (thread_id, checkpoint_ns, checkpoint_id, task_id, channels)
SELECT $2, checkpoint_ns, checkpoint_id, task_id, channels FROM @.stele_calls WHERE thread_id = $1 ORDER BY seq`,
}

// CopyThread implements saver.Saver. The copies share no bytes, as the schema has
// values by thread.
func (s *Saver) CopyThread(ctx context.Context, src, dst string) error {
	for _, id := range []string{src, dst} {
		if err := checkThread(id); err != nil {
			return err
		}
	}
	return s.db.InTx(ctx, []string{src, dst}, func(tx pgx.Tx) error {
		there := func(n string) string {
			return `(EXISTS (SELECT FROM @.checkpoints WHERE thread_id = ` + n + `) OR EXISTS (SELECT FROM @.checkpoint_writes WHERE thread_id = ` + n + `))`
		}
		var found, taken bool
		if err := tx.QueryRow(ctx, s.db.Qualify("SELECT "+there("$1")+", "+there("$2")), src, dst).Scan(&found, &taken); err != nil {
			return err
		}
		if taken {
			return fmt.Errorf("copy thread %q to %q: %w", src, dst, saver.ErrThreadExists)
		}
		if !found {
			return nil
		}
		b := &pgx.Batch{}
		for _, sql := range s.sql.deleteTables {
			b.Queue(sql, dst)
		}
		for _, sql := range copyStatements {
			b.Queue(s.db.Qualify(sql), src, dst)
		}
		b.Queue(s.sql.touch, dst, s.db.Now())
		b.Queue(s.db.Qualify(`DELETE FROM @.stele_deleted WHERE thread_id = $1`), dst)
		return tx.SendBatch(ctx, b).Close()
	})
}
