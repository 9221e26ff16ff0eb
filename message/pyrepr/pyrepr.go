// Package pyrepr writes plain data as Python's repr does. Models see such texts, and LangChain
// counts their length.
//
// It is for this repository, and makes no promise to others.
package pyrepr

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxDepth is how deep data may nest; what lies deeper is written as an ellipsis, as Python
// writes what contains itself.
const maxDepth = 512

// String is the repr of v: nil, a bool, a number, a text, bytes, or a list or map of them. Maps
// are sorted by key, because Go has no other order. Anything else is written as fmt does.
func String(v any) string {
	var b strings.Builder
	write(&b, v, 0)
	return b.String()
}

func write(b *strings.Builder, v any, depth int) {
	if depth > maxDepth {
		b.WriteString("...")
		return
	}
	switch x := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if x {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case string:
		quote(b, x)
	case float64:
		b.WriteString(Float(x))
	case []any:
		b.WriteByte('[')
		for i, e := range x {
			if i > 0 {
				b.WriteString(", ")
			}
			write(b, e, depth+1)
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for i, k := range slices.Sorted(maps.Keys(x)) {
			if i > 0 {
				b.WriteString(", ")
			}
			quote(b, k)
			b.WriteString(": ")
			write(b, x[k], depth+1)
		}
		b.WriteByte('}')
	default:
		fmt.Fprint(b, x)
	}
}

// quote writes a text in single quotes, or in double quotes if it has only single ones in it.
func quote(b *strings.Builder, s string) {
	mark := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	b.WriteRune(mark)
	for _, r := range s {
		switch {
		case r == mark || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteRune(mark)
}

// Float is the repr of a float.
func Float(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
