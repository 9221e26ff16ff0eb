package engine

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stele-go/stele/base/vfs"
)

// slowReads counts reads of segments, and holds the first until it is let go.
type slowReads struct {
	vfs.FS
	armed atomic.Bool
	reads atomic.Int64
	held  chan struct{} // closed when the first read has begun
	let   chan struct{} // closed to let it go
}

func (s *slowReads) Open(name string) (vfs.File, error) {
	f, err := s.FS.Open(name)
	return &slowFile{File: f, s: s}, err
}

type slowFile struct {
	vfs.File
	s *slowReads
}

func (f *slowFile) ReadAt(b []byte, off int64) (int, error) {
	if f.s.armed.Load() && f.s.reads.Add(1) == 1 {
		close(f.s.held)
		<-f.s.let
	}
	return f.File.ReadAt(b, off)
}

// TestMissesShareARead has many readers of one block, which is not in the cache, at
// once.
func TestMissesShareARead(t *testing.T) { synctest.Test(t, missesShareARead) }

func missesShareARead(t *testing.T) {
	fsys := &slowReads{FS: vfs.NewMem(vfs.MemOptions{}), held: make(chan struct{}), let: make(chan struct{})}
	e := mustOpen(t, Options{FS: fsys, ManualWork: true})
	defer func() { _ = e.Close() }()
	mustAll(t, putOne(e, "t", "k", "the value"), e.Flush(t.Context()))
	th, err := e.Partition("t")
	mustAll(t, err)
	ref := th.Last("").Slots.At(0).Ref
	h, err := e.Files.Acquire(e.manifest.State().Segments[0].Num) // open it first
	mustAll(t, err)
	e.Files.Release(h)
	fsys.armed.Store(true)
	const readers = 20
	results := make([][]byte, readers)
	errs := make([]error, readers)
	var wg sync.WaitGroup
	read := func(i int) {
		wg.Go(func() { results[i], errs[i] = e.ReadValue(context.Background(), th.Family, ref) })
	}
	read(0)
	<-fsys.held
	for i := 1; i < readers; i++ {
		read(i)
	}
	synctest.Wait()
	close(fsys.let)
	wg.Wait()
	for i := range readers {
		if errs[i] != nil || !bytes.Equal(results[i], results[0]) || len(results[i]) == 0 {
			t.Fatalf("reader %d got %q, %v", i, results[i], errs[i])
		}
		if i > 0 && &results[i][0] == &results[0][0] {
			t.Fatal("two readers share the bytes of a value")
		}
	}
	if n := fsys.reads.Load(); n != 1 {
		t.Errorf("%d readers read %d times, want once", readers, n)
	}
}
