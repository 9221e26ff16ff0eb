package graph

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/serde"
)

// typedField is a field of a struct state.
type typedField struct {
	key     string
	name    string // in Go, with those of the structs that embed it
	index   []int
	offset  uintptr
	typ     reflect.Type
	pointer reflect.Type    // to typ
	channel channel.Channel // nil: the field is computed
	managed channel.Managed
	folds   bool // an Overwrite differs from a write
	loses   bool // what is read back may differ from what was written; see stateType.again
	aliases []string
}

// stateType is what the builder knows of a struct state.
type stateType struct {
	typ    reflect.Type
	two    reflect.Type // an array of two of typ
	fields []typedField
	byKey  map[string]int
}

// newStateType reads the fields of t. declared are the channels of some of them.
func newStateType(t reflect.Type, declared []Field) (*stateType, error) {
	if t.Kind() != reflect.Struct {
		return nil, &pregel.GraphError{Reason: fmt.Sprintf("a state is a struct, not %v", t)}
	}
	if err := serde.CheckType(t); err != nil { // one that is sent, or is part of another, is stored as a value
		return nil, &pregel.GraphError{Reason: err.Error()}
	}
	s := &stateType{typ: t, two: reflect.ArrayOf(2, t), byKey: map[string]int{}}
	if err := s.scan(t, nil, 0, "", declared); err != nil {
		return nil, err
	}
	for i, d := range declared {
		if _, ok := s.byKey[d.Name]; !ok {
			return nil, &pregel.GraphError{Channel: d.Name, Reason: fmt.Sprintf("is no field of %v", t)}
		}
		if slices.ContainsFunc(declared[:i], func(e Field) bool { return e.Name == d.Name }) {
			return nil, &pregel.GraphError{Channel: d.Name, Reason: "is declared twice"}
		}
	}
	return s, s.checkAliases()
}

// checkAliases refuses an alias that is the name of something else.
func (s *stateType) checkAliases() error {
	for _, f := range s.fields {
		for _, alias := range f.aliases {
			if _, ok := s.byKey[alias]; ok {
				return s.fail(f.name, "has the alias %q, which is a field", alias)
			}
			for _, g := range s.fields {
				if g.key != f.key && slices.Contains(g.aliases, alias) {
					return s.fail(f.name, "has the alias %q, and so has field %s", alias, g.name)
				}
			}
		}
	}
	return nil
}

func (s *stateType) fail(field, format string, args ...any) error {
	return &pregel.GraphError{Field: fmt.Sprintf("%v.%s", s.typ, field), Reason: fmt.Sprintf(format, args...)}
}

// scan adds the fields of t, which lies at offset in the state.
func (s *stateType) scan(t reflect.Type, index []int, offset uintptr, prefix string, declared []Field) error {
	for i := range t.NumField() {
		f := t.Field(i)
		name := prefix + f.Name
		key, ok := fieldKey(f)
		if skipped(f) {
			continue
		}
		at := append(slices.Clone(index), i)
		switch {
		case flat(f):
			if err := s.scan(f.Type, at, offset+f.Offset, name+".", declared); err != nil {
				return err
			}
			continue
		case f.Anonymous && f.Type.Kind() == reflect.Pointer:
			return s.fail(name, "is an embedded pointer; embed the struct itself")
		case !ok:
			return s.fail(name, "is not exported, so it cannot be stored; leave it out with the tag `json:\"-\"`")
		case f.Type.Size() == 0:
			return s.fail(name, "has no size")
		}
		field, err := s.field(f, key, name, declared)
		if err != nil {
			return err
		}
		field.index, field.offset = at, offset+f.Offset
		if other, dup := s.byKey[key]; dup {
			return s.fail(name, "has the key %q, and so has field %s", key, s.fields[other].name)
		}
		s.byKey[key] = len(s.fields)
		s.fields = append(s.fields, field)
	}
	return nil
}

// skipped reports whether a tag leaves the field out.
func skipped(f reflect.StructField) bool { return tagName(f) == "-" }

// flat reports whether the fields of f, which is embedded, count as those of the struct
// around it.
func flat(f reflect.StructField) bool {
	return f.Anonymous && f.Type.Kind() == reflect.Struct && !f.Type.Implements(textOut) && !isDeclared(f.Type) && tagName(f) == ""
}

