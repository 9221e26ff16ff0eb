package wal

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/seal"
)

// frameHeaderSize is the length of the header before each payload.
const frameHeaderSize = 32

// frameAlign is the alignment of frames. It lets a search for the next valid frame
// step by eight bytes; see docs/format/log.md, "Finding a frame".
const frameAlign = 8

// frameType says what a frame carries. Zero is not a type, so zero-filled
// space never validates.
type frameType uint8

const (
	// frameRecord carries one record.
	frameRecord frameType = 1
	// frameClose ends a file that was closed or rotated: everything before it was
	// synced, and nothing follows in this file.
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

// frameSealed is the one flag of frames: the payload is encrypted. All frames of an
// encrypted file have it, and no others. An unknown flag in a valid frame means a
// newer format, not damage.
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

// size returns how many bytes the frame takes in the file, padding included.
func (h *frameHeader) size() int64 { return frameSize(int64(h.length)) }

// frameSize returns how many bytes a payload of n bytes takes as a frame.
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

// nextChain folds the checksum of one more frame into the chain value of a file. The
// value starts as the checksum of the file header, which covers the chain value of the
// file before.
func nextChain(chain, sum uint64) uint64 {
	return mix64(bits.RotateLeft64(chain, 23) ^ sum)
}

// headerCheck is a keyed checksum of the header fields alone. It lets a reader refuse a
// damaged length before it reads or allocates that much, and keeps the search for the
// next frame linear in payloads that are full of fake headers.
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
	n := partsLen(parts)
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

// splitFrameHeader encodes the header of a frame whose payload is written from the
// caller's slices.
func splitFrameHeader(salt uint64, off int64, h frameHeader, parts [][]byte) (hdr [frameHeaderSize]byte, sum uint64) {
	n := partsLen(parts)
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

// decodeFrameHeader decodes the header at off. It reports false unless a header can be
// valid there: its type is known, its check value is right, and it promises only bytes
// before itself. b holds at least frameHeaderSize bytes.
func decodeFrameHeader(b []byte, salt uint64, off int64) (frameHeader, bool) {
	h, ok := frameFields(b)
	if !ok || h.syncedTo > off {
		return h, false
	}
	return h, headerCheck(frameSeed(salt, off), b) == h.check
}

// frameFields decodes a header without regard to its place. It reports false for bytes
// that are not a header at any place.
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

// frameValid reports whether b, which is a whole frame with its padding, has the right
// checksum for its place.
func frameValid(b []byte, h *frameHeader, salt uint64, off int64) bool {
	return base.Checksum(frameSeed(salt, off), b[8:h.size()]) == h.sum
}

// framer builds the frames of one file, encrypted if the file is.
type framer struct {
	salt uint64
	seal *seal.File // nil: the file is not encrypted
}

// stored is the length of a payload of n bytes in the file.
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

// frameAAD is the additional data that is authenticated with a payload: the place of
// the frame in its file, and its header without the checksum. The file's own header is
// part of its key.
func frameAAD(off int64, hdr []byte) []byte {
	b := make([]byte, 8, 8+frameHeaderSize)
	binary.LittleEndian.PutUint64(b, uint64(off))
	return append(b, hdr[8:frameHeaderSize]...)
}
