package serde

import (
	"encoding"
	"fmt"
	"reflect"

	"github.com/tinylib/msgp/msgp"
)

var (
	errorType           = reflect.TypeFor[error]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// reflected writes types that plain and native do not handle: registered types, those that
// encode themselves, errors, types with a text form, and others by their kind.
func (e *encoder) reflected(v reflect.Value) error {
	t := v.Type()
	if reg := e.c.opts.Registry.byType[t]; reg != nil {
		return e.registered(reg, v)
	}
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		return e.pointed(v)
	}
	switch {
	case encodesItself(t):
		return e.itself(v)
	case t.Implements(errorType):
		return e.error(v)
	case t.Implements(textMarshalerType):
		return e.text(v)
	case v.CanAddr() && reflect.PointerTo(t).Implements(textMarshalerType):
		return e.text(v.Addr())
	}
	return e.kind(v)
}

// pointed follows a pointer, unless the pointer type implements error or a text form: then that is
// written.
func (e *encoder) pointed(v reflect.Value) error {
	if v.IsNil() {
		e.buf = append(e.buf, mNil)
		return nil
	}
	t := v.Type()
	if t.Kind() == reflect.Pointer && !isNative(t.Elem()) && e.c.opts.Registry.byType[t.Elem()] == nil && !encodesItself(t.Elem()) {
		switch {
		case t.Implements(errorType):
			return e.error(v)
		case t.Implements(textMarshalerType):
			return e.text(v)
		}
	}
	if err := e.enter(); err != nil {
		return e.fail(v.Interface(), err)
	}
	e.fill += rounded(int64(v.Type().Elem().Size()))
	err := e.element(v.Elem())
	e.leave()
	return err
}

// element writes a part of a Go value. If possible it does not box it in an interface, which
// also keeps it addressable.
func (e *encoder) element(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Struct, reflect.Array:
		if !isNative(v.Type()) && !e.guide.on {
			return e.reflected(v)
		}
	case reflect.Interface:
		if v.IsNil() {
			return e.value(nil)
		}
	}
	if !v.CanInterface() {
		return e.fail(nil, fmt.Errorf("unexported %s: %w", v.Type(), ErrUnsupported))
	}
	return e.value(v.Interface())
}

func (e *encoder) error(v reflect.Value) error {
	if absent(v, errorType) {
		return e.value(nil)
	}
	e.buf = appendStr(e.buf, v.Interface().(error).Error())
	return nil
}

func (e *encoder) text(v reflect.Value) error {
	if err := CheckType(v.Type()); err != nil {
		return e.fail(v.Interface(), err)
	} else if absent(v, textMarshalerType) {
		return e.value(nil)
	}
	b, err := v.Interface().(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return e.fail(v.Interface(), err)
	}
	e.buf = appendStr(e.buf, string(b))
	return nil
}

func (e *encoder) kind(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Bool:
		e.buf = msgp.AppendBool(e.buf, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.buf = appendInt(e.buf, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		e.buf = msgp.AppendUint64(e.buf, v.Uint())
	case reflect.Float32, reflect.Float64:
		e.buf = msgp.AppendFloat64(e.buf, v.Float())
	case reflect.String:
		e.buf = appendStr(e.buf, v.String())
	case reflect.Slice, reflect.Array:
		return e.list(v)
	case reflect.Map:
		return e.reflectMap(v)
	case reflect.Struct:
		return e.structMap(v)
	default: // chan, func, complex, unsafe.Pointer
		return e.fail(v.Interface(), ErrUnsupported)
	}
	return nil
}

func (e *encoder) list(v reflect.Value) error {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if v.Kind() == reflect.Array && !v.CanAddr() {
			addressable := reflect.New(v.Type()).Elem()
			addressable.Set(v)
			v = addressable
		}
		e.buf = msgp.AppendBytes(e.buf, v.Bytes())
		return nil
	}
	if err := e.enter(); err != nil {
		return e.fail(v.Interface(), err)
	}
	n := v.Len()
	e.fill += sliceCost(n, v.Type().Elem().Size())
	e.buf = msgp.AppendArrayHeader(e.buf, uint32(n))
	for i := range n {
		if err := e.element(v.Index(i)); err != nil {
			return within(err, indexSegment(i))
		}
	}
	e.leave()
	return nil
}

