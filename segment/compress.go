package segment

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

const (
	// minCompress: below it the frame of zstd eats what could be saved.
	minCompress = 64
	// pieceSize is how much is compressed before the processor is yielded; it takes
	// 0.15 ms or so. Each piece ends a block of zstd, which costs 0.3 % more bytes for
	// text, and 2.5 % where nearly all of it repeats.
	pieceSize = 16 << 10
	// sampleFrom: payloads from here on that are larger than a block are sampled first.
	sampleFrom = 1 << 20
	// sampleSize is how many bytes from the beginning and from the middle of a large
	// payload are compressed to see whether the whole is worth it.
	sampleSize = 64 << 10
	chunkSize  = 1 << 20
	// quickDirectory is the size up to which directories are stored for quick reading:
	// those of partitions without much history.
	quickDirectory = 4 << 10
)

// quick reports whether the first read of a partition waits for a frame of n bytes: for
// the newest values of a family and for its directory, unless they are large.
func (k kind) quick(n int) bool {
	return k == kindHead && n <= maxQuickRaw || k == kindDirectory && n <= quickDirectory
}

var errNoGain = errors.New("compressing saves too little")

// worthwhile is the rule for codec 1: it must save at least 5 %.
func worthwhile(raw, stored int) bool { return stored <= raw-raw/20 }

// compressor compresses payloads. It belongs to one builder and keeps its buffers from
// frame to frame.
type compressor struct {
	enc   *zstd.Encoder
	home  *sync.Pool // where enc goes back to
	quick bool       // as BuilderOptions has it
	// whole: one part up to this size, that of a block, is compressed without samples.
	whole int
	join  []byte // parts of a small payload, joined
	dst   []byte // output, or the first of it
	sink  chunkSink
	pause func() // called after each piece; may be nil
}

// newCompressor makes one for blocks of up to blockSize bytes.
func newCompressor(level, blockSize int) (*compressor, error) {
	// The window spans a block, so that its last value still refers to the first.
	window := 1 << 20
	for window < blockSize {
		window <<= 1
	}
	home := encoders(level, window)
	if enc, ok := home.Get().(*zstd.Encoder); ok {
		return &compressor{enc: enc, home: home, whole: max(blockSize, sampleFrom-1)}, nil
	}
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.EncoderLevel(level)),
		zstd.WithEncoderConcurrency(1), // no goroutine: the builder's caller does the work
		zstd.WithEncoderCRC(false),     // the frame has a checksum
		zstd.WithWindowSize(window),
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("make zstd encoder: %w", err)
	}
	return &compressor{enc: enc, home: home, whole: max(blockSize, sampleFrom-1)}, nil
}

// encoderKind is what tells encoders apart.
type encoderKind struct{ level, window int }

// idleEncoders are the encoders that no builder is using, by kind. They are kept because
// their tables are large: a flush of a few records would do little but clear new ones.
var idleEncoders sync.Map // of encoderKind to *sync.Pool

func encoders(level, window int) *sync.Pool {
	kind := encoderKind{level, window}
	if p, ok := idleEncoders.Load(kind); ok {
		return p.(*sync.Pool)
	}
	p, _ := idleEncoders.LoadOrStore(kind, new(sync.Pool))
	return p.(*sync.Pool)
}

// pack returns the bytes to store for the payload of a frame, which is given in parts and
// has n bytes. The result is valid until the next call; with codecRaw it is parts itself.
func (c *compressor) pack(k kind, parts [][]byte, n int) (codec, [][]byte, error) {
	if n < minCompress {
		return codecRaw, parts, nil
	}
	if k.quick(n) || c.quick && n <= maxQuickRaw {
		c.dst = s2.Encode(slices.Grow(c.dst[:0], s2.MaxEncodedLen(n))[:0], c.joined(parts))
		if !worthwhile(n, len(c.dst)) {
			return codecRaw, parts, nil
		}
		return codecS2, [][]byte{c.dst}, nil
	}
	if n >= sampleFrom && (len(parts) > 1 || n > c.whole) && !c.samplesShrink(parts, n) {
		return codecRaw, parts, nil
	}
	return c.stream(parts, n)
}

// joined is the payload in one part.
func (c *compressor) joined(parts [][]byte) []byte {
	if len(parts) == 1 {
		return parts[0]
	}
	c.join = c.join[:0]
	for _, p := range parts {
		c.join = append(c.join, p...)
	}
	return c.join
}

// samplesShrink reports whether one of two samples of a large payload compresses. It saves
// a pass over many bytes that are encrypted or compressed already.
func (c *compressor) samplesShrink(parts [][]byte, n int) bool {
	for _, at := range []int{0, n / 2} {
		for _, p := range parts {
			if at >= len(p) {
				at -= len(p)
				continue
			}
			s := p[at:min(len(p), at+sampleSize)]
			c.dst = c.enc.EncodeAll(s, c.dst[:0])
			if worthwhile(len(s), len(c.dst)) {
				return true
			}
			break
		}
	}
	return false
}

