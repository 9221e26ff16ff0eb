package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// postgresSchema is that of LangGraph's saver for PostgreSQL.
const postgresSchema = `
CREATE TABLE IF NOT EXISTS checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
	parent_checkpoint_id TEXT, type TEXT, checkpoint JSONB NOT NULL, metadata JSONB NOT NULL DEFAULT '{}',
	PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE IF NOT EXISTS checkpoint_blobs (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', channel TEXT NOT NULL,
	version TEXT NOT NULL, type TEXT NOT NULL, blob BYTEA, PRIMARY KEY (thread_id, checkpoint_ns, channel, version));
CREATE TABLE IF NOT EXISTS checkpoint_writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
	task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, blob BYTEA NOT NULL, task_path TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
CREATE INDEX IF NOT EXISTS checkpoints_thread_id_idx ON checkpoints(thread_id);
CREATE INDEX IF NOT EXISTS checkpoint_blobs_thread_id_idx ON checkpoint_blobs(thread_id);
CREATE INDEX IF NOT EXISTS checkpoint_writes_thread_id_idx ON checkpoint_writes(thread_id);`

const (
	postgresPut = `INSERT INTO checkpoints (thread_id, checkpoint_id, parent_checkpoint_id, checkpoint, metadata) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata`
	postgresBlob = `INSERT INTO checkpoint_blobs (thread_id, channel, version, type, blob) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING`
	postgresWrite = `INSERT INTO checkpoint_writes (thread_id, checkpoint_id, task_id, idx, channel, type, blob) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO NOTHING`

	// The values and writes of a checkpoint come with its row, as in LangGraph.
	postgresSelect = `SELECT c.checkpoint_id, coalesce(c.parent_checkpoint_id, ''), c.checkpoint, c.metadata, b.names, b.types, b.blobs, w.tasks, w.idxs, w.names, w.types, w.blobs
		FROM checkpoints c,
		LATERAL (SELECT array_agg(bl.channel) AS names, array_agg(bl.type) AS types, array_agg(bl.blob) AS blobs
			FROM jsonb_each_text(c.checkpoint -> 'channel_versions') v JOIN checkpoint_blobs bl ON bl.thread_id = c.thread_id
			AND bl.checkpoint_ns = c.checkpoint_ns AND bl.channel = v.key AND bl.version = v.value) b,
		LATERAL (SELECT array_agg(cw.task_id) AS tasks, array_agg(cw.idx) AS idxs, array_agg(cw.channel) AS names, array_agg(cw.type) AS types, array_agg(cw.blob) AS blobs
			FROM (SELECT * FROM checkpoint_writes x WHERE x.thread_id = c.thread_id AND x.checkpoint_ns = c.checkpoint_ns
			AND x.checkpoint_id = c.checkpoint_id ORDER BY x.task_id, x.idx) cw) w `
	postgresWhere = `WHERE c.thread_id = $1 AND c.checkpoint_ns = '' `
	postgresPlain = `SELECT c.checkpoint_id, coalesce(c.parent_checkpoint_id, ''), c.checkpoint, c.metadata FROM checkpoints c `
	postgresByID  = `AND c.checkpoint_id = $2`
	postgresLast  = `ORDER BY c.checkpoint_id DESC LIMIT $2`
)

// postgresStore keeps checkpoints in a PostgreSQL server of its own.
type postgresStore struct {
	server *server
	db     *pgxpool.Pool
}

func openPostgres(o Options) (Store, error) {
	ctx := context.Background()
	srv, err := startServer(o.Dir, o.Mode, o.Writers+8)
	if err != nil {
		return nil, err
	}
	db, err := srv.connect(ctx, max(8, o.Writers))
	if err == nil {
		_, err = db.Exec(ctx, postgresSchema)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make schema: %w", err), srv.stop())
	}
	return &postgresStore{srv, db}, nil
}

// jsonRecord is a Record as PostgreSQL keeps it.
type jsonRecord struct {
	V        int                          `json:"v"`
	TS       string                       `json:"ts"`
	Versions map[string]string            `json:"channel_versions"`
	Seen     map[string]map[string]string `json:"versions_seen"`
	Updated  []string                     `json:"updated_channels"`
}

// Put stores a checkpoint and its new values in one transaction.
func (s *postgresStore) Put(thread, parent string, st *bench.Step) error {
	rec := RecordOf(&st.Checkpoint)
	text, err := json.Marshal(jsonRecord(rec))
	if err != nil {
		return err
	}
	md, err := json.Marshal(st.Metadata)
	if err != nil {
		return err
	}
	blobs, err := blobsOf(st, st.Changed)
	if err != nil {
		return err
	}
	var b pgx.Batch
	for _, bl := range blobs {
		b.Queue(postgresBlob, thread, bl.channel, bl.version, bl.typed.Kind, bl.typed.Data)
	}
	b.Queue(postgresPut, thread, st.Checkpoint.ID, parent, text, md)
	return s.send(&b)
}

