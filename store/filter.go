package store

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Operators of filters.
const (
	opEq  = "$eq"
	opNe  = "$ne"
	opGt  = "$gt"
	opGte = "$gte"
	opLt  = "$lt"
	opLte = "$lte"
)

// allOps are the operators, for messages.
var allOps = strings.Join([]string{opEq, opNe, opGt, opGte, opLt, opLte}, ", ")

// maxFilterDepth bounds nesting, so that a cyclic filter is an error.
const maxFilterDepth = 64

// filter is a compiled Query.Filter: conditions that must all hold.
type filter []condition

// condition is a test of the value under a key.
type condition struct {
	key  string
	test test
}

// test is one of four: equality with a scalar or other data, operators, a filter for the
// members of a map, or a test for each element of a list.
type test struct {
	form    testForm
	scalar  scalar // formEqual; of kind scalarNone if data is no scalar
	data    any    // formEqual
	ops     []opTest
	partial filter
	list    []test
}

type testForm uint8

const (
	formEqual testForm = iota
	formOps
	formPartial
	formList
)

type opTest struct {
	op     string
	scalar scalar
	data   any
}

// CompileFilter checks a filter, and returns a function that reports whether a value passes it.
// It is safe for concurrent use.
func CompileFilter(f map[string]any) (match func(value map[string]any) bool, err error) {
	compiled, err := compileFilter(f)
	return compiled.match, err
}

// compileFilter compiles f. It refuses operands that nothing can be compared with.
func compileFilter(f map[string]any) (filter, error) { return compileMap("filter", f, 0) }

func compileMap(at string, f map[string]any, depth int) (filter, error) {
	if depth > maxFilterDepth {
		return nil, invalidf(at, "nested deeper than %d", maxFilterDepth)
	}
	out := make(filter, 0, len(f))
	for _, k := range slices.Sorted(maps.Keys(f)) {
		if strings.HasPrefix(k, "$") { // $or, say, would find nothing; below a key, compileOps sees it
			return nil, invalidf(at, "operator %q has no key; put it under one, and use %s", k, allOps)
		}
		t, err := compileTest(fmt.Sprintf("%s[%q]", at, k), f[k], depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, condition{k, t})
	}
	return out, nil
}

func compileTest(at string, want any, depth int) (test, error) {
	if depth > maxFilterDepth {
		return test{}, invalidf(at, "nested deeper than %d", maxFilterDepth)
	}
	v := reflect.ValueOf(want)
	switch {
	case want == nil:
	case isMap(v):
		m := make(map[string]any, v.Len())
		operators := false
		for it := v.MapRange(); it.Next(); {
			m[it.Key().String()] = it.Value().Interface()
			operators = operators || strings.HasPrefix(it.Key().String(), "$")
		}
		if operators {
			return compileOps(at, m, depth)
		}
		part, err := compileMap(at, m, depth)
		return test{form: formPartial, partial: part}, err
	case isList(v) && v.Type().Elem().Kind() != reflect.Uint8:
		t := test{form: formList}
		for i := range v.Len() {
			e, err := compileTest(fmt.Sprintf("%s[%d]", at, i), v.Index(i).Interface(), depth+1)
			if err != nil {
				return test{}, err
			}
			t.list = append(t.list, e)
		}
		return t, nil
	}
	if err := checkOperand(at, want); err != nil {
		return test{}, err
	}
	return test{form: formEqual, scalar: scalarOf(want), data: want}, nil
}

func compileOps(at string, m map[string]any, depth int) (test, error) {
	t := test{form: formOps}
	for _, op := range slices.Sorted(maps.Keys(m)) {
		x := opTest{op: op, scalar: scalarOf(m[op]), data: m[op]}
		switch op {
		case opEq, opNe:
			if err := checkData(at+"."+op, m[op], depth); err != nil {
				return test{}, err
			}
		case opGt, opGte, opLt, opLte:
			if err := checkOperand(at+"."+op, m[op]); err != nil {
				return test{}, err
			}
			if x.scalar.kind == scalarNone || x.scalar.kind == scalarNil {
				return test{}, invalidf(at+"."+op, "has no order; use a number, a text, true or false, or a time")
			}
		default:
			return test{}, invalidf(at, "operator %q is unknown; use %s", op, allOps)
		}
		t.ops = append(t.ops, x)
	}
	return t, nil
}

// checkOperand refuses an operand that no stored value can be compared with.
func checkOperand(at string, v any) error {
	if s := scalarOf(v); s.kind == scalarFloat && math.IsNaN(s.num) {
		return invalidf(at, "NaN has no order and equals nothing")
	}
	switch reflect.ValueOf(v).Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return invalidf(at, "cannot be compared; use plain data")
	}
	return nil
}

// checkData is checkOperand for everything v holds.
func checkData(at string, v any, depth int) error {
	if depth > maxFilterDepth {
		return invalidf(at, "nested deeper than %d", maxFilterDepth)
	}
	rv := reflect.ValueOf(v)
	switch {
	case v == nil:
		return nil
	case isMap(rv):
		for it := rv.MapRange(); it.Next(); {
			if err := checkData(at, it.Value().Interface(), depth+1); err != nil {
				return err
			}
		}
		return nil
	case isList(rv):
		for i := range rv.Len() {
			if err := checkData(at, rv.Index(i).Interface(), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return checkOperand(at, v)
}

// match reports whether value passes every condition.
func (f filter) match(value map[string]any) bool {
	for i := range f {
		if !f[i].test.match(value[f[i].key]) {
			return false
		}
	}
	return true
}

func (t *test) match(v any) bool {
	if s := scalarOf(v); s.kind != scalarNone {
		return t.matchScalar(s)
	}
	rv := reflect.ValueOf(v)
	switch t.form {
	case formEqual:
		return t.scalar.kind == scalarNone && equalData(v, t.data)
	case formOps:
		return t.matchOps(func(o *opTest) bool { return o.scalar.kind == scalarNone && equalData(v, o.data) }, scalar{})
	case formPartial:
		if !isMap(rv) {
			return false
		}
		for i := range t.partial {
			var member any
			if e := rv.MapIndex(reflect.ValueOf(t.partial[i].key).Convert(rv.Type().Key())); e.IsValid() {
				member = e.Interface()
			}
			if !t.partial[i].test.match(member) {
				return false
			}
		}
		return true
	case formList:
		if !isList(rv) || rv.Len() != len(t.list) {
			return false
		}
		for i := range t.list {
			if !t.list[i].match(rv.Index(i).Interface()) {
				return false
			}
		}
		return true
	}
	return false
}

// matchScalar is match for a scalar. It does not allocate.
func (t *test) matchScalar(s scalar) bool {
	switch t.form {
	case formEqual:
		return t.scalar.kind != scalarNone && s.equal(t.scalar)
	case formOps:
		return t.matchOps(func(o *opTest) bool { return o.scalar.kind != scalarNone && s.equal(o.scalar) }, s)
	}
	return false
}

func (t *test) matchOps(equal func(*opTest) bool, s scalar) bool {
	for i := range t.ops {
		o := &t.ops[i]
		switch o.op {
		case opEq:
			if !equal(o) {
				return false
			}
			continue
		case opNe:
			if equal(o) {
				return false
			}
			continue
		}
		c, ok := s.compare(o.scalar)
		if !ok || o.op == opGt && c <= 0 || o.op == opGte && c < 0 || o.op == opLt && c >= 0 || o.op == opLte && c > 0 {
			return false
		}
	}
	return true
}
