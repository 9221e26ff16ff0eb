package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/saver/serde"
)

// recorded has files of LangGraph's SQLite savers, and what LangGraph reads of them.
const recorded = "../../ops/transfer/sqlite/testdata/"

// tuples are the lines that LangGraph's reader printed of a recorded file.
func tuples(t *testing.T, name string) []string {
	t.Helper()
	packed, err := os.ReadFile(recorded + name + ".tuples.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// staying are tuples that LangGraph read in SQLite as its saver on PostgreSQL shows them: a
// snapshot of the delta channel log stays while the version of the channel does.
func staying(t *testing.T, lines []string) []string {
	t.Helper()
	snapshots := map[string]any{}
	for i, line := range lines {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var tup map[string]any
		if err := d.Decode(&tup); err != nil {
			t.Fatal(err)
		}
		at := func(id any) string {
			return compact([]any{tup["thread"], tup["ns"], id, tup["versions"].(map[string]any)["log"]}, 0)
		}
		values := tup["values"].(map[string]any)
		if v, ok := snapshots[at(tup["parent"])]; ok && values["log"] == nil {
			values["log"] = v
		}
		if values["log"] != nil {
			snapshots[at(tup["id"])] = values["log"]
		}
		lines[i] = compact(tup, 0)
	}
	return lines
}

// canonical is JSON with the names of each object in order, and numbers as they are.
func canonical(t *testing.T, line string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return compact(v, 0)
}

// exported is a store as NDJSON.
func exported(t *testing.T, dir string) string {
	t.Helper()
	out, errOut, code := stele(t, "export", "ndjson", dir, "-")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	return out
}

// copyFile makes a copy that a test may damage.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTransferOutput pins what import and export say.
func TestTransferOutput(t *testing.T) {
	for _, form := range []string{"", "--json"} {
		name := "transfer"
		if form != "" {
			name += "-json"
		}
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			in := func(name string) string { return filepath.Join(root, name) }
			copyFile(t, recorded+"graphs.sqlite", in("graphs.sqlite"))
			copyFile(t, recorded+"v2.sqlite", in("damaged.sqlite"))
			db, err := sql.Open("sqlite", in("damaged.sqlite"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec("UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 100) WHERE thread_id = 'done' AND parent_checkpoint_id IS NULL; CREATE TABLE store (prefix text, key text, value text, created_at TIMESTAMP, updated_at TIMESTAMP); INSERT INTO store VALUES ('a', 'b', '{}', '2026-01-02 03:04:05', '2026-01-02 03:04:05'), ('a', 'c', '{', '2026-01-02 03:04:05', '2026-01-02 03:04:05')"); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			all := ""
			for _, args := range [][]string{
				{"import", "sqlite", in("graphs.sqlite"), in("one"), "--thread", "chat", "--thread", "fan"}, {"import", "sqlite", in("graphs.sqlite"), in("one")}, {"import", "sqlite", in("graphs.sqlite"), in("one")},
				{"import", "sqlite", in("graphs.sqlite"), in("one"), "--prefix", "nobody"}, {"import", "sqlite", in("graphs.sqlite"), in("one"), "--filter", "step=1"},
				{"export", "ndjson", in("one"), in("one.ndjson"), "--filter", "step:=1"}, {"export", "ndjson", in("one"), in("one.ndjson")}, {"import", "ndjson", in("one.ndjson"), in("two")},
				{"import", "sqlite", in("damaged.sqlite"), in("three")},
				{"import", "sqlite", in("one.ndjson"), in("two")}, {"import", "ndjson", in("graphs.sqlite"), in("two")}, {"import", "sqlite", in("missing"), in("two")},
				{"import", "ndjson", "-", in("two"), "--filter", "a=b"},
				{"import", "sqlite", recorded + "items.sqlite", in("items"), "--items", "users.ada"}, {"import", "sqlite", recorded + "items.sqlite", in("items")},
				{"export", "ndjson", in("items"), in("items.ndjson")}, {"import", "ndjson", in("items.ndjson"), in("again")},
				{"export", "ndjson", in("items"), in("none.ndjson"), "--prefix", "t"}, {"import", "ndjson", in("one.ndjson"), in("four"), "--items", "users"}, {"import", "ndjson", in("one.ndjson"), in("four"), "--items", "users..ada"}, {"import", "sqlite", recorded + "items.sqlite", in("none"), "--thread", "t"},
			} {
				if form != "" {
					args = append([]string{form}, args...)
				}
				out, errOut, code := stele(t, args...)
				all += fmt.Sprintf("$ stele %s\n%s%sexit code %d\n", strings.Join(args, " "), out, errOut, code)
			}
			kept, err := os.ReadFile(in("three.rejects.ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, stable(all+string(kept), root))
		})
	}
}

// TestNamedOnes: a thread or a namespace that is named and not there is an error that says which.
// No file is made, and one that is there stays. Other threads are copied into a store.
func TestNamedOnes(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	src := recorded + "graphs.sqlite"
	if _, errOut, code := stele(t, "import", "sqlite", src, in("store"), "--thread", "chat", "--thread", "nobody", "--thread", "none"); code != exitFailed || !strings.Contains(errOut, `not found: threads "nobody", "none"`) {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if out, _, code := stele(t, "threads", in("store")); code != exitDone || !strings.Contains(out, "chat") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if err := os.WriteFile(in("kept"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errOut, code := stele(t, "export", "ndjson", in("store"), in("all")); code != exitDone {
		t.Fatal(errOut)
	}
	for _, args := range [][]string{
		{"--thread", "nobody"}, {"--thread", "chat", "--thread", "nobody"}, {"--thread", "chat", "--filter", "step:=100"}, {"--items", "users"},
		{"--items", "users", "--thread", "chat"},
	} {
		want := `thread "nobody"`
		switch {
		case args[0] == "--items":
			want = `items below the namespace "users"`
		case len(args) == 4 && args[2] == "--filter":
			want = `thread "chat", with the prefix and the filters given`
		}
		for _, call := range [][]string{
			{"export", "ndjson", in("store"), in("made")}, {"export", "ndjson", in("store"), in("kept"), "--replace"}, {"export", "ndjson", in("store"), "-"},
			{"import", "ndjson", in("all"), in("copy")}, {"import", "sqlite", src, in("copy")},
		} {
			_, errOut, code := stele(t, append(call, args...)...)
			if code != exitFailed || !strings.Contains(errOut, "not found: "+want) {
				t.Errorf("%v %v: exit code %d: %s", call, args, code, errOut)
			}
		}
		if _, errOut, _ := stele(t, append([]string{"--json", "export", "ndjson", in("store"), in("made")}, args...)...); !strings.Contains(errOut, `"kind":"not_found"`) {
			t.Errorf("%v: %s", args, errOut)
		}
	}
	for _, name := range []string{"made", "made.part", "kept.part"} {
		if _, err := os.Lstat(in(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if kept, err := os.ReadFile(in("kept")); err != nil || string(kept) != "kept" {
		t.Errorf("%s, %v", kept, err)
	}
}

// TestImportOfSomethingElse: a file or a database that is none of what the command reads makes no
// store.
func TestImportOfSomethingElse(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	db, err := sql.Open("sqlite", in("other.sqlite"))
	if err == nil {
		_, err = db.Exec("CREATE TABLE users (name TEXT); CREATE TABLE store (id INTEGER)")
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"empty": "", "other.ndjson": `{"kind":"other"}` + "\n", "newer.ndjson": `{"kind":"stele","format":99}` + "\n", "text": "hello\n"} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"ndjson", "sqlite"} {
		for _, name := range []string{"empty", "other.ndjson", "newer.ndjson", "text", "other.sqlite", "missing"} {
			out, errOut, code := stele(t, "import", kind, in(name), in("store"))
			if code != exitFailed {
				t.Errorf("%s %s: exit code %d: %s%s", kind, name, code, out, errOut)
			}
			if made, err := filepath.Glob(in("store*")); err != nil || len(made) > 0 {
				t.Fatalf("%s %s made %q", kind, name, made)
			}
		}
	}
}

// TestImportDiffers: what is there with other content is named and stays, and can be
// replaced.
func TestImportDiffers(t *testing.T) {
	root := t.TempDir()
	dir, file := filepath.Join(root, "store"), filepath.Join(root, "f.ndjson")
	if out, errOut, code := stele(t, "import", "sqlite", recorded+"graphs.sqlite", dir, "--thread", "fan"); code != exitDone {
		t.Fatal(out, errOut)
	}
	text := strings.Replace(exported(t, dir), `"step":1`, `"step":7`, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	before := exported(t, dir)
	out, errOut, code := stele(t, "--json", "import", "ndjson", file, dir)
	if code != exitFailed || !strings.Contains(errOut, `"kind":"differs"`) || !strings.Contains(errOut, `thread \"fan\"`) || exported(t, dir) != before {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	if out, errOut, code := stele(t, "import", "ndjson", file, dir, "--replace"); code != exitDone || !strings.Contains(out, "1 replaced") || exported(t, dir) != text {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

// childImport tells this test binary to be the command with these arguments, one a line.
const childImport = "STELE_TEST_COMMAND"

// manySteps makes a file of LangGraph's SQLite saver with threads of many checkpoints.
func manySteps(t *testing.T, path string, threads, steps int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB)")
	exec("CREATE TABLE writes (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, task_id TEXT, task_path TEXT, idx INTEGER, channel TEXT, type TEXT, value BLOB)")
	for i := range threads {
		thread, parent := fmt.Sprint("thread", i), any(nil)
		var list []any
		for n := range steps {
			id := checkpointID(n + 1)
			list = append(list, fmt.Sprint("message ", n))
			typed, err := serde.Default().Encode(map[string]any{"v": 4, "id": id, "ts": "2026-01-02T03:04:05+00:00", "channel_values": map[string]any{"list": list, "same": "stays"},
				"channel_versions": map[string]any{"list": n + 1, "same": 1}, "versions_seen": map[string]any{}, "updated_channels": []any{"list"}})
			if err != nil {
				t.Fatal(err)
			}
			exec("INSERT INTO checkpoints VALUES (?, '', ?, ?, 'msgpack', ?, ?)", thread, id, parent, typed.Data, fmt.Sprintf(`{"source":"loop","step":%d}`, n))
			exec("INSERT INTO writes VALUES (?, '', ?, 'task', '~1', 0, 'list', 'msgpack', ?)", thread, id, []byte{byte(n & 0x7f)})
			parent = id
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// dirSize is the size of a directory in bytes.
func dirSize(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// TestImportKilled: an import that is killed, again and again, ends with the same store as one
// that was not.
func TestImportKilled(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 3))
	root := t.TempDir()
	source, dir, whole := filepath.Join(root, "many.sqlite"), filepath.Join(root, "store"), filepath.Join(root, "whole")
	const threads, steps = 4, 150
	manySteps(t, source, threads, steps)
	if out, errOut, code := stele(t, "import", "sqlite", source, whole); code != exitDone {
		t.Fatal(out, errOut)
	}
	full := dirSize(whole)
	kills := 0
	for round := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), childImport+"="+strings.Join([]string{"import", "sqlite", source, dir}, "\n"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		// Killed when the store has grown to some size, whenever that is.
		at := full * int64(round*20+rng.IntN(20)) / 100
		for alive := true; alive; {
			select {
			case <-ended:
				alive = false
			default:
				if dirSize(dir) > at {
					cancel()
					<-ended
					alive = false
					kills++
				}
			}
		}
		cancel()
		if _, err := os.Stat(dir); err == nil {
			out, errOut, code := stele(t, "verify", dir)
			unmade := strings.Contains(errOut, "not a stele store") // killed before the store was made
			if code != exitDone && !unmade {
				t.Fatalf("seed %d: the store after kill %d: exit code %d, %s%s", seed, round, code, out, errOut)
			}
		}
	}
	out, errOut, code := stele(t, "--json", "import", "sqlite", source, dir)
	var rep transferReport
	if err := json.Unmarshal([]byte(out), &rep); code != exitDone || err != nil || rep.Verified != threads*steps {
		t.Fatalf("seed %d: exit code %d, %s%s", seed, code, out, errOut)
	}
	t.Logf("killed %d times; the last import copied %d of %d checkpoints", kills, rep.Copied, rep.Checkpoints)
	if kills == 0 {
		t.Error("no import was killed")
	}
	if exported(t, dir) != exported(t, whole) {
		t.Errorf("seed %d: the store differs from one that was imported at once", seed)
	}
}

// TestBackupIsNoStore: who takes a backup for a store is told what it is, and how to make a store of it.
func TestBackupIsNoStore(t *testing.T) {
	w, dest := newWorld(t), filepath.Join(t.TempDir(), "backup")
	w.fixture()
	if out, errOut, code := stele(t, "backup", w.dir, dest); code != 0 {
		t.Fatal(out, errOut)
	}
	if _, errOut, code := stele(t, "threads", dest); code != 2 || !strings.Contains(errOut, "is a backup; make a store of it with stele restore") {
		t.Errorf("exit code %d, said %q", code, errOut)
	}
}
