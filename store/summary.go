package store

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"unicode/utf8"
)

// The summary of an item holds its top-level scalar fields. It is in the index, so that a
// search that filters by these fields reads no value. docs/format/item.md has its bytes.
//
// A summary may be incomplete. It says so, and the filter then reads the value.

const (
	maxSummary   = 1 << 10 // bytes
	maxFieldText = 128     // bytes of a string that is kept
)

// Forms of a summary, its first byte. An empty summary has no fields and is incomplete.
const (
	summaryPart  = 1 // the item may have more fields
	summaryWhole = 2 // it has every field
)

// Kinds of a field in a summary.
const (
	fieldOther  = 0 // the value must be read
	fieldNil    = 1
	fieldFalse  = 2
	fieldTrue   = 3
	fieldInt    = 4 // varint
	fieldUint   = 5 // uvarint, above the largest int64
	fieldFloat  = 6 // 8 bytes
	fieldString = 7
)

// summarize is the summary of a value, with its fields sorted.
func summarize(value map[string]any) []byte {
	names := slices.AppendSeq(make([]string, 0, len(value)), maps.Keys(value))
	slices.Sort(names)
	b := make([]byte, 1, 128)
	b[0] = summaryWhole
	for _, name := range names {
		n := len(b)
		b = appendStr(b, name)
		b = appendField(b, value[name])
		if len(b) > maxSummary {
			b = b[:n]
			b[0] = summaryPart
			break
		}
	}
	return b
}

func appendField(b []byte, v any) []byte {
	switch x := v.(type) {
	case nil:
		return append(b, fieldNil)
	case bool:
		if x {
			return append(b, fieldTrue)
		}
		return append(b, fieldFalse)
	case string:
		if len(x) <= maxFieldText && utf8.ValidString(x) {
			return appendStr(append(b, fieldString), x)
		}
	case int, int8, int16, int32, int64:
		return binary.AppendVarint(append(b, fieldInt), reflect.ValueOf(v).Int())
	case uint, uint8, uint16, uint32, uint64:
		n := reflect.ValueOf(v).Uint()
		if n <= math.MaxInt64 {
			return binary.AppendVarint(append(b, fieldInt), int64(n))
		}
		return binary.AppendUvarint(append(b, fieldUint), n)
	case float64:
		return binary.LittleEndian.AppendUint64(append(b, fieldFloat), math.Float64bits(x))
	}
	return append(b, fieldOther)
}

func appendStr(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// errSummary marks a malformed summary. The filter then reads the value.
var errSummary = errors.New("malformed summary")

// answer is the result of a filter applied to a summary.
type answer uint8

const (
	unknown answer = iota // read the value
	yes
	no
)

// matchSummary applies a filter to a summary. Both are sorted by name, so one pass is
// enough. The answer is no as soon as one condition fails, even if others are unknown.
func (f filter) matchSummary(summary string) answer {
	if summary == "" || summary[0] != summaryWhole && summary[0] != summaryPart {
		return unknown
	}
	whole, rest := summary[0] == summaryWhole, summary[1:]
	result, next := yes, 0
	settle := func(name string, more bool) answer { // the conditions on fields before name
		for ; next < len(f) && (!more || f[next].key < name); next++ {
			switch {
			case !more && !whole:
				result = unknown
			case !f[next].test.matchScalar(scalar{kind: scalarNil}):
				return no
			}
		}
		return result
	}
	for rest != "" && next < len(f) {
		name, s, tail, err := cutField(rest)
		if err != nil {
			return unknown
		}
		rest = tail
		if settle(name, true) == no {
			return no
		}
		if next < len(f) && f[next].key == name {
			switch {
			case s.kind == scalarNone:
				result = unknown
			case !f[next].test.matchScalar(s):
				return no
			}
			next++
		}
	}
	return settle("", false)
}

// cutField takes a field off the front of a summary.
func cutField(b string) (name string, s scalar, rest string, err error) {
	name, b, err = cutStr(b)
	if err != nil || b == "" {
		return "", s, "", errSummary
	}
	kind := b[0]
	b = b[1:]
	switch kind {
	case fieldOther:
	case fieldNil:
		s.kind = scalarNil
	case fieldFalse, fieldTrue:
		s = boolScalar(kind == fieldTrue)
	case fieldInt, fieldUint:
		n, w := cutUvarint(b)
		if w <= 0 {
			return "", s, "", errSummary
		}
		if b = b[w:]; kind == fieldUint {
			s = scalar{kind: scalarInt, mag: n}
		} else {
			s = intScalar(int64(n>>1) ^ -int64(n&1))
		}
	case fieldFloat:
		if len(b) < 8 {
			return "", s, "", errSummary
		}
		var bits uint64
		for i := 7; i >= 0; i-- {
			bits = bits<<8 | uint64(b[i])
		}
		s, b = scalar{kind: scalarFloat, num: math.Float64frombits(bits)}, b[8:]
	case fieldString:
		s.kind = scalarString
		if s.str, b, err = cutStr(b); err != nil {
			return "", s, "", err
		}
	default:
		return "", s, "", errSummary
	}
	return name, s, b, nil
}

func cutStr(b string) (s, rest string, err error) {
	n, w := cutUvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return "", "", errSummary
	}
	return b[w : w+int(n)], b[w+int(n):], nil
}

// cutUvarint is binary.Uvarint for a string.
func cutUvarint(b string) (n uint64, width int) {
	for i := 0; i < len(b) && i < binary.MaxVarintLen64; i++ {
		c := b[i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			return 0, 0
		}
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}
