package serde

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// TestEncodeNative writes Go values and wants the bytes LangGraph wrote for
// their Python counterparts.
func TestEncodeNative(t *testing.T) {
	zone := func(secs int) *time.Location { return time.FixedZone("somewhere", secs) }
	policy := &TimeoutPolicy{RunTimeout: 1.5, IdleTimeout: 0.25, RefreshOn: "heartbeat"}
	tuple, err := NewKey([]any{1, []any{2, []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	flat, err := NewKey([]any{"a", 1})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{
		"true": true, "int 128": uint8(128), "int 65536": int32(65536), "int 18446744073709551615": uint64(math.MaxUint64),
		"int -33": int8(-33), "int -9223372036854775808": int64(math.MinInt64), "float tenth": 0.1, "float inf": float32(math.Inf(1)),
		"float minus zero":    math.Copysign(0, -1),
		"str lone surrogate":  "a\xed\xa0\x80b\xed\xbf\xbfc",
		"str nul and escapes": "foo\u0000 and \\u0000 and \\ud83e",
		"bytes":               []byte("\x00\xff raw"),
		"bytearray":           ByteArray("*"),
		"list 15":             [15]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
		"tuple":               []any{1, "two", nil},
		"list empty":          []string(nil),
		"map empty":           map[string]any(nil),
		"map int keys":        map[any]any{-5: "a", int64(0): "b", uint8(7): "c", uint64(1 << 63): "d"},
		"map mixed keys":      map[any]any{nil: 1, false: 2, 3: 4, 3.5: 5, "six": 6},
		"map tuple keys":      map[Key]string{tuple: "nested", flat: "flat"},
		"map uuid and date keys": map[any]any{
			UUID{15: 1}: 1, Date{2024, time.April, 19}: 2,
		},
		"state": struct {
			Values any `json:"channel_values"`
			V      int `msgpack:"v" json:"ignored"`
			Unset  any `stele:"unset,omitempty" json:"v"`
			hidden int
		}{Values: map[string]any{"messages": []map[string]string{{"role": "user", "content": "hi"}}, "n": 3}, V: 4},

		"datetime naive micro":    NaiveDateTime{2024, time.April, 19, 23, 4, 57, 51022},
		"datetime naive last":     NaiveDateTime{9999, time.December, 31, 23, 59, 59, 999999},
		"datetime utc":            time.Date(2024, 4, 19, 23, 4, 57, 51022999, time.UTC),
		"datetime +05:30":         time.Date(2024, 4, 19, 23, 4, 57, 51022000, zone(19800)),
		"datetime -08:00":         time.Date(1969, 12, 31, 16, 0, 0, 0, zone(-28800)),
		"datetime odd seconds":    time.Date(1900, 1, 1, 0, 0, 0, 0, zone(3607)),
		"date":                    Date{2024, time.April, 19},
		"time naive":              TimeOfDay{Hour: 23, Minute: 4, Second: 57, Microsecond: 51022},
		"time zone fold":          TimeOfDay{Hour: 2, Minute: 30, TZ: ZoneInfo("Europe/Berlin"), Fold: 1},
		"time offset":             TimeOfDay{Hour: 23, Minute: 4, Second: 57, Microsecond: 51022, TZ: FixedOffset{Offset: 23*time.Hour + 59*time.Minute}},
		"timedelta":               72*time.Hour + 5*time.Second + 7*time.Microsecond,
		"timedelta negative":      -time.Microsecond,
		"timezone utc":            FixedOffset{},
		"timezone named":          &FixedOffset{Offset: 2 * time.Hour, Name: "CEST"},
		"timezone west":           FixedOffset{Offset: -8 * time.Hour},
		"zoneinfo":                ZoneInfo("America/New_York"),
		"uuid":                    UUID{0xf8, 0x1d, 0x4f, 0xae, 0x7d, 0xec, 0x11, 0xd0, 0xa7, 0x65, 0, 0xa0, 0xc9, 0x1e, 0x6b, 0xf6},
		"decimal exponent":        Decimal("1E+30"),
		"set":                     Set{1},
		"set empty":               Set(nil),
		"frozenset":               FrozenSet{7},
		"deque":                   Deque{1, "b", nil},
		"ipv4":                    netip.MustParseAddr("192.168.0.1"),
		"ipv4 interface":          netip.MustParsePrefix("192.168.0.1/24"),
		"ipv4 network":            netip.MustParsePrefix("192.168.0.0/24"),
		"ipv6 scope":              netip.MustParseAddr("fe80::1%eth0"),
		"ipv6 interface":          IPInterface{netip.MustParsePrefix("2001:db8::1/64")},
		"path":                    NewPath("./foo//bar/"),
		"path absolute":           NewPath("/etc/hosts"),
		"path empty":              Path{},
		"regex":                   Regexp{Pattern: "foo+", Flags: 50},
		"regex bytes":             Regexp{Pattern: `\x00+`, Bytes: true},
		"exception":               errors.New("ValueError('Input is too large')"),
		"ndarray fortran":         NDArray{"<i4", []int64{2, 3}, "F", []byte("\x01\x00\x00\x00\x04\x00\x00\x00\x02\x00\x00\x00\x05\x00\x00\x00\x03\x00\x00\x00\x06\x00\x00\x00")},
		"ndarray empty":           NDArray{DType: "|u1", Shape: []int64{0, 3}},
		"send":                    Send{Node: "worker", Arg: map[string]any{"subject": "cats"}},
		"send none":               &Send{Node: "worker"},
		"send timeout":            Send{Node: "worker", Arg: map[string]any{"subject": "cats"}, Timeout: &TimeoutPolicy{RunTimeout: 30}},
		"send policy":             Send{Node: "worker", Arg: 1, Timeout: policy},
		"timeout policy":          TimeoutPolicy{RunTimeout: 2},
		"timeout policy full":     policy,
		"interrupt":               Interrupt{Value: map[string]any{"question": "age?"}, ID: "26f309d618c42ff31d2b3404369232e4"},
		"interrupt default id":    Interrupt{Value: "age?"},
		"interrupt schema":        Interrupt{Value: "age?", ID: "x", ResponseSchema: map[string]any{"type": "integer"}},
		"interrupt legacy ns":     Interrupt{Value: 1, ID: LegacyInterruptID([]string{"legacy_test"})},
		"interrupts":              []Interrupt{{Value: "a", ID: "1"}, {Value: "b", ID: "2"}},
		"command":                 Command{Update: map[string]any{"a": 1}, Resume: "yes", Goto: []any{"n", Send{Node: "m", Arg: []any{1}}}},
		"command empty":           Command{},
		"command parent":          Command{Graph: "__parent__", Goto: "alice", Update: [][]any{{"k", 1}}},
		"overwrite":               Overwrite{Value: []string{"b"}},
		"delta snapshot":          DeltaSnapshot{Value: []any{1, map[string]any{"a": "b"}}},
		"delta snapshot none":     DeltaSnapshot{},
		"enum str":                NewExt(ExtSingle, "app.models", "Color", "red", ""),
		"int 4294967295":          json.Number("4294967295"),
		"int 9223372036854775808": new(big.Int).Lsh(big.NewInt(1), 63),
	}
	for _, g := range loadGoldens(t).Cases {
		v, ok := values[g.Name]
		if !ok {
			continue
		}
		delete(values, g.Name)
		out, err := Default().Encode(v)
		if err != nil {
			t.Errorf("%s: %v", g.Name, err)
			continue
		}
		if out.Kind != g.Kind || hex.EncodeToString(out.Data) != g.Hex {
			t.Errorf("%s:\n got %s %x\nwant %s %s", g.Name, out.Kind, out.Data, g.Kind, g.Hex)
		}
	}
	for name := range values {
		t.Errorf("no golden is called %q", name)
	}
}

// TestEncodeAgreesWithAnotherEncoder compares plain values with an independent
// msgpack implementation.
func TestEncodeAgreesWithAnotherEncoder(t *testing.T) {
	var list []any
	for shift := range 64 {
		for _, d := range []int64{-1, 0, 1} {
			list = append(list, int64(1)<<shift+d, -(int64(1)<<shift + d))
		}
	}
	for n := range 300 {
		list = append(list, strings.Repeat("s", n), bytes.Repeat([]byte{1}, n), float64(n)/7)
	}
	list = append(list, map[string]any{"b": true, "a": nil, "c": map[string]any{"x": []any{}}})
	var want bytes.Buffer
	enc := msgpack.NewEncoder(&want)
	enc.UseCompactInts(true)
	enc.SetSortMapKeys(true)
	if err := enc.Encode(list); err != nil {
		t.Fatal(err)
	}
	got, err := Default().Encode(list)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Data, want.Bytes()) {
		t.Errorf("stele and vmihailenco/msgpack differ:\n%x\n%x", got.Data, want.Bytes())
	}
}

type cyclic struct {
	Name string
	Next *cyclic
}

type textual struct{ n int }

func (x *textual) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "#%d", x.n), nil }

