package saver

import (
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/serde"
)

func sampleRecord() *Record {
	return &Record{
		Checkpoint: Checkpoint{
			V: 4, ID: "c2", TS: "now",
			Versions: map[string]Version{"a": StringVersion("1.5"), "b": IntVersion(-2), "c": FloatVersion(0.5), "d": {}},
			Seen:     map[string]map[string]Version{"n": {"a": IntVersion(1)}, "__input__": {}},
			Updated:  []string{"b", "a"},
		},
		Metadata: serde.Typed{Kind: "msgpack", Data: []byte{0x80}}, Parent: "c1", ValuesFrom: "c0", Stored: []string{"a"}, Emptied: []string{"b", "c"},
	}
}

// The bytes are a format: what was written once must be read for ever.
func TestRecordGolden(t *testing.T) {
	golden := strings.Join([]string{
		"01",                               // format version
		"08",                               // V = 4
		"026332",                           // id "c2"
		"036e6f77",                         // ts "now"
		"026331",                           // parent "c1"
		"026330",                           // values from "c0"
		"076d73677061636b",                 // metadata kind
		"0180",                             // metadata bytes
		"04",                               // 4 versions
		"0161" + "01" + "03312e35",         // a: string "1.5"
		"0162" + "02" + "03",               // b: integer -2
		"0163" + "03" + "000000000000e03f", // c: float 0.5
		"0164" + "00",                      // d: null
		"02",                               // seen: 2 nodes
		"095f5f696e7075745f5f" + "00",
		"016e" + "01" + "0161" + "02" + "02", // n: a at integer 1
		"03" + "0162" + "0161",               // updated, 2 names as given
		"01" + "0161",                        // stored: a
		"02" + "0162" + "0163",               // emptied: b, c
	}, "")
	if got := hex.EncodeToString(sampleRecord().Append(nil)); got != golden {
		t.Errorf("encoded\n got %s\nwant %s", got, golden)
	}
	b, err := hex.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, sampleRecord()) {
		t.Errorf("decoded\n got %+v\nwant %+v", got, sampleRecord())
	}
}

func TestRecordRoundTrip(t *testing.T) {
	names := rapid.SliceOfNDistinct(rapid.String(), 0, 4, rapid.ID)
	version := rapid.OneOf(
		rapid.Just(Version{}), rapid.Map(rapid.String(), StringVersion), rapid.Map(rapid.Int64(), IntVersion),
		rapid.Map(rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) }), FloatVersion),
	)
	versions := rapid.MapOfN(rapid.String(), version, 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		want := &Record{
			Checkpoint: Checkpoint{
				V: rapid.Int().Draw(t, "v"), ID: rapid.String().Draw(t, "id"), TS: rapid.String().Draw(t, "ts"),
				Versions: versions.Draw(t, "versions"), Seen: rapid.MapOfN(rapid.String(), versions, 0, 3).Draw(t, "seen"),
			},
			Metadata: serde.Typed{Kind: rapid.String().Draw(t, "kind"), Data: rapid.SliceOf(rapid.Byte()).Draw(t, "metadata")},
			Parent:   rapid.String().Draw(t, "parent"), ValuesFrom: rapid.String().Draw(t, "from"),
		}
		if rapid.Bool().Draw(t, "updated known") {
			want.Checkpoint.Updated = names.Draw(t, "updated")
		}
		b := want.Append([]byte("before"))
		got, err := DecodeRecord(b[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	})
}

// Every cut and every changed byte of a record is an error or another record;
// never a panic.
func TestRecordDamage(t *testing.T) {
	whole := sampleRecord().Append(nil)
	for n := range whole {
		if _, err := DecodeRecord(whole[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut at %d of %d: %v", n, len(whole), err)
		}
	}
	if _, err := DecodeRecord(append(whole, 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
	for n := range whole {
		for bit := range 8 {
			b := append([]byte(nil), whole...)
			b[n] ^= 1 << bit
			r, err := DecodeRecord(b)
			switch {
			case n == 0 && b[0] > recordFormat:
				if !errors.Is(err, ErrVersion) {
					t.Errorf("format version %d: %v", b[0], err)
				}
			case err == nil:
				if string(r.Append(nil)) != string(b) {
					t.Errorf("bit %d of byte %d: read as a record with other bytes", bit, n)
				}
			case !errors.Is(err, ErrCorrupt):
				t.Errorf("bit %d of byte %d: %v", bit, n, err)
			}
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(sampleRecord().Append(nil))
	f.Add((&Record{}).Append(nil))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if again := r.Append(nil); string(again) != string(b) {
			t.Fatalf("%x decodes to a record that encodes to %x", b, again)
		}
	})
}
