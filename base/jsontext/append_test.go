package jsontext_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/stele-go/stele/base/jsontext"
)

// encode is what Append is to write.
func encode(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// TestAppend: plain values are written as encoding/json writes them, behind what is there.
func TestAppend(t *testing.T) {
	wide := map[string]any{}
	for _, r := range "qwertyuiopasdfghjklzxcvbnm" {
		wide[string(r)] = string(r)
	}
	for _, v := range []any{
		nil, true, false, 0, -1, int64(math.MaxInt64), 0.0, math.Copysign(0, -1), -3.0, 0.1, -1e-6, 1.5e20, float64(1<<53 - 1), "", "a", "<a&b>", "\x00\x1f\x7f", "tab\tline\nback\r\"\\/",
		"ü 世界 \u2028\u2029", "cut \xff\xc3", []string{}, []string{"a", "\n"}, []any{}, []any{nil, 1, "x", []any{true}}, map[string]any{},
		map[string]any{"b": 1, "a": map[string]any{"\"": "v"}, "": nil}, wide, map[string]any(nil), []any(nil), []string(nil),
	} {
		got, ok := jsontext.Append([]byte("x"), v, false)
		if want := "x" + encode(t, v); !ok || string(got) != want {
			t.Errorf("%#v: %q, %v; want %q", v, got, ok, want)
		}
	}
	for v, want := range map[*any]string{ptr(map[string]any(nil)): "{}", ptr([]any(nil)): "[]", ptr([]string(nil)): "[]"} {
		if got, ok := jsontext.Append(nil, *v, true); !ok || string(got) != want {
			t.Errorf("empty %#v: %q, %v", *v, got, ok)
		}
	}
}

func ptr(v any) *any { return &v }

// TestAppendLeaves: what is not plain is left to encoding/json, and nothing is written of it.
func TestAppendLeaves(t *testing.T) {
	loop := map[string]any{}
	loop["self"] = loop
	for _, v := range []any{
		1e-7, 1e21, -1e53, math.NaN(), math.Inf(1), json.Number("1"), struct{}{}, map[string]string{"a": "b"}, []byte("x"), loop,
		map[string]any{"a": 1, "b": struct{}{}}, []any{"a", new(int)},
	} {
		if got, ok := jsontext.Append([]byte("x"), v, true); ok || string(got) != "x" {
			t.Errorf("%T: %q, %v", v, got, ok)
		}
	}
}

// FuzzAppendString: a text is written as encoding/json writes it.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a\"b", "\u2028", "\xff", "\b\f\x01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := string(jsontext.AppendString(nil, s)), encode(t, s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	})
}
