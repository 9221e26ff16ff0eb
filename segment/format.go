package segment

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
)

// FormatVersion is the format version of segments that this build writes, and the newest
// that it reads.
const FormatVersion = 2

// Limits of the format. Writers refuse what exceeds them, and readers refuse to allocate
// more.
const (
	// MaxBlockRaw bounds the decoded bytes of a block: one value of base.MaxStored.
	MaxBlockRaw = base.MaxStored
	// MaxSectionRaw bounds the decoded bytes of a directory with its value
	// table, of the tombstones, of the meta section and of the family index.
	MaxSectionRaw = 256 << 20
	// MaxBlockSize is the largest BuilderOptions.BlockSize.
	MaxBlockSize = 8 << 20
	// MaxHotBlockSize is the largest BuilderOptions.HotBlockSize, and its default.
	MaxHotBlockSize = 64 << 10
	// maxQuickRaw bounds the decoded bytes of codec s2.
	maxQuickRaw = MaxHotBlockSize
)

const (
	fileHeaderSize  = 64
	footerSize      = 128
	frameHeaderSize = 32
	frameAlign      = 8
	frameMagic      = 0x6b6c4273 // "sBlk" in the file
	// zstdMaxRatio: a zstd block takes at least 4 bytes and decodes to at most 128 KiB.
	// A frame that claims more is damaged, so the memory for it is bounded by bytes that
	// exist.
	zstdMaxRatio = 128 << 10 / 4
	fileMagic    = "steleSEG"
)

// Causes found under a *fault.CorruptionError, for errors.Is.
var (
	// ErrMagic: the bytes that mark a segment, or a frame of one, are not there.
	ErrMagic = errors.New("magic bytes do not match")
	// ErrChecksum: the bytes are not the ones that were written here.
	ErrChecksum = errors.New("checksum does not match")
)

// kind says what a frame holds. Zero is invalid, so that zeros never look like a frame.
type kind uint8

const (
	kindHead kind = 1 + iota
	kindHistory
	kindDirectory
	kindTombstones
	kindMeta
	kindFamilyIndex
	kindSeal // of an encrypted file only: authenticates the footer behind it
	kindEnd  // first unknown kind
)

// String implements fmt.Stringer.
func (k kind) String() string {
	switch k {
	case kindHead, kindHistory:
		return "segment block"
	case kindDirectory:
		return "segment directory"
	case kindTombstones:
		return "segment tombstones"
	case kindMeta:
		return "segment meta"
	case kindFamilyIndex:
		return "segment family index"
	case kindSeal:
		return "segment seal"
	}
	return "segment frame"
}

// maxRaw is the largest decoded payload of a frame of this kind.
func (k kind) maxRaw() uint32 {
	if k == kindHead || k == kindHistory {
		return MaxBlockRaw
	}
	return MaxSectionRaw
}

// codec says how a payload is stored. codecS2 takes a third more space than codecZstd and a
// third of the time to decode or less; it is for small frames that a first read waits for, and for
// what a flush writes.
// codecPatch is reserved for blocks that are stored as patches against other blocks, so
// that a build that does not know them says "newer version" and not "damaged".
type codec uint8

const (
	codecRaw   codec = 0
	codecZstd  codec = 1
	codecPatch codec = 2
	codecS2    codec = 3
)

const (
	// flagSealed marks a frame whose payload is encrypted, after compression. All frames
	// of an encrypted file have it, and no others.
	flagSealed uint16 = 1 << 0
	// fileSealed marks an encrypted file, in header and footer.
	fileSealed uint32 = 1 << 0
)

// place names the bytes at hand in errors.
type place struct {
	file string
	kind string
	off  int64
	n    int64
}

func (p place) corrupt(cause error, format string, args ...any) error {
	return &fault.CorruptionError{
		File: p.file, Kind: p.kind, Offset: p.off, Len: p.n,
		Detail: fmt.Sprintf(format, args...), Err: cause,
	}
}

