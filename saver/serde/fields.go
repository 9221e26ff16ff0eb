package serde

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// structPlan lists the fields of a struct type that are serialized, in the
// order of the declaration.
type structPlan struct {
	fields []planField
	byName map[string]int
	extra  []int // index path of the map[string]any that takes unknown fields
	// embedded is the size of the structs that t embeds as pointers.
	embedded int64
}

type planField struct {
	name      string
	index     []int
	omitEmpty bool
	tagged    bool
	former    []string // names under which it is read, too
}

// in returns the field of v. ok is false if it is behind a nil embedded pointer.
func (f *planField) in(v reflect.Value) (reflect.Value, bool) {
	return fieldAt(v, f.index)
}

func fieldAt(v reflect.Value, index []int) (reflect.Value, bool) {
	for i, x := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return reflect.Value{}, false
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v, true
}

// renamed returns the field that m has under the former name, and under no name that comes before it:
// the present one, or one that stands before it in the tag.
func (p *structPlan) renamed(name string, m map[string]any) (int, bool) {
	for i := range p.fields {
		f := &p.fields[i]
		if at := slices.Index(f.former, name); at >= 0 && !has(m, f.name) && !slices.ContainsFunc(f.former[:at], func(n string) bool { return has(m, n) }) {
			return i, true
		}
	}
	return 0, false
}

// fold returns the field whose name differs from name in case only.
func (p *structPlan) fold(name string) (int, bool) {
	for i := range p.fields {
		if strings.EqualFold(p.fields[i].name, name) {
			return i, true
		}
	}
	return 0, false
}

// extraPairs returns the pairs of the extra map of v that are no fields, sorted.
func (p *structPlan) extraPairs(v reflect.Value) []pair {
	if p.extra == nil {
		return nil
	}
	m, ok := fieldAt(v, p.extra)
	if !ok {
		return nil
	}
	extra := m.Interface().(map[string]any) //nolint:errcheck // planStruct takes no other type
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		if _, known := p.byName[k]; !known {
			out = append(out, pair{k, extra[k]})
		}
	}
	return out
}

var plans sync.Map // reflect.Type → *structPlan; types are as many as the program has

func planOf(t reflect.Type) *structPlan {
	if p, ok := plans.Load(t); ok {
		return p.(*structPlan) //nolint:errcheck // holds nothing else
	}
	p, _ := plans.LoadOrStore(t, planStruct(t))
	return p.(*structPlan) //nolint:errcheck // holds nothing else
}

// tagOf reads the first of the tags there is.
func tagOf(f reflect.StructField) (name string, opts []string, ok bool) {
	for _, key := range []string{"stele", "msgpack", "json"} {
		if tag, found := f.Tag.Lookup(key); found {
			parts := strings.Split(tag, ",")
			return parts[0], parts[1:], true
		}
	}
	return "", nil, false
}

// formerNames are the aliases of a field, which the tag state has: see package graph.
func formerNames(f reflect.StructField) (names []string) {
	for opt := range strings.SplitSeq(f.Tag.Get("state"), ",") {
		if name, ok := strings.CutPrefix(opt, "alias="); ok {
			names = append(names, name)
		}
	}
	return names
}

// level is an embedded struct whose fields are still to be listed.
type level struct {
	t     reflect.Type
	index []int
}

// planStruct lists fields level by level, as encoding/json does. Of equal names the outermost
// wins. Of several on one level the only tagged one wins; otherwise the name is dropped.
func planStruct(t reflect.Type) *structPlan {
	p := &structPlan{}
	taken := map[string]bool{}
	visited := map[reflect.Type]bool{t: true}
	for levels := []level{{t: t}}; len(levels) > 0; {
		var found []planField
		var below []level
		for _, l := range levels {
			for i := range l.t.NumField() {
				p.scan(l, l.t.Field(i), &found, &below)
			}
		}
		for _, f := range dominant(found) {
			if !taken[f.name] {
				p.fields = append(p.fields, f)
			}
		}
		for _, f := range found {
			taken[f.name] = true
		}
		levels = levels[:0]
		for _, l := range below {
			if !visited[l.t] {
				visited[l.t] = true
				levels = append(levels, l)
			}
		}
	}
	slices.SortStableFunc(p.fields, func(a, b planField) int { return slices.Compare(a.index, b.index) })
	p.byName = make(map[string]int, len(p.fields))
	for i, f := range p.fields {
		p.byName[f.name] = i
	}
	return p
}

// scan sorts one field into found, below or extra.
func (p *structPlan) scan(l level, f reflect.StructField, found *[]planField, below *[]level) {
	name, opts, tagged := tagOf(f)
	index := append(slices.Clone(l.index), f.Index...)
	if f.Anonymous && name == "" {
		t := f.Type
		if t.Kind() == reflect.Pointer && f.IsExported() {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct && !isNative(t) {
			if t != f.Type {
				p.embedded += rounded(int64(t.Size()))
			}
			*below = append(*below, level{t, index})
			return
		}
	}
	if !f.IsExported() || (name == "-" && len(opts) == 0) {
		return
	}
	if slices.Contains(opts, "extra") && f.Type == reflect.TypeFor[map[string]any]() {
		p.extra = index
		return
	}
	if name == "" {
		name = f.Name
		tagged = false
	}
	*found = append(*found, planField{
		name: name, index: index, tagged: tagged,
		omitEmpty: slices.Contains(opts, "omitempty"),
		former:    formerNames(f),
	})
}

// dominant drops names for which no field of a level wins.
func dominant(found []planField) []planField {
	var out []planField
	for i, f := range found {
		wins := true
		for j, g := range found {
			if i != j && g.name == f.name && (g.tagged || !f.tagged) {
				wins = false
			}
		}
		if wins {
			out = append(out, f)
		}
	}
	return out
}

// isEmpty reports whether v is empty in the sense of omitempty of encoding/json.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
