package wire

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// A message is a struct, and its tags are its form: `msgpack:"name,omitempty"`, "-" for a field
// that is not sent, and ",inline" for a struct whose fields are the message's own. An embedded
// struct is inline. A slice is left out if it is nil. Further options:
//
//	null   the zero value is sent as nil
//	not    a bool is sent as its opposite
//	limit  0 is sent for saver.NoResults
//
// A struct without tags is a list of its fields.

// tags are the types that have the tags for types of other packages, with the same fields.
var tags = map[reflect.Type]reflect.Type{
	reflect.TypeFor[saver.Config]():          reflect.TypeFor[config](),
	reflect.TypeFor[saver.Checkpoint]():      reflect.TypeFor[checkpoint](),
	reflect.TypeFor[saver.Note]():            reflect.TypeFor[note](),
	reflect.TypeFor[saver.TaskWrites]():      reflect.TypeFor[taskWrites](),
	reflect.TypeFor[saver.DeltaHistory]():    reflect.TypeFor[deltaHistory](),
	reflect.TypeFor[saver.Query]():           reflect.TypeFor[query](),
	reflect.TypeFor[saver.ThreadQuery]():     reflect.TypeFor[threadQuery](),
	reflect.TypeFor[saver.ThreadInfo]():      reflect.TypeFor[threadInfo](),
	reflect.TypeFor[saver.RetentionPolicy](): reflect.TypeFor[retentionPolicy](),
	reflect.TypeFor[saver.RetentionReport](): reflect.TypeFor[retentionReport](),
	reflect.TypeFor[saver.Removal]():         reflect.TypeFor[removal](),
	reflect.TypeFor[saver.KeptList]():        reflect.TypeFor[keptList](),
	reflect.TypeFor[saver.Kept]():            reflect.TypeFor[kept](),
	reflect.TypeFor[store.GetOp]():           reflect.TypeFor[getOp](),
	reflect.TypeFor[store.Query]():           reflect.TypeFor[search](),
	reflect.TypeFor[store.NamespaceQuery]():  reflect.TypeFor[namespaces](),
}

// shape is the form of a struct.
type shape struct {
	fields []field
	list   bool
}

// field is a field of a message.
type field struct {
	name                   string
	index                  []int
	omit, null, not, limit bool
}

var element = &field{} // of what is in a list or a map

var shapes sync.Map // reflect.Type → *shape; types are as many as messages have

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape) //nolint:errcheck // holds nothing else
	}
	s := &shape{list: t.NumField() > 0}
	s.add(t, nil)
	shapes.Store(t, s)
	return s
}

// add adds the fields of t, which is at index in the message.
func (s *shape) add(t reflect.Type, index []int) {
	tagged := t
	if other, ok := tags[t]; ok {
		tagged = other
	}
	for i := range tagged.NumField() {
		f := tagged.Field(i)
		at := append(slices.Clone(index), i)
		tag, isTagged := f.Tag.Lookup("msgpack")
		name, options, _ := strings.Cut(tag, ",")
		has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
		if isTagged && name != "-" || f.Anonymous {
			s.list = false
		}
		switch {
		case name == "-":
		case f.Anonymous || has("inline"):
			s.add(f.Type, at)
		default:
			s.fields = append(s.fields, field{name, at, has("omitempty"), has("null"), has("not"), has("limit")})
		}
	}
}

// find returns the field with a name; nil if there is none. It begins at the field from, as fields
// mostly come in order, and returns the index after the one that it found.
func (s *shape) find(name []byte, from int) (f *field, after int) {
	for i := range s.fields {
		if after = from + i + 1; after > len(s.fields) {
			after -= len(s.fields)
		}
		if f = &s.fields[after-1]; f.name == string(name) {
			return f, after
		}
	}
	return nil, from
}
