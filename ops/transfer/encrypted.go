package transfer

import (
	"strings"

	"github.com/stele-go/stele/saver/serde"
)

// PassEncrypted is a serializer that takes encrypted values for what they are: bytes of a kind
// with a plus sign, which it decodes to a value that only it encodes, to the same bytes. All
// others go to inner. A store that is opened with it is copied without the key of its values: on
// both sides, and to files of NDJSON. Nobody sees what such a value is.
func PassEncrypted(inner serde.Serializer) serde.Serializer { return passing{inner} }

type passing struct{ serde.Serializer }

// sealed is the value of an item that is encrypted. It is under this name in a map, since the
// value of an item is one.
type sealed struct{ typed serde.Typed }

const sealedName = "encrypted"

// sealedOf is the encrypted value that v stands for.
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
