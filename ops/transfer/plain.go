package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep plain data may be nested in JSON.
const maxDepth = 1000

// appendPlain appends v as JSON, if readPlain reads it back as the same: nil, bools, finite
// numbers, strings of UTF-8, and lists and maps of these. A float has a point or an exponent.
func appendPlain(dst []byte, v any, depth int) (out []byte, ok bool) {
	if depth > maxDepth {
		return nil, false
	}
	switch x := v.(type) {
	case nil:
		return append(dst, "null"...), true
	case bool:
		return strconv.AppendBool(dst, x), true
	case int:
		return strconv.AppendInt(dst, int64(x), 10), true
	case int64:
		return strconv.AppendInt(dst, x, 10), true
	case uint64:
		return strconv.AppendUint(dst, x, 10), true
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, false
		}
		from := len(dst)
		if dst = strconv.AppendFloat(dst, x, 'g', -1, 64); !bytes.ContainsAny(dst[from:], ".e") {
			dst = append(dst, ".0"...)
		}
		return dst, true
	case string:
		if !utf8.ValidString(x) {
			return nil, false
		}
		s, err := plainJSON(x)
		return append(dst, s...), err == nil
	case []any:
		dst = append(dst, '[')
		for i, item := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, ok = appendPlain(dst, item, depth+1); !ok {
				return nil, false
			}
		}
		return append(dst, ']'), x != nil
	case map[string]any:
		dst = append(dst, '{')
		for i, name := range slices.Sorted(maps.Keys(x)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, ok = appendPlain(dst, name, depth); !ok {
				return nil, false
			}
			if dst, ok = appendPlain(append(dst, ':'), x[name], depth+1); !ok {
				return nil, false
			}
		}
		return append(dst, '}'), x != nil
	}
	return nil, false
}

// readPlain reads one JSON value. A number without a point and an exponent is an int64 or a
// uint64; one that 64 bits do not hold is an error.
func readPlain(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON")
	}
	return plainNumbers(v)
}

// plainNumbers replaces each json.Number in v.
func plainNumbers(v any) (any, error) {
	var err error
	switch x := v.(type) {
	case json.Number:
		return number(x.String())
	case []any:
		for i := range x {
			if x[i], err = plainNumbers(x[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range x {
			if x[name], err = plainNumbers(x[name]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func number(s string) (any, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, fmt.Errorf("number %s: %w", s, err)
		}
		return f, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return nil, errors.New("an integer does not fit 64 bits")
	}
	return n, nil
}
