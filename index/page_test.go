package index

import (
	"errors"
	"flag"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/golden"
)

var update = flag.Bool("update", false, "rewrite testdata")

// goldenPage has every kind of field: an empty slot, one made empty, a value of
// the entry's own record and one of an earlier record, keys that share bytes, a
// deletion, and a run of entries long enough for a second whole key.
func goldenPage() *Page {
	entries := []*Entry{
		{Key: "cab", LSN: 300, Flags: FlagHead, Slots: PackSlots([]Slot{
			{Name: "messages", Tag: "v2", Ref: Ref{LSN: 300, Ord: 1}}, {Name: "state", Tag: "v1", Ref: Ref{LSN: 298, Ord: 2}},
			{Name: "none", Tag: "v1"}, {Name: "emptied", Tag: "v2", Ref: Ref{LSN: 300, Ord: EmptyOrd}}})},
		{Key: "cad", LSN: 301, Flags: FlagDeleted},
	}
	var run []*Entry
	for i := range wholeKeys + 2 {
		run = append(run, &Entry{Key: fmt.Sprintf("key%02d", i), LSN: base.LSN(400 + i)})
	}
	return &Page{
		Partitions: []PagePartition{
			{ID: "thread", Birth: 7, Updated: 1_700_000_000_000_000, Flags: 1, Entries: entries},
			{ID: "thread/2", Birth: 399, Entries: run},
		},
		Values: []ValueLoc{
			{Ref: Ref{LSN: 300, Ord: 1}, Loc: Loc{File: 3, Off: 4096, Len: 70000, Sum: 0x1122334455667788}},
			{Ref: Ref{LSN: 298, Ord: 2}, Loc: Loc{File: 2, Off: 64, Stored: 500, Inner: 90, Len: 1200, Sum: 0x99}},
			{Ref: Ref{LSN: 299, Ord: 1}, Loc: Loc{File: 3, Off: 2000, Len: 90, Sum: 0x77, Back: 8, Ord: 3}},
			{Ref: Ref{LSN: 200, Ord: 0}, Loc: Loc{File: 2, Off: 64, Stored: 500, Inner: 1290, Len: 40, Sum: 0x55, Back: -98, Ord: 2}},
		},
	}
}

// dumpPage annotates a page by the table of docs/format/page.md.
func dumpPage(t *testing.T, b []byte) *golden.Dump {
	d := golden.New(t, b)
	d.Byte("format")
	d.Title("strings")
	var strs []string
	for range d.Uvarint("strings") {
		strs = append(strs, d.Str(fmt.Sprintf("string %d", len(strs))))
	}
	d.Title("threads")
	for range d.Uvarint("threads") {
		dumpPartition(d, strs)
	}
	d.Title("places of values")
	for range d.Uvarint("values") {
		for _, name := range []string{"record", "ordinal", "file number", "offset", "stored", "inner", "length"} {
			d.Uvarint(name)
		}
		d.Field(8, "checksum")
		if d.Varint("records back to the base") != 0 {
			d.Uvarint("base, ordinal")
		}
	}
	return d
}

func dumpPartition(d *golden.Dump, strs []string) {
	d.Title("thread %q", strs[d.Uvarint("id, string")])
	d.Uvarint("birth, record")
	d.Uvarint("updated, unix µs")
	d.Byte("flags")
	for range d.Uvarint("entries") {
		d.Uvarint("key, bytes shared")
		d.Field(int(d.Uvarint("key, bytes not shared")), "key, rest")
		d.Uvarint("record")
		d.Byte("flags")
		for range d.Uvarint("slots") {
			d.Title("slot %q", strs[d.Uvarint("name, string")])
			d.Uvarint("tag, string")
			if d.Uvarint("value, records back plus 1") > 0 {
				d.Uvarint("value, ordinal")
			}
		}
	}
}

