package sqlite

import (
	"bytes"
	"testing"

	"github.com/stele-go/stele/saver/serde"
)

// TestSplitAsEncoded: a value that is taken out of an object has the bytes that it has alone.
func TestSplitAsEncoded(t *testing.T) {
	long := make([]any, 70_000)
	wide := map[string]any{}
	for i := range 70_000 {
		long[i] = i
	}
	for i := range 300 {
		wide[string(rune('a'+i))] = i
	}
	values := map[string]any{"nil": nil, "true": true, "int": 5, "negative": -5, "i16": 300, "i32": 70_000, "i64": int64(1) << 40, "u64": ^uint64(0), "min": int64(-1) << 62, "float": 1.5,
		"text": "x", "text8": string(make([]byte, 200)), "text16": string(make([]byte, 300)), "text32": string(make([]byte, 70_000)), "bytes": []byte{1}, "bytes16": make([]byte, 300),
		"bytes32": make([]byte, 70_000), "list": []any{1, []any{2, map[string]any{"a": []byte{}}}}, "long": long, "wide": wide, "ext": serde.DeltaSnapshot{Value: []any{1}}, "": map[string]any{}}
	typed, err := serde.Default().Encode(values)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := split(typed)
	if err != nil || len(fields) != len(values) {
		t.Fatalf("%d fields, %v", len(fields), err)
	}
	for _, f := range fields {
		want, err := serde.Default().Encode(values[f.name])
		if err != nil {
			t.Fatal(err)
		}
		if f.value.Kind != want.Kind || !bytes.Equal(f.value.Data, want.Data) {
			t.Errorf("%q: %s of %d bytes, want %s of %d", f.name, f.value.Kind, len(f.value.Data), want.Kind, len(want.Data))
		}
	}
	deep := append(bytes.Repeat([]byte{0x91}, 1<<20), 0xc0)
	if err := wellFormed(serde.Typed{Kind: "msgpack", Data: deep}); err != nil {
		t.Error(err)
	}
}

// FuzzSplit: no input makes it panic, and what it accepts is whole.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("\x82\xa1a\xc0\xa1b\xc4\x01x"), true)
	f.Add([]byte(`{"a":1,"b":[2,{}]}`), false)
	f.Add([]byte("\xdf\xff\xff\xff\xff"), true)
	f.Fuzz(func(t *testing.T, data []byte, msgpack bool) {
		typed := serde.Typed{Kind: serde.KindJSON, Data: data}
		if msgpack {
			typed.Kind = serde.KindMsgpack
		}
		fields, err := split(typed)
		if err != nil {
			return
		}
		n := 0
		for _, field := range fields {
			n += len(field.name) + len(field.value.Data)
			if field.value.Kind == serde.KindMsgpack && wellFormed(field.value) != nil {
				t.Fatalf("%q: %x is not whole", field.name, field.value.Data)
			}
		}
		if msgpack && n > len(data) {
			t.Fatalf("%d bytes of %d", n, len(data))
		}
		if msgpack && wellFormed(typed) != nil {
			t.Fatal("accepted, and not whole")
		}
	})
}
