package serde

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// decoder reads one value. It is made for each call and used by one goroutine.
//
// The memory for the data as a tree of Go values was counted before; see cost.go. A container
// is allocated in its final size. That happens only if enough bytes are left for its elements
// and for those that enclosing containers still expect.
type decoder struct {
	c   *Codec
	cur cursor
	// promised counts elements that enclosing containers have announced and
	// that were not read yet; each needs a byte at least.
	promised int
	depth    int
	// window is a part of the input as a string, beginning at windowAt. Decoded strings
	// are substrings of it. So many strings need one allocation, and none keeps more than
	// windowSize bytes of its neighbours alive.
	window   string
	windowAt int

	similar *Similar // nil: strings are not shared
	budget  budget   // what is left for Go values of registered types

	ext extState
}

const windowSize = 1024

// decodeMsgpack decodes data within its budget b, with a Similar, which may be nil.
func (c *Codec) decodeMsgpack(data []byte, similar *Similar, b budget) (any, budget, error) {
	d := decoder{c: c, cur: newCursor(data), similar: similar, budget: b}
	v, err := d.value()
	if err == nil && d.cur.off != d.cur.end {
		err = errTrailing
	}
	if err != nil {
		return nil, d.budget, d.cur.failed(KindMsgpack, err)
	}
	d.ext.settle()
	return v, d.budget, nil
}

func (d *decoder) value() (any, error) {
	it, err := d.cur.next()
	if err != nil {
		return nil, err
	}
	switch it.class {
	case cStr:
		return d.text(it)
	case cMap:
		return d.mapping(it.n)
	case cArray:
		return d.array(it.n)
	case cInt:
		return int64(it.num), nil
	case cBool:
		return it.num != 0, nil
	case cFloat:
		return math.Float64frombits(it.num), nil
	case cUint:
		return it.num, nil
	case cBin:
		return cloneBytes(d.cur.body(it)), nil
	case cExt:
		return d.extension(it), nil
	}
	return nil, nil // cNil
}

// str returns the string that starts at the cursor.
func (d *decoder) str(it item) (string, error) {
	n := it.n
	at := d.cur.off
	if n == 0 {
		return "", nil
	}
	d.cur.off += n
	if n > windowSize/4 { // long ones stand alone
		s := string(d.cur.data[at : at+n])
		if !utf8.ValidString(s) {
			return "", errUTF8
		}
		return s, nil
	}
	from := at - d.windowAt
	if d.window == "" || from < 0 || from+n > len(d.window) {
		d.windowAt, from = at, 0
		d.window = string(d.cur.data[at:min(at+windowSize, len(d.cur.data))])
	}
	s := d.window[from : from+n]
	if !utf8.ValidString(s) {
		return "", errUTF8
	}
	return s, nil
}

// promise records that n more values must follow.
func (d *decoder) promise(n int) error {
	if d.depth >= MaxDepth {
		return ErrDepth
	}
	if d.promised+n > d.cur.end-d.cur.off {
		return errCount
	}
	d.promised += n
	d.depth++
	return nil
}

func (d *decoder) array(n int) (any, error) {
	if err := d.promise(n); err != nil {
		return nil, err
	}
	out := make([]any, 0, n)
	for range n {
		d.promised--
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	d.depth--
	return out, nil
}

// decodeStrings decodes a list of strings, a common state, without an interface value for each
// string. ok is false if data is anything else.
func (c *Codec) decodeStrings(data []byte) (list []string, ok bool) {
	if b := c.budget(data); b.spend(0) != nil {
		return nil, false
	}
	d := decoder{c: c, cur: newCursor(data)}
	head, err := d.cur.next()
	if err != nil || head.class != cArray {
		return nil, false
	}
	out := make([]string, 0, head.n)
	for range head.n {
		it, err := d.cur.next()
		if err != nil || it.class != cStr {
			return nil, false
		}
		s, err := d.str(it)
		if err != nil {
			return nil, false
		}
		out = append(out, s)
	}
	return out, d.cur.off == d.cur.end
}

// mapping reads a map: map[string]any as long as keys are strings. Of equal
// keys the last wins, as in LangGraph.
func (d *decoder) mapping(n int) (any, error) {
	if err := d.promise(2 * n); err != nil {
		return nil, err
	}
	if n > 0 && !d.cur.atStr() {
		return d.anyMapping(nil, "", 0, n)
	}
	out := make(map[string]any, n)
	prev := ""
	for i := range n {
		start := d.cur.off
		it, err := d.cur.next()
		if err != nil {
			return nil, err
		}
		if it.class != cStr {
			d.cur.off = start
			return d.anyMapping(out, prev, i, n)
		}
		key, err := d.keyText(it)
		if err != nil {
			return nil, err
		}
		d.promised -= 2
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		if i > 0 && key <= prev {
			d.ext.unsorted = true
		}
		prev = key
		out[key] = v
	}
	if len(out) != n {
		d.ext.repeated = true
	}
	d.depth--
	return out, nil
}

// anyMapping takes over from mapping at pair i of n, where the first key is no string. strs are the pairs before it.
func (d *decoder) anyMapping(strs map[string]any, last string, i, n int) (any, error) {
	out := make(map[any]any, n)
	var prev mapKey
	if i > 0 {
		prev, _ = mapKeyOf(last)
	}
	for k, v := range strs {
		out[k] = v
	}
	nan := false
	for ; i < n; i++ {
		d.promised-- // first: a tuple as key makes promises of its own
		key, err := d.key()
		if err != nil {
			return nil, err
		}
		d.promised--
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		this, _ := mapKeyOf(key) // key returns nothing else
		if this.rank == rankFloat && math.IsNaN(this.num) {
			if nan {
				return nil, fmt.Errorf("%w: NaN, twice", errKey)
			}
			nan = true
		}
		if i > 0 && this.compare(prev) <= 0 {
			d.ext.unsorted = true
		}
		prev = this
		out[key] = v
	}
	if len(out) != n {
		d.ext.repeated = true
	}
	d.depth--
	return out, nil
}

// key reads a map key of any kind that may be one.
func (d *decoder) key() (any, error) {
	start := d.cur
	it, err := d.cur.next()
	if err != nil {
		return nil, err
	}
	switch it.class {
	case cMap, cExt:
		return nil, errKey
	case cArray, cBin:
		d.cur = start
		if err := d.cur.keyable(); err != nil {
			return nil, err
		}
		d.cur = start
		depth := d.depth
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		d.depth = depth
		return NewKey(v)
	}
	d.cur = start
	return d.value()
}

// typeNameOf is the type of v for errors.
func typeNameOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case map[string]any, map[any]any:
		return "map"
	case []any:
		return "list"
	case []byte:
		return "bytes"
	case int64, uint64:
		return "integer"
	case float64:
		return "float"
	case *Ext:
		if v.Data != nil {
			return fmt.Sprintf("extension %d", v.Code)
		}
		return v.Module + "." + v.Name
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", v), "serde.")
}
