package wal

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/seal"
)

// frameHeaderSize is the length of the header before each payload.
const frameHeaderSize = 32

// frameAlign is the grid on which frames lie. Eight bytes let a search for the
// next valid frame step by eight; see docs/format/log.md, "Finding a frame".
const frameAlign = 8

// frameType says what a frame carries. Zero is not a type, so zero-filled
// space never validates.
type frameType uint8

const (
	// frameRecord carries one record.
	frameRecord frameType = 1
	// frameClose ends a file whose owner closed or rotated it: everything
	// before it was synced, and nothing follows in this file.
	frameClose frameType = 2
	// frameSync carries no record; it repeats the promise while the log is
	// idle, so that damage to the last batch is told from a torn tail.
	frameSync frameType = 3
)

// String implements fmt.Stringer.
func (t frameType) String() string {
	switch t {
	case frameRecord:
		return "record"
	case frameClose:
		return "close mark"
	case frameSync:
		return "sync mark"
	}
	return "invalid"
}

// frameSealed is the one flag bit of frames: the payload is sealed. All frames
// of an encrypted file have it, those of another file have not. An unknown bit
// in a valid frame is a newer format, not damage.
const frameSealed uint8 = 1 << 0

// frameHeader is the decoded header of a frame.
type frameHeader struct {
	sum      uint64 // XXH64 of everything after itself, padding included
	length   uint32 // payload bytes
	typ      frameType
	flags    uint8
	check    uint16 // of the header alone
	lsn      base.LSN
	syncedTo int64 // the promise: bytes of this file below it were durable
}

// size is what the frame occupies in the file, padding included.
func (h *frameHeader) size() int64 { return frameSize(int64(h.length)) }

// frameSize is what a payload of n bytes occupies as a frame.
func frameSize(n int64) int64 {
	return (frameHeaderSize + n + frameAlign - 1) &^ (frameAlign - 1)
}

// padding returns the zero bytes after a payload of n bytes.
func padding(n int64) []byte {
	var zero [frameAlign]byte
	return zero[:frameSize(n)-frameHeaderSize-n]
}

// frameSeed binds a frame to its place: the same bytes at another offset, or in
// a file with another salt, do not validate.
func frameSeed(salt uint64, off int64) uint64 {
	return mix64(salt + uint64(off)*0x9e3779b97f4a7c15)
}

// mix64 is the finalizer of SplitMix64: a bijection in which each input bit
// changes half of the output bits.
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// nextChain folds the checksum of one more frame into the chain value of a
// file. The chain starts from the checksum of the file header, which itself
// covers the chain value of the file before.
func nextChain(chain, sum uint64) uint64 {
	return mix64(bits.RotateLeft64(chain, 23) ^ sum)
}

// headerCheck is a keyed check of the header fields alone. It lets a reader
// refuse a damaged length before it reads (or allocates) that much, and keeps
// the search for the next frame linear on hostile payloads.
func headerCheck(seed uint64, b []byte) uint16 {
	var h [frameHeaderSize - 8]byte
	copy(h[:], b[8:frameHeaderSize])
	h[6], h[7] = 0, 0
	return uint16(base.Checksum(seed, h[:]))
}

// putFrameHeader encodes everything but the checksum into b.
func putFrameHeader(b []byte, seed uint64, h frameHeader) {
	binary.LittleEndian.PutUint64(b[0:], 0)
	binary.LittleEndian.PutUint32(b[8:], h.length)
	b[12] = byte(h.typ)
	b[13] = h.flags
	binary.LittleEndian.PutUint16(b[14:], 0)
	binary.LittleEndian.PutUint64(b[16:], uint64(h.lsn))
	binary.LittleEndian.PutUint64(b[24:], uint64(h.syncedTo))
	binary.LittleEndian.PutUint16(b[14:], headerCheck(seed, b))
}

// appendFrame appends a whole frame to dst and returns its checksum. h.length
// is set from the parts. off is the frame's place in the file.
func appendFrame(dst []byte, salt uint64, off int64, h frameHeader, parts ...[]byte) ([]byte, uint64) {
	start := len(dst)
	var n int64
	for _, p := range parts {
		n += int64(len(p))
	}
	h.length = uint32(n)
	seed := frameSeed(salt, off)
	var hdr [frameHeaderSize]byte
	putFrameHeader(hdr[:], seed, h)
	dst = append(dst, hdr[:]...)
	for _, p := range parts {
		dst = append(dst, p...)
	}
	dst = append(dst, padding(n)...)
	sum := base.Checksum(seed, dst[start+8:])
	binary.LittleEndian.PutUint64(dst[start:], sum)
	return dst, sum
}

// splitFrameHeader encodes the header of a frame whose payload stays in the
// caller's slices.
func splitFrameHeader(salt uint64, off int64, h frameHeader, parts [][]byte) (hdr [frameHeaderSize]byte, sum uint64) {
	var n int64
	for _, p := range parts {
		n += int64(len(p))
	}
	h.length = uint32(n)
	seed := frameSeed(salt, off)
	putFrameHeader(hdr[:], seed, h)
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	_, _ = d.Write(hdr[8:]) // xxhash never returns an error
	for _, p := range parts {
		_, _ = d.Write(p)
	}
	_, _ = d.Write(padding(n))
	sum = d.Sum64()
	binary.LittleEndian.PutUint64(hdr[:], sum)
	return hdr, sum
}

// markLength is the length of the payload of a mark: nothing, or nothing sealed.
func markLength(flags uint8) uint32 {
	if flags&frameSealed != 0 {
		return seal.Overhead
	}
	return 0
}

// decodeFrameHeader decodes the header at off. It reports false unless the
// header can stand there: a known type, a header check that fits, a promise
// that lies behind the frame. b holds at least frameHeaderSize bytes.
func decodeFrameHeader(b []byte, salt uint64, off int64) (frameHeader, bool) {
	h, ok := frameFields(b)
	if !ok || h.syncedTo > off {
		return h, false
	}
	return h, headerCheck(frameSeed(salt, off), b) == h.check
}

// frameFields decodes a header wherever it belongs. It reports false for what is
// no header at any place.
func frameFields(b []byte) (frameHeader, bool) {
	h := frameHeader{typ: frameType(b[12])}
	if h.typ < frameRecord || h.typ > frameSync {
		return h, false
	}
	h.sum = binary.LittleEndian.Uint64(b[0:])
	h.length = binary.LittleEndian.Uint32(b[8:])
	h.flags = b[13]
	h.check = binary.LittleEndian.Uint16(b[14:])
	h.lsn = base.LSN(binary.LittleEndian.Uint64(b[16:]))
	h.syncedTo = int64(binary.LittleEndian.Uint64(b[24:]))
	if h.syncedTo < fileHeaderSize || h.syncedTo%frameAlign != 0 {
		return h, false
	}
	return h, h.typ == frameRecord || h.length == markLength(h.flags)
}

// frameValid reports whether the checksum of the whole frame in b (header,
// payload, padding) fits its place.
func frameValid(b []byte, h *frameHeader, salt uint64, off int64) bool {
	return base.Checksum(frameSeed(salt, off), b[8:h.size()]) == h.sum
}
