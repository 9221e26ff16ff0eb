package serde

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
)

// CheckType returns an error that wraps ErrUnsupported if the type is a struct whose values would be
// stored as one of its embedded fields, because its method EncodeValue or MarshalText is that of the
// field. The other fields would be lost. Encode refuses such values. A name or a tag does not help
// while the field is embedded: it needs a name of its own, or the struct its own method. The same goes
// for DecodeValue.
func CheckType(t reflect.Type) error { return promotionOf(t).err }

// promotion has the methods that a type takes from embedded fields.
type promotion struct {
	err error // why values of the type are refused
	// from has, for the methods by their interface, the index of the field whose method it is.
	from map[reflect.Type]int
}

var (
	promoted   sync.Map // reflect.Type → *promotion; types are as many as the program has
	unpromoted promotion

	jsonMarshalerType = reflect.TypeFor[json.Marshaler]()
)

// promotionOf finds which methods of t come from an embedded field. It looks once for each type.
func promotionOf(t reflect.Type) *promotion {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || isNative(t) {
		return &unpromoted
	}
	if p, ok := promoted.Load(t); ok {
		return p.(*promotion) //nolint:errcheck // holds nothing else
	}
	p := &promotion{from: map[reflect.Type]int{}}
	for _, on := range []reflect.Type{t, reflect.PointerTo(t)} {
		// Constant names, so that the linker need not keep every method of the program.
		if m, ok := on.MethodByName("EncodeValue"); ok && on == t {
			p.look(t, on, m, valueEncoderType, true)
		}
		if m, ok := on.MethodByName("DecodeValue"); ok {
			p.look(t, on, m, valueDecoderType, true)
		}
		if m, ok := on.MethodByName("MarshalText"); ok {
			p.look(t, on, m, textMarshalerType, !t.Implements(valueEncoderType) && !on.Implements(errorType))
		}
		if m, ok := on.MethodByName("UnmarshalText"); ok {
			p.look(t, on, m, textUnmarshalerType, false)
		}
		if m, ok := on.MethodByName("MarshalJSON"); ok {
			p.look(t, on, m, jsonMarshalerType, false)
		}
		if m, ok := on.MethodByName("Error"); ok {
			p.look(t, on, m, errorType, false)
		}
	}
	promoted.Store(t, p)
	return p
}

// look notes whether the method m of on, which is t or a pointer to it, is that of a field that t
// embeds. alone says that t is refused if it has other fields. iface is the interface that has m.
func (p *promotion) look(t, on reflect.Type, m reflect.Method, iface reflect.Type, alone bool) {
	if !on.Implements(iface) || on != t && t.Implements(iface) || !generated(m) {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous || !f.Type.Implements(iface) && (f.Type.Kind() == reflect.Pointer || on == t || !reflect.PointerTo(f.Type).Implements(iface)) {
			continue
		}
		p.from[iface] = i
		if alone && p.err == nil {
			p.err = checkOtherFields(t, i, m.Name)
		}
		return
	}
}

// checkOtherFields returns an error if t has fields beside field i, from which it takes the method: the
// method would lose them.
func checkOtherFields(t reflect.Type, i int, method string) error {
	f := t.Field(i)
	for j := range t.NumField() {
		other := t.Field(j)
		if name, opts, _ := tagOf(other); j != i && (other.IsExported() || other.Anonymous) && (name != "-" || len(opts) > 0) {
			return &promotedError{method, t, f.Name, other.Name}
		}
	}
	return CheckType(f.Type)
}

// promotedError tells why a type is refused.
type promotedError struct {
	method string
	typ    reflect.Type
	field  string
	lost   string
}

// Error names the type, its method, and the field that would be lost.
func (e *promotedError) Error() string {
	return fmt.Sprintf("%s of %v is that of the embedded %s, so field %s would be lost: %v", e.method, e.typ, e.field, e.lost, ErrUnsupported)
}

// Unwrap returns ErrUnsupported.
func (e *promotedError) Unwrap() error { return ErrUnsupported }

// checkPromoted returns an error if v, or a value in it that encoding/json reaches, takes MarshalJSON
// or MarshalText from an embedded field, so that its other fields are missing from the JSON.
func checkPromoted(v reflect.Value) error {
	if !v.IsValid() {
		return nil
	}
	t := v.Type()
	if k := v.Kind(); k == reflect.Pointer || k == reflect.Interface {
		return checkPromoted(v.Elem())
	}
	if err := CheckType(t); err != nil {
		return err
	}
	// encoding/json uses the first of these methods that v has.
	for _, m := range []struct {
		iface reflect.Type
		name  string
	}{{jsonMarshalerType, "MarshalJSON"}, {textMarshalerType, "MarshalText"}} {
		if !t.Implements(m.iface) && !(v.CanAddr() && reflect.PointerTo(t).Implements(m.iface)) {
			continue
		}
		i, ok := promotionOf(t).from[m.iface]
		if !ok {
			return nil
		}
		return cmp.Or(checkOtherFields(t, i, m.name), checkPromoted(v.Field(i)))
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		if k := t.Elem().Kind(); k < reflect.Array || k == reflect.String {
			return nil // they have no fields, and may be very many
		}
		for i := range v.Len() {
			if err := checkPromoted(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := errors.Join(checkPromoted(it.Key()), checkPromoted(it.Value())); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" {
				if err := checkPromoted(v.Field(i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// absent reports whether a method of iface cannot be called on v: v is nil, or the method is that of an
// embedded field that is nil.
func absent(v reflect.Value, iface reflect.Type) bool {
	for {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if v.IsNil() {
				return true
			}
			v = v.Elem()
		case reflect.Struct:
			i, ok := promotionOf(v.Type()).from[iface]
			if !ok {
				return false
			}
			v = v.Field(i)
		default:
			return false
		}
	}
}

// present makes a method of iface callable that fills dst: it allocates embedded pointers that are nil.
// It reports whether the method can be called.
func present(dst reflect.Value, iface reflect.Type) bool {
	for dst.Kind() == reflect.Struct {
		i, ok := promotionOf(dst.Type()).from[iface]
		if !ok {
			return true
		}
		dst = dst.Field(i)
		for dst.Kind() == reflect.Pointer || dst.Kind() == reflect.Interface {
			if dst.IsNil() {
				if dst.Kind() == reflect.Interface || !dst.CanSet() {
					return false
				}
				dst.Set(reflect.New(dst.Type().Elem()))
			}
			dst = dst.Elem()
		}
	}
	return true
}

// generated reports whether the compiler wrote the method, as it does for those of embedded
// fields. reflect does not tell.
func generated(m reflect.Method) bool {
	pc := m.Func.Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	return file == "<autogenerated>"
}
