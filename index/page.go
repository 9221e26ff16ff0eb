package index

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// Page is a piece of a family's directory on disk: entries of its partitions and, in an image, places
// of values. Pages of a family are merged by key; the entry with the greatest LSN wins.
type Page struct {
	Partitions []PagePartition
	Values     []ValueLoc
}

// PagePartition are entries of one partition. Birth tells lives of a partition apart: entries
// of an earlier life do not belong to a later one.
type PagePartition struct {
	ID      string
	Birth   base.LSN
	Updated int64
	Flags   uint8
	Entries []*Entry // in the order of keys
}

// ValueLoc is a value and its place.
type ValueLoc struct {
	Ref Ref
	Loc Loc
}

// The first byte of an encoded page. A page has no checksum: its frame has one. In format 1 no place
// was that of a patch.
const (
	pageFormat    = 2
	pageUnpatched = 1
)

// wholeKeys is the distance of entries whose keys are written whole. In between, a few bytes can encode
// a key of base.MaxKey bytes; the bound keeps the decoded size in proportion to the encoded one.
const wholeKeys = 16

// EncodePage returns the bytes of p. Entries must be in the order of keys.
func EncodePage(p *Page) []byte { return AppendPage(nil, p) }

// AppendPage appends the bytes of p, as EncodePage returns them.
func AppendPage(out []byte, p *Page) []byte {
	e := pageEncoders.Get().(*pageEncoder)
	defer e.release()
	e.uvarint(uint64(len(p.Partitions)))
	for i := range p.Partitions {
		e.partition(&p.Partitions[i])
	}
	e.values(p.Values)
	size := 1 + binary.MaxVarintLen64 + len(e.buf)
	for _, s := range e.strings {
		size += binary.MaxVarintLen32 + len(s)
	}
	out = append(slices.Grow(out, size), pageFormat)
	out = binary.AppendUvarint(out, uint64(len(e.strings)))
	for _, s := range e.strings {
		out = binary.AppendUvarint(out, uint64(len(s)))
		out = append(out, s...)
	}
	return append(out, e.buf...)
}

type pageEncoder struct {
	buf     []byte
	strings []string
	ids     map[string]uint64
	// The slots of an entry and of the one before it, and the numbers of names and tags of the
	// latter: most are the same in both, and to compare costs less than to look up.
	slots, before []Slot
	numbers       []slotNumbers
}

type slotNumbers struct{ name, tag uint64 }

// pageEncoders are encoders that nobody is using: flush and image write a page for each family.
var pageEncoders = sync.Pool{New: func() any { return &pageEncoder{ids: map[string]uint64{}} }}

// keptPage is how large a page may be whose encoder is kept.
const keptPage = 64 << 10

// release gives the encoder back, without what it holds of the page.
func (e *pageEncoder) release() {
	if cap(e.buf) > keptPage || len(e.strings) > keptPage/32 {
		return
	}
	clear(e.strings)
	clear(e.ids)
	clear(e.slots[:cap(e.slots)])
	clear(e.before[:cap(e.before)])
	*e = pageEncoder{buf: e.buf[:0], strings: e.strings[:0], ids: e.ids, slots: e.slots[:0], before: e.before[:0], numbers: e.numbers[:0]}
	pageEncoders.Put(e)
}

func (e *pageEncoder) uvarint(n uint64) { e.buf = binary.AppendUvarint(e.buf, n) }

// number returns the number of s in the page's table of strings: names and tags repeat from entry to
// entry.
func (e *pageEncoder) number(s string) uint64 {
	id, ok := e.ids[s]
	if !ok {
		id = uint64(len(e.strings))
		e.ids[s] = id
		e.strings = append(e.strings, s)
	}
	return id
}

// slotNumbers are the numbers of the i-th slot of an entry.
func (e *pageEncoder) slotNumbers(i int, s *Slot) slotNumbers {
	var n slotNumbers
	if i < len(e.before) && e.before[i].Name == s.Name {
		n.name = e.numbers[i].name
	} else {
		n.name = e.number(s.Name)
	}
	if i < len(e.before) && e.before[i].Tag == s.Tag {
		n.tag = e.numbers[i].tag
	} else {
		n.tag = e.number(s.Tag)
	}
	return n
}

