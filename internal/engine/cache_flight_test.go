package engine

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/internal/vfs"
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
func TestMissesShareARead(t *testing.T) {
	fsys := &slowReads{FS: vfs.NewMem(vfs.MemOptions{}), held: make(chan struct{}), let: make(chan struct{})}
	e := mustOpen(t, Options{FS: fsys, ManualWork: true})
	defer func() { _ = e.Close() }()
	mustAll(t, putOne(e, "t", "k", "the value"), e.Flush(t.Context()))
	th, err := e.Partition("t")
	mustAll(t, err)
	ref := th.Last("").Slots[0].Ref
	h, err := e.files.Acquire(e.manifest.State().Segments[0].Num) // open it first
	mustAll(t, err)
	e.files.Release(h)
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
	waiting := func() int {
		f := e.cache.flights
		f.mu.Lock()
		defer f.mu.Unlock()
		n := 0
		for _, fl := range f.m {
			n += fl.waiters
		}
		return n
	}
	for waiting() < readers-1 {
		time.Sleep(time.Millisecond)
	}
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

// TestFlightFails lets those who wait for a read that fails read for themselves.
func TestFlightFails(t *testing.T) {
	f := newFlights()
	key, begun, let := blockKey{file: 1, off: 2}, make(chan struct{}), make(chan struct{})
	failed := errors.New("failed")
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _, err := f.read(key, func() ([]byte, error) { close(begun); <-let; return nil, failed })
		if !errors.Is(err, failed) {
			t.Errorf("the first reader got %v", err)
		}
	})
	<-begun
	wg.Go(func() {
		b, shared, err := f.read(key, func() ([]byte, error) { return []byte("x"), nil })
		if string(b) != "x" || shared || err != nil {
			t.Errorf("the second reader got %q, %t, %v", b, shared, err)
		}
	})
	close(let)
	wg.Wait()
	if len(f.m) != 0 {
		t.Errorf("%d reads are still in progress", len(f.m))
	}
}
