package engine

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/snapshot"
)

// Tombstones travel in segments: when the index is rebuilt from segments, a
// deleted partition must not come back because an older segment still holds it.

const tombstoneFormat = 1

// encodeTombstones returns the tombstone section of a segment, in an order that
// depends on the tombstones alone: equal stores write equal bytes.
func encodeTombstones(tombs []index.Tombstone) []byte {
	tombs = slices.SortedFunc(slices.Values(tombs), func(a, b index.Tombstone) int {
		return cmp.Or(cmp.Compare(a.LSN, b.LSN), strings.Compare(a.ID, b.ID))
	})
	b := []byte{tombstoneFormat}
	b = binary.AppendUvarint(b, uint64(len(tombs)))
	for _, m := range tombs {
		b = appendStr(b, m.ID)
		b = binary.AppendUvarint(b, uint64(m.LSN))
		b = binary.AppendUvarint(b, uint64(m.At))
		b = appendStr(b, string(m.Data))
	}
	return b
}

// decodeTombstones reads a tombstone section; a segment without one has none.
// Any input gives tombstones or an error: a section that read as empty would
// bring deleted partitions back. Memory is bounded by a small multiple of the
// input's length.
func decodeTombstones(b []byte) ([]index.Tombstone, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[0] != tombstoneFormat {
		return nil, &fault.VersionError{File: "tombstones", Have: uint32(b[0]), Supported: tombstoneFormat}
	}
	d := recordDecoder{Cursor: base.Cursor{What: "tombstones", Left: b[1:]}, text: string(b[1:])}
	n := d.Count(4)
	out := make([]index.Tombstone, 0, n)
	for range n {
		m := index.Tombstone{ID: strings.Clone(d.str()), LSN: base.LSN(d.Uvarint()), At: int64(d.Uvarint())}
		m.Data = []byte(d.str())
		if d.Err != nil {
			break
		}
		out = append(out, m)
	}
	if d.Err == nil && len(d.Left) != 0 {
		d.Fail("%d bytes after the end", len(d.Left))
	}
	if d.Err != nil {
		return nil, d.Err
	}
	return out, nil
}

// tombstonesIn are the tombstones of segments. The output of a compaction must
// carry those of its inputs, unless no segment is left that could hold what they
// delete.
func (e *Engine) tombstonesIn(segs []snapshot.SegmentInfo) ([]index.Tombstone, error) {
	var out []index.Tombstone
	for _, s := range segs {
		tombs, err := e.segmentTombstones(s.Num)
		if err != nil {
			return nil, err
		}
		out = append(out, tombs...)
	}
	return out, nil
}

// remembered are the tombstones that a store without older segments still needs:
// those with something to remember, until it may be forgotten.
func (e *Engine) remembered(known []index.Tombstone) []index.Tombstone {
	last := lastDrops(known)
	oldest := e.oldestTombstone()
	var out []index.Tombstone
	for _, m := range known {
		if m.LSN == last[m.ID] && len(m.Data) > 0 && m.At >= oldest {
			out = append(out, m)
		}
	}
	return out
}

// oldestMemo is the time before which deletions need not be remembered, in
// unix µs.
func (e *Engine) oldestTombstone() int64 {
	return e.opts.Clock().UnixMicro() - e.opts.DeletedMemory.Microseconds()
}

// lastDrops are the last deletions of partitions.
func lastDrops(tombs []index.Tombstone) map[string]base.LSN {
	out := map[string]base.LSN{}
	for _, m := range tombs {
		out[m.ID] = max(out[m.ID], m.LSN)
	}
	return out
}

func (e *Engine) segmentTombstones(num base.FileNum) ([]index.Tombstone, error) {
	h, err := e.files.acquire(num)
	if err != nil {
		return nil, err
	}
	defer e.files.release(h)
	b, err := h.seg.Tombstones()
	if err != nil {
		return nil, err
	}
	tombs, err := decodeTombstones(b)
	if err != nil {
		return nil, &fault.CorruptionError{File: h.kind.name(num), Kind: "tombstones", Offset: -1, Err: err}
	}
	return tombs, nil
}
