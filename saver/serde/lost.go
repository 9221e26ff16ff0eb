package serde

import (
	"maps"
	"reflect"
	"slices"
)

// Lost are the keys of maps in v, a value as Decode returns it, that a value of type t would not keep if Assign
// filled it from v: a struct has no field for them, by its name, a former name or another case, and no field for
// all others. A key is told with the keys around it, as in "author.nick", once however many elements of a list or a
// map have it. What a type reads by itself (ValueDecoder, encoding.TextUnmarshaler), what a Registry makes, and
// what is in an any, is not looked at. The list is sorted.
func Lost(t reflect.Type, v any) []string {
	found := map[string]bool{}
	lost(t, v, "", found)
	return slices.Sorted(maps.Keys(found))
}

// lost notes the keys in v, which lies below path.
func lost(t reflect.Type, v any, path string, found map[string]bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if x, ok := v.(*Ext); ok && x != nil && x.Data == nil {
		v = x.Value
	}
	if p := reflect.PointerTo(t); v == nil || p.Implements(valueDecoderType) || p.Implements(textUnmarshalerType) {
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		list, _ := listOf(v)
		for _, e := range list {
			lost(t.Elem(), e, path, found)
		}
	case reflect.Map:
		switch m := v.(type) {
		case map[string]any:
			for _, e := range m {
				lost(t.Elem(), e, path, found)
			}
		case map[any]any:
			for _, e := range m {
				lost(t.Elem(), e, path, found)
			}
		}
	case reflect.Struct:
		m, _ := v.(map[string]any)
		plan := planOf(t)
		for name, e := range m {
			i, known := plan.byName[name]
			if !known {
				if i, known = plan.renamed(name, m); !known {
					i, known = plan.fold(name)
				}
				known = known && !has(m, plan.fields[i].name)
			}
			switch {
			case known:
				lost(t.FieldByIndex(plan.fields[i].index).Type, e, path+name+".", found)
			case plan.extra == nil:
				found[path+name] = true
			}
		}
	}
}
