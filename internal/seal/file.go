package seal

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"slices"
)

const (
	nonceSize = 12
	tagSize   = 16
	// chunkSize is how much plaintext a chunk holds; only the last one holds
	// less. A part of a large payload can be read without opening all of it.
	chunkSize = 64 << 10
	// sealedChunk is a full chunk: nonce, ciphertext, tag.
	sealedChunk = chunkSize + Overhead
)

// Overhead is what sealing adds to a payload for each 64 KiB begun, in bytes;
// an empty payload has it once.
const Overhead = nonceSize + tagSize

// ErrSeal: the bytes are not the ones that were sealed here, under this key.
var ErrSeal = errors.New("sealed bytes do not authenticate")

// File seals and opens payloads of one file. All methods may be called
// concurrently.
type File struct {
	id      string
	aead    cipher.AEAD
	entropy func([]byte)
}

// KeyID is the id of the master key; "" for a nil File, which stands for a file
// without encryption.
func (f *File) KeyID() string {
	if f == nil {
		return ""
	}
	return f.id
}

// SealedLen is the length of n bytes once sealed.
func SealedLen(n int64) int64 {
	chunks := max(1, (n+chunkSize-1)/chunkSize)
	return n + chunks*Overhead
}

// OpenedLen is the inverse of SealedLen. It reports false for a length that
// nothing sealed has.
func OpenedLen(m int64) (int64, bool) {
	full, rest := m/sealedChunk, m%sealedChunk
	switch {
	case m < Overhead, rest > 0 && rest < Overhead, rest == Overhead && full > 0:
		return 0, false
	case rest > 0:
		return full*chunkSize + rest - Overhead, true
	}
	return full * chunkSize, true
}

// Seal appends the parts, joined and sealed, to dst. aad is authenticated with
// them and must be given again to open them; it need not be secret. The parts
// are not changed and must not overlap dst.
func (f *File) Seal(dst, aad []byte, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	dst = slices.Grow(dst, int(SealedLen(int64(n))))
	data := make([]byte, len(aad)+4)
	copy(data, aad)
	src := joiner{slices.Clone(parts)}
	for i := uint32(0); ; i++ {
		binary.LittleEndian.PutUint32(data[len(aad):], i)
		size := min(n, chunkSize)
		at := len(dst)
		dst = dst[:at+nonceSize+size]
		nonce, plain := dst[at:at+nonceSize], dst[at+nonceSize:]
		f.entropy(nonce)
		src.take(plain)
		// In place: there is no second copy of a large payload.
		dst = dst[:at+nonceSize+len(f.aead.Seal(plain[:0], nonce, plain, data))]
		if n -= size; n == 0 {
			return dst
		}
	}
}

// joiner hands out the bytes of parts one after the other.
type joiner struct{ parts [][]byte }

// take fills b, for which there are bytes enough.
func (j *joiner) take(b []byte) {
	for len(b) > 0 {
		n := copy(b, j.parts[0])
		b = b[n:]
		if j.parts[0] = j.parts[0][n:]; len(j.parts[0]) == 0 {
			j.parts = j.parts[1:]
		}
	}
}

// Open appends what sealed holds to dst, which must not overlap it. With an
// error, always ErrSeal, nothing of it may be used, and nothing is returned.
func (f *File) Open(dst, aad, sealed []byte) ([]byte, error) {
	if _, ok := OpenedLen(int64(len(sealed))); !ok {
		return nil, ErrSeal
	}
	return f.OpenSpan(dst, aad, 0, sealed)
}

// Span returns the range of sealed bytes, whole chunks, that holds n bytes of
// plaintext at off, and the plaintext offset at which that range begins. It
// reports false if the payload, sealed bytes long when sealed, does not hold
// them.
func Span(sealed, off, n int64) (from, to, begins int64, ok bool) {
	total, ok := OpenedLen(sealed)
	if !ok || off < 0 || n < 0 || off > total || n > total-off {
		return 0, 0, 0, false
	}
	first := off / chunkSize
	if off == total && off > 0 && off%chunkSize == 0 {
		first-- // nothing of a chunk that is not there
	}
	last := max(off+n-1, off) / chunkSize
	from = first * sealedChunk
	return from, max(min((last+1)*sealedChunk, sealed), from), first * chunkSize, true
}

// OpenSpan is Open for the chunks that Span named: b holds the sealed bytes
// [from, to). Their number and their places are authenticated as far as aad
// says how long the whole payload is.
func (f *File) OpenSpan(dst, aad []byte, from int64, b []byte) ([]byte, error) {
	if from < 0 || from%sealedChunk != 0 {
		return nil, ErrSeal
	}
	data := make([]byte, len(aad)+4)
	copy(data, aad)
	for i := uint32(from / sealedChunk); len(b) > 0; i++ {
		c := b[:min(len(b), sealedChunk)]
		b = b[len(c):]
		if len(c) < Overhead {
			return nil, ErrSeal
		}
		binary.LittleEndian.PutUint32(data[len(aad):], i)
		var err error
		if dst, err = f.aead.Open(dst, c[:nonceSize], c[nonceSize:], data); err != nil {
			return nil, ErrSeal
		}
	}
	return dst, nil
}
