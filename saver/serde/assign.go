package serde

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// Assign fills dst, a non-nil pointer, from v, a value as Decode returns it. The rules are
// those of Codec.DecodeInto. dst may share memory with v afterwards. If v does not fit, the
// error is a *TypeError. There is no memory limit; it allocates what the parts of dst need
// that v has elements for.
func Assign(dst, v any) error { return (&filler{}).into(dst, v) }

// filler fills Go values with decoded data.
type filler struct {
	budget *budget // nil: no limit
}

func (f *filler) into(dst, v any) error {
	p := reflect.ValueOf(dst)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return &TypeError{Path: "$", Have: typeNameOf(v), Want: fmt.Sprintf("%T", dst), Err: errDst, want: reflect.TypeOf(dst), have: reflect.TypeOf(v)}
	}
	if err := f.assign(p.Elem(), v); err != nil {
		return prefixed(err, "$")
	}
	return nil
}

var (
	errDst      = errors.New("the destination must be a non-nil pointer")
	errOverflow = errors.New("the number does not fit")
	errLength   = errors.New("the length does not fit")
)

// prefixed adds a segment to the path of a TypeError.
func prefixed(err error, segment string) error {
	if e, ok := err.(*TypeError); ok { //nolint:errorlint // built below, never wrapped on the way up
		e.Path = segment + e.Path
	}
	return err
}

func misfit(dst reflect.Value, v any, err error) error {
	return &TypeError{Have: typeNameOf(v), Want: dst.Type().String(), Err: err, want: dst.Type(), have: reflect.TypeOf(v)}
}

func (f *filler) assign(dst reflect.Value, v any) error {
	if v == nil {
		switch dst.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
			dst.SetZero()
		}
		return nil
	}
	src := reflect.ValueOf(v)
	if src.Type().AssignableTo(dst.Type()) && (dst.Kind() != reflect.Map || dst.IsNil()) {
		dst.Set(src)
		return nil
	}
	if dst.Kind() == reflect.Pointer {
		if dst.IsNil() {
			if err := f.budget.spend(rounded(int64(dst.Type().Elem().Size()))); err != nil {
				return err
			}
			dst.Set(reflect.New(dst.Type().Elem()))
		}
		return f.assign(dst.Elem(), v)
	}
	if src.Kind() == reflect.Pointer && src.Type().Elem() == dst.Type() && !src.IsNil() {
		dst.Set(src.Elem()) // an *Ext, or what a registry builds, by value
		if x, ok := dst.Addr().Interface().(*Ext); ok {
			x.Data = bytes.Clone(x.Data) // it may still lie in the value being decoded; see settle
		}
		return nil
	}
	if ok, err := f.decodeItself(dst, v); ok {
		return err
	}
	if dst.CanAddr() && reflect.PointerTo(dst.Type()).Implements(textUnmarshalerType) {
		if text, ok := textOf(v); ok {
			if !present(dst, textUnmarshalerType) {
				return misfit(dst, v, nil)
			}
			if err := dst.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
				return misfit(dst, v, err)
			}
			return nil
		}
	}
	if x, ok := v.(*Ext); ok {
		if x == nil || x.Data != nil {
			return misfit(dst, v, nil)
		}
		return f.assign(dst, x.Value)
	}
	return f.assignKind(dst, v, src)
}

// textOf is the text to pass to UnmarshalText.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case Decimal:
		return string(v), true
	case fmt.Stringer:
		if isNative(reflect.TypeOf(v)) {
			return v.String(), true
		}
	}
	return "", false
}

func (f *filler) assignKind(dst reflect.Value, v any, src reflect.Value) error {
	switch dst.Kind() {
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			dst.SetBool(b)
			return nil
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64:
		return assignNumber(dst, v)
	case reflect.String:
		switch v.(type) {
		case int64, uint64: // numbers have a text, but not here
		default:
			if s, ok := textOf(v); ok {
				dst.SetString(s)
				return nil
			}
			if src.Kind() == reflect.String {
				dst.SetString(src.String())
				return nil
			}
		}
	case reflect.Slice:
		return f.assignSlice(dst, v, src)
	case reflect.Array:
		return f.assignArray(dst, v, src)
	case reflect.Map:
		return f.assignMap(dst, v)
	case reflect.Struct:
		if m, ok := v.(map[string]any); ok {
			return f.assignStruct(dst, m)
		}
		if src.Kind() == reflect.Struct && src.Type().ConvertibleTo(dst.Type()) {
			dst.Set(src.Convert(dst.Type()))
			return nil
		}
	}
	return misfit(dst, v, nil)
}

