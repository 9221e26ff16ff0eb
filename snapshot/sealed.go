package snapshot

import (
	"encoding/binary"
	"strconv"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/seal"
)

const (
	// sealedFlag in a file header marks an encrypted file: an encryption header follows,
	// and the payloads of all frames are encrypted.
	sealedFlag = 1 << 1
	// frameSealed is the flag of a sealed frame.
	frameSealed = 1 << 0
	// sealedStart is where the frames of an encrypted file begin.
	sealedStart = headerSize + seal.HeaderSize
)

// plainBelowOption is the key of State.Options under which a store that was encrypted after it
// was made has the number for PlainBelow.
const plainBelowOption = "plain-below"

// PlainBelow is the number below which files of the store, other than manifests, may be
// without encryption because they are older. It is 0 in a store that was always encrypted,
// or never. Since the manifest that says so is encrypted, nobody can forge it.
func (s *State) PlainBelow() base.FileNum {
	n, err := strconv.ParseUint(s.Options[plainBelowOption], 10, 64)
	if err != nil {
		return 0
	}
	return base.FileNum(n)
}

// setPlainBelow makes every file there is now one that may be without encryption.
func (s *State) setPlainBelow() {
	if s.Options == nil {
		s.Options = map[string]string{}
	}
	s.Options[plainBelowOption] = strconv.FormatUint(uint64(s.NextFileNum), 10)
}

// readOptions say how files are read.
type readOptions struct {
	keys  *seal.Keys
	ring  *seal.Keyring
	adopt bool
}

// ReadOption changes how a manifest or an image is read.
type ReadOption func(*readOptions)

// WithKeys sets the keys for manifests. Without it, or with nil, only manifests without
// encryption can be read. A file that needs another key, or that should be encrypted and is
// not, is a *fault.KeyError.
func WithKeys(keys *seal.Keys) ReadOption { return func(o *readOptions) { o.keys = keys } }

// WithKeyring sets the keys for images, as WithKeys does for manifests.
func WithKeyring(keys *seal.Keyring) ReadOption { return func(o *readOptions) { o.ring = keys } }

// AllowPlain lets a manifest without encryption be read although there are keys, for a store
// that is about to be encrypted.
func AllowPlain() ReadOption { return func(o *readOptions) { o.adopt = true } }

func optionsOf(opts []ReadOption) readOptions {
	var o readOptions
	for _, f := range opts {
		f(&o)
	}
	return o
}

// manifestKeys is the keyring for the manifest of store id.
func (o readOptions) manifestKeys(id uint64) *seal.Keyring {
	if o.adopt {
		return o.keys.Keyring(id, ^base.FileNum(0))
	}
	return o.keys.Keyring(id, 0)
}

// framer builds and opens the frames of one file, sealed if the file is.
type framer struct {
	salt uint64
	seal *seal.File // nil: the file is not encrypted
}

// stored is the length of a payload of n bytes as it goes to the file.
func (fr framer) stored(n int) int {
	if fr.seal == nil {
		return n
	}
	return int(seal.SealedLen(int64(n)))
}

// append appends a manifest frame; off is its place in the file.
func (fr framer) append(dst []byte, off int64, f frame) []byte {
	if fr.seal != nil {
		f.flags |= frameSealed
		plain := f.payload
		f.payload = fr.seal.Seal(nil, manifestAAD(off, fr.stored(len(plain)), f), plain)
	}
	return appendFrame(dst, fr.salt, off, f)
}

// open decrypts the payload of a valid frame at off. It reports false for a frame that should
// be encrypted and is not, or that does not authenticate. No crash leaves such a frame.
func (fr framer) open(off int64, f *frame) bool {
	if fr.seal == nil {
		return true
	}
	if f.flags&frameSealed == 0 {
		return false
	}
	plain, err := fr.seal.Open(nil, manifestAAD(off, len(f.payload), *f), f.payload)
	f.flags, f.payload = f.flags&^frameSealed, plain
	return err == nil
}

// manifestAAD is the additional data that is authenticated with a payload of n stored bytes:
// the place of the frame, and its header without the checksum.
func manifestAAD(off int64, n int, f frame) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(off))
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	b = append(b, byte(f.typ), f.flags)
	b = binary.LittleEndian.AppendUint16(b, f.reserved)
	b = binary.LittleEndian.AppendUint64(b, f.seq)
	return binary.LittleEndian.AppendUint64(b, uint64(f.promise))
}

// imageAAD is the same for the frame of an image with the header h.
func imageAAD(off int64, h []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(off))
	return append(b, h[8:imageFrameHeader]...)
}

// sealedHead makes the key of a new file, and appends both headers to dst.
func sealedHead(dst []byte, name string, magic [8]byte, h fileHeader, keys *seal.Keyring) ([]byte, *seal.File, error) {
	if keys != nil {
		h.flags |= sealedFlag
	}
	start := len(dst)
	dst = appendHeader(dst, magic, h)
	f, ext, err := keys.Create(name, dst[start:])
	return append(dst, ext...), f, err
}

// frameStart is where the frames of the file begin.
func (h *fileHeader) frameStart() int {
	if h.flags&sealedFlag != 0 {
		return sealedStart
	}
	return headerSize
}

// openSeal makes the key of a file from both headers at the beginning of b.
func (h *fileHeader) openSeal(name string, b []byte, num base.FileNum, keys *seal.Keyring) (*seal.File, error) {
	return keys.Open(name, num, h.flags&sealedFlag != 0, b[:headerSize], b[headerSize:min(len(b), sealedStart)])
}
