package graph

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/serde"
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

// schema is the state: its keys in order.
type schema struct {
	keys     []string
	channels map[string]channel.Channel
	managed  map[string]channel.Managed
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

// stateField is a field of a struct that is a key of the state.
type stateField struct {
	key   string
	index []int
}

// stateFields are the keys of a struct, in the order of its exported fields. A field's key is
// the name in its stele or json tag, or its own; "-" leaves it out. The fields of an embedded
// struct without a tag are keys too, unless a field around it has the same key.
func stateFields(t reflect.Type) []stateField {
	if known, ok := fieldsOf.Load(t); ok {
		return known.([]stateField) //nolint:errcheck // holds nothing else
	}
	out := listFields(t)
	fieldsOf.Store(t, out)
	return out
}

var fieldsOf sync.Map // reflect.Type → []stateField; types are as many as the program has

func listFields(t reflect.Type) (out []stateField) {
	own := map[string]bool{}
	for i := range t.NumField() {
		if f := t.Field(i); !isEmbedded(f) {
			key, ok := fieldKey(f)
			own[key] = own[key] || ok
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !isEmbedded(f) {
			if key, ok := fieldKey(f); ok {
				out = append(out, stateField{key, f.Index})
			}
			continue
		}
		for _, in := range stateFields(f.Type) {
			if !own[in.key] {
				own[in.key] = true
				out = append(out, stateField{in.key, append([]int{i}, in.index...)})
			}
		}
	}
	return out
}

// isEmbedded reports whether the fields of f are keys: f is an embedded struct that has any,
// and no tag.
func isEmbedded(f reflect.StructField) bool {
	if !f.Anonymous || !f.IsExported() || f.Type.Kind() != reflect.Struct || isDeclared(f.Type) {
		return false
	}
	if key, ok := fieldKey(f); !ok || key != f.Name {
		return false
	}
	return len(stateFields(f.Type)) > 0
}

func isDeclared(t reflect.Type) bool { return t.Implements(reflect.TypeFor[channel.Declared]()) }

func fieldKey(f reflect.StructField) (string, bool) {
	switch name := tagName(f); {
	case !f.IsExported() || name == "-":
		return "", false
	case name != "":
		return name, true
	}
	return f.Name, true
}

// tagName is the name in the stele tag of f, or else in its json tag; "" if there is none.
func tagName(f reflect.StructField) string {
	for _, tag := range []string{"stele", "json"} {
		if name, _, _ := strings.Cut(f.Tag.Get(tag), ","); name != "" {
			return name
		}
	}
	return ""
}

func setField(field reflect.Value, v any) error {
	rv := reflect.ValueOf(v)
	if rv.Type().AssignableTo(field.Type()) {
		field.Set(rv)
		return nil
	}
	return channel.ConvertInto(field.Addr().Interface(), v)
}

// InputOf is what a graph reads of input, as plain values: of a struct, or of a pointer to one,
// and of such an Update of a pregel.Command, a map of the fields that are not zero, by their
// keys. Anything else stays as it is, also what says itself how it is stored. It is for those
// who hand input to something that stores or sends it, and that does not know the graph.
func InputOf(input any) any {
	switch c := input.(type) {
	case pregel.Command:
		c.Update = InputOf(c.Update)
		return c
	case *pregel.Command:
		if c != nil {
			return InputOf(*c)
		}
		return input
	case nil, serde.ValueEncoder:
		return input
	}
	t := reflect.TypeOf(input)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || len(stateFields(t)) == 0 { // such as a time
		return input
	}
	pairs, ok := structPairs(input)
	if !ok { // a nil pointer
		return input
	}
	values := make(map[string]any, len(pairs))
	for _, p := range pairs {
		values[p.Key] = p.Value
	}
	return values
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
	for _, f := range stateFields(rv.Type()) {
		if v := rv.FieldByIndex(f.index); !v.IsZero() {
			pairs = append(pairs, pregel.Pair{Key: f.key, Value: v.Interface()})
		}
	}
	return pairs, true
}
