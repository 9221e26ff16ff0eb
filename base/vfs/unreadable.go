package vfs

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/stele-go/stele/base/fault"
)

// PastUnreadable is d for whoever can do without some of its bytes: those that look for damage,
// save what is left, or can make a file again from others. Where the device cannot read a block
// of a file that pass accepts by its name, junk stands for it, which every checksum refuses. So
// one bad sector is damage at its place and nothing more, and what treats damage treats it. note
// is told of each such block, once a read, as a *fault.CorruptionError that wraps the error of
// the device; it may be called concurrently.
//
// Whoever copies files as they are must not read them through it.
func PastUnreadable(d Dir, pass func(name string) bool, note func(error)) Dir {
	return readablesDir{d, pass, note}
}

type readablesDir struct {
	Dir
	pass func(name string) bool
	note func(error)
}

// Hold implements Dir.
func (d readablesDir) Hold(dir string) (Dir, error) {
	held, err := d.Dir.Hold(dir)
	if err == nil {
		held = readablesDir{held, d.pass, d.note}
	}
	return held, err
}

// Open implements FS.
func (d readablesDir) Open(name string) (File, error) { return d.opened(name, d.Dir.Open) }

// OpenReadWrite implements FS.
func (d readablesDir) OpenReadWrite(name string) (File, error) {
	return d.opened(name, d.Dir.OpenReadWrite)
}

func (d readablesDir) opened(name string, open func(string) (File, error)) (File, error) {
	f, err := open(name)
	if base := filepath.Base(name); err == nil && d.pass(base) {
		f = readableFile{f, base, d.note}
	}
	return f, err
}

type readableFile struct {
	File
	name string
	note func(error)
}

const (
	// readBlock is what a device and the kernel's cache read at a time.
	readBlock = 4 << 10
	// junk is neither the zeros of room that nothing was written to, nor the beginning of anything.
	junk = 0xa5
)

// ReadAt implements File.
func (f readableFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if !unreadable(err) {
		return n, err
	}
	for n = 0; n < len(p); {
		block := p[n:min(len(p), n+readBlock-int((off+int64(n))%readBlock))]
		got, err := f.File.ReadAt(block, off+int64(n))
		if unreadable(err) {
			for i := range block {
				block[i] = junk
			}
			f.note(&fault.CorruptionError{File: f.name, Kind: "block", Offset: off + int64(n), Len: int64(len(block)), Detail: "the device cannot read it", Err: err})
			got, err = len(block), nil
		}
		if n += got; err != nil {
			return n, err
		}
	}
	return n, nil
}

// ReadAgain is f.ReadAt, up to three times in all while the device cannot read. It is for reading
// back what was just written, where the error of a moment would condemn what is sound, and one that
// stays must not be passed over.
func ReadAgain(f File, p []byte, off int64) (n int, err error) {
	for range 3 {
		if n, err = f.ReadAt(p, off); !unreadable(err) {
			break
		}
	}
	return n, err
}

// unreadable reports whether a device could not read what it has.
func unreadable(err error) bool {
	if err == nil || errors.Is(err, io.EOF) {
		return false
	}
	for _, e := range unreadableErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// NextData implements DataSeeker.
func (f readableFile) NextData(off int64) (int64, error) {
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	return NextData(f.File, off, size)
}
