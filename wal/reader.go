package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// windowSize is how much of a file is read with one call. A larger frame is read whole.
const windowSize = 256 << 10

// frameReader reads the frames of one file in order. It reads in windows and
// holds one frame at a time.
type frameReader struct {
	f     vfs.File
	name  string
	hdr   fileHeader
	seal  *seal.File // nil: not encrypted, or blind
	blind bool       // payloads stay encrypted
	limit int64      // bytes from here on are not part of the file
	max   int64      // largest payload

	off   int64    // of the next frame
	chain uint64   // at off
	last  base.LSN // of the last record before off

	buf   []byte
	bufAt int64
	plain []byte // the last opened payload
}

// access says how payloads are read.
type access struct {
	keys *seal.Keyring
	// blind leaves the payloads of an encrypted file as they are. No key is needed then.
	blind bool
}

// frame is one valid frame. The payload is valid until the next read.
type frame struct {
	frameHeader
	off     int64
	payload []byte
	err     error // the payload does not authenticate: damage
}

// openFrames opens log file num and reads its header.
func openFrames(fsys vfs.FS, dir string, num base.FileNum, maxRecord int64, a access) (*frameReader, error) {
	name := base.LogFile.Name(num)
	f, err := fsys.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", num, err)
	}
	r, err := readHead(f, name, a)
	if err != nil {
		_ = f.Close() // only read from
		return nil, err
	}
	r.max = maxRecord
	if r.hdr.sealed() {
		r.max = seal.SealedLen(maxRecord)
	}
	return r, nil
}

// readHead reads the headers of the log file called name and returns a reader for its
// frames. If name is not one that base.LogFile.Name makes, the file may have any number.
func readHead(f vfs.File, name string, a access) (*frameReader, error) {
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("size of %s: %w", name, err)
	}
	var b [maxHeadSize]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read header of %s: %w", name, err)
	}
	r := &frameReader{f: f, name: name, blind: a.blind, limit: size, max: seal.SealedLen(base.MaxRecord)}
	num := base.FileNum(binary.LittleEndian.Uint64(b[8:]))
	if own, ok := base.LogFile.Parse(name); ok {
		num = own
	}
	if r.hdr, r.chain, err = decodeFileHeader(name, num, b[:n]); err != nil {
		return nil, err
	}
	if !a.blind {
		ext := b[min(n, fileHeaderSize):n]
		if r.seal, err = a.keys.Open(name, num, r.hdr.sealed(), b[:fileHeaderSize], ext); err != nil {
			return nil, err
		}
	}
	r.off, r.last = r.hdr.size(), r.hdr.baseLSN-1
	return r, nil
}

func (r *frameReader) close() { _ = r.f.Close() } // only read from

// bytes returns n bytes at off, or fewer if the file has become shorter. The caller has
// checked n against the limit, and against the size that a frame can have.
func (r *frameReader) bytes(off, n int64) ([]byte, error) {
	if off >= r.bufAt && off+n <= r.bufAt+int64(len(r.buf)) {
		return r.buf[off-r.bufAt:][:n], nil
	}
	want := max(n, min(windowSize, r.limit-off))
	if int64(cap(r.buf)) < want {
		r.buf = make([]byte, max(want, min(windowSize, r.limit)))
	}
	r.buf, r.bufAt = r.buf[:want], off
	got, err := r.f.ReadAt(r.buf, off)
	r.buf = r.buf[:got]
	if err != nil && !errors.Is(err, io.EOF) {
		r.forget()
		return nil, fmt.Errorf("read log %s at offset %d: %w", r.hdr.num, off, err)
	}
	return r.buf[:min(int64(got), n)], nil
}

// forget drops the window, so that the next read sees the file as it is now.
func (r *frameReader) forget() { r.buf = r.buf[:0] }

// header decodes the frame header at off. It reports false if there is none.
func (r *frameReader) header(off int64) (frameHeader, bool, error) {
	if r.limit-off < frameHeaderSize {
		return frameHeader{}, false, nil
	}
	b, err := r.bytes(off, frameHeaderSize)
	if err != nil || len(b) < frameHeaderSize {
		return frameHeader{}, false, err
	}
	h, ok := decodeFrameHeader(b, r.hdr.salt, off)
	return h, ok && r.fits(&h, off), nil
}

// fits reports whether a frame with this header ends within the file. It is called
// before anything of that length is read or allocated.
func (r *frameReader) fits(h *frameHeader, off int64) bool {
	return int64(h.length) <= r.max && h.size() <= r.limit-off
}

