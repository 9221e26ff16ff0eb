package segment

import (
	"errors"
	"io"
	"sync"
)

// memFile is a file in memory that counts what is done to it.
type memFile struct {
	mu      sync.Mutex
	b       []byte
	synced  int // length at the last sync
	syncs   int
	maxGap  int // most bytes ever unsynced
	closed  bool
	readErr error
	reads   int
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, errors.New("file is closed")
	}
	f.reads++
	if f.readErr != nil {
		return 0, f.readErr
	}
	if off >= int64(len(f.b)) {
		return 0, io.EOF
	}
	n := copy(p, f.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off != int64(len(f.b)) {
		return 0, errors.New("builder wrote out of order")
	}
	f.b = append(f.b, p...)
	f.maxGap = max(f.maxGap, len(f.b)-f.synced)
	return len(p), nil
}

func (f *memFile) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced = len(f.b)
	f.syncs++
	return nil
}

func (f *memFile) SyncData() error           { return f.Sync() }
func (f *memFile) Attached() (int64, error)  { return f.Size() }
func (f *memFile) Truncate(size int64) error { f.b = f.b[:size]; return nil }
func (f *memFile) Size() (int64, error)      { return int64(len(f.b)), nil }
func (f *memFile) Close() error              { f.closed = true; return nil }
