package message

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stele-go/stele/message/pyrepr"
)

// Models send the arguments of tool calls as JSON, in pieces. What LangChain makes of them
// depends on Python's JSON, which reads NaN and, unless it is strict, control characters in
// strings. encoding/json reads neither, and does not say where a text ends.

// maxNesting is how deep JSON and blocks may nest.
const maxNesting = 512

var (
	errNesting = errors.New("nested too deep")
	errNumber  = errors.New("integer outside 64 bits")
)

// syntaxError: a text is not JSON. at is an offset such that each prefix of the text that is
// longer than at fails too, whatever brackets follow it.
type syntaxError struct{ at int }

// Error names the offset.
func (e *syntaxError) Error() string { return "not JSON at byte " + strconv.Itoa(e.at) }

// jsonParser reads one JSON text as Python's json.loads does. If it is not strict, strings may
// hold control characters.
type jsonParser struct {
	text   string
	off    int
	depth  int
	strict bool
}

// parseJSON is json.loads.
func parseJSON(text string, strict bool) (any, error) {
	p := jsonParser{text: text, strict: strict}
	v, err := p.value()
	if err != nil {
		return nil, err
	}
	if p.space(); p.off < len(p.text) {
		return nil, &syntaxError{p.off}
	}
	return v, nil
}

func (p *jsonParser) space() {
	for p.off < len(p.text) && strings.IndexByte(" \t\n\r", p.text[p.off]) >= 0 {
		p.off++
	}
}

// next is the next byte that is not space; 0 at the end.
func (p *jsonParser) next() byte {
	p.space()
	if p.off == len(p.text) {
		return 0
	}
	return p.text[p.off]
}

func (p *jsonParser) value() (any, error) {
	switch b := p.next(); b {
	case '{', '[':
		if p.depth++; p.depth > maxNesting {
			return nil, errNesting
		}
		p.off++
		var v any
		var err error
		if b == '{' {
			v, err = p.object()
		} else {
			v, err = p.array()
		}
		p.depth--
		return v, err
	case '"':
		return p.str()
	}
	for _, w := range [...]struct {
		text  string
		value any
	}{{"null", nil}, {"true", true}, {"false", false}, {"NaN", math.NaN()}, {"Infinity", math.Inf(1)}, {"-Infinity", math.Inf(-1)}} {
		if strings.HasPrefix(p.text[p.off:], w.text) {
			p.off += len(w.text)
			return w.value, nil
		}
	}
	return p.number()
}

func (p *jsonParser) array() (any, error) {
	out := []any{}
	if p.next() == ']' {
		p.off++
		return out, nil
	}
	for {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		switch p.next() {
		case ',':
			p.off++
		case ']':
			p.off++
			return out, nil
		default:
			return nil, &syntaxError{p.off}
		}
	}
}

func (p *jsonParser) object() (any, error) {
	out := map[string]any{}
	if p.next() == '}' {
		p.off++
		return out, nil
	}
	for {
		if p.next() != '"' {
			return nil, &syntaxError{p.off}
		}
		key, err := p.str()
		if err != nil {
			return nil, err
		}
		if p.next() != ':' {
			return nil, &syntaxError{p.off}
		}
		p.off++
		if out[key], err = p.value(); err != nil {
			return nil, err
		}
		switch p.next() {
		case ',':
			p.off++
		case '}':
			p.off++
			return out, nil
		default:
			return nil, &syntaxError{p.off}
		}
	}
}

func (p *jsonParser) digits() int {
	from := p.off
	for p.off < len(p.text) && p.text[p.off] >= '0' && p.text[p.off] <= '9' {
		p.off++
	}
	return p.off - from
}

// number reads the longest number there is; what follows may still be wrong.
func (p *jsonParser) number() (any, error) {
	from := p.off
	if p.off < len(p.text) && p.text[p.off] == '-' {
		p.off++
	}
	if p.off < len(p.text) && p.text[p.off] == '0' {
		p.off++
	} else if p.digits() == 0 {
		p.off = from
		return nil, &syntaxError{from}
	}
	end, isInt := p.off, true
	if p.off < len(p.text) && p.text[p.off] == '.' {
		p.off++
		if p.digits() > 0 {
			end, isInt = p.off, false
		}
		p.off = end
	}
	if p.off < len(p.text) && p.text[p.off]|0x20 == 'e' {
		p.off++
		if p.off < len(p.text) && (p.text[p.off] == '+' || p.text[p.off] == '-') {
			p.off++
		}
		if p.digits() > 0 {
			end, isInt = p.off, false
		}
		p.off = end
	}
	text := p.text[from:end]
	if !isInt {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(f, 0) { // too large is infinite, as in Python
			return nil, err
		}
		return f, nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u, nil
	}
	return nil, errNumber
}

// str reads a string. If it has no end, the error is at its beginning.
func (p *jsonParser) str() (string, error) {
	start := p.off
	p.off++
	from := p.off
	var out []byte
	escaped := false
	for {
		if p.off >= len(p.text) {
			return "", &syntaxError{start}
		}
		switch b := p.text[p.off]; {
		case b == '"':
			s := p.text[from:p.off]
			if escaped {
				s = string(append(out, s...))
			}
			p.off++
			return strings.ToValidUTF8(s, "\uFFFD"), nil
		case b == '\\':
			out = append(out, p.text[from:p.off]...)
			escaped = true
			var ok bool
			if out, ok = p.escape(out); !ok {
				return "", &syntaxError{start}
			}
			from = p.off
		case b < ' ' && p.strict:
			return "", &syntaxError{start}
		default:
			p.off++
		}
	}
}