// send runs a batch in one round trip and one transaction, as LangGraph's saver does
// with the pipeline mode.
func (s *postgresStore) send(b *pgx.Batch) error {
	return s.db.SendBatch(context.Background(), b).Close()
}

// PutWrites stores a task's writes in one transaction.
func (s *postgresStore) PutWrites(thread, id, task string, writes []saver.Write) error {
	var b pgx.Batch
	for i, w := range writes {
		t, err := w.Value.Encode(codec)
		if err != nil {
			return err
		}
		data := t.Data
		if data == nil {
			data = []byte{}
		}
		b.Queue(postgresWrite, thread, id, task, i, w.Channel, t.Kind, data)
	}
	return s.send(&b)
}

// Get reads the checkpoint with this id, or the newest, with its values and writes.
func (s *postgresStore) Get(thread, id string) (*Tuple, error) {
	var out *Tuple
	keep := func(t *Tuple) error { out = t; return nil }
	var err error
	if id == "" {
		err = s.query(postgresLast, thread, 1, true, keep)
	} else {
		err = s.query(postgresByID, thread, id, true, keep)
	}
	if err == nil && out == nil {
		err = ErrNotFound
	}
	return out, err
}

// List hands over the newest checkpoints of a thread, newest first; limit 0 means all.
func (s *postgresStore) List(thread string, limit int, values bool, each func(*Tuple) error) error {
	if limit == 0 {
		limit = 1 << 30
	}
	return s.query(postgresLast, thread, limit, values, each)
}

func (s *postgresStore) query(rest, thread string, arg any, values bool, each func(*Tuple) error) error {
	q := postgresPlain
	if values {
		q = postgresSelect
	}
	found, err := s.db.Query(context.Background(), q+postgresWhere+rest, thread, arg)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		t, err := scanTuple(found, values)
		if err != nil {
			return err
		}
		if err := each(t); err != nil {
			return err
		}
	}
	return found.Err()
}

func scanTuple(row pgx.Rows, values bool) (*Tuple, error) {
	t := &Tuple{Values: map[string]saver.Value{}}
	var rec, md []byte
	var names, types, tasks, channels, kinds []string
	var blobs, data [][]byte
	var idxs []int
	to := []any{&t.ID, &t.Parent, &rec, &md}
	if values {
		to = append(to, &names, &types, &blobs, &tasks, &idxs, &channels, &kinds, &data)
	}
	if err := row.Scan(to...); err != nil {
		return nil, err
	}
	var r jsonRecord
	if err := json.Unmarshal(rec, &r); err != nil {
		return nil, fmt.Errorf("record of %s: %w", t.ID, err)
	}
	if err := json.Unmarshal(md, &t.Metadata); err != nil {
		return nil, fmt.Errorf("metadata of %s: %w", t.ID, err)
	}
	t.Record = func() Record { return Record(r) }
	for i := range names {
		t.Values[names[i]] = valueOf(serde.Typed{Kind: types[i], Data: blobs[i]})
	}
	for i := range tasks {
		t.Writes = append(t.Writes, Write{tasks[i], channels[i], idxs[i], valueOf(serde.Typed{Kind: kinds[i], Data: data[i]})})
	}
	return t, nil
}

// Flush writes all pages that were changed.
func (s *postgresStore) Flush() error {
	_, err := s.db.Exec(context.Background(), "CHECKPOINT")
	return err
}

// Compact rewrites the tables without what is dead.
func (s *postgresStore) Compact() error {
	for _, q := range []string{"VACUUM FULL", "CHECKPOINT"} {
		if _, err := s.db.Exec(context.Background(), q); err != nil {
			return err
		}
	}
	return nil
}

// Size is what tables and indexes take; the server's catalogues and its log, which is
// at least 16 MB, are left out.
func (s *postgresStore) Size() (int64, error) {
	var n int64
	err := s.db.QueryRow(context.Background(), `SELECT sum(pg_total_relation_size(t::regclass))::bigint
		FROM unnest(array['checkpoints', 'checkpoint_blobs', 'checkpoint_writes']) t`).Scan(&n)
	return n, err
}

// Used is what the server's processes used since they were started, and the memory
// they have now, shared pages counted once.
func (s *postgresStore) Used() (time.Duration, float64) { return s.server.used() }

// Syncs says that they are not counted.
func (s *postgresStore) Syncs() (int64, bool) { return 0, false }

// Close ends the connections, and the server.
func (s *postgresStore) Close() error {
	s.db.Close()
	return s.server.stop()
}

// connectString names the server's socket.
func (v *server) connectString() string {
	return strings.Join([]string{"host=" + v.socket, "user=postgres", "dbname=postgres", "sslmode=disable"}, " ")
}

// connect waits until the server answers.
func (v *server) connect(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(v.connectString())
	if err != nil {
		return nil, err
	}
	c.MaxConns = int32(conns)
	db, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if err = db.Ping(ctx); err == nil {
			return db, nil
		}
		if v.ended() || time.Since(start) > 30*time.Second {
			db.Close()
			return nil, fmt.Errorf("the server does not answer: %w: %s", err, v.output())
		}
	}
}
