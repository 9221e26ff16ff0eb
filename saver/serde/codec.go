package serde

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/stele-go/stele/base"
)

// Options configure a Codec. The zero value reads everything and loses
// nothing: Python types without a Go counterpart become *Ext.
type Options struct {
	// Registry holds the Go types for Python types. Nil is an empty one. New
	// copies it.
	Registry *Registry
	// Strict decodes types that are neither safe nor registered as LangGraph
	// does when it blocks them: to the bare data inside, without the type. Such
	// a value is written back as that data.
	Strict bool
	// Plain decodes every extension to bare data, safe types too, as
	// LangGraph's JSON view does: a path to its parts, a UUID to its dashed
	// string, a dataclass to its map. Sends, delta snapshots and arrays keep
	// their native types. Plain wins over Strict and Registry.
	Plain bool
	// JSONFallback writes a value that msgpack cannot hold as kind "json", by
	// the rules of encoding/json. LangGraph does not do this any more.
	JSONFallback bool
	// OnUnregistered is called when data of a type that is neither safe nor
	// registered is decoded to *Ext; OnBlocked when Strict strips such a type,
	// or when data asks for a method to be called, which is never done. Each is
	// called once for a type, for at most 1,000 types. Both are called on the
	// goroutine that decodes and must not call the same Codec.
	OnUnregistered func(Event)
	OnBlocked      func(Event)
	// DecodeLimit is the largest amount of memory, in bytes, that decoding one value may
	// take; 0 is DefaultDecodeLimit, and a negative number is no limit. It is compared
	// with an upper bound of what is allocated, so a value that is refused may need
	// somewhat less. Data of n bytes takes at most 256·n + 16 KiB, text about 2·n, plus
	// the memory of Go types that are filled from it.
	//
	// Decode and DecodeInto refuse a value that exceeds it with ErrDecodeLimit, before
	// they allocate. So does Encode, for the value as plain data and for its Go type. So a
	// Codec with the same limit and registry can read whatever Encode writes.
	DecodeLimit int64
}

// Validate reports options that contradict each other. At present there are none.
func (o Options) Validate() error { return nil }

func (o Options) decodeLimit() int64 {
	if o.DecodeLimit == 0 {
		return DefaultDecodeLimit
	}
	return o.DecodeLimit
}

// WithDecodeLimit returns a Codec that differs from c only in Options.DecodeLimit. If c has
// this limit, it returns c.
func (c *Codec) WithDecodeLimit(limit int64) *Codec {
	if limit == c.opts.DecodeLimit || limit == c.opts.decodeLimit() {
		return c
	}
	clone := *c
	clone.opts.DecodeLimit = limit
	return &clone
}

// WithDecodeLimit returns s with another limit, if s is a serializer of this package; see
// Options.DecodeLimit. A serializer of another package can support it with a method
// WithDecodeLimit(int64) Serializer. ok is false if it has none.
func WithDecodeLimit(s Serializer, limit int64) (limited Serializer, ok bool) {
	switch s := s.(type) {
	case *Codec:
		return s.WithDecodeLimit(limit), true
	case *Encrypted:
		inner, ok := WithDecodeLimit(s.inner, limit)
		if !ok || inner == s.inner {
			return s, ok
		}
		clone := *s
		clone.inner = inner
		return &clone, true
	case interface{ WithDecodeLimit(limit int64) Serializer }:
		return s.WithDecodeLimit(limit), true
	}
	return nil, false
}

// EventKind says what an Event is about. The values are LangGraph's names.
type EventKind string

// The events a Codec reports.
const (
	EventUnregistered  EventKind = "msgpack_unregistered_allowed"
	EventBlocked       EventKind = "msgpack_blocked"
	EventMethodBlocked EventKind = "msgpack_method_blocked"
)

// Event names a type that data asked for and the Codec did not know.
type Event struct {
	Kind   EventKind
	Module string
	Name   string
	Method string // of EventMethodBlocked
}

