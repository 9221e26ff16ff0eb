package layout

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/golden"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

var update = flag.Bool("update", false, "rewrite testdata")

const minted = "00000000000000000000000000000012.0.8236402934819042"

func goldenCheckpoint() *CheckpointRecord {
	return &CheckpointRecord{
		V: 4, Ts: "2024-05-01T00:00:00.000000+00:00",
		Updated: []string{"messages", "state"},
		Seen: map[string]map[string]saver.Version{
			"__input__": {},
			"agent":     {"messages": saver.StringVersion(minted), "float": saver.FloatVersion(1.5), "int": saver.IntVersion(-3), "null": {}, "text": saver.StringVersion("v1")},
		},
		Metadata: serde.Typed{Kind: serde.KindMsgpack, Data: []byte{0x81, 0xa4, 's', 't', 'e', 'p', 0x01}},
	}
}

// notedCheckpoint is goldenCheckpoint with a note of all kinds of names: one that
// stands in the record, one that many notes have, one that is only here.
func notedCheckpoint() *CheckpointRecord {
	r := goldenCheckpoint()
	r.Note = &saver.Note{Graph: "LangGraph", Next: []string{"agent", "tools"}, Stop: saver.StopBreakpoint, Deltas: []string{"messages"}}
	return r
}

// versionedCheckpoint is notedCheckpoint with a version.
func versionedCheckpoint() *CheckpointRecord {
	r := notedCheckpoint()
	r.Note.Version = "5f0c9a1e77d2"
	return r
}

// TestCheckpointGolden: the bytes of the formats do not change.
func TestCheckpointGolden(t *testing.T) {
	for name, want := range map[string]*CheckpointRecord{"checkpoint": goldenCheckpoint(), "checkpoint_noted": notedCheckpoint(), "checkpoint_versioned": versionedCheckpoint()} {
		b := dumpCheckpoint(t, encodeCheckpoint(want)).Check("testdata/"+name+".golden", *update)
		got, err := DecodeCheckpointRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want, got) {
			t.Errorf("the golden %s reads as %+v", name, got)
		}
		for n := range len(b) - len(want.Metadata.Data) { // what follows is the serializer's
			if _, err := DecodeCheckpointRecord(b[:n]); err == nil {
				t.Errorf("%s cut to %d of %d bytes is accepted", name, n, len(b))
			}
		}
	}
	var version *fault.VersionError
	for _, format := range []byte{0, versionedFormat + 1} {
		if _, err := DecodeCheckpointRecord([]byte{format}); !errors.As(err, &version) {
			t.Errorf("a checkpoint of format %d: %v", format, err)
		}
	}
	newer := []byte{plainFormat, 8, 0, 0, 1, 1, 1, 'n', 1, 1, 'c', 1, packMinted + 1, 0}
	if _, err := DecodeCheckpointRecord(newer); !errors.As(err, &version) {
		t.Errorf("a newer channel version: %v", err)
	}
}

// TestNoteNames: any name comes back, wherever it stands before the note, and one that
// stands there takes few bytes.
func TestNoteNames(t *testing.T) {
	long := strings.Repeat("n", (1 << 10))
	for _, size := range []int{0, 10, sharedText, nearWindow + 100} {
		r := &CheckpointRecord{Ts: "first", Updated: []string{"branch:to:agent", strings.Repeat("x", size), "last"}, Metadata: serde.Typed{Kind: "json"}}
		without := len(encodeCheckpoint(r))
		for _, names := range [][]string{{}, {""}, {"a"}, {"first"}, {"agent"}, {"last"}, {"LangGraph"}, {"Graph", "L"}, {long}, {"last", "agent", "ast", long, "last"}} {
			r.Note = &saver.Note{Graph: "LangGraph", Next: names}
			if len(names) == 0 {
				r.Note.Next = nil
			}
			if len(names) == 1 { // as the version, the name comes back too
				v := *r
				v.Note = &saver.Note{Version: names[0]}
				if got, err := DecodeCheckpointRecord(encodeCheckpoint(&v)); err != nil || got.Note.Version != names[0] {
					t.Errorf("%d bytes: the version %q comes back as %+v, %v", size, names[0], got, err)
				}
			}
			b := encodeCheckpoint(r)
			got, err := DecodeCheckpointRecord(b)
			if err != nil || !reflect.DeepEqual(got.Note, r.Note) {
				t.Errorf("%d bytes: %q comes back as %+v, %v", size, names, got, err)
			}
			if grown := len(b) - without; len(names) == 1 && names[0] == "agent" && size < sharedText && grown > 8 {
				t.Errorf("a note takes %d bytes", grown)
			}
		}
	}
	bad := &CheckpointRecord{Note: &saver.Note{}}
	b := encodeCheckpoint(bad)
	for _, place := range [][]byte{{11, 0}, {11, 4}, {3, 30}, {3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1}} {
		at := len(b) - 4 // next, stop, graph, deltas; then the kind of the metadata
		if string(b[at-1:]) != "\x00\x00\x00\x00\x00" {
			t.Fatalf("the note of nothing is %x", b)
		}
		one := append(append(append([]byte{}, b[:at-1]...), 1), place...)
		if r, err := DecodeCheckpointRecord(append(one, 0, 0, 0, 0)); err == nil {
			t.Errorf("a name at %v reads as %+v", place, r.Note)
		}
	}
}