// newer is the error for intact bytes that this build does not know. They must be of a later
// format version, whichever that is.
func (p place) newer(format string, args ...any) error {
	return fmt.Errorf("%s at offset %d: %s: %w", p.kind, p.off, fmt.Sprintf(format, args...),
		&fault.VersionError{File: p.file, Have: FormatVersion + 1, Supported: FormatVersion})
}

// seedAt binds a checksum to a file and an offset in it.
func seedAt(salt uint64, off int64) uint64 {
	return salt ^ uint64(off)*0x9e3779b97f4a7c15
}

// alignFrame is the length of a frame with n stored payload bytes.
func alignFrame(n int64) int64 {
	return (frameHeaderSize + n + frameAlign - 1) &^ (frameAlign - 1)
}

// fileHeader is the first 64 bytes. A reader only needs the footer. The header tells a
// segment that was cut short from a file that never was a segment, and gives Salvage the
// salt if the footer is lost.
type fileHeader struct {
	version uint32
	flags   uint32
	num     base.FileNum
	salt    uint64
}

func (h fileHeader) encode() []byte {
	b := make([]byte, fileHeaderSize)
	copy(b, fileMagic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], h.version)
	le.PutUint32(b[12:], h.flags)
	le.PutUint64(b[16:], uint64(h.num))
	le.PutUint64(b[24:], h.salt)
	le.PutUint64(b[56:], base.Checksum(0, b[:56]))
	return b
}

// decodeFileHeader checks magic, then checksum, then version, so that a flipped bit in the
// version is damage and not a newer format. This works for all format versions to come,
// because the layout of the 64 bytes never changes.
func decodeFileHeader(file string, b []byte) (fileHeader, error) {
	p := place{file, "segment header", 0, fileHeaderSize}
	if len(b) != fileHeaderSize {
		return fileHeader{}, p.corrupt(nil, "%d bytes", len(b))
	}
	if string(b[:8]) != fileMagic {
		return fileHeader{}, p.corrupt(ErrMagic, "not a segment")
	}
	le := binary.LittleEndian
	if le.Uint64(b[56:]) != base.Checksum(0, b[:56]) {
		return fileHeader{}, p.corrupt(ErrChecksum, "header")
	}
	h := fileHeader{
		version: le.Uint32(b[8:]), flags: le.Uint32(b[12:]),
		num: base.FileNum(le.Uint64(b[16:])), salt: le.Uint64(b[24:]),
	}
	return h, checkVersion(p, h.version, h.flags)
}

func checkVersion(p place, version, flags uint32) error {
	switch {
	case version == 0:
		return p.corrupt(nil, "format version 0")
	case version > FormatVersion:
		return &fault.VersionError{File: p.file, Have: version, Supported: FormatVersion}
	case flags&^fileSealed != 0:
		return p.newer("file flags %#x", flags)
	}
	return nil
}

// extent is the place of a frame: its offset, and its length with header and padding. The
// zero extent stands for a section that is not there.
type extent struct {
	off uint64
	n   uint32
}

// footer is the last 128 bytes.
type footer struct {
	Props
	flags              uint32
	index, tombs, meta extent
}

func (ft footer) encode() []byte {
	b := make([]byte, footerSize)
	le := binary.LittleEndian
	le.PutUint64(b[8:], uint64(ft.FileNum))
	le.PutUint64(b[16:], ft.Salt)
	le.PutUint64(b[24:], uint64(ft.Size))
	le.PutUint64(b[32:], ft.index.off)
	le.PutUint64(b[40:], ft.tombs.off)
	le.PutUint64(b[48:], ft.meta.off)
	le.PutUint32(b[56:], ft.index.n)
	le.PutUint32(b[60:], ft.tombs.n)
	le.PutUint32(b[64:], ft.meta.n)
	le.PutUint32(b[68:], uint32(ft.Families))
	le.PutUint64(b[72:], uint64(ft.Values))
	le.PutUint64(b[80:], uint64(ft.RawBytes))
	le.PutUint64(b[88:], uint64(ft.MinLSN))
	le.PutUint64(b[96:], uint64(ft.MaxLSN))
	le.PutUint32(b[112:], ft.FormatVersion)
	le.PutUint32(b[116:], ft.flags)
	copy(b[120:], fileMagic)
	le.PutUint64(b, base.Checksum(seedAt(ft.Salt, ft.Size-footerSize), b[8:]))
	return b
}

