package serde

import "reflect"

// ValueEncoder is a type that returns another value to be stored in its place. Registered types, and
// those of this package, do not need it. A struct that embeds one, and has other fields, is refused;
// see CheckType. One whose embedded pointer is nil is stored as nil.
type ValueEncoder interface {
	// EncodeValue returns what is stored: a value of another type, often an *Ext. extra is
	// the memory, in bytes, that DecodeValue takes from its meter for that value. An error
	// refuses the value; Encode returns it in an *EncodeError.
	EncodeValue() (v any, extra int64, err error)
}

// ValueDecoder is a type that is filled from stored data by its own rules. Pointers implement
// it. DecodeInto and Assign ask it for data of any type but its own, except for nil, which is
// the zero value.
type ValueDecoder interface {
	// DecodeValue fills the receiver from v, a value as Decode returns it. It may keep v,
	// and must not change it. It calls meter, once or several times, before it allocates
	// memory of a size that depends on v. An error of meter ends it. Any other error is
	// returned in a *TypeError.
	DecodeValue(v any, meter func(bytes int64) error) error
}

// Fields is a map whose keys are written in the order given. It decodes to a map. A key that
// is there twice is written twice, and cannot be read.
type Fields []Field

// Field is a key of Fields.
type Field struct {
	Name  string
	Value any
}

// WithValue returns a copy of x with another Value. The copy writes the keys that x was decoded
// with in the same order.
func (x *Ext) WithValue(v any) *Ext {
	clone := *x
	clone.Value = v
	return &clone
}

var (
	valueEncoderType = reflect.TypeFor[ValueEncoder]()
	valueDecoderType = reflect.TypeFor[ValueDecoder]()
)

// encodesItself reports whether a value of t, which is no pointer, is a ValueEncoder.
func encodesItself(t reflect.Type) bool {
	return t.PkgPath() != "" && t.Implements(valueEncoderType)
}

// itself writes the value that a ValueEncoder returns. Values that return one another without end are
// refused like others that are nested too deep.
func (e *encoder) itself(v reflect.Value) error {
	if p := promotionOf(v.Type()); p.err != nil {
		return e.fail(v.Interface(), p.err)
	} else if len(p.from) > 0 && absent(v, valueEncoderType) {
		return e.value(nil)
	}
	x, extra, err := v.Interface().(ValueEncoder).EncodeValue()
	if err != nil {
		return e.fail(v.Interface(), err)
	}
	if err := e.enter(); err != nil {
		return e.fail(v.Interface(), err)
	}
	e.fill += extra
	err = e.value(x)
	e.leave()
	return err
}

// decodeItself lets dst fill itself from v. ok is false if it is no ValueDecoder.
func (f *filler) decodeItself(dst reflect.Value, v any) (ok bool, err error) {
	t := dst.Type()
	if t.PkgPath() == "" || !dst.CanAddr() || !reflect.PointerTo(t).Implements(valueDecoderType) {
		return false, nil
	}
	if err := CheckType(t); err != nil {
		return true, misfit(dst, v, err)
	} else if !present(dst, valueDecoderType) {
		return true, misfit(dst, v, nil)
	}
	var spent error
	err = dst.Addr().Interface().(ValueDecoder).DecodeValue(v, func(bytes int64) error {
		spent = f.budget.spend(max(bytes, 0))
		return spent
	})
	switch {
	case spent != nil:
		return true, spent
	case err != nil:
		return true, misfit(dst, v, err)
	}
	return true, nil
}
