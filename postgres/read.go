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

	"github.com/stele-go/stele/postgres/internal/jsonb"
	"github.com/stele-go/stele/postgres/internal/pgdb"
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
	r := newTupleReader(s)
	err := s.db.Read(ctx, func(b *pgx.Batch) {
		*r = *newTupleReader(s)
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

// WritesAlone are the pending writes of a thread against checkpoints that it does not have: for each checkpoint a tuple with
// Config and PendingWrites alone.
func WritesAlone(ctx context.Context, s *Saver, threadID string) ([]*saver.Tuple, error) {
	r := newTupleReader(s)
	err := s.db.Read(ctx, func(b *pgx.Batch) {
		*r = *newTupleReader(s)
		b.Queue(s.sql.writesAlone, threadID).Query(r.scanWrites(r.writes))
	})
	var alone []*saver.Tuple
	for k, writes := range r.writes {
		slices.SortStableFunc(writes, saver.PendingWrite.Compare)
		at := saver.Config{ThreadID: k.thread, Namespace: k.ns, CheckpointID: k.id}
		alone = append(alone, &saver.Tuple{Config: at, PendingWrites: writes})
	}
	slices.SortFunc(alone, func(a, b *saver.Tuple) int {
		return cmp.Or(cmp.Compare(a.Config.Namespace, b.Config.Namespace), cmp.Compare(a.Config.CheckpointID, b.Config.CheckpointID))
	})
	return alone, err
}

// checkpointKey names a checkpoint.
type checkpointKey struct{ thread, ns, id string }

// blobKey names the value of a channel at a version.
type blobKey struct{ thread, ns, channel, version string }

// tupleReader gathers tuples from the rows of tupleStatements.
type tupleReader struct {
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

func newTupleReader(s *Saver) *tupleReader {
	return &tupleReader{s: s, blobs: map[blobKey]serde.Typed{}, writes: map[checkpointKey][]saver.PendingWrite{},
		packets: map[checkpointKey][]saver.PendingWrite{}}
}

func (r *tupleReader) queue(b *pgx.Batch, st tupleStatements, args []any) {
	var c checkpointRow
	b.Queue(st.checkpoints, args...).Query(pgdb.Each(func() error {
		r.checkpoints = append(r.checkpoints, c)
		return nil
	}, &c.key.thread, &c.key.ns, &c.key.id, &c.parent, &c.checkpoint, &c.metadata, &c.note))
	var k blobKey
	var t serde.Typed
	b.Queue(st.blobs, args...).Query(pgdb.Each(func() error {
		r.blobs[k] = t
		return nil
	}, &k.thread, &k.ns, &k.channel, &k.version, &t.Kind, &t.Data))
	b.Queue(st.writes, args...).Query(r.scanWrites(r.writes))
	b.Queue(st.packets, args...).Query(r.scanWrites(r.packets))
}

func (r *tupleReader) scanWrites(into map[checkpointKey][]saver.PendingWrite) func(pgx.Rows) error {
	var k checkpointKey
	var w saver.PendingWrite
	var t serde.Typed
	return pgdb.Each(func() error {
		w.Value = saver.ValueShared(t, r.s.opts.Serializer)
		into[k] = append(into[k], w)
		return nil
	}, &k.thread, &k.ns, &k.id, &w.TaskID, &w.TaskPath, &w.Index, &w.Channel, &t.Kind, &t.Data)
}

// tuples returns the tuples that were read, in the order of the rows.
func (r *tupleReader) tuples() ([]*saver.Tuple, error) {
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

func (r *tupleReader) tuple(c *checkpointRow) (*saver.Tuple, error) {
	t := &saver.Tuple{Config: saver.Config{ThreadID: c.key.thread, Namespace: c.key.ns, CheckpointID: c.key.id}}
	var versions map[string]string
	var err error
	if t.Checkpoint, versions, err = decodeCheckpoint(c.checkpoint); err != nil {
		return nil, err
	}
	for channel, version := range versions { // a blob takes precedence over a value in the checkpoint
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
	return pgdb.Yield(ctx, s.db, func() ([]*saver.Tuple, error) { return s.list(ctx, q) })
}

func (s *Saver) list(ctx context.Context, q saver.Query) ([]*saver.Tuple, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := s.db.Ready(ctx); err != nil || q.Limit == saver.NoResults {
		return nil, err
	}
	sel, err := newSelection(q)
	if err != nil {
		return nil, err
	}
	r := newTupleReader(s)
	if len(q.Filter) == 0 && q.ThreadID != "" {
		sel.limit(q.Limit)
		err = s.db.Read(ctx, func(b *pgx.Batch) {
			*r = *newTupleReader(s)
			r.queue(b, s.sql.tuples(sel.where), sel.args)
		})
	} else {
		if len(q.Filter) == 0 {
			sel.limit(q.Limit)
		}
		err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
			*r = *newTupleReader(s)
			keys, err := s.matching(ctx, tx, sel, q)
			if err != nil {
				return err
			}
			for part := range slices.Chunk(keys, listPart) {
				b := &pgx.Batch{}
				r.queue(b, s.sql.listed, columnsOfKeys(part))
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
	texts := []string{"thread_id", q.ThreadID, "checkpoint_id", q.CheckpointID, "before", q.Before}
	if q.Namespace != nil {
		texts = append(texts, "checkpoint_ns", *q.Namespace)
	}
	if err := pgdb.CheckText(texts...); err != nil {
		return nil, err
	}
	if q.ThreadID != "" {
		sel.and("thread_id = ?", q.ThreadID)
	}
	if q.Namespace != nil {
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

// contained returns JSON that all metadata which filter matches must contain; "" if there is none. The
// filter itself is applied to the rows found: for jsonb, a list contains a shorter one, and a missing
// key does not equal nil.
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
	text, err := jsonb.Append(nil, "filter", v)
	if err != nil || len(some) == 0 || !json.Valid(text) {
		return ""
	}
	return string(text)
}

// listPart is how many checkpoints a statement of a listing over threads reads, so that none
// meets the timeout.
const listPart = 500

// columnsOfKeys are keys, column by column.
func columnsOfKeys(keys []checkpointKey) []any {
	var threads, namespaces, ids []string
	for _, k := range keys {
		threads, namespaces, ids = append(threads, k.thread), append(namespaces, k.ns), append(ids, k.id)
	}
	return []any{threads, namespaces, ids}
}

// errEnough ends a scan that is complete.
var errEnough = errors.New("enough")

// matching finds the checkpoints whose metadata matches the filter, up to the limit.
func (s *Saver) matching(ctx context.Context, tx pgx.Tx, sel *selection, q saver.Query) (keys []checkpointKey, err error) {
	if len(q.Filter) == 0 {
		rows, err := tx.Query(ctx, s.db.Qualify("SELECT thread_id, checkpoint_ns, checkpoint_id FROM @.checkpoints WHERE "+sel.where), sel.args...)
		if err != nil {
			return nil, err
		}
		var k checkpointKey
		err = pgdb.Each(func() error {
			keys = append(keys, k)
			return nil
		}, &k.thread, &k.ns, &k.id)(rows)
		return keys, err
	}
	err = s.scanMetadata(ctx, tx, sel, func(key checkpointKey, md saver.Metadata) error {
		if md.Match(q.Filter) {
			keys = append(keys, key)
		}
		if q.Limit > 0 && len(keys) == q.Limit {
			return errEnough
		}
		return nil
	})
	return keys, err
}

func (s *Saver) scanMetadata(ctx context.Context, tx pgx.Tx, sel *selection, visit func(checkpointKey, saver.Metadata) error) error {
	rows, err := tx.Query(ctx, s.db.Qualify("SELECT thread_id, checkpoint_ns, checkpoint_id, metadata FROM @.checkpoints WHERE "+sel.where), sel.args...)
	if err != nil {
		return err
	}
	var k checkpointKey
	var text []byte
	_, err = pgx.ForEachRow(rows, []any{&k.thread, &k.ns, &k.id, &text}, func() error {
		md, err := decodeMetadata(text)
		if err != nil {
			return fmt.Errorf("thread %q namespace %q checkpoint %q: %w", k.thread, k.ns, k.id, err)
		}
		return visit(k, md)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
