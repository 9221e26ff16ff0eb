package snapshot

import (
	"encoding/binary"

	"github.com/stele-go/stele/base"
)

// frameHeaderSize is a multiple of 8, as is the length of every frame, so that the search
// that tells a torn tail from damage can step by 8 bytes.
const frameHeaderSize = 32

// frameType says what a manifest frame holds. Zero is not a type, so zeros are never a valid
// frame.
type frameType uint8

const (
	frameState frameType = 1 // complete state; the first frame of a file, nowhere else
	frameEdit  frameType = 2 // one edit
	frameMark  frameType = 3 // in the mark slot; empty
	frameClose frameType = 4 // in the close slot; empty
)

// frame is one manifest frame, decoded. The payload aliases the input.
type frame struct {
	typ      frameType
	flags    uint8
	reserved uint16
	seq      uint64 // 1 for the state, then dense; in a slot that of the last frame
	promise  int64  // frames up to here were known to be synced when this one was built
	payload  []byte
	size     int // of the whole frame, once it was read
}

// frameSize is the length of a frame with a payload of n bytes, with padding.
func frameSize(n int) int { return (frameHeaderSize + n + 7) &^ 7 }

// appendFrame appends the encoded frame; off is its place in the file.
func appendFrame(dst []byte, salt uint64, off int64, f frame) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.payload)))
	dst = append(dst, byte(f.typ), f.flags)
	dst = binary.LittleEndian.AppendUint16(dst, f.reserved)
	dst = binary.LittleEndian.AppendUint64(dst, f.seq)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.promise))
	dst = append(dst, f.payload...)
	for (len(dst)-start)%8 != 0 {
		dst = append(dst, 0)
	}
	sum := base.Checksum(seedAt(salt, off), dst[start+8:])
	binary.LittleEndian.PutUint64(dst[start:], sum)
	return dst
}

// parseFrame decodes the frame at the beginning of b, which lies at off of its file. ok is
// false unless the checksum, which covers everything after itself, is right. It allocates
// nothing.
func parseFrame(b []byte, salt uint64, off int64) (f frame, ok bool) {
	if len(b) < frameHeaderSize || b[12] == 0 {
		return frame{}, false
	}
	n := binary.LittleEndian.Uint32(b[8:])
	if uint64(n) > uint64(len(b)-frameHeaderSize) {
		return frame{}, false
	}
	size := frameSize(int(n))
	if size > len(b) {
		return frame{}, false
	}
	if base.Checksum(seedAt(salt, off), b[8:size]) != binary.LittleEndian.Uint64(b) {
		return frame{}, false
	}
	return frame{
		typ:      frameType(b[12]),
		flags:    b[13],
		reserved: binary.LittleEndian.Uint16(b[14:]),
		seq:      binary.LittleEndian.Uint64(b[16:]),
		promise:  int64(binary.LittleEndian.Uint64(b[24:])),
		payload:  b[frameHeaderSize : frameHeaderSize+int(n)],
	}, true
}

// findPromise looks in b[from:to] for an intact frame that promises bytes beyond from. Such a
// frame was written after the bytes at from were synced, so if these are not valid now,
// they are damaged. It checks the fields before the checksum, which few offsets in zeros or
// noise get to.
func findPromise(b []byte, from, to int, salt, lastSeq uint64) (at int, found bool) {
	for at := from; at+frameHeaderSize <= to; at += 8 {
		h := b[at:to]
		promise := binary.LittleEndian.Uint64(h[24:])
		if h[12] == 0 || promise <= uint64(from) || promise > uint64(at) {
			continue
		}
		if seq := binary.LittleEndian.Uint64(h[16:]); seq <= lastSeq || seq-lastSeq > uint64(at) {
			continue
		}
		if _, ok := parseFrame(h, salt, int64(at)); ok {
			return at, true
		}
	}
	return 0, false
}
