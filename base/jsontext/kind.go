package jsontext

import "reflect"

// Kind returns the kind of v in words, for errors that people read who may not write Go: "a string", "a
// list". It includes the name of a named type.
func Kind(v any) string { return KindOf(reflect.TypeOf(v)) }

// KindOf is Kind for a type. Nil is that of nil.
func KindOf(t reflect.Type) string {
	if t == nil {
		return "null"
	}
	kind := ""
	switch t.Kind() {
	case reflect.Pointer:
		return KindOf(t.Elem())
	case reflect.Bool:
		kind = "a boolean"
	case reflect.String:
		kind = "a string"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		kind = "an integer"
	case reflect.Float32, reflect.Float64:
		kind = "a number"
	case reflect.Slice, reflect.Array:
		if kind = "a list"; t.Elem().Kind() == reflect.Uint8 {
			kind = "bytes"
		}
	case reflect.Map, reflect.Struct:
		kind = "an object"
	default:
		return t.String()
	}
	if t.PkgPath() != "" {
		kind += " (" + t.String() + ")"
	}
	return kind
}
