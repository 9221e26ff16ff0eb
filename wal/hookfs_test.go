package wal

import (
	"sync"

	"github.com/stele-go/stele/base/vfs"
)

// hookFS asks a hook before each operation that writes.
type hookFS struct {
	vfs.FS
	mu   sync.Mutex
	hook func(op fsOp) error
	log  []string
}

// fsOp is an operation about to happen.
type fsOp struct {
	kind string // create, open, write, sync, syncdata, truncate, rename, remove, syncdir
	name string
	off  int64
	data []byte
}

// shortWrite as the error of a hook lets the first n bytes through.
type shortWrite struct {
	n   int
	err error
}

func (s *shortWrite) Error() string { return s.err.Error() }
func (s *shortWrite) Unwrap() error { return s.err }

func (h *hookFS) set(hook func(fsOp) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook, h.log = hook, nil
}

func (h *hookFS) kinds() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.log...)
}

func (h *hookFS) ask(op fsOp) error {
	h.mu.Lock()
	hook := h.hook
	h.log = append(h.log, op.kind)
	h.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op)
}

func (h *hookFS) Create(name string) (vfs.File, error) {
	if err := h.ask(fsOp{kind: "create", name: name}); err != nil {
		return nil, err
	}
	f, err := h.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &hookFile{File: f, h: h, name: name}, nil
}

func (h *hookFS) OpenReadWrite(name string) (vfs.File, error) {
	if err := h.ask(fsOp{kind: "open", name: name}); err != nil {
		return nil, err
	}
	f, err := h.FS.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	return &hookFile{File: f, h: h, name: name}, nil
}

func (h *hookFS) Rename(a, b string) error {
	if err := h.ask(fsOp{kind: "rename", name: a}); err != nil {
		return err
	}
	return h.FS.Rename(a, b)
}

func (h *hookFS) Remove(name string) error {
	if err := h.ask(fsOp{kind: "remove", name: name}); err != nil {
		return err
	}
	return h.FS.Remove(name)
}

func (h *hookFS) SyncDir(dir string) error {
	if err := h.ask(fsOp{kind: "syncdir", name: dir}); err != nil {
		return err
	}
	return h.FS.SyncDir(dir)
}

type hookFile struct {
	vfs.File
	h    *hookFS
	name string
}

func (f *hookFile) WriteAt(b []byte, off int64) (int, error) {
	err := f.h.ask(fsOp{kind: "write", name: f.name, off: off, data: b})
	if err == nil {
		return f.File.WriteAt(b, off)
	}
	if s, ok := err.(*shortWrite); ok {
		n, werr := f.File.WriteAt(b[:min(s.n, len(b))], off)
		if werr != nil {
			return n, werr
		}
		return n, s.err
	}
	return 0, err
}

func (f *hookFile) Sync() error {
	if err := f.h.ask(fsOp{kind: "sync", name: f.name}); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *hookFile) SyncData() error {
	if err := f.h.ask(fsOp{kind: "syncdata", name: f.name}); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *hookFile) Truncate(n int64) error {
	if err := f.h.ask(fsOp{kind: "truncate", name: f.name, off: n}); err != nil {
		return err
	}
	return f.File.Truncate(n)
}
