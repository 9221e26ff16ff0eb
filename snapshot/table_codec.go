package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

// ImagePartition is one partition in the table of an image.
type ImagePartition struct {
	ID      string
	Family  uint64   // partition family its data lie in
	Birth   base.LSN // LSN that started the partition
	LSN     base.LSN // of the last record that concerns it
	Head    string   // newest checkpoint id; "" if there is none
	Updated int64    // of the last change, unix microseconds
	Flags   uint8    // the engine's
	Deleted bool     // in a delta: the partition is gone
}

// Part is the place of one page of a family's directory, in a segment or an image.
type Part = index.Part

// ImageFamily lists the pages of the directory of one family.
type ImageFamily struct {
	ID    uint64
	Parts []Part
}

// Tombstone is the record of a deleted partition, so that it does not come back.
type Tombstone struct {
	ID   string
	LSN  base.LSN // of the deletion
	At   int64    // of the deletion, unix microseconds
	Data []byte
}

const (
	// tableTarget is where a table frame is cut.
	tableTarget = 64 << 10
	// tableStrings bounds the strings of a table frame, with their shared prefixes, and so
	// what a reader allocates for them.
	tableStrings = 256 << 10

	deletedFlag = 1

	// Least encoded sizes of an entry and a part, against absurd counts.
	minPartition = 10
	minFamily    = 2
	minPart      = 5
	minTombstone = 5
)

// errTable matches the error for a table frame that does not decode.
var errTable = errors.New("malformed table")

// table encodes one frame of a table. Entries are encoded relative to the entry before. The zero
// table is the beginning of a frame.
type table struct {
	buf     []byte
	count   uint32
	strings int // expanded bytes so far

	id     string
	family uint64
	lsn    base.LSN
	at     int64
}

func (t *table) tomb(e *Tombstone) {
	b := appendShared(t.buf, t.id, e.ID)
	b = binary.AppendVarint(b, int64(e.LSN-t.lsn))
	b = binary.AppendVarint(b, int64(uint64(e.At)-uint64(t.at)))
	b = binary.AppendUvarint(b, uint64(len(e.Data)))
	t.buf = append(b, e.Data...)
	t.id, t.lsn, t.at = e.ID, e.LSN, e.At
	t.strings += len(e.ID)
	t.count++
}

func (t *table) removedTombstone(id string) {
	t.buf = appendShared(t.buf, t.id, id)
	t.id = id
	t.strings += len(id)
	t.count++
}

// appendShared appends s as the length of the prefix that it shares with prev, and the rest.
func appendShared(b []byte, prev, s string) []byte {
	n := 0
	for n < len(prev) && n < len(s) && prev[n] == s[n] {
		n++
	}
	b = binary.AppendUvarint(b, uint64(n))
	b = binary.AppendUvarint(b, uint64(len(s)-n))
	return append(b, s[n:]...)
}

