package serde

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
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
}

// Validate reports options that cannot work together. There are none at
// present; every combination has a defined meaning.
func (o Options) Validate() error { return nil }

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
// Go values are written thus: maps sorted by key; a nil slice or map as an
// empty one, a nil pointer or interface as None; structs as maps of their
// exported fields (names from the tags `stele`, `msgpack` or `json`, in this
// order of preference, options "omitempty" and "-"), unless they are registered
// or one of this package's types; errors as their text; a type with MarshalText
// as that text; time.Time, time.Duration, netip.Addr and netip.Prefix as their
// Python counterparts.
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

// WithAllowlist returns a Codec that also allows the types named, as
// Registry.Allow does. It is the same Codec if that changes nothing: when it is
// not strict, or knows them all.
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
		return Typed{Kind: KindBytes, Data: cloneBytes(v)}, nil
	case ByteArray:
		return Typed{Kind: KindByteArray, Data: cloneBytes(v)}, nil
	}
	data, err := c.encodeMsgpack(v, 0)
	switch {
	case err == nil && len(data) == 1 && data[0] == mNil: // a nil pointer
		return Typed{Kind: KindNull}, nil
	case err == nil:
		return Typed{Kind: KindMsgpack, Data: data}, nil
	case c.opts.JSONFallback:
		text, jerr := json.Marshal(v)
		if jerr != nil {
			return Typed{}, errors.Join(err, fmt.Errorf("encode as JSON instead: %w", jerr))
		}
		return Typed{Kind: KindJSON, Data: text}, nil
	}
	return Typed{}, err
}

// EncodeAfter is Encode that leaves room bytes in front of the data, for who would
// have to copy them otherwise: where whole is not nil, it is room zero bytes and
// then the data, in memory of its own. It is the Codec's own: a type that embeds one
// may have another Encode.
func (c *Codec) EncodeAfter(room int, v any) (Typed, []byte, error) {
	switch v.(type) {
	case nil, []byte, ByteArray:
	default:
		// What msgpack cannot hold is Encode's to refuse.
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
	switch t.Kind {
	case KindNull:
		return nil, nil
	case KindBytes:
		return cloneBytes(t.Data), nil
	case KindByteArray:
		return ByteArray(cloneBytes(t.Data)), nil
	case KindMsgpack:
		return c.decodeMsgpack(t.Data)
	case KindJSON:
		return c.decodeJSON(t.Data)
	}
	return nil, unknownKind(t.Kind)
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
	v, err := c.Decode(t)
	if err != nil {
		return err
	}
	return Assign(dst, v)
}

func unknownKind(kind string) error {
	if base, cipher, ok := cutKind(kind); ok {
		return fmt.Errorf("decode %q: %w: %w: %q needs NewEncrypted and the key of cipher %q", kind, ErrUnknownKind, ErrEncrypted, base, cipher)
	}
	return fmt.Errorf("decode %q: %w", kind, ErrUnknownKind)
}

// cloneBytes never returns nil: empty bytes are a value, nil is another.
func cloneBytes(b []byte) []byte {
	if len(b) == 0 {
		return []byte{}
	}
	return bytes.Clone(b)
}

// maxEvents bounds what a Codec remembers of types it met, and with it what
// data can make it hold in memory.
const maxEvents = 1000

// events remembers what was reported. Codecs made by WithAllowlist share it.
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

// report tells the hook for e.Kind, once for each type.
func (c *Codec) report(e Event) {
	hook := c.opts.OnBlocked
	if e.Kind == EventUnregistered {
		hook = c.opts.OnUnregistered
	}
	if hook != nil && c.seen.first(e) {
		hook(e)
	}
}
