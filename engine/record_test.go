package engine

import (
	"bytes"
	"errors"
	"flag"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/delta"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/golden"
	"github.com/stele-go/stele/index"
)

var update = flag.Bool("update", false, "rewrite testdata")

// goldenRecord has every kind of operation and of slot.
func goldenRecord() (*logRecord, []byte) {
	values := []byte("helloworld!")
	return &logRecord{time: 1_700_000_000_000_000, ops: []recordOp{
		{kind: opPut, id: "thread", key: "key", flags: index.FlagHead, slots: []recordSlot{
			{name: "messages", tag: "v2", encoding: slotInline, len: 5, sum: base.Checksum(0, values[:5])},
			{name: "state", tag: "v1", encoding: slotRef, lsn: 298, ord: 2},
			{name: "none", tag: "v1", encoding: slotNone},
			{name: "emptied", tag: "v2", encoding: slotEmpty},
			{name: "more", tag: "v2", encoding: slotInline, len: 6, ord: 1, sum: base.Checksum(0, values[5:])},
		}},
		{kind: opDelete, id: "thread", key: "old"},
		{kind: opDrop, id: "gone", tombstone: []byte("memo")},
		{kind: opCopy, id: "thread", key: "copy"},
		{kind: opFlags, id: "copy", flags: 1},
		{kind: opFlags, id: "copy", flags: 2}, // written short
	}}, values
}

// dumpRecord annotates a record by the table of docs/format/record.md.
func dumpRecord(t *testing.T, b []byte) *golden.Dump {
	d := golden.New(t, b)
	d.Byte("format")
	d.Field(4, "length of the head")
	d.Uvarint("time, unix µs")
	var values []int
	for range d.Uvarint("operations") {
		kind := opKind(d.Byte("operation"))
		if kind != opFlagsToo {
			d.Str("thread")
		}
		switch kind {
		case opPut:
			d.Str("key")
			d.Byte("flags")
			for range d.Uvarint("slots") {
				if n := dumpSlot(d); n >= 0 {
					values = append(values, n)
				}
			}
		case opDelete:
			d.Str("key")
		case opCopy:
			d.Str("copy")
		case opDrop:
			d.Str("memory")
		case opFlags, opFlagsToo:
			d.Byte("flags")
		}
	}
	d.Title("values")
	for i, n := range values {
		d.Field(n, "value %d", i)
	}
	return d
}

// dumpSlot returns the length of an inline value, or -1.
func dumpSlot(d *golden.Dump) int {
	d.Str("name")
	d.Str("tag")
	switch d.Byte("encoding") {
	case slotRef:
		d.Uvarint("stored by record")
		d.Uvarint("as its value")
	case slotInline:
		n := d.Uvarint("length")
		d.Field(8, "checksum")
		return int(n)
	case slotPatch:
		n := d.Uvarint("length of the patch")
		d.Field(8, "checksum of the patch")
		d.Uvarint("against the value of record")
		d.Uvarint("with ordinal")
		return int(n)
	}
	return -1
}

// goldenPatched is a record with a patch, as it is against the value "hello" of
// record 300, and a whole value after it.
func goldenPatched() (*logRecord, []byte) {
	whole := []byte("hello, world")
	patch := delta.MakeRaw([]byte("hello"), whole, base.Checksum(0, whole), 100)
	return &logRecord{time: 1_700_000_000_000_000, ops: []recordOp{
		{kind: opPut, id: "thread", key: "key", slots: []recordSlot{
			{name: "messages", tag: "v3", encoding: slotPatch, len: uint32(len(patch)), sum: base.Checksum(0, patch), base: index.Ref{LSN: 300, Ord: 1}},
			{name: "more", tag: "v3", encoding: slotInline, len: 3, ord: 1, sum: base.Checksum(0, []byte("end"))},
		}},
	}}, append(patch, "end"...)
}