// TestOldPage: pages of format 1 are read as ever.
func TestOldPage(t *testing.T) {
	b := golden.Read(t, "testdata/page1.golden")
	got, err := DecodePage(b)
	if err != nil {
		t.Fatal(err)
	}
	want := goldenPage()
	want.Values = want.Values[:2] // in format 1 none is a patch
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("it reads otherwise (-want +got):\n%s", diff)
	}
	for n := range b {
		if _, err := DecodePage(b[:n]); err == nil {
			t.Errorf("a page cut to %d of %d bytes is accepted", n, len(b))
		}
	}
}

// TestPageGolden: the bytes of the format do not change.
func TestPageGolden(t *testing.T) {
	want := goldenPage()
	b := dumpPage(t, EncodePage(want)).Check("testdata/page2.golden", *update)
	got, err := DecodePage(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the golden page reads otherwise (-want +got):\n%s", diff)
	}
	for n := range b {
		if _, err := DecodePage(b[:n]); err == nil {
			t.Errorf("a page cut to %d of %d bytes is accepted", n, len(b))
		}
	}
	if _, err := DecodePage(append(b, 0)); err == nil {
		t.Error("a page with a byte too many is accepted")
	}
}

// genName is a name or a tag: a few, some of them as long as those that are not copied.
func genName(t *rapid.T, label string) string {
	return strings.Repeat(rapid.StringN(0, 2, -1).Draw(t, label), rapid.SampledFrom([]int{1, 1, longName - 1, longName}).Draw(t, "times"))
}

func genPage(t *rapid.T) *Page {
	p := &Page{}
	for range rapid.IntRange(0, 3).Draw(t, "threads") {
		pt := PagePartition{ID: rapid.String().Draw(t, "id"), Birth: base.LSN(rapid.Uint64().Draw(t, "birth")),
			Updated: rapid.Int64().Draw(t, "updated"), Flags: rapid.Byte().Draw(t, "flags")}
		keys := rapid.SliceOfNDistinct(rapid.StringOf(rapid.SampledFrom([]rune("abc"))), 0, 40, rapid.ID[string]).Draw(t, "keys")
		for _, key := range keys {
			it := &Entry{Key: key, LSN: base.LSN(rapid.Uint64Min(1).Draw(t, "record")), Flags: rapid.Byte().Draw(t, "flags")}
			var slots []Slot
			for range rapid.IntRange(0, 3).Draw(t, "slots") {
				s := Slot{Name: genName(t, "name"), Tag: genName(t, "tag")}
				if rapid.Bool().Draw(t, "has a value") {
					s.Ref = Ref{LSN: base.LSN(rapid.Uint64Range(1, uint64(it.LSN)).Draw(t, "from")), Ord: rapid.Uint16().Draw(t, "ordinal")}
				}
				slots = append(slots, s)
			}
			it.Slots = PackSlots(slots)
			pt.Entries = append(pt.Entries, it)
		}
		SortEntries(pt.Entries)
		p.Partitions = append(p.Partitions, pt)
	}
	for range rapid.IntRange(0, 3).Draw(t, "values") {
		v := ValueLoc{
			Ref: Ref{LSN: base.LSN(rapid.Uint64().Draw(t, "record")), Ord: rapid.Uint16().Draw(t, "ordinal")},
			Loc: Loc{File: base.FileNum(rapid.Uint64().Draw(t, "file")), Off: rapid.Uint64().Draw(t, "offset"), Stored: rapid.Uint32().Draw(t, "stored"),
				Inner: rapid.Uint32().Draw(t, "inner"), Len: rapid.Uint32Range(0, base.MaxStored).Draw(t, "length"), Sum: rapid.Uint64().Draw(t, "checksum")}}
		if b := (Ref{LSN: base.LSN(rapid.Uint64Min(1).Draw(t, "base")), Ord: rapid.Uint16Max(base.MaxSlots-1).Draw(t, "base ordinal")}); rapid.Bool().Draw(t, "patch") {
			v.Loc, _ = v.Loc.Against(v.Ref, b)
		}
		p.Values = append(p.Values, v)
	}
	return p
}

func TestPageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genPage(t)
		got, err := DecodePage(EncodePage(want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("another page comes back (-want +got):\n%s", diff)
		}
	})
}

// weight is the memory a page takes, as a sum over its parts.
func weight(p *Page) int {
	size := func(v any) int { return int(reflect.TypeOf(v).Size()) }
	n := len(p.Partitions)*size(PagePartition{}) + len(p.Values)*size(ValueLoc{})
	for _, t := range p.Partitions {
		n += len(t.ID)
		for _, it := range t.Entries {
			n += len(it.Key) + size(it) + size(*it) + len(it.Slots.packed) + len(it.Slots.longNames())*size("")
		}
	}
	return n
}

// maxGrowth bounds what a byte of a page may decode to. It is reached by keys
// that share all their bytes with the whole key before.
const maxGrowth = 2 * wholeKeys

func FuzzPage(f *testing.F) {
	f.Add(EncodePage(goldenPage()))
	f.Add(EncodePage(&Page{}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePage(b)
		if err != nil {
			if p != nil {
				t.Fatal("a page and an error")
			}
			return
		}
		if w := weight(p); w > maxGrowth*len(b) {
			t.Fatalf("%d bytes decode to %d", len(b), w)
		}
		again, err := DecodePage(EncodePage(p))
		if err != nil {
			t.Fatalf("what was decoded cannot be read again: %v", err)
		}
		if !reflect.DeepEqual(p, again) {
			t.Fatalf("another page comes back: %s", cmp.Diff(p, again))
		}
	})
}

// longKeys is a page whose keys are as long as they may be and differ in their
// last bytes only.
func longKeys() *Page {
	long := strings.Repeat("k", base.MaxKey-4)
	p := &Page{Partitions: []PagePartition{{ID: "t"}}}
	for i := range 3 * wholeKeys {
		p.Partitions[0].Entries = append(p.Partitions[0].Entries, &Entry{Key: fmt.Sprintf("%s%04d", long, i), LSN: 1})
	}
	return p
}

// TestPageGrowth: pages that would take far more memory than they are long are
// refused, and none is ever written.
func TestPageGrowth(t *testing.T) {
	p := longKeys()
	b := EncodePage(p)
	if w := weight(p); w > maxGrowth*len(b) {
		t.Errorf("%d bytes decode to %d", len(b), w)
	}
	b = []byte{pageFormat, 1, 1, 't', 1, 0, 0, 0, 0, wholeKeys + 1, 0, 1, 'a', 1, 0, 0}
	for i := range wholeKeys {
		b = append(b, 1, 1, 'a'+byte(i), 1, 0, 0)
	}
	if _, err := DecodePage(append(b, 0)); err == nil || !strings.Contains(err.Error(), "shares") {
		t.Errorf("a key that should be whole and is not: %v", err)
	}
}

func TestPageRefuses(t *testing.T) {
	var version *fault.VersionError
	if _, err := DecodePage([]byte{pageFormat + 1}); !errors.As(err, &version) {
		t.Errorf("a newer page: %v", err)
	}
	for name, b := range map[string][]byte{
		"empty":                   {},
		"more strings than bytes": {1, 200},
		"no such string":          {1, 0, 1, 3, 0, 0, 0, 0, 0},
		"keys out of order":       {1, 1, 0, 1, 0, 0, 0, 0, 2, 0, 1, 'b', 1, 0, 0, 0, 1, 'a', 1, 0, 0, 0},
		"value after its entry":   {1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 'a', 1, 0, 1, 0, 0, 3, 0, 0},
		"value too long":          {1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0},
		"place beyond 32 bits":    {1, 0, 0, 1, 1, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		if p, err := DecodePage(b); err == nil {
			t.Errorf("%s: read as %+v", name, p)
		}
	}
}
