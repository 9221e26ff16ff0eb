package index

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/stele-go/stele/base"
)

// Row is a partition in a table.
type Row struct {
	ID      string
	Family  uint64
	Birth   base.LSN
	LSN     base.LSN
	Head    string
	Updated int64
	Flags   uint8
	Deleted bool // the partition is gone; only ID counts
}

// RowOf is t as a row.
func RowOf(t *Partition) Row {
	return Row{ID: t.ID, Family: t.Family.ID, Birth: t.Birth, LSN: t.LSN, Head: t.Head, Updated: t.Updated, Flags: t.Flags}
}

// Table has the partitions and families of one image: all, or those that changed since the image
// before. It is all that is in memory of an evicted partition. It is immutable.
type Table struct {
	partitions packed // by id
	families   packed // by id, the most significant byte first
}

// Size is the memory the table takes with all of its rows, about.
func (t *Table) Size() int64 { return t.partitions.bytes + t.families.bytes }

// Resident returns the memory that the table takes now: less than Size if rows on disk were not read
// yet.
func (t *Table) Resident() int64 { return t.partitions.resident() + t.families.resident() }

// TableBuilder makes a Table. Partitions and families come in any mixture, but each
// kind in ascending order of its ids.
type TableBuilder struct {
	partitions, families packer
	buf, key             []byte
}

// AddPartition adds a partition, or a row that says it is deleted.
func (b *TableBuilder) AddPartition(r Row) {
	b.buf = appendRow(b.buf[:0], &r)
	b.key = append(b.key[:0], r.ID...)
	b.partitions.add(b.key, b.buf)
}

// AddFamily adds the places of the pages of a family.
func (b *TableBuilder) AddFamily(id uint64, parts []Part) {
	b.buf = appendParts(b.buf[:0], parts)
	b.key = binary.BigEndian.AppendUint64(b.key[:0], id)
	b.families.add(b.key, b.buf)
}

// Done returns the table.
func (b *TableBuilder) Done() *Table {
	return &Table{partitions: b.partitions.done(), families: b.families.done()}
}

// Len returns the number of partitions, deleted ones included.
func (t *Table) Len() int { return t.partitions.n }

// LenFamilies is the number of families.
func (t *Table) LenFamilies() int { return t.families.n }

// Chunks returns the rows of the partitions and of the families, for TableOf. A table of TableAt
// returns none.
func (t *Table) Chunks() (partitions, families []Chunk) {
	return t.partitions.chunks, t.families.chunks
}

// TableOf returns a table made of the chunks of another one. It checks each chunk, not each row: other
// chunks give an error, or a table that lacks rows; Check finds out.
func TableOf(partitions, families []Chunk) (*Table, error) {
	var t Table
	var err error
	if t.partitions, err = packedOf(partitions); err != nil {
		return nil, fmt.Errorf("threads: %w", err)
	}
	if t.families, err = packedOf(families); err != nil {
		return nil, fmt.Errorf("families: %w", err)
	}
	return &t, nil
}

// Check reads every row, and returns an error if one is malformed or out of order.
func (t *Table) Check() error {
	if err := t.partitions.check(func(b []byte) bool { _, ok := readRow("", b); return ok }); err != nil {
		return fmt.Errorf("threads: %w", err)
	}
	if err := t.families.check(func(b []byte) bool { _, ok := readParts(b); return ok }); err != nil {
		return fmt.Errorf("families: %w", err)
	}
	c := t.families.seek("")
	for ; c.ok; c.next() {
		if len(c.key) != 8 {
			return fmt.Errorf("families: %w", errPacked)
		}
	}
	return c.err
}

// Partitions calls fn for the rows, in the order of ids, until it returns false. An error
// is that of reading a chunk; fn has seen the rows before it.
func (t *Table) Partitions(fn func(Row) bool) error {
	c := t.partitions.seek("")
	for ; c.ok; c.next() {
		if r, ok := readRow(string(c.key), c.payload); ok && !fn(r) {
			return nil
		}
	}
	return c.err
}