// assignNumber converts between number types if nothing is lost. A float32 may lose digits.
func assignNumber(dst reflect.Value, v any) error {
	fits := false
	switch n := v.(type) {
	case int64:
		fits = assignInt(dst, n)
	case uint64:
		if n <= math.MaxInt64 {
			fits = assignInt(dst, int64(n))
			break
		}
		switch f := float64(n); {
		case dst.CanUint():
			if fits = !dst.OverflowUint(n); fits {
				dst.SetUint(n)
			}
		case dst.CanFloat():
			if dst.Kind() == reflect.Float32 {
				f = float64(float32(n))
			}
			if fits = f < 1<<64 && uint64(f) == n; fits {
				dst.SetFloat(f)
			}
		}
	case float64:
		switch i := int64(n); { // what is out of range differs when converted back
		case dst.CanFloat():
			if fits = !dst.OverflowFloat(n); fits {
				dst.SetFloat(n)
			}
		case n == float64(i) && n < 1<<63:
			fits = assignInt(dst, i)
		}
	default:
		if src := reflect.ValueOf(v); src.CanInt() { // a Duration
			return assignNumber(dst, src.Int())
		}
		return misfit(dst, v, nil)
	}
	if !fits {
		return misfit(dst, v, errOverflow)
	}
	return nil
}

func assignInt(dst reflect.Value, i int64) (fits bool) {
	switch {
	case dst.CanInt():
		if fits = !dst.OverflowInt(i); fits {
			dst.SetInt(i)
		}
	case dst.CanUint():
		if fits = i >= 0 && !dst.OverflowUint(uint64(i)); fits {
			dst.SetUint(uint64(i))
		}
	default:
		f := float64(i)
		if dst.Kind() == reflect.Float32 {
			f = float64(float32(i))
		}
		if fits = f < 1<<63 && int64(f) == i; fits {
			dst.SetFloat(f)
		}
	}
	return fits
}

func (f *filler) assignSlice(dst reflect.Value, v any, src reflect.Value) error {
	if src.Kind() == reflect.Slice && src.Type().ConvertibleTo(dst.Type()) { // Set to []any, ByteArray to []byte
		dst.Set(src.Convert(dst.Type()))
		return nil
	}
	list, ok := listOf(v)
	if !ok {
		return misfit(dst, v, nil)
	}
	if err := f.budget.spend(sliceCost(len(list), dst.Type().Elem().Size())); err != nil {
		return err
	}
	out := reflect.MakeSlice(dst.Type(), len(list), len(list))
	for i, x := range list {
		if err := f.assign(out.Index(i), x); err != nil {
			return prefixed(err, indexSegment(i))
		}
	}
	dst.Set(out)
	return nil
}

func listOf(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case Set:
		return v, true
	case FrozenSet:
		return v, true
	case Deque:
		return v, true
	}
	return nil, false
}

// assignArray requires the exact length, so that the end of a list is never lost.
func (f *filler) assignArray(dst reflect.Value, v any, src reflect.Value) error {
	if src.Kind() == reflect.Array && src.Type().ConvertibleTo(dst.Type()) { // UUID to [16]byte
		dst.Set(src.Convert(dst.Type()))
		return nil
	}
	if b, ok := v.([]byte); ok && dst.Type().Elem().Kind() == reflect.Uint8 {
		if len(b) != dst.Len() {
			return misfit(dst, v, errLength)
		}
		reflect.Copy(dst, src)
		return nil
	}
	list, ok := listOf(v)
	if !ok {
		return misfit(dst, v, nil)
	}
	if len(list) != dst.Len() {
		return misfit(dst, v, errLength)
	}
	for i, x := range list {
		if err := f.assign(dst.Index(i), x); err != nil {
			return prefixed(err, indexSegment(i))
		}
	}
	return nil
}

