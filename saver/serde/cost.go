package serde

import (
	"fmt"
	"math"
	"reflect"
	"sync"
)

// The memory for decoding a value is counted before it is allocated. The count depends only
// on the bytes, so that the writer of a value can tell what reading it will take. It is never
// below what Decode allocates, including garbage; see TestCostIsAboveAllocations and
// FuzzDecode.

// DefaultDecodeLimit is the default of Options.DecodeLimit: 1 GiB.
const DefaultDecodeLimit = 1 << 30

const (
	// costPerByte is the most memory that a byte of msgpack can take, and costFixed what a
	// value takes in addition. So data of up to (limit-costFixed)/costPerByte bytes need
	// not be counted.
	costPerByte = 256
	costFixed   = 16 << 10

	costSlot    = 20  // a place in a list: an interface, and rounding to a size class
	costNumber  = 8   // a number in an interface
	costString  = 16  // the header of one
	costBytes   = 32  // header and rounding of a []byte
	costList    = 24  // the header of a list in an interface
	costMap     = 48  // a map without pairs
	costGroup   = 288 // the first eight pairs of one
	costPair    = 112 // each pair of a larger one
	costKey     = 200 // a Key, and the encoder that makes it
	costExt     = 200 // an Ext that keeps its payload
	costNamed   = 512 // and what is made of the name, value and method of one
	costInside  = 16  // each value inside an extension, which its native form holds again
	costRevived = costExt + costNamed
)

// mapCost is the cost of a map that is made for n pairs.
func mapCost(n int) int64 {
	switch {
	case n == 0:
		return costMap
	case n <= 8:
		return costMap + costGroup + costString*int64(n)
	}
	return costPair * int64(n)
}

// rounded is n bytes rounded up to a size class.
func rounded(n int64) int64 { return n + n/4 }

// budget is the memory that one decode or encode may still take. A nil budget is unlimited.
type budget struct {
	limit int64 // below 0: none
	// tree is the cost of data. Until exact is set, it is an upper bound that was not
	// counted.
	data  []byte
	plain bool
	exact bool
	tree  int64
	spent int64 // beside the tree: Go values that are filled from it
}

// budget is the budget for decoding msgpack data.
func (c *Codec) budget(data []byte) budget {
	return budget{limit: c.opts.decodeLimit(), data: data, plain: c.opts.Plain, tree: costFixed + costPerByte*int64(len(data))}
}

// spend takes n bytes from b. If b has less, it takes nothing and returns ErrDecodeLimit.
func (b *budget) spend(n int64) error {
	if b == nil || b.limit < 0 {
		return nil
	}
	b.spent += n
	if b.tree+b.spent <= b.limit {
		return nil
	}
	if !b.exact {
		b.exact = true
		b.tree, _ = treeCost(b.data, b.limit, b.plain)
		if b.tree+b.spent <= b.limit {
			return nil
		}
	}
	b.spent -= n
	return fmt.Errorf("%w of %d bytes", ErrDecodeLimit, b.limit)
}

// mark and restore undo spending for something that was discarded.
func (b *budget) mark() int64 {
	if b == nil {
		return 0
	}
	return b.spent
}

func (b *budget) restore(mark int64) {
	if b != nil {
		b.spent = mark
	}
}

// treeCost is the cost of decoding data as plain Go values, and the number of values. It stops
// early once the cost exceeds most.
func treeCost(data []byte, most int64, plain bool) (cost int64, values int) {
	m := meter{cur: newCursor(data), most: most, plain: plain}
	m.cost = costFixed + rounded(int64(len(data))) + int64(len(data))/4 // short strings are cut from copies of the data
	_ = m.value()                                                       // malformed data counts up to the fault
	return m.cost, m.values
}

// meter walks msgpack data as the decoder will, at least as far.
type meter struct {
	cur    cursor
	cost   int64
	most   int64
	values int
	depth  int
	exts   int // extensions around the cursor
	// promised is the same as in decoder, so that counts without enough bytes cost
	// nothing.
	promised int
	plain    bool
}

func (m *meter) value() error {
	it, err := m.cur.next()
	if err != nil {
		return err
	}
	m.values++
	if m.exts > 0 {
		m.cost += costInside
	}
	switch it.class {
	case cInt:
		if it.num > math.MaxUint8 { // smaller ones are the runtime's
			m.cost += costNumber
		}
	case cFloat, cUint:
		m.cost += costNumber
	case cStr:
		m.cur.off += it.n
		m.cost += costString
		if it.n > windowSize/4 {
			m.cost += rounded(int64(it.n))
		}
	case cBin:
		m.cur.off += it.n
		m.cost += costBytes + rounded(int64(it.n))
	case cArray:
		return m.within(it.n, costList+costSlot*int64(it.n))
	case cMap:
		return m.mapping(it.n)
	case cExt:
		return m.extension(it)
	}
	return nil
}