// decodeFooter checks the last 128 bytes of a file of the given size. Like those of the
// header, magic, checksum and version are checked in this order and never move.
func decodeFooter(file string, size int64, b []byte) (footer, error) {
	p := place{file, "segment footer", size - footerSize, footerSize}
	if len(b) != footerSize {
		return footer{}, p.corrupt(nil, "%d bytes", len(b))
	}
	if string(b[120:]) != fileMagic {
		return footer{}, p.corrupt(ErrMagic, "no footer at the end of the file")
	}
	le := binary.LittleEndian
	salt := le.Uint64(b[16:])
	if le.Uint64(b) != base.Checksum(seedAt(salt, p.off), b[8:]) {
		return footer{}, p.corrupt(ErrChecksum, "footer")
	}
	ft := footer{
		Props: Props{
			FormatVersion: le.Uint32(b[112:]),
			FileNum:       base.FileNum(le.Uint64(b[8:])), Salt: salt,
			Size:     int64(le.Uint64(b[24:])),
			Families: int(le.Uint32(b[68:])), Values: int64(le.Uint64(b[72:])),
			RawBytes: int64(le.Uint64(b[80:])),
			MinLSN:   base.LSN(le.Uint64(b[88:])), MaxLSN: base.LSN(le.Uint64(b[96:])),
		},
		index: extent{le.Uint64(b[32:]), le.Uint32(b[56:])},
		tombs: extent{le.Uint64(b[40:]), le.Uint32(b[60:])},
		meta:  extent{le.Uint64(b[48:]), le.Uint32(b[64:])},
		flags: le.Uint32(b[116:]),
	}
	if err := checkVersion(p, ft.FormatVersion, ft.flags); err != nil {
		return footer{}, err
	}
	if ft.Size != size {
		return footer{}, p.corrupt(nil, "file has %d bytes, footer says %d", size, ft.Size)
	}
	if ft.Values < 0 || ft.RawBytes < 0 {
		return footer{}, p.corrupt(nil, "negative totals")
	}
	return ft, nil
}

// frameHeader is the 32 bytes before every payload.
type frameHeader struct {
	stored uint32 // payload bytes in the file, without padding
	raw    uint32 // payload bytes after decoding
	family uint64
	kind   kind
	codec  codec
	flags  uint16
}

// encode leaves the checksum, bytes 0-8, to the caller, who has the payload.
func (h frameHeader) encode() [frameHeaderSize]byte {
	var b [frameHeaderSize]byte
	le := binary.LittleEndian
	le.PutUint32(b[8:], h.stored)
	le.PutUint32(b[12:], h.raw)
	le.PutUint64(b[16:], h.family)
	b[24] = byte(h.kind)
	b[25] = byte(h.codec)
	le.PutUint16(b[26:], h.flags)
	le.PutUint32(b[28:], frameMagic)
	return b
}

// peekFrameHeader decodes the header of a frame that is not verified yet. The fields may
// only be used to find the end of the frame.
func peekFrameHeader(b []byte) (h frameHeader, magic uint32) {
	le := binary.LittleEndian
	return frameHeader{
		stored: le.Uint32(b[8:]), raw: le.Uint32(b[12:]), family: le.Uint64(b[16:]),
		kind: kind(b[24]), codec: codec(b[25]), flags: le.Uint16(b[26:]),
	}, le.Uint32(b[28:])
}

