package serde

import (
	"bytes"
	"reflect"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/base"
)

// Grown is the encoding of a list to which elements were appended: Head, then the earlier
// encoding from From on, then Tail.
type Grown struct {
	Head []byte
	From int // bytes of the earlier encoding that Head replaces
	Tail []byte
}

// Len is the length of the whole encoding in bytes. was is that of the earlier one.
func (g Grown) Len(was int) int { return len(g.Head) + was - g.From + len(g.Tail) }

// Grower encodes a list from where it grew. It is safe for concurrent use.
type Grower interface {
	// EncodeGrown makes the encoding of list from was, the encoding of all its elements
	// except the last n. The result is that of Encode(list), at the cost of the last n
	// elements. It compares the first and the last of the earlier elements with was, and
	// trusts that the others have not changed. ok is false, and list must be encoded as a
	// whole, in these cases: was is not the encoding of a list of that length, or differs
	// in an element that was compared; list is not a slice that is encoded element by
	// element; or an element cannot be encoded.
	EncodeGrown(was Typed, list any, n int) (g Grown, ok bool)
}

// GrowerOf returns the Grower that encodes as s does; false if there is none. A serializer of
// another package provides one with a method Grower() (Grower, bool). Embedding a Codec is
// not enough, because the type may have another Encode.
func GrowerOf(s Serializer) (Grower, bool) {
	switch s := s.(type) {
	case *Codec:
		return s, true
	case interface{ Grower() (Grower, bool) }:
		return s.Grower()
	}
	return nil, false
}

// EncodeGrown implements Grower.
func (c *Codec) EncodeGrown(was Typed, list any, n int) (Grown, bool) {
	v := reflect.ValueOf(list)
	if was.Kind != KindMsgpack || v.Kind() != reflect.Slice || n < 0 || n >= v.Len() {
		return Grown{}, false
	}
	old := v.Len() - n
	from, ok := arrayHeader(was.Data, old)
	if !ok {
		return Grown{}, false
	}
	first, ok1 := c.elements(v, 0, 1)
	last, ok2 := c.elements(v, old-1, old)
	tail, ok3 := c.elements(v, old, v.Len())
	if !ok1 || !ok2 || !ok3 || !bytes.HasPrefix(was.Data[from:], first) || !bytes.HasSuffix(was.Data[from:], last) {
		return Grown{}, false
	}
	g := Grown{Head: msgp.AppendArrayHeader(nil, uint32(v.Len())), From: from, Tail: tail}
	return g, c.grownFits(g, was.Data, v.Type(), n)
}

// grownFits reports whether the grown list can be decoded within the limit. It may return
// false for a list that can, because it does not encode the whole list.
func (c *Codec) grownFits(g Grown, was []byte, list reflect.Type, n int) bool {
	limit := c.opts.decodeLimit()
	size := int64(g.Len(len(was)))
	if size > base.MaxValue {
		return false
	}
	if limit < 0 {
		return true
	}
	part := largest(list) + c.opts.Registry.largest
	if costFixed+(costPerByte+part)*size <= limit {
		return true
	}
	before, parts := treeCost(was, limit, c.opts.Plain)
	tail, more := treeCost(append(msgp.AppendArrayHeader(nil, uint32(n)), g.Tail...), limit, c.opts.Plain)
	return before+tail+part*int64(parts+more) <= limit
}

// elements is the concatenated encodings of v[lo:hi].
func (c *Codec) elements(v reflect.Value, lo, hi int) ([]byte, bool) {
	t, err := c.Encode(v.Slice(lo, hi).Interface())
	if err != nil || t.Kind != KindMsgpack {
		return nil, false
	}
	header, ok := arrayHeader(t.Data, hi-lo)
	if !ok {
		return nil, false
	}
	return t.Data[header:], true
}

// arrayHeader is the length of the array header at the beginning of b; false if b does not
// begin with an array of n elements.
func arrayHeader(b []byte, n int) (int, bool) {
	have, rest, err := msgp.ReadArrayHeaderBytes(b)
	return len(b) - len(rest), err == nil && uint64(have) == uint64(n)
}
