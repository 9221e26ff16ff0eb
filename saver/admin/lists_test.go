package admin

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/saver/disk"
)

// TestLists: a store whose image has lists of frames is dumped, verified, backed up and
// salvaged like any other, and dump tells where each list leads.
func TestLists(t *testing.T) {
	const n = 250
	root := t.TempDir()
	dir := filepath.Join(root, "store")
	d, err := disk.Open(dir, disk.Options{ManualWork: true})
	fatal(t, err)
	for i := range n {
		fatal(t, put(d, fmt.Sprintf("%03d-%s", i, strings.Repeat("x", 1000)), 1))
	}
	fatal(t, errors.Join(d.Flush(t.Context()), d.Close()))
	images, err := filepath.Glob(filepath.Join(dir, "*.img"))
	fatal(t, err)
	frames, led := map[int64]string{}, map[int64]bool{}
	for _, name := range images {
		for e, err := range Dump(t.Context(), name, Access{}) {
			if err != nil || e.Error != "" {
				t.Fatal(e, err)
			}
			frames[e.Offset] = e.Kind
			if e.Kind != "thread list" {
				continue
			}
			for _, l := range e.Lines {
				var at int64
				if _, err := fmt.Sscanf(l.Text[strings.LastIndex(l.Text, "at "):], "at %d", &at); err != nil || frames[at] != "threads" || !strings.Contains(l.Text, "xxx") {
					t.Errorf("%q leads to a frame of %s", l.Text, frames[at])
				}
				led[at] = true
			}
		}
	}
	if len(led) < 9 {
		t.Errorf("the lists lead to %d frames of threads", len(led))
	}
	if rep, err := Verify(t.Context(), dir, VerifyOptions{}); err != nil || !rep.Clean() || rep.Threads != n {
		t.Errorf("verify: %+v, %v", rep, err)
	}
	if rep, err := Backup(t.Context(), dir, filepath.Join(root, "copy"), BackupOptions{}); err != nil {
		t.Errorf("backup: %+v, %v", rep, err)
	}
	sv, err := Salvage(t.Context(), dir, filepath.Join(root, "new"), SalvageOptions{})
	if err != nil || !sv.Complete() || sv.Threads != n {
		t.Errorf("salvage: %+v, %v", sv, err)
	}
}
