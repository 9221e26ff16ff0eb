package seal

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// HeaderSize is the length in bytes of the encryption header, which comes directly behind the
// header of an encrypted file.
const HeaderSize = 256

const (
	headerMagic = "steleKEY"
	saltSize    = 32
	checkSize   = 16

	// algorithm 1: HKDF-SHA256, AES-256-GCM, chunks of 64 KiB, random nonces.
	algorithm = 1

	atAlgorithm = 8
	atIDLen     = 12
	atSalt      = 16
	atStore     = 48
	atID        = 64
	atCheck     = 232
	atSum       = 248
)

// header is a decoded encryption header.
type header struct {
	id    string
	salt  [saltSize]byte
	store uint64
	check [checkSize]byte
}

// encode returns the header without check value and checksum.
func (h *header) encode() []byte {
	b := make([]byte, HeaderSize)
	copy(b, headerMagic)
	binary.LittleEndian.PutUint32(b[atAlgorithm:], algorithm)
	binary.LittleEndian.PutUint32(b[atIDLen:], uint32(len(h.id)))
	copy(b[atSalt:], h.salt[:])
	binary.LittleEndian.PutUint64(b[atStore:], h.store)
	copy(b[atID:], h.id)
	return b
}

// finish sets check value and checksum. The checksum also covers head, the file's own header,
// so that it takes no key to notice that two headers do not belong together.
func finish(b, head []byte, check [checkSize]byte) {
	copy(b[atCheck:], check[:])
	binary.LittleEndian.PutUint64(b[atSum:], base.ChecksumParts(0, head, b[:atSum]))
}

// decodeHeader checks and decodes the encryption header of the file called name. head is the
// file's own header, which must be intact.
func decodeHeader(name string, head, b []byte) (header, error) {
	var h header
	bad := func(format string, args ...any) error {
		return &fault.CorruptionError{File: name, Kind: "encryption header", Offset: int64(len(head)), Len: HeaderSize, Detail: fmt.Sprintf(format, args...)}
	}
	if len(b) != HeaderSize {
		return h, bad("%d bytes are there", len(b))
	}
	if string(b[:len(headerMagic)]) != headerMagic {
		return h, bad("wrong magic")
	}
	if base.ChecksumParts(0, head, b[:atSum]) != binary.LittleEndian.Uint64(b[atSum:]) {
		return h, bad("checksum mismatch")
	}
	if alg := binary.LittleEndian.Uint32(b[atAlgorithm:]); alg != algorithm {
		return h, fmt.Errorf("encryption algorithm %d: %w", alg, &fault.VersionError{File: name, Have: alg, Supported: algorithm})
	}
	n := binary.LittleEndian.Uint32(b[atIDLen:])
	if n > MaxKeyID {
		return h, bad("key id of %d characters", n)
	}
	h.id = string(b[atID : atID+n])
	if err := checkKeyID(h.id); err != nil {
		return h, bad("%v", err)
	}
	copy(h.salt[:], b[atSalt:])
	copy(h.check[:], b[atCheck:])
	h.store = binary.LittleEndian.Uint64(b[atStore:])
	if !bytes.Equal(h.encode()[:atCheck], b[:atCheck]) {
		return h, bad("reserved bytes are not zero")
	}
	return h, nil
}

// FileHeaderSize is the length of the header of every kind of file.
const FileHeaderSize = 64

// Info is what can be read from an encryption header without a key.
type Info struct {
	KeyID   string // of the master key
	StoreID uint64 // of the store that the file is part of
}

// Inspect reads ext, the encryption header of the file called name. head is the file's own
// header. As it needs no key, what it returns may be forged. Errors are
// *fault.CorruptionError and *fault.VersionError.
func Inspect(name string, head, ext []byte) (Info, error) {
	h, err := decodeHeader(name, head, ext)
	return Info{KeyID: h.id, StoreID: h.store}, err
}