// dumpCheckpoint annotates a checkpoint by the table of docs/format/checkpoint.md.
func dumpCheckpoint(t *testing.T, b []byte) *golden.Dump {
	d := golden.New(t, b)
	d.Byte("format")
	d.Varint("v")
	d.Str("ts")
	if d.Byte("has updated channels") == 1 {
		for range d.Uvarint("updated channels") {
			d.Str("channel")
		}
	}
	if d.Byte("has versions seen") == 1 {
		for range d.Uvarint("nodes") {
			d.Title("versions seen by %q", d.Str("node"))
			for range d.Uvarint("channels") {
				d.Str("channel")
				dumpVersion(d, d.Uvarint("version, length"))
			}
		}
	}
	if b[0] != plainFormat {
		d.Title("note")
		dumpNames(d, "next")
		d.Byte("stop")
		dumpName(d, "graph")
		dumpNames(d, "deltas")
		if b[0] == versionedFormat {
			dumpName(d, "version")
		}
	}
	d.Title("metadata")
	d.Str("kind")
	d.Rest("data")
	return d
}

func dumpNames(d *golden.Dump, what string) {
	for range d.Uvarint(what) {
		dumpName(d, what)
	}
}

func dumpName(d *golden.Dump, what string) {
	n := d.Uvarint(what + ", length twice, one more for a place")
	if n%2 == 0 {
		d.Field(int(n/2), "%s", what)
	} else {
		d.Uvarint(what + ", bytes back")
	}
}

func dumpVersion(d *golden.Dump, n uint64) {
	switch d.Byte("version, kind") {
	case packText:
		d.Field(int(n)-1, "text")
	case packInt:
		d.Varint("integer")
	case packFloat:
		d.Field(8, "float")
	case packMinted:
		d.Uvarint("before the point")
		d.Byte("digits behind 0.")
		d.Uvarint("digits")
	}
}

var versions = []saver.Version{
	{}, saver.StringVersion(""), saver.StringVersion("v1"), saver.StringVersion(minted), saver.StringVersion("\x00"), saver.StringVersion("\x04\x01\x01\x01"),
	saver.StringVersion("00000000000000000000000000000001.0.0"), saver.StringVersion("00000000000000000000000000000001.00.5"),
	saver.StringVersion("00000000000000000000000000000001.0.00000000000000000001"), saver.StringVersion("00000000000000000000000000000001.5"),
	saver.StringVersion("99999999999999999999999999999999.0.5"), saver.StringVersion("00000000000018446744073709551615.0.9999999999999999999"),
	saver.StringVersion("00000000000000000000000000000001.0."), saver.StringVersion("00000000000000000000000000000001.1e-05"),
	saver.IntVersion(0), saver.IntVersion(math.MinInt64), saver.IntVersion(math.MaxInt64),
	saver.FloatVersion(0), saver.FloatVersion(math.Copysign(0, -1)), saver.FloatVersion(math.Inf(1)), saver.FloatVersion(1.5),
}

func TestVersionRoundTrip(t *testing.T) {
	for _, v := range versions {
		p := PackVersion(v)
		got, err := unpackVersion(p)
		if err != nil || got != v {
			t.Errorf("%q comes back as %q, %v", v, got, err)
		}
		if v.String() == minted && len(p) > 12 {
			t.Errorf("a minted version takes %d bytes", len(p))
		}
	}
	for _, p := range []string{"", "\x00x", "\x02", "\x03\x00", "\x04\x01\x00\x00", "\x04\x01\x02\xe7\x07", "\x04\x01\x14\x01", "\x04\x01\x01\x01\x01"} {
		if v, err := unpackVersion(p); err == nil {
			t.Errorf("%q reads as version %q", p, v)
		}
	}
	var version *fault.VersionError
	if _, err := unpackVersion("\x05"); !errors.As(err, &version) {
		t.Errorf("a newer version: %v", err)
	}
}

func FuzzVersion(f *testing.F) {
	for _, v := range versions {
		f.Add(PackVersion(v))
		f.Add(v.String())
	}
	f.Fuzz(func(t *testing.T, p string) {
		if v, err := unpackVersion(p); err == nil {
			if again, err := unpackVersion(PackVersion(v)); err != nil || again != v {
				t.Fatalf("%q comes back as %q, %v", v, again, err)
			}
			if len(v.String()) > len(p)+2*mintedDigits {
				t.Fatalf("%d bytes read as %d", len(p), len(v.String()))
			}
		}
		// Any string is a version too.
		if v, err := unpackVersion(PackVersion(saver.StringVersion(p))); err != nil || v != saver.StringVersion(p) {
			t.Fatalf("%q comes back as %q, %v", p, v, err)
		}
	})
}

