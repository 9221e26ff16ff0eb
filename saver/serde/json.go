package serde

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// LangGraph once wrote Python's JSON, which may hold NaN, Infinity and lone surrogates.
// encoding/json cannot read these, and does not tell integers from floats. So this package
// has its own parser.

var errJSON = errors.New("not JSON")

// jsonParser reads one JSON text. It takes the memory that it allocates from the budget.
type jsonParser struct {
	c      *Codec
	in     []byte
	off    int
	depth  int
	budget budget
}

func (c *Codec) decodeJSON(data []byte, b budget) (any, budget, error) {
	p := jsonParser{c: c, in: data, budget: b}
	v, err := p.value()
	if err == nil {
		if p.space(); p.off < len(p.in) {
			err = errTrailing
		}
	}
	if err != nil {
		return nil, p.budget, &DecodeError{Kind: KindJSON, Offset: p.off, Err: err}
	}
	return v, p.budget, nil
}

func (p *jsonParser) space() {
	for p.off < len(p.in) {
		switch p.in[p.off] {
		case ' ', '\t', '\n', '\r':
			p.off++
		default:
			return
		}
	}
}

// peek returns the next byte that is not space, 0 at the end.
func (p *jsonParser) peek() byte {
	p.space()
	if p.off == len(p.in) {
		return 0
	}
	return p.in[p.off]
}

func (p *jsonParser) value() (any, error) {
	switch b := p.peek(); b {
	case '{', '[':
		if p.depth >= MaxDepth {
			return nil, ErrDepth
		}
		p.depth++
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
	case 0:
		return nil, errShort
	}
	for _, w := range jsonWords {
		if len(p.in)-p.off >= len(w.text) && string(p.in[p.off:p.off+len(w.text)]) == w.text {
			p.off += len(w.text)
			return w.value, nil
		}
	}
	return p.number()
}

// jsonWords are the literals of Python's JSON. Its NaN differs from math.NaN in one bit.
var jsonWords = []struct {
	text  string
	value any
}{
	{"null", nil}, {"true", true}, {"false", false},
	{"NaN", math.Float64frombits(0x7ff8 << 48)}, {"Infinity", math.Inf(1)}, {"-Infinity", math.Inf(-1)},
}

func (p *jsonParser) array() (any, error) {
	out := []any{}
	if err := p.budget.spend(costList); err != nil {
		return nil, err
	}
	if p.peek() == ']' {
		p.off++
		return out, nil
	}
	for {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		if len(out) == cap(out) { // it will about double
			if err := p.budget.spend(costSlot * int64(2*len(out)+4)); err != nil {
				return nil, err
			}
		}
		out = append(out, v)
		switch p.peek() {
		case ',':
			p.off++
		case ']':
			p.off++
			return out, nil
		default:
			return nil, fmt.Errorf("%w: want , or ]", errJSON)
		}
	}
}

func (p *jsonParser) object() (any, error) {
	out := map[string]any{}
	if err := p.budget.spend(costMap); err != nil {
		return nil, err
	}
	if p.peek() == '}' {
		p.off++
		return out, nil
	}
	if err := p.budget.spend(costGroup); err != nil {
		return nil, err
	}
	for {
		if len(out) >= 8 {
			if err := p.budget.spend(2 * costPair); err != nil {
				return nil, err
			}
		}
		if p.peek() != '"' {
			return nil, fmt.Errorf("%w: want a key", errJSON)
		}
		key, err := p.str()
		if err != nil {
			return nil, err
		}
		if p.peek() != ':' {
			return nil, fmt.Errorf("%w: want a colon", errJSON)
		}
		p.off++
		if out[key], err = p.value(); err != nil {
			return nil, err
		}
		switch p.peek() {
		case ',':
			p.off++
		case '}':
			p.off++
			return p.revived(out)
		default:
			return nil, fmt.Errorf("%w: want , or }", errJSON)
		}
	}
}

// revived returns the object that m encodes, if m has LangGraph's old form of objects.
func (p *jsonParser) revived(m map[string]any) (any, error) {
	if m["type"] != "constructor" {
		return m, nil
	}
	cost := costRevived
	for _, x := range m { // its module and arguments, which a native form holds again
		if list, ok := x.([]any); ok {
			cost += 2*costSlot*len(list) + costString
		}
	}
	if id, ok := m["id"].([]any); ok {
		for _, part := range id {
			if s, ok := part.(string); ok {
				cost += 2 * len(s)
			}
		}
	}
	if err := p.budget.spend(int64(cost)); err != nil {
		return nil, err
	}
	return p.c.revive(m, &p.budget), nil
}

