package backup

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/engine"
)

// TestUnreadableBackup: a sector of a backup that the device cannot read is damage at its place. Check goes on to
// the other files, a backup with Options.Check copies the file again, and a restore makes nothing.
func TestUnreadableBackup(t *testing.T) {
	mem, inj := vfs.NewMem(vfs.MemOptions{}), faultfs.NewInjector()
	o := Options{Engine: engine.Options{FS: mem, ManualWork: true}, Dest: faultfs.New(mem, inj), Check: true}
	e, err := engine.Open("store", o.Engine)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"one", "two"} {
		v, err := engine.NewValue([]byte(strings.Repeat(key, 1000)))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Commit(t.Context(), []string{"p"}, func(tx *engine.Tx) error {
			return tx.Put("p", key, 0, []engine.SlotIn{{Name: "s", Value: &v}})
		}); err != nil {
			t.Fatal(err)
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(t.Context(), "store", "backup", o); err != nil {
		t.Fatal(err)
	}
	names, err := mem.List("backup")
	if err != nil {
		t.Fatal(err)
	}
	bad := 0
	for _, name := range names {
		if name == lockName {
			continue
		}
		bad++
		inj.Set(faultfs.Rule{Op: faultfs.OpReadAt, PathGlob: filepath.Join("backup", name), To: 512, Sticky: true})
		list, damage, err := Check(t.Context(), "backup", Options{Engine: engine.Options{FS: o.Dest}})
		var corrupt *fault.CorruptionError
		switch {
		case name == Name:
			if err == nil {
				t.Error("the list is read")
			}
		case err != nil || len(damage) != 1 || !errors.As(damage[0], &corrupt) || corrupt.File != name || corrupt.Offset != 0 || len(list.Files) < 3:
			t.Errorf("%s: %v, %v", name, damage, err)
		}
		if _, err := Restore(t.Context(), "backup", "again", Options{Engine: engine.Options{FS: o.Dest}, Dest: mem}); err == nil {
			t.Errorf("%s: restored", name)
		}
		rep, err := Make(t.Context(), "store", "backup", o)
		if err != nil || rep.CopiedFiles == 0 {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
		inj.Set()
		if _, damage, err := Check(t.Context(), "backup", Options{Engine: engine.Options{FS: mem}}); err != nil || damage != nil {
			t.Errorf("%s, copied again: %v, %v", name, damage, err)
		}
	}
	if bad < 4 {
		t.Errorf("files %q", names)
	}
}
