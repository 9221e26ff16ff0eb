package pgstore

import (
	"encoding/base64"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"

	"github.com/stele-go/stele/postgres/internal/jsonb"
)

// storedValue is a value as it is stored. LangGraph reads the JSON. A value that JSON cannot hold
// exactly is in exact as well.
type storedValue struct {
	json  string
	exact *serde.Typed
	size  int // of the serialized value
}

// encodeValue serializes a value. It returns the error of the serializer, or one if the value is too
// large.
func encodeValue(codec serde.Serializer, key string, value map[string]any) (storedValue, error) {
	typed, err := codec.Encode(value)
	if err != nil {
		return storedValue{}, fmt.Errorf("key %q: %w", key, err)
	}
	out := storedValue{size: len(typed.Data)}
	if out.size > base.MaxValue {
		return storedValue{}, fmt.Errorf("key %q: value of %d bytes, the limit is %d: %w", key, out.size, base.MaxValue, saver.ErrTooLarge)
	}
	if encrypted(typed) {
		out.json, out.exact = "{}", &typed
		return out, nil
	}
	read, err := decodeExact(codec, typed)
	if err != nil {
		return storedValue{}, fmt.Errorf("key %q: %w", key, err)
	}
	text, err := jsonb.Append(nil, "value", read)
	if err != nil {
		out.exact = &typed
		if text, err = jsonb.Append(nil, "value", legible(reflect.ValueOf(read))); err != nil {
			return storedValue{}, fmt.Errorf("key %q: %w", key, err)
		}
	}
	out.json = string(text)
	return out, nil
}

func decodeExact(codec serde.Serializer, typed serde.Typed) (map[string]any, error) {
	v, err := codec.Decode(typed)
	if err != nil {
		return nil, fmt.Errorf("store item: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("store item: want a map of strings, got %T: %w", v, saver.ErrCorrupt)
	}
	return m, nil
}

func decodeValue(text []byte) (map[string]any, error) {
	var m map[string]any
	if err := jsonb.Decode(text, &m); err != nil {
		return nil, fmt.Errorf("store item: %w", err)
	}
	if m == nil {
		return nil, fmt.Errorf("store item is null: %w", saver.ErrCorrupt)
	}
	return jsonb.Plain(m).(map[string]any), nil
}

// legible returns a value in the form that programs see which read only JSON: times as RFC 3339, bytes
// in base64, types with a text form as that text, U+FFFD for bytes that a string cannot hold, and null
// for everything else.
func legible(v reflect.Value) any {
	for v.IsValid() && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil
	}
	switch x := v.Interface().(type) {
	case time.Time:
		return x.Format(time.RFC3339Nano)
	case []byte:
		return base64.StdEncoding.EncodeToString(x)
	case serde.ByteArray:
		return base64.StdEncoding.EncodeToString(x)
	case fmt.Stringer:
		return legibleText(x.String())
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.Uint()
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil
		}
		return f + 0 // without the sign of zero
	case reflect.String:
		return legibleText(v.String())
	case reflect.Slice, reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = legible(v.Index(i))
		}
		return list
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return nil
		}
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			m[legibleText(it.Key().String())] = legible(it.Value())
		}
		return m
	}
	return nil
}

func legibleText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
