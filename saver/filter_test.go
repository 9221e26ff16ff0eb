package saver

import (
	"errors"
	"math"
	"strings"
	"testing"
)

type label string

func TestMatchFilter(t *testing.T) {
	md := Metadata{
		"source": "loop", "step": int64(1), "score": 1.5, "flag": true, "none": nil, "big": uint64(math.MaxUint64), "neg": int64(math.MinInt64),
		"list": []any{int64(1), "x"}, "map": map[string]any{"k": map[string]any{"deep": int64(2)}}, "raw": []byte("ab"), "a.b": "flat", "a": map[string]any{"b": "nested"},
	}
	for _, c := range []struct {
		key   string
		value any
		want  bool
	}{
		{"source", "loop", true}, {"source", label("loop"), true}, {"source", "Loop", false}, {"source", nil, false},
		{"step", 1, true}, {"step", 1.0, true}, {"step", int8(1), true}, {"step", uint16(1), true}, {"step", 1.5, false}, {"step", "1", false}, {"step", true, false},
		{"score", 1.5, true}, {"score", float32(1.5), true}, {"score", 1, false},
		{"flag", true, true}, {"flag", 1, false}, {"flag", false, false},
		{"none", nil, true}, {"missing", nil, true}, {"none", 0, false}, {"missing", "", false},
		{"big", uint64(math.MaxUint64), true}, {"big", int64(-1), false}, {"neg", int64(math.MinInt64), true}, {"neg", uint64(1 << 63), false},
		{"list", []any{1, "x"}, true}, {"list", []any{1}, false}, {"list", []any{"x", 1}, false}, {"list", [2]any{1, "x"}, true}, {"list", []string{"1", "x"}, false},
		{"raw", []byte("ab"), true}, {"raw", "ab", false},
		{"map", map[string]any{"k": map[string]any{"deep": 2}}, true}, {"map", map[string]any{"k": map[string]int{"deep": 2}}, true},
		{"map", map[label]any{"k": map[string]any{"deep": 2}}, true}, {"map", map[string]any{}, false},
		{"map", map[string]any{"k": nil}, false}, {"map", map[string]any{"j": map[string]any{"deep": 2}}, false},
		{"map.k.deep", 2, true}, {"map.k.deep", 3, false}, {"map.k.none", nil, true}, {"source.k", nil, true}, {"source.k", 1, false},
		{"a.b", "flat", true}, {"a.b", "nested", false},
	} {
		filter := map[string]any{c.key: c.value}
		if err := validateFilter(filter); err != nil {
			t.Errorf("%s = %#v is refused: %v", c.key, c.value, err)
		}
		if got := md.Match(filter); got != c.want {
			t.Errorf("%s = %#v: %t, want %t", c.key, c.value, got, c.want)
		}
	}
	if !md.Match(nil) || !md.Match(map[string]any{"source": "loop", "step": 1}) || md.Match(map[string]any{"source": "loop", "step": 2}) {
		t.Error("all keys must match")
	}
}

func TestValidateFilterRefuses(t *testing.T) {
	loop := map[string]any{}
	loop["loop"] = loop
	for name, filter := range map[string]map[string]any{
		"empty key": {"": 1}, "space": {"a b": 1}, "quote": {"a'": 1}, "dollar": {"$": 1}, "letters beyond ASCII": {"é": 1},
		"NaN": {"k": math.NaN()}, "nested NaN": {"k": []any{map[string]any{"x": math.NaN()}}}, "struct": {"k": struct{}{}}, "func": {"k": func() {}},
		"pointer": {"k": new(int)}, "integer keys": {"k": map[int]any{1: 1}}, "cycle": {"k": loop}, "complex": {"k": 1i},
	} {
		err := validateFilter(filter)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !errors.Is(err, ErrInvalid) || invalid.Field == "" || invalid.Reason == "" || strings.ContainsAny(invalid.Reason, "{*[") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzMatchFilter(f *testing.F) {
	f.Add("a.b", "c", int64(1), 1.5)
	f.Add("..", "", int64(-1), math.Inf(1))
	f.Fuzz(func(t *testing.T, key, text string, n int64, x float64) {
		md := Metadata{key: text, text: n, "x": map[string]any{key: x, text: []any{n, x, text}}}
		for _, v := range []any{text, n, x, nil, []any{n, x, text}, map[string]any{key: x}} {
			filter := map[string]any{key: v}
			if validateFilter(filter) != nil {
				continue
			}
			if same := (Metadata{key: v}); !same.Match(filter) {
				t.Fatalf("%q = %#v does not match itself", key, v)
			}
			md.Match(filter) // no panic
		}
	})
}