// assignMap adds to an existing map, as encoding/json does.
func (f *filler) assignMap(dst reflect.Value, v any) error {
	t := dst.Type()
	n := 0
	switch m := v.(type) {
	case map[string]any:
		n = len(m)
	case map[any]any:
		n = len(m)
	default:
		return misfit(dst, v, nil)
	}
	if err := f.budget.spend(fillMapCost(n, t.Key().Size(), t.Elem().Size())); err != nil {
		return err
	}
	pairs, ok := v.(map[any]any)
	if !ok {
		pairs = make(map[any]any, n)
		for k, x := range v.(map[string]any) { //nolint:errcheck // the other of the two
			pairs[k] = x
		}
	}
	if dst.IsNil() {
		dst.Set(reflect.MakeMapWithSize(t, len(pairs)))
	}
	for k, x := range pairs {
		key, val := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if err := f.assignMapKey(key, k); err != nil {
			return prefixed(err, keySegment(fmt.Sprint(k)))
		}
		if err := f.assign(val, x); err != nil {
			return prefixed(err, keySegment(fmt.Sprint(k)))
		}
		dst.SetMapIndex(key, val)
	}
	return nil
}

// assignMapKey also reads numbers from strings, because every key in JSON is a string.
func (f *filler) assignMapKey(key reflect.Value, k any) error {
	err := f.assign(key, k)
	if s, ok := k.(string); ok && err != nil {
		if i, perr := strconv.ParseInt(s, 10, 64); perr == nil {
			return f.assign(key, i)
		}
	}
	return err
}

// assignStruct fills the fields that the map has. If no field has exactly the name, the value
// goes to a field that had it formerly, or whose name differs only in case, or else to the extra map.
func (f *filler) assignStruct(dst reflect.Value, m map[string]any) error {
	plan := planOf(dst.Type())
	exact := 0
	for i := range plan.fields {
		field := &plan.fields[i]
		x, ok := m[field.name]
		if !ok {
			continue
		}
		exact++
		if err := f.assignAt(dst, field.index, x); err != nil {
			return prefixed(err, keySegment(field.name))
		}
	}
	if exact == len(m) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(m)) { // sorted: of two spellings the same one wins each time
		if _, known := plan.byName[name]; known {
			continue
		}
		i, ok := plan.renamed(name, m)
		if !ok {
			i, ok = plan.fold(name)
		}
		if ok && !has(m, plan.fields[i].name) {
			if err := f.assignAt(dst, plan.fields[i].index, m[name]); err != nil {
				return prefixed(err, keySegment(name))
			}
		} else if plan.extra != nil {
			if err := f.addExtra(dst, plan.extra, name, m[name]); err != nil {
				return prefixed(err, keySegment(name))
			}
		}
	}
	return nil
}

// assignAt fills the field of dst that index leads to.
func (f *filler) assignAt(dst reflect.Value, index []int, x any) error {
	field, err := f.reach(dst, index)
	if err != nil {
		return err
	}
	return f.assign(field, x)
}

func has(m map[string]any, name string) bool {
	_, ok := m[name]
	return ok
}

// addExtra puts x into the map of unknown fields that index leads to.
func (f *filler) addExtra(dst reflect.Value, index []int, name string, x any) error {
	if err := f.budget.spend(extraCost); err != nil {
		return err
	}
	extra, err := f.reach(dst, index)
	if err != nil {
		return err
	}
	if extra.IsNil() {
		extra.Set(reflect.ValueOf(map[string]any{}))
	}
	extra.Interface().(map[string]any)[name] = x //nolint:errcheck // planStruct takes no other type
	return nil
}

// reach is fieldAt for writing. It allocates nil embedded pointers on the way.
func (f *filler) reach(v reflect.Value, index []int) (reflect.Value, error) {
	for i, x := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if err := f.budget.spend(rounded(int64(v.Type().Elem().Size()))); err != nil {
					return v, err
				}
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v, nil
}

// build makes the registered Go value for x. ok is false if x does not fit, or if b is too
// small.
func (r *registration) build(x *Ext, b *budget) (any, bool) {
	mark := b.mark()
	v, err := r.fill(x, &filler{b})
	if err != nil {
		b.restore(mark)
	}
	return v, err == nil
}

func (r *registration) fill(x *Ext, f *filler) (any, error) {
	if err := f.budget.spend(registeredCost(r.goType)); err != nil {
		return nil, err
	}
	p := reflect.New(r.goType)
	var err error
	if r.goType.Kind() == reflect.Struct {
		fields, ok := x.Value.(map[string]any)
		if !ok {
			return nil, misfit(p.Elem(), x.Value, nil)
		}
		err = f.assignStruct(p.Elem(), fields)
	} else if x.Value == nil {
		err = misfit(p.Elem(), nil, nil)
	} else {
		err = f.assignKind(p.Elem(), x.Value, reflect.ValueOf(x.Value))
	}
	if err != nil {
		return nil, err
	}
	if r.pointer {
		return p.Interface(), nil
	}
	return p.Elem().Interface(), nil
}
