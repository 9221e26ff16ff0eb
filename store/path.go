package store

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// TextAtPath returns the texts that path selects in value: what an index embeds.
//
//	"" or "$"        the whole document as JSON with sorted keys
//	"a.b"            a field of a field
//	"a[0]", "a[-1]"  an element; "a[*]" each of them
//	"*"              every value of a map, every element of a list
//	"{a,b.c}"        several fields
//
// Scalars become text, maps and lists JSON, nil and what is missing nothing. A
// path that makes no sense selects nothing.
func TextAtPath(value any, path string) []string {
	if path == "" || path == "$" {
		return []string{jsonText(value)}
	}
	return textAt(value, pathTokens(path))
}

func textAt(v any, tokens []string) []string {
	if len(tokens) == 0 {
		if v == nil {
			return nil
		}
		return []string{scalarText(v)}
	}
	token, rest := tokens[0], tokens[1:]
	switch {
	case strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]") && len(token) > 1:
		return textAtIndex(v, token[1:len(token)-1], rest)
	case strings.HasPrefix(token, "{") && strings.HasSuffix(token, "}") && len(token) > 1:
		return textAtFields(v, token[1:len(token)-1])
	case token == "*":
		return textAtEach(v, rest)
	}
	if e, ok := member(v, token); ok {
		return textAt(e, rest)
	}
	return nil
}

// textAtEach is the texts of every member of v.
func textAtEach(v any, tokens []string) (out []string) {
	for _, e := range members(v) {
		out = append(out, textAt(e, tokens)...)
	}
	return out
}

func textAtIndex(v any, index string, rest []string) []string {
	rv := reflect.ValueOf(v)
	if v == nil || !isList(rv) {
		return nil
	}
	if index == "*" {
		return textAtEach(v, rest)
	}
	i, err := strconv.Atoi(strings.TrimSpace(index))
	if err != nil {
		return nil
	}
	if i < 0 {
		i += rv.Len()
	}
	if i < 0 || i >= rv.Len() {
		return nil
	}
	return textAt(rv.Index(i).Interface(), rest)
}

// textAtFields is the text of several fields. As in LangGraph, it ignores what follows them
// in the path.
func textAtFields(v any, list string) []string {
	if v == nil || !isMap(reflect.ValueOf(v)) {
		return nil
	}
	var out []string
	for field := range strings.SplitSeq(list, ",") {
		cur, ok := v, false
		for _, name := range pathTokens(strings.TrimSpace(field)) {
			if cur, ok = member(cur, name); !ok {
				break
			}
		}
		if ok && cur != nil {
			out = append(out, scalarText(cur))
		}
	}
	return out
}

func member(v any, name string) (any, bool) {
	if v == nil {
		return nil, false
	}
	rv := reflect.ValueOf(v)
	if !isMap(rv) {
		return nil, false
	}
	e := rv.MapIndex(reflect.ValueOf(name).Convert(rv.Type().Key()))
	if !e.IsValid() {
		return nil, false
	}
	return e.Interface(), true
}

// members are the values of a map, in the order of its keys, or of a list.
func members(v any) []any {
	if v == nil {
		return nil
	}
	rv := reflect.ValueOf(v)
	var out []any
	switch {
	case isMap(rv):
		for _, k := range sortedMapKeys(rv) {
			out = append(out, rv.MapIndex(k).Interface())
		}
	case isList(rv):
		for i := range rv.Len() {
			out = append(out, rv.Index(i).Interface())
		}
	}
	return out
}

func sortedMapKeys(rv reflect.Value) []reflect.Value {
	keys := rv.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

// pathTokens splits a path. Brackets and braces keep what they enclose.
func pathTokens(path string) []string {
	var tokens []string
	word := 0 // start of the current token
	flush := func(end int) {
		if end > word {
			tokens = append(tokens, path[word:end])
		}
	}
	for i := 0; i < len(path); {
		switch path[i] {
		case '[', '{':
			flush(i)
			end := closing(path, i)
			tokens = append(tokens, path[i:end])
			i, word = end, end
		case '.':
			flush(i)
			i++
			word = i
		default:
			i++
		}
	}
	flush(len(path))
	return tokens
}

// closing is the end of the bracket that opens at i, or the end of the path.
func closing(path string, i int) int {
	open, end := path[i], byte(']')
	if open == '{' {
		end = '}'
	}
	depth := 0
	for ; i < len(path); i++ {
		switch path[i] {
		case open:
			depth++
		case end:
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return i
}

// scalarText is a value as Python's str prints it; maps and lists as JSON.
func scalarText(v any) string {
	switch s := scalarOf(v); s.kind {
	case scalarString:
		return s.str
	case scalarBool:
		if s.mag == 1 {
			return "True"
		}
		return "False"
	case scalarFloat:
		return floatText(s.num, "nan", "inf")
	}
	return jsonText(v)
}

// jsonText is v as Python's json.dumps prints it with sorted keys, so that an
// embedder sees the same text from either.
func jsonText(v any) string {
	var b strings.Builder
	writeJSON(&b, v, 0)
	return b.String()
}

const maxTextDepth = 128

func writeJSON(b *strings.Builder, v any, depth int) {
	if depth > maxTextDepth {
		b.WriteString("null")
		return
	}
	switch s := scalarOf(v); s.kind {
	case scalarNil:
		b.WriteString("null")
		return
	case scalarBool:
		b.WriteString(strconv.FormatBool(s.mag == 1))
		return
	case scalarInt:
		if s.neg {
			b.WriteByte('-')
		}
		b.WriteString(strconv.FormatUint(s.mag, 10))
		return
	case scalarFloat:
		b.WriteString(floatText(s.num, "NaN", "Infinity"))
		return
	case scalarString:
		writeQuoted(b, s.str)
		return
	case scalarTime:
		writeQuoted(b, s.time.Format("2006-01-02T15:04:05.999999999Z07:00"))
		return
	}
	writeComposite(b, v, depth)
}

func writeComposite(b *strings.Builder, v any, depth int) {
	rv := reflect.ValueOf(v)
	switch {
	case isMap(rv):
		b.WriteByte('{')
		for i, k := range sortedMapKeys(rv) {
			if i > 0 {
				b.WriteString(", ")
			}
			writeQuoted(b, k.String())
			b.WriteString(": ")
			writeJSON(b, rv.MapIndex(k).Interface(), depth+1)
		}
		b.WriteByte('}')
	case isList(rv):
		b.WriteByte('[')
		for i := range rv.Len() {
			if i > 0 {
				b.WriteString(", ")
			}
			writeJSON(b, rv.Index(i).Interface(), depth+1)
		}
		b.WriteByte(']')
	default:
		b.WriteString("null")
	}
}

func writeQuoted(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < 0x20:
			b.WriteString(`\u00`)
			b.WriteByte("0123456789abcdef"[r>>4])
			b.WriteByte("0123456789abcdef"[r&15])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// floatText is a float as Python prints it: with a point or an exponent.
func floatText(f float64, nan, inf string) string {
	switch {
	case math.IsNaN(f):
		return nan
	case math.IsInf(f, 1):
		return inf
	case math.IsInf(f, -1):
		return "-" + inf
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
