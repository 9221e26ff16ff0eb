package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// Encode is the body of a message: a struct of this package with tags, or one of package saver
// that has a form on the wire, or a pointer to it. The error is that of serializing a value.
func Encode(m any) ([]byte, error) { return EncodeWith(nil, m) }

// EncodeWith is Encode, in which codec serializes the values that are not serialized yet.
func EncodeWith(codec serde.Serializer, m any) ([]byte, error) {
	v := reflect.ValueOf(m)
	if v.Kind() != reflect.Pointer {
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		v = p
	}
	if c, ok := v.Interface().(interface{ prepare() }); ok {
		c.prepare()
	}
	e := encoders.Get().(*encoder)
	e.codec = codec
	e.value(v.Elem(), element)
	b, err := bytes.Clone(e.b), e.err
	if cap(e.b) <= keepBuffer {
		*e = encoder{b: e.b[:0]}
		encoders.Put(e)
	}
	return b, err
}

// encoders have buffers that have grown. Without them a get takes a tenth more processor time.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// keepBuffer is the largest buffer that an idle encoder keeps.
const keepBuffer = 64 << 10

// MustEncode is Encode of a message without values. It panics if one cannot be serialized.
func MustEncode(m any) []byte {
	b, err := Encode(m)
	if err != nil {
		panic(err)
	}
	return b
}

// encoder appends messages. The first error stays, and bytes appended after it are invalid.
type encoder struct {
	b      []byte
	codec  serde.Serializer
	always []string // fields that are not left out
	last   string   // the name before the value: of a field or a channel
	err    error
}

// append appends *p.
func (e *encoder) append(p any) { e.value(reflect.ValueOf(p).Elem(), element) }

// value appends v, which is addressable.
func (e *encoder) value(v reflect.Value, f *field) {
	if v.Kind() == reflect.String { // most are
		e.name(v.String())
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		e.seconds(*p)
	case *time.Time:
		e.time(*p)
	case *saver.Version:
		e.version(*p)
	case *saver.Value:
		if f.null && p.IsZero() {
			e.b = msgp.AppendNil(e.b)
			return
		}
		e.typed(e.serialized(*p))
	case *map[string]any:
		e.typed(serde.Default().Encode(*p))
	case *saver.Metadata:
		e.typed(serde.Default().Encode(map[string]any(*p)))
	case *map[string]saver.Version:
		appendTable(e, *p, e.version)
	case *map[string]map[string]saver.Version:
		appendTable(e, *p, func(m map[string]saver.Version) { appendTable(e, m, e.version) })
	case *map[string]saver.Value:
		appendTable(e, *p, func(v saver.Value) { e.typed(e.serialized(v)) })
	case *map[string]saver.DeltaHistory:
		appendTable(e, *p, func(h saver.DeltaHistory) { e.value(reflect.ValueOf(&h).Elem(), element) })
	case *map[string]int64:
		appendTable(e, *p, func(n int64) { e.b = msgp.AppendInt64(e.b, n) })
	case *[ClientSize]byte:
		e.b = msgp.AppendBytes(e.b, p[:])
	case *Raw:
		e.b = append(e.b, *p...)
	case *store.Op:
		e.op(*p)
	case *indexOf:
		e.index(p)
	case *store.Item:
		e.append(itemOf(&store.Found{Item: *p}))
	case *store.Found:
		e.append(itemOf(p))
	default:
		e.kind(v, f)
	}
}

// kind appends a value by the kind of its type.
func (e *encoder) kind(v reflect.Value, f *field) {
	switch v.Kind() {
	case reflect.Bool:
		e.b = msgp.AppendBool(e.b, v.Bool() != f.not)
	case reflect.Int, reflect.Int64:
		n := v.Int()
		if f.limit && n == saver.NoResults {
			n = 0
		}
		e.b = msgp.AppendInt64(e.b, n)
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.b = msgp.AppendUint64(e.b, v.Uint())
	case reflect.Float32:
		e.b = msgp.AppendFloat32(e.b, float32(v.Float()))
	case reflect.Float64:
		e.b = msgp.AppendFloat64(e.b, v.Float())
	case reflect.Pointer:
		if v.IsNil() {
			e.b = msgp.AppendNil(e.b)
			return
		}
		e.value(v.Elem(), f)
	case reflect.Slice:
		if f.null && v.IsNil() {
			e.b = msgp.AppendNil(e.b)
			return
		}
		e.b = msgp.AppendArrayHeader(e.b, uint32(v.Len()))
		for i := range v.Len() {
			e.value(v.Index(i), element)
		}
	case reflect.Struct:
		e.object(v, shapeOf(v.Type()))
	default:
		panic(fmt.Sprintf("%v has no form on the wire", v.Type()))
	}
}

// object appends a struct. A map of fields has a header of 16 bits.
func (e *encoder) object(v reflect.Value, s *shape) {
	if s.list {
		e.b = msgp.AppendArrayHeader(e.b, uint32(len(s.fields)))
		for i := range s.fields {
			e.value(v.FieldByIndex(s.fields[i].index), &s.fields[i])
		}
		return
	}
	at, n := len(e.b), 0
	e.b = append(e.b, 0xde, 0, 0) // map 16
	for i := range s.fields {
		f := &s.fields[i]
		x := v.FieldByIndex(f.index)
		if f.omit && isEmpty(x) && !slices.Contains(e.always, f.name) {
			continue
		}
		n++
		e.name(f.name)
		e.value(x, f)
	}
	e.b[at+1], e.b[at+2] = byte(n>>8), byte(n)
}

// isEmpty reports whether a field with omitempty is left out.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*time.Time); ok {
			return t.IsZero()
		}
	}
	return v.IsZero()
}

func (e *encoder) name(s string) {
	e.last = s
	if utf8.ValidString(s) {
		e.b = msgp.AppendString(e.b, s)
	} else {
		e.b = msgp.AppendBytes(e.b, []byte(s))
	}
}

// serialized is a value's bytes. They are not copied if they are in memory.
func (e *encoder) serialized(v saver.Value) (serde.Typed, error) {
	if v.IsNative() {
		return v.Encode(e.codec)
	}
	return v.View()
}

func (e *encoder) typed(t serde.Typed, err error) {
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("%q: %w", e.last, err)
	}
	e.b = msgp.AppendArrayHeader(e.b, 2)
	e.name(t.Kind)
	e.b = msgp.AppendBytes(e.b, t.Data)
}

// seconds writes a time in seconds; a negative one means for ever.
func (e *encoder) seconds(d time.Duration) {
	if d < 0 {
		e.b = msgp.AppendInt(e.b, forEver)
	} else {
		e.b = msgp.AppendFloat64(e.b, d.Seconds())
	}
}

func (e *encoder) time(t time.Time) {
	us := int64(0)
	if !t.IsZero() {
		us = t.UnixMicro()
	}
	e.b = msgp.AppendInt64(e.b, us)
}

func (e *encoder) version(v saver.Version) {
	switch x := v.Any().(type) {
	case int64:
		e.b = msgp.AppendInt64(e.b, x)
	case float64:
		e.b = msgp.AppendFloat64(e.b, x)
	case string:
		e.name(x)
	default:
		e.b = msgp.AppendNil(e.b)
	}
}

// appendTable appends a map in the order of its names.
func appendTable[V any](e *encoder, m map[string]V, value func(V)) {
	e.b = msgp.AppendMapHeader(e.b, uint32(len(m)))
	names := make([]string, 0, len(m)) // slices.Sorted would allocate while it grows
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e.name(name)
		value(m[name])
	}
}
