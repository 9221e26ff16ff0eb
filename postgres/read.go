package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// GetTuple implements saver.Saver: one round trip. The values are in memory.
func (s *Saver) GetTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	if err := checkConfig(cfg); err != nil {
		return nil, err
	}
	st, args := s.sql.newest, []any{cfg.ThreadID, cfg.Namespace}
	if cfg.CheckpointID != "" {
		st, args = s.sql.named, append(args, cfg.CheckpointID)
	}
	r := newReading(s)
	err := s.read(ctx, func(b *pgx.Batch) {
		*r = *newReading(s)
		r.queue(b, st, args)
	})
	if err != nil {
		return nil, err
	}
	tuples, err := r.tuples()
	if err != nil {
		return nil, err
	}
	if len(tuples) == 0 {
		return nil, rules.NotFound(cfg)
	}
	return tuples[0], nil
}

// read sends statements that see one moment, in one round trip. It tries again where the
// connection was lost, so queue must begin anew with what it gathers.
func (s *Saver) read(ctx context.Context, queue func(b *pgx.Batch)) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := s.again(ctx, func() (bool, error) {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return ctx.Err() == nil && !s.closed.Load(), err
		}
		defer conn.Release()
		err = s.sendTx(ctx, conn.Conn(), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", queue)
		return ctx.Err() == nil && err != nil && (outcomeOf(err) != rolledBack || passing(err)), s.translate(err)
	})
	return s.readError(ctx, err)
}

// readError prefers to say that the Saver was closed, or the call given up.
func (s *Saver) readError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case s.closed.Load():
		return saver.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// snapshot runs f in a transaction that sees one moment, and writes nothing. It tries again where the
// connection was lost, so f must begin anew with what it gathers.
func (s *Saver) snapshot(ctx context.Context, f func(tx pgx.Tx) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := s.again(ctx, func() (bool, error) {
		tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return ctx.Err() == nil && !s.closed.Load(), err
		}
		defer rollBack(ctx, tx.Rollback)
		if text, ok := s.unbounded(tx.Conn()); ok {
			_, err = tx.Exec(ctx, setTimeout, text)
		}
		if err == nil {
			err = f(tx)
		}
		return err != nil && s.goesOn(ctx, tx.Conn(), err), s.translate(err)
	})
	return s.readError(ctx, err)
}

// checkpointKey names a checkpoint.
type checkpointKey struct{ thread, ns, id string }

// blobKey names the value of a channel at a version.
type blobKey struct{ thread, ns, channel, version string }

// reading gathers tuples from the rows of tupleStatements.
type reading struct {
	s           *Saver
	checkpoints []checkpointRow
	blobs       map[blobKey]serde.Typed
	writes      map[checkpointKey][]saver.PendingWrite
	packets     map[checkpointKey][]saver.PendingWrite
}

type checkpointRow struct {
	key                  checkpointKey
	parent               string
	checkpoint, metadata []byte
	note                 []byte
}

func newReading(s *Saver) *reading {
	return &reading{s: s, blobs: map[blobKey]serde.Typed{}, writes: map[checkpointKey][]saver.PendingWrite{}, packets: map[checkpointKey][]saver.PendingWrite{}}
}

func (r *reading) queue(b *pgx.Batch, st tupleStatements, args []any) {
	b.Queue(st.checkpoints, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var c checkpointRow
			if err := rows.Scan(&c.key.thread, &c.key.ns, &c.key.id, &c.parent, &c.checkpoint, &c.metadata, &c.note); err != nil {
				return err
			}
			r.checkpoints = append(r.checkpoints, c)
		}
		return rows.Err()
	})
	b.Queue(st.blobs, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var k blobKey
			var t serde.Typed
			if err := rows.Scan(&k.thread, &k.ns, &k.channel, &k.version, &t.Kind, &t.Data); err != nil {
				return err
			}
			r.blobs[k] = t
		}
		return rows.Err()
	})
	b.Queue(st.writes, args...).Query(func(rows pgx.Rows) error { return r.scanWrites(rows, r.writes) })
	b.Queue(st.packets, args...).Query(func(rows pgx.Rows) error { return r.scanWrites(rows, r.packets) })
}

func (r *reading) scanWrites(rows pgx.Rows, into map[checkpointKey][]saver.PendingWrite) error {
	for rows.Next() {
		var k checkpointKey
		var w saver.PendingWrite
		var t serde.Typed
		if err := rows.Scan(&k.thread, &k.ns, &k.id, &w.TaskID, &w.TaskPath, &w.Index, &w.Channel, &t.Kind, &t.Data); err != nil {
			return err
		}
		w.Value = saver.ValueShared(t, r.s.opts.Serializer)
		into[k] = append(into[k], w)
	}
	return rows.Err()
}