// Families calls fn for the families, in the order of ids, until it returns false.
// Errors are those of Partitions.
func (t *Table) Families(fn func(id uint64, parts []Part) bool) error {
	return tables{t}.eachFamily(fn)
}

// appendRow appends a row without its id. The family is written as a difference to the record that
// began the partition, which is small: most families have one partition, and their id is made of that
// record's number.
func appendRow(b []byte, r *Row) []byte {
	if r.Deleted {
		return append(b, 1)
	}
	b = append(b, 0, r.Flags)
	b = binary.AppendUvarint(b, uint64(r.Birth))
	b = binary.AppendUvarint(b, r.Family^uint64(r.Birth)<<16)
	b = binary.AppendUvarint(b, uint64(r.LSN-r.Birth))
	b = binary.AppendUvarint(b, uint64(r.Updated))
	return append(b, r.Head...)
}

// readRow reads a row; false if it is malformed.
func readRow(id string, b []byte) (Row, bool) {
	if isGone(b) {
		return Row{ID: id, Deleted: true}, len(b) == 1
	}
	if len(b) < 2 || b[0] != 0 {
		return Row{}, false
	}
	r := Row{ID: id, Flags: b[1]}
	b = b[2:]
	var n [4]uint64
	for i := range n {
		var w int
		if n[i], w = binary.Uvarint(b); w <= 0 {
			return Row{}, false
		}
		b = b[w:]
	}
	r.Birth, r.LSN = base.LSN(n[0]), base.LSN(n[0]+n[2])
	r.Family = n[1] ^ n[0]<<16
	r.Updated = int64(n[3])
	r.Head = string(b)
	return r, true
}

// isGone reports whether a row says that the partition is gone.
func isGone(b []byte) bool { return len(b) > 0 && b[0] == 1 }

func appendParts(b []byte, parts []Part) []byte {
	for _, p := range parts {
		for _, n := range [...]uint64{uint64(p.File), p.Off, uint64(p.Len), uint64(p.MinLSN), uint64(p.MaxLSN - p.MinLSN)} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

// minPart is the least a part takes.
const minPart = 5

// readParts reads the places of the pages of a family; false if they are malformed.
func readParts(b []byte) ([]Part, bool) {
	var out []Part
	if len(b) > 0 {
		out = make([]Part, 0, len(b)/(2*minPart)+1)
	}
	for len(b) > 0 {
		var n [5]uint64
		for i := range n {
			var w int
			if n[i], w = binary.Uvarint(b); w <= 0 {
				return nil, false
			}
			b = b[w:]
		}
		if n[2] > math.MaxUint32 {
			return nil, false
		}
		out = append(out, Part{File: base.FileNum(n[0]), Off: n[1], Len: uint32(n[2]), MinLSN: base.LSN(n[3]), MaxLSN: base.LSN(n[3] + n[4])})
	}
	return out, true
}

// tables is a chain of tables, each with what changed since those before it. It is
// immutable.
type tables []*Table

// partition returns the partition's row of the newest table that has one, or false if none has, or if
// it says that the partition is deleted. Without read the error is errNotRead if the row is not in
// memory.
func (ts tables) partition(id string, read bool) (Row, bool, error) {
	for i := len(ts) - 1; i >= 0; i-- {
		b, ok, err := ts[i].partitions.get(id, read)
		if err != nil {
			return Row{}, false, err
		}
		if ok {
			r, ok := readRow(id, b)
			return r, ok && !r.Deleted, nil
		}
	}
	return Row{}, false, nil
}

// says reports whether partition would return r. It is false if partition would have to read.
func (ts tables) says(r *Row) bool {
	for i := len(ts) - 1; i >= 0; i-- {
		b, ok, err := ts[i].partitions.get(r.ID, false)
		if err != nil {
			return false
		}
		if ok {
			var room [128]byte
			if string(appendRow(room[:0], r)) == string(b) {
				return !r.Deleted
			}
			have, ok := readRow(r.ID, b) // numbers have more than one spelling
			return ok && !have.Deleted && have == *r
		}
	}
	return false
}

// parts returns the places of the pages of a family; none if they are not known.
func (ts tables) parts(family uint64) ([]Part, error) {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], family)
	for i := len(ts) - 1; i >= 0; i-- {
		b, ok, err := ts[i].families.get(string(key[:]), true)
		if err != nil {
			return nil, err
		}
		if ok {
			parts, _ := readParts(b)
			return parts, nil
		}
	}
	return nil, nil
}

