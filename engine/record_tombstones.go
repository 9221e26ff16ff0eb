package engine

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
)

// Tombstones travel in segments: when the index is rebuilt from segments, a
// deleted partition must not come back because an older segment still holds it.

const tombstoneFormat = 1

// EncodeTombstones returns the tombstone section of a segment, in an order that
// depends on the tombstones alone: equal stores write equal bytes.
func EncodeTombstones(tombs []index.Tombstone) []byte {
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

// DecodeTombstones reads a tombstone section; a segment without one has none.
// Any input gives tombstones or an error: a section that read as empty would
// bring deleted partitions back. Memory is bounded by a small multiple of the
// input's length.
func DecodeTombstones(b []byte) ([]index.Tombstone, error) {
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
