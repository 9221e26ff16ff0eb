package store

import (
	"cmp"
	"math"
	"reflect"
	"strings"
	"time"
)

// scalar is nil or a value that has an order. Filters compare scalars, and summaries hold
// them.
type scalar struct {
	kind scalarKind
	neg  bool   // of an integer
	mag  uint64 // of an integer; 1 for true
	num  float64
	str  string
	time time.Time
}

type scalarKind uint8

const (
	scalarNone scalarKind = iota // not a scalar
	scalarNil
	scalarBool
	scalarInt
	scalarFloat
	scalarString
	scalarTime
)

func intScalar(n int64) scalar {
	if n < 0 {
		return scalar{kind: scalarInt, neg: true, mag: uint64(-(n + 1)) + 1}
	}
	return scalar{kind: scalarInt, mag: uint64(n)}
}

// scalarOf is v as a scalar; of kind scalarNone if it is none.
func scalarOf(v any) scalar {
	switch x := v.(type) {
	case nil:
		return scalar{kind: scalarNil}
	case bool:
		return boolScalar(x)
	case string:
		return scalar{kind: scalarString, str: x}
	case int:
		return intScalar(int64(x))
	case int64:
		return intScalar(x)
	case float64:
		return scalar{kind: scalarFloat, num: x}
	case time.Time:
		return scalar{kind: scalarTime, time: x}
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Bool:
		return boolScalar(rv.Bool())
	case reflect.String:
		return scalar{kind: scalarString, str: rv.String()}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intScalar(rv.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return scalar{kind: scalarInt, mag: rv.Uint()}
	case reflect.Float32, reflect.Float64:
		return scalar{kind: scalarFloat, num: rv.Float()}
	}
	return scalar{}
}

func boolScalar(b bool) scalar {
	if b {
		return scalar{kind: scalarBool, mag: 1}
	}
	return scalar{kind: scalarBool}
}

func (s scalar) numeric() bool { return s.kind == scalarInt || s.kind == scalarFloat }

// equal reports whether two scalars are the same value. Numbers of different types can be
// equal. NaN equals nothing.
func (s scalar) equal(o scalar) bool {
	c, ok := s.compare(o)
	return ok && c == 0 || s.kind == scalarNil && o.kind == scalarNil
}

// compare orders two scalars of one kind. ok is false if they have no order.
func (s scalar) compare(o scalar) (c int, ok bool) {
	switch {
	case s.numeric() && o.numeric():
		return compareNumbers(s, o)
	case s.kind != o.kind:
		return 0, false
	}
	switch s.kind {
	case scalarBool:
		return cmp.Compare(s.mag, o.mag), true
	case scalarString:
		return strings.Compare(s.str, o.str), true
	case scalarTime:
		return s.time.Compare(o.time), true
	}
	return 0, false
}

func compareNumbers(a, b scalar) (int, bool) {
	switch {
	case a.kind == scalarInt && b.kind == scalarInt:
		return compareInts(a, b), true
	case a.kind == scalarFloat && b.kind == scalarFloat:
		return cmp.Compare(a.num, b.num), !math.IsNaN(a.num) && !math.IsNaN(b.num)
	case a.kind == scalarFloat:
		c, ok := compareIntFloat(b, a.num)
		return -c, ok
	}
	return compareIntFloat(a, b.num)
}

func compareInts(a, b scalar) int {
	switch {
	case a.neg != b.neg && a.neg:
		return -1
	case a.neg != b.neg:
		return 1
	case a.neg:
		return cmp.Compare(b.mag, a.mag)
	}
	return cmp.Compare(a.mag, b.mag)
}

// compareIntFloat is exact: it does not round a large integer to the nearest float.
func compareIntFloat(n scalar, f float64) (int, bool) {
	switch {
	case math.IsNaN(f):
		return 0, false
	case f >= 1<<64:
		return -1, true
	case f <= -(1 << 64):
		return 1, true
	}
	whole := math.Trunc(f)
	w := scalar{kind: scalarInt, neg: whole < 0, mag: uint64(math.Abs(whole))}
	if c := compareInts(n, w); c != 0 {
		return c, true
	}
	return cmp.Compare(whole, f), true
}

// equalData is deep equality of plain data.
func equalData(a, b any) bool {
	as, bs := scalarOf(a), scalarOf(b)
	if as.kind != scalarNone || bs.kind != scalarNone {
		return as.kind != scalarNone && bs.kind != scalarNone && as.equal(bs)
	}
	av, bv := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case isList(av) && isList(bv):
		if av.Len() != bv.Len() {
			return false
		}
		for i := range av.Len() {
			if !equalData(av.Index(i).Interface(), bv.Index(i).Interface()) {
				return false
			}
		}
		return true
	case isMap(av) && isMap(bv):
		if av.Len() != bv.Len() {
			return false
		}
		for it := av.MapRange(); it.Next(); {
			other := bv.MapIndex(it.Key().Convert(bv.Type().Key()))
			if !other.IsValid() || !equalData(it.Value().Interface(), other.Interface()) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

func isList(v reflect.Value) bool { return v.Kind() == reflect.Slice || v.Kind() == reflect.Array }

func isMap(v reflect.Value) bool {
	return v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String
}