type failing struct{}

var errFailing = errors.New("cannot")

func (failing) MarshalText() ([]byte, error) { return nil, errFailing }

func TestEncodeErrors(t *testing.T) {
	ring := &cyclic{Name: "a"}
	ring.Next = ring
	loop := map[string]any{}
	loop["self"] = []any{loop}
	laughs := any(strings.Repeat("ha", 1<<19))
	for range 40 {
		laughs = []any{laughs, laughs}
	}
	tests := []struct {
		name string
		v    any
		path string
		err  error
	}{
		{"chan", make(chan int), "$", ErrUnsupported},
		{"func in list in map", map[string]any{"messages": []any{1, 2, 3, map[string]any{"extra": map[string]any{"x": func() {}}}}}, "$.messages[3].extra.x", ErrUnsupported},
		{"odd key", map[string]any{"a b": []any{complex(1, 1)}}, `$["a b"][0]`, ErrUnsupported},
		{"int key", map[int]any{7: make(chan int)}, `$["7"]`, ErrUnsupported},
		{"field", struct{ A struct{ B chan int } }{}, "$.A.B", ErrUnsupported},
		{"opaque struct", struct{ a int }{1}, "$", ErrUnsupported},
		{"key not UTF-8", map[string]any{"\xff": 1}, `$["\xff"]`, ErrUnsupported},
		{"key of struct", map[struct{ A int }]int{{1}: 1}, "$", ErrUnsupported},
		{"keys alike", map[any]any{1: 1, int8(1): 2}, `$["1"]`, ErrUnsupported},
		{"zero Key", Key{}, "$", ErrUnsupported},
		{"big int", []any{new(big.Int).Lsh(big.NewInt(1), 64)}, "$[0]", ErrIntRange},
		{"big negative", *big.NewInt(0).Neg(new(big.Int).Lsh(big.NewInt(1), 64)), "$", ErrIntRange},
		{"long number", json.Number("123456789012345678901"), "$", ErrIntRange},
		{"cyclic pointer", ring, "", ErrDepth},
		{"cyclic map", loop, "", ErrDepth},
		{"shared without end", laughs, "", ErrTooLarge},
		{"long string", strings.Repeat("x", 64<<20), "$", ErrTooLarge},
		{"year", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "$", ErrRange},
		{"offset", time.Date(2000, 1, 1, 0, 0, 0, 0, time.FixedZone("", 86400)), "$", ErrRange},
		{"no such day", Date{2023, 2, 29}, "$", ErrRange},
		{"no such time", []any{TimeOfDay{Hour: 24}}, "$[0]", ErrRange},
		{"no such moment", NaiveDateTime{2024, 13, 1, 0, 0, 0, 0}, "$", ErrRange},
		{"offset of a day", FixedOffset{Offset: -24 * time.Hour}, "$", ErrRange},
		{"negative timeout", Send{Timeout: &TimeoutPolicy{RunTimeout: -1}}, "$[2]", ErrRange},
		{"zero address", netip.Addr{}, "$", ErrRange},
		{"path class", Path{Class: "os.system"}, "$", ErrRange},
		{"nameless ext", &Ext{Code: ExtSingle}, "$", ErrUnsupported},
		{"unknown ext", &Ext{Code: 9}, "$", ErrUnsupported},
		{"method without name", NewExt(ExtMethod, "m", "n", 1, ""), "$", ErrUnsupported},
		{"text fails", []any{failing{}}, "$[0]", errFailing},
		{"in an interrupt", Interrupt{Value: make(chan int)}, "$.value", ErrUnsupported},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := Default().Encode(tt.v)
			var ee *EncodeError
			if !errors.Is(err, tt.err) || !errors.As(err, &ee) || out.Kind != "" || out.Data != nil {
				t.Fatalf("got %v, %.200v; want an EncodeError of %v", out.Kind, err, tt.err)
			}
			if tt.path != "" && ee.Path != tt.path {
				t.Errorf("path is %s, want %s", ee.Path, tt.path)
			}
			if len(ee.Path) > 500 || ee.Type == "" || !strings.Contains(err.Error(), ee.Path) {
				t.Errorf("error is hard to use: %.300s", err)
			}
		})
	}
	if out, err := Default().Encode(map[string]any{"b": 1, "a": 2}); err != nil || hex.EncodeToString(out.Data) != "82a16102a16201" {
		t.Errorf("an encoder that failed spoils the next value: %x, %v", out.Data, err)
	}
}