// cursor reads the fields of a table frame. After the first failure it returns zeros, so that
// callers need to check only once per entry.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) uvarint() uint64 {
	if len(c.b) > 0 && c.b[0] < 0x80 { // most fields are one byte
		v := c.b[0]
		c.b = c.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varint() uint64 {
	u := c.uvarint()
	return u>>1 ^ -(u & 1)
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) byte() byte {
	if len(c.b) == 0 {
		c.fail()
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

func (c *cursor) fail() { c.bad, c.b = true, nil }

// strs collects the strings of a frame in one buffer, to allocate them together.
type strs struct {
	arena []byte
	ends  []int
}

func (s *strs) reset() { s.arena, s.ends = s.arena[:0], s.ends[:0] }

// shared reads a string that shares a prefix with arena[from:to], and returns its begin and end.
func (s *strs) shared(c *cursor, from, to int) (int, int) {
	n := c.uvarint()
	rest := c.bytes(c.uvarint())
	start := len(s.arena)
	if n > uint64(to-from) || n+uint64(len(rest)) > base.MaxKey || start+int(n)+len(rest) > tableStrings {
		c.fail()
		return start, start
	}
	s.arena = append(s.arena, s.arena[from:from+int(n)]...)
	s.arena = append(s.arena, rest...)
	s.ends = append(s.ends, len(s.arena))
	return start, len(s.arena)
}

// tableDecoder decodes table frames. Its results are valid until the next call, except for strings,
// parts and data of tombstones, which the caller may keep.
type tableDecoder struct {
	strs
	threads  []ImagePartition
	families []ImageFamily
	partEnds []int
	parts    []Part
	tombs    []Tombstone
	ids      []uint64
	names    []string
}

// done checks that the entries of a table frame fill it exactly.
func (c *cursor) done(entry uint32) error {
	if c.bad {
		return fmt.Errorf("%w: entry %d does not decode", errTable, entry)
	}
	if len(c.b) > 0 {
		return fmt.Errorf("%w: %d bytes after the last entry", errTable, len(c.b))
	}
	return nil
}

func tooMany(count uint32, b []byte, least int) error {
	if uint64(count) > uint64(len(b)/least) {
		return fmt.Errorf("%w: %d entries in %d bytes", errTable, count, len(b))
	}
	return nil
}

// presize returns for how many of count entries memory is allocated in advance: for all in a frame of
// usual size, but not for many more, since the count of a damaged frame may be anything.
func presize(count uint32) int { return int(min(count, 8<<10)) }

// decodePartitions decodes a frame of count partitions.
func (d *tableDecoder) decodePartitions(name string, b []byte, count uint32) ([]ImagePartition, error) {
	if err := tooMany(count, b, minPartition); err != nil {
		return nil, err
	}
	d.reset()
	out, c := slices.Grow(d.threads[:0], presize(count)), cursor{b: b}
	var id0, id1, head0, head1 int
	var prev ImagePartition
	for i := range count {
		var e ImagePartition
		id0, id1 = d.shared(&c, id0, id1)
		e.Family = prev.Family + c.varint()
		e.Birth = prev.Birth + base.LSN(c.varint())
		e.LSN = e.Birth + base.LSN(c.varint())
		head0, head1 = d.shared(&c, head0, head1)
		e.Updated = int64(uint64(prev.Updated) + c.varint())
		e.Flags = c.byte()
		state := c.byte()
		if c.bad {
			return nil, c.done(i)
		}
		if state&^deletedFlag != 0 {
			return nil, newerError(name, fmt.Sprintf("thread flags %#x", state))
		}
		e.Deleted = state == deletedFlag
		out = append(out, e)
		prev = e
	}
	if err := c.done(count); err != nil {
		return nil, err
	}
	all, at := string(d.arena), 0
	for i := range out {
		out[i].ID = all[at:d.ends[2*i]]
		out[i].Head = all[d.ends[2*i]:d.ends[2*i+1]]
		at = d.ends[2*i+1]
	}
	d.threads = out
	return out, nil
}

// decodeFamilies decodes a frame of count families. Their parts share one new slice.
func (d *tableDecoder) decodeFamilies(b []byte, count uint32) ([]ImageFamily, error) {
	if err := tooMany(count, b, minFamily); err != nil {
		return nil, err
	}
	out, c := slices.Grow(d.families[:0], presize(count)), cursor{b: b}
	d.parts, d.partEnds = slices.Grow(d.parts[:0], presize(count)), slices.Grow(d.partEnds[:0], presize(count))
	var family, end uint64
	var file base.FileNum
	var lsn base.LSN
	for i := range count {
		family += c.uvarint()
		n := c.uvarint()
		if n > uint64(len(c.b)/minPart) {
			c.fail()
		}
		for ; n > 0 && !c.bad; n-- {
			var p Part
			p.File = file + base.FileNum(c.varint())
			p.Off = end + c.varint()
			size := c.uvarint()
			p.Len = uint32(size)
			p.MinLSN = lsn + base.LSN(c.varint())
			p.MaxLSN = p.MinLSN + base.LSN(c.varint())
			if size > uint64(^uint32(0)) {
				c.fail()
			}
			d.parts = append(d.parts, p)
			file, end, lsn = p.File, p.Off+size, p.MaxLSN
		}
		if c.bad {
			return nil, c.done(i)
		}
		out = append(out, ImageFamily{ID: family})
		d.partEnds = append(d.partEnds, len(d.parts))
	}
	if err := c.done(count); err != nil {
		return nil, err
	}
	all, at := slices.Clone(d.parts), 0
	for i, to := range d.partEnds {
		out[i].Parts = all[at:to:to]
		at = to
	}
	d.families = out
	return out, nil
}

// decodeTombstones decodes a frame of count tombstones. Their data share one fresh slice.
func (d *tableDecoder) decodeTombstones(b []byte, count uint32) ([]Tombstone, error) {
	if err := tooMany(count, b, minTombstone); err != nil {
		return nil, err
	}
	d.reset()
	own := slices.Clone(b)
	out, c := d.tombs[:0], cursor{b: own}
	var id0, id1 int
	var lsn base.LSN
	var at uint64
	for i := range count {
		var e Tombstone
		id0, id1 = d.shared(&c, id0, id1)
		lsn += base.LSN(c.varint())
		at += c.varint()
		data := c.bytes(c.uvarint())
		if c.bad {
			return nil, c.done(i)
		}
		e.LSN, e.At, e.Data = lsn, int64(at), data[:len(data):len(data)]
		out = append(out, e)
	}
	if err := c.done(count); err != nil {
		return nil, err
	}
	all, from := string(d.arena), 0
	for i := range out {
		out[i].ID = all[from:d.ends[i]]
		from = d.ends[i]
	}
	d.tombs = out
	return out, nil
}

// decodeRemovedFamilies decodes a frame of count family ids.
func (d *tableDecoder) decodeRemovedFamilies(b []byte, count uint32) ([]uint64, error) {
	if err := tooMany(count, b, 1); err != nil {
		return nil, err
	}
	out, c := d.ids[:0], cursor{b: b}
	var id uint64
	for range count {
		id += c.uvarint()
		out = append(out, id)
	}
	if err := c.done(count); err != nil {
		return nil, err
	}
	d.ids = out
	return out, nil
}

// decodeRemovedTombstones decodes a frame of count tombstone ids.
func (d *tableDecoder) decodeRemovedTombstones(b []byte, count uint32) ([]string, error) {
	if err := tooMany(count, b, 2); err != nil {
		return nil, err
	}
	d.reset()
	out, c := d.names[:0], cursor{b: b}
	var id0, id1 int
	for i := range count {
		if id0, id1 = d.shared(&c, id0, id1); c.bad {
			return nil, c.done(i)
		}
	}
	if err := c.done(count); err != nil {
		return nil, err
	}
	all, from := string(d.arena), 0
	for _, to := range d.ends {
		out = append(out, all[from:to])
		from = to
	}
	d.names = out
	return out, nil
}
