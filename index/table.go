package index

import (
	"encoding/binary"

	"github.com/stele-go/stele/internal/base"
)

// Row is what a table knows of a thread.
type Row struct {
	ID      string
	Family  uint64
	Birth   base.LSN
	LSN     base.LSN
	Head    string
	Updated int64
	Flags   uint8
	Deleted bool // the thread is gone; only ID counts
}

// RowOf is t as a row.
func RowOf(t *Thread) Row {
	return Row{ID: t.ID, Family: t.Family.ID, Birth: t.Birth, LSN: t.LSN, Head: t.Head, Updated: t.Updated, Flags: t.Flags}
}

// Table is threads and families as of one image, or what changed in them since the
// image before: what is in memory of a thread that is cold. It is immutable.
type Table struct {
	threads  packed // by id
	families packed // by id, the most significant byte first
}

// Size is the memory the table takes.
func (t *Table) Size() int64 { return t.threads.size() + t.families.size() }

// TableBuilder makes a Table. Threads and families come in any mixture, but each
// kind in ascending order of its ids.
type TableBuilder struct {
	threads, families packer
	buf, key          []byte
}

// AddThread adds a thread, or that it is gone.
func (b *TableBuilder) AddThread(r Row) {
	b.buf = appendRow(b.buf[:0], &r)
	b.key = append(b.key[:0], r.ID...)
	b.threads.add(b.key, b.buf)
}

// AddFamily adds where the pages of a family lie.
func (b *TableBuilder) AddFamily(id uint64, parts []Part) {
	b.buf = appendParts(b.buf[:0], parts)
	b.key = binary.BigEndian.AppendUint64(b.key[:0], id)
	b.families.add(b.key, b.buf)
}

// Done returns the table.
func (b *TableBuilder) Done() *Table {
	return &Table{threads: b.threads.done(), families: b.families.done()}
}

// appendRow writes a row without its id. Most families are called after the record
// that began their one thread, so that the difference is small.
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

func readRow(id, b []byte) Row {
	r := Row{ID: string(id)}
	if r.Deleted = b[0] == 1; r.Deleted {
		return r
	}
	r.Flags = b[1]
	b = b[2:]
	next := func() uint64 {
		n, w := binary.Uvarint(b)
		b = b[w:]
		return n
	}
	r.Birth = base.LSN(next())
	r.Family = next() ^ uint64(r.Birth)<<16
	r.LSN = r.Birth + base.LSN(next())
	r.Updated = int64(next())
	r.Head = string(b)
	return r
}

func appendParts(b []byte, parts []Part) []byte {
	for _, p := range parts {
		for _, n := range [...]uint64{uint64(p.File), p.Off, uint64(p.Len), uint64(p.MinLSN), uint64(p.MaxLSN - p.MinLSN)} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

func readParts(b []byte) []Part {
	var out []Part
	for len(b) > 0 {
		var n [5]uint64
		for i := range n {
			var w int
			n[i], w = binary.Uvarint(b)
			b = b[w:]
		}
		out = append(out, Part{File: base.FileNum(n[0]), Off: n[1], Len: uint32(n[2]), MinLSN: base.LSN(n[3]), MaxLSN: base.LSN(n[3] + n[4])})
	}
	return out
}

// tables is a chain of tables, each with what changed since those before it. It is
// immutable.
type tables []*Table

// thread returns what the newest table that knows the thread says of it, or false
// if none does or it is gone.
func (ts tables) thread(id string) (Row, bool) {
	for i := len(ts) - 1; i >= 0; i-- {
		if b, ok := ts[i].threads.get(id); ok {
			r := readRow([]byte(id), b)
			return r, !r.Deleted
		}
	}
	return Row{}, false
}

// parts returns where the pages of a family lie, and whether that is known.
func (ts tables) parts(family uint64) ([]Part, bool) {
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], family)
	for i := len(ts) - 1; i >= 0; i-- {
		if b, ok := ts[i].families.get(string(key[:])); ok {
			return readParts(b), true
		}
	}
	return nil, false
}

func (ts tables) rows(from string) *layers {
	ps := make([]*packed, len(ts))
	for i, t := range ts {
		ps[i] = &t.threads
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
func (ts tables) eachFamily(fn func(id uint64, parts []Part) bool) {
	for l := ts.pages(); l.ok(); l.next() {
		if !fn(binary.BigEndian.Uint64(l.key), readParts(l.payload)) {
			return
		}
	}
}

// live counts the threads.
func (ts tables) live() int {
	n := 0
	for l := ts.rows(""); l.ok(); l.next() {
		if l.payload[0] == 0 {
			n++
		}
	}
	return n
}

// mergeRatio bounds how many tables there are: each is at least so many times as
// large as the next. Merging then writes a row a few times, however often images are
// written.
const mergeRatio = 3

// with is ts and one table more, merged where that keeps them few.
func (ts tables) with(t *Table) tables {
	out := append(append(make(tables, 0, len(ts)+1), ts...), t)
	for n := len(out); n > 1 && out[n-2].Size() < mergeRatio*out[n-1].Size(); n = len(out) {
		out = append(out[:n-2], merged(out[n-2], out[n-1], n == 2))
	}
	return out
}

// merged is two tables as one; last says that there is none before them, so that
// nobody need be told what is gone.
func merged(old, newer *Table, last bool) *Table {
	var b TableBuilder
	b.threads.room(&old.threads, &newer.threads)
	b.families.room(&old.families, &newer.families)
	two := tables{old, newer}
	for l := two.rows(""); l.ok(); l.next() {
		if !last || l.payload[0] == 0 {
			b.threads.add(l.key, l.payload)
		}
	}
	for l := two.pages(); l.ok(); l.next() {
		b.families.add(l.key, l.payload)
	}
	return b.Done()
}