// field reads type and tags of a field.
func (s *stateType) field(f reflect.StructField, key, name string, declared []Field) (typedField, error) {
	out := typedField{key: key, name: name, typ: f.Type, pointer: reflect.PointerTo(f.Type)}
	loses, err := storable(f.Type, "", map[reflect.Type]bool{})
	if err != nil {
		return out, s.fail(name, "%v", err)
	}
	out.loses = loses
	tag, err := readStateTag(f.Tag)
	if err != nil {
		return out, s.fail(name, "%v", err)
	}
	reducer := tag.reducer
	out.aliases = tag.aliases
	i := slices.IndexFunc(declared, func(d Field) bool { return d.Name == key })
	declares, brings := reflect.Zero(f.Type).Interface().(channel.Declared)
	switch {
	case i >= 0 && reducer != "":
		return out, s.fail(name, "has a reducer in its tag, and one in the call of For")
	case i >= 0 && declared[i].Managed != nil:
		out.managed = declared[i].Managed
		return out, nil
	case i >= 0 && declared[i].Channel != nil:
		out.channel = declared[i].Channel
	case reducer != "":
		if out.channel, err = tag.channel(f.Type); err != nil {
			return out, s.fail(name, "%v", err)
		}
	case brings && f.Type.Kind() != reflect.Pointer:
		out.channel = declares.Channel()
	}
	plain := out.channel == nil || channel.IsLastValue(out.channel)
	if typed, ok := out.channel.(channel.Typed); ok {
		if holds := typed.ValueType(); !holds.AssignableTo(f.Type) && !(plain && holds == reflect.TypeFor[any]()) {
			return out, s.fail(name, "has type %v, but its channel holds %v", f.Type, holds)
		}
	}
	if plain {
		out.channel = channel.ExactOf(f.Type)
	}
	_, isFold := out.channel.(interface{ IsFold() })
	_, isDelta := out.channel.(channel.DeltaChannel)
	out.folds = isFold || isDelta
	return out, nil
}

// stateTag is what the tag state of a field says.
type stateTag struct {
	reducer string // "" for none
	aliases []string
}

func readStateTag(tags reflect.StructTag) (out stateTag, err error) {
	tag, ok := tags.Lookup("state")
	if !ok {
		return out, nil
	}
	for opt := range strings.SplitSeq(tag, ",") {
		alias, isAlias := strings.CutPrefix(opt, "alias=")
		switch {
		case isAlias && alias != "":
			out.aliases = append(out.aliases, alias)
		case out.reducer == "" && !isAlias:
			out.reducer = opt
		default:
			return out, fmt.Errorf("has the tag `state:%q`, which is not understood", tag)
		}
	}
	return out, nil
}

// channel is the channel that the tag asks for, for a field of type t.
func (tag stateTag) channel(t reflect.Type) (ch channel.Channel, err error) {
	switch tag.reducer {
	case "append":
		ch, err = channel.AppendOf(t)
	case "add":
		ch, err = channel.AddOf(t)
	case "merge":
		ch, err = channel.MergeOf(t)
	case "messages":
		ch = channel.Messages(nil)
	default:
		err = errors.New("there is no such reducer; there are append, add, merge and messages")
	}
	if err != nil {
		return nil, fmt.Errorf("has the tag `state:%q`: %w", tag.reducer, err)
	}
	if typed, ok := ch.(channel.Typed); ok && !typed.ValueType().AssignableTo(t) {
		return nil, fmt.Errorf("has type %v, but its channel holds %v", t, typed.ValueType())
	}
	return ch, nil
}

// declarations are the keys of the state for the untyped builder.
func (s *stateType) declarations() []Field {
	out := make([]Field, len(s.fields))
	for i, f := range s.fields {
		out[i] = Field{Name: f.key, Channel: f.channel, Managed: f.managed}
	}
	return out
}

// lostInside are the keys in a stored value of a field that its type does not know.
func (s *stateType) lostInside(key string, v any) []string {
	i, ok := s.byKey[key]
	if !ok {
		return nil
	}
	lost := serde.Lost(s.fields[i].typ, v)
	for i := range lost {
		lost[i] = key + "." + lost[i]
	}
	return lost
}

// aliases are the former names of the keys.
func (s *stateType) aliases() map[string]string {
	out := map[string]string{}
	for _, f := range s.fields {
		for _, alias := range f.aliases {
			out[alias] = f.key
		}
	}
	return out
}

