package engine

import (
	"fmt"

	"github.com/stele-go/stele/base/vfs"
)

// endsOpening is d; while the store is being opened, and Options.Opening has ended, no
// file in it is read. Open may read for long: a log to replay, the segments that an index
// is made of, the frames of a damaged one. All of it is one read after the other, so
// nothing of that has to ask by itself.
func (e *Engine) endsOpening(d vfs.Dir) vfs.Dir {
	if e.Opts.Opening == nil {
		return d
	}
	return openingDir{d, e}
}

// stillWanted is nil unless whoever wanted the store opened has given up.
func (e *Engine) stillWanted() error {
	if e.isOpen.Load() {
		return nil
	}
	if err := e.Opts.Opening.Err(); err != nil {
		return fmt.Errorf("given up: %w", err)
	}
	return nil
}

type openingDir struct {
	vfs.Dir
	e *Engine
}

// Open implements vfs.FS.
func (d openingDir) Open(name string) (vfs.File, error) {
	if err := d.e.stillWanted(); err != nil {
		return nil, err
	}
	f, err := d.Dir.Open(name)
	if err != nil {
		return nil, err
	}
	return openingFile{f, d.e}, nil
}

type openingFile struct {
	vfs.File
	e *Engine
}

// ReadAt implements vfs.File.
func (f openingFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.e.stillWanted(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

// NextData implements vfs.DataSeeker.
func (f openingFile) NextData(off int64) (int64, error) {
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	return vfs.NextData(f.File, off, size)
}
