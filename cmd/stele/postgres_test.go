//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/savertest"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire"
)

// postgresServer starts PostgreSQL for a test: a cluster of its own on a unix socket, as a user
// without privileges. It returns the connection strings of two empty databases.
func postgresServer(t *testing.T) (one, two string) {
	t.Helper()
	server, err := pgtest.New()
	if err != nil {
		pgtest.Need(t, err)
	}
	t.Cleanup(server.Close)
	return server.Database(t), server.Database(t)
}

// setTTLs gives the threads of a store TTLs of their own: an hour, none, the default, in turns.
func setTTLs(t *testing.T, dir string) {
	t.Helper()
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n := 0
	for info, err := range d.Threads(t.Context(), saver.ThreadQuery{}) {
		if err == nil {
			err = d.SetTTL(t.Context(), info.ThreadID, []time.Duration{time.Hour, saver.NoTTL, 0}[n%3])
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n < 3 {
		t.Fatalf("%d threads", n)
	}
}

// TestThereAndBack: what LangGraph's SQLite saver has goes into a store, into NDJSON, into
// another store and into PostgreSQL, where LangGraph reads the same tuples as in SQLite (and a snapshot that stays); and
// back into a store, which is equal to the first.
func TestThereAndBack(t *testing.T) {
	url, pythons := postgresServer(t)
	python := pgtest.LangGraph(t)
	tmp := t.TempDir()
	in := func(name string) string { return filepath.Join(tmp, name) }
	for _, args := range [][]string{
		{"import", "sqlite", recorded + "graphs.sqlite", in("one")},
		{"export", "ndjson", in("one"), in("one.ndjson")},
		{"import", "ndjson", in("one.ndjson"), in("two")},
		{"export", "postgres", in("two"), url, "--setup"},
		{"export", "postgres", in("two"), url},
		{"import", "postgres", url, in("three")},
		{"import", "postgres", url, in("three")},
	} {
		if out, errOut, code := stele(t, args...); code != exitDone || !strings.Contains(out, "verified") {
			kept, _ := os.ReadFile(in("two.rejects.ndjson"))
			t.Log(string(kept))
			t.Fatalf("%v: exit code %d, %s%s", args, code, out, errOut)
		}
		if args[1] == "sqlite" {
			setTTLs(t, in("one"))
		}
	}
	if one, three := exported(t, in("one")), exported(t, in("three")); one != three || !strings.Contains(one, `"ttl_us":3600000000`) || !strings.Contains(one, `"ttl_us":-1`) {
		t.Errorf("the first store\n%s\nwhat came back\n%s", one, three)
	}

	record := func(command, url string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), python, recorded+"record.py", command, url)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, &stderr)
		}
		return string(out)
	}
	got, want := strings.Split(strings.TrimSpace(record("pg", url)), "\n"), staying(t, tuples(t, "graphs"))
	if len(got) != len(want) {
		t.Fatalf("LangGraph reads %d tuples in PostgreSQL, %d in SQLite", len(got), len(want))
	}
	for i := range got {
		if canonical(t, got[i]) != canonical(t, want[i]) {
			t.Errorf("LangGraph reads in PostgreSQL\n%s\nin SQLite\n%s", got[i], want[i])
		}
	}

	// Python goes on with the threads as it does in SQLite.
	resumed, err := os.ReadFile(recorded + "graphs.resumed")
	if got := record("resume", url); err != nil || got != string(resumed) {
		t.Errorf("%v: LangGraph goes on in PostgreSQL\n%s\nin SQLite\n%s", err, got, resumed)
	}

	// What PostgreSQL cannot hold is kept apart, and named; notes come along.
	checkpoint := func(id, parent, more string) string {
		return `{"kind":"checkpoint","thread":"odd","id":"` + id + `",` + parent + `"v":4,"ts":"t","metadata":{},` + more + "}\n"
	}
	value := func(data string) string { return `"value":{"type":"bytes","data":"` + data + `"}` }
	odd := `{"kind":"stele","format":1}` + "\n" +
		checkpoint("1", "", `"channels":[{"name":"a","version":1,`+value("AA==")+`}],"note":{"graph":"g","next":["n"],"stop":"breakpoint","deltas":["a"]}`) +
		checkpoint("2", `"parent":"1",`, `"channels":[{"name":"a","version":2,`+value("AQ==")+`},{"name":"b","version":1,`+value("Ag==")+`}]`) +
		checkpoint("3", `"parent":"1",`, `"channels":[{"name":"a","version":2,`+value("Aw==")+`}]`) +
		checkpoint("4", `"parent":"2",`, `"channels":[{"name":"b\\","version":1,`+value("AA==")+`}]`) +
		checkpoint("5", `"parent":"4",`, `"channels":[{"name":"b","version":1,`+value("Ag==")+`}]`) +
		`{"kind":"end","checkpoints":5}` + "\n"
	if err := os.WriteFile(in("odd.ndjson"), []byte(odd), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, args := range [][]string{
		{"import", "ndjson", in("odd.ndjson"), in("odd")}, {"export", "postgres", in("odd"), url, "--schema", "odd", "--setup"},
		{"export", "postgres", in("odd"), url, "--schema", "odd", "--rejects", in("again")}, {"import", "postgres", url, in("odd.back"), "--schema", "odd"},
	} {
		want := exitDone
		if args[0] == "export" {
			want = exitFound
		}
		out, errOut, code := stele(t, args...)
		if code != want || i == 2 && !strings.Contains(out, "3 there before") {
			t.Errorf("%v: exit code %d, %s%s", args, code, out, errOut)
		}
	}
	kept, err := os.ReadFile(in("odd.rejects.ndjson"))
	if lines := strings.Split(string(kept), "\n"); err != nil || len(lines) != 3 || !strings.Contains(lines[0], `"thread":"odd","namespace":"","id":"3"`) ||
		!strings.Contains(lines[0], "another value at version") || !strings.Contains(lines[1], `"id":"4"`) || !strings.Contains(lines[1], "backslash") {
		t.Errorf("%v: kept apart\n%s", err, kept)
	}
	if again, err := os.ReadFile(in("again")); err != nil || !bytes.Equal(again, kept) {
		t.Errorf("%v: kept apart the second time\n%s", err, again)
	}
	if back := exported(t, in("odd.back")); !strings.Contains(back, `"note":{"graph":"g","next":["n"],"stop":"breakpoint","deltas":["a"]}`) || strings.Count(back, `"kind":"checkpoint"`) != 3 {
		t.Errorf("what came back:\n%s", back)
	}

	// A database that LangGraph alone has used gets the tables that stele needs only if told.
	record("ask", pythons)
	if _, errOut, code := stele(t, "import", "postgres", pythons, in("asked")); code != exitFailed || !strings.Contains(errOut, "--setup") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if out, errOut, code := stele(t, "import", "postgres", pythons, in("asked"), "--setup"); code != exitDone || !strings.Contains(out, "5 checkpoints") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}

	// Items go with the checkpoints, and need their tables only where there are some.
	if _, errOut, code := stele(t, "export", "postgres", in("one"), url, "--schema", "bare", "--setup"); code != exitDone {
		t.Fatal(errOut)
	}
	if out, errOut, code := stele(t, "import", "sqlite", recorded+"items.sqlite", in("bare")); code != exitDone {
		t.Fatal(out, errOut)
	}
	if _, errOut, code := stele(t, "export", "postgres", in("bare"), url, "--schema", "bare"); code != exitFailed || !strings.Contains(errOut, "--setup") {
		t.Errorf("items without tables: exit code %d, %s", code, errOut)
	}

	// The files of other releases, each in a schema of its own.
	for _, name := range []string{"v1", "v2", "js", "items"} {
		for _, args := range [][]string{
			{"import", "sqlite", recorded + name + ".sqlite", in(name)}, {"export", "postgres", in(name), url, "--schema", name, "--setup"},
			{"import", "postgres", url, in(name + ".back"), "--schema", name},
		} {
			if out, errOut, code := stele(t, args...); code != exitDone {
				t.Fatalf("%v: exit code %d, %s%s", args, code, out, errOut)
			}
		}
		if there, back := exported(t, in(name)), exported(t, in(name+".back")); there != back {
			t.Errorf("%s: the store\n%s\nwhat came back\n%s", name, there, back)
		}
	}
}

