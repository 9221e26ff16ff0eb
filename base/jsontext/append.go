// Package jsontext writes plain values as JSON in a fraction of the time that encoding/json takes:
// it looks at no types by reflection. What it does not know is left to encoding/json.
//
// It is for this repository, and makes no promise to others.
package jsontext

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// deepest bounds how deep Append looks: values that contain themselves are left to encoding/json.
const deepest = 100

// Append appends v as encoding/json writes it, without escapes for HTML. With empty, a nil map is
// written as {} and a nil slice as []; otherwise both are null. ok is false for a value that is not
// plain: then b is unchanged, and encoding/json must write v.
func Append(b []byte, v any, empty bool) (out []byte, ok bool) {
	if out, ok = appendValue(b, v, empty, deepest); !ok {
		return b, false
	}
	return out, true
}

// appendValue is Append of a value that may nest depth levels deep, itself included.
func appendValue(b []byte, v any, empty bool, depth int) (out []byte, ok bool) {
	if depth == 0 {
		return b, false
	}
	switch x := v.(type) {
	case nil:
		return append(b, "null"...), true
	case bool:
		return strconv.AppendBool(b, x), true
	case string:
		return AppendString(b, x), true
	case int:
		return strconv.AppendInt(b, int64(x), 10), true
	case int64:
		return strconv.AppendInt(b, x, 10), true
	case float64:
		// Others are written with an exponent, or not at all.
		if abs := math.Abs(x); x != 0 && !(abs >= 1e-6 && abs < 1e21) {
			return b, false
		}
		return strconv.AppendFloat(b, x, 'f', -1, 64), true
	case map[string]any:
		if x == nil && !empty {
			return append(b, "null"...), true
		}
		var few [16]string
		keys := few[:0]
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(AppendString(b, k), ':')
			if b, ok = appendValue(b, x[k], empty, depth-1); !ok {
				return b, false
			}
		}
		return append(b, '}'), true
	case []any:
		if x == nil && !empty {
			return append(b, "null"...), true
		}
		b = append(b, '[')
		for i, e := range x {
			if i > 0 {
				b = append(b, ',')
			}
			if b, ok = appendValue(b, e, empty, depth-1); !ok {
				return b, false
			}
		}
		return append(b, ']'), true
	case []string:
		if x == nil && !empty {
			return append(b, "null"...), true
		}
		b = append(b, '[')
		for i, e := range x {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendString(b, e)
		}
		return append(b, ']'), true
	}
	return b, false
}

// AppendString appends s as encoding/json writes it, without escapes for HTML.
func AppendString(b []byte, s string) []byte {
	before := len(b)
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			return append(b[:before], quoted(s)...)
		}
	}
	return append(append(b, s[from:]...), '"')
}

// quoted is a text as encoding/json writes it.
func quoted(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a text can always be written
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
