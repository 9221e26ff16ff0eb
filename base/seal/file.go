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
	// chunkSize is the plaintext of a chunk; only the last one has less. Chunks let a part
	// of a large payload be read without opening all of it.
	chunkSize = 64 << 10
	// sealedChunk is a full chunk: nonce, ciphertext, tag.
	sealedChunk = chunkSize + Overhead
)

// Overhead is how many bytes sealing adds for each 64 KiB of a payload or part of that; to an
// empty payload it adds them once.
const Overhead = nonceSize + tagSize

// ErrSeal says that bytes are not those that were sealed at this place with this key.
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

// OpenedLen is the inverse of SealedLen. It reports false for a length that nothing sealed can
// have.
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

// Seal joins and seals the parts and appends the result to dst. aad, which need not be secret,
// is authenticated with them and needed again to open them. The parts are not changed and
// must not overlap dst.
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
		// In place, without a second copy of a large payload.
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

// Open opens sealed and appends the plaintext to dst, which must not overlap it. The only error
// is ErrSeal.
func (f *File) Open(dst, aad, sealed []byte) ([]byte, error) {
	if _, ok := OpenedLen(int64(len(sealed))); !ok {
		return nil, ErrSeal
	}
	return f.OpenSpan(dst, aad, 0, sealed)
}

// Span returns the chunks of a sealed payload that have n bytes of plaintext at off: the range
// of sealed bytes, and the plaintext offset at which it begins. sealed is the length of the
// whole sealed payload. Span reports false if that does not have these bytes.
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

// OpenSpan is Open for the chunks of a Span; b has the sealed bytes [from, to). If aad says how
// long the whole payload is, the number and the places of the chunks are authenticated too.
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
