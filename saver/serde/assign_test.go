package serde

import (
	"errors"
	"math"
	"math/big"
	"reflect"
	"testing"
	"time"
)

type color string

type invoice struct {
	Number string         `json:"number"`
	Amount Decimal        `json:"amount"`
	Due    Date           `json:"due"`
	Lines  []line         `json:"lines"`
	Note   *string        `json:"note"`
	Extra  map[string]any `stele:",extra"`
}

type line struct {
	Art string `json:"art"`
	Qty int    `json:"qty"`
}

type point struct {
	Y    int     `json:"y"`
	X    float64 `json:"x"`
	Tags []any   `json:"tags"`
}

func appRegistry(t *testing.T) *Registry {
	t.Helper()
	r := &Registry{}
	err := errors.Join(
		RegisterModel[invoice](r, "app.models", "Invoice"),
		r.Register("app.models", "Point", &point{}, FormKeyword),
		RegisterEnum[color](r, "app.models", "Color"),
	)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRegistered decodes LangGraph's bytes to registered Go types and writes
// them back as the same bytes.
func TestRegistered(t *testing.T) {
	c := mustNew(t, Options{Registry: appRegistry(t), Strict: true, OnBlocked: func(e Event) { t.Errorf("blocked: %v", e) }})
	want := map[string]any{
		"dataclass": &point{Y: 1, X: 2, Tags: []any{"b", map[string]any{"z": int64(1), "a": int64(2)}}},
		"pydantic":  invoice{Number: "7", Amount: "9.90", Due: Date{2025, time.January, 2}, Lines: []line{{"x", 1}}},
		"enum str":  color("red"),
	}
	for _, g := range loadGoldens(t).Cases {
		w, ok := want[g.Name]
		if !ok {
			continue
		}
		delete(want, g.Name)
		v := decodeHex(t, c, g.Hex)
		if !reflect.DeepEqual(v, w) {
			t.Errorf("%s: %#v, want %#v", g.Name, v, w)
		}
		out, err := c.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		// Maps inside Go values are sorted, so the bytes may differ in order only.
		if differ(described(t, decodeHex(t, Default(), g.Hex)), described(t, decodeHex(t, Default(), encoded(out)))) != "" {
			t.Errorf("%s: written back as %x, was %s", g.Name, out.Data, g.Hex)
		}
		if g.Name == "enum str" && encoded(out) != g.Hex {
			t.Errorf("%s: %x", g.Name, out.Data)
		}
	}
	if len(want) > 0 {
		t.Errorf("no goldens for %v", want)
	}
	// A field the struct lacks goes to the extra map, and back.
	more := NewExt(ExtPydanticV2, "app.models", "Invoice", map[string]any{"number": "1", "novel": []any{int64(1)}, "due": Date{2025, 1, 2}}, "")
	v := decodeHex(t, c, encodeHex(t, more))
	if in := v.(invoice); !reflect.DeepEqual(in.Extra, map[string]any{"novel": []any{int64(1)}}) {
		t.Errorf("extra: %v", in)
	}
	out, err := c.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	if x := decodeHex(t, Default(), encoded(out)).(*Ext); !reflect.DeepEqual(x.Fields()["novel"], []any{int64(1)}) {
		t.Errorf("extra written back: %v", x.Fields())
	}
	// Data that does not fit the Go type stays neutral.
	for _, x := range []*Ext{
		NewExt(ExtKeyword, "app.models", "Point", map[string]any{"y": "not a number"}, ""),
		NewExt(ExtKeyword, "app.models", "Point", []any{1}, ""),
		NewExt(ExtSingle, "app.models", "Color", nil, ""),
		NewExt(ExtSingle, "app.models", "Color", 5, ""),
	} {
		if v, ok := decodeHex(t, c, encodeHex(t, x)).(*Ext); !ok {
			t.Errorf("%v became %#v", x.Value, v)
		}
	}
}

func encoded(t Typed) string { return string(appendHex(nil, t.Data)) }

func appendHex(dst, src []byte) []byte { return append(dst, hexString(src)...) }

func TestRegisterErrors(t *testing.T) {
	r := appRegistry(t)
	type other struct{ A int }
	for name, err := range map[string]error{
		"no module":        r.Register("", "X", other{}, FormKeyword),
		"no name":          r.Register("app", "", other{}, FormKeyword),
		"no prototype":     r.Register("app", "X", nil, FormKeyword),
		"form":             r.Register("app", "X", other{}, Form(9)),
		"unnamed":          r.Register("app", "X", struct{}{}, FormKeyword),
		"builtin":          r.Register("app", "X", "", FormSingle),
		"native":           r.Register("app", "X", Send{}, FormKeyword),
		"time":             r.Register("app", "X", time.Time{}, FormKeyword),
		"struct as single": r.Register("app", "X", other{}, FormSingle),
		"enum as keyword":  r.Register("app", "X", color(""), FormKeyword),
		"name taken":       r.Register("app.models", "Point", other{}, FormKeyword),
		"type taken":       r.Register("app", "Y", point{}, FormKeyword),
	} {
		if !errors.Is(err, ErrRegister) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Register("app.models", "Point", point{}, FormKeyword); err != nil {
		t.Errorf("again, by value: %v", err)
	}
	c := mustNew(t, Options{Registry: r})
	if err := RegisterStruct[other](r, "app", "Other"); err != nil {
		t.Fatal(err)
	}
	if _, ok := decodeHex(t, c, encodeHex(t, NewExt(ExtKeyword, "app", "Other", map[string]any{"A": 1}, ""))).(*Ext); !ok {
		t.Error("a registration reached a Codec made before it")
	}
}

func TestDecodeInto(t *testing.T) {
	type deep struct {
		When  time.Time
		For   time.Duration
		ID    UUID
		IDs   [16]byte
		Text  string
		Map   map[int]string
		Iface error
		Any   any
		Bytes []byte
		Array [2]int8
		Ptr   **int
		Ext   Ext
		PExt  *Ext
		Big   big.Int
		F32   float32
		Send  Send
		Set   []string
		Point point
		Fold  int `json:"camelCase"`
	}
	in := map[string]any{
		"When": time.Unix(1, 0).UTC(), "For": time.Second, "ID": UUID{1}, "IDs": UUID{2}, "Text": Decimal("1.5"), "Map": map[int]string{1: "a"}, "Iface": nil,
		"Any": 1, "Bytes": []byte("b"), "Array": []int{1, -2}, "Ptr": 7, "Ext": NewExt(ExtSingle, "m", "n", 1, ""), "PExt": NewExt(ExtSingle, "m", "n", 1, ""),
		"Big": uint64(math.MaxUint64), "F32": 2, "Send": Send{Node: "n"}, "Set": Set{"a"}, "Point": NewExt(ExtKeyword, "m", "P", map[string]any{"x": 1}, ""),
		"CAMELCASE": 3, "unknown": 4,
	}
	typed, err := Default().Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	seven := 7
	pseven := &seven
	var got deep
	if err := Default().DecodeInto(typed, &got); err != nil {
		t.Fatal(err)
	}
	ext := NewExt(ExtSingle, "m", "n", int64(1), "")
	want := deep{
		When: time.Unix(1, 0).UTC(), For: time.Second, ID: UUID{1}, IDs: [16]byte{2}, Text: "1.5", Map: map[int]string{1: "a"}, Any: int64(1), Bytes: []byte("b"),
		Array: [2]int8{1, -2}, Ptr: &pseven, Ext: *ext, PExt: ext, Big: *new(big.Int).SetUint64(math.MaxUint64), F32: 2, Send: Send{Node: "n"},
		Set: []string{"a"}, Point: point{X: 1}, Fold: 3,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	var m map[string]any
	if err := Default().DecodeInto(typed, &m); err != nil || len(m) != len(in) {
		t.Errorf("into a map: %v, %v", m, err)
	}
	had := map[string]int{"a": 1}
	typed, _ = Default().Encode(map[string]int{"b": 2})
	if err := Default().DecodeInto(typed, &had); err != nil || !reflect.DeepEqual(had, map[string]int{"a": 1, "b": 2}) {
		t.Errorf("into a map that holds something: %v, %v", had, err)
	}
	var keys map[int]bool
	if err := Default().DecodeInto(Typed{KindJSON, []byte(`{"7": true}`)}, &keys); err != nil || !keys[7] {
		t.Errorf("numbers as JSON keys: %v, %v", keys, err)
	}
	n := 5
	if err := Default().DecodeInto(Typed{Kind: KindNull}, &n); err != nil || n != 5 {
		t.Errorf("null into an int: %v, %v", n, err)
	}
	if err := Default().DecodeInto(Typed{Kind: KindNull}, &m); err != nil || m != nil {
		t.Errorf("null into a map: %v, %v", m, err)
	}
}

func TestDecodeIntoNumbers(t *testing.T) {
	for _, tt := range []struct {
		v    any
		dst  any
		want any // nil: refused
	}{
		{300, new(int8), nil}, {-128, new(int8), int8(-128)}, {-1, new(uint), nil}, {255, new(uint8), uint8(255)}, {256, new(uint8), nil},
		{uint64(math.MaxUint64), new(int64), nil}, {uint64(math.MaxUint64), new(uint64), uint64(math.MaxUint64)}, {uint64(math.MaxUint64), new(float64), nil},
		{uint64(1 << 63), new(float64), float64(1 << 63)}, {uint64(1 << 63), new(uint32), nil}, {int64(1<<53 + 1), new(float64), nil}, {int64(1 << 53), new(float64), float64(1 << 53)},
		{1<<24 + 1, new(float32), nil}, {int64(math.MaxInt64), new(float64), nil}, {3.0, new(int), 3}, {3.5, new(int), nil}, {-0.5, new(uint), nil}, {math.NaN(), new(int), nil},
		{math.Inf(1), new(int), nil}, {math.Inf(1), new(float32), float32(math.Inf(1))}, {1e300, new(float32), nil}, {9.3e18, new(int64), nil}, {-9223372036854775808.0, new(int64), int64(math.MinInt64)},
		{0.1, new(float32), float32(0.1)}, {"5", new(int), nil}, {5, new(string), nil}, {true, new(int), nil}, {1, new(bool), nil}, {time.Second, new(int64), int64(time.Second)},
		{[]int{1}, new([2]int), nil}, {[]byte("abc"), new([2]byte), nil}, {[]byte("ab"), new([2]byte), [2]byte{'a', 'b'}}, {"ab", new([]byte), nil}, {[]byte("ab"), new(string), nil},
		{map[string]any{"a": 1}, new([]int), nil}, {[]int{1}, new(map[string]any), nil}, {1, new(error), nil}, {1, new(func()), nil}, {"x", new(time.Time), nil},
		{"2024-04-19T00:00:00Z", new(time.Time), time.Date(2024, 4, 19, 0, 0, 0, 0, time.UTC)}, {&Ext{Code: 99, Data: []byte{1}}, new(int), nil},
	} {
		typed, err := Default().Encode(tt.v)
		if err != nil {
			t.Fatal(err)
		}
		err = Default().DecodeInto(typed, tt.dst)
		var te *TypeError
		if tt.want == nil {
			if !errors.As(err, &te) || te.Path != "$" || te.Have == "" || te.Want == "" {
				t.Errorf("%v into %T: %v", tt.v, tt.dst, err)
			}
			continue
		}
		if got := reflect.ValueOf(tt.dst).Elem().Interface(); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v into %T: %v, %v", tt.v, tt.dst, got, err)
		}
	}
	for _, dst := range []any{nil, 5, (*int)(nil), map[string]any{}} {
		var te *TypeError
		if err := Default().DecodeInto(Typed{Kind: KindNull}, dst); !errors.As(err, &te) || !errors.Is(err, errDst) {
			t.Errorf("into %T: %v", dst, err)
		}
	}
	typed, _ := Default().Encode(map[string]any{"lines": []any{map[string]any{"qty": 1}, map[string]any{"qty": "x"}}})
	var te *TypeError
	if err := Default().DecodeInto(typed, &invoice{}); !errors.As(err, &te) || te.Path != "$.lines[1].qty" || te.Have != "string" || te.Want != "int" {
		t.Errorf("path: %v", err)
	}
}