// TestPatchedRecordGolden: a patch in a record is what docs/format/record.md and
// docs/format/patch.md say.
func TestPatchedRecordGolden(t *testing.T) {
	want, values := goldenPatched()
	b := dumpRecord(t, append(appendRecordHeader(nil, want), values...)).Check("testdata/patched.golden", *update)
	got, err := DecodeRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	s := &got.ops[0].slots[0]
	p, err := delta.Decode(b[s.off : s.off+int64(s.len)])
	if err != nil {
		t.Fatal(err)
	}
	whole, err := delta.Resolve([]*delta.Patch{p}, []byte("hello"))
	if err != nil || string(whole) != "hello, world" || p.Sum != base.Checksum(0, whole) {
		t.Errorf("the patch makes %q, %v", whole, err)
	}
	got.ops[0].slots[0].off, got.ops[0].slots[1].off = 0, 0
	if diff := cmp.Diff(want, got, exported); diff != "" {
		t.Errorf("the golden record reads otherwise (-want +got):\n%s", diff)
	}
}

// TestRecordGolden: the bytes of format 1 do not change.
func TestRecordGolden(t *testing.T) {
	want, values := goldenRecord()
	b := dumpRecord(t, append(appendRecordHeader(nil, want), values...)).Check("testdata/record.golden", *update)
	got, err := DecodeRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range got.ops[0].slots {
		if s.encoding == slotInline && s.sum != base.Checksum(0, b[s.off:s.off+int64(s.len)]) {
			t.Errorf("slot %d: the value does not lie at %d", i, s.off)
		}
	}
	got.ops[0].slots[0].off, got.ops[0].slots[4].off = 0, 0
	if diff := cmp.Diff(want, got, exported); diff != "" {
		t.Errorf("the golden record reads otherwise (-want +got):\n%s", diff)
	}
	for n := range b {
		if _, err := DecodeRecord(b[:n]); err == nil {
			t.Errorf("a record cut to %d of %d bytes is accepted", n, len(b))
		}
	}
	if _, err := DecodeRecord(append(b, 0)); err == nil {
		t.Error("a record with a byte too many is accepted")
	}
}

var exported = cmp.Options{cmp.AllowUnexported(logRecord{}, recordOp{}, recordSlot{}), cmpopts.EquateEmpty()}

// TestNewerRecords: what a later build writes is not called damage.
func TestNewerRecords(t *testing.T) {
	format := appendRecordHeader(nil, &logRecord{})
	format[0]++
	for name, b := range map[string][]byte{
		"format":    format,
		"operation": appendRecordHeader(nil, &logRecord{ops: []recordOp{{kind: opFlagsToo + 1, id: "t"}}}),
		"encoding":  appendRecordHeader(nil, &logRecord{ops: []recordOp{{kind: opPut, id: "t", slots: []recordSlot{{encoding: slotPatch + 1}}}}}),
	} {
		var version *fault.VersionError
		if _, err := DecodeRecord(b); !errors.As(err, &version) {
			t.Errorf("newer %s: %v", name, err)
		}
	}
}

// weight is the memory a record takes, as a sum over its parts.
func (r *logRecord) weight() int {
	size := func(v any) int { return int(reflect.TypeOf(v).Size()) }
	n := size(*r) + len(r.ops)*size(recordOp{})
	for i, o := range r.ops {
		if i > 0 && r.ops[i-1].id == o.id {
			n -= len(o.id) // it may share the memory of the one before
		}
		n += len(o.id) + len(o.key) + len(o.tombstone) + len(o.slots)*size(recordSlot{})
		for _, s := range o.slots {
			n += len(s.name) + len(s.tag)
		}
	}
	return n
}

// maxGrowth bounds what a byte of a record or of tombstones may decode to.
const maxGrowth = 64

