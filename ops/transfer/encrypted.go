package transfer

import (
	"strings"

	"github.com/stele-go/stele/saver/serde"
)

// PassEncrypted returns a serializer that passes encrypted values through. An encrypted value has a
// kind with a plus sign. PassEncrypted decodes it to an opaque value, which it encodes to the same
// bytes again. All other values go to inner. Stores that are opened with it, and files of NDJSON, can
// be copied without the key of their values.
func PassEncrypted(inner serde.Serializer) serde.Serializer { return passing{inner} }

type passing struct{ serde.Serializer }

// sealed is the value of an item that is encrypted. It is under this name in a map, since the
// value of an item is one.
type sealed struct{ typed serde.Typed }

const sealedName = "encrypted"

// sealedOf returns the encrypted value in v; false if v is another value.
func sealedOf(v any) (serde.Typed, bool) {
	m, _ := v.(map[string]any)
	if len(m) != 1 {
		return serde.Typed{}, false
	}
	s, ok := m[sealedName].(sealed)
	return s.typed, ok
}

func sealedValue(t serde.Typed) map[string]any { return map[string]any{sealedName: sealed{t}} }

func isEncrypted(kind string) bool { return strings.Contains(kind, "+") }

// Encode implements serde.Serializer.
func (p passing) Encode(v any) (serde.Typed, error) {
	if t, ok := sealedOf(v); ok {
		return t, nil
	}
	return p.Serializer.Encode(v)
}

// Decode implements serde.Serializer.
func (p passing) Decode(t serde.Typed) (any, error) {
	if isEncrypted(t.Kind) {
		t.Data = append([]byte(nil), t.Data...)
		return sealedValue(t), nil
	}
	return p.Serializer.Decode(t)
}
