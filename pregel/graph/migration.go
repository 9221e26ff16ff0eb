package graph

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
)

// Migrate is a Migration of the state of a typed graph, for Options.Migrations: f makes the state of
// version to of that of version from. Old and New are structs as in For; what a thread has not stored is
// zero. A field of New that is zero and was not stored stays so. Keys of Old that New does not have are
// gone, and keys of neither stay as they are. Set Write, Packet, Question and Nodes of the result for
// what else is stored. An older state that is no Old, or a New that cannot be stored, fails the migration.
func Migrate[Old, New any](from, to string, f func(old Old) (New, error)) pregel.Migration {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	before, err := newStateType(reflect.TypeFor[Old](), nil)
	after, errAfter := newStateType(reflect.TypeFor[New](), nil)
	return pregel.Migration{From: from, To: to, Name: name, Values: func(values map[string]any) error {
		if err := cmp.Or(err, errAfter); err != nil {
			return err
		}
		old := new(Old)
		if err := before.fillFrom(reflect.ValueOf(old).Elem(), values); err != nil {
			return err
		}
		made, err := f(*old)
		if err == nil {
			after.putInto(values, reflect.ValueOf(&made).Elem(), before)
		}
		return err
	}}
}

// fillFrom sets the fields of state, which is a t, from stored values.
func (t *stateType) fillFrom(state reflect.Value, values map[string]any) error {
	for i := range t.fields {
		f := &t.fields[i]
		for _, key := range append([]string{f.key}, f.aliases...) {
			v, ok := values[key]
			if !ok {
				continue
			}
			if err := channel.ConvertInto(state.FieldByIndex(f.index).Addr().Interface(), v); err != nil {
				return fmt.Errorf("field %s of %v: %w", f.name, t.typ, err)
			}
			break
		}
	}
	return nil
}

// putInto puts the fields of state, which is a t, in place of those of an older state.
func (t *stateType) putInto(values map[string]any, state reflect.Value, before *stateType) {
	for i := range before.fields {
		f := &before.fields[i]
		for _, key := range append([]string{f.key}, f.aliases...) {
			if _, kept := t.byKey[key]; !kept {
				delete(values, key)
			}
		}
	}
	for i := range t.fields {
		f := &t.fields[i]
		v := state.FieldByIndex(f.index)
		if _, stored := values[f.key]; stored || !v.IsZero() {
			values[f.key] = v.Interface()
		}
	}
}
