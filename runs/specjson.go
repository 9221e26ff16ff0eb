package runs

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// UnmarshalSpec reads the JSON of a Spec, for implementers of Queue. Numbers of its maps become float64, but
// integers beyond 2^53, up to 64 bits, int64: no float64 holds each of them.
func UnmarshalSpec(text []byte, s *Spec) error { return unmarshalExact(text, s, s) }

// unmarshalExact reads the JSON of v, which has s in it.
func unmarshalExact(text []byte, v any, s *Spec) error {
	if !hasLongNumber(text) || !json.Valid(text) { // a Decoder does not check what follows the first value
		return json.Unmarshal(text, v)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return err
	}
	for _, m := range []map[string]any{s.Metadata, s.Configurable, s.Context, s.Labels} {
		if _, err := exact(m); err != nil {
			return err
		}
	}
	return nil
}

// exactDigits is how many digits 2^53 has.
const exactDigits = 16

// hasLongNumber reports whether text has enough digits in a row to be an integer beyond 2^53. Few runs
// have one, and a Decoder that keeps numbers as they are is slow.
func hasLongNumber(text []byte) bool {
	n := 0
	for _, c := range text {
		if n++; c < '0' || c > '9' {
			n = 0
		}
		if n == exactDigits {
			return true
		}
	}
	return false
}

// exact replaces each json.Number in v, in place where that is possible.
func exact(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil && (n > 1<<53 || n < -1<<53) {
			return n, nil
		}
		var f float64
		err := json.Unmarshal([]byte(v), &f) // which refuses one that is too large as it always does
		return f, err
	case map[string]any:
		for k, e := range v {
			if v[k], err = exact(e); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, e := range v {
			if v[i], err = exact(e); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
