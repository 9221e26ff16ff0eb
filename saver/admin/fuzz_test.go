package admin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// FuzzDump: any bytes, under any name, are explained or refused: no panic, and the
// stretches follow one another from the first byte on without a gap.
func FuzzDump(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "store")
	d, err := disk.Open(dir, disk.Options{ManualWork: true})
	if err == nil {
		err = errors.Join(put(d, "t", 1), d.Flush(context.Background()), d.DeleteThread(context.Background(), "t"), put(d, "u", 1), d.Close())
	}
	if err != nil {
		f.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(dir, n.Name()))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(n.Name(), b)
		f.Add(n.Name(), b[:len(b)*2/3])
		damaged := append([]byte(nil), b...)
		damaged[len(b)/2] ^= 0x55
		f.Add(n.Name(), damaged)
	}
	f.Add("BACKUP", []byte("stele-backup 1 0000000000000000\n{}"))
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		name = filepath.Base(name)
		mem := vfs.NewMem(vfs.MemOptions{})
		file, err := mem.Create(name)
		if err != nil {
			return // no name for a file
		}
		if _, err := file.WriteAt(b, 0); err != nil || file.Close() != nil {
			t.Fatal(err)
		}
		end := int64(0)
		for e, err := range Dump(context.Background(), name, Access{Options: disk.Options{Simulation: disk.Simulation{FS: mem}}}) {
			if err != nil {
				if !errors.Is(err, fault.ErrNotStore) && !errors.Is(err, fault.ErrVersion) && !errors.Is(err, saver.ErrCorrupt) {
					t.Fatal(err)
				}
				return
			}
			if e.Offset != end || e.Size < 0 {
				t.Fatalf("%s: %s of %d bytes at %d, the one before ended at %d", name, e.Kind, e.Size, e.Offset, end)
			}
			end += e.Size
		}
		if end > int64(len(b)) {
			t.Fatalf("%s: explained %d bytes of %d", name, end, len(b))
		}
	})
}
