package serde

import (
	"reflect"
)

// Extension codes LangGraph uses. The payload of 0 to 5 is a msgpack array that
// begins with module and name of a Python type.
const (
	ExtSingle     int8 = 0 // [module, name, arg]
	ExtPositional int8 = 1 // [module, name, [args…]]
	ExtKeyword    int8 = 2 // [module, name, {name: arg}]
	ExtMethod     int8 = 3 // [module, name, arg, method]
	ExtPydanticV1 int8 = 4 // [module, name, {field: value}]
	ExtPydanticV2 int8 = 5 // [module, name, {field: value}, method]
	ExtNDArray    int8 = 6 // [dtype, shape, order, bytes]
	ExtDelta      int8 = 7 // the value itself
)

// Ext is a Python object in neutral form: the name of its type, and the data from which Python
// would build it. The names are never used to build, look up or run anything.
//
// Encoding an Ext that was decoded gives the bytes that it was decoded from. For that it
// remembers the order of the map keys in it, and nothing else. So Value may be changed in
// place, and the changed Value is written. It is not safe for concurrent change.
type Ext struct {
	Code   int8
	Module string // of codes 0-5
	Name   string // of codes 0-5
	// Value is the third element of codes 0-5: usually []any for ExtPositional,
	// map[string]any for ExtKeyword and the pydantic codes.
	Value  any
	Method string // of codes 3 and 5; empty in 5 is written as "model_validate_json"
	// Data is the whole payload if the code is another one, or if the payload does not
	// have the form of its code. If it is not nil, only Data is written, and the fields
	// above are empty.
	Data []byte

	order []byte // Value as it was read, if map keys in it were not sorted
}

// MayBeDelta reports whether t may decode to a DeltaSnapshot. It looks only at the first bytes;
// false is certain.
func MayBeDelta(t Typed) bool {
	if t.Kind != KindMsgpack {
		// Those of other kinds hold none, unless they are encrypted.
		_, _, encrypted := cutKind(t.Kind)
		return encrypted
	}
	c := newCursor(t.Data)
	it, err := c.next()
	return err != nil || it.class == cExt && it.code == ExtDelta
}

// NewExt returns an extension of one of the codes 0 to 5. Method matters to
// ExtMethod and ExtPydanticV2 alone.
func NewExt(code int8, module, name string, value any, method string) *Ext {
	return &Ext{Code: code, Module: module, Name: name, Value: value, Method: method}
}

// Args are the positional arguments: Value of ExtPositional, or Value alone of
// the codes that take one argument. It is nil for anything else.
func (x *Ext) Args() []any {
	switch x.Code {
	case ExtPositional:
		args, _ := x.Value.([]any)
		return args
	case ExtSingle, ExtMethod:
		if x.Data == nil {
			return []any{x.Value}
		}
	}
	return nil
}

// Fields are the named arguments: Value of ExtKeyword and of the pydantic
// codes. It is the map itself, not a copy; nil for anything else.
func (x *Ext) Fields() map[string]any {
	switch x.Code {
	case ExtKeyword, ExtPydanticV1, ExtPydanticV2:
		fields, _ := x.Value.(map[string]any)
		return fields
	}
	return nil
}

// Equal reports whether x and y hold the same data. It ignores the order of map keys.
func (x *Ext) Equal(y *Ext) bool {
	if x == nil || y == nil {
		return x == y
	}
	a, b := *x, *y
	a.order, b.order = nil, nil
	return reflect.DeepEqual(a, b)
}

// namedPayload is the number of elements in the payload of code: [module, name, value] or
// [module, name, value, method].
func namedPayload(code int8) (elements int, ok bool) {
	switch code {
	case ExtSingle, ExtPositional, ExtKeyword, ExtPydanticV1:
		return 3, true
	case ExtMethod, ExtPydanticV2:
		return 4, true
	}
	return 0, false
}
