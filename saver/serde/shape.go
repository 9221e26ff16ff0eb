package serde

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Shape describes how values of a type are stored: the kinds of Go that they are made of and the keys
// of structs, sorted. The names of types do not count, unless a type says itself how it is stored:
// Go's name without its package then stands for it. Equal structures have equal shapes, in every
// process. A type that contains itself is described once; where it comes again, ^n stands for the n-th
// struct around it, counted from the outside.
func Shape(t reflect.Type) string {
	var b strings.Builder
	shape(&b, t, nil)
	return b.String()
}

var ownForms = []reflect.Type{reflect.TypeFor[ValueEncoder](), reflect.TypeFor[ValueDecoder](), reflect.TypeFor[encoding.TextMarshaler](),
	reflect.TypeFor[encoding.TextUnmarshaler]()}

// hasOwnForm reports whether t says itself how it is stored.
func hasOwnForm(t reflect.Type) bool {
	return t.Name() != "" && t.Kind() != reflect.Interface &&
		(t == reflect.TypeFor[time.Time]() || slices.ContainsFunc(ownForms, func(f reflect.Type) bool {
			return t.Implements(f) ||
				reflect.PointerTo(t).Implements(f)
		}))
}

func shape(b *strings.Builder, t reflect.Type, around []reflect.Type) {
	if t == nil {
		b.WriteString("any")
		return
	}
	if hasOwnForm(t) {
		b.WriteString(t.Name())
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		b.WriteByte('*')
		shape(b, t.Elem(), around)
	case reflect.Slice:
		b.WriteString("[]")
		shape(b, t.Elem(), around)
	case reflect.Array:
		fmt.Fprintf(b, "[%d]", t.Len())
		shape(b, t.Elem(), around)
	case reflect.Map:
		b.WriteString("map[")
		shape(b, t.Key(), around)
		b.WriteByte(']')
		shape(b, t.Elem(), around)
	case reflect.Interface:
		b.WriteString("any")
	case reflect.Struct:
		if i := slices.Index(around, t); i >= 0 {
			fmt.Fprintf(b, "^%d", i)
			return
		}
		structShape(b, t, append(slices.Clip(around), t))
	default:
		b.WriteString(t.Kind().String())
	}
}

// structShape describes the fields that the encoder writes.
func structShape(b *strings.Builder, t reflect.Type, around []reflect.Type) {
	plan := planOf(t)
	fields := slices.Clone(plan.fields)
	slices.SortFunc(fields, func(x, y planField) int { return strings.Compare(x.name, y.name) })
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(b, "%q ", f.name)
		shape(b, fieldType(t, f.index), around)
	}
	if plan.extra != nil {
		b.WriteString("; ...")
	}
	b.WriteByte('}')
}

// fieldType is the type of the field that index leads to, also through embedded pointers.
func fieldType(t reflect.Type, index []int) reflect.Type {
	for i, x := range index {
		if i > 0 && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		t = t.Field(x).Type
	}
	return t
}