func (e *pageEncoder) partition(t *PagePartition) {
	e.uvarint(e.number(t.ID))
	e.uvarint(uint64(t.Birth))
	e.uvarint(uint64(t.Updated))
	e.buf = append(e.buf, t.Flags)
	e.uvarint(uint64(len(t.Entries)))
	prev := ""
	for i, it := range t.Entries {
		if i%wholeKeys == 0 {
			prev = ""
		}
		shared := commonPrefix(prev, it.Key)
		e.uvarint(uint64(shared))
		e.uvarint(uint64(len(it.Key) - shared))
		e.buf = append(e.buf, it.Key[shared:]...)
		prev = it.Key
		e.uvarint(uint64(it.LSN))
		e.buf = append(e.buf, it.Flags)
		e.slots, e.before = it.Slots.Append(e.before[:0], 0), e.slots
		e.uvarint(uint64(len(e.slots)))
		for i := range e.slots {
			n := e.slotNumbers(i, &e.slots[i])
			if i == len(e.numbers) {
				e.numbers = append(e.numbers, n)
			}
			e.numbers[i] = n
			e.slot(it.LSN, &e.slots[i], n)
		}
	}
}

// slot writes a ref as its distance from the entry's own record, plus one, so
// that zero means an empty slot. A value is never newer than the entry.
func (e *pageEncoder) slot(lsn base.LSN, s *Slot, n slotNumbers) {
	e.uvarint(n.name)
	e.uvarint(n.tag)
	if s.Ref == (Ref{}) {
		e.uvarint(0)
		return
	}
	e.uvarint(uint64(lsn-s.Ref.LSN) + 1)
	e.uvarint(uint64(s.Ref.Ord))
}

func (e *pageEncoder) values(values []ValueLoc) {
	e.uvarint(uint64(len(values)))
	for _, v := range values {
		for _, n := range []uint64{uint64(v.Ref.LSN), uint64(v.Ref.Ord), uint64(v.Loc.File), v.Loc.Off,
			uint64(v.Loc.Stored), uint64(v.Loc.Inner), uint64(v.Loc.Len)} {
			e.uvarint(n)
		}
		e.buf = binary.LittleEndian.AppendUint64(e.buf, v.Loc.Sum)
		e.buf = binary.AppendVarint(e.buf, int64(v.Loc.Back))
		if v.Loc.Patched() {
			e.uvarint(uint64(v.Loc.Ord))
		}
	}
}

func commonPrefix[A, B string | []byte](a A, b B) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// DecodePage reads an encoded page. Any input gives a page or an error; memory
// is bounded by a small multiple of the input's length.
func DecodePage(b []byte) (*Page, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("page is empty")
	}
	if b[0] < pageUnpatched || b[0] > pageFormat {
		return nil, &fault.VersionError{File: "index page", Have: uint32(b[0]), Supported: pageFormat}
	}
	d := pageDecoder{Cursor: base.Cursor{What: "page", Left: b[1:]}, patches: b[0] > pageUnpatched}
	d.table()
	p := &Page{Partitions: make([]PagePartition, 0, d.Count(5))}
	for range cap(p.Partitions) {
		p.Partitions = append(p.Partitions, d.partition())
		if d.Err != nil {
			return nil, d.Err
		}
	}
	p.Values = make([]ValueLoc, 0, d.Count(15)) // 16 in the newer format
	for range cap(p.Values) {
		p.Values = append(p.Values, d.value())
	}
	if d.Err == nil && len(d.Left) != 0 {
		d.Fail("%d bytes after the end", len(d.Left))
	}
	if d.Err != nil {
		return nil, d.Err
	}
	return p, nil
}

type pageDecoder struct {
	base.Cursor
	patches bool // places may be those of patches
	strings []string
	slots   []Slot // of an entry
}

func (d *pageDecoder) table() {
	n := d.Count(1)
	start := d.Left
	for range n {
		d.Bytes(d.Uvarint())
	}
	if d.Err != nil {
		return
	}
	// All strings are parts of one copy: entries keep most of them anyway.
	text := string(start[:len(start)-len(d.Left)])
	d.strings = make([]string, n)
	for i := range d.strings {
		size, w := binary.Uvarint(start)
		end := w + int(size)
		d.strings[i] = text[w:end]
		start, text = start[end:], text[end:]
	}
}

