package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"

	"github.com/stele-go/stele/base/jsontext"
)

// body is the JSON of a request that has the shape of its route.
type body map[string]any

// text is a string; "" if it is missing.
func (b body) text(name string) string {
	s, _ := b[name].(string)
	return s
}

// flag is a truth value; false if it is missing.
func (b body) flag(name string) bool {
	f, _ := b[name].(bool)
	return f
}

// integer is a whole number; otherwise if it is missing.
func (b body) integer(name string, otherwise int) int {
	switch n := b[name].(type) {
	case int64:
		return int(n)
	case float64:
		if isInteger(n) {
			return int(n)
		}
	case json.Number: // of a record
		if whole, err := n.Int64(); err == nil {
			return int(whole)
		}
	}
	return otherwise
}

// object is an object; nil if it is missing.
func (b body) object(name string) map[string]any {
	m, _ := b[name].(map[string]any)
	return m
}

// texts is a list of strings, or a single one.
func (b body) texts(name string) []string {
	switch x := b[name].(type) {
	case string:
		return []string{x}
	case []any:
		out := make([]string, 0, len(x))
		for _, e := range x {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// encode is v as compact JSON.
func encode(v any) ([]byte, error) {
	if text, ok := jsontext.Append(make([]byte, 0, 128), v, false); ok {
		return text, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// merged is a with the entries of the others over it, one after the other.
func merged(a map[string]any, others ...map[string]any) map[string]any {
	n := len(a)
	for _, m := range others {
		n += len(m)
	}
	out := make(map[string]any, n)
	maps.Copy(out, a)
	for _, m := range others {
		maps.Copy(out, m)
	}
	return out
}

// isInteger reports whether a number such as 2.0 is an integer, which some languages write so.
func isInteger(x float64) bool { return x == math.Trunc(x) && math.Abs(x) <= math.MaxInt32 }
