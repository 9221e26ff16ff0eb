package peer

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/vmihailenco/msgpack/v5"
)

// schema is LangGraph's, with a row for each channel version.
const schema = `
CREATE TABLE IF NOT EXISTS checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
	parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE IF NOT EXISTS checkpoint_blobs (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', channel TEXT NOT NULL,
	version TEXT NOT NULL, type TEXT NOT NULL, data BLOB, PRIMARY KEY (thread_id, checkpoint_ns, channel, version));
CREATE TABLE IF NOT EXISTS checkpoint_writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
	task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, data BLOB,
	PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
CREATE TABLE IF NOT EXISTS store (prefix TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, created_at BIGINT, updated_at BIGINT,
	PRIMARY KEY (prefix, key));
CREATE INDEX IF NOT EXISTS store_prefix_idx ON store (prefix);`

// statements are prepared once; ? stands for an argument.
var statements = map[string]string{
	"put": `INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
		VALUES (?, '', ?, ?, 'msgpack', ?, ?) ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
		DO UPDATE SET checkpoint = excluded.checkpoint, metadata = excluded.metadata, parent_checkpoint_id = excluded.parent_checkpoint_id`,
	"blob": `INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, data) VALUES (?, '', ?, ?, ?, ?)
		ON CONFLICT (thread_id, checkpoint_ns, channel, version) DO NOTHING`,
	"write": `INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, data)
		VALUES (?, '', ?, ?, ?, ?, ?, ?) ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO NOTHING`,
	"latest": `SELECT checkpoint_id, parent_checkpoint_id, checkpoint, metadata FROM checkpoints
		WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id DESC LIMIT ?`,
	"byid": `SELECT checkpoint_id, parent_checkpoint_id, checkpoint, metadata FROM checkpoints
		WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?`,
	"getblob": `SELECT type, data FROM checkpoint_blobs WHERE thread_id = ? AND checkpoint_ns = '' AND channel = ? AND version = ?`,
	"getwrites": `SELECT task_id, idx, channel, type, data FROM checkpoint_writes
		WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? ORDER BY task_id, idx`,
	"putitem": `INSERT INTO store (prefix, key, value, created_at, updated_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (prefix, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
	"getitem": `SELECT value FROM store WHERE prefix = ? AND key = ?`,
}

// sqlStore keeps checkpoints in a SQL database.
type sqlStore struct {
	db    *sql.DB
	stmts map[string]*sql.Stmt
	write sync.Mutex // SQLite has one writer

	// whole keeps the values in the checkpoint's row, as LangGraph's SQLite saver
	// does.
	whole  bool
	vacuum string
}

// openSQL makes the schema and prepares the statements.
func openSQL(db *sql.DB, s *sqlStore) (*sqlStore, error) {
	s.db, s.stmts = db, map[string]*sql.Stmt{}
	for q := range strings.SplitSeq(schema, ";") {
		if strings.TrimSpace(q) == "" {
			continue
		}
		if _, err := db.Exec(q); err != nil {
			return nil, errors.Join(fmt.Errorf("make schema: %w", err), db.Close())
		}
	}
	for name, q := range statements {
		st, err := db.Prepare(q)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("prepare %s: %w", name, err), db.Close())
		}
		s.stmts[name] = st
	}
	return s, nil
}

// update runs fn in a transaction.
func (s *sqlStore) update(fn func(exec func(stmt string, args ...any) error) error) error {
	s.write.Lock()
	defer s.write.Unlock()
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	err = fn(func(stmt string, args ...any) error {
		_, err := tx.Stmt(s.stmts[stmt]).Exec(args...)
		return err
	})
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Put stores a checkpoint and its new values in one transaction.
func (s *sqlStore) Put(thread, parent string, st *bench.Step) error {
	enc, err := encode(st, s.whole)
	if err != nil {
		return err
	}
	if s.whole {
		if enc, err = inRecord(enc); err != nil {
			return err
		}
	}
	return s.update(func(exec func(string, ...any) error) error {
		if err := exec("put", thread, st.Checkpoint.ID, parent, enc.record, enc.metadata); err != nil {
			return err
		}
		for _, b := range enc.blobs {
			if err := exec("blob", thread, b.channel, b.version, b.typed.Kind, b.typed.Data); err != nil {
				return err
			}
		}
		return nil
	})
}

// PutWrites stores a task's writes in one transaction.
func (s *sqlStore) PutWrites(thread, id, task string, writes []saver.Write) error {
	typed := make([]serde.Typed, len(writes))
	for i, w := range writes {
		var err error
		if typed[i], err = w.Value.Encode(codec); err != nil {
			return err
		}
	}
	return s.update(func(exec func(string, ...any) error) error {
		for i, w := range writes {
			if err := exec("write", thread, id, task, i, w.Channel, typed[i].Kind, typed[i].Data); err != nil {
				return err
			}
		}
		return nil
	})
}

// Get reads the checkpoint with this id, or the newest, with its values and writes;
// ErrNotFound if there is none.
func (s *sqlStore) Get(thread, id string) (*Tuple, error) {
	var out *Tuple
	keep := func(t *Tuple) error { out = t; return nil }
	var err error
	if id == "" {
		err = s.query("latest", thread, 1, true, keep)
	} else {
		err = s.query("byid", thread, id, true, keep)
	}
	if err == nil && out == nil {
		err = ErrNotFound
	}
	return out, err
}

// List hands over the newest checkpoints of a thread, newest first; limit 0 means all.
func (s *sqlStore) List(thread string, limit int, values bool, each func(*Tuple) error) error {
	if limit == 0 {
		limit = 1 << 30
	}
	return s.query("latest", thread, limit, values, each)
}

func (s *sqlStore) query(stmt, thread string, arg any, values bool, each func(*Tuple) error) error {
	found, err := s.stmts[stmt].Query(thread, arg)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var id string
		var parent sql.NullString
		var rec, md []byte
		if err := found.Scan(&id, &parent, &rec, &md); err != nil {
			return err
		}
		t, err := s.tuple(thread, id, parent.String, rec, md, values)
		if err != nil {
			return err
		}
		if err := each(t); err != nil {
			return err
		}
	}
	return found.Err()
}

func (s *sqlStore) tuple(thread, id, parent string, rec, md []byte, values bool) (*Tuple, error) {
	var inside map[string][]byte
	if s.whole {
		var w wholeRecord
		if err := msgpack.Unmarshal(rec, &w); err != nil {
			return nil, err
		}
		rec, inside = w.Record, w.Values
	}
	t, err := decode(id, parent, rec, md)
	if err != nil || !values {
		return t, err
	}
	for channel, b := range inside {
		typed, err := unpackTyped(b)
		if err != nil {
			return nil, err
		}
		t.Values[channel] = valueOf(typed)
	}
	if !s.whole {
		if err := s.blobs(t, thread); err != nil {
			return nil, err
		}
	}
	return t, s.writesOf(t, thread)
}

func (s *sqlStore) blobs(t *Tuple, thread string) error {
	for channel, version := range t.Record().Versions {
		var v serde.Typed
		err := s.stmts["getblob"].QueryRow(thread, channel, version).Scan(&v.Kind, &v.Data)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		t.Values[channel] = valueOf(v)
	}
	return nil
}

func (s *sqlStore) writesOf(t *Tuple, thread string) error {
	found, err := s.stmts["getwrites"].Query(thread, t.ID)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var w Write
		var v serde.Typed
		if err := found.Scan(&w.Task, &w.Index, &w.Channel, &v.Kind, &v.Data); err != nil {
			return err
		}
		w.Value = valueOf(v)
		t.Writes = append(t.Writes, w)
	}
	return found.Err()
}

// PutItems stores items of a namespace in one transaction.
func (s *sqlStore) PutItems(ns string, items []Item) error {
	values := make([]string, len(items))
	for i, it := range items {
		b, err := json.Marshal(it.Value)
		if err != nil {
			return err
		}
		values[i] = string(b)
	}
	now := time.Now().UnixMicro()
	return s.update(func(exec func(string, ...any) error) error {
		for i, it := range items {
			if err := exec("putitem", ns, it.Key, values[i], now, now+int64(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// GetItem returns the value of an item; ErrNotFound if there is none.
func (s *sqlStore) GetItem(ns, key string) (map[string]any, error) {
	var text []byte
	err := s.stmts["getitem"].QueryRow(ns, key).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	var v map[string]any
	return v, json.Unmarshal(text, &v)
}

// Search returns the keys of the ten newest items whose field is at least least.
func (s *sqlStore) Search(ns, field string, least float64) ([]string, error) {
	found, err := s.db.Query(`SELECT key, value FROM store WHERE prefix = ? AND json_extract(value, ?) >= ?
		ORDER BY updated_at DESC LIMIT 10`, ns, "$."+field, least)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	var keys []string
	for found.Next() {
		var key string
		var text []byte
		if err := found.Scan(&key, &text); err != nil {
			return nil, err
		}
		var v map[string]any
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, found.Err()
}

// Flush moves the log into the tables.
func (s *sqlStore) Flush() error {
	_, err := s.db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// Compact rebuilds the tables, so that the space of what was deleted goes back.
func (s *sqlStore) Compact() error {
	for q := range strings.SplitSeq(s.vacuum, ";") {
		if _, err := s.db.Exec(q); err != nil {
			return err
		}
	}
	return nil
}

// Syncs reports false: the database does not count them.
func (s *sqlStore) Syncs() (int64, bool) { return 0, false }

// Close closes statements and database.
func (s *sqlStore) Close() error {
	var err error
	for _, st := range s.stmts {
		err = errors.Join(err, st.Close())
	}
	return errors.Join(err, s.db.Close())
}
