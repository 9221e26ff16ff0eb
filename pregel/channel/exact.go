package channel

import (
	"encoding"
	"fmt"
	"reflect"

	"github.com/stele-go/stele/saver/serde"
)

// ExactOf is LastValue for a type that is not known at compile time. Unlike LastValueOf it
// converts what is written, so that its value has type t before a restart and after it. A
// nil write is the zero value of t.
func ExactOf(t reflect.Type) Channel { return &exact{typ: t} }

// exact is the channel of ExactOf.
type exact struct {
	base
	slot[any]
	typ reflect.Type
}

// Named implements Channel.
func (c *exact) Named(key string) Channel { return &exact{base: base{key}, typ: c.typ} }

// Copy implements Channel.
func (c *exact) Copy() Channel { d := *c; return &d }

// isSteady marks the channel for IsSteady.
func (c *exact) isSteady() {}

// Restore implements Channel.
func (c *exact) Restore(v Stored) (Channel, error) {
	d := &exact{base: c.base, typ: c.typ}
	if v == nil {
		return d, nil
	}
	x, err := decodeAs(c.typ, v)
	if err != nil {
		return nil, restoreError(c.key, err)
	}
	d.put(clip(x))
	return d, nil
}

// Update hides spare capacity of what is written, so that nodes that append to their input
// do not share it.
func (c *exact) Update(values []any) (bool, error) {
	switch len(values) {
	case 0:
		return false, nil
	case 1:
	default:
		return false, &UpdateError{Channel: c.key, Reason: oneValue, Code: CodeConcurrentUpdate}
	}
	v, err := convertTo(c.typ, values[0])
	if err != nil {
		return false, c.typeError(err)
	}
	c.put(clip(v))
	return true, nil
}

// Equal implements Channel.
func (c *exact) Equal(other Channel) bool {
	o, ok := other.(*exact)
	return ok && o.typ == c.typ
}

// isLastValue lets a schema recognise a plain declaration.
func (c *exact) isLastValue() {}

// AppendOf is Reduce with Append for a slice type that is not known at compile time.
func AppendOf(t reflect.Type) (Channel, error) {
	if t == nil || t.Kind() != reflect.Slice {
		return nil, fmt.Errorf("append needs a slice, not %v", t)
	}
	return newExactFold("append", t, func(v, w reflect.Value) reflect.Value {
		if w.Len() == 1 { // as most are, and without a slice of v's end
			return reflect.Append(v, w.Index(0))
		}
		return reflect.AppendSlice(v, w)
	}), nil
}

// AddOf is Reduce with Add for a type of numbers or strings that is not known at compile
// time.
func AddOf(t reflect.Type) (Channel, error) {
	var add func(out, v, w reflect.Value)
	switch zero := reflect.Zero(t); {
	case zero.CanInt():
		add = func(out, v, w reflect.Value) { out.SetInt(v.Int() + w.Int()) }
	case zero.CanUint():
		add = func(out, v, w reflect.Value) { out.SetUint(v.Uint() + w.Uint()) }
	case zero.CanFloat():
		add = func(out, v, w reflect.Value) { out.SetFloat(v.Float() + w.Float()) }
	case t.Kind() == reflect.String:
		add = func(out, v, w reflect.Value) { out.SetString(v.String() + w.String()) }
	default:
		return nil, fmt.Errorf("add needs a number or a string, not %v", t)
	}
	return newExactFold("add", t, func(v, w reflect.Value) reflect.Value {
		out := reflect.New(t).Elem()
		add(out, v, w)
		return out
	}), nil
}

// MergeOf is Reduce with MergeMaps for a map type that is not known at compile time.
func MergeOf(t reflect.Type) (Channel, error) {
	if t == nil || t.Kind() != reflect.Map {
		return nil, fmt.Errorf("merge needs a map, not %v", t)
	}
	return newExactFold("merge", t, func(v, w reflect.Value) reflect.Value {
		out := reflect.MakeMapWithSize(t, v.Len()+w.Len())
		for _, m := range []reflect.Value{v, w} {
			for it := m.MapRange(); it.Next(); {
				out.SetMapIndex(it.Key(), it.Value())
			}
		}
		return out
	}), nil
}

// exactFold is a fold whose values and writes have a type that is not known at compile time.
type exactFold struct {
	fold[any, any]
	typ reflect.Type
}

