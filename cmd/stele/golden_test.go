package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutput pins what every command writes, for people and for machines.
func TestOutput(t *testing.T) {
	w := newWorld(t)
	w.fixture()
	root := filepath.Dir(w.dir)
	in := func(name string) string { return filepath.Join(w.dir, name) }
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"info", []string{"info", w.dir}, 0},
		{"stats", []string{"stats", w.dir}, 0},
		{"threads", []string{"threads", w.dir}, 0},
		{"threads-all", []string{"threads", w.dir, "--all"}, 0},
		{"threads-page", []string{"threads", w.dir, "--limit", "1", "--after", "a"}, 0},
		{"threads-waiting", []string{"threads", w.dir, "--status", "waiting"}, 0},
		{"threads-lost", []string{"threads", w.dir, "--status", "lost"}, 2},
		{"log", []string{"log", w.dir}, 0},
		{"log-ops", []string{"log", w.dir, "--ops", "--marks"}, 0},
		{"log-thread", []string{"log", w.dir, "--thread", "bob"}, 0},
		{"show", []string{"show", w.dir, "alice"}, 0},
		{"show-checkpoint", []string{"show", w.dir, "alice", "--checkpoint", checkpointID(1)}, 0},
		{"show-history", []string{"show", w.dir, "alice", "--history", "2"}, 0},
		{"show-unknown", []string{"show", w.dir, "nobody"}, 2},
		{"diff", []string{"diff", w.dir, "alice", checkpointID(1), checkpointID(3)}, 0},
		{"verify", []string{"verify", w.dir}, 0},
		{"dump-manifest", []string{"dump", in("MANIFEST-000001")}, 0},
		{"dump-log", []string{"dump", in("000007.log")}, 0},
		{"dump-segment", []string{"dump", in("000005.seg")}, 0},
		{"dump-image", []string{"dump", in("000008.img")}, 0},
		{"dump-headers", []string{"dump", in("000002.seg"), "--headers"}, 0},
		{"dump-lock", []string{"dump", in("LOCK")}, 0},
		{"dump-mark", []string{"dump", in("DURABLE")}, 0},
		{"dump-stranger", []string{"dump", os.Args[0]}, 2},
		{"not-a-store", []string{"info", root}, 2},
		{"usage", []string{"show", w.dir}, 2},
		{"export-nothing", []string{"export", w.dir}, 2},
		{"import-nothing", []string{"import", w.dir}, 2},
	} {
		for _, form := range []string{"", "--json"} {
			name, args := c.name, c.args
			if form != "" {
				name, args = c.name+"-json", append([]string{form}, c.args...)
			}
			t.Run(name, func(t *testing.T) {
				out, errOut, code := stele(t, args...)
				if code != c.code {
					t.Errorf("exit code %d, want %d: %s", code, c.code, errOut)
				}
				golden(t, name, strings.ReplaceAll(stable(out+errOut, root), os.Args[0], "STRANGER"))
			})
		}
	}
}

// TestProgressOutput pins what is said of threads that have come to different points.
func TestProgressOutput(t *testing.T) {
	w := newWorld(t)
	w.progress()
	for _, c := range []struct {
		name string
		args []string
	}{
		{"progress-threads", []string{"threads", w.dir}},
		{"progress-unfinished", []string{"threads", w.dir, "--unfinished"}},
		{"progress-unfinished-json", []string{"--json", "threads", w.dir, "--unfinished"}},
		{"progress-failed", []string{"threads", w.dir, "--status", "failed"}},
		{"progress-show", []string{"show", w.dir, "crashed"}},
		{"progress-show-json", []string{"--json", "show", w.dir, "crashed"}},
		{"progress-show-older", []string{"show", w.dir, "crashed", "--checkpoint", checkpointID(1)}},
		{"progress-show-paused", []string{"show", w.dir, "paused"}},
		{"progress-show-ended", []string{"show", w.dir, "ended"}},
		{"progress-stats", []string{"stats", w.dir}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errOut, code := stele(t, c.args...)
			if code != 0 || errOut != "" {
				t.Errorf("exit code %d: %s", code, errOut)
			}
			golden(t, c.name, stable(out, filepath.Dir(w.dir)))
		})
	}
}