// maxGrowth bounds what a byte of a checkpoint may decode to: the shortest entry
// of a map takes two bytes and a slot of the map.
const maxGrowth = 128

func FuzzCheckpointRecord(f *testing.F) {
	f.Add(encodeCheckpoint(goldenCheckpoint()))
	f.Add(encodeCheckpoint(notedCheckpoint()))
	f.Add(encodeCheckpoint(&CheckpointRecord{}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeCheckpointRecord(b)
		if err != nil {
			if r != nil {
				t.Fatal("a checkpoint and an error")
			}
			return
		}
		if w := r.weight(); w > maxGrowth*len(b) {
			t.Fatalf("%d bytes decode to %d", len(b), w)
		}
		again, err := DecodeCheckpointRecord(encodeCheckpoint(r))
		if err != nil {
			t.Fatalf("what was decoded cannot be read again: %v", err)
		}
		if len(r.Metadata.Data) == 0 && len(again.Metadata.Data) == 0 {
			r.Metadata.Data, again.Metadata.Data = nil, nil
		}
		if !reflect.DeepEqual(r, again) {
			t.Fatalf("another checkpoint comes back: %s", cmp.Diff(fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", again)))
		}
	})
}

// weight is about what a checkpoint takes in memory besides its metadata, whose
// bytes are those of the input.
func (r *CheckpointRecord) weight() int {
	const entry = 32 // of a map, besides key and value
	str := int(reflect.TypeFor[string]().Size())
	n := len(r.Ts) + len(r.Metadata.Kind)
	for _, c := range r.Updated {
		n += str + len(c)
	}
	if r.Note != nil {
		n += str * (len(r.Note.Next) + len(r.Note.Deltas)) // whose bytes are shared
	}
	for node, versions := range r.Seen {
		n += entry + str + len(node)
		for c, v := range versions {
			n += entry + str + len(c) + int(reflect.TypeOf(v).Size()) + len(v.String())
		}
	}
	return n
}

// TestTypedGolden pins what stands before the bytes of a value.
func TestTypedGolden(t *testing.T) {
	for _, c := range []struct{ kind, want string }{
		{serde.KindNull, "\x01"}, {serde.KindBytes, "\x02"}, {serde.KindByteArray, "\x03"}, {serde.KindMsgpack, "\x04"}, {serde.KindJSON, "\x05"},
		{"msgpack+aes", "\x00\x0bmsgpack+aes"},
	} {
		p := KindPrefix(c.kind)
		if string(p) != c.want {
			t.Errorf("kind %q is written as %q, want %q", c.kind, p, c.want)
		}
		got, err := SplitTyped(append(p, "data"...))
		if err != nil || got.Kind != c.kind || string(got.Data) != "data" {
			t.Errorf("kind %q comes back as %q %q, %v", c.kind, got.Kind, got.Data, err)
		}
	}
	var version *fault.VersionError
	if _, err := SplitTyped([]byte{kindJSON + 1}); !errors.As(err, &version) {
		t.Errorf("a newer kind: %v", err)
	}
	for _, b := range []string{"", "\x00", "\x00\x00", "\x00\x05ab"} {
		if v, err := SplitTyped([]byte(b)); err == nil {
			t.Errorf("%q reads as %v", b, v)
		}
	}
}

func FuzzTyped(f *testing.F) {
	f.Add([]byte("\x04data"))
	f.Add([]byte("\x00\x04kinddata"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := SplitTyped(b)
		if err != nil {
			return
		}
		again, err := SplitTyped(append(KindPrefix(v.Kind), v.Data...))
		if err != nil || again.Kind != v.Kind || string(again.Data) != string(v.Data) {
			t.Fatalf("%v comes back as %v, %v", v, again, err)
		}
	})
}

func TestPutDigits(t *testing.T) {
	for _, n := range []uint64{0, 1, 9, 10, 99, 100, 101, 999, 1000, 12345, 99999, 1 << 32, 9999999999999999999, 1<<64 - 1} {
		for width := range 40 {
			b := make([]byte, width)
			rest := putDigits(b, n)
			want, over := fmt.Sprintf("%0*d", width, n), uint64(0)
			if extra := len(want) - width; width == 0 {
				want, over = "", n
			} else if extra > 0 {
				over, _ = strconv.ParseUint(want[:extra], 10, 64)
				want = want[extra:]
			}
			if string(b) != want || rest != over {
				t.Errorf("%d in %d digits: %q, rest %d; want %q, %d", n, width, b, rest, want, over)
			}
		}
	}
}

// encodeCheckpoint is a record's bytes when nothing was encoded before it.
func encodeCheckpoint(r *CheckpointRecord) []byte { return r.Encode() }
