// Package serde converts values to LangGraph's typed bytes and back. Typed bytes are a kind
// ("null", "bytes", "bytearray", "msgpack", "json") and the bytes. stele reads what current
// LangGraph writes without loss, and writes it back byte for byte.
package serde

// Typed is a serialized value: LangGraph's pair of kind and bytes. It is what
// savers store. The zero Typed is not a value; Kind is never empty in one.
type Typed struct {
	Kind string
	Data []byte
}

// Kinds LangGraph writes. A kind with a plus sign ("msgpack+aes") is encrypted.
const (
	KindNull      = "null"
	KindBytes     = "bytes"
	KindByteArray = "bytearray"
	KindMsgpack   = "msgpack"
	KindJSON      = "json" // read for old data; written only when asked for
)

// Serializer encodes values to typed bytes and decodes them. Implementations
// are safe for concurrent use, never panic on any input, and never run code
// named by the data.
type Serializer interface {
	// Encode serializes v. Equal values give equal bytes (map keys are
	// sorted). A value that cannot be encoded gives an *EncodeError that names
	// the path to it.
	Encode(v any) (Typed, error)
	// Decode returns the value as plain Go data: nil, bool, int64, uint64 (only
	// above MaxInt64), float64, string, []byte, []any, map[string]any (map[any]any
	// where a key is not a string), the native types of this package, or *Ext
	// for types that have no native mapping. The result shares no memory with t, whose
	// bytes must not be changed: they may be those that a store keeps.
	Decode(t Typed) (any, error)
	// DecodeInto decodes into dst, a non-nil pointer, as encoding/json would. What
	// it fills shares no memory with t, which is not changed.
	DecodeInto(t Typed, dst any) error
}
