package segment

import (
	"encoding/binary"
	"io"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/seal"
)

// An encrypted segment has an encryption header behind its own header, and directly before
// the footer a frame of kind kindSeal. That frame has a copy of the encryption header, so
// that reading can begin at the end of the file and damage to the beginning does no harm,
// and a tag that authenticates the footer.

const (
	// sealPayload is the payload of the seal: the copy, and nothing sealed.
	sealPayload = seal.HeaderSize + seal.Overhead
	sealSize    = (frameHeaderSize + sealPayload + frameAlign - 1) / frameAlign * frameAlign
	// sealedStart is where the frames of an encrypted file begin.
	sealedStart = fileHeaderSize + seal.HeaderSize
)

// sealed reports whether the file is encrypted.
func (ft *footer) sealed() bool { return ft.flags&fileSealed != 0 }

// frameStart is the offset at which the frames of a file begin. An encrypted file has the header of
// its encryption before them.
func frameStart(sealed bool) int64 {
	if sealed {
		return sealedStart
	}
	return fileHeaderSize
}

// frameEnd is where frames that somebody refers to end in a file with a footer.
func frameEnd(size int64, sealed bool) int64 {
	if sealed {
		return size - footerSize - sealSize
	}
	return size - footerSize
}

// frameAAD is the additional data that is authenticated with a payload: the place of the
// frame in its file, and its header without the checksum. The file's own header is part of
// its key.
func frameAAD(off int64, header []byte) []byte {
	b := make([]byte, 8, 8+frameHeaderSize+footerSize)
	binary.LittleEndian.PutUint64(b, uint64(off))
	return append(b, header[8:frameHeaderSize]...)
}

// openPayload opens the payload of the verified frame b.
func openPayload(p place, file *seal.File, h frameHeader, b, payload []byte) ([]byte, error) {
	if h.kind == kindSeal {
		return payload, nil // it is checked with the footer
	}
	n, _ := seal.OpenedLen(int64(h.stored)) // known to be one
	plain, err := file.Open(make([]byte, 0, n), frameAAD(p.off, b), payload)
	if err != nil {
		return nil, p.corrupt(err, "frame")
	}
	return plain, nil
}

// head is the header of the file that the footer belongs to, byte for byte.
func (ft *footer) head() []byte {
	return fileHeader{version: ft.FormatVersion, flags: ft.flags, num: ft.FileNum, salt: ft.Salt}.encode()
}

// encodeSeal makes the frame that goes before the footer, at off.
func encodeSeal(ft *footer, file *seal.File, ext []byte, off int64) []byte {
	h := frameHeader{stored: sealPayload, raw: sealPayload, kind: kindSeal, codec: codecRaw, flags: flagSealed}.encode()
	b := append(h[:], ext...)
	b = file.Seal(b, append(frameAAD(off, h[:]), ft.encode()...))
	b = append(b, zeroPad[:sealSize-len(b)]...)
	binary.LittleEndian.PutUint64(b, base.Checksum(seedAt(ft.Salt, off), b[8:]))
	return b
}

// unlock makes the key of the file from the footer and the kindSeal frame, and authenticates
// the footer with it. It returns nil for a file without encryption, where that is allowed.
func (ft *footer) unlock(f io.ReaderAt, name string, keys *seal.Keyring) (*seal.File, error) {
	if !ft.sealed() {
		return keys.Open(name, ft.FileNum, false, nil, nil)
	}
	off := ft.Size - footerSize - sealSize
	p := place{name, kindSeal.String(), off, sealSize}
	if off < sealedStart {
		return nil, p.corrupt(nil, "%d bytes are too few for an encrypted segment", ft.Size)
	}
	b := make([]byte, sealSize)
	if err := readFull(f, p, b); err != nil {
		return nil, err
	}
	h, payload, err := verifyFrame(p, ft.Salt, true, b)
	if err != nil {
		return nil, err
	}
	if h.kind != kindSeal || h.stored != sealPayload {
		return nil, p.corrupt(nil, "the frame there is a %s", h.kind)
	}
	file, err := keys.Open(name, ft.FileNum, true, ft.head(), payload[:seal.HeaderSize])
	if err != nil {
		return nil, err
	}
	if _, err := file.Open(nil, append(frameAAD(off, b), ft.encode()...), payload[seal.HeaderSize:]); err != nil {
		return nil, place{name, "segment footer", ft.Size - footerSize, footerSize}.corrupt(err, "footer")
	}
	return file, nil
}

// unlockHead makes the key of a file without a footer from its headers.
func unlockHead(f io.ReaderAt, name string, h fileHeader, keys *seal.Keyring) (*seal.File, error) {
	sealed := h.flags&fileSealed != 0
	ext := make([]byte, seal.HeaderSize)
	if sealed {
		if err := readFull(f, place{name, "encryption header", fileHeaderSize, seal.HeaderSize}, ext); err != nil {
			return nil, err
		}
	}
	return keys.Open(name, h.num, sealed, h.encode(), ext)
}

// OpenOption changes how a segment is opened.
type OpenOption func(*Reader)

// WithKeys sets the keyring of the store. Without it, or with nil, only a segment without
// encryption can be opened. A segment that needs another key, or that should be encrypted
// and is not, is a *fault.KeyError.
func WithKeys(keys *seal.Keyring) OpenOption { return func(r *Reader) { r.keys = keys } }

// KeyID is the id of the key that the segment is encrypted with; "" if it is not.
func (r *Reader) KeyID() string { return r.key.KeyID() }

// KeyID is the id of the key that the segment is encrypted with; "" if it is not.
func (b *Builder) KeyID() string { return b.seal.KeyID() }