// stream compresses piece by piece, without joining the parts. The output is a list of
// chunks, so that it never has to be copied to grow: the memory needed is that of the
// caller's bytes, at most 95 % of that again, and the encoder's window.
func (c *compressor) stream(parts [][]byte, n int) (codec, [][]byte, error) {
	c.dst = slices.Grow(c.dst[:0], min(n, chunkSize))
	c.sink = chunkSink{chunks: append(c.sink.chunks[:0], c.dst), left: n - n/20}
	c.enc.ResetContentSize(&c.sink, int64(n))
	err := c.streamParts(parts)
	c.enc.Reset(nil)
	switch {
	case errors.Is(err, errNoGain):
		return codecRaw, parts, nil
	case err != nil:
		return 0, nil, fmt.Errorf("compress %d bytes: %w", n, err)
	}
	return codecZstd, c.sink.chunks, nil
}

func (c *compressor) streamParts(parts [][]byte) error {
	left := pieceSize
	for _, p := range parts {
		for len(p) > 0 {
			n := min(len(p), left)
			if _, err := c.enc.Write(p[:n]); err != nil {
				return err
			}
			p = p[n:]
			if left -= n; left > 0 {
				continue
			}
			if err := c.enc.Flush(); err != nil {
				return err
			}
			if left = pieceSize; c.pause != nil {
				c.pause()
			}
		}
	}
	return c.enc.Close()
}

// trim gives up what only a large payload needed.
func (c *compressor) trim() {
	clear(c.sink.chunks)
	c.sink.chunks = c.sink.chunks[:0]
}

func (c *compressor) close() {
	if c.enc != nil {
		c.home.Put(c.enc) // no stream is open: stream resets it
	}
	*c = compressor{}
}

// chunkSink collects output until it would exceed what makes it worthwhile.
type chunkSink struct {
	chunks [][]byte
	left   int
}

// Write implements io.Writer.
func (s *chunkSink) Write(p []byte) (int, error) {
	if len(p) > s.left {
		return 0, errNoGain
	}
	s.left -= len(p)
	n := len(p)
	for len(p) > 0 {
		last := len(s.chunks) - 1
		if last < 0 || len(s.chunks[last]) == cap(s.chunks[last]) {
			s.chunks = append(s.chunks, make([]byte, 0, chunkSize))
			last++
		}
		c := s.chunks[last]
		m := min(len(p), cap(c)-len(c))
		s.chunks[last] = append(c, p[:m]...)
		p = p[m:]
	}
	return n, nil
}

// decoder is shared by all readers of the process. It has no state between calls, bounds
// its parallelism by GOMAXPROCS, and runs no goroutine.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxSectionRaw),
		zstd.WithDecoderMaxWindow(MaxBlockRaw),
		// The output never outgrows the buffer made for the frame's raw length,
		// whatever the zstd headers claim.
		zstd.WithDecodeAllCapLimit(true))
})

// unpack decodes the payload of a frame that was verified, into room if that is large
// enough. If the codec is raw, the result is payload itself.
func unpack(p place, h frameHeader, payload, room []byte) ([]byte, error) {
	if h.codec == codecRaw {
		return payload, nil
	}
	if room = room[:0]; uint64(cap(room)) < uint64(h.raw) {
		room = nil
	}
	if h.codec == codecS2 {
		return unpackQuick(p, h, payload, room)
	}
	dec, err := decoder()
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	if room == nil {
		room = make([]byte, 0, h.raw)
	}
	raw, err := dec.DecodeAll(payload, room)
	if err != nil {
		return nil, p.corrupt(err, "zstd payload")
	}
	if len(raw) != int(h.raw) {
		return nil, p.corrupt(nil, "decodes to %d bytes, header says %d", len(raw), h.raw)
	}
	return raw, nil
}

// unpackQuick is unpack for a payload of S2; it decodes into room if that is large enough.
func unpackQuick(p place, h frameHeader, payload, room []byte) ([]byte, error) {
	n, err := s2.DecodedLen(payload)
	if err != nil {
		return nil, p.corrupt(err, "s2 payload")
	}
	if n != int(h.raw) {
		return nil, p.corrupt(nil, "decodes to %d bytes, header says %d", n, h.raw)
	}
	if room == nil {
		room = make([]byte, 0, n)
	}
	raw, err := s2.Decode(room[:n], payload)
	if err != nil {
		return nil, p.corrupt(err, "s2 payload")
	}
	return raw, nil
}

// sizeOf is the length of parts joined; false if it is over limit.
func sizeOf(parts [][]byte, limit int) (int, bool) {
	n := 0
	for _, p := range parts {
		if len(p) > limit-n {
			return math.MaxInt, false
		}
		n += len(p)
	}
	return n, true
}
