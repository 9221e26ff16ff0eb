//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// TestShowWritesAlone: of a thread without a checkpoint show prints the pending writes, and every other way to look at it
// leads there. A thread that has a checkpoint is shown as ever.
func TestShowWritesAlone(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	script := func(t *testing.T, s saver.Saver, end func() error, where string, place ...string) {
		write := func(thread, ns, id, task, channel string, value any) {
			t.Helper()
			must(s.PutWrites(t.Context(), saver.Config{ThreadID: thread, Namespace: ns, CheckpointID: id}, []saver.Write{{Channel: channel, Value: saver.ValueOf(value)}}, task, ""))
		}
		write("alone", "", "1", "task-1", "a", "one")
		write("alone", "", "1", "task-1", "a", "again") // the first is kept
		write("alone", "", "1", "task-2", "b", "two")
		write("alone", "n:7", "2", "task-3", "c", "three")
		write("alone", "", "3", "task-4", "d", "four")
		_, err := s.Put(t.Context(), saver.Config{ThreadID: "whole"}, saver.Checkpoint{V: 4, ID: "2"}, saver.Metadata{}, nil)
		must(err)
		write("whole", "", "1", "task-1", "a", "one")
		must(end())
		shown := func(want int, args ...string) string {
			t.Helper()
			out, errOut, code := stele(t, append(append([]string{"show"}, place...), args...)...)
			if code != want {
				t.Errorf("show %q: exit code %d, want %d: %s", args, code, want, errOut)
			}
			return out + errOut
		}
		if got := shown(exitDone, "alone"); got != writesShown {
			t.Errorf("show prints\n%s\nwant\n%s", got, writesShown)
		}
		got := strings.Join(strings.Fields(shown(exitDone, "alone", "--json")), "")
		if !strings.HasPrefix(got, `{"thread":"alone","writes":[{"namespace":"","checkpoint":"1","task":"task-1","channel":"a","index":0,`) || strings.Count(got, `"task"`) != 4 {
			t.Error(got)
		}
		for _, args := range [][]string{{"alone", "--history", "0"}, {"alone", "--checkpoint", "1"}, {"alone", "--ns", "n:7"}} {
			if got, want := shown(exitFailed, args...), `thread "alone" has no checkpoint; see its writes with stele show `+where+` alone`; !strings.Contains(got, want) {
				t.Errorf("show %q says %q, want %q", args, got, want)
			}
		}
		if got := shown(exitDone, "whole"); strings.Contains(got, "task-1") {
			t.Error(got)
		}
		if got := shown(exitFailed, "nobody"); !strings.Contains(got, `no thread "nobody"`) {
			t.Error(got)
		}
	}
	t.Run("disk", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "store")
		d, err := disk.Open(dir, disk.Options{})
		must(err)
		script(t, d, d.Close, dir, dir)
		out := filepath.Join(t.TempDir(), "out")
		if _, errOut, code := stele(t, "export", "ndjson", dir, out); code != exitFound {
			t.Errorf("exit code %d: %s", code, errOut)
		}
		if kept, err := os.ReadFile(out + ".rejects.ndjson"); err != nil || !strings.Contains(string(kept), "a thread without a checkpoint cannot be copied; stele show shows its writes") {
			t.Errorf("%v: kept apart %s", err, kept)
		}
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url, _ := postgresServer(t)
		must(postgres.Setup(t.Context(), url, postgres.Options{}))
		s, err := postgres.Open(t.Context(), url, postgres.Options{})
		must(err)
		script(t, s, s.Close, `--postgres "$URL"`, "--postgres", url)
	})
}

const writesShown = `thread      alone
checkpoint  none

pending writes of checkpoint 1, namespace "", which is not stored
  task task-1  a[0]  msgpack, 4 B
    "one"
  task task-2  b[0]  msgpack, 4 B
    "two"

pending writes of checkpoint 3, namespace "", which is not stored
  task task-4  d[0]  msgpack, 5 B
    "four"

pending writes of checkpoint 2, namespace n:7, which is not stored
  task task-3  c[0]  msgpack, 6 B
    "three"
`
