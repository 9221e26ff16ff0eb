package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// MaxPage is the largest page of an image, and the largest entry of a table: 16 MiB. A reader
// allocates no more for one frame.
const MaxPage = 16 << 20

const (
	imageFrameHeader = 24
	imageTailSize    = 32
	// compressMin: below it a zstd frame saves nothing worth a decoder call.
	compressMin = 128
)

// imageFrameType says what a frame of an image holds.
type imageFrameType uint8

const (
	imagePage              imageFrameType = 1
	imagePartitions        imageFrameType = 2
	imageFamilies          imageFrameType = 3
	imageRemovedFamilies   imageFrameType = 4
	imageTombstones        imageFrameType = 5
	imageRemovedTombstones imageFrameType = 6
	imageFooter            imageFrameType = 7
	imageRows              imageFrameType = 8  // partitions, from format 2 on
	imageParts             imageFrameType = 9  // families, from format 2 on
	imageRowLists          imageFrameType = 10 // where frames of partitions are, from format 4 on
	imagePartLists         imageFrameType = 11 // where frames of families are, from format 4 on
)

// tableTypes is the number of types of tables whose entries are encoded relative to the entry
// before.
const tableTypes = 5

// visited are the types of all tables, in the order they are visited in.
var visited = [...]imageFrameType{imagePartitions, imageRows, imageFamilies, imageParts, imageRemovedFamilies, imageTombstones, imageRemovedTombstones}

// isTable reports whether frames of the type are those of a table, in this format version.
func (t imageFrameType) isTable(version uint32) bool {
	return t >= imagePartitions && t <= imageRemovedTombstones || t == imageRows || t == imageParts || t.isList() && version >= listsVersion
}

const (
	codecNone = 0
	codecZstd = 1
)

// appendImage appends the frame for raw, which is at off of the file. With an encoder it is
// compressed if that saves at least a sixteenth. In an encrypted file the content is then
// sealed.
func (fr framer) appendImage(dst []byte, off int64, typ imageFrameType, count uint32, raw []byte, enc *zstd.Encoder) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, imageFrameHeader)...)
	codec := byte(codecNone)
	if enc != nil && len(raw) >= compressMin {
		dst = enc.EncodeAll(raw, dst)
		if len(dst)-start-imageFrameHeader <= len(raw)-len(raw)/16 {
			codec = codecZstd
		} else {
			dst = dst[:start+imageFrameHeader]
		}
	}
	if codec == codecNone {
		dst = append(dst, raw...)
	}
	h := dst[start:]
	binary.LittleEndian.PutUint32(h[8:], uint32(fr.stored(len(h)-imageFrameHeader)))
	binary.LittleEndian.PutUint32(h[12:], uint32(len(raw)))
	h[16], h[17] = byte(typ), codec
	binary.LittleEndian.PutUint32(h[20:], count)
	if fr.seal != nil {
		h[18] = frameSealed
		content := bytes.Clone(h[imageFrameHeader:])
		dst = fr.seal.Seal(dst[:start+imageFrameHeader], imageAAD(off, h), content)
		h = dst[start:]
	}
	binary.LittleEndian.PutUint64(h, base.Checksum(seedAt(fr.salt, off), h[8:]))
	return dst
}

// decodeImage verifies b, which is one whole frame, and appends its decompressed content to
// dst[:0]. It checks maxRaw before it allocates. The result may alias b.
func (fr framer) decodeImage(dst, b []byte, name string, off int64, typ imageFrameType, maxRaw int) (raw []byte, count uint32, err error) {
	bad := func(detail string, cause error) error {
		return &fault.CorruptionError{File: name, Kind: "image frame", Offset: off, Len: int64(len(b)), Detail: detail, Err: cause}
	}
	if len(b) < imageFrameHeader {
		return nil, 0, bad("shorter than a frame header", nil)
	}
	if base.Checksum(seedAt(fr.salt, off), b[8:]) != binary.LittleEndian.Uint64(b) {
		return nil, 0, bad("checksum mismatch", nil)
	}
	stored, rawLen := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	if uint64(stored) != uint64(len(b)-imageFrameHeader) || uint64(rawLen) > uint64(maxRaw) {
		return nil, 0, bad(fmt.Sprintf("%d bytes stored, %d raw", stored, rawLen), nil)
	}
	if b[18]&^frameSealed != 0 || b[18] != 0 && fr.seal == nil || b[19] != 0 || b[17] > codecZstd {
		return nil, 0, newerError(name, fmt.Sprintf("frame codec %d, flags %#x", b[17], b[18]))
	}
	if imageFrameType(b[16]) != typ {
		return nil, 0, bad(fmt.Sprintf("frame type %d where %d belongs", b[16], typ), nil)
	}
	body := b[imageFrameHeader:]
	if fr.seal != nil {
		if b[18] != frameSealed {
			return nil, 0, bad("not encrypted, in a file that is", nil)
		}
		if body, err = fr.seal.Open(nil, imageAAD(off, b), body); err != nil {
			return nil, 0, bad("", err)
		}
	}
	if b[17] == codecNone {
		if len(body) != int(rawLen) {
			return nil, 0, bad("lengths differ", nil)
		}
		return body, binary.LittleEndian.Uint32(b[20:]), nil
	}
	if cap(dst) < int(rawLen) {
		dst = make([]byte, 0, rawLen)
	}
	out, err := zstdDecoder().DecodeAll(body, dst[:0:rawLen])
	if err != nil || len(out) != int(rawLen) {
		return nil, 0, bad("does not decompress", err)
	}
	return out, binary.LittleEndian.Uint32(b[20:]), nil
}

// zstdDecoder is shared. It has no state between calls of DecodeAll and may be used
// concurrently. Its output is limited to the capacity of the destination.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxPage), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic("snapshot: zstd decoder options: " + err.Error()) // constants; cannot happen
	}
	return d
})

// zstdEncoders are the encoders that no image writer is using. They are kept because their
// tables are large: a small image would do little but clear new ones.
var zstdEncoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("snapshot: zstd encoder options: " + err.Error()) // constants; cannot happen
	}
	return e
}}

// readRange reads len(b) bytes at off. An image never changes its size, so bytes that are
// missing are damage.
func readRange(f vfs.File, name string, b []byte, off uint64) error {
	if off > math.MaxInt64-uint64(len(b)) {
		return &fault.CorruptionError{File: name, Kind: "image frame", Offset: -1, Len: int64(len(b)), Detail: "offset out of range"}
	}
	n, err := f.ReadAt(b, int64(off))
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return &fault.CorruptionError{File: name, Kind: "image frame", Offset: int64(off), Len: int64(len(b)), Detail: "beyond the end of the file"}
	}
	return fmt.Errorf("read %s at %d: %w", name, off, err)
}
