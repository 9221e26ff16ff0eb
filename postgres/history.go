package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/internal/jsonb"
	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

func (st *statements) chainStatements(q func(string) string) {
	// $1 thread, $2 namespace, $3 where to begin, $4 how many checkpoints, $5 channels. A
	// checkpoint that is its own ancestor comes again and again, up to the number.
	const chain = `
WITH RECURSIVE chain AS (
	SELECT 1 AS n, checkpoint_id, parent_checkpoint_id, checkpoint FROM @.checkpoints
	WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3
UNION ALL
	SELECT chain.n + 1, p.checkpoint_id, p.parent_checkpoint_id, p.checkpoint
	FROM chain JOIN @.checkpoints p ON p.thread_id = $1 AND p.checkpoint_ns = $2 AND p.checkpoint_id = chain.parent_checkpoint_id
	WHERE chain.n < $4
)`
	st.chain = q(chain + `
SELECT chain.n, chain.checkpoint_id, coalesce(chain.parent_checkpoint_id, ''), c.name,
	chain.checkpoint -> 'channel_values' -> c.name, b.type, b.blob
FROM chain CROSS JOIN unnest($5::text[]) c(name)
LEFT JOIN @.checkpoint_blobs b ON b.thread_id = $1 AND b.checkpoint_ns = $2 AND b.channel = c.name
	AND b.version = chain.checkpoint -> 'channel_versions' ->> c.name AND b.type <> 'empty'
ORDER BY chain.n`)
	st.chainWrites = q(chain + `
SELECT $1::text, $2::text, w.checkpoint_id, w.task_id, w.task_path, w.idx, w.channel, coalesce(w.type, ''), w.blob
FROM (SELECT DISTINCT checkpoint_id FROM chain) chain JOIN @.checkpoint_writes w
	ON w.thread_id = $1 AND w.checkpoint_ns = $2 AND w.checkpoint_id = chain.checkpoint_id AND w.channel = ANY($5)`)
}

// Pages of a walk over ancestors grow, as most walks are short.
const (
	firstPage = 16
	lastPage  = 512
)

// DeltaChannelHistory implements saver.Saver.
func (s *Saver) DeltaChannelHistory(ctx context.Context, cfg saver.Config, channels []string) (map[string]saver.DeltaHistory, error) {
	if err := checkConfig(cfg); err != nil {
		return nil, err
	}
	for _, channel := range channels {
		if err := pgdb.CheckText("channel", channel); err != nil {
			return nil, err
		}
	}
	var walk *rules.DeltaWalk
	err := s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		walk = rules.NewDeltaWalk(channels)
		var id, parent string
		err := tx.QueryRow(ctx, s.db.Qualify(`SELECT checkpoint_id, coalesce(parent_checkpoint_id, '') FROM @.checkpoints
			WHERE thread_id = $1 AND checkpoint_ns = $2 AND ($3 = '' OR checkpoint_id = $3) ORDER BY checkpoint_id DESC LIMIT 1`),
			cfg.ThreadID, cfg.Namespace, cfg.CheckpointID).Scan(&id, &parent)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		seen := map[string]bool{id: true}
		for page := firstPage; parent != "" && !walk.Done(); page = min(2*page, lastPage) {
			if parent, err = s.walkPage(ctx, tx, cfg.At(parent), page, channels, walk, seen); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return walk.Result(), nil
}

// ancestor is one checkpoint of a walk.
type ancestor struct {
	id, parent string
	values     map[string]saver.Value
}

// walkPage visits up to n checkpoints from start on, and returns the checkpoint to continue from.
func (s *Saver) walkPage(ctx context.Context, tx pgx.Tx, start saver.Config, n int, channels []string, walk *rules.DeltaWalk,
	seen map[string]bool) (next string, err error) {
	var page []ancestor
	r := newTupleReader(s)
	args := []any{start.ThreadID, start.Namespace, start.CheckpointID, n, channels}
	b := &pgx.Batch{}
	var at int
	var a ancestor
	var channel string
	var inline, blob []byte
	var kind *string
	b.Queue(s.sql.chain, args...).Query(pgdb.Each(func() error {
		if at > len(page) {
			a.values = map[string]saver.Value{}
			page = append(page, a)
		}
		v, err := s.valueOf(inline, kind, blob)
		if err != nil {
			return fmt.Errorf("checkpoint %q channel %q: %w", a.id, channel, err)
		}
		if !v.IsZero() {
			page[at-1].values[channel] = v
		}
		return nil
	}, &at, &a.id, &a.parent, &channel, &inline, &kind, &blob))
	b.Queue(s.sql.chainWrites, args...).Query(r.scanWrites(r.writes))
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return "", err
	}
	for _, a := range page {
		if walk.Done() {
			return "", nil
		}
		if seen[a.id] {
			return "", fmt.Errorf("checkpoint %q: %w", a.id, saver.ErrAncestorCycle)
		}
		seen[a.id] = true
		writes := r.writes[checkpointKey{start.ThreadID, start.Namespace, a.id}]
		slices.SortStableFunc(writes, saver.PendingWrite.Compare)
		walk.Visit(a.values, writes)
		next = a.parent
	}
	if len(page) > 0 && seen[next] && !walk.Done() {
		return "", fmt.Errorf("checkpoint %q: %w", next, saver.ErrAncestorCycle)
	}
	return next, nil
}

// valueOf returns a value that is stored in the checkpoint or in a blob; zero if there is none.
func (s *Saver) valueOf(inline []byte, kind *string, blob []byte) (saver.Value, error) {
	switch {
	case kind != nil:
		return saver.ValueShared(serde.Typed{Kind: *kind, Data: blob}, s.opts.Serializer), nil
	case inline == nil:
		return saver.Value{}, nil
	}
	var v any
	if err := jsonb.Decode(inline, &v); err != nil {
		return saver.Value{}, err
	}
	typed, err := serde.Default().Encode(jsonb.Plain(v))
	return saver.ValueShared(typed, serde.Default()), err
}
