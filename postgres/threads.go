package postgres

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

func (st *statements) threadStatements(q func(string) string) {
	// $1 the last id before, $2 how many. Each step finds the next id by index, and LIMIT ends the
	// steps.
	walk := func(tables ...string) string {
		next := func(after string) string {
			least := make([]string, len(tables))
			for i, table := range tables {
				least[i] = `(SELECT min(thread_id) FROM @.` + table + ` WHERE thread_id > ` + after + `)`
			}
			return `least(` + strings.Join(least, ", ") + `)`
		}
		return q(`
WITH RECURSIVE ids AS (
	SELECT ` + next("$1") + ` AS id
UNION ALL
	SELECT ` + next("ids.id") + ` FROM ids WHERE ids.id IS NOT NULL
)
SELECT id FROM ids WHERE id IS NOT NULL LIMIT $2`)
	}
	// A thread is what has checkpoints or writes.
	st.threadIDs = walk("checkpoints", "checkpoint_writes")
	st.ownThreadIDs = walk("stele_threads", "stele_checkpoints", "stele_calls")
	st.threadID = q(`
SELECT $1::text WHERE EXISTS (SELECT FROM @.checkpoints WHERE thread_id = $1) OR EXISTS (SELECT FROM @.checkpoint_writes WHERE thread_id = $1)`)

	// $1 threads. The newest time of a checkpoint is read only where the head is not
	// stele's.
	st.threadHeads = q(`
SELECT i.id, coalesce(h.checkpoint_id, ''), s.note, t.updated_at, coalesce(t.ttl, 0),
	CASE WHEN t.updated_at IS NULL OR h.checkpoint_id IS NOT NULL AND s.seq IS NULL THEN
		(SELECT max(checkpoint ->> 'ts') FROM @.checkpoints WHERE thread_id = i.id) END
FROM unnest($1::text[]) i(id)
LEFT JOIN LATERAL (
	SELECT checkpoint_id FROM @.checkpoints WHERE thread_id = i.id AND checkpoint_ns = ''
	ORDER BY checkpoint_id DESC LIMIT 1) h ON true
LEFT JOIN @.stele_checkpoints s ON s.thread_id = i.id AND s.checkpoint_ns = '' AND s.checkpoint_id = h.checkpoint_id
LEFT JOIN @.stele_threads t ON t.thread_id = i.id`)

	// $1 threads, $2 their heads.
	st.threadWrites = q(`
SELECT w.thread_id, w.task_id, w.channel FROM unnest($1::text[], $2::text[]) h(thread_id, id)
JOIN @.checkpoint_writes w ON w.thread_id = h.thread_id AND w.checkpoint_ns = '' AND w.checkpoint_id = h.id`)
	st.threadCalls = q(`
SELECT c.thread_id, c.task_id, c.channels FROM unnest($1::text[], $2::text[]) h(thread_id, id)
JOIN @.stele_calls c ON c.thread_id = h.thread_id AND c.checkpoint_ns = '' AND c.checkpoint_id = h.id ORDER BY c.seq`)
}

// threadState is a thread as Threads and Sweep see it.
type threadState struct {
	saver.ThreadInfo
	ttl time.Duration
}

// Threads implements saver.Saver. What q selects is read before the first is
// yielded, some threads in a statement, so that none takes long. A thread that Python wrote
// last was updated at the time of its newest checkpoint.
func (s *Saver) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	return pgdb.Yield(ctx, s.db, func() ([]saver.ThreadInfo, error) { return s.threadInfos(ctx, q) })
}

func (s *Saver) threadInfos(ctx context.Context, q saver.ThreadQuery) ([]saver.ThreadInfo, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := pgdb.CheckText("thread_id", q.ThreadID, "prefix", q.Prefix); err != nil {
		return nil, err
	}
	var infos []saver.ThreadInfo
	err := s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		infos = nil
		var ids []string
		var err error
		if q.ThreadID != "" {
			ids, err = s.collectIDs(ctx, tx, s.sql.threadID, q.ThreadID)
		} else {
			ids, err = s.allThreads(ctx, tx)
		}
		if err != nil {
			return err
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, q.Prefix) })
		for page := range slices.Chunk(ids, threadsPage) {
			states, err := s.threadStates(ctx, tx, page)
			if err != nil {
				return err
			}
			states = slices.DeleteFunc(states, func(t threadState) bool {
				return t.UpdatedAt.Before(q.UpdatedSince) || q.Status != "" && t.Status != q.Status
			})
			matches, err := s.threadsMatching(ctx, tx, states, q.Metadata)
			if err != nil {
				return err
			}
			for _, t := range states {
				if len(q.Metadata) > 0 && !matches[t.ThreadID] {
					continue
				}
				if infos = append(infos, t.ThreadInfo); len(infos) == q.Limit {
					return nil
				}
			}
		}
		return nil
	})
	return infos, err
}

// threadsPage is how many threads one statement reads.
const threadsPage = 1000

// allThreads are the ids of all threads, in order.
func (s *Saver) allThreads(ctx context.Context, tx pgx.Tx) ([]string, error) {
	var ids []string
	for last := ""; ; last = ids[len(ids)-1] {
		page, err := s.collectIDs(ctx, tx, s.sql.threadIDs, last, threadsPage)
		if err != nil {
			return nil, err
		}
		if ids = append(ids, page...); len(page) < threadsPage {
			slices.Sort(ids) // the database's order may be another
			return ids, nil
		}
	}
}

