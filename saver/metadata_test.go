package saver

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stele-go/stele/saver/serde"
)

func TestMergeMetadata(t *testing.T) {
	md := Metadata{"source": "loop", "text": "a\x00b", "nested": map[string]any{"k": "\x00"}}
	cfg := Config{
		Metadata:     map[string]any{"run_id": "r", "source": "config", "both": 1, "list": []any{1}, "langgraph_node": "n"},
		Configurable: map[string]any{"thread_id": "t", "both": 2, "__private": 1, "flag": true, "user": "\x00u", "nil": nil, "ratio": float32(0.5)},
	}
	want := Metadata{"source": "loop", "text": "ab", "nested": map[string]any{"k": "\x00"}, "run_id": "r", "both": 1, "flag": true, "user": "u", "ratio": float32(0.5)}
	if got := md.Merge(cfg); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if md["text"] != "a\x00b" || len(md) != 3 {
		t.Errorf("the argument was changed: %v", md)
	}
}

// refusing is a serializer that refuses strings, which a Codec stores.
type refusing struct{ *serde.Codec }

func (r refusing) Encode(v any) (serde.Typed, error) {
	for _, x := range v.(map[string]any) {
		if _, ok := x.(string); ok {
			return serde.Typed{}, errors.New("a string")
		}
	}
	return r.Codec.Encode(v)
}

// Check says what Encode says, also where it serializes nothing.
func TestCheckMetadata(t *testing.T) {
	plain, err := serde.New(serde.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scalars := Metadata{"s": "a\xff", "b": true, "i": -1, "i8": int8(-1), "i16": int16(-1), "i32": int32(-1), "i64": int64(math.MinInt64),
		"u": uint(1), "u8": uint8(1), "u16": uint16(1), "u32": uint32(1), "u64": uint64(math.MaxUint64), "f32": float32(0.5), "f64": math.NaN()}
	for name, md := range map[string]Metadata{
		"none": nil, "scalars": scalars, "long": {"s": strings.Repeat("x", 2*smallMetadata)},
		"nested": {"m": map[string]any{"k": []any{nil}}}, "a channel": {"c": make(chan int)}, "a key": {"\xff": 1},
	} {
		for which, codec := range map[string]serde.Serializer{"default": nil, "codec": plain, "another": refusing{plain}} {
			_, encode := md.Encode(codec)
			if err := md.Check(codec); (err == nil) != (encode == nil) {
				t.Errorf("%s, %s: checked %v, serialized %v", name, which, err, encode)
			}
		}
	}
	if scalars.Check(refusing{plain}) == nil || scalars.Check(nil) != nil {
		t.Error("strings: a serializer that refuses them does not, or a Codec does")
	}
}

func TestMetadataFields(t *testing.T) {
	md := Metadata{"source": "loop", "step": int64(-1), "run_id": "r"}
	step, ok := md.Step()
	if md.Source() != "loop" || step != -1 || !ok || md.RunID() != "r" {
		t.Errorf("read %q %d %t %q", md.Source(), step, ok, md.RunID())
	}
	if step, ok := (Metadata{"step": 1.5}).Step(); ok || step != 0 || (Metadata{}).RunID() != "" {
		t.Error("what is not there was found")
	}
}

func TestMetadataCodec(t *testing.T) {
	want := Metadata{"a": int64(1), "m": map[string]any{"k": []any{nil, true}}}
	typed, err := want.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeMetadata(typed, nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := DecodeMetadata(serde.Typed{Kind: serde.KindNull}, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("nil as metadata: %v, %v", got, err)
	}
	if _, err := DecodeMetadata(serde.Typed{Kind: serde.KindMsgpack, Data: []byte{0x81}}, nil); err == nil {
		t.Error("cut metadata was read")
	}
}
