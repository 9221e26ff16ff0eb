package snapshot

import (
	"encoding/binary"

	"github.com/stele-go/stele/base"
)

// oldTable encodes partitions and families as format 1 of the image did, for tests of
// the decoders.
type oldTable struct {
	buf   []byte
	count uint32

	id, head   string
	family     uint64
	birth, lsn base.LSN
	at         int64
	file       base.FileNum
	end        uint64
}

func (t *oldTable) thread(e *ImagePartition) {
	b := appendShared(t.buf, t.id, e.ID)
	b = binary.AppendVarint(b, int64(e.Family-t.family))
	b = binary.AppendVarint(b, int64(e.Birth-t.birth))
	b = binary.AppendVarint(b, int64(e.LSN-e.Birth))
	b = appendShared(b, t.head, e.Head)
	b = binary.AppendVarint(b, int64(uint64(e.Updated)-uint64(t.at)))
	var state byte
	if e.Deleted {
		state = deletedFlag
	}
	t.buf = append(b, e.Flags, state)
	t.id, t.head, t.family, t.birth, t.at = e.ID, e.Head, e.Family, e.Birth, e.Updated
	t.count++
}

func (t *oldTable) familyEntry(e *ImageFamily) {
	b := binary.AppendUvarint(t.buf, e.ID-t.family)
	b = binary.AppendUvarint(b, uint64(len(e.Parts)))
	for _, p := range e.Parts {
		b = binary.AppendVarint(b, int64(p.File-t.file))
		b = binary.AppendVarint(b, int64(p.Off-t.end))
		b = binary.AppendUvarint(b, uint64(p.Len))
		b = binary.AppendVarint(b, int64(p.MinLSN-t.lsn))
		b = binary.AppendVarint(b, int64(p.MaxLSN-p.MinLSN))
		t.file, t.end, t.lsn = p.File, p.Off+uint64(p.Len), p.MaxLSN
	}
	t.buf, t.family = b, e.ID
	t.count++
}
