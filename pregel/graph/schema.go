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

// schema is the state: its keys in order, and how a node sees it.
type schema struct {
	keys     []string
	channels map[string]channel.Channel
	managed  map[string]channel.Managed
	// typ is the struct nodes get; nil for a map.
	typ    reflect.Type
	fields map[string][]int // key to field index
	// declared are the keys whose channel comes from the type of their field. A Field
	// replaces it.
	declared map[string]bool
	// tagged are the keys whose channel comes from a tag; the values are the fields in Go.
	tagged map[string]string
	// aliases are former names of keys.
	aliases map[string]string
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

// structSchema makes the keys of a struct's exported fields. A field's key is the name in its
// stele or json tag, or its own; "-" leaves it out. The fields of an embedded struct without a
// tag are keys too, unless a field around it has the same key. A field is kept in the channel
// that its state tag names, or its type declares, or else in a LastValue.
func structSchema(t reflect.Type) (*schema, error) {
	if t.Kind() != reflect.Struct {
		return nil, &pregel.GraphError{Reason: fmt.Sprintf("a state is a struct, not %v", t)}
	}
	s := &schema{channels: map[string]channel.Channel{}, managed: map[string]channel.Managed{}, typ: t, fields: map[string][]int{}, declared: map[string]bool{},
		tagged: map[string]string{}}
	own := &stateType{typ: t, byKey: map[string]int{}}
	for i, f := range stateFields(t) {
		tag, err := readStateTag(f.tag)
		if err != nil {
			return nil, own.fail(f.name, "%v", err)
		}
		ch := channel.LastValueOf(f.typ)
		if d, ok := reflect.Zero(f.typ).Interface().(channel.Declared); tag.reducer != "" {
			if ch, err = tag.channel(f.typ); err != nil {
				return nil, own.fail(f.name, "%v", err)
			}
			s.tagged[f.key] = f.name
		} else if ok {
			ch, s.declared[f.key] = d.Channel(), true
		}
		if err := s.add(Key(f.key, ch)); err != nil {
			return nil, err
		}
		s.fields[f.key] = f.index
		own.fields, own.byKey[f.key] = append(own.fields, typedField{key: f.key, name: f.name, aliases: tag.aliases}), i
	}
	if err := own.checkAliases(); err != nil {
		return nil, err
	}
	s.aliases = own.aliases()
	return s, nil
}

// override is add for a Field that is given beside the struct.
func (s *schema) override(f Field) error {
	if name, ok := s.tagged[f.Name]; ok {
		return &pregel.GraphError{Channel: f.Name, Field: fmt.Sprintf("%v.%s", s.typ, name), Reason: "has a reducer in its tag, and one in the call of Of"}
	}
	if s.declared[f.Name] && f.Channel != nil {
		s.channels[f.Name] = f.Channel
		delete(s.declared, f.Name)
		return nil
	}
	return s.add(f)
}

// stateField is a field of a struct that is a key of the state.
type stateField struct {
	key   string
	name  string // in Go, with those of the structs that embed it
	tag   reflect.StructTag
	index []int
	typ   reflect.Type
}

// stateFields are the keys of a struct, in the order of their fields.
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
				out = append(out, stateField{key, f.Name, f.Tag, f.Index, f.Type})
			}
			continue
		}
		for _, in := range stateFields(f.Type) {
			if !own[in.key] {
				own[in.key] = true
				out = append(out, stateField{in.key, f.Name + "." + in.name, in.tag, append([]int{i}, in.index...), in.typ})
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