// same reports whether two chains are of the same tables.
func (ts tables) same(o tables) bool { return slices.Equal(ts, o) }

func (ts tables) rows(from string) *layers {
	ps := make([]*packed, len(ts))
	for i, t := range ts {
		ps[i] = &t.partitions
	}
	return newLayers(ps, from)
}

func (ts tables) pages() *layers {
	ps := make([]*packed, len(ts))
	for i, t := range ts {
		ps[i] = &t.families
	}
	return newLayers(ps, "")
}

// eachFamily calls fn for the families, in the order of ids, until it returns false.
func (ts tables) eachFamily(fn func(id uint64, parts []Part) bool) error {
	l := ts.pages()
	for ; l.ok(); l.next() {
		if parts, ok := readParts(l.payload); ok && len(l.key) == 8 && !fn(binary.BigEndian.Uint64(l.key), parts) {
			return nil
		}
	}
	return l.err
}

// live counts the partitions.
func (ts tables) live() (int, error) {
	n := 0
	l := ts.rows("")
	for ; l.ok(); l.next() {
		if !isGone(l.payload) {
			n++
		}
	}
	return n, l.err
}

// mergeRatio bounds the number of tables: each is at least mergeRatio times as large as the next. So
// merging writes a row only a few times, however often images are written.
const mergeRatio = 3

// with returns ts and one more table. It merges tables to keep their number small: all in one step, so
// that no row is written twice. Tables that cannot be read stay as they are: a lookup in them returns
// the error.
func (ts tables) with(t *Table) tables {
	out := append(append(make(tables, 0, len(ts)+1), ts...), t)
	from, size := len(out)-1, t.Size()
	for ; from > 0 && out[from-1].Size() < mergeRatio*size; from-- {
		size += out[from-1].Size()
	}
	if from == len(out)-1 {
		return out
	}
	m, err := merged(out[from:], from == 0)
	if err != nil {
		return out
	}
	return append(out[:from:from], m)
}

// How many tables a lookup searches at most after Restore. Up to that many are left as they are, so
// that opening a store does not touch each row. Of tables on disk there may be more: merging would read
// all of them immediately, while a lookup reads at most one chunk of each, once. Later images merge
// them as they grow; see with.
const (
	maxLayers       = 8
	maxLayersOnDisk = 24
)

// layered returns a chain as it was found, or with its newest tables merged into one if there are too
// many. In a long chain the deltas are small compared with the full table.
func layered(chain []*Table) (tables, error) {
	most := maxLayersOnDisk
	if slices.ContainsFunc(chain, func(t *Table) bool { return t.partitions.stored == nil }) {
		most = maxLayers
	}
	if len(chain) <= most {
		return chain, nil
	}
	old, newer := chain[:most-1], chain[most-1:]
	m, err := merged(newer, false)
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(old), m), nil
}

// merged returns the tables merged into one. first says that no table is before them, so that rows of
// deleted partitions can be left out.
func merged(ts tables, first bool) (*Table, error) {
	var b TableBuilder
	l := ts.rows("")
	for ; l.ok(); l.next() {
		if !first || !isGone(l.payload) {
			b.partitions.add(l.key, l.payload)
		}
	}
	if l.err != nil {
		return nil, l.err
	}
	for l = ts.pages(); l.ok(); l.next() {
		b.families.add(l.key, l.payload)
	}
	return b.Done(), l.err
}
