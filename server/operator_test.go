package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/server"
)

// TestUpkeep: operators see what takes the room, have the store checked, and make backups of
// it where the program says, and nowhere else.
func TestUpkeep(t *testing.T) {
	dir, dest := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	h := open(t, dir, func(c *server.Config) { c.BackupDir = dest })
	id := h.thread()
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": strings.Repeat("x", 5000)}})
	info := h.ok("GET", "/info", nil).sub("stele").object()
	if v := info["graph_versions"].(object)["simple"]; v != h.graphs(h.disk)["simple"].Version() {
		t.Errorf("the version of a graph: %v", v)
	}
	for _, power := range []string{"room", "verify", "backup"} {
		if info[power] != true {
			t.Errorf("%s: %v", power, info[power])
		}
	}
	room := h.ok("GET", "/stele/room", nil).object()
	largest := room["channels"].([]any)[0].(object)
	if largest["channel"] != "text" && largest["channel"] != "__start__" || largest["bytes"].(float64) < 5000 || room["bytes"].(float64) < largest["bytes"].(float64) {
		t.Errorf("room: %v", room)
	}
	if r := h.ok("POST", "/stele/verify", nil).object(); len(r["damage"].([]any)) != 0 || r["checkpoints"].(float64) != 4 {
		t.Errorf("verify: %v", r)
	}
	for range 2 { // the second one goes on with the first
		if r := h.ok("POST", "/stele/backup", nil).object(); r["dest"] != dest || r["files"].(float64) == 0 {
			t.Errorf("backup: %v", r)
		}
	}

	// Damage is told.
	if err := h.disk.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	segments, _ := filepath.Glob(filepath.Join(dir, "*.seg"))
	if len(segments) == 0 {
		t.Fatal("no segment to damage")
	}
	text := must(os.ReadFile(segments[0]))
	text[len(text)/2] ^= 0xff
	if err := os.WriteFile(segments[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := h.ok("POST", "/stele/verify", nil).object(); len(r["damage"].([]any)) == 0 {
		t.Errorf("verify: %v", r)
	}
	h.shut()

	// A directory of something else is left alone.
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "letter.txt"), []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	h = open(t, t.TempDir(), func(c *server.Config) { c.BackupDir = other })
	h.refused(409, "POST", "/stele/backup", nil)
	if left, _ := os.ReadDir(other); len(left) != 1 {
		t.Errorf("%v", left)
	}
	h.shut()

	h = open(t, t.TempDir(), nil) // no directory for backups
	if info := h.ok("GET", "/info", nil).sub("stele").object(); info["backup"] != false || info["verify"] != true {
		t.Errorf("%v", info)
	}
	h.refused(404, "POST", "/stele/backup", nil)
	h.shut()
	h = open(t, t.TempDir(), func(c *server.Config) { c.ReadOnly, c.BackupDir = true, other })
	if info := h.ok("GET", "/info", nil).sub("stele").object(); info["backup"] != false || info["verify"] != false || info["room"] != true {
		t.Errorf("%v", info)
	}
	h.refused(403, "POST", "/stele/backup", nil)
	h.refused(403, "POST", "/stele/verify", nil)
	h.ok("GET", "/stele/room", nil)
}
