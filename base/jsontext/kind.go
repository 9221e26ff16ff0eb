package jsontext

import "reflect"

// Kind returns the kind of v in words, for errors that people read who may not write Go: "a string", "a
// list". It includes the name of a named type.
func Kind(v any) string { return KindOf(reflect.TypeOf(v)) }

// KindOf is Kind for a type. Nil is that of nil.
func KindOf(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	kind := PlainKindOf(t)
	if t != nil && t.PkgPath() != "" && kind != t.String() {
		kind += " (" + t.String() + ")"
	}
	return kind
}

// PlainKindOf is KindOf without the name of a named type, for who does not write Go at all.
func PlainKindOf(t reflect.Type) string {
	if t == nil {
		return "null"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return PlainKindOf(t.Elem())
	case reflect.Bool:
		return "a boolean"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return t.String()
}
