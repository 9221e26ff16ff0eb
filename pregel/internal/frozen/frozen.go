// Package frozen has values that everybody may read and nobody can change, and finds out whether
// somebody changed one that is not among them.
package frozen

import (
	"math"
	"reflect"
)

// Value is a T that does not change any more. It is safe for concurrent use if the values that T refers
// to are. The zero Value holds nothing, and Get of it panics.
type Value[T any] struct{ v *T }

// Of freezes a copy of v.
func Of[T any](v T) Value[T] { return Value[T]{&v} }

// Get is a copy of the value.
func (f Value[T]) Get() T { return *f.v }

// Same reports whether a and b, of one type, are the same value: they are equal and refer to
// the same memory. It may return false for equal values.
func Same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Map, reflect.Pointer, reflect.Func, reflect.Chan:
		return a.UnsafePointer() == b.UnsafePointer()
	case reflect.Slice:
		return a.UnsafePointer() == b.UnsafePointer() && a.Len() == b.Len()
	case reflect.Float32, reflect.Float64:
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float()) // zeros have signs
	case reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		a, b = a.Elem(), b.Elem()
		return a.Type() == b.Type() && Same(a, b)
	case reflect.Struct:
		for i := range a.NumField() {
			if !Same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Array:
		for i := range a.Len() {
			if !Same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	return a.Comparable() && a.Equal(b)
}
