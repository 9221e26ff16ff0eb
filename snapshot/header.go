package snapshot

import (
	"encoding/binary"
	"fmt"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// FormatVersion is the format version of manifests and stores that this build writes, and
// the newest that it reads.
const FormatVersion uint32 = 1

// ImageVersion is the same for images. Format 1 had other tables of partitions and families.
// In format 2 all of them had to be read to find a key. In format 3 the footer had an entry
// for each of their frames.
const ImageVersion uint32 = 4

// supported is the highest format version this build reads of a file with magic.
func supported(magic [8]byte) uint32 {
	if magic == imageMagic {
		return ImageVersion
	}
	return FormatVersion
}

// headerSize is the length of the file header. Its layout (magic, format version, flags, …,
// checksum of the first 56 bytes) is the same in all format versions to come. So any build
// can tell a newer file, whose checksum is right, from one whose version was damaged.
const headerSize = 64

// headerSummed is how much of the header its checksum covers.
const headerSummed = headerSize - 8

var (
	manifestMagic = [8]byte{'s', 't', 'e', 'l', 'e', 'M', 'A', 'N'}
	imageMagic    = [8]byte{'s', 't', 'e', 'l', 'e', 'I', 'M', 'G'}
)

// fileHeader is the first 64 bytes of a manifest or an image.
type fileHeader struct {
	version uint32
	flags   uint32
	num     base.FileNum
	storeID uint64
	salt    uint64
	a, b    uint64 // manifest: previous manifest, file size; image: LSN, previous image
}

// appendHeader appends the encoded header.
func appendHeader(dst []byte, magic [8]byte, h fileHeader) []byte {
	start := len(dst)
	dst = append(dst, magic[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, h.version)
	dst = binary.LittleEndian.AppendUint32(dst, h.flags)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.num))
	dst = binary.LittleEndian.AppendUint64(dst, h.storeID)
	dst = binary.LittleEndian.AppendUint64(dst, h.salt)
	dst = binary.LittleEndian.AppendUint64(dst, h.a)
	dst = binary.LittleEndian.AppendUint64(dst, h.b)
	return binary.LittleEndian.AppendUint64(dst, base.Checksum(0, dst[start:]))
}

// decodeHeader decodes the header at the beginning of b. It checks length, magic, checksum
// and version one by one, so that the error says what is wrong. A newer format version, or
// a flag outside knownFlags, is a *fault.VersionError.
func decodeHeader(name, kind string, magic [8]byte, knownFlags uint32, b []byte) (fileHeader, error) {
	bad := func(detail string) error {
		return &fault.CorruptionError{File: name, Kind: kind, Offset: 0, Len: headerSize, Detail: detail}
	}
	if len(b) < headerSize {
		return fileHeader{}, bad(fmt.Sprintf("the file is cut short after %d bytes", len(b)))
	}
	if [8]byte(b) != magic {
		return fileHeader{}, bad("wrong magic")
	}
	if base.Checksum(0, b[:headerSummed]) != binary.LittleEndian.Uint64(b[headerSummed:]) {
		return fileHeader{}, bad("checksum mismatch")
	}
	h := fileHeader{
		version: binary.LittleEndian.Uint32(b[8:]),
		flags:   binary.LittleEndian.Uint32(b[12:]),
		num:     base.FileNum(binary.LittleEndian.Uint64(b[16:])),
		storeID: binary.LittleEndian.Uint64(b[24:]),
		salt:    binary.LittleEndian.Uint64(b[32:]),
		a:       binary.LittleEndian.Uint64(b[40:]),
		b:       binary.LittleEndian.Uint64(b[48:]),
	}
	if highest := supported(magic); h.version > highest {
		return fileHeader{}, &fault.VersionError{File: name, Have: h.version, Supported: highest}
	}
	if h.version == 0 {
		return fileHeader{}, bad("format version 0")
	}
	if h.flags&^knownFlags != 0 {
		return fileHeader{}, newerError(name, fmt.Sprintf("header flags %#x", h.flags&^knownFlags))
	}
	return h, nil
}

// newerError is the error for intact bytes that this build does not know, which only a newer
// build can have written.
func newerError(name, what string) error {
	return fmt.Errorf("%s: unknown %s: %w", name, what,
		&fault.VersionError{File: name, Have: FormatVersion + 1, Supported: FormatVersion})
}

// seedAt makes a checksum depend on the file and the place in it, so that a frame that was
// copied from elsewhere is not valid.
func seedAt(salt uint64, off int64) uint64 {
	return salt + uint64(off)*0x9E3779B97F4A7C15
}