func (p *jsonParser) escape(out []byte) ([]byte, bool) {
	if p.off+1 >= len(p.text) {
		return nil, false
	}
	b := p.text[p.off+1]
	p.off += 2
	if i := strings.IndexByte(`"\/bfnrt`, b); i >= 0 {
		return append(out, "\"\\/\b\f\n\r\t"[i]), true
	}
	if b != 'u' {
		return nil, false
	}
	r, ok := p.hex4()
	if !ok {
		return nil, false
	}
	if r >= 0xd800 && r < 0xdc00 && strings.HasPrefix(p.text[p.off:], `\u`) {
		back := p.off
		p.off += 2
		low, ok := p.hex4()
		if !ok {
			return nil, false
		}
		if low >= 0xdc00 && low < 0xe000 {
			return utf8.AppendRune(out, 0x10000+(r-0xd800)<<10+(low-0xdc00)), true
		}
		p.off = back
	}
	if r >= 0xd800 && r < 0xe000 {
		return append(out, '?'), true // as LangGraph stores it
	}
	return utf8.AppendRune(out, r), true
}

func (p *jsonParser) hex4() (rune, bool) {
	if len(p.text)-p.off < 4 {
		return 0, false
	}
	u, err := strconv.ParseUint(p.text[p.off:p.off+4], 16, 16)
	p.off += 4
	return rune(u), err == nil
}

// maxRepair bounds the bytes that parsePartial looks at for a text of n bytes. LangChain has no
// bound, and a text made for it takes the square of its length.
func maxRepair(n int) int { return 1<<22 + 16*n }

// parsePartial reads a JSON text that may end early, as LangChain's parse_partial_json: it
// closes what is open, and drops from the end what still cannot be read. ok is false if
// nothing is left to read, or if the text is no beginning of JSON.
func parsePartial(text string) (v any, ok bool) {
	v, err := parseJSON(text, false)
	if err == nil {
		return v, true
	}
	var syntax *syntaxError
	if !errors.As(err, &syntax) {
		return nil, false
	}
	kept, closers, ok := unclosed(text)
	if !ok {
		return nil, false
	}
	for work := maxRepair(len(text)); len(kept) > 0 && work > 0; {
		v, err := parseJSON(string(kept)+closers, false)
		if err == nil {
			return v, true
		}
		if !errors.As(err, &syntax) {
			return nil, false
		}
		work -= len(kept) + len(closers) + 1
		kept = kept[:min(syntax.at, len(kept)-1)]
	}
	return nil, false
}

// unclosed is text with its last string closed, and the brackets that are open at its end. ok
// is false if a bracket is closed that is not open.
func unclosed(text string) (kept []byte, closers string, ok bool) {
	var open []byte
	inString, escaped := false, false
	kept = make([]byte, 0, len(text)+8)
	for i := range len(text) {
		b := text[i]
		switch {
		case inString && b == '"' && !escaped:
			inString = false
		case inString && b == '\n' && !escaped:
			kept = append(kept, '\\')
			b = 'n'
		case inString:
			escaped = b == '\\' && !escaped
		case b == '"':
			inString, escaped = true, false
		case b == '{':
			open = append(open, '}')
		case b == '[':
			open = append(open, ']')
		case b == '}' || b == ']':
			if len(open) == 0 || open[len(open)-1] != b {
				return nil, "", false
			}
			open = open[:len(open)-1]
		}
		kept = append(kept, b)
	}
	if inString {
		if escaped {
			kept = kept[:len(kept)-1]
		}
		kept = append(kept, '"')
	}
	for i, j := 0, len(open)-1; i < j; i, j = i+1, j-1 {
		open[i], open[j] = open[j], open[i]
	}
	return kept, string(open), true
}

// appendText writes a JSON string as JavaScript's JSON.stringify does: what is no control
// character stays as it is.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// dumps is Python's json.dumps, with keys sorted.
func dumps(v any) (string, error) {
	b, err := appendDumps(nil, v, 0)
	return string(b), err
}

func appendDumps(b []byte, v any, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, errNesting
	}
	switch x := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, k := range sortedKeys(x) {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(appendASCII(b, k), ": "...)
			var err error
			if b, err = appendDumps(b, x[k], depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case []any:
		b = append(b, '[')
		for i, e := range x {
			if i > 0 {
				b = append(b, ", "...)
			}
			var err error
			if b, err = appendDumps(b, e, depth+1); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case string:
		return appendASCII(b, x), nil
	case float64:
		return append(b, floatText(x)...), nil
	}
	text, err := json.Marshal(v)
	return append(b, text...), err
}

// appendASCII writes a JSON string as Python does: without any but ASCII characters.
func appendASCII(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for _, c := range appendText(nil, s) {
		if c >= 0x7f {
			goto escape
		}
	}
	return appendText(b, s)
escape:
	for _, r := range string(appendText(nil, s)) {
		units := []rune{r}
		if r > 0xffff {
			r -= 0x10000
			units = []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff}
		}
		for _, u := range units {
			if u < 0x80 {
				b = append(b, byte(u))
				continue
			}
			b = append(b, '\\', 'u', hex[u>>12&15], hex[u>>8&15], hex[u>>4&15], hex[u&15])
		}
	}
	return b
}

// floatText is a float in Python's JSON.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return pyrepr.Float(f)
}