// within walks the n values of a container that costs cost.
func (m *meter) within(n int, cost int64) error {
	if err := m.enter(n, cost); err != nil {
		return err
	}
	for range n {
		m.promised--
		if err := m.value(); err != nil {
			return err
		}
	}
	m.depth--
	return nil
}

// enter begins a container. An extension and the list that is its payload are two levels here
// but one in the decoder, which stops at MaxDepth.
func (m *meter) enter(n int, cost int64) error {
	if m.depth > 2*MaxDepth {
		return ErrDepth
	}
	if m.promised+n > m.cur.end-m.cur.off {
		return errCount
	}
	m.promised += n
	m.cost += cost
	if m.cost > m.most {
		return ErrDecodeLimit
	}
	m.depth++
	return nil
}

func (m *meter) mapping(n int) error {
	if err := m.enter(2*n, mapCost(n)); err != nil {
		return err
	}
	plain := true
	for i := range n {
		m.promised -= 2
		at := m.cur
		it, err := m.cur.next()
		if err != nil {
			return err
		}
		if it.class != cStr && plain {
			if plain = false; i > 0 { // the pairs before it move to a map of another type
				m.cost += mapCost(n)
			}
		}
		from := at.off
		m.cur = at
		if err := m.value(); err != nil {
			return err
		}
		if it.class == cArray || it.class == cBin {
			m.cost += costKey + 4*int64(m.cur.off-from)
		}
		if err := m.value(); err != nil {
			return err
		}
	}
	m.depth--
	return nil
}

func (m *meter) extension(it item) error {
	end, outer := m.cur.off+it.n, m.cur.end
	m.cost += costExt
	if m.exts == 0 || m.plain { // the order of keys, or the payload itself
		m.cost += 2 * rounded(int64(it.n))
	}
	if it.n > 0 && m.cur.data[m.cur.off]&0xf0 == 0x90 {
		m.cost += costNamed
	}
	depth, promised := m.depth, m.promised
	m.cur.end, m.promised = end, 0
	m.exts++
	_ = m.within(1, 0) // a payload that is no value ends the walk in it, not behind it
	m.exts--
	m.cur.off, m.cur.end, m.depth, m.promised = end, outer, depth, promised
	if m.cost > m.most {
		return ErrDecodeLimit
	}
	return nil
}

// The writer and the reader count the cost of filling a Go value with the same functions.

var stringSize = reflect.TypeFor[string]().Size()

// sliceCost is a slice of n elements of a size.
func sliceCost(n int, size uintptr) int64 { return costList + rounded(int64(n)*int64(size)) }

// fillMapCost returns the cost of a map of n pairs of a size, including memory that filling it takes in
// between.
func fillMapCost(n int, key, elem uintptr) int64 {
	pair := int64(key) + int64(elem)
	return costMap + 2*mapCost(n) + (pair+2)*max(9, 3*int64(n)) + int64(n)*(pair+costBytes)
}

// extraCost is a field that goes to the map of unknown ones, which grows.
const extraCost = 2*costPair + costGroup

// registeredCost is a value of a registered type, and its copy in an interface.
func registeredCost(t reflect.Type) int64 { return 2 * rounded(int64(t.Size())) }

// largest is the largest cost of filling a part of a t from one byte of data.
func largest(t reflect.Type) int64 {
	if n, ok := largestOf.Load(t); ok {
		return n.(int64) //nolint:errcheck // holds nothing else
	}
	n := largestIn(t, map[reflect.Type]bool{})
	largestOf.Store(t, n)
	return n
}

var largestOf sync.Map // reflect.Type → int64; types are as many as the program has

func largestIn(t reflect.Type, seen map[reflect.Type]bool) int64 {
	if t == nil || seen[t] {
		return 0
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Slice:
		return sliceCost(1, t.Elem().Size()) + largestIn(t.Elem(), seen)
	case reflect.Array:
		return largestIn(t.Elem(), seen)
	case reflect.Pointer:
		return rounded(int64(t.Elem().Size())) + largestIn(t.Elem(), seen)
	case reflect.Map:
		return fillMapCost(1, t.Key().Size(), t.Elem().Size()) + largestIn(t.Key(), seen) + largestIn(t.Elem(), seen)
	case reflect.Struct:
		var sum int64
		for i := range t.NumField() {
			sum += largestIn(t.Field(i).Type, seen)
		}
		return sum
	}
	return 0
}
