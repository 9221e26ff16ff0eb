// Package frozen has values that everybody may read and nobody can change.
package frozen

// Value is a T that does not change any more. It is safe for concurrent use, as far as what T refers
// to is. The zero Value holds nothing, and Get of it panics.
type Value[T any] struct{ v *T }

// Of freezes a copy of v.
func Of[T any](v T) Value[T] { return Value[T]{&v} }

// Get is a copy of the value.
func (f Value[T]) Get() T { return *f.v }
