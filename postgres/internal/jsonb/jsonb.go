// Package jsonb writes and reads JSON for columns of type jsonb, which keep numbers as decimals with
// their scale: 1.0 stays apart from 1, as Python needs it, if it is written so. There is no exponent,
// no negative zero, no NaN and no infinity, and strings are without U+0000.
package jsonb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
)

// Append appends plain data. A value that jsonb cannot hold exactly is an InvalidError about field.
func Append(dst []byte, field string, v any) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, x), nil
	case int64:
		return strconv.AppendInt(dst, x, 10), nil
	case uint64:
		return strconv.AppendUint(dst, x, 10), nil
	case float64:
		return appendFloat(dst, field, x)
	case string:
		return AppendString(dst, field, x)
	case []any:
		dst = append(dst, '[')
		for i, item := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = Append(dst, field+"["+strconv.Itoa(i)+"]", item); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		return AppendObject(dst, field, x, func(dst []byte, key string, v any) ([]byte, error) { return Append(dst, field+"."+key, v) })
	}
	return nil, saver.Invalidf(field, "%T cannot be stored as JSON; use nil, bools, numbers, strings, lists and maps of these", v)
}

// AppendObject appends m in no order: jsonb has one of its own. Errors about keys name field.
func AppendObject[V any](dst []byte, field string, m map[string]V, value func(dst []byte, key string, v V) ([]byte, error)) (_ []byte, err error) {
	open := byte('{')
	for key, v := range m {
		if dst, err = AppendString(append(dst, open), field, key); err != nil {
			return nil, err
		}
		if dst, err = value(append(dst, ':'), key, v); err != nil {
			return nil, err
		}
		open = ','
	}
	if len(m) == 0 {
		dst = append(dst, open)
	}
	return append(dst, '}'), nil
}

func appendFloat(dst []byte, field string, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 && math.Signbit(f) {
		return nil, saver.Invalidf(field, "%v cannot be stored as JSON", strconv.FormatFloat(f, 'g', -1, 64))
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if bytes.IndexByte(dst[from:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst, nil
}

// AppendString appends a string. A string that jsonb cannot hold is an InvalidError about field.
func AppendString(dst []byte, field, s string) ([]byte, error) {
	if err := pgdb.CheckText(field, s); err != nil {
		return nil, err
	}
	return jsontext.AppendString(dst, s), nil
}

// Decode reads JSON with its numbers as json.Number.
func Decode(text []byte, dst any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(dst); err != nil {
		return fmt.Errorf("%w: %w", saver.ErrCorrupt, err)
	}
	return nil
}

// Plain is decoded JSON as serde decodes plain data. A number with a point is a float, one
// without an integer, or a float if 64 bits do not hold it.
func Plain(v any) any {
	switch x := v.(type) {
	case json.Number:
		text := x.String()
		if !strings.ContainsAny(text, ".eE") {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				return n
			}
			if n, err := strconv.ParseUint(text, 10, 64); err == nil {
				return n
			}
		}
		f, _ := strconv.ParseFloat(text, 64)
		return f
	case []any:
		for i := range x {
			x[i] = Plain(x[i])
		}
	case map[string]any:
		for key := range x {
			x[key] = Plain(x[key])
		}
	}
	return v
}
