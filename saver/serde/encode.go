package serde

import (
	"bytes"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/base"
)

// encoder writes one value. It is used by one goroutine at a time and reused
// through a pool.
type encoder struct {
	c     *Codec
	buf   []byte
	depth int
	// guide walks the bytes an *Ext was read from while its Value is written,
	// to take the order of map keys from there. See order.go.
	guide guide
	// fill is the memory that filling the Go types takes when the value is read back, in
	// addition to the plain data.
	fill int64
	// pairs is a stack of the pairs of the maps being written, so that sorting keys
	// allocates nothing. Each map owns the part above its base.
	pairs []pair
}

type pair struct {
	key string
	val any
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// keepBuffer is the largest buffer that an idle encoder keeps.
const keepBuffer = 1 << 20

// encodeMsgpack writes v after room zero bytes.
func (c *Codec) encodeMsgpack(v any, room int) ([]byte, error) {
	e := encoders.Get().(*encoder) //nolint:errcheck // the pool holds nothing else
	e.c = c
	for range room {
		e.buf = append(e.buf, 0)
	}
	err := e.value(v)
	if err == nil {
		err = e.readable(v, room)
	}
	var out []byte
	if err == nil {
		out = bytes.Clone(e.buf)
	}
	e.release()
	if err != nil {
		return nil, rooted(err)
	}
	return out, nil
}

// readable refuses a value that is too large to be stored, or whose decoding would exceed the
// limit. Its bytes begin at room.
func (e *encoder) readable(v any, room int) error {
	if n := len(e.buf) - room; n > base.MaxValue {
		return e.fail(v, tooLarge(n))
	}
	b := e.c.budget(e.buf[room:])
	if err := b.spend(e.fill); err != nil {
		return e.fail(v, err)
	}
	return nil
}

// release returns e to the pool, without references to the caller's values.
func (e *encoder) release() {
	clear(e.pairs) // empty unless an error cut the work short
	if cap(e.buf) > keepBuffer {
		e.buf = nil
	}
	if cap(e.pairs) > 4096 {
		e.pairs = nil
	}
	*e = encoder{buf: e.buf[:0], pairs: e.pairs[:0]}
	encoders.Put(e)
}

// tooLarge is the error for a value of so many bytes, or more.
func tooLarge(n int) error {
	return fmt.Errorf("%d bytes, the limit is %d: %w", n, base.MaxValue, ErrTooLarge)
}

func (e *encoder) fail(v any, err error) error {
	return &EncodeError{Type: fmt.Sprintf("%T", v), Err: err}
}

// enter begins a container. It refuses cycles, and values that share parts so often that their
// encoding would fill the memory.
func (e *encoder) enter() error {
	if e.depth >= MaxDepth {
		return ErrDepth
	}
	if len(e.buf) > base.MaxValue {
		return tooLarge(len(e.buf))
	}
	e.depth++
	return nil
}

func (e *encoder) leave() { e.depth-- }

// value writes v. If there is a guide, it moves the guide past the counterpart of v.
func (e *encoder) value(v any) error {
	if e.guide.on {
		return e.guided(v)
	}
	return e.plain(v)
}

// plain writes v by the type switch that needs no reflection, else by native and
// reflected.
func (e *encoder) plain(v any) error {
	switch v := v.(type) {
	case string:
		e.buf = appendStr(e.buf, v)
	case map[string]any:
		return e.stringMap(v)
	case []any:
		return e.slice(v)
	case nil:
		e.buf = append(e.buf, mNil)
	case bool:
		e.buf = msgp.AppendBool(e.buf, v)
	case int:
		e.buf = appendInt(e.buf, int64(v))
	case int64:
		e.buf = appendInt(e.buf, v)
	case float64:
		e.buf = msgp.AppendFloat64(e.buf, v)
	case []byte:
		e.buf = msgp.AppendBytes(e.buf, v)
	case []string:
		e.fill += sliceCost(len(v), stringSize)
		e.buf = msgp.AppendArrayHeader(e.buf, uint32(len(v)))
		for _, s := range v {
			e.buf = appendStr(e.buf, s)
		}
	case []map[string]any:
		return typedSlice(e, v)
	case map[string]string:
		return typedMap(e, v)
	case map[any]any:
		return e.anyMap(v)
	case int8:
		e.buf = appendInt(e.buf, int64(v))
	case int16:
		e.buf = appendInt(e.buf, int64(v))
	case int32:
		e.buf = appendInt(e.buf, int64(v))
	case uint:
		e.buf = msgp.AppendUint64(e.buf, uint64(v))
	case uint8:
		e.buf = msgp.AppendUint64(e.buf, uint64(v))
	case uint16:
		e.buf = msgp.AppendUint64(e.buf, uint64(v))
	case uint32:
		e.buf = msgp.AppendUint64(e.buf, uint64(v))
	case uint64:
		e.buf = msgp.AppendUint64(e.buf, v)
	case float32:
		e.buf = msgp.AppendFloat64(e.buf, float64(v))
	case *Ext:
		return e.ext(v)
	case fieldList:
		return e.fields(v)
	case Fields:
		list := make(fieldList, len(v))
		for i, f := range v {
			list[i] = pair{f.Name, f.Value}
		}
		return e.value(list)
	default:
		if done, err := e.native(v); done {
			return err
		}
		return e.reflected(reflect.ValueOf(v))
	}
	return nil
}

func (e *encoder) slice(v []any) error {
	if err := e.enter(); err != nil {
		return e.fail(v, err)
	}
	e.buf = msgp.AppendArrayHeader(e.buf, uint32(len(v)))
	for i, x := range v {
		if err := e.value(x); err != nil {
			return within(err, indexSegment(i))
		}
	}
	e.leave()
	return nil
}

func typedSlice[T any](e *encoder, v []T) error {
	e.fill += sliceCost(len(v), reflect.TypeFor[T]().Size())
	if err := e.enter(); err != nil {
		return e.fail(v, err)
	}
	e.buf = msgp.AppendArrayHeader(e.buf, uint32(len(v)))
	for i := range v {
		if err := e.value(v[i]); err != nil {
			return within(err, indexSegment(i))
		}
	}
	e.leave()
	return nil
}

func (e *encoder) stringMap(m map[string]any) error {
	base := len(e.pairs)
	for k, v := range m {
		e.pairs = append(e.pairs, pair{k, v})
	}
	return e.sortedPairs(m, base)
}

func typedMap[V any](e *encoder, m map[string]V) error {
	e.fill += fillMapCost(len(m), stringSize, reflect.TypeFor[V]().Size())
	base := len(e.pairs)
	for k, v := range m {
		e.pairs = append(e.pairs, pair{k, v})
	}
	return e.sortedPairs(m, base)
}

// sortedPairs writes a map whose pairs are on the stack from base up. Sorting
// is by bytes, which for UTF-8 is the order of Python's sorted().
func (e *encoder) sortedPairs(m any, base int) error {
	if err := e.enter(); err != nil {
		return e.fail(m, err)
	}
	e.buf = msgp.AppendMapHeader(e.buf, uint32(len(e.pairs)-base))
	if err := e.popSorted(base); err != nil {
		return err
	}
	e.leave()
	return nil
}

// popSorted writes the pairs on the stack from base up, and removes them.
func (e *encoder) popSorted(base int) error {
	n := len(e.pairs) - base
	var order [smallMap]uint8
	if n > smallMap {
		slices.SortFunc(e.pairs[base:], func(a, b pair) int { return strings.Compare(a.key, b.key) })
	} else {
		sortSmall(e.pairs[base:], &order)
	}
	for i := range n {
		at := base + i
		if n <= smallMap {
			at = base + int(order[i])
		}
		p := &e.pairs[at]
		if err := e.keyed(p.key, p.val); err != nil { // nested maps may move the stack; p is not used after
			return err
		}
	}
	clear(e.pairs[base:])
	e.pairs = e.pairs[:base]
	return nil
}

// smallMap: up to this number of pairs their indexes are sorted, not the pairs. Moving bytes is
// cheaper than moving pairs, whose pointers need write barriers.
const smallMap = 16

func sortSmall(pairs []pair, order *[smallMap]uint8) {
	for i := range pairs {
		j := i
		for ; j > 0 && pairs[order[j-1]].key > pairs[i].key; j-- {
			order[j] = order[j-1]
		}
		order[j] = uint8(i)
	}
}

// keyed writes one pair of a map. It refuses a key that is not UTF-8. Replacing the invalid
// bytes, as for other strings, could make two keys equal.
func (e *encoder) keyed(key string, val any) error {
	if !utf8.ValidString(key) {
		return within(e.fail(key, fmt.Errorf("map key is not UTF-8: %w", ErrUnsupported)), keySegment(key))
	}
	e.buf = msgp.AppendString(e.buf, key)
	if err := e.value(val); err != nil {
		return within(err, keySegment(key))
	}
	return nil
}

// fields writes a map in the order given: the named arguments of a dataclass.
func (e *encoder) fields(f fieldList) error {
	if err := e.enter(); err != nil {
		return e.fail(f, err)
	}
	e.buf = msgp.AppendMapHeader(e.buf, uint32(len(f)))
	for _, p := range f {
		if err := e.keyed(p.key, p.val); err != nil {
			return err
		}
	}
	e.leave()
	return nil
}

// fieldList is a map with a fixed order of keys.
type fieldList []pair

func (e *encoder) bigInt(v *big.Int) error {
	switch {
	case v.IsInt64():
		e.buf = appendInt(e.buf, v.Int64())
	case v.IsUint64():
		e.buf = msgp.AppendUint64(e.buf, v.Uint64())
	default:
		return e.fail(v, ErrIntRange)
	}
	return nil
}