func (d *pageDecoder) str() string {
	i := d.Uvarint()
	if i >= uint64(len(d.strings)) {
		d.Fail("string %d of %d", i, len(d.strings))
		return ""
	}
	return d.strings[i]
}

func (d *pageDecoder) lsn() base.LSN { return base.LSN(d.Uvarint()) }

func (d *pageDecoder) partition() PagePartition {
	t := PagePartition{ID: d.str(), Birth: d.lsn(), Updated: int64(d.Uvarint()), Flags: d.Byte()}
	n := d.Count(5)
	t.Entries = make([]*Entry, 0, n)
	var prev string
	for i := range n {
		before := prev
		if i%wholeKeys == 0 {
			before = ""
		}
		it := d.entry(before)
		if d.Err != nil {
			return t
		}
		if i > 0 && it.Key <= prev {
			d.Fail("keys out of order")
			return t
		}
		t.Entries = append(t.Entries, it)
		prev = it.Key
	}
	return t
}

// entry reads an entry whose key may share bytes with prev.
func (d *pageDecoder) entry(prev string) *Entry {
	shared := d.Uvarint()
	if shared > uint64(len(prev)) {
		d.Fail("key shares %d bytes of %d", shared, len(prev))
		return nil
	}
	rest := d.Bytes(d.Uvarint())
	if shared+uint64(len(rest)) > base.MaxKey {
		d.Fail("key of %d bytes", shared+uint64(len(rest)))
		return nil
	}
	it := &Entry{Key: prev[:shared] + string(rest), LSN: d.lsn(), Flags: d.Byte()}
	n := d.Count(3)
	if n > base.MaxSlots {
		d.Fail("%d slots", n)
		return nil
	}
	d.slots = d.slots[:0]
	for range n {
		d.slots = append(d.slots, d.slot(it.LSN))
	}
	it.Slots = PackSlots(d.slots)
	return it
}

func (d *pageDecoder) slot(lsn base.LSN) Slot {
	s := Slot{Name: d.str(), Tag: d.str()}
	back := d.Uvarint()
	if back == 0 {
		return s
	}
	ord := d.Uvarint()
	if back > uint64(lsn) || ord > base.MaxSlots {
		d.Fail("value %d records before %d", back-1, lsn)
		return s
	}
	s.Ref = Ref{LSN: lsn - base.LSN(back-1), Ord: uint16(ord)}
	return s
}

func (d *pageDecoder) value() ValueLoc {
	var n [7]uint64
	for i := range n {
		n[i] = d.Uvarint()
	}
	sum := d.Bytes(8)
	if d.Err != nil {
		return ValueLoc{}
	}
	if n[1] > base.MaxSlots || n[4] > 1<<32-1 || n[5] > 1<<32-1 || n[6] > base.MaxStored {
		d.Fail("value place out of range")
		return ValueLoc{}
	}
	v := ValueLoc{
		Ref: Ref{LSN: base.LSN(n[0]), Ord: uint16(n[1])},
		Loc: Loc{File: base.FileNum(n[2]), Off: n[3], Stored: uint32(n[4]), Inner: uint32(n[5]), Len: uint32(n[6]),
			Sum: binary.LittleEndian.Uint64(sum)},
	}
	if d.patches {
		v.Loc.Back, v.Loc.Ord = d.base(v.Ref)
	}
	return v
}

// base reads the base of a patch; zeros if the value is stored whole.
func (d *pageDecoder) base(r Ref) (back int32, ord uint16) {
	n := d.Varint()
	if n == 0 { // or an error
		return 0, 0
	}
	o := d.Uvarint()
	if n != int64(int32(n)) || o >= base.MaxSlots || n > 0 && base.LSN(n) >= r.LSN {
		d.Fail("base %d records before %d, ordinal %d", n, r.LSN, o)
		return 0, 0
	}
	return int32(n), uint16(o)
}

// SortEntries puts entries in the order of keys, as pages want them.
func SortEntries(entries []*Entry) {
	slices.SortFunc(entries, func(a, b *Entry) int { return strings.Compare(a.Key, b.Key) })
}

// Newest is the last record that the page knows of the partition.
func (pt *PagePartition) Newest() base.LSN {
	lsn := pt.Birth
	for _, it := range pt.Entries {
		lsn = max(lsn, it.LSN)
	}
	return lsn
}
