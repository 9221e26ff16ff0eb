package saver

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/stele-go/stele/saver/serde"
)

// Value is the value of a channel or of a write. A caller makes one from a Go value
// (ValueOf) or from typed bytes (ValueTyped). A saver returns lazy ones: the bytes are read
// from the store and decoded when they are used. (Small values of the newest checkpoint of
// a cold thread are read with it, and dropped at the next garbage collection if they are
// not used.) A Value is immutable and safe for concurrent use. The zero Value is no value;
// a stored nil is ValueOf(nil).
type Value struct {
	content any // a Go value, a serde.Typed or a Loader, as state says
	codec   serde.Serializer
	state   valueState
}

type valueState uint8

const (
	valueNone valueState = iota
	valueNative
	valueTyped
	valueLazy
	valueShared // a serde.Typed that the store owns
)

// Loader reads the typed bytes of a stored value. Implementations of Saver hand
// one to ValueLazy.
type Loader interface {
	// LoadValue is called once for each use of the Value, maybe concurrently. The caller
	// owns the result.
	LoadValue(ctx context.Context) (serde.Typed, error)
}

// ErrNoValue is returned for the zero Value.
var ErrNoValue = errors.New("no value")

// ValueOf is a Go value. The saver serializes it before Put or PutWrites returns. Until then
// it must not be changed.
func ValueOf(v any) Value {
	switch x := v.(type) {
	case Value:
		return x
	case serde.Typed:
		return ValueTyped(x)
	}
	return Value{content: v, state: valueNative}
}

// ValueTyped is a serialized value. The bytes are not copied and must not be changed
// afterwards.
func ValueTyped(t serde.Typed) Value { return Value{content: t, state: valueTyped} }

// ValueLazy is a stored value that load reads when it is first needed; codec
// decodes it.
func ValueLazy(load Loader, codec serde.Serializer) Value {
	return Value{content: load, codec: codec, state: valueLazy}
}

// ValueShared is a stored value whose bytes the store keeps in memory. codec decodes it and
// must not keep or change the bytes; see serde.Serializer. Typed returns a copy. The bytes
// must not be changed afterwards.
func ValueShared(t serde.Typed, codec serde.Serializer) Value {
	return Value{content: t, codec: codec, state: valueShared}
}

// WithCodec is v, decoded by codec.
func (v Value) WithCodec(codec serde.Serializer) Value {
	v.codec = codec
	return v
}

// Codec is what decodes v; nil for the default serializer.
func (v Value) Codec() serde.Serializer { return v.codec }

// IsZero reports whether there is no value.
func (v Value) IsZero() bool { return v.state == valueNone }

// IsNative reports whether v holds a Go value that is not serialized yet.
func (v Value) IsNative() bool { return v.state == valueNative }

func (v Value) serializer() serde.Serializer {
	if v.codec != nil {
		return v.codec
	}
	return serde.Default()
}

// Encode returns the typed bytes of v, serializing a Go value with codec (nil:
// the default serializer). Bytes of a stored value are a fresh copy.
func (v Value) Encode(codec serde.Serializer) (serde.Typed, error) {
	switch v.state {
	case valueNone:
		return serde.Typed{}, ErrNoValue
	case valueNative:
		if codec == nil {
			codec = v.serializer()
		}
		return codec.Encode(v.content)
	case valueLazy:
		return v.content.(Loader).LoadValue(context.Background())
	case valueShared:
		t := v.content.(serde.Typed)
		return serde.Typed{Kind: t.Kind, Data: bytes.Clone(t.Data)}, nil
	}
	return v.content.(serde.Typed), nil
}

// Typed returns the typed bytes of v. For a stored value this reads the store. Damaged bytes
// are a CorruptionError. A value that was deleted, pruned or replaced since then becomes
// ErrNotFound at some time.
func (v Value) Typed() (serde.Typed, error) { return v.Encode(nil) }

// View is Typed without a copy if the bytes are in memory. They must not be changed.
func (v Value) View() (serde.Typed, error) {
	if v.state == valueShared {
		return v.content.(serde.Typed), nil
	}
	return v.Typed()
}

// Load returns v with its bytes in memory, so that several uses read the store once. It
// fails as Typed does. A value that is not lazy is returned unchanged.
func (v Value) Load() (Value, error) {
	if v.state != valueLazy {
		return v, nil
	}
	t, err := v.Typed()
	if err != nil {
		return Value{}, err
	}
	return ValueTyped(t).WithCodec(v.codec), nil
}

// Any decodes v into plain Go data (see serde.Serializer). A Go value that was
// not serialized is returned as it is.
func (v Value) Any() (any, error) {
	if v.state == valueNative {
		return v.content, nil
	}
	t, err := v.View()
	if err != nil {
		return nil, err
	}
	return v.serializer().Decode(t)
}

// Decode decodes v into dst, a non-nil pointer, as encoding/json would.
func (v Value) Decode(dst any) error {
	t, err := v.View()
	if err != nil {
		return err
	}
	if err := v.serializer().DecodeInto(t, dst); err != nil {
		return fmt.Errorf("decode %s value: %w", t.Kind, err)
	}
	return nil
}
