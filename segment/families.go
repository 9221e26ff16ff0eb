package segment

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/stele-go/stele/base"
)

const minFamilyBytes = 7 // seven numbers of at least a byte

// appendFamilyIndex appends the payload of the family index. Families lie in the file in
// the order of their ids, so both ids and places ascend.
func appendFamilyIndex(dst []byte, fams []FamilyInfo) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(fams)))
	var prev FamilyInfo
	for _, f := range fams {
		dst = binary.AppendUvarint(dst, f.ID-prev.ID)
		// The file from the previous family's end to this one's is this family.
		dst = binary.AppendUvarint(dst, uint64(f.Stored)/frameAlign)
		dst = binary.AppendUvarint(dst, uint64(f.DirStored)/frameAlign)
		dst = binary.AppendUvarint(dst, uint64(f.Values))
		dst = binary.AppendUvarint(dst, uint64(f.RawBytes))
		dst = binary.AppendUvarint(dst, uint64(f.MinLSN))
		dst = binary.AppendUvarint(dst, uint64(f.MaxLSN-f.MinLSN))
		prev = f
	}
	return dst
}

// decodeFamilyIndex is the inverse of appendFamilyIndex. It checks that families lie
// without gaps between start, the end of the file's headers, and end.
func decodeFamilyIndex(p place, b []byte, start, end uint64) ([]FamilyInfo, error) {
	c := &cursor{b: b}
	n := c.count(minFamilyBytes)
	fams := make([]FamilyInfo, 0, n)
	pos, prevID := start, uint64(0)
	for i := range n {
		delta := c.uvarint(math.MaxUint64 - prevID)
		stored := c.uvarint(end/frameAlign) * frameAlign
		dirStored := c.uvarint(uint64(alignFrame(MaxSectionRaw))/frameAlign) * frameAlign
		f := FamilyInfo{ID: prevID + delta, Stored: int64(stored), DirStored: uint32(dirStored)}
		f.Values = uint32(c.uvarint(math.MaxUint32))
		f.RawBytes = int64(c.uvarint(math.MaxInt64))
		f.MinLSN = base.LSN(c.uvarint(math.MaxUint64))
		f.MaxLSN = f.MinLSN + base.LSN(c.uvarint(uint64(base.MaxLSN-f.MinLSN)))
		if c.failed || (i > 0 && delta == 0) || dirStored < frameHeaderSize ||
			stored < dirStored || stored > end-pos {
			return nil, p.corrupt(errShort, "family %d of the family index", i)
		}
		pos += stored
		f.DirOff = pos - dirStored
		fams = append(fams, f)
		prevID = f.ID
	}
	if c.failed || len(c.b) != 0 {
		return nil, p.corrupt(errShort, "family index")
	}
	return fams, nil
}

func findFamily(fams []FamilyInfo, id uint64) (FamilyInfo, bool) {
	i, ok := slices.BinarySearchFunc(fams, id, func(f FamilyInfo, id uint64) int { return cmp.Compare(f.ID, id) })
	if !ok {
		return FamilyInfo{}, false
	}
	return fams[i], true
}