func FuzzRecord(f *testing.F) {
	r, values := goldenRecord()
	f.Add(append(appendRecordHeader(nil, r), values...))
	patched, values := goldenPatched()
	f.Add(append(appendRecordHeader(nil, patched), values...))
	f.Add(appendRecordHeader(nil, &logRecord{}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			if recordTime(b); r != nil {
				t.Fatal("a record and an error")
			}
			return
		}
		if got := recordTime(b); got != r.time {
			t.Fatalf("its time is %d, and without the rest %d", r.time, got)
		}
		if w := r.weight(); w > maxGrowth*len(b) {
			t.Fatalf("%d bytes decode to %d", len(b), w)
		}
		head := appendRecordHeader(nil, r)
		values := b[firstValue(b):]
		again, err := DecodeRecord(append(head, values...))
		if err != nil {
			t.Fatalf("what was decoded cannot be read again: %v", err)
		}
		shift := int64(len(head) - firstValue(b))
		for i := range again.ops {
			for j := range again.ops[i].slots {
				if s := &again.ops[i].slots[j]; s.here() {
					if s.off < int64(len(head)) || s.off+int64(s.len) > int64(len(head)+len(values)) {
						t.Fatalf("value at %d of %d bytes", s.off, s.len)
					}
					s.off -= shift
				}
			}
		}
		if !reflect.DeepEqual(r, again) {
			t.Fatalf("another record comes back: %s", cmp.Diff(r, again, exported))
		}
	})
}

// firstValue is where the values of a valid record begin.
func firstValue(b []byte) int {
	return prefix + (int(b[1]) | int(b[2])<<8 | int(b[3])<<16 | int(b[4])<<24)
}

func goldenTombstones() []index.Tombstone {
	return []index.Tombstone{
		{ID: "thread", LSN: 300, At: 1_700_000_000_000_000, Data: []byte("memory")},
		{ID: "other", LSN: 301, At: 1_700_000_000_000_001},
	}
}

// TestTombstonesGolden: the bytes of format 1 do not change.
func TestTombstonesGolden(t *testing.T) {
	want := goldenTombstones()
	d := golden.New(t, EncodeTombstones(want))
	d.Byte("format")
	for range d.Uvarint("tombstones") {
		d.Str("thread")
		d.Uvarint("record that deleted it")
		d.Uvarint("time, unix µs")
		d.Str("memory")
	}
	b := d.Check("testdata/tombstones.golden", *update)
	got, err := DecodeTombstones(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the golden tombstones read otherwise (-want +got):\n%s", diff)
	}
	// A section that reads as empty brings deleted partitions back.
	for n := 1; n < len(b); n++ {
		if got, err := DecodeTombstones(b[:n]); err == nil {
			t.Errorf("tombstones cut to %d of %d bytes read as %v", n, len(b), got)
		}
	}
	if _, err := DecodeTombstones(append(b, 0)); err == nil {
		t.Error("tombstones with a byte too many are accepted")
	}
	var version *fault.VersionError
	if _, err := DecodeTombstones([]byte{tombstoneFormat + 1}); !errors.As(err, &version) {
		t.Errorf("newer tombstones: %v", err)
	}
}

func FuzzTombstones(f *testing.F) {
	f.Add(EncodeTombstones(goldenTombstones()))
	f.Add(EncodeTombstones(nil))
	f.Add([]byte{tombstoneFormat})
	f.Fuzz(func(t *testing.T, b []byte) {
		tombs, err := DecodeTombstones(b)
		if err != nil {
			return
		}
		w := len(tombs) * int(reflect.TypeFor[index.Tombstone]().Size())
		for _, m := range tombs {
			w += len(m.ID) + len(m.Data)
		}
		if w > maxGrowth*len(b) {
			t.Fatalf("%d bytes decode to %d", len(b), w)
		}
		written := EncodeTombstones(tombs) // in one order, whatever theirs was
		again, err := DecodeTombstones(written)
		if err != nil || len(again) != len(tombs) || !bytes.Equal(EncodeTombstones(again), written) {
			t.Fatalf("%v come back as %v, %v", tombs, again, err)
		}
	})
}

// here reports whether the slot's bytes are in this record.
func (s *recordSlot) here() bool { return s.encoding == slotInline || s.encoding == slotPatch }