type inner struct {
	A, B int
	C    string `json:"c"`
}

type Exported struct {
	C string `json:"c"` // hidden by nobody: inner.C is as deep and tagged too, so both vanish
	D int    `stele:"d"`
}

type fancy struct {
	inner
	*Exported
	B    string `msgpack:"B"` // hides inner.B
	Skip int    `json:"-"`
	//lint:ignore SA5008 the field is to be called "-"
	Dash  int `json:"-,"`
	Text  textual
	When  time.Time
	Ptr   *int
	Any   any
	Empty []int          `json:",omitempty"`
	More  map[string]any `stele:",extra"`
	Err   error
	Raw   json.RawMessage
	UUIDs map[UUID]int
}

func TestEncodeStructs(t *testing.T) {
	v := &fancy{
		inner: inner{A: 1, B: 2}, B: "outer", Skip: 3, Dash: 4, Text: textual{5}, When: time.Unix(0, 0).UTC(),
		More: map[string]any{"zzz": 1, "A": "does not replace"}, Err: errors.New("oops"), Raw: json.RawMessage("{}"),
		UUIDs: map[UUID]int{{}: 1},
	}
	want := map[string]any{
		"A": int64(1), "B": "outer", "-": int64(4), "Text": "#5", "When": time.Unix(0, 0).UTC(), "Ptr": nil, "Any": nil,
		"zzz": int64(1), "Err": "oops", "Raw": []byte("{}"), "UUIDs": map[string]any{"00000000-0000-0000-0000-000000000000": int64(1)},
	}
	check := func() {
		t.Helper()
		out, err := Default().Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Default().Decode(out)
		if diff := differ(want, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	check()
	v.Exported = &Exported{C: "c", D: 6}
	want["d"] = int64(6)
	check()
}

func TestEncodeNils(t *testing.T) {
	for _, v := range []any{nil, (*int)(nil), (*Ext)(nil), (*Send)(nil), (*big.Int)(nil), (*fancy)(nil), (error)(nil)} {
		if out, err := Default().Encode(v); err != nil || out.Kind != KindNull || len(out.Data) != 0 {
			t.Errorf("%T: %v, %v", v, out, err)
		}
	}
	out, err := Default().Encode([]any{[]any(nil), map[string]int(nil), []byte(nil), (*int)(nil)})
	if err != nil || hex.EncodeToString(out.Data) != "949080c400c0" {
		t.Errorf("%x, %v", out.Data, err)
	}
	if out, _ := Default().Encode([]byte(nil)); out.Kind != KindBytes || out.Data == nil {
		t.Errorf("nil bytes: %v", out)
	}
}

func TestEncodeSharesNoMemory(t *testing.T) {
	in := []byte("abc")
	out, _ := Default().Encode(in)
	in[0] = 'x'
	if string(out.Data) != "abc" {
		t.Error("Encode kept the caller's bytes")
	}
	v, _ := Default().Decode(out)
	out.Data[0] = 'y'
	if string(v.([]byte)) != "abc" {
		t.Error("Decode kept the caller's bytes")
	}
	typed, _ := Default().Encode([]any{"s", []byte("b"), &Ext{Code: 99, Data: []byte("d")}})
	v, _ = Default().Decode(typed)
	clear(typed.Data)
	if want := []any{"s", []byte("b"), &Ext{Code: 99, Data: []byte("d")}}; !reflect.DeepEqual(v, want) {
		t.Errorf("decoded value changed with its input: %v", v)
	}
}

func TestJSONFallback(t *testing.T) {
	c := mustNew(t, Options{JSONFallback: true})
	v := map[string]any{"n": new(big.Int).Lsh(big.NewInt(1), 70)}
	out, err := c.Encode(v)
	if err != nil || out.Kind != KindJSON || string(out.Data) != `{"n":1180591620717411303424}` {
		t.Errorf("%s %s, %v", out.Kind, out.Data, err)
	}
	if out, err := c.Encode(1); err != nil || out.Kind != KindMsgpack {
		t.Errorf("what msgpack can hold is %s, %v", out.Kind, err)
	}
	_, err = c.Encode(make(chan int))
	var ee *EncodeError
	var je *json.UnsupportedTypeError
	if !errors.As(err, &ee) || !errors.As(err, &je) {
		t.Errorf("want both reasons, got %v", err)
	}
}
