package replica

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
)

// ChunkVersion is the format version of chunks and fences that this build writes, and the
// newest that it reads.
const ChunkVersion uint32 = 1

const (
	// headerSize is the length of the header of a chunk. A fence is nothing else. So a
	// listing tells them apart: what is longer is a chunk.
	headerSize   = 128
	headerSummed = headerSize - 8
	sumSize      = 8
	// MaxBatch is the most that the records of one batch may have: 512 MiB.
	MaxBatch = 512 << 20
	// maxRecords is how many records a chunk has at most. Each takes memory where it is read.
	maxRecords = 1 << 24
	maxRaw     = MaxBatch + 64<<20 // with the lengths of as many records
	maxChunk   = headerSize + seal.HeaderSize + maxRaw + maxRaw/1024 + sumSize
	// maxEpoch and maxSeq are what fits in the digits of a key.
	maxEpoch = 1e10 - 1
	maxSeq   = 1e12 - 1
)

var (
	chunkMagic = [8]byte{'s', 't', 'e', 'l', 'e', 'C', 'H', 'K'}
	fenceMagic = [8]byte{'s', 't', 'e', 'l', 'e', 'F', 'N', 'C'}
)

const (
	flagZstd   uint32 = 1 << 0 // the payload is compressed
	flagSealed uint32 = 1 << 1 // and then encrypted
	flagCut    uint32 = 1 << 2 // see Batch.Cut: its first one
)

// header begins a chunk, and is a whole fence.
type header struct {
	fence       bool
	flags       uint32
	store       uint64
	epoch, seq  uint64
	first, last base.LSN // of a fence: both are the last record of the epoch or of those before it
	firstStamp  int64
	lastStamp   int64
	before      Chain
	after       Chain  // of a fence: as before
	stored      uint64 // length of the payload; of a fence 0
	raw         uint64 // the same before compression; of a fence the epoch that wrote it
}

func (h *header) append(dst []byte) []byte {
	start, magic := len(dst), chunkMagic
	if h.fence {
		magic = fenceMagic
	}
	dst = append(dst, magic[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, ChunkVersion)
	dst = binary.LittleEndian.AppendUint32(dst, h.flags)
	for _, v := range []uint64{h.store, h.epoch, h.seq, uint64(h.first), uint64(h.last), uint64(h.firstStamp), uint64(h.lastStamp)} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	dst = append(append(dst, h.before[:]...), h.after[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, h.stored)
	dst = binary.LittleEndian.AppendUint64(dst, h.raw)
	return binary.LittleEndian.AppendUint64(dst, base.Checksum(0, dst[start:]))
}

// decodeHeader decodes what b begins with. name is the key of the object. Errors are
// *fault.CorruptionError, *fault.VersionError, and ErrOtherStore unless the header is of store.
func decodeHeader(name string, store uint64, b []byte) (*header, error) {
	if len(b) < headerSize {
		return nil, damaged(name, "chunk", "cut short after %d bytes", len(b))
	}
	h := &header{fence: [8]byte(b) == fenceMagic}
	if !h.fence && [8]byte(b) != chunkMagic {
		return nil, damaged(name, "chunk", "wrong magic")
	}
	if base.Checksum(0, b[:headerSummed]) != binary.LittleEndian.Uint64(b[headerSummed:]) {
		return nil, damaged(name, "chunk", "checksum mismatch of the header")
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }
	version := binary.LittleEndian.Uint32(b[8:])
	if h.flags = binary.LittleEndian.Uint32(b[12:]); h.flags&^(flagZstd|flagSealed|flagCut) != 0 {
		version = max(version, ChunkVersion+1)
	}
	if version > ChunkVersion {
		return nil, &fault.VersionError{File: name, Have: version, Supported: ChunkVersion}
	}
	h.store, h.epoch, h.seq = word(16), word(24), word(32)
	h.first, h.last = base.LSN(word(40)), base.LSN(word(48))
	h.firstStamp, h.lastStamp = int64(word(56)), int64(word(64))
	h.before, h.after = Chain(b[72:]), Chain(b[88:])
	h.stored, h.raw = word(104), word(112)
	switch {
	case version == 0:
		return nil, damaged(name, "chunk", "format version 0")
	case h.store != store:
		return nil, fmt.Errorf("%s: %w: %016x, this one is %016x", name, ErrOtherStore, h.store, store)
	case h.epoch > maxEpoch || h.seq > maxSeq || name != chunkKey(h.epoch, h.seq):
		return nil, damaged(name, "chunk", "it is chunk %d of epoch %d", h.seq, h.epoch)
	case h.fence && (h.flags != 0 || h.first != h.last || h.before != h.after || h.stored != 0 || h.raw <= h.epoch):
		return nil, damaged(name, "fence", "its fields contradict one another")
	case !h.fence && (h.first == 0 || h.last < h.first || h.last-h.first >= maxRecords || h.last == base.MaxLSN ||
		h.lastStamp < h.firstStamp || h.stored > maxChunk || h.raw > maxRaw):
		return nil, damaged(name, "chunk", "its fields contradict one another")
	}
	return h, nil
}

// end is the place behind the records.
func (h *header) end() Position {
	return Position{LSN: h.last, Chain: h.after, Stamp: h.lastStamp, Epoch: h.epoch, Seq: h.seq + 1}
}

var encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
})

var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxRaw), zstd.WithDecodeAllCapLimit(true))
})

