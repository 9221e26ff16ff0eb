package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// layout is the tables of LangGraph's saver.
const layout = `
CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT,
	type TEXT, checkpoint BLOB, metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL,
	task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,
	PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));`

// file is a SQLite file that a test writes.
type file struct {
	t    *testing.T
	path string
	db   *sql.DB
}

func newFile(t *testing.T, schema string) *file {
	t.Helper()
	f := &file{t: t, path: filepath.Join(t.TempDir(), "a b%20#.sqlite")}
	var err error
	if f.db, err = sql.Open("sqlite", f.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.db.Close() })
	f.exec(schema)
	return f
}

func (f *file) exec(query string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Exec(query, args...); err != nil {
		f.t.Fatal(err)
	}
}

// checkpoint adds a row. object is encoded if it is not bytes.
func (f *file) checkpoint(thread, ns, id, parent string, kind, object any, metadata string) {
	f.t.Helper()
	if _, ok := object.([]byte); !ok {
		object = packed(f.t, object).Data
	}
	var p any
	if parent != "" {
		p = parent
	}
	f.exec("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", thread, ns, id, p, kind, object, []byte(metadata))
}

func (f *file) write(thread, ns, id, task, path string, index int, channel string, kind any, value []byte) {
	f.t.Helper()
	f.exec("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", thread, ns, id, task, path, index, channel, kind, value)
}

func packed(t *testing.T, v any) serde.Typed {
	t.Helper()
	typed, err := serde.Default().Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return typed
}

// step is one checkpoint of a chat: its values, and the versions of those that changed.
type step struct {
	id, parent      string
	values          map[string]any
	versions, fresh map[string]saver.Version
}

// chat are the checkpoints of a chat: a list of messages that grows, and documents that stay.
func chat(steps int) []step {
	documents := make([]any, 40)
	for i := range documents {
		documents[i] = fmt.Sprintf("document %d: %x", i, strings.Repeat(fmt.Sprint(i*7919), 60))
	}
	var all []step
	var messages []any
	parent := ""
	for n := range steps {
		messages = append(messages[:n:n], map[string]any{"role": "user", "text": fmt.Sprintf("message %d of a chat that goes on and on, %x", n, n*n*1_000_003)})
		s := step{id: fmt.Sprintf("1ef00000-0000-6000-8000-%012d", n+1), parent: parent,
			values:   map[string]any{"messages": messages, "documents": documents},
			versions: map[string]saver.Version{"messages": version(n + 1), "documents": version(1)},
			fresh:    map[string]saver.Version{"messages": version(n + 1)}}
		if n == 0 {
			s.fresh["documents"] = version(1)
		}
		all, parent = append(all, s), s.id
	}
	return all
}

func version(n int) saver.Version { return saver.StringVersion(fmt.Sprintf("%032d.%016d", n, n)) }

// object is a checkpoint as LangGraph's saver stores it.
func (s *step) object() map[string]any {
	versions := map[string]any{}
	for name, v := range s.versions {
		versions[name] = v.Any()
	}
	return map[string]any{"v": 4, "ts": "2026-01-02T03:04:05+00:00", "id": s.id, "channel_values": s.values, "channel_versions": versions,
		"versions_seen": map[string]any{"node": versions}, "updated_channels": []any{"messages"}}
}
