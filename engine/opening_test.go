package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// endingFS ends a context with one of the reads through it, and counts those that begin
// after it has ended.
type endingFS struct {
	vfs.FS
	end   context.CancelFunc
	at    int64 // which read
	reads atomic.Int64
	ended atomic.Bool
	after atomic.Int64
}

type endingFile struct {
	vfs.File
	fs *endingFS
}

func (f *endingFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	return endingFile{file, f}, err
}

func (f endingFile) ReadAt(b []byte, off int64) (int, error) {
	if f.fs.ended.Load() {
		f.fs.after.Add(1)
	}
	if f.fs.reads.Add(1) == f.fs.at {
		f.fs.end()
		f.fs.ended.Store(true)
	}
	return f.File.ReadAt(b, off)
}

// openingStore is a store with two segments, images and a log, and the value of each of
// its partitions.
func openingStore(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem(vfs.MemOptions{})
	e := mustOpen(t, Options{FS: mem, ManualWork: true})
	for seg := range 3 {
		for i := range 20 {
			mustPut(t, e, fmt.Sprint("t", i), fmt.Sprint("k", seg), strings.Repeat("value", 100))
		}
		if seg < 2 {
			must(t, e.Flush(t.Context()))
		}
	}
	must(t, e.Close())
	return mem
}

// TestOpeningEnds: whatever Open is reading, it ends with the context that it is wanted
// for, at the next read; the store is as it was.
func TestOpeningEnds(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(mem *vfs.Mem)
		o       Options
	}{
		"with its images":  {func(*vfs.Mem) {}, Options{}},
		"without them":     {func(mem *vfs.Mem) { must(t, mem.Remove(lastFile(t, mem, ".img"))) }, Options{}},
		"for reading":      {func(*vfs.Mem) {}, Options{ReadOnly: true}},
		"past damage":      {func(mem *vfs.Mem) { cutSegment(t, mem) }, Options{ReadOnly: true, AllowDamage: true}},
		"on one goroutine": {func(*vfs.Mem) {}, Options{Inline: true}},
	} {
		t.Run(name, func(t *testing.T) {
			for at := int64(1); ; at++ {
				mem := openingStore(t)
				c.prepare(mem)
				ctx, end := context.WithCancel(t.Context())
				fsys := &endingFS{FS: mem, end: end, at: at}
				o := c.o
				o.FS, o.ManualWork, o.Opening = fsys, true, ctx
				e, err := Open("store", o)
				after := fsys.after.Load()
				switch {
				case err == nil && ctx.Err() == nil:
					if at < 5 {
						t.Errorf("open took %d reads", at-1)
					}
					must(t, e.Close())
					end()
					return
				case after > 1: // one may have been under way beside it
					t.Fatalf("%d reads after the end: %v", after, err)
				case err == nil: // it was the last one
					must(t, e.Close())
				case !errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrCorrupt):
					t.Fatalf("ended with read %d: %v", at, err)
				}
				if c.o.ReadOnly {
					continue
				}
				e = mustOpen(t, Options{FS: mem, ManualWork: true})
				for i := range 20 {
					th, err := e.Partition(fmt.Sprint("t", i))
					must(t, err)
					entries := 0
					th.Ascend("", func(*index.Entry) bool { entries++; return true })
					if entries != 3 {
						t.Fatalf("ended with read %d: thread %d has %d entries", at, i, entries)
					}
				}
				must(t, e.Close())
			}
		})
	}
}

// TestOpenIsOpen: the context means nothing to a store that is open.
func TestOpenIsOpen(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	e := mustOpen(t, Options{FS: openingStore(t), ManualWork: true, Opening: ctx})
	end()
	mustPut(t, e, "t1", "k9", "value")
	must(t, errors.Join(e.Flush(t.Context()), e.Compact(t.Context()), e.Close()))
}

// lastFile is the last file with that extension.
func lastFile(t *testing.T, mem *vfs.Mem, ext string) (path string) {
	t.Helper()
	names, err := mem.List("store")
	must(t, err)
	for _, n := range names {
		if filepath.Ext(n) == ext {
			path = filepath.Join("store", n)
		}
	}
	return path
}

// cutSegment takes the footer off a segment.
func cutSegment(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	f, err := mem.OpenReadWrite(lastFile(t, mem, ".seg"))
	must(t, err)
	size, err := f.Size()
	must(t, errors.Join(err, f.Truncate(size-64), f.Close()))
}