// number reads an integer or a float. An integer outside 64 bits is an error, because no kind
// that is written can hold it.
func (p *jsonParser) number() (any, error) {
	start := p.off
	if p.off < len(p.in) && p.in[p.off] == '-' {
		p.off++
	}
	first := p.off
	whole := p.digits()
	if whole == 0 || (whole > 1 && p.in[first] == '0') {
		return nil, fmt.Errorf("%w: want a value", errJSON)
	}
	isInt := true
	if p.off < len(p.in) && p.in[p.off] == '.' {
		p.off++
		isInt = false
		if p.digits() == 0 {
			return nil, fmt.Errorf("%w: want a digit", errJSON)
		}
	}
	if p.off < len(p.in) && p.in[p.off]|0x20 == 'e' {
		p.off++
		isInt = false
		if p.off < len(p.in) && (p.in[p.off] == '+' || p.in[p.off] == '-') {
			p.off++
		}
		if p.digits() == 0 {
			return nil, fmt.Errorf("%w: want a digit", errJSON)
		}
	}
	if err := p.budget.spend(costNumber + rounded(int64(p.off-start))); err != nil {
		return nil, err
	}
	text := string(p.in[start:p.off])
	if !isInt {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(f, 0) { // too large is infinite, as in Python
			return nil, fmt.Errorf("%w: %w", errJSON, err)
		}
		return f, nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	u, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, ErrIntRange
	}
	return u, nil
}

func (p *jsonParser) digits() (n int) {
	for p.off < len(p.in) && p.in[p.off] >= '0' && p.in[p.off] <= '9' {
		p.off++
		n++
	}
	return n
}

// str reads a string. A lone surrogate becomes '?', as when LangGraph writes the value again.
func (p *jsonParser) str() (string, error) {
	p.off++ // the quote
	start := p.off
	for p.off < len(p.in) && p.in[p.off] != '"' && p.in[p.off] != '\\' && p.in[p.off] >= ' ' {
		p.off++
	}
	out := p.in[start:p.off:p.off]
	for {
		if p.off >= len(p.in) {
			return "", errShort
		}
		if len(out)+utf8.UTFMax > cap(out) && p.in[p.off] != '"' { // it will about double
			if err := p.budget.spend(rounded(2*int64(len(out)) + 32)); err != nil {
				return "", err
			}
			out = slices.Grow(out, len(out)+utf8.UTFMax)
		}
		switch b := p.in[p.off]; {
		case b == '"':
			p.off++
			if !utf8.Valid(out) {
				return "", errUTF8
			}
			if err := p.budget.spend(costString + 4 + rounded(int64(len(out)))); err != nil {
				return "", err
			}
			return string(out), nil
		case b < ' ':
			return "", fmt.Errorf("%w: control character in string", errJSON)
		case b == '\\':
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
		default:
			out = append(out, b)
			p.off++
		}
	}
}

func (p *jsonParser) escape(out []byte) ([]byte, error) {
	if p.off+1 >= len(p.in) {
		return nil, errShort
	}
	b := p.in[p.off+1]
	p.off += 2
	switch b {
	case '"', '\\', '/':
		return append(out, b), nil
	case 'b':
		return append(out, '\b'), nil
	case 'f':
		return append(out, '\f'), nil
	case 'n':
		return append(out, '\n'), nil
	case 'r':
		return append(out, '\r'), nil
	case 't':
		return append(out, '\t'), nil
	case 'u':
		return p.unicode(out)
	}
	return nil, fmt.Errorf("%w: unknown escape \\%c", errJSON, b)
}

func (p *jsonParser) unicode(out []byte) ([]byte, error) {
	r, err := p.hex4()
	if err != nil {
		return nil, err
	}
	if r >= 0xd800 && r < 0xdc00 && p.off+1 < len(p.in) && p.in[p.off] == '\\' && p.in[p.off+1] == 'u' {
		back := p.off
		p.off += 2
		low, err := p.hex4()
		if err != nil {
			return nil, err
		}
		if low >= 0xdc00 && low < 0xe000 {
			return utf8.AppendRune(out, 0x10000+(r-0xd800)<<10+(low-0xdc00)), nil
		}
		p.off = back
	}
	if r >= 0xd800 && r < 0xe000 {
		return append(out, '?'), nil
	}
	return utf8.AppendRune(out, r), nil
}

func (p *jsonParser) hex4() (rune, error) {
	if len(p.in)-p.off < 4 {
		return 0, errShort
	}
	u, err := strconv.ParseUint(string(p.in[p.off:p.off+4]), 16, 16)
	if err != nil {
		return 0, fmt.Errorf("%w: want four hexadecimal digits", errJSON)
	}
	p.off += 4
	return rune(u), nil
}