// Codec is the Serializer that reads and writes what LangGraph's
// JsonPlusSerializer does. It is immutable and safe for concurrent use.
//
// It writes Go values as follows. Maps are sorted by key. A nil slice or map is an empty one,
// and a nil pointer or interface is None. A struct is a map of its exported fields, unless
// its type is registered or belongs to this package; names come from the tags `stele`,
// `msgpack` or `json`, in this order of preference, with the options "omitempty" and "-". What is
// stored under a former name, `state:"alias=NAME"`, is read into the field, too. An error is its
// text, and so is a type with MarshalText. time.Time, time.Duration, netip.Addr and netip.Prefix
// are their Python counterparts.
type Codec struct {
	opts Options // Registry is a copy of its own
	seen *events
}

var _ Serializer = (*Codec)(nil)

// New returns a Codec, or what Options.Validate reports.
func New(opts Options) (*Codec, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.Registry = opts.Registry.clone()
	return &Codec{opts: opts, seen: &events{seen: map[Event]bool{}}}, nil
}

var defaultCodec = &Codec{opts: Options{Registry: &Registry{}}, seen: &events{seen: map[Event]bool{}}}

// Default returns the Codec with zero Options, always the same one.
func Default() *Codec { return defaultCodec }

// WithAllowlist returns a Codec that also allows the types named, as Registry.Allow does. If c
// is not strict, or knows them all, it returns c.
func (c *Codec) WithAllowlist(names ...TypeName) *Codec {
	if !c.opts.Strict {
		return c
	}
	wider := c.opts.Registry.clone()
	for _, n := range names {
		if !safeTypes[n] {
			wider.Allow(n.Module, n.Name)
		}
	}
	if len(wider.byName) == len(c.opts.Registry.byName) {
		return c
	}
	clone := *c
	clone.opts.Registry = wider
	return &clone
}

// Encode implements Serializer. The result shares no memory with v.
func (c *Codec) Encode(v any) (Typed, error) {
	switch v := v.(type) {
	case nil:
		return Typed{Kind: KindNull}, nil
	case []byte:
		return c.encodeBytes(KindBytes, v)
	case ByteArray:
		return c.encodeBytes(KindByteArray, v)
	}
	data, err := c.encodeMsgpack(v, 0)
	switch {
	case err == nil && len(data) == 1 && data[0] == mNil: // a nil pointer
		return Typed{Kind: KindNull}, nil
	case err == nil:
		return Typed{Kind: KindMsgpack, Data: data}, nil
	case c.opts.JSONFallback:
		return c.encodeJSON(v, err)
	}
	return Typed{}, err
}

// encodeJSON encodes v, which err says does not go into MessagePack.
func (c *Codec) encodeJSON(v any, err error) (Typed, error) {
	text, jerr := json.Marshal(v)
	if jerr != nil {
		return Typed{}, errors.Join(err, fmt.Errorf("encode as JSON instead: %w", jerr))
	}
	if len(text) > base.MaxValue {
		return Typed{}, &EncodeError{Path: "$", Type: fmt.Sprintf("%T", v), Err: tooLarge(len(text))}
	}
	if err := checkPromoted(reflect.ValueOf(v)); err != nil { // JSON may lose the same fields
		return Typed{}, &EncodeError{Path: "$", Type: fmt.Sprintf("%T", v), Err: err}
	}
	t := Typed{Kind: KindJSON, Data: text}
	if _, derr := c.Decode(t); errors.Is(derr, ErrDecodeLimit) {
		return Typed{}, &EncodeError{Path: "$", Type: fmt.Sprintf("%T", v), Err: derr}
	}
	return t, nil
}

// encodeBytes encodes v as a value of a kind that is just bytes.
func (c *Codec) encodeBytes(kind string, v []byte) (Typed, error) {
	if len(v) > base.MaxValue {
		return Typed{}, &EncodeError{Path: "$", Type: "[]uint8", Err: tooLarge(len(v))}
	}
	if err := c.bytesFit(v); err != nil {
		return Typed{}, &EncodeError{Path: "$", Type: "[]uint8", Err: err}
	}
	return Typed{Kind: kind, Data: cloneBytes(v)}, nil
}

// bytesFit refuses bytes whose copy would exceed the limit.
func (c *Codec) bytesFit(v []byte) error {
	if limit := c.opts.decodeLimit(); limit >= 0 && costBytes+rounded(int64(len(v))) > limit {
		return fmt.Errorf("%w of %d bytes", ErrDecodeLimit, limit)
	}
	return nil
}

