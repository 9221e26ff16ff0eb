package wal

import (
	"errors"
	"fmt"
	"io"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// PayloadReader reads parts of the records in one log file, given their places. All
// methods may be called concurrently.
type PayloadReader struct {
	f    vfs.File
	name string
	hdr  fileHeader
	seal *seal.File
}

// NewPayloadReader reads the header of the log file f, called name. keys are
// those of the store; nil for a store without encryption. f stays the caller's.
//
// Errors: *fault.CorruptionError, *fault.VersionError, *fault.KeyError, and those
// of the device.
func NewPayloadReader(f vfs.File, name string, keys *seal.Keyring) (*PayloadReader, error) {
	r, err := readHead(f, name, access{keys: keys})
	if err != nil {
		return nil, err
	}
	return &PayloadReader{f: f, name: name, hdr: r.hdr, seal: r.seal}, nil
}

// KeyID is the id of the key that the file is encrypted with; "" if it is not.
func (r *PayloadReader) KeyID() string { return r.seal.KeyID() }

// ReadAt returns n bytes of a record, from offset at of its payload. The payload begins
// at offset payload of the file: Record.Offset, or Entry.Offset. In an encrypted file
// ReadAt authenticates what it reads, and returns a *fault.CorruptionError if that was
// changed; in any other file the caller has to check it. Bytes that the file does not
// have are a *fault.CorruptionError as well.
func (r *PayloadReader) ReadAt(payload, at, n int64) ([]byte, error) {
	if !r.hdr.sealed() {
		b := make([]byte, n)
		return b, r.read(b, payload+at)
	}
	off := payload - frameHeaderSize
	var hdr [frameHeaderSize]byte
	if off < r.hdr.size() {
		return nil, r.bad(payload, n, "no record can lie there", nil)
	}
	if err := r.read(hdr[:], off); err != nil {
		return nil, err
	}
	h, ok := decodeFrameHeader(hdr[:], r.hdr.salt, off)
	if !ok || h.typ != frameRecord || h.flags != frameSealed {
		return nil, r.bad(off, frameHeaderSize, "not the header of a sealed record", nil)
	}
	from, to, begins, ok := seal.Span(int64(h.length), at, n)
	if !ok {
		return nil, r.bad(payload, int64(h.length), fmt.Sprintf("the record does not hold %d bytes at %d", n, at), nil)
	}
	b := make([]byte, to-from)
	if err := r.read(b, payload+from); err != nil {
		return nil, err
	}
	plain, err := r.seal.OpenSpan(nil, frameAAD(off, hdr[:]), from, b)
	if err != nil {
		return nil, r.bad(payload+from, to-from, "", err)
	}
	return plain[at-begins:][:n:n], nil
}

// bad returns the error for n damaged bytes at off of the file.
func (r *PayloadReader) bad(off, n int64, detail string, cause error) error {
	return &fault.CorruptionError{File: r.name, Kind: "value", Offset: off, Len: n, Detail: detail, Err: cause}
}

func (r *PayloadReader) read(b []byte, off int64) error {
	n, err := r.f.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return r.bad(off, int64(len(b)), fmt.Sprintf("the file ends after %d bytes of it", n), nil)
	}
	return fmt.Errorf("read %s at %d: %w", r.name, off, err)
}
