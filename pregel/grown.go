package pregel

import (
	"math"
	"reflect"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/serde"
)

// A list that a superstep appended to is serialized from where it grew: a chat
// that has got long costs what was said last.

const (
	// minGrown is the size below which serializing a list again costs little, and
	// maxGrown that above which its bytes are not kept for the next superstep.
	minGrown = 1 << 10
	maxGrown = 8 << 20
)

// encodedList is the list a channel had when it was last stored, and its bytes,
// which the saver has as well: neither is changed.
type encodedList struct {
	value reflect.Value
	typed serde.Typed
}

// encodeChannel is encode for a channel of a checkpoint.
func (l *loop) encodeChannel(ch string, v any) (saver.Value, error) {
	list := reflect.ValueOf(v)
	codec, ok := serde.GrowerOf(l.codec)
	if !ok || list.Kind() != reflect.Slice {
		delete(l.lists, ch)
		return l.encode("", ch, v)
	}
	was, known := l.lists[ch]
	delete(l.lists, ch)
	var typed serde.Typed
	if n := appended(was.value, list); known && n > 0 {
		if g, ok := codec.EncodeGrown(was.typed, v, n); ok {
			b := append(make([]byte, 0, g.Len(len(was.typed.Data))), g.Head...)
			typed = serde.Typed{Kind: was.typed.Kind, Data: append(append(b, was.typed.Data[g.From:]...), g.Tail...)}
		}
	}
	if typed.Kind == "" {
		whole, err := l.encode("", ch, v)
		if err != nil {
			return saver.Value{}, err
		}
		if typed, err = whole.Typed(); err != nil {
			return saver.Value{}, err
		}
	}
	if n := len(typed.Data); n >= minGrown && n <= maxGrown {
		if l.lists == nil {
			l.lists = map[string]encodedList{}
		}
		l.lists[ch] = encodedList{list, typed}
	}
	return saver.ValueTyped(typed), nil
}

// appended is how many elements were appended to was to make list; 0 if that is not
// what happened to it. What elements refer to is not looked into: nobody changes it.
func appended(was, list reflect.Value) int {
	if !was.IsValid() || was.Type() != list.Type() || list.Len() <= was.Len() {
		return 0
	}
	for i := range was.Len() {
		if !same(was.Index(i), list.Index(i)) {
			return 0
		}
	}
	return list.Len() - was.Len()
}

// same reports whether a and b, of one type, are one value: equal, and where they
// refer to something, to the same. It may say no of equal values.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Map, reflect.Pointer:
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
		return a.Type() == b.Type() && same(a, b)
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Array:
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return a.Equal(b)
	}
	return false
}