// EncodeAfter is Encode that leaves room bytes before the data, for callers who would
// otherwise have to copy the data. If the second result is not nil, it is room zero bytes
// followed by the data, in new memory. Do not call it on a type that embeds a Codec, because
// the type may have another Encode.
func (c *Codec) EncodeAfter(room int, v any) (Typed, []byte, error) {
	switch v.(type) {
	case nil, []byte, ByteArray:
	default:
		// Encode handles what msgpack cannot hold.
		whole, err := c.encodeMsgpack(v, room)
		if err == nil && whole[room] != mNil {
			return Typed{Kind: KindMsgpack, Data: whole[room:]}, whole, nil
		}
	}
	t, err := c.Encode(v)
	return t, nil, err
}

// Decode implements Serializer. The result shares no memory with t.
func (c *Codec) Decode(t Typed) (any, error) {
	v, _, err := c.decode(t, nil)
	return v, err
}

// decode is Decode with a Similar, which may be nil. The budget is what remains for a Go value
// that is filled from the result.
func (c *Codec) decode(t Typed, similar *Similar) (any, budget, error) {
	b := c.budget(t.Data)
	switch t.Kind {
	case KindNull:
		return nil, b, nil
	case KindBytes, KindByteArray:
		if err := c.bytesFit(t.Data); err != nil {
			return nil, b, &DecodeError{Kind: t.Kind, Err: err}
		}
		if t.Kind == KindByteArray {
			return ByteArray(cloneBytes(t.Data)), b, nil
		}
		return cloneBytes(t.Data), b, nil
	case KindMsgpack:
		if err := b.spend(0); err != nil { // before anything is allocated
			return nil, b, &DecodeError{Kind: t.Kind, Err: err}
		}
		return c.decodeMsgpack(t.Data, similar, b)
	case KindJSON:
		b.tree, b.exact = costFixed, true // nothing is known of it beforehand
		return c.decodeJSON(t.Data, b)
	}
	return nil, b, unknownKind(t.Kind)
}

// DecodeInto implements Serializer. The rules are those of encoding/json, with
// these additions: integers fill floats, and floats that are whole numbers fill
// integers, if nothing is lost; bytes fill []byte and byte arrays; an *Ext
// fills a struct or map from its named arguments, a slice from its positional
// ones, and anything from its single argument.
func (c *Codec) DecodeInto(t Typed, dst any) error {
	if list, ok := dst.(*[]string); ok && list != nil && t.Kind == KindMsgpack {
		if out, ok := c.decodeStrings(t.Data); ok {
			*list = out
			return nil
		}
	}
	v, b, err := c.decode(t, nil)
	if err != nil {
		return err
	}
	if err := (&filler{&b}).into(dst, v); errors.Is(err, ErrDecodeLimit) {
		return &DecodeError{Kind: t.Kind, Err: err}
	} else if err != nil {
		return err
	}
	return nil
}

func unknownKind(kind string) error {
	if base, cipher, ok := cutKind(kind); ok {
		return fmt.Errorf("decode %q: %w: %w: %q needs NewEncrypted and the key of cipher %q", kind, ErrUnknownKind, ErrEncrypted, base, cipher)
	}
	return fmt.Errorf("decode %q: %w", kind, ErrUnknownKind)
}

// cloneBytes never returns nil, because empty bytes and nil are different values.
func cloneBytes(b []byte) []byte {
	if len(b) == 0 {
		return []byte{}
	}
	return bytes.Clone(b)
}

// maxEvents bounds the types that a Codec remembers, and so the memory that data can make it
// use.
const maxEvents = 1000

// events remembers the types that were reported. Codecs made by WithAllowlist share it.
type events struct {
	mu   sync.Mutex // guards seen; not held while a hook runs
	seen map[Event]bool
}

func (s *events) first(e Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[e] || len(s.seen) >= maxEvents {
		return false
	}
	s.seen[e] = true
	return true
}

// report calls the hook for e.Kind, once for each type.
func (c *Codec) report(e Event) {
	hook := c.opts.OnBlocked
	if e.Kind == EventUnregistered {
		hook = c.opts.OnUnregistered
	}
	if hook != nil && c.seen.first(e) {
		hook(e)
	}
}
