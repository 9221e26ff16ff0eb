package segment

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/stele-go/stele/base"
)

// The value table of a family comes behind its directory bytes, in the same frame. Blocks
// are listed once, and values refer to them by position. The sums come last, in a column of
// their own: they do not compress, and among the other numbers they would keep those from
// compressing.
const (
	minBlockBytes = 2  // delta, length
	minValueBytes = 14 // six numbers of at least a byte, and the sum
	sumSize       = 8
)

// errDuplicate is the one error that the builder finds only when it has all values of a
// family.
var errDuplicate = errors.New("a value id occurs twice in one family")

// appendDirectory appends the payload of a directory frame: dir, the blocks by ascending
// offset, and the values by strictly ascending id. Each value lies in one of the blocks.
func appendDirectory(dst, dir []byte, blocks []extent, values []ValueLoc) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(dir)))
	dst = append(dst, dir...)
	dst = binary.AppendUvarint(dst, uint64(len(blocks)))
	end := uint64(0)
	for _, b := range blocks {
		dst = binary.AppendUvarint(dst, (b.off-end)/frameAlign)
		dst = binary.AppendUvarint(dst, uint64(b.n)/frameAlign)
		end = b.off + uint64(b.n)
	}
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	var prev ValueID
	for _, v := range values {
		dst = binary.AppendUvarint(dst, uint64(v.LSN-prev.LSN))
		ord := v.Ord
		if v.LSN == prev.LSN {
			ord -= prev.Ord
		}
		dst = binary.AppendUvarint(dst, uint64(ord))
		dst = append(dst, byte(v.Encoding))
		if v.Encoding == ReversePatch {
			dst = binary.AppendVarint(dst, int64(v.Base.LSN-v.LSN))
			dst = binary.AppendUvarint(dst, uint64(v.Base.Ord))
		}
		i, _ := slices.BinarySearchFunc(blocks, extent{off: v.Off}, byOffset)
		dst = binary.AppendUvarint(dst, uint64(i))
		dst = binary.AppendUvarint(dst, uint64(v.Inner))
		dst = binary.AppendUvarint(dst, uint64(v.Len))
		prev = v.ValueID
	}
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, v.Sum)
	}
	return dst
}

// decodeDirectory is the inverse of appendDirectory. The frame lies at p.off, and all blocks
// must lie between the header of the file and that. dir is a slice of b.
func decodeDirectory(p place, b []byte) (dir []byte, blocks []extent, values []ValueLoc, err error) {
	c := &cursor{b: b}
	dir = c.bytes(c.uvarint(MaxSectionRaw))
	blocks, err = decodeBlocks(p, c)
	if err != nil {
		return nil, nil, nil, err
	}
	values, err = decodeValues(p, c, blocks)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range values {
		values[i].Sum = binary.LittleEndian.Uint64(c.bytes(sumSize))
	}
	if len(c.b) != 0 {
		return nil, nil, nil, p.corrupt(nil, "%d bytes behind the value table", len(c.b))
	}
	return dir, blocks, values, nil
}

func decodeBlocks(p place, c *cursor) ([]extent, error) {
	n := c.count(minBlockBytes)
	blocks := make([]extent, 0, n)
	end := uint64(0)
	for range n {
		off := end + c.uvarint(uint64(p.off))*frameAlign
		size := c.uvarint(uint64(alignFrame(MaxBlockRaw))/frameAlign) * frameAlign
		end = off + size
		if c.failed || off < fileHeaderSize || size < frameHeaderSize || end > uint64(p.off) {
			return nil, p.corrupt(errShort, "block %d of the value table", len(blocks))
		}
		blocks = append(blocks, extent{off, uint32(size)})
	}
	return blocks, nil
}

// decodeValues reads the rows up to the column of sums. It checks that c has a sum for each
// row.
func decodeValues(p place, c *cursor, blocks []extent) ([]ValueLoc, error) {
	n := c.count(minValueBytes)
	if c.failed {
		return nil, p.corrupt(errShort, "value table")
	}
	values := make([]ValueLoc, 0, n)
	var prev ValueID
	for i := range n {
		var v ValueLoc
		delta := c.uvarint(uint64(base.MaxLSN - prev.LSN))
		v.LSN = prev.LSN + base.LSN(delta)
		ord := c.uvarint(math.MaxUint16)
		if delta == 0 {
			ord += uint64(prev.Ord)
		}
		v.Ord = uint16(ord)
		v.Encoding = Encoding(c.byte())
		switch v.Encoding {
		case Whole:
		case ReversePatch:
			v.Base.LSN = v.LSN + base.LSN(c.varint())
			v.Base.Ord = uint16(c.uvarint(math.MaxUint16))
		default:
			// What follows an unknown encoding byte is unknown too.
			return nil, p.newer("value encoding %d", v.Encoding)
		}
		block := c.uvarint(uint64(len(blocks)))
		v.Inner = uint32(c.uvarint(MaxBlockRaw))
		v.Len = uint32(c.uvarint(MaxBlockRaw))
		if c.failed || block >= uint64(len(blocks)) || ord > math.MaxUint16 ||
			v.ValueID.Compare(prev) <= 0 || v.LSN == 0 || v.Inner+v.Len > MaxBlockRaw {
			return nil, p.corrupt(errShort, "row %d of the value table", i)
		}
		if v.Encoding == ReversePatch && (v.Base.LSN == 0 || v.Base == v.ValueID) {
			return nil, p.corrupt(nil, "row %d of the value table is a patch without a base", i)
		}
		v.Off, v.Stored = blocks[block].off, blocks[block].n
		values = append(values, v)
		prev = v.ValueID
	}
	if len(c.b) < n*sumSize {
		return nil, p.corrupt(errShort, "sums of the value table")
	}
	return values, nil
}
