package channel

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/saver/serde"
)

// TypeError: a value cannot become the type of the channel without loss.
type TypeError struct {
	Want reflect.Type
	Got  any
	Err  error // underlying cause, may be nil
}

// Error names both types, and where in the value they are.
func (e *TypeError) Error() string { return e.say(jsontext.KindOf) }

// Plain is Error without the names of Go types, for who gave the value over HTTP.
func (e *TypeError) Plain() string { return e.say(jsontext.PlainKindOf) }

func (e *TypeError) say(kind func(reflect.Type) string) string {
	at, want, got, cause := "", e.Want, reflect.TypeOf(e.Got), e.Err
	var inside *serde.TypeError
	if errors.As(e.Err, &inside) {
		if at = strings.TrimPrefix(strings.TrimPrefix(inside.Path, "$"), "."); at != "" {
			at += ": "
		}
		want, got = inside.Types()
		cause = inside.Err
	}
	s := at + "want " + kind(want) + ", got " + kind(got)
	if cause != nil {
		s += ": " + cause.Error()
	}
	return s
}

// Unwrap returns the underlying cause.
func (e *TypeError) Unwrap() error { return e.Err }

// Convert makes a T of v. v may be a T, a number of another type if no digit is lost, or
// plain data, which is converted field by field.
func Convert[T any](v any) (T, error) {
	if x, ok := v.(T); ok {
		return x, nil
	}
	var zero T
	want := reflect.TypeFor[T]()
	if v == nil {
		switch want.Kind() {
		case reflect.Interface, reflect.Pointer, reflect.Slice, reflect.Map, reflect.Func, reflect.Chan:
			return zero, nil
		}
		return zero, &TypeError{Want: want, Got: v}
	}
	rv := reflect.ValueOf(v)
	if out, ok := convertNumber(rv, want); ok {
		return out.Interface().(T), nil
	}
	if otherKind(rv.Kind(), want) {
		misfit := &TypeError{Want: want, Got: v}
		if isNumber(rv.Kind()) && isNumber(want.Kind()) { // the words may be the same
			misfit.Err = fmt.Errorf("%v does not fit %s", v, want)
		}
		return zero, misfit
	}
	if rv.Type().ConvertibleTo(want) && rv.Kind() == want.Kind() {
		return rv.Convert(want).Interface().(T), nil
	}
	var out T
	if err := serde.Assign(&out, v); err != nil {
		return zero, &TypeError{Want: want, Got: v, Err: err}
	}
	return out, nil
}

func isScalar(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Complex128 || k == reflect.String
}

// convertNumber converts between number types if no digit is lost.
func convertNumber(v reflect.Value, want reflect.Type) (reflect.Value, bool) {
	if !isNumber(v.Kind()) || !isNumber(want.Kind()) {
		return reflect.Value{}, false
	}
	out := v.Convert(want)
	if back := out.Convert(v.Type()); !back.Equal(v) {
		return reflect.Value{}, false
	}
	switch { // a sign that wraps around is restored when converted back
	case v.CanInt() && v.Int() < 0 && out.CanUint(),
		v.CanUint() && v.Uint() > math.MaxInt64 && out.CanInt(),
		v.CanInt() && out.CanFloat() && !exactFloat(v.Int()),
		v.CanUint() && out.CanFloat() && v.Uint() > 1<<53:
		return reflect.Value{}, false
	}
	return out, true
}

func exactFloat(n int64) bool { return n >= -(1<<53) && n <= 1<<53 }

func isNumber(k reflect.Kind) bool {
	return k >= reflect.Int && k <= reflect.Uint64 || k == reflect.Float32 || k == reflect.Float64
}

// decode reads a stored value as a T.
func decode[T any](v Stored) (T, error) {
	var out T
	if _, dynamic := any(&out).(*any); dynamic {
		x, err := v.Any()
		if err != nil || x == nil {
			return out, err
		}
		return x.(T), nil
	}
	err := v.Decode(&out)
	return out, err
}

func restoreError(key string, err error) error { return &RestoreError{Key: key, Err: err} }

// RestoreError: the stored value of a channel does not fit the channel, because the graph's
// channels changed since the checkpoint was written, or it cannot be read. Nothing was
// changed, and a graph with the old channel can go on.
type RestoreError struct {
	Key string // the channel
	Err error  // a *TypeError, or the error of reading the value
}

// Error names the channel.
func (e *RestoreError) Error() string { return fmt.Sprintf("restore channel %q: %v", e.Key, e.Err) }

// Unwrap returns the cause.
func (e *RestoreError) Unwrap() error { return e.Err }

// ConvertInto is Convert for a type that is not known at compile time. dst is a non-nil
// pointer to a value of that type.
func ConvertInto(dst, v any) error {
	want := reflect.TypeOf(dst).Elem()
	rv := reflect.ValueOf(v)
	if v != nil {
		if out, ok := convertNumber(rv, want); ok {
			reflect.ValueOf(dst).Elem().Set(out)
			return nil
		}
	}
	if err := serde.Assign(dst, v); err != nil {
		return &TypeError{Want: want, Got: v, Err: err}
	}
	return nil
}
