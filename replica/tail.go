package replica

import (
	"encoding/binary"

	"github.com/stele-go/stele/base/fault"
)

// EncodeTail encodes batches that the caller alone has behind a position, as the chunk that would have followed it. It is
// for what diverged: see ErrDiverged. o has the store and the keys.
func EncodeTail(o Options, at Position, batches []Batch) ([]byte, error) {
	first, last := &batches[0], &batches[len(batches)-1]
	h := header{store: o.Store, epoch: at.Epoch, seq: at.Seq, first: first.First, last: last.Last(), firstStamp: first.Stamp,
		lastStamp: last.Stamp, before: at.Chain, after: chainOf(at.Chain, o.ChainKey, batches, last.Last())}
	return encodeChunk(h, batches, o.Keys)
}

// DecodeTail is the inverse of EncodeTail; the position is where the batches begin. name is for errors, which are
// *fault.CorruptionError, *fault.VersionError, *fault.KeyError and ErrOtherStore.
func DecodeTail(o Options, name string, b []byte) (Position, []Batch, error) {
	if len(b) < headerSize {
		return Position{}, nil, &fault.CorruptionError{File: name, Kind: "tail", Offset: int64(len(b)), Detail: "it ends here"}
	}
	h, batches, err := decodeChunk(chunkKey(binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[32:])), o.Store, b, o.Keys)
	if err != nil {
		return Position{}, nil, err
	}
	if h.fence || chainOf(h.before, o.ChainKey, batches, h.last) != h.after {
		return Position{}, nil, damaged(name, "tail", "it does not have its chain")
	}
	return Position{LSN: h.first - 1, Chain: h.before, Stamp: h.firstStamp, Epoch: h.epoch, Seq: h.seq}, batches, nil
}