// withoutErase is a client of a store that has no Erase; see TestServePostgres.
type withoutErase struct {
	saver.Saver
	io.Closer
}

// TestServePostgresKit: a database at the other end of a wire has every behaviour of savers
// that package postgres has. The cases share a server, and each finds its tables empty.
func TestServePostgresKit(t *testing.T) {
	url, _ := postgresServer(t)
	s := serve(t, "--postgres", url, "--setup", "--listen", "unix:"+filepath.Join(t.TempDir(), "sock"))
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	rows, _ := conn.Query(t.Context(), `SELECT format('DELETE FROM %I', tablename) FROM pg_tables WHERE schemaname = 'public' AND tablename NOT LIKE '%migrations'`)
	empty, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(empty) < 10 {
		t.Fatalf("tables: %q, %v", empty, err)
	}
	savertest.RunWith(t, func(t *testing.T) saver.Saver {
		if _, err := conn.Exec(t.Context(), strings.Join(empty, "; ")); err != nil {
			t.Fatal(err)
		}
		c := dial(t, s.address, "")
		return withoutErase{c, c}
	}, savertest.Options{
		Without: []savertest.Power{savertest.PowerEraser},
		Except:  map[string]string{"values/names of every kind": "text columns hold UTF-8 without U+0000; other names are refused"},
	})
	if errs, code := s.end(); code != 0 {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// TestServePostgres: the saver and the store of a database are served as those of a
// directory are.
func TestServePostgres(t *testing.T) {
	url, _ := postgresServer(t)
	ctx := context.Background()
	s := serve(t, "--postgres", url, "--setup", "--listen", "unix:"+filepath.Join(t.TempDir(), "sock"))
	c := dial(t, s.address, "")
	cfg, err := c.Put(ctx, saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: "1"}, saver.Metadata{"step": 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CopyThread(ctx, "t", "copy"); err != nil {
		t.Error(err)
	}
	if got, err := c.GetTuple(ctx, saver.Config{ThreadID: "copy"}); err != nil || got.Config.CheckpointID != cfg.CheckpointID {
		t.Errorf("got %v, %v", got, err)
	}
	lease, err := c.Own(ctx, "t", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Own(ctx, "t", false); !errors.Is(err, saver.ErrConflict) {
		t.Errorf("a thread that is owned: %v", err)
	}
	lease.Release()
	ns := store.Namespace{"n"}
	if err := c.Items().Put(ctx, ns, "k", map[string]any{"v": "x"}); err != nil {
		t.Error(err)
	}
	if it, err := c.Items().Get(ctx, ns, "k"); err != nil || it.Value["v"] != "x" {
		t.Errorf("got %v, %v", it, err)
	}
	if err := c.Erase(ctx, "t"); !errors.Is(err, wire.ErrUnsupported) {
		t.Errorf("what the store does not have: %v", err)
	}
	if errs, code := s.end(); code != 0 || errs != "" {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// TestMoveItemsOnPostgres: move-items does in a database what it does in a directory.
func TestMoveItemsOnPostgres(t *testing.T) {
	url, _ := postgresServer(t)
	o := postgres.Options{}
	if err := errors.Join(postgres.Setup(t.Context(), url, o), pgstore.Setup(t.Context(), url, o, nil)); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	open := func() (store.Store, func()) {
		items, err := pgstore.On(t.Context(), s, byLetter)
		if err != nil {
			t.Fatal(err)
		}
		return items, func() {
			if err := items.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	items, end := open()
	queue := pgqueue.Open(s, pgqueue.Options{})
	defer queue.Close()
	serveUsers(t, s, items, queue)
	end()
	moveItemsScript(t, []string{"--postgres", url}, open)
}
