package segment

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
)

// TestFileSystems writes a segment through each file system, reads it through
// the handle it was written with, and again after reopening it by name.
func TestFileSystems(t *testing.T) {
	for name, fs := range map[string]vfs.FS{
		"os":      vfs.OS{},
		"mem":     vfs.NewMem(vfs.MemOptions{}),
		"windows": vfs.NewMem(vfs.MemOptions{WindowsRules: true}),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, fs.MkdirAll(dir))
			path := filepath.Join(dir, base.SegmentFile.Name(12))
			f, err := fs.Create(path)
			must(t, err)
			or, props := smallInto(t, f, BuilderOptions{SyncEvery: 500})
			size, err := f.Size()
			must(t, err)
			if size != props.Size {
				t.Fatalf("file has %d bytes, props say %d", size, props.Size)
			}
			r, err := Open(f, base.SegmentFile.Name(12), size)
			must(t, err)
			or.check(t, r)
			must(t, r.Close())

			f, err = fs.Open(path)
			must(t, err)
			r, err = OpenFooter(f, base.SegmentFile.Name(12), size)
			must(t, err)
			or.check(t, r)
			must(t, r.Close())
			must(t, fs.Remove(path))
		})
	}
}

// TestDeviceFull: ENOSPC comes through from wherever it happens.
func TestDeviceFull(t *testing.T) {
	v := noise(rand.New(rand.NewPCG(1, 1)), 200<<10)
	for capacity := int64(4 << 10); ; capacity += 96 << 10 {
		fs := vfs.NewMem(vfs.MemOptions{Capacity: capacity})
		f, err := fs.Create("/000012.seg")
		must(t, err)
		b, err := NewBuilder(f, BuilderOptions{FileNum: 12})
		must(t, err)
		for id := uint64(0); id < 3 && err == nil; id++ {
			err = errors.Join(b.BeginFamily(id), b.AddHot(ValueID{1, 0}, v), b.EndFamily(v))
		}
		_, ferr := b.Finish()
		must(t, f.Close())
		if err == nil && ferr == nil {
			if capacity < 1200<<10 {
				t.Fatalf("1,200 KiB of noise fitted into %d bytes", capacity)
			}
			return
		}
		if !errors.Is(ferr, syscall.ENOSPC) || err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("capacity %d: %v, %v", capacity, err, ferr)
		}
	}
}
