package sqlite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stele-go/stele/saver/serde"
)

// field is a member of an object, with the bytes that its value has there.
type field struct {
	name  string
	value serde.Typed
}

// split takes an object apart and decodes none of its values.
func split(t serde.Typed) ([]field, error) {
	switch t.Kind {
	case serde.KindMsgpack:
		return splitMsgpack(t.Data)
	case serde.KindJSON:
		return splitJSON(t.Data)
	}
	return nil, fmt.Errorf("type %q cannot be read", t.Kind)
}

// wellFormed refuses bytes that are not whole.
func wellFormed(t serde.Typed) error {
	switch t.Kind {
	case serde.KindMsgpack:
		rest, err := skip(t.Data)
		if err == nil && len(rest) > 0 {
			err = errTrailing
		}
		return err
	case serde.KindJSON:
		_, err := serde.Default().Decode(t)
		return err
	}
	return nil
}

func splitJSON(data []byte) ([]field, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.Join(errors.New("not a JSON object"), err)
	}
	var fields []field
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		fields = append(fields, field{name.(string), serde.Typed{Kind: serde.KindJSON, Data: raw}})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errTrailing
	}
	return fields, nil
}

var (
	errShort    = errors.New("msgpack: it ends early")
	errMsgpack  = errors.New("msgpack: not an object with texts as names")
	errTrailing = errors.New("something follows the value")
)

// maxFields bounds the fields of an object, so that a small number cannot ask for much memory.
const maxFields = 1 << 20

func splitMsgpack(data []byte) ([]field, error) {
	h, rest, err := head(data)
	if err != nil {
		return nil, err
	}
	if h.kind != mapping || h.items > 2*maxFields {
		return nil, errMsgpack
	}
	var fields []field
	for range h.items / 2 {
		var name head1
		if name, rest, err = head(rest); err != nil {
			return nil, err
		}
		if name.kind != str {
			return nil, errMsgpack
		}
		f := field{name: string(rest[:name.body])}
		rest = rest[name.body:]
		after, err := skip(rest)
		if err != nil {
			return nil, err
		}
		f.value = valueOf(rest[:len(rest)-len(after)])
		fields, rest = append(fields, f), after
	}
	if len(rest) > 0 {
		return nil, errTrailing
	}
	return fields, nil
}

// valueOf returns one msgpack value as typed bytes, as LangGraph's serializer returns them for the
// value alone.
func valueOf(raw []byte) serde.Typed {
	h, body, err := head(raw)
	switch {
	case err == nil && h.kind == null:
		return serde.Typed{Kind: serde.KindNull, Data: []byte{}}
	case err == nil && h.kind == bin:
		return serde.Typed{Kind: serde.KindBytes, Data: bytes.Clone(body[:h.body])}
	}
	return serde.Typed{Kind: serde.KindMsgpack, Data: bytes.Clone(raw)}
}

type class uint8

const (
	scalar class = iota
	null
	str
	bin
	ext
	list
	mapping
)

// head1 is the decoded head of a value. It is followed by body bytes, or by items values.
type head1 struct {
	kind  class
	body  int
	items int
}

// head reads the first bytes of a msgpack value. A body lies within data.
func head(data []byte) (h head1, rest []byte, err error) {
	if len(data) == 0 {
		return h, nil, errShort
	}
	b := data[0]
	rest = data[1:]
	size, width := uint64(0), 0
	switch {
	case b <= 0x7f || b >= 0xe0 || b == 0xc2 || b == 0xc3:
		return h, rest, nil
	case b == 0xc0:
		h.kind = null
		return h, rest, nil
	case b <= 0x8f:
		h.kind, size = mapping, uint64(b&0x0f)
	case b <= 0x9f:
		h.kind, size = list, uint64(b&0x0f)
	case b <= 0xbf:
		h.kind, size = str, uint64(b&0x1f)
	case b == 0xc1:
		return h, nil, errors.New("msgpack: a reserved byte")
	case b <= 0xc6:
		h.kind, width = bin, 1<<(b-0xc4)
	case b <= 0xc9:
		h.kind, width = ext, 1<<(b-0xc7)
	case b <= 0xcb: // floats
		size = 4 << (b - 0xca)
	case b <= 0xcf: // unsigned
		size = 1 << (b - 0xcc)
	case b <= 0xd3: // signed
		size = 1 << (b - 0xd0)
	case b <= 0xd8:
		h.kind, size = ext, 1<<(b-0xd4)
	case b <= 0xdb:
		h.kind, width = str, 1<<(b-0xd9)
	case b <= 0xdd:
		h.kind, width = list, 2<<(b-0xdc)
	default:
		h.kind, width = mapping, 2<<(b-0xde)
	}
	if width > 0 {
		if len(rest) < width {
			return h, nil, errShort
		}
		var n [8]byte
		copy(n[8-width:], rest)
		size, rest = binary.BigEndian.Uint64(n[:]), rest[width:]
	}
	if h.kind == ext {
		size++ // the type
	}
	if h.kind == mapping {
		size *= 2
	}
	if size > uint64(len(rest)) { // an item has a byte at least
		return h, nil, errShort
	}
	if h.kind == list || h.kind == mapping {
		h.items = int(size)
	} else {
		h.body = int(size)
	}
	return h, rest, nil
}

// skip returns the data after the first value in data. It does not recurse, so no nesting is too deep
// for it.
func skip(data []byte) ([]byte, error) {
	for left := 1; left > 0; left-- {
		h, rest, err := head(data)
		if err != nil {
			return nil, err
		}
		data = rest[h.body:]
		if left += h.items; left > len(data)+1 {
			return nil, errShort
		}
	}
	return data, nil
}
