package serde

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// Keys of map[any]any are nil, bool, integers, floats, strings and Key. They are written in
// this order of kinds, numbers by value, strings and Keys by bytes.

type anyPair struct {
	key mapKey
	val any
}

// mapKey is a key prepared for comparing and writing.
type mapKey struct {
	rank keyRank
	// num orders all numbers first; i and u break the ties that rounding to a
	// float leaves above 2^53.
	num float64
	i   int64
	u   uint64
	s   string
}

type keyRank uint8

const (
	rankNil keyRank = iota
	rankBool
	rankInt
	rankUint // above MaxInt64
	rankFloat
	rankStr
	rankKey
)

// group is the same for all kinds of numbers, so that they sort by value.
func (r keyRank) group() keyRank {
	if r == rankUint || r == rankFloat {
		return rankInt
	}
	return r
}

// mapKeyOf converts a Go map key; false if its type cannot be one.
func mapKeyOf(k any) (mapKey, bool) {
	switch k := k.(type) {
	case nil:
		return mapKey{rank: rankNil}, true
	case bool:
		var i int64
		if k {
			i = 1
		}
		return mapKey{rank: rankBool, i: i}, true
	case int64:
		return mapKey{rank: rankInt, i: k, num: float64(k)}, true
	case uint64:
		if k <= math.MaxInt64 {
			return mapKeyOf(int64(k))
		}
		return mapKey{rank: rankUint, u: k, num: float64(k)}, true
	case float64:
		return mapKey{rank: rankFloat, num: k}, true
	case string:
		return mapKey{rank: rankStr, s: k}, true
	case Key:
		return mapKey{rank: rankKey, s: k.enc}, k.enc != ""
	case UUID:
		return mapKey{rank: rankStr, s: k.String()}, true
	case Date:
		return mapKey{rank: rankStr, s: k.String()}, true
	case NaiveDateTime:
		return mapKey{rank: rankStr, s: k.String()}, true
	}
	return mapKey{}, false
}

// compare is a total order: NaN comes before every other number.
func (a mapKey) compare(b mapKey) int {
	return cmp.Or(
		cmp.Compare(a.rank.group(), b.rank.group()),
		cmp.Compare(a.num, b.num),
		cmp.Compare(a.rank, b.rank),
		cmp.Compare(a.i, b.i),
		cmp.Compare(a.u, b.u),
		cmp.Compare(math.Float64bits(a.num), math.Float64bits(b.num)), // -0 and 0, NaNs
		strings.Compare(a.s, b.s),
	)
}

func (a mapKey) append(b []byte) []byte {
	switch a.rank {
	case rankNil:
		return append(b, mNil)
	case rankBool:
		return msgp.AppendBool(b, a.i != 0)
	case rankInt:
		return appendInt(b, a.i)
	case rankUint:
		return msgp.AppendUint64(b, a.u)
	case rankFloat:
		return msgp.AppendFloat64(b, a.num)
	case rankStr:
		return appendStr(b, a.s)
	}
	return append(b, a.s...)
}

func (e *encoder) anyMap(m map[any]any) error {
	if err := e.enter(); err != nil {
		return e.fail(m, err)
	}
	e.buf = msgp.AppendMapHeader(e.buf, uint32(len(m)))
	if err := e.restOfAny(m); err != nil {
		return err
	}
	e.leave()
	return nil
}

// restOfAny writes the pairs of m without a head.
func (e *encoder) restOfAny(m map[any]any) error {
	pairs := make([]anyPair, 0, len(m))
	for k, v := range m {
		key, err := e.key(k)
		if err != nil {
			return err
		}
		pairs = append(pairs, anyPair{key, v})
	}
	return e.sortedAnyPairs(m, pairs)
}

// key converts any comparable Go value that can be a map key.
func (e *encoder) key(k any) (mapKey, error) {
	if key, ok := mapKeyOf(k); ok {
		return key, nil
	}
	return e.reflectKey(k)
}

func (e *encoder) sortedAnyPairs(m any, pairs []anyPair) error {
	slices.SortFunc(pairs, func(a, b anyPair) int { return a.key.compare(b.key) })
	for i, p := range pairs {
		if i > 0 && p.key.compare(pairs[i-1].key) == 0 {
			return within(e.fail(m, fmt.Errorf("two keys are written alike: %w", ErrUnsupported)), keySegment(p.key.String()))
		}
		if p.key.rank == rankStr {
			if err := e.keyed(p.key.s, p.val); err != nil {
				return err
			}
			continue
		}
		e.buf = p.key.append(e.buf)
		if err := e.value(p.val); err != nil {
			return within(err, keySegment(p.key.String()))
		}
	}
	return nil
}

// String is for paths in errors.
func (a mapKey) String() string {
	switch a.rank {
	case rankNil:
		return "None"
	case rankBool:
		return fmt.Sprint(a.i != 0)
	case rankInt:
		return fmt.Sprint(a.i)
	case rankUint:
		return fmt.Sprint(a.u)
	case rankFloat:
		return fmt.Sprint(a.num)
	case rankStr:
		return a.s
	}
	return Key{enc: a.s}.String()
}
