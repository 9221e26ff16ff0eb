package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// TestReleaseCommand: a store that was restored is held until the command releases it, which says what goes on; a second time is nothing.
func TestReleaseCommand(t *testing.T) {
	root := t.TempDir()
	dir, backup, restored := filepath.Join(root, "store"), filepath.Join(root, "backup"), filepath.Join(root, "restored")
	d, err := disk.Open(dir, disk.Options{})
	must(t, err)
	items, err := store.On(d, store.Options{})
	must(t, err)
	q, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	must(t, err)
	for _, thread := range []string{"a", "b"} {
		_, err = q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "g"}})
		must(t, err)
	}
	_, err = q.PutSchedule(t.Context(), runs.Schedule{ID: "s", Cron: "@hourly", Spec: runs.Spec{Graph: "g"}})
	must(t, err)
	_, err = d.PutRequest(t.Context(), saver.PutRequest{Config: saver.Config{ThreadID: "cut off"}, Checkpoint: saver.Checkpoint{ID: "1"},
		Note: &saver.Note{Graph: "g", Next: []string{"n"}}})
	must(t, err)
	must(t, items.Close())
	must(t, d.Close())

	run := func(args ...string) string {
		t.Helper()
		out, errOut, code := stele(t, args...)
		if code != exitDone {
			t.Fatalf("%v ends with %d: %s%s", args, code, out, errOut)
		}
		return out
	}
	run("backup", dir, backup)
	if out := run("restore", backup, restored); !strings.Contains(out, "stele release "+restored) {
		t.Errorf("restore says %s", out)
	}
	if out := run("info", restored); !strings.Contains(out, "held ") {
		t.Errorf("info says %s", out)
	}
	var rep released
	must(t, json.Unmarshal([]byte(run("--json", "release", restored)), &rep))
	if rep != (released{Dir: restored, Held: true, Runs: 2, Schedules: 1, Threads: 1}) {
		t.Errorf("released %+v", rep)
	}
	if out := run("release", restored); !strings.HasSuffix(out, "is not held\n") {
		t.Errorf("the second release says %s", out)
	}
	if out := run("info", restored); strings.Contains(out, "held ") {
		t.Errorf("info says %s", out)
	}
	again := filepath.Join(root, "again")
	run("restore", backup, filepath.Join(root, "held"))
	if out := run("release", filepath.Join(root, "held")); !strings.Contains(out, "released: 2 runs, 1 schedule, 1 thread that") {
		t.Errorf("release says %s", out)
	}
	if out := run("restore", backup, again, "--release"); strings.Contains(out, "held") {
		t.Errorf("restore --release says %s", out)
	}
	if out := run("release", again); !strings.HasSuffix(out, "is not held\n") {
		t.Errorf("release behind restore --release says %s", out)
	}
	_, errOut, code := stele(t, "release", filepath.Join(root, "none"))
	if code != exitFailed || goWords.MatchString(errOut) {
		t.Errorf("release of nothing ends with %d: %s", code, errOut)
	}
}