// encodeChunk encodes batches, which follow one another. h has their LSNs, chains and stamps.
func encodeChunk(h header, batches []Batch, keys *seal.Keyring) ([]byte, error) {
	raw := binary.AppendUvarint(nil, uint64(len(batches)))
	for _, b := range batches {
		raw = binary.AppendVarint(raw, b.Stamp)
		raw = binary.AppendUvarint(raw, uint64(len(b.Records)))
		for _, r := range b.Records {
			raw = append(binary.AppendUvarint(raw, uint64(len(r))), r...)
		}
	}
	if h.raw = uint64(len(raw)); h.raw > maxRaw {
		return nil, fmt.Errorf("a chunk of %d bytes: %w", h.raw, fault.ErrTooLarge)
	}
	enc, err := encoder()
	if err != nil {
		return nil, fmt.Errorf("make zstd encoder: %w", err)
	}
	payload := raw
	if packed := enc.EncodeAll(raw, nil); len(packed) < len(raw) {
		payload, h.flags = packed, h.flags|flagZstd
	}
	h.stored = uint64(len(payload))
	if keys == nil {
		b := append(h.append(make([]byte, 0, headerSize+len(payload)+sumSize)), payload...)
		return binary.LittleEndian.AppendUint64(b, base.Checksum(0, b)), nil
	}
	h.flags, h.stored = h.flags|flagSealed, uint64(seal.SealedLen(int64(len(payload))))
	head := h.append(nil)
	file, ext, err := keys.Create(chunkKey(h.epoch, h.seq), head)
	if err != nil {
		return nil, err
	}
	b := file.Seal(append(head, ext...), nil, payload)
	return binary.LittleEndian.AppendUint64(b, base.Checksum(0, b)), nil
}

// decodeChunk decodes a chunk or a fence. It checks all but the chain. Errors are those of
// decodeHeader, and *fault.KeyError.
func decodeChunk(name string, store uint64, b []byte, keys *seal.Keyring) (*header, []Batch, error) {
	h, err := decodeHeader(name, store, b)
	if err != nil {
		return nil, nil, err
	}
	if h.fence {
		if len(b) != headerSize {
			return nil, nil, damaged(name, "fence", "%d bytes", len(b))
		}
		return h, nil, nil
	}
	at := headerSize
	if h.flags&flagSealed != 0 {
		at += seal.HeaderSize
	}
	if uint64(len(b)) != uint64(at)+h.stored+sumSize {
		return nil, nil, damaged(name, "chunk", "%d bytes, its header says %d", len(b), uint64(at)+h.stored+sumSize)
	}
	end := len(b) - sumSize
	if base.Checksum(0, b[:end]) != binary.LittleEndian.Uint64(b[end:]) {
		return nil, nil, damaged(name, "chunk", "checksum mismatch")
	}
	payload, err := unpack(name, h, b[:headerSize], b[headerSize:at], b[at:end], keys)
	if err != nil {
		return nil, nil, err
	}
	batches, err := decodeBatches(name, h, payload)
	return h, batches, err
}

// unpack decrypts and decompresses a payload.
func unpack(name string, h *header, head, ext, payload []byte, keys *seal.Keyring) ([]byte, error) {
	file, err := keys.Open(name, base.FileNum(base.MaxLSN), h.flags&flagSealed != 0, head, ext)
	if err != nil {
		return nil, err
	}
	if file != nil {
		if payload, err = file.Open(nil, nil, payload); err != nil {
			return nil, damaged(name, "chunk", "%v", err)
		}
	}
	if h.flags&flagZstd != 0 {
		dec, err := decoder()
		if err != nil {
			return nil, fmt.Errorf("make zstd decoder: %w", err)
		}
		if payload, err = dec.DecodeAll(payload, make([]byte, 0, h.raw)); err != nil {
			return nil, damaged(name, "chunk", "%v", err)
		}
	}
	if uint64(len(payload)) != h.raw {
		return nil, damaged(name, "chunk", "decodes to %d bytes, its header says %d", len(payload), h.raw)
	}
	return payload, nil
}

func decodeBatches(name string, h *header, payload []byte) ([]Batch, error) {
	c := base.Cursor{What: "chunk", Left: payload}
	lsn, stamp := h.first, h.firstStamp
	var batches []Batch
	for n := c.Count(3); n > 0 && c.Err == nil; n-- {
		b := Batch{First: lsn, Stamp: c.Varint()}
		records := c.Count(1)
		if records == 0 || uint64(records) > uint64(h.last-lsn)+1 || b.Stamp < stamp || b.Stamp > h.lastStamp {
			c.Fail("a batch of %d records from %d on with the stamp %d behind %d", records, lsn, b.Stamp, stamp)
			break
		}
		b.Records = make([][]byte, records)
		for i := range b.Records {
			b.Records[i] = c.Bytes(c.Uvarint())
		}
		b.Cut = len(batches) == 0 && h.flags&flagCut != 0
		lsn, stamp = lsn+base.LSN(records), b.Stamp
		batches = append(batches, b)
	}
	if c.Err == nil && (len(c.Left) > 0 || lsn != h.last+1 || stamp != h.lastStamp || batches[0].Stamp != h.firstStamp) {
		c.Fail("the batches do not end at record %d", h.last)
	}
	if c.Err != nil {
		return nil, damaged(name, "chunk", "%v", c.Err)
	}
	return batches, nil
}

// chainOf returns the chain behind record last of batches, which begin behind the chain before.
func chainOf(before Chain, key []byte, batches []Batch, last base.LSN) Chain {
	for _, b := range batches {
		for i, r := range b.Records {
			if lsn := b.First + base.LSN(i); lsn <= last {
				before = before.Next(key, lsn, r)
			}
		}
	}
	return before
}

func damaged(name, kind, format string, args ...any) error {
	return &fault.CorruptionError{File: name, Kind: kind, Offset: -1, Detail: fmt.Sprintf(format, args...)}
}
