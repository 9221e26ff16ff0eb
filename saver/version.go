package saver

import (
	"cmp"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// VersionKind is the type of a channel version. LangGraph allows strings, integers and
// floats. All versions of a thread have the same kind.
type VersionKind uint8

// The kinds of a Version. The zero kind is the null version: no version yet.
const (
	VersionNull VersionKind = iota
	VersionString
	VersionInt
	VersionFloat
)

// Version is the version of one channel. The zero Version is the null version,
// lower than every other. Versions are comparable with ==; order is Compare.
type Version struct {
	kind VersionKind
	str  string
	num  uint64 // int64 bits or float64 bits
}

// StringVersion is a version written as a string.
func StringVersion(s string) Version { return Version{kind: VersionString, str: s} }

// IntVersion is a version written as an integer.
func IntVersion(n int64) Version { return Version{kind: VersionInt, num: uint64(n)} }

// FloatVersion is a version written as a float.
func FloatVersion(f float64) Version { return Version{kind: VersionFloat, num: math.Float64bits(f)} }

// VersionOf makes a Version of a decoded value: nil, string, any Go integer or
// float, or a Version. Anything else is an InvalidError.
func VersionOf(v any) (Version, error) {
	switch x := v.(type) {
	case nil:
		return Version{}, nil
	case Version:
		return x, nil
	case string:
		return StringVersion(x), nil
	case int:
		return IntVersion(int64(x)), nil
	case int64:
		return IntVersion(x), nil
	case int32:
		return IntVersion(int64(x)), nil
	case uint32:
		return IntVersion(int64(x)), nil
	case uint64:
		if x > math.MaxInt64 {
			return Version{}, invalidf("version", "%d does not fit 64 signed bits", x)
		}
		return IntVersion(int64(x)), nil
	case float64:
		if math.IsNaN(x) {
			return Version{}, invalidf("version", "NaN has no order")
		}
		return FloatVersion(x), nil
	case float32:
		return VersionOf(float64(x))
	}
	return Version{}, invalidf("version", "unknown version kind %T; use a string, an integer or a float", v)
}

// Kind says how the version is written.
func (v Version) Kind() VersionKind { return v.kind }

// IsNull reports whether there is no version yet.
func (v Version) IsNull() bool { return v.kind == VersionNull }

// Any is the version as plain data: nil, string, int64 or float64.
func (v Version) Any() any {
	switch v.kind {
	case VersionString:
		return v.str
	case VersionInt:
		return int64(v.num)
	case VersionFloat:
		return math.Float64frombits(v.num)
	}
	return nil
}

// String is the version for people and for keys.
func (v Version) String() string {
	switch v.kind {
	case VersionString:
		return v.str
	case VersionInt:
		return strconv.FormatInt(int64(v.num), 10)
	case VersionFloat:
		return pyFloat(math.Float64frombits(v.num))
	}
	return ""
}

// Seq is the integer part of the version: of a number the number itself, of a string the
// integer before the first dot. ok is false if a string does not begin with an integer.
func (v Version) Seq() (int64, bool) {
	switch v.kind {
	case VersionNull:
		return 0, true
	case VersionInt:
		return int64(v.num), true
	case VersionFloat:
		return int64(math.Float64frombits(v.num)), true
	}
	head, _, _ := strings.Cut(v.str, ".")
	n, err := strconv.ParseInt(head, 10, 64)
	return n, err == nil
}

// Compare orders two versions of one kind: strings by bytes, numbers by value.
// The null version is the lowest. Versions of different kinds have no order in
// LangGraph either; Compare then orders by kind, so that it is a total order.
func (v Version) Compare(o Version) int {
	if v.kind != o.kind {
		return cmp.Compare(v.kind, o.kind)
	}
	switch v.kind {
	case VersionString:
		return cmp.Compare(v.str, o.str)
	case VersionInt:
		return cmp.Compare(int64(v.num), int64(o.num))
	case VersionFloat:
		return cmp.Compare(math.Float64frombits(v.num), math.Float64frombits(o.num))
	}
	return 0
}

// NextVersion mints the version after current as LangGraph's savers do: the
// integer part plus one, padded to 32 digits, a dot, and a random fraction that
// keeps versions of two forks apart. random gives a float in [0,1); nil means
// math/rand. A string without an integer before its first dot is an
// InvalidError.
func NextVersion(current Version, random func() float64) (Version, error) {
	seq, ok := current.Seq()
	if !ok {
		return Version{}, invalidf("version", "%q does not begin with an integer", current.str)
	}
	if seq == math.MaxInt64 {
		return Version{}, invalidf("version", "%d has no successor", seq)
	}
	if random == nil {
		random = rand.Float64
	}
	next := seq + 1
	var room [64]byte
	buf := room[:0]
	if next < 0 { // the sign stands before the zeros, and counts
		buf = append(buf, '-')
		next = -next
	}
	buf = appendPadded(buf, strconv.FormatInt(next, 10), 32-len(buf))
	buf = append(buf, '.')
	return StringVersion(string(appendPadded(buf, pyFloat(random()), 16))), nil
}

// appendPadded appends s with zeros before it, so that it has width bytes.
func appendPadded(dst []byte, s string, width int) []byte {
	for range width - len(s) {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}

// pyFloat prints a float as Python's repr does: shortest digits that read back
// equal, exponent form below 1e-4 and from 1e16 on, and always a point or an
// exponent.
func pyFloat(f float64) string {
	abs := math.Abs(f)
	if abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.ContainsAny(s, ".IN") {
		s += ".0"
	}
	return s
}
