package graph

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
)

// Field declares one key of the state. Managed computes it. If Managed is nil, it is kept in
// Channel; a nil Channel is a LastValue of any type.
type Field struct {
	Name    string
	Channel channel.Channel
	Managed channel.Managed
}

// Key declares a key that is kept in a channel. A nil channel is a LastValue of any type.
func Key(name string, c channel.Channel) Field {
	if c == nil {
		c = channel.LastValue[any]()
	}
	return Field{Name: name, Channel: c}
}

// Computed declares a key that the engine computes, such as channel.IsLastStep or
// channel.RemainingSteps.
func Computed(name string, m channel.Managed) Field { return Field{Name: name, Managed: m} }

// Root declares a state without keys: the value of one channel.
func Root(c channel.Channel) Field { return Key(pregel.RootKey, c) }

// schema is the state: its keys in order, and how a node sees it.
type schema struct {
	keys     []string
	channels map[string]channel.Channel
	managed  map[string]channel.Managed
	// typ is the struct nodes get; nil for a map.
	typ    reflect.Type
	fields map[string][]int // key to field index
}

func newSchema(fields []Field) (*schema, error) {
	s := &schema{channels: map[string]channel.Channel{}, managed: map[string]channel.Managed{}}
	for _, f := range fields {
		if err := s.add(f); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// add declares a key. It may be declared again with an equal channel, or with a LastValue,
// which changes nothing.
func (s *schema) add(f Field) error {
	if f.Name == "" {
		return &pregel.GraphError{Reason: "a state key has no name"}
	}
	if f.Channel == nil {
		f.Channel = channel.LastValue[any]()
	}
	if f.Managed != nil {
		s.managed[f.Name] = f.Managed
		if !slices.Contains(s.keys, f.Name) {
			s.keys = append(s.keys, f.Name)
		}
		return nil
	}
	if old, ok := s.channels[f.Name]; ok {
		if channel.IsLastValue(old) {
			s.channels[f.Name] = f.Channel
		} else if !channel.IsLastValue(f.Channel) && !old.Equal(f.Channel) {
			return &pregel.GraphError{Channel: f.Name, Reason: fmt.Sprintf("Channel '%s' already exists with a different type", f.Name)}
		}
		return nil
	}
	s.channels[f.Name] = f.Channel
	s.keys = append(s.keys, f.Name)
	return nil
}

// isRoot reports whether the state has no keys.
func (s *schema) isRoot() bool { return len(s.keys) == 1 && s.keys[0] == pregel.RootKey }

func (s *schema) has(key string) bool { return slices.Contains(s.keys, key) }

// stored are the keys kept in channels.
func (s *schema) stored() []string {
	var out []string
	for _, k := range s.keys {
		if _, ok := s.channels[k]; ok {
			out = append(out, k)
		}
	}
	return out
}

// shown is keys as the engine names them.
func (s *schema) shown(keys []string) pregel.Keys {
	if s.isRoot() {
		return pregel.One(pregel.RootKey)
	}
	return pregel.Many(keys...)
}

// structSchema makes the keys of a struct's exported fields. A field's key is
// the name in its stele or json tag, or its own; "-" leaves it out.
func structSchema(t reflect.Type) (*schema, error) {
	if t.Kind() != reflect.Struct {
		return nil, &pregel.GraphError{Reason: fmt.Sprintf("a state is a struct, not %v", t)}
	}
	s := &schema{channels: map[string]channel.Channel{}, managed: map[string]channel.Managed{}, typ: t, fields: map[string][]int{}}
	for i := range t.NumField() {
		name, ok := fieldKey(t.Field(i))
		if !ok {
			continue
		}
		if err := s.add(Key(name, channel.LastValueOf(t.Field(i).Type))); err != nil {
			return nil, err
		}
		s.fields[name] = t.Field(i).Index
	}
	return s, nil
}

func fieldKey(f reflect.StructField) (string, bool) {
	if !f.IsExported() {
		return "", false
	}
	for _, tag := range []string{"stele", "json"} {
		if v, ok := f.Tag.Lookup(tag); ok {
			name, _, _ := strings.Cut(v, ",")
			if name == "-" {
				return "", false
			}
			if name != "" {
				return name, true
			}
		}
	}
	return f.Name, true
}

// toStruct is the mapper of a struct state: a map of channels becomes the
// struct.
func (s *schema) toStruct(input any) (any, error) {
	m, ok := input.(map[string]any)
	if !ok {
		return input, nil
	}
	out := reflect.New(s.typ).Elem()
	for key, v := range m {
		index, ok := s.fields[key]
		if !ok || v == nil {
			continue
		}
		if err := setField(out.FieldByIndex(index), v); err != nil {
			return nil, &pregel.GraphError{Channel: key, Reason: err.Error()}
		}
	}
	return out.Interface(), nil
}

func setField(field reflect.Value, v any) error {
	rv := reflect.ValueOf(v)
	if rv.Type().AssignableTo(field.Type()) {
		field.Set(rv)
		return nil
	}
	return channel.ConvertInto(field.Addr().Interface(), v)
}

// structPairs reads a struct as an update: its fields that are not zero.
func structPairs(v any) (pregel.Pairs, bool) {
	rv := reflect.ValueOf(v)
	for rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	if rv.Kind() != reflect.Struct {
		return nil, false
	}
	pairs := pregel.Pairs{}
	for i := range rv.NumField() {
		name, ok := fieldKey(rv.Type().Field(i))
		if ok && !rv.Field(i).IsZero() {
			pairs = append(pairs, pregel.Pair{Key: name, Value: rv.Field(i).Interface()})
		}
	}
	return pairs, true
}