// next reads the frame at r.off and moves behind it. It reports false, and does
// not move, if no valid frame is there.
func (r *frameReader) next() (frame, bool, error) {
	h, ok, err := r.header(r.off)
	if err != nil || !ok {
		return frame{}, false, err
	}
	b, err := r.bytes(r.off, h.size())
	if err != nil || int64(len(b)) < h.size() || !frameValid(b, &h, r.hdr.salt, r.off) {
		return frame{}, false, err
	}
	if h.flags&^frameSealed != 0 || h.flags != 0 && !r.hdr.sealed() {
		return frame{}, false, fmt.Errorf("log frame at offset %d has unknown flag bits %#02x: %w", r.off, h.flags,
			&fault.VersionError{File: r.name, Have: FormatVersion, Supported: FormatVersion})
	}
	fr := frame{frameHeader: h, off: r.off}
	fr.payload, fr.err = r.open(b, &h, r.off)
	r.off += h.size()
	r.chain = nextChain(r.chain, h.sum)
	return fr, true, nil
}

// open returns the payload of the valid frame b at off, decrypted if the file is
// encrypted; then it is valid until the next call. An error is damage: no crash leaves
// a frame whose checksum is right and whose payload does not authenticate.
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
		r.plain = nil // too large to keep
	}
	return plain, nil
}

// find looks for a valid frame at or behind from that accept wants. It does not move the
// reader. used is the end of the last byte that is not zero, as far as it looked.
func (r *frameReader) find(from int64, accept func(h *frameHeader, off int64) bool) (at, used int64, found bool, err error) {
	used = from
	for off := from; off < r.limit; {
		b, err := r.bytes(off, min(windowSize, r.limit-off))
		if err != nil {
			return 0, used, false, err
		}
		n := lastUsed(b) // by far the most frequent case: zeros
		if n > 0 {
			used = off + int64(n)
		}
		for i := 0; i+12 < n && i+frameHeaderSize <= len(b); i += frameAlign {
			if b[i+12] == 0 {
				continue
			}
			at := off + int64(i)
			h, ok := decodeFrameHeader(b[i:], r.hdr.salt, at)
			if !ok || !r.fits(&h, at) || !accept(&h, at) {
				continue
			}
			if ok, err = r.verify(b[i:], &h, at); err != nil || ok {
				return at, used, ok, err
			}
		}
		if len(b) < frameHeaderSize || off+int64(len(b)) >= r.limit {
			break
		}
		// Continue with the first place whose header did not fit into this window.
		off += int64(len(b)-frameHeaderSize)&^(frameAlign-1) + frameAlign
		if n == 0 {
			if off, err = r.pastHole(off); err != nil {
				return 0, used, false, err
			}
		}
	}
	return 0, used, false, nil
}

// pastHole returns where a search continues that found only zeros before off. It skips
// the holes of the file, which are zeros too: anybody can make a file as long as they
// like at no cost, and it must cost its reader as little. A frame can begin with zeros,
// so the search begins a header's length before the next data.
func (r *frameReader) pastHole(off int64) (int64, error) {
	at, err := vfs.NextData(r.f, off, r.limit)
	if err != nil {
		return 0, fmt.Errorf("look for data in log %s at offset %d: %w", r.hdr.num, off, err)
	}
	if at < r.limit {
		at -= frameHeaderSize
	}
	return max(off, at&^(frameAlign-1)), nil
}

// verify checks the frame at off, which begins with b, without holding all of it in
// memory.
func (r *frameReader) verify(b []byte, h *frameHeader, off int64) (bool, error) {
	if h.size() <= int64(len(b)) {
		return frameValid(b, h, r.hdr.salt, off), nil
	}
	var d xxhash.Digest
	d.ResetWithSeed(frameSeed(r.hdr.salt, off))
	_, err := io.Copy(&d, io.NewSectionReader(r.f, off+8, h.size()-8))
	if err != nil {
		return false, fmt.Errorf("read log %s at offset %d: %w", r.hdr.num, off, err)
	}
	return d.Sum64() == h.sum, nil
}

// lastUsed returns the length of b without its trailing zeros.
func lastUsed(b []byte) int {
	n := len(b)
	for n >= pageSize && bytes.Equal(b[n-pageSize:n], zeroes[:pageSize]) {
		n -= pageSize
	}
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return n
}

// peek is next, but does not move the reader.
func (r *frameReader) peek() (frame, bool, error) {
	off, chain := r.off, r.chain
	fr, ok, err := r.next()
	r.off, r.chain = off, chain
	return fr, ok, err
}
