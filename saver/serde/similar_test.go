package serde

import (
	"reflect"
	"strings"
	"testing"
)

// Values decoded with what like ones have in common are those of Decode, own all
// that can be changed, and cost no memory for strings seen before.
func TestDecodeSimilar(t *testing.T) {
	c, m := Default(), new(Similar)
	value := func(step int) map[string]any {
		return map[string]any{"source": "loop", "step": int64(step), "run": strings.Repeat("r", similarText), "long": strings.Repeat("l", similarText+1),
			"parents": map[string]any{"": "none"}, "list": []any{"loop", "", "Ünïcode", nil, []byte("bytes")}}
	}
	for step := range 100 {
		in, err := c.Encode(value(step))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.DecodeSimilar(in, m)
		clear(in.Data)
		if err != nil || !reflect.DeepEqual(got, any(value(step))) {
			t.Fatalf("%v, %v", got, err)
		}
		v := got.(map[string]any)
		v["source"] = "changed"
		v["list"].([]any)[4].([]byte)[0] = 'X'
		clear(v["parents"].(map[string]any))
	}
	in, err := c.Encode([]any{"loop", "source", "loop"})
	if err != nil {
		t.Fatal(err)
	}
	decode := func(m *Similar) float64 {
		return testing.AllocsPerRun(100, func() {
			if _, err := c.DecodeSimilar(in, m); err != nil {
				t.Fatal(err)
			}
		})
	}
	if with, without := decode(m), decode(nil); with > without-3 {
		t.Errorf("%v allocations, %v without what like values have in common", with, without)
	}
}

// plainCodec decodes in a way of its own.
type plainCodec struct{ *Codec }

func TestSimilarDecoderOf(t *testing.T) {
	if d, ok := SimilarDecoderOf(Default()); !ok || d != SimilarDecoder(Default()) {
		t.Error("the codec decodes similar values")
	}
	if _, ok := SimilarDecoderOf(plainCodec{Default()}); ok {
		t.Error("a type that embeds the codec may decode in another way")
	}
}