// decodeFrame verifies b, which is one whole frame, and returns its header and its stored
// payload, a slice of b. If the file is encrypted, file is its key and the payload is
// decrypted. After a nil error header.raw is within the limits of the kind.
func decodeFrame(p place, salt uint64, file *seal.File, b []byte) (frameHeader, []byte, error) {
	h, payload, err := verifyFrame(p, salt, file != nil, b)
	if err != nil || file == nil {
		return h, payload, err
	}
	plain, err := openPayload(p, file, h, b, payload)
	return h, plain, err
}

// verifyFrame is decodeFrame without decrypting the payload.
func verifyFrame(p place, salt uint64, sealed bool, b []byte) (frameHeader, []byte, error) {
	if len(b) < frameHeaderSize || len(b)%frameAlign != 0 {
		return frameHeader{}, nil, p.corrupt(nil, "%d bytes are no frame", len(b))
	}
	h, magic := peekFrameHeader(b)
	if magic != frameMagic {
		return frameHeader{}, nil, p.corrupt(ErrMagic, "no frame starts here")
	}
	if binary.LittleEndian.Uint64(b) != base.Checksum(seedAt(salt, p.off), b[8:]) {
		return frameHeader{}, nil, p.corrupt(ErrChecksum, "frame")
	}
	if alignFrame(int64(h.stored)) != int64(len(b)) {
		return frameHeader{}, nil, p.corrupt(nil, "payload of %d bytes in a frame of %d", h.stored, len(b))
	}
	// From here on the bytes are what a builder wrote: what is unknown is new.
	switch {
	case h.kind == 0:
		return frameHeader{}, nil, p.corrupt(nil, "frame kind 0")
	case h.kind >= kindEnd || h.kind == kindSeal && !sealed:
		return frameHeader{}, nil, p.newer("unknown frame kind %d", h.kind)
	case h.flags == flagSealed && !sealed:
		return frameHeader{}, nil, &fault.KeyError{File: p.file, Problem: fault.KeyRequired}
	case h.flags&^flagSealed != 0:
		return frameHeader{}, nil, p.newer("unknown frame flags %#x", h.flags)
	case h.flags == 0 && sealed:
		return frameHeader{}, nil, p.corrupt(nil, "not encrypted, in a file that is")
	case h.codec > codecS2 || h.codec == codecPatch:
		return frameHeader{}, nil, p.newer("unknown codec %d", h.codec)
	case h.raw > h.kind.maxRaw():
		return frameHeader{}, nil, p.corrupt(nil, "decoded length %d is over the limit", h.raw)
	}
	if err := h.checkStored(p); err != nil {
		return frameHeader{}, nil, err
	}
	for _, c := range b[frameHeaderSize+int(h.stored):] {
		if c != 0 {
			return frameHeader{}, nil, p.corrupt(nil, "padding is not zero")
		}
	}
	return h, b[frameHeaderSize : frameHeaderSize+int(h.stored)], nil
}

// checkStored compares the stored length with the decoded one.
func (h *frameHeader) checkStored(p place) error {
	stored := int64(h.stored)
	if h.flags&flagSealed != 0 && h.kind != kindSeal {
		var ok bool
		if stored, ok = seal.OpenedLen(stored); !ok {
			return p.corrupt(nil, "nothing sealed has %d bytes", h.stored)
		}
	}
	switch {
	case h.codec == codecZstd && uint64(h.raw) > uint64(stored)*zstdMaxRatio:
		return p.corrupt(nil, "%d bytes cannot decode to %d", stored, h.raw)
	case h.codec == codecS2 && h.raw > maxQuickRaw:
		return p.corrupt(nil, "decoded length %d is over the limit of its codec", h.raw)
	case h.codec == codecRaw && int64(h.raw) != stored:
		return p.corrupt(nil, "raw payload of %d bytes, header says %d", stored, h.raw)
	}
	return nil
}
