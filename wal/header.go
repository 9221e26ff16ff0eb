package wal

import (
	"encoding/binary"
	"fmt"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
)

// fileHeaderSize is the length of the header of a log file. The first frame
// starts there, or behind the encryption header in an encrypted file.
const fileHeaderSize = 64

// maxHeadSize is the length of both headers.
const maxHeadSize = fileHeaderSize + seal.HeaderSize

// fileMagic starts each log file: "SWAL".
const fileMagic = "SWAL"

// FormatVersion is the format version this build writes, and the newest it
// reads.
const FormatVersion = 1

// Flag bits of the file header.
const (
	// fileSealed marks an encrypted file: an encryption header follows, and every
	// frame is sealed.
	fileSealed uint16 = 1 << 0

	// fileCopy marks a file that CopyEnd made. Until the manifest names it, it can be
	// removed: its records are in another file too, or nobody was told of them.
	fileCopy uint16 = 1 << 1

	// fileFlagsKnown are the bits this build understands.
	fileFlagsKnown = fileSealed | fileCopy
)

// fileHeader is the decoded header of a log file. It links the file to the one before
// by number, end and chain value, all of which must agree when the log is read.
type fileHeader struct {
	num     base.FileNum
	baseLSN base.LSN // LSN of the first record of this file
	salt    uint64   // random; seeds the checksums of the frames
	prev    Position // where the file before ended; its NextLSN is baseLSN
	flags   uint16
}

// sealed reports whether the file is encrypted.
func (h *fileHeader) sealed() bool { return h.flags&fileSealed != 0 }

// size returns the offset of the first frame.
func (h *fileHeader) size() int64 {
	if h.sealed() {
		return maxHeadSize
	}
	return fileHeaderSize
}

// encode returns the header and the chain value the file starts with.
func (h *fileHeader) encode() (b [fileHeaderSize]byte, chain uint64) {
	copy(b[0:], fileMagic)
	binary.LittleEndian.PutUint16(b[4:], FormatVersion)
	binary.LittleEndian.PutUint16(b[6:], h.flags)
	binary.LittleEndian.PutUint64(b[8:], uint64(h.num))
	binary.LittleEndian.PutUint64(b[16:], uint64(h.baseLSN))
	binary.LittleEndian.PutUint64(b[24:], h.salt)
	binary.LittleEndian.PutUint64(b[32:], uint64(h.prev.File))
	binary.LittleEndian.PutUint64(b[40:], uint64(h.prev.Offset))
	binary.LittleEndian.PutUint64(b[48:], h.prev.Chain)
	chain = base.Checksum(0, b[:56])
	binary.LittleEndian.PutUint64(b[56:], chain)
	return b, chain
}

// createSeal makes the key of a new file whose header is hdr. It returns the header, with
// the encryption header if there is one, and the chain value that the file starts with.
func createSeal(keys *seal.Keyring, hdr *fileHeader) (head []byte, chain uint64, f *seal.File, err error) {
	if keys != nil {
		hdr.flags |= fileSealed
	}
	b, chain := hdr.encode()
	f, ext, err := keys.Create(base.LogFile.Name(hdr.num), b[:])
	return append(b[:], ext...), chain, f, err
}

// decodeFileHeader decodes the first bytes of the file called name, and returns the
// chain value that the file starts with as well. Magic, format version and checksum are
// tested one after the other because they mean different things: not a log file, a
// newer stele, damage.
func decodeFileHeader(name string, num base.FileNum, b []byte) (fileHeader, uint64, error) {
	var h fileHeader
	bad := func(detail string) error {
		return &fault.CorruptionError{File: name, Kind: "log file header", Len: fileHeaderSize, Detail: detail}
	}
	if len(b) < fileHeaderSize {
		return h, 0, bad(fmt.Sprintf("the file has %d bytes, the header has %d", len(b), fileHeaderSize))
	}
	b = b[:fileHeaderSize]
	if string(b[:4]) != fileMagic {
		return h, 0, bad("wrong magic")
	}
	sum := binary.LittleEndian.Uint64(b[56:])
	version := binary.LittleEndian.Uint16(b[4:])
	if version != FormatVersion {
		// Tell a damaged version number from a newer one: with the right number put
		// back, the checksum of a damaged header is right again.
		var own [56]byte
		copy(own[:], b)
		binary.LittleEndian.PutUint16(own[4:], FormatVersion)
		if version == 0 || base.Checksum(0, own[:]) == sum {
			return h, 0, bad(fmt.Sprintf("format version %d", version))
		}
		return h, 0, &fault.VersionError{File: name, Have: uint32(version), Supported: FormatVersion}
	}
	if base.Checksum(0, b[:56]) != sum {
		return h, 0, bad("checksum mismatch")
	}
	if h.flags = binary.LittleEndian.Uint16(b[6:]); h.flags&^fileFlagsKnown != 0 {
		return h, 0, fmt.Errorf("log file header has unknown flag bits %#04x: %w", h.flags,
			&fault.VersionError{File: name, Have: uint32(version), Supported: FormatVersion})
	}
	h.num = base.FileNum(binary.LittleEndian.Uint64(b[8:]))
	h.baseLSN = base.LSN(binary.LittleEndian.Uint64(b[16:]))
	h.salt = binary.LittleEndian.Uint64(b[24:])
	h.prev = Position{
		NextLSN: h.baseLSN,
		File:    base.FileNum(binary.LittleEndian.Uint64(b[32:])),
		Offset:  int64(binary.LittleEndian.Uint64(b[40:])),
		Chain:   binary.LittleEndian.Uint64(b[48:]),
	}
	if h.num != num {
		return h, 0, bad(fmt.Sprintf("it names log file %s; the file was swapped or renamed", base.LogFile.Name(h.num)))
	}
	if h.baseLSN == 0 || h.prev.Offset < 0 || (h.prev.File != 0 && h.prev.Offset < fileHeaderSize) {
		return h, 0, bad("impossible base LSN or previous end")
	}
	return h, sum, nil
}