func newExactFold(reducer string, t reflect.Type, reduce func(v, w reflect.Value) reflect.Value) *exactFold {
	c := &exactFold{typ: t}
	c.reducer = reducer
	c.initial = func() (any, bool) {
		switch t.Kind() {
		case reflect.Slice:
			return reflect.MakeSlice(t, 0, 0).Interface(), true
		case reflect.Map:
			return reflect.MakeMap(t).Interface(), true
		}
		return reflect.Zero(t).Interface(), true
	}
	c.reduce = func(v, w any) (any, error) {
		return reduce(reflect.ValueOf(v), reflect.ValueOf(w)).Interface(), nil
	}
	c.value, c.set = c.initial()
	return c
}

func (c *exactFold) wrap(ch Channel) *exactFold {
	return &exactFold{fold: *ch.(*fold[any, any]), typ: c.typ} //nolint:errcheck // the methods of fold return folds
}

// Named implements Channel.
func (c *exactFold) Named(key string) Channel { return c.wrap(c.fold.Named(key)) }

// Copy implements Channel.
func (c *exactFold) Copy() Channel {
	d := *c
	d.value = clip(c.value)
	return &d
}

// Restore also reads what the channel stored while it was a delta channel.
func (c *exactFold) Restore(v Stored) (Channel, error) {
	d := c.wrap(c.fresh(c.key))
	if v == nil {
		return d, nil
	}
	x, isSnapshot, err := unwrapSnapshot[any](v)
	if err == nil {
		if isSnapshot {
			x, err = convertTo(c.typ, x)
		} else {
			x, err = decodeAs(c.typ, v)
		}
	}
	if err != nil {
		return nil, restoreError(c.key, err)
	}
	d.put(x)
	return d, nil
}

// Update implements Channel.
func (c *exactFold) Update(values []any) (bool, error) {
	typed, err := c.convert(values)
	if err != nil {
		return false, err
	}
	return c.fold.Update(typed)
}

// check is Update without the reducer.
func (c *exactFold) check(values []any) error {
	typed, err := c.convert(values)
	if err != nil {
		return err
	}
	return c.fold.check(typed)
}

// convert makes every write one of the channel's type.
func (c *exactFold) convert(values []any) ([]any, error) {
	out := values
	for i, v := range values {
		var x any
		var err error
		if ow, ok := serde.AsOverwrite(v); ok {
			ow.Value, err = convertTo(c.typ, ow.Value)
			x = ow
		} else if reflect.TypeOf(v) == c.typ {
			continue
		} else {
			x, err = convertTo(c.typ, v)
		}
		if err != nil {
			return nil, c.typeError(err)
		}
		if &out[0] == &values[0] {
			out = append([]any(nil), values...)
		}
		out[i] = x
	}
	return out, nil
}

// Equal implements Channel. As with fold, two reducers are taken as equal, because funcs cannot be
// compared.
func (c *exactFold) Equal(other Channel) bool {
	o, ok := other.(*exactFold)
	return ok && o.typ == c.typ
}

// decodeAs reads a stored value as a t.
func decodeAs(t reflect.Type, v Stored) (any, error) {
	p := reflect.New(t)
	if err := v.Decode(p.Interface()); err != nil {
		return nil, err
	}
	return p.Elem().Interface(), nil
}

// convertTo is Convert for a type that is not known at compile time.
func convertTo(t reflect.Type, v any) (any, error) {
	if v == nil {
		return reflect.Zero(t).Interface(), nil
	}
	rv := reflect.ValueOf(v)
	if rv.Type() == t || t.Kind() == reflect.Interface && rv.Type().AssignableTo(t) {
		return v, nil
	}
	if out, ok := convertNumber(rv, t); ok {
		return out.Interface(), nil
	}
	if otherKind(rv.Kind(), t) {
		return nil, &TypeError{Want: t, Got: v}
	}
	if rv.Type().ConvertibleTo(t) && rv.Kind() == t.Kind() {
		return rv.Convert(t).Interface(), nil
	}
	p := reflect.New(t)
	if err := serde.Assign(p.Interface(), v); err != nil {
		return nil, &TypeError{Want: t, Got: v, Err: err}
	}
	return p.Elem().Interface(), nil
}

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	valueDecoder    = reflect.TypeFor[serde.ValueDecoder]()
)

// otherKind reports whether a value of kind have cannot become a want, because one is a
// scalar and the other is none, or another. A type that reads its own text, or its own
// values, takes any scalar.
func otherKind(have reflect.Kind, want reflect.Type) bool {
	if p := reflect.PointerTo(want); isScalar(have) && (p.Implements(textUnmarshaler) || p.Implements(valueDecoder)) {
		return false
	}
	to := want
	for to.Kind() == reflect.Pointer {
		to = to.Elem()
	}
	if isNumber(have) && isNumber(to.Kind()) {
		return to == want // else serde.Assign converts what the pointer points to
	}
	return isScalar(have) != isScalar(to.Kind()) || isScalar(to.Kind()) && have != to.Kind()
}