// tuples are what was gathered, in the order of the rows.
func (r *reading) tuples() ([]*saver.Tuple, error) {
	out := make([]*saver.Tuple, 0, len(r.checkpoints))
	for i := range r.checkpoints {
		t, err := r.tuple(&r.checkpoints[i])
		if err != nil {
			k := r.checkpoints[i].key
			return nil, fmt.Errorf("thread %q namespace %q checkpoint %q: %w", k.thread, k.ns, k.id, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func (r *reading) tuple(c *checkpointRow) (*saver.Tuple, error) {
	t := &saver.Tuple{Config: saver.Config{ThreadID: c.key.thread, Namespace: c.key.ns, CheckpointID: c.key.id}}
	var versions map[string]string
	var err error
	if t.Checkpoint, versions, err = decodeCheckpoint(c.checkpoint); err != nil {
		return nil, err
	}
	for channel, version := range versions { // a blob counts before what stands in the checkpoint
		if blob, ok := r.blobs[blobKey{c.key.thread, c.key.ns, channel, version}]; ok {
			t.Checkpoint.Values[channel] = saver.ValueShared(blob, r.s.opts.Serializer)
		}
	}
	if t.Metadata, err = decodeMetadata(c.metadata); err != nil {
		return nil, err
	}
	if t.Note, err = decodeNote(c.note); err != nil {
		return nil, err
	}
	if c.parent != "" {
		cfg := t.Config.At(c.parent)
		t.Parent = &cfg
	}
	t.PendingWrites = append([]saver.PendingWrite{}, r.writes[c.key]...)
	slices.SortStableFunc(t.PendingWrites, saver.PendingWrite.Compare)
	packets := r.packets[c.key]
	slices.SortStableFunc(packets, saver.PendingWrite.Compare)
	_, err = rules.MigratePendingSends(&t.Checkpoint, packets, func() (saver.Version, error) {
		return saver.NextVersion(saver.Version{}, r.s.opts.Random)
	})
	return t, err
}

// List implements saver.Saver. What q selects is read into memory before the first is
// yielded, from one moment, and no connection is held meanwhile: take a large listing in
// parts with Limit and Before. One without a thread looks at the keys of all checkpoints, and
// then reads those that it selects, a bounded number in a statement.
func (s *Saver) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	return func(yield func(*saver.Tuple, error) bool) {
		tuples, err := s.list(ctx, q)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, t := range tuples {
			if err := s.ready(ctx); err != nil {
				yield(nil, err)
				return
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}

func (s *Saver) list(ctx context.Context, q saver.Query) ([]*saver.Tuple, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil || q.Limit == saver.NoResults {
		return nil, err
	}
	sel, err := newSelection(q)
	if err != nil {
		return nil, err
	}
	r := newReading(s)
	if len(q.Filter) == 0 && q.ThreadID != "" {
		sel.limit(q.Limit)
		err = s.read(ctx, func(b *pgx.Batch) {
			*r = *newReading(s)
			r.queue(b, s.sql.tuples(sel.where), sel.args)
		})
	} else {
		if len(q.Filter) == 0 {
			sel.limit(q.Limit)
		}
		err = s.snapshot(ctx, func(tx pgx.Tx) error {
			*r = *newReading(s)
			keys, err := s.matching(ctx, tx, sel, q)
			if err != nil {
				return err
			}
			for part := range keys.parts() {
				b := &pgx.Batch{}
				r.queue(b, s.sql.listed, part.args())
				if err := tx.SendBatch(ctx, b).Close(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.checkpoints, func(a, b checkpointRow) int {
		return cmp.Or(cmp.Compare(b.key.id, a.key.id), cmp.Compare(a.key.thread, b.key.thread), cmp.Compare(a.key.ns, b.key.ns))
	})
	return r.tuples()
}

// selection is the condition of a query on checkpoints.
type selection struct {
	where string
	args  []any
}

func (sel *selection) and(condition string, arg any) {
	sel.args = append(sel.args, arg)
	sel.where += " AND " + strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(sel.args)))
}

// limit ends the selection after n; 0 is no limit. The number is a parameter, so that all
// limits are one statement.
func (sel *selection) limit(n int) {
	if n > 0 {
		sel.args = append(sel.args, n)
		sel.where += fmt.Sprintf(" LIMIT $%d", len(sel.args))
	}
}

// newSelection is q without its limit, in the order of a listing.
func newSelection(q saver.Query) (*selection, error) {
	sel := &selection{where: "true"}
	for field, id := range map[string]string{"thread_id": q.ThreadID, "checkpoint_id": q.CheckpointID, "before": q.Before} {
		if err := checkText(field, id); err != nil {
			return nil, err
		}
	}
	if q.ThreadID != "" {
		sel.and("thread_id = ?", q.ThreadID)
	}
	if q.Namespace != nil {
		if err := checkText("checkpoint_ns", *q.Namespace); err != nil {
			return nil, err
		}
		sel.and("checkpoint_ns = ?", *q.Namespace)
	}
	if q.CheckpointID != "" {
		sel.and("checkpoint_id = ?", q.CheckpointID)
	}
	if q.Before != "" {
		sel.and("checkpoint_id < ?", q.Before)
	}
	if text := contained(q.Filter); text != "" {
		sel.and("metadata @> ?::jsonb", text)
	}
	sel.where += " ORDER BY checkpoint_id DESC, thread_id, checkpoint_ns"
	return sel, nil
}

// contained is what the metadata that filter matches contains for sure, as JSON; "" if
// that cannot be told. The filter itself is applied to what it lets through: for jsonb, a
// list contains a shorter one, and a nil that is missing is not there.
func contained(filter map[string]any) string {
	some := map[string]any{}
	for key, v := range filter {
		if v != nil && !strings.Contains(key, ".") {
			some[key] = v
		}
	}
	typed, err := serde.Default().Encode(some)
	if err != nil {
		return ""
	}
	v, err := serde.Default().Decode(typed)
	if err != nil {
		return ""
	}
	text, err := appendJSON(nil, "filter", v)
	if err != nil || len(some) == 0 || !json.Valid(text) {
		return ""
	}
	return string(text)
}

// keys are checkpoints, column by column.
type keys struct{ threads, namespaces, ids []string }

func (k *keys) args() []any { return []any{k.threads, k.namespaces, k.ids} }

func (k *keys) add(thread, ns, id string) {
	k.threads, k.namespaces, k.ids = append(k.threads, thread), append(k.namespaces, ns), append(k.ids, id)
}

// listPart is how many checkpoints a statement of a listing over threads reads, so that none
// meets the timeout.
const listPart = 500

// parts are the keys in parts of a bounded size.
func (k *keys) parts() iter.Seq[keys] {
	return func(yield func(keys) bool) {
		for from := 0; from < len(k.ids); from += listPart {
			to := min(from+listPart, len(k.ids))
			if !yield(keys{k.threads[from:to], k.namespaces[from:to], k.ids[from:to]}) {
				return
			}
		}
	}
}

// errEnough ends a scan that has what it wants.
var errEnough = errors.New("enough")

// matching finds the checkpoints whose metadata matches the filter, up to the limit.
func (s *Saver) matching(ctx context.Context, tx pgx.Tx, sel *selection, q saver.Query) (keys, error) {
	var k keys
	if len(q.Filter) == 0 {
		rows, err := tx.Query(ctx, qualify(s.schema, "SELECT thread_id, checkpoint_ns, checkpoint_id FROM @.checkpoints WHERE "+sel.where), sel.args...)
		if err != nil {
			return k, err
		}
		var at checkpointKey
		_, err = pgx.ForEachRow(rows, []any{&at.thread, &at.ns, &at.id}, func() error {
			k.add(at.thread, at.ns, at.id)
			return nil
		})
		return k, err
	}
	err := s.scanMetadata(ctx, tx, sel, func(key checkpointKey, md saver.Metadata) error {
		if md.Match(q.Filter) {
			k.add(key.thread, key.ns, key.id)
		}
		if q.Limit > 0 && len(k.ids) == q.Limit {
			return errEnough
		}
		return nil
	})
	return k, err
}

func (s *Saver) scanMetadata(ctx context.Context, tx pgx.Tx, sel *selection, visit func(checkpointKey, saver.Metadata) error) error {
	sql := qualify(s.schema, "SELECT thread_id, checkpoint_ns, checkpoint_id, metadata FROM @.checkpoints WHERE "+sel.where)
	rows, err := tx.Query(ctx, sql, sel.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var k checkpointKey
		var text []byte
		if err := rows.Scan(&k.thread, &k.ns, &k.id, &text); err != nil {
			return err
		}
		md, err := decodeMetadata(text)
		if err != nil {
			return fmt.Errorf("thread %q namespace %q checkpoint %q: %w", k.thread, k.ns, k.id, err)
		}
		if err := visit(k, md); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return rows.Err()
}
