package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/seal"
	"github.com/stele-go/stele/internal/vfs"
)

// framer builds the frames of one file, sealed if the file is.
type framer struct {
	salt uint64
	seal *seal.File // nil: the file is not encrypted
}

// stored is the length of a payload of n bytes as it goes to the file.
func (f *framer) stored(n int64) int64 {
	if f.seal == nil {
		return n
	}
	return seal.SealedLen(n)
}

// append is appendFrame for this file.
func (f *framer) append(dst []byte, off int64, h frameHeader, parts ...[]byte) ([]byte, uint64) {
	if f.seal == nil {
		return appendFrame(dst, f.salt, off, h, parts...)
	}
	start := len(dst)
	h.length, h.flags = uint32(f.stored(partsLen(parts))), h.flags|frameSealed
	seed := frameSeed(f.salt, off)
	var hdr [frameHeaderSize]byte
	putFrameHeader(hdr[:], seed, h)
	dst = append(dst, hdr[:]...)
	dst = f.seal.Seal(dst, frameAAD(off, hdr[:]), parts...)
	dst = append(dst, padding(int64(h.length))...)
	sum := base.Checksum(seed, dst[start+8:])
	binary.LittleEndian.PutUint64(dst[start:], sum)
	return dst, sum
}

func partsLen(parts [][]byte) (n int64) {
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}

// frameAAD is what is authenticated with a payload: the place of the frame in
// its file, and its header but for the checksum. The file's own header went into
// its key.
func frameAAD(off int64, hdr []byte) []byte {
	b := make([]byte, 8, 8+frameHeaderSize)
	binary.LittleEndian.PutUint64(b, uint64(off))
	return append(b, hdr[8:frameHeaderSize]...)
}

// open returns the payload of the valid frame b at off, opened if the file is
// encrypted: then it is valid until the next call. An error is damage: a crash
// leaves no frame whose checksum fits and whose payload does not authenticate.
func (r *frameReader) open(b []byte, h *frameHeader, off int64) ([]byte, error) {
	payload := b[frameHeaderSize:][:h.length]
	if !r.hdr.sealed() || r.blind {
		return payload, nil
	}
	bad := &fault.CorruptionError{File: r.name, Kind: "log frame", Offset: off, Len: h.size()}
	if h.flags&frameSealed == 0 {
		bad.Detail = "not encrypted, in a file that is"
		return nil, bad
	}
	plain, err := r.seal.Open(r.plain[:0], frameAAD(off, b), payload)
	if err != nil {
		bad.Err = err
		return nil, bad
	}
	if r.plain = plain; cap(plain) > 2*windowSize {
		r.plain = nil // for the caller alone
	}
	return plain, nil
}

// PayloadReader reads parts of records of one log file by their places. All
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

// ReadAt returns n bytes at offset at of the payload whose frame has its payload
// at the offset payload of the file: Record.Offset, or Entry.Offset. In an
// encrypted file it reads and authenticates the chunks they lie in; in another
// one nothing is checked here. What is not there, or was changed, is a
// *fault.CorruptionError.
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

// createSeal makes the key of a new file whose header is hdr, and returns header
// and encryption header as they go to the file, with the chain value the file
// starts with.
func createSeal(keys *seal.Keyring, hdr *fileHeader) (head []byte, chain uint64, f *seal.File, err error) {
	if keys != nil {
		hdr.flags |= fileSealed
	}
	b, chain := hdr.encode()
	f, ext, err := keys.Create(FileName(hdr.num), b[:])
	return append(b[:], ext...), chain, f, err
}