// collectIDs are the ids of threads that a statement yields.
func (s *Saver) collectIDs(ctx context.Context, tx pgx.Tx, statement string, args ...any) ([]string, error) {
	rows, err := tx.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// threadState returns one thread; nil if it is not there.
func (s *Saver) threadState(ctx context.Context, tx pgx.Tx, threadID string) (*threadState, error) {
	ids, err := s.collectIDs(ctx, tx, s.sql.threadID, threadID)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	states, err := s.threadStates(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	return &states[0], nil
}

// threadStates are the threads of these ids, which are there, in the order of ids.
func (s *Saver) threadStates(ctx context.Context, tx pgx.Tx, ids []string) ([]threadState, error) {
	rows, err := tx.Query(ctx, s.sql.threadHeads, ids)
	if err != nil {
		return nil, err
	}
	states := map[string]*threadState{}
	notes := map[string]*saver.Note{}
	var id, head string
	var note []byte
	var updated *time.Time
	var ttl int64
	var newest *string
	_, err = pgx.ForEachRow(rows, []any{&id, &head, &note, &updated, &ttl, &newest}, func() (err error) {
		states[id] = &threadState{saver.ThreadInfo{ThreadID: id, Head: head, UpdatedAt: updatedAt(updated, newest)}, fromMicroseconds(ttl)}
		notes[id], err = decodeNote(note)
		return err
	})
	if err != nil {
		return nil, err
	}
	calls, err := s.headCalls(ctx, tx, states)
	if err != nil {
		return nil, err
	}
	out := make([]threadState, 0, len(ids))
	for _, id := range ids {
		t := states[id]
		if t.Head != "" {
			t.Status = rules.StatusOf(notes[id], calls[id])
			t.Describe(notes[id])
		}
		out = append(out, *t)
	}
	return out, nil
}

// updatedAt returns the later of the time that stele noted and the time of the newest checkpoint, if
// there is one.
func updatedAt(noted *time.Time, newest *string) time.Time {
	var at time.Time
	if newest != nil {
		if ts, err := time.Parse(time.RFC3339Nano, *newest); err == nil {
			at = ts.Truncate(time.Microsecond)
		}
	}
	if noted != nil && noted.After(at) {
		at = *noted
	}
	return at.UTC()
}

// headCalls are the calls that wrote against the heads of threads, as rules.StatusOf takes
// them.
func (s *Saver) headCalls(ctx context.Context, tx pgx.Tx, states map[string]*threadState) (map[string][]rules.WriteCall, error) {
	var threads, heads []string
	for id, t := range states {
		if t.Head != "" {
			threads, heads = append(threads, id), append(heads, t.Head)
		}
	}
	found := map[string]*headWrites{}
	at := func(thread string) *headWrites {
		if found[thread] == nil {
			found[thread] = &headWrites{tasks: map[string][]string{}}
		}
		return found[thread]
	}
	var thread, task, channel string
	b := &pgx.Batch{}
	b.Queue(s.sql.threadWrites, threads, heads).Query(pgdb.Each(func() error {
		h := at(thread)
		h.tasks[task] = append(h.tasks[task], channel)
		return nil
	}, &thread, &task, &channel))
	b.Queue(s.sql.threadCalls, threads, heads).Query(pgdb.Each(func() error {
		h := at(thread)
		h.recorded = append(h.recorded, rules.NewWriteCall(task, strings.Split(channel, callSeparator)))
		return nil
	}, &thread, &task, &channel))
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	calls := map[string][]rules.WriteCall{}
	for thread, h := range found {
		calls[thread] = h.calls()
	}
	return calls, nil
}

// headWrites are the writes against a checkpoint: the channels of each task, and the calls
// of stele from the first on that says more than that a task has ended.
type headWrites struct {
	tasks    map[string][]string
	recorded []rules.WriteCall
}

// calls returns the calls in an order that leads to the same status as the order in which they came.
// Unrecorded calls came first. If Python wrote, there are no records, and the order is: tasks that
// stopped, answers from outside, tasks that took an answer and stopped again, tasks that ended.
func (h *headWrites) calls() []rules.WriteCall {
	var stopped, answers, again, ended []rules.WriteCall
	for task, channels := range h.tasks {
		special := slices.DeleteFunc(slices.Clone(channels), func(c string) bool { return !signal(c) })
		if len(special) < len(channels) {
			ended = append(ended, rules.NewWriteCall(task, []string{ordinary}))
		}
		if len(special) == 0 {
			continue
		}
		switch call := rules.NewWriteCall(task, special); {
		case task == saver.NullTaskID:
			answers = append(answers, call)
		case call.Interrupt && call.Resume:
			again = append(again, call)
		default:
			stopped = append(stopped, call)
		}
	}
	if len(h.recorded) > 0 {
		return append(ended, h.recorded...)
	}
	return slices.Concat(stopped, answers, again, ended)
}

// threadsMatching returns the threads with a checkpoint whose metadata matches filter.
func (s *Saver) threadsMatching(ctx context.Context, tx pgx.Tx, states []threadState, filter map[string]any) (map[string]bool, error) {
	if len(filter) == 0 {
		return nil, nil
	}
	ids := make([]string, len(states))
	for i, t := range states {
		ids[i] = t.ThreadID
	}
	matches := map[string]bool{}
	sel := &selection{where: "true"}
	sel.and("thread_id = ANY(?)", ids)
	if text := contained(filter); text != "" {
		sel.and("metadata @> ?::jsonb", text)
	}
	err := s.scanMetadata(ctx, tx, sel, func(k checkpointKey, md saver.Metadata) error {
		if !matches[k.thread] && md.Match(filter) {
			matches[k.thread] = true
		}
		return nil
	})
	return matches, err
}
