package snapshot

import (
	"encoding/binary"

	"github.com/stele-go/stele/internal/base"
)

// frameHeaderSize is 8-aligned, as every frame is, so that the forward scan
// that tells a torn tail from damage can step by 8 bytes.
const frameHeaderSize = 32

// frameType says what a manifest frame holds. Zero is not a type: zeroed bytes
// never validate.
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

// frameSize is the room a frame with a payload of n bytes takes, padding
// included.
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

// parseFrame reads the frame at the beginning of b, which lies at off of its
// file. The checksum covers everything after itself, padding included; ok is
// false unless it fits. Nothing is allocated.
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

// findPromise scans b[from:to] on the 8-byte grid for an intact frame whose
// promise reaches beyond from. Such a frame could only be written after the
// bytes at from had been synced, so if they do not validate now, they are
// damaged. Cheap field checks come first: in zeros or noise hardly any offset
// gets as far as the checksum.
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
