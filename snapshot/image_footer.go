package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

const (
	footerFixed      = 64 // counts, number of tables
	tableRefSize     = 24
	footerPartitions = 8 // number of partitions of the store, from format 2 on
)

// appendFooter encodes counts and the places of the table frames.
func appendFooter(b []byte, c ImageCounts, dir []tableRef) []byte {
	b = appendU64(b, c.Partitions, c.Families, c.RemovedFamilies, c.Tombstones, c.RemovedTombstones, c.Pages, c.PageBytes, uint64(len(dir)))
	for _, r := range dir {
		b = appendU64(b, r.off)
		b = binary.LittleEndian.AppendUint32(b, r.len)
		b = binary.LittleEndian.AppendUint32(b, r.count)
		b = appendU64(b, uint64(r.typ))
	}
	return b
}

// decodeFooter is the inverse of appendFooter, and also returns what follows. It checks that
// the frames of tables lie between from and to, one behind the other, and that their
// entries add up to the counts.
func decodeFooter(name string, version uint32, b []byte, from, to uint64) (c ImageCounts, dir []tableRef, rest []byte, err error) {
	if len(b) < footerFixed {
		return c, nil, nil, errFooter
	}
	c = ImageCounts{
		Partitions: u64(b, 0), Families: u64(b, 1), RemovedFamilies: u64(b, 2), Tombstones: u64(b, 3),
		RemovedTombstones: u64(b, 4), Pages: u64(b, 5), PageBytes: u64(b, 6),
	}
	n := u64(b, 7)
	b = b[footerFixed:]
	if n > uint64(len(b)/tableRefSize) {
		return c, nil, nil, errFooter
	}
	b, rest = b[:n*tableRefSize], b[n*tableRefSize:]
	dir = make([]tableRef, 0, n)
	var sum ImageCounts
	for ; len(b) > 0; b = b[tableRefSize:] {
		r := tableRef{
			off: u64(b, 0), len: binary.LittleEndian.Uint32(b[8:]),
			count: binary.LittleEndian.Uint32(b[12:]), typ: imageFrameType(b[16]),
		}
		if typ := u64(b, 2); typ != uint64(r.typ) || !r.typ.isTable(version) {
			return c, nil, nil, newerError(name, fmt.Sprintf("table type %d", typ))
		}
		if r.off < from || r.off > to || uint64(r.len) > to-r.off {
			return c, nil, nil, errFooter
		}
		from = r.off + uint64(r.len)
		*sum.of(r.typ) += uint64(r.count)
		dir = append(dir, r)
	}
	sum.Pages, sum.PageBytes = c.Pages, c.PageBytes
	if sum != c {
		return c, nil, nil, errFooter
	}
	return c, dir, rest, nil
}

// appendFirsts appends, in the order of the file, the first key of each frame of rows or
// parts, and of each list of such frames. Before the key of a list comes how many bytes the
// frames have that it leads to. So the place of a key is known without reading a frame.
func appendFirsts(b []byte, dir []tableRef) []byte {
	for i := range dir {
		if r := &dir[i]; r.typ.isRows() {
			b = r.appendFirst(b)
		}
	}
	return b
}

// decodeFirsts is the inverse of appendFirsts; b must have nothing else. It checks that keys
// ascend strictly over the frames and lists of a type.
func decodeFirsts(b []byte, dir []tableRef) error {
	text := string(b) // which all keys share
	last := map[imageFrameType]int{}
	for i := range dir {
		r := &dir[i]
		if !r.typ.isRows() {
			continue
		}
		n := r.decodeFirst(b, text[len(text)-len(b):])
		if n == 0 {
			return errFooter
		}
		b = b[n:]
		if before, ok := last[r.typ.listed()]; ok && r.first <= dir[before].first {
			return errFooter
		}
		last[r.typ.listed()] = i
	}
	if len(b) > 0 {
		return errFooter
	}
	return nil
}

// decodeFooter decodes the content of the footer, which lies at off.
func (im *Image) decodeFooter(b []byte, off uint64) error {
	im.threads = unknownPartitions
	if im.version > 1 {
		if len(b) < footerPartitions {
			return errFooter
		}
		im.threads = u64(b[len(b)-footerPartitions:], 0)
		b = b[:len(b)-footerPartitions]
	}
	counts, dir, rest, err := decodeFooter(im.name, im.version, b, im.start, off)
	if err != nil {
		return err
	}
	im.counts = counts
	if im.version >= firstsVersion {
		err = decodeFirsts(rest, dir)
	} else if len(rest) > 0 {
		err = errFooter
	}
	if err != nil {
		return err
	}
	im.split(dir)
	return nil
}

// split keeps the table frames that the footer lists, with rows and parts in the form of the index.
func (im *Image) split(dir []tableRef) {
	for _, r := range dir {
		if r.typ.isRows() {
			t := im.table(r.typ)
			*t = append(*t, r.stored())
		} else {
			im.dir = append(im.dir, r)
		}
	}
	for i := range im.rows {
		im.rows[i] = slices.Clip(im.rows[i])
	}
}

const (
	firstsVersion = 3 // the format from which on footers have first keys
	listsVersion  = 4 // the same of lists
)

// errFooter is the cause for a footer that does not decode.
var errFooter = errors.New("malformed footer")
