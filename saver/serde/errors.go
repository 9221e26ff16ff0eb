package serde

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/stele-go/stele/base/fault"
)

// Causes that Encode and Decode wrap. All are matched with errors.Is.
var (
	// ErrUnsupported: a Go type that has no serialized form (func, chan,
	// complex, a struct whose fields are all unexported).
	ErrUnsupported = errors.New("type cannot be serialized")
	// ErrDepth: values nest deeper than MaxDepth. A cyclic Go value ends here.
	ErrDepth = fmt.Errorf("nested deeper than %d levels, or cyclic", MaxDepth)
	// ErrIntRange: an integer outside 64 bits, which msgpack cannot hold.
	ErrIntRange = errors.New("integer outside 64 bits")
	// ErrRange: a native value outside what LangGraph can read back, such as
	// a year above 9999 or a UTC offset of a day or more.
	ErrRange = errors.New("value out of range")
	// ErrTooLarge: the serialized value would exceed 64 MiB, the largest value
	// a store takes. It is the same error the store returns.
	ErrTooLarge = fault.ErrTooLarge
	// ErrDecodeLimit: decoding would take more memory than Options.DecodeLimit. Decode
	// returns it in a *DecodeError. Encode returns it in an *EncodeError, because it does
	// not write what could not be read. The bytes may be valid, and a Codec with a higher
	// limit can read them. It also matches ErrTooLarge.
	ErrDecodeLimit = fmt.Errorf("takes more memory than the limit for decoding: %w", ErrTooLarge)
	// ErrMalformed matches every *DecodeError except one with ErrDecodeLimit.
	ErrMalformed = errors.New("malformed serialized value")
	// ErrUnknownKind: Decode was handed a kind it does not read. Pickle is one
	// of them on purpose: reading it would run code.
	ErrUnknownKind = errors.New("unknown kind")
	// ErrEncrypted: the kind says that the value is encrypted, but the serializer has no
	// key. The error also matches ErrUnknownKind.
	ErrEncrypted = errors.New("value is encrypted")
)

// MaxDepth is how deep values may nest, extension payloads included. LangGraph
// writes at most 255 levels and reads 1022.
const MaxDepth = 512

// EncodeError says which part of a value could not be serialized, and why.
// Nothing was written.
type EncodeError struct {
	Path string // where, from the root "$": "$.messages[3].extra.x"
	Type string // Go type found there
	Err  error  // why: wraps one of the causes above, or what the value itself returned
}

// Error names the path, the type and the cause.
func (e *EncodeError) Error() string {
	return fmt.Sprintf("encode %s (%s): %v", e.Path, e.Type, e.Err)
}

// Unwrap returns the cause.
func (e *EncodeError) Unwrap() error { return e.Err }

// within adds a path segment to the front of an error as it is returned, so that the path
// costs nothing if there is no error.
func within(err error, segment string) error {
	if e, ok := err.(*EncodeError); ok { //nolint:errorlint // built by this package, never wrapped on the way up
		e.Path = segment + e.Path
		return e
	}
	return err
}

func keySegment(key string) string {
	for i, r := range key {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return fmt.Sprintf("[%q]", key)
		}
	}
	if key == "" {
		return `[""]`
	}
	return "." + key
}

func indexSegment(i int) string { return fmt.Sprintf("[%d]", i) }

// rooted finishes the path. It shortens that of a cyclic value, which has MaxDepth segments, to
// its two ends.
func rooted(err error) error {
	const most, head, tail = 400, 200, 100
	err = within(err, "$")
	if e, ok := err.(*EncodeError); ok && len(e.Path) > most { //nolint:errorlint // as in within
		e.Path = strings.ToValidUTF8(e.Path[:head], "") + "…" + strings.ToValidUTF8(e.Path[len(e.Path)-tail:], "")
	}
	return err
}

// DecodeError says where serialized bytes are malformed; then it matches ErrMalformed. If
// decoding them would exceed the limit, it matches ErrDecodeLimit, and Offset has no meaning.
type DecodeError struct {
	Kind   string // kind of the typed value
	Offset int    // byte offset in its data
	Err    error  // what is wrong there
}

// Error names the kind, the offset and the cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s at byte %d: %v", e.Kind, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// Is makes a DecodeError match ErrMalformed, unless it is about the limit.
func (e *DecodeError) Is(target error) bool {
	return target == ErrMalformed && !errors.Is(e.Err, ErrDecodeLimit)
}

// TypeError says that well-formed data does not fit the Go value DecodeInto was
// asked to fill. Parts of the destination may have been set before.
type TypeError struct {
	Path string // where in the data, from the root "$"
	Have string // what the data holds: "string", "map", "datetime", …
	Want string // Go type it was to fill
	Err  error  // more about it; may be nil

	want, have reflect.Type
}

// Types are those of the Go value that was to fill and of what the data holds, for a text in other words. Nil is that of nil.
func (e *TypeError) Types() (want, have reflect.Type) { return e.want, e.have }

// Error names the path and both types.
func (e *TypeError) Error() string {
	s := fmt.Sprintf("decode %s: %s does not fit %s", e.Path, e.Have, e.Want)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause, if there is one.
func (e *TypeError) Unwrap() error { return e.Err }
