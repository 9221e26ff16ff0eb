package engine

import (
	"fmt"

	"github.com/stele-go/stele/base/vfs"
)

// endsOpening wraps d: while the store is being opened, reads fail once Options.Opening has ended. Open
// may read for long: a log to replay, the segments that an index is made of, the frames of a damaged
// one. All of these read step by step, so none has to check the context itself.
func (e *Engine) endsOpening(d vfs.Dir) vfs.Dir {
	if e.Opts.Opening == nil {
		return d
	}
	return openingDir{d, e}
}

// stillWanted returns an error if Options.Opening ended before the store was open.
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
