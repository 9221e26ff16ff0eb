package backup

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/check"
)

// TestUnreadableBackup: a sector of a backup that the device cannot read is damage at its place, and a file that it
// cannot open is damage as a whole. Check goes on to the other files, a backup with Options.Check copies the file again,
// and a restore makes nothing, or goes without images. An error of the device that it writes to is no damage.
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
	for i := range 2 * len(names) {
		name, rule := names[i/2], faultfs.Rule{Op: faultfs.OpReadAt, To: 512}
		if name == lockName {
			continue
		}
		bad++
		offset := int64(0)
		if i%2 == 1 {
			rule, offset = faultfs.Rule{Op: faultfs.OpOpen}, -1
		}
		rule.PathGlob, rule.Sticky = filepath.Join("backup", name), true
		inj.Set(rule)
		list, damage, err := Check(t.Context(), "backup", Options{Engine: engine.Options{FS: o.Dest}})
		var corrupt *fault.CorruptionError
		switch {
		case name == Name:
			if err == nil {
				t.Error("the list is read")
			}
		case err != nil || len(damage) != 1 || !errors.As(damage[0], &corrupt) || corrupt.File != name || corrupt.Offset != offset || len(list.Files) < 3:
			t.Errorf("%s: %v, %v", name, damage, err)
		}
		again := fmt.Sprint("again", i)
		res, err := Restore(t.Context(), "backup", again, Options{Engine: engine.Options{FS: o.Dest}, Dest: mem})
		if image := filepath.Ext(name) == ".img"; image != (err == nil) {
			t.Errorf("%s: restored: %v", name, err)
		} else if image {
			last := res.Findings[len(res.Findings)-1]
			left, err := mem.List(again)
			if err != nil || last.File != name || !last.Notice || slices.ContainsFunc(left, func(n string) bool { return filepath.Ext(n) == ".img" }) {
				t.Errorf("%s: restored with %+v, %v, %v", name, last, left, err)
			}
			found, err := check.Run(t.Context(), again, engine.Options{FS: mem}, nil)
			if err != nil || found.Damaged() || found.Values != res.Values || found.Values == 0 {
				t.Errorf("%s: what was restored: %+v, %v", name, found, err)
			}
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
	if bad < 8 {
		t.Errorf("files %q", names)
	}
	inj.Set(faultfs.Rule{Op: faultfs.OpWriteAt, PathGlob: filepath.Join("full", "*.img")})
	if _, err := Restore(t.Context(), "backup", "full", Options{Engine: engine.Options{FS: mem}, Dest: o.Dest}); !errors.Is(err, syscall.EIO) || inj.Count() == 0 {
		t.Errorf("an image that cannot be written: %v", err)
	}
}
