package vfs

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/stele-go/stele/base/fault"
)

// PastUnreadable wraps d for readers that can do without some bytes: those that look for damage,
// salvage the rest, or can make a file again from others. If the device cannot read a block of a file
// that pass accepts by its name, the block reads as junk, which every checksum refuses. So one bad
// sector is handled like other damage at its place. If the device cannot open such a file, also when it
// is asked again, the whole file is damaged; it does not count as missing, since it is there. note is
// called for each such block, once a read, and for each such file, with a *fault.CorruptionError that
// wraps the error of the device; it may be called concurrently. Code that copies files as they are must
// not read through it.
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
	base := filepath.Base(name)
	if !d.pass(base) {
		return open(name)
	}
	var f File
	err := Again(func() (err error) {
		f, err = open(name)
		return err
	})
	switch {
	case err == nil:
		return readableFile{f, base, d.note}, nil
	case Unreadable(err):
		err = &fault.CorruptionError{File: base, Kind: "file", Offset: -1, Detail: unread, Err: err}
		d.note(err)
	}
	return nil, err
}

type readableFile struct {
	File
	name string
	note func(error)
}

const (
	// readBlock is what a device and the kernel's cache read at a time.
	readBlock = 4 << 10
	// junk is neither zero, like space that was never written, nor the first byte of a frame or record.
	junk   = 0xa5
	unread = "the device cannot read it"
)

// ReadAt implements File.
func (f readableFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if !Unreadable(err) {
		return n, err
	}
	for n = 0; n < len(p); {
		block := p[n:min(len(p), n+readBlock-int((off+int64(n))%readBlock))]
		got, err := f.File.ReadAt(block, off+int64(n))
		if Unreadable(err) {
			for i := range block {
				block[i] = junk
			}
			f.note(&fault.CorruptionError{File: f.name, Kind: "block", Offset: off + int64(n), Len: int64(len(block)), Detail: unread, Err: err})
			got, err = len(block), nil
		}
		if n += got; err != nil {
			return n, err
		}
	}
	return n, nil
}

// ReadAgain is f.ReadAt, tried up to three times while the device cannot read. It is for reading back
// bytes that were just written: a passing error must not count as damage, and a lasting one must be
// returned.
func ReadAgain(f File, p []byte, off int64) (n int, err error) {
	err = Again(func() error {
		n, err = f.ReadAt(p, off)
		return err
	})
	return n, err
}

// Again calls read up to three times, while the device cannot read. A look that failed, be it at the
// bytes, the size or the name of a file, has seen nothing that is wrong with it.
func Again(read func() error) (err error) {
	for range 3 {
		if err = read(); !Unreadable(err) {
			break
		}
	}
	return err
}

// Unreadable reports whether err means that the device could not read a block. Of a call that opens a
// file it says that the call opened none.
func Unreadable(err error) bool {
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