var (
	errorType = reflect.TypeFor[error]()
	textOut   = reflect.TypeFor[encoding.TextMarshaler]()
	textIn    = reflect.TypeFor[encoding.TextUnmarshaler]()
	valueOut  = reflect.TypeFor[serde.ValueEncoder]()
	valueIn   = reflect.TypeFor[serde.ValueDecoder]()
	serdePkg  = reflect.TypeFor[serde.Send]().PkgPath()
)

// storable returns an error if values of type t cannot be stored and read back. loses
// reports whether they may differ then, though of the same type: what is in an any becomes
// plain data, and a time keeps microseconds.
func storable(t reflect.Type, path string, seen map[reflect.Type]bool) (loses bool, err error) {
	bad := func(format string, args ...any) (bool, error) {
		what := fmt.Sprintf(format, args...)
		if path != "" {
			what = "holds " + path + ", which " + what
		}
		return false, fmt.Errorf("%s", what)
	}
	if seen[t] || t.PkgPath() == serdePkg {
		return false, nil
	}
	seen[t] = true
	if t == reflect.TypeFor[time.Time]() {
		return true, nil
	}
	if err := serde.CheckType(t); err != nil {
		return bad("is a struct that loses fields: %v", err)
	}
	if encodes := t.Implements(valueOut); encodes || t.Implements(valueIn) || reflect.PointerTo(t).Implements(valueIn) {
		if !encodes || !t.Implements(valueIn) && !reflect.PointerTo(t).Implements(valueIn) {
			return bad("is a %v, which says how it is stored or how it is read, and not both", t)
		}
		return true, nil // it may be read as more than was written
	}
	if t.Implements(errorType) {
		return bad("is an error (%v), of which only the text would be stored", t)
	}
	switch {
	case t.Implements(textOut) && !t.Implements(textIn) && !reflect.PointerTo(t).Implements(textIn):
		return bad("is a %v, which is stored as text and cannot be read back", t)
	case t.Implements(textOut):
		return false, nil
	case reflect.PointerTo(t).Implements(textOut):
		return bad("is a %v, which is stored as text through a pointer; use *%v", t, t)
	}
	elem := func(t reflect.Type, suffix string) (bool, error) {
		inner, err := storable(t, path+suffix, seen)
		loses = loses || inner
		return loses, err
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return bad("is a %v, which cannot be stored", t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return bad("is an interface with methods (%v), which cannot be read back", t)
		}
		return true, nil
	case reflect.Pointer:
		return elem(t.Elem(), "")
	case reflect.Slice, reflect.Array:
		return elem(t.Elem(), "[]")
	case reflect.Map:
		switch k := t.Key().Kind(); {
		case t.Key().Implements(textOut), k >= reflect.Bool && k <= reflect.Float64, k == reflect.String, k == reflect.Interface && t.Key().NumMethod() == 0:
		default:
			return bad("is a map with keys of type %v, which cannot be stored", t.Key())
		}
		loses = t.Key().Kind() == reflect.Interface
		return elem(t.Elem(), "[]")
	case reflect.Struct:
		names := map[string]string{}
		var former [][2]string // fields and their aliases
		for i := range t.NumField() {
			f := t.Field(i)
			switch {
			case skipped(f):
				loses = true
				continue
			case flat(f):
			case !f.IsExported():
				path += "." + f.Name
				return bad("is not exported, so it would be lost; leave it out with the tag `json:\"-\"`")
			default:
				key, _ := fieldKey(f)
				if other, dup := names[key]; dup {
					path += "." + f.Name
					return bad("has the key %q, and so has %s", key, other)
				}
				names[key] = f.Name
				tag, err := readStateTag(f.Tag)
				if err != nil {
					path += "." + f.Name
					return bad("%v", err)
				}
				for _, alias := range tag.aliases {
					former = append(former, [2]string{f.Name, alias})
				}
			}
			if _, err := elem(f.Type, "."+f.Name); err != nil {
				return false, err
			}
		}
		for _, f := range former {
			if other, taken := names[f[1]]; taken {
				path += "." + f[0]
				return bad("has the alias %q, which is a name of %s", f[1], other)
			}
			names[f[1]] = f[0]
		}
	}
	return loses, nil
}
