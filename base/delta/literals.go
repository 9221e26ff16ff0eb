package delta

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/stele-go/stele/base"
)

// Codecs of the literals.
const (
	codecRaw  byte = 0
	codecZstd byte = 1
)

const (
	// minPack: fewer literals are not compressed, because that would cost more time than
	// the saved bytes are worth. So the patch of one step of a chat stays raw, and the
	// patch of many steps does not.
	minPack = 4 << 10
	// zstdMaxRatio: a zstd block takes at least 4 bytes and decodes to at most 128 KiB.
	// Literals that claim more are malformed.
	zstdMaxRatio = 128 << 10 / 4
)

// The process shares one encoder and one decoder. Both are stateless between calls and start no
// goroutine.
var (
	encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
			zstd.WithWindowSize(128<<10), zstd.WithLowerEncoderMem(true))
	})
	unpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(base.MaxStored), zstd.WithDecodeAllCapLimit(true))
	})
)

// pack compresses literals if that saves a quarter of their size.
func pack(lits []byte) (codec byte, stored []byte) {
	if len(lits) < minPack {
		return codecRaw, lits
	}
	enc, err := encoder()
	if err != nil {
		return codecRaw, lits
	}
	out := enc.EncodeAll(lits, make([]byte, 0, len(lits)))
	if len(out) > len(lits)-len(lits)/4 {
		return codecRaw, lits
	}
	return codecZstd, out
}

// unpack is the inverse of pack: n bytes of literals.
func unpack(codec byte, stored []byte, n int) ([]byte, error) {
	if codec == codecRaw {
		if len(stored) != n {
			return nil, fmt.Errorf("patch: %d bytes of literals, %d are used", len(stored), n)
		}
		return stored, nil
	}
	if n > len(stored)*zstdMaxRatio {
		return nil, fmt.Errorf("patch: %d bytes cannot decode to %d", len(stored), n)
	}
	dec, err := unpacker()
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	lits, err := dec.DecodeAll(stored, make([]byte, 0, n))
	if err != nil {
		return nil, fmt.Errorf("patch: literals: %w", err)
	}
	if len(lits) != n {
		return nil, fmt.Errorf("patch: literals of %d bytes, %d are used", len(lits), n)
	}
	return lits, nil
}