// reflectMap converts a map to one of the two map types that the encoder handles.
func (e *encoder) reflectMap(v reflect.Value) error {
	t := v.Type()
	e.fill += fillMapCost(v.Len(), t.Key().Size(), t.Elem().Size())
	if t.Key().Kind() == reflect.String && !t.Key().Implements(textMarshalerType) && !isNative(t.Key()) {
		base := len(e.pairs)
		for it := v.MapRange(); it.Next(); {
			e.pairs = append(e.pairs, pair{it.Key().String(), it.Value().Interface()})
		}
		return e.sortedPairs(v.Interface(), base)
	}
	pairs := make([]anyPair, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		key, err := e.key(it.Key().Interface())
		if err != nil {
			return err
		}
		pairs = append(pairs, anyPair{key, it.Value().Interface()})
	}
	if err := e.enter(); err != nil {
		return e.fail(v.Interface(), err)
	}
	e.buf = msgp.AppendMapHeader(e.buf, uint32(len(pairs)))
	if err := e.sortedAnyPairs(v.Interface(), pairs); err != nil {
		return err
	}
	e.leave()
	return nil
}

// reflectKey handles keys that mapKeyOf does not: types with a text form, and others by their
// kind.
func (e *encoder) reflectKey(k any) (mapKey, error) {
	if tm, ok := k.(encoding.TextMarshaler); ok {
		err := CheckType(reflect.TypeOf(k))
		var b []byte
		switch {
		case err != nil:
		case absent(reflect.ValueOf(k), textMarshalerType):
			err = fmt.Errorf("nil: %w", ErrUnsupported)
		default:
			b, err = tm.MarshalText()
		}
		if err != nil {
			return mapKey{}, e.fail(k, fmt.Errorf("map key: %w", err))
		}
		return mapKey{rank: rankStr, s: string(b)}, nil
	}
	v := reflect.ValueOf(k)
	var plain any
	switch v.Kind() {
	case reflect.Bool:
		plain = v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		plain = v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		plain = v.Uint()
	case reflect.Float32, reflect.Float64:
		plain = v.Float()
	case reflect.String:
		plain = v.String()
	default:
		return mapKey{}, e.fail(k, fmt.Errorf("map key: %w", ErrUnsupported))
	}
	key, _ := mapKeyOf(plain) // each of these is listed there
	return key, nil
}

// structMap writes an unregistered struct as a map of its fields, sorted.
func (e *encoder) structMap(v reflect.Value) error {
	plan := planOf(v.Type())
	if len(plan.fields) == 0 && plan.extra == nil && v.NumField() > 0 {
		return e.fail(v.Interface(), fmt.Errorf("struct without exported fields: %w", ErrUnsupported))
	}
	e.fill += plan.embedded
	base := len(e.pairs)
	for i := range plan.fields {
		f := &plan.fields[i]
		fv, ok := f.in(v)
		if !ok || (f.omitEmpty && isEmpty(fv)) {
			continue
		}
		e.pairs = append(e.pairs, pair{f.name, boxed(fv)})
	}
	extra := plan.extraPairs(v)
	e.fill += extraCost * int64(len(extra))
	e.pairs = append(e.pairs, extra...)
	return e.sortedPairs(v.Interface(), base)
}

// registered writes v as the Python type it is registered as.
func (e *encoder) registered(reg *registration, v reflect.Value) error {
	e.fill += registeredCost(reg.goType)
	method := ""
	if reg.code == ExtPydanticV2 {
		method = pydanticMethod
	}
	if reg.code == ExtSingle {
		return e.named(reg.code, reg.name.Module, reg.name.Name, bare(v), method)
	}
	plan := planOf(v.Type())
	e.fill += plan.embedded
	list := make(fieldList, 0, len(plan.fields))
	for i := range plan.fields {
		f := &plan.fields[i]
		fv, ok := f.in(v)
		if !ok || (f.omitEmpty && isEmpty(fv)) {
			continue
		}
		list = append(list, pair{f.name, boxed(fv)})
	}
	extra := plan.extraPairs(v)
	e.fill += extraCost * int64(len(extra))
	list = append(list, extra...)
	return e.named(reg.code, reg.name.Module, reg.name.Name, list, method)
}

// boxed is a field as an interface value. For a struct or array it is a pointer, so that a
// text form with a pointer receiver is found and large values are not copied.
func boxed(v reflect.Value) any {
	if k := v.Kind(); (k == reflect.Struct || k == reflect.Array) && v.CanAddr() {
		return v.Addr().Interface()
	}
	return v.Interface()
}

// bare converts a value to its unregistered base type. Otherwise the encoder would not
// terminate.
func bare(v reflect.Value) any {
	var t reflect.Type
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return v.Uint()
	case reflect.Float32, reflect.Float64:
		return v.Float()
	case reflect.Slice:
		t = reflect.SliceOf(v.Type().Elem())
	case reflect.Array:
		t = reflect.ArrayOf(v.Len(), v.Type().Elem())
	case reflect.Map:
		t = reflect.MapOf(v.Type().Key(), v.Type().Elem())
	default:
		return nil
	}
	return v.Convert(t).Interface()
}
