package saver

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// validateFilter checks the keys and values of a Query.Filter. A key consists of
// letters, digits, underscore, dot and hyphen; a value is plain data: nil, bool,
// number (not NaN), string, bytes, or lists and string-keyed maps of these.
// Anything else is an InvalidError.
func validateFilter(filter map[string]any) error {
	for key, v := range filter {
		if key == "" || strings.ContainsFunc(key, notFilterKeyRune) {
			return Invalidf(fmt.Sprintf("filter key %q", key), "use letters, digits, '_', '.' and '-'")
		}
		if err := checkComparable(v, 0); err != nil {
			return Invalidf(fmt.Sprintf("filter[%q]", key), "%v", err)
		}
	}
	return nil
}

func notFilterKeyRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-')
}

// maxFilterDepth bounds nesting, so that a cyclic value is an error.
const maxFilterDepth = 64

func checkComparable(v any, depth int) error {
	if depth > maxFilterDepth {
		return fmt.Errorf("nested deeper than %d", maxFilterDepth)
	}
	if v == nil {
		return nil
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Float32, reflect.Float64:
		if math.IsNaN(rv.Float()) {
			return fmt.Errorf("NaN equals nothing")
		}
		return nil
	case reflect.Slice, reflect.Array:
		for i := range rv.Len() {
			if err := checkComparable(rv.Index(i).Interface(), depth+1); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		if rv.Type().Key().Kind() != reflect.String {
			return errors.New("cannot be compared with metadata; use texts as keys")
		}
		for it := rv.MapRange(); it.Next(); {
			if err := checkComparable(it.Value().Interface(), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("cannot be compared with metadata; use plain data")
}

// Match reports whether every key of filter equals the metadata's value.
// A nil filter value also matches a missing key. A key that the metadata does
// not have as it stands, and that contains dots, descends into nested maps.
// Numbers are equal by value, whatever their Go type; true is not 1.
func (md Metadata) Match(filter map[string]any) bool {
	for key, want := range filter {
		if !equalData(lookup(md, key), want) {
			return false
		}
	}
	return true
}

func lookup(md Metadata, key string) any {
	if v, ok := md[key]; ok || !strings.Contains(key, ".") {
		return v
	}
	var cur any = map[string]any(md)
	for part := range strings.SplitSeq(key, ".") {
		m, ok := cur.(map[string]any)
		if !ok {
			return nil
		}
		cur = m[part]
	}
	return cur
}

// equalData is deep equality of plain data across Go's number types.
func equalData(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	av, bv := reflect.ValueOf(a), reflect.ValueOf(b)
	if an, ok := numberOf(av); ok {
		bn, ok := numberOf(bv)
		return ok && an.equal(bn)
	}
	switch av.Kind() {
	case reflect.String:
		return bv.Kind() == reflect.String && av.String() == bv.String()
	case reflect.Bool:
		return bv.Kind() == reflect.Bool && av.Bool() == bv.Bool()
	case reflect.Slice, reflect.Array:
		return equalLists(av, bv)
	case reflect.Map:
		return equalMaps(av, bv)
	}
	return reflect.DeepEqual(a, b)
}

func equalLists(av, bv reflect.Value) bool {
	if bv.Kind() != reflect.Slice && bv.Kind() != reflect.Array || av.Len() != bv.Len() {
		return false
	}
	for i := range av.Len() {
		if !equalData(av.Index(i).Interface(), bv.Index(i).Interface()) {
			return false
		}
	}
	return true
}

func equalMaps(av, bv reflect.Value) bool {
	if bv.Kind() != reflect.Map || av.Len() != bv.Len() ||
		av.Type().Key().Kind() != reflect.String || bv.Type().Key().Kind() != reflect.String {
		return false
	}
	for it := av.MapRange(); it.Next(); {
		other := bv.MapIndex(it.Key().Convert(bv.Type().Key()))
		if !other.IsValid() || !equalData(it.Value().Interface(), other.Interface()) {
			return false
		}
	}
	return true
}

// number is an integer exactly, or a float.
type number struct {
	neg   bool
	mag   uint64
	float float64
	isInt bool
}

func numberOf(v reflect.Value) (number, bool) {
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n := v.Int()
		if n < 0 {
			return number{neg: true, mag: uint64(-(n + 1)) + 1, float: float64(n), isInt: true}, true
		}
		return number{mag: uint64(n), float: float64(n), isInt: true}, true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return number{mag: v.Uint(), float: float64(v.Uint()), isInt: true}, true
	case reflect.Float32, reflect.Float64:
		return number{float: v.Float()}, true
	}
	return number{}, false
}

func (a number) equal(b number) bool {
	if a.isInt && b.isInt {
		return a.neg == b.neg && a.mag == b.mag
	}
	return a.float == b.float
}

// CompareListing is the order of a listing: checkpoint id descending; equal ids
// by thread, then namespace, ascending.
func (a Config) CompareListing(b Config) int {
	return cmp.Or(cmp.Compare(b.CheckpointID, a.CheckpointID), cmp.Compare(a.ThreadID, b.ThreadID), cmp.Compare(a.Namespace, b.Namespace))
}
