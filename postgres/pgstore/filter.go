package pgstore

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stele-go/stele/postgres/internal/jsonb"
	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// arguments are the parameters of a statement that is being written.
type arguments []any

// add adds a parameter and returns its name.
func (a *arguments) add(v any) string {
	*a = append(*a, v)
	return "$" + strconv.Itoa(len(*a))
}

// narrowed is a condition in SQL that every item which passes a filter meets: the items for
// which it holds are looked at again in Go. It is not the filter itself, because jsonb
// compares otherwise: numbers as decimals, where a float that reads back the same is enough
// here, strings by the collation of the database, and values of different types at all. A
// value that is not in its JSON alone always passes.
func narrowed(a *arguments, filter map[string]any) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(filter)) {
		if !pgdb.Storable(key) {
			continue
		}
		before := len(*a)
		field := "(s.value -> " + a.add(key) + "::text)"
		conditions := fieldCondition(a, field, filter[key])
		if len(conditions) == 0 {
			*a = (*a)[:before] // a parameter that no condition names is an error
		}
		all = append(all, conditions...)
	}
	if len(all) == 0 {
		return "TRUE"
	}
	return "(x.value IS NOT NULL OR " + strings.Join(all, " AND ") + ")"
}

// fieldCondition returns conditions that hold if want matches a field; none if there is no such
// condition.
func fieldCondition(a *arguments, field string, want any) []string {
	v := reflect.ValueOf(want)
	if !v.IsValid() {
		return equalCondition(a, field, want)
	}
	switch v.Kind() {
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return nil
		}
		var all []string
		operators := false
		for _, key := range v.MapKeys() {
			operators = operators || strings.HasPrefix(key.String(), "$")
		}
		if !operators {
			return []string{hasType(field, "object")}
		}
		for it := v.MapRange(); it.Next(); {
			all = append(all, operatorCondition(a, field, it.Key().String(), it.Value().Interface())...)
		}
		return all
	case reflect.Slice, reflect.Array:
		return []string{hasType(field, "array")}
	}
	return equalCondition(a, field, want)
}

func operatorCondition(a *arguments, field, operator string, want any) []string {
	switch operator {
	case "$eq":
		return equalCondition(a, field, want)
	case "$ne":
		if want == nil {
			return []string{field + " <> 'null'"}
		}
		if text, ok := jsonScalar(want); ok {
			return []string{field + " IS DISTINCT FROM " + a.add(text) + "::text::jsonb"}
		}
	case "$gt", "$gte":
		return orderCondition(a, field, ">=", want)
	case "$lt", "$lte":
		return orderCondition(a, field, "<=", want)
	}
	return nil
}

func equalCondition(a *arguments, field string, want any) []string {
	if want == nil {
		return []string{"(" + field + " IS NULL OR " + field + " = 'null')"}
	}
	if text, ok := jsonScalar(want); ok {
		return []string{field + " = " + a.add(text) + "::text::jsonb"}
	}
	v := reflect.ValueOf(want)
	switch {
	case v.Kind() == reflect.String: // one that no JSON holds
		return []string{never(field)}
	case isTime(want):
		return []string{never(field)}
	}
	if low, high, ok := bounds(v); ok {
		return slices.Concat(orderNumber(a, field, ">=", low), orderNumber(a, field, "<=", high))
	}
	return nil
}

// orderCondition is a condition for fields above or below want, or equal to it.
func orderCondition(a *arguments, field, operator string, want any) []string {
	v := reflect.ValueOf(want)
	if low, high, ok := bounds(v); ok {
		if operator == ">=" {
			return orderNumber(a, field, operator, low)
		}
		return orderNumber(a, field, operator, high)
	}
	switch {
	case isTime(want):
		return []string{never(field)}
	case v.Kind() == reflect.Bool:
		return []string{hasType(field, "boolean")}
	case v.Kind() == reflect.String && pgdb.Storable(v.String()):
		return []string{hasType(field, "string"), fmt.Sprintf(`(%s #>> '{}') COLLATE "C" %s %s::text`, field, operator, a.add(v.String()))}
	case v.Kind() == reflect.String:
		return []string{hasType(field, "string")}
	}
	return nil
}

func orderNumber(a *arguments, field, operator string, bound float64) []string {
	all := []string{hasType(field, "number")}
	if math.IsInf(bound, 0) {
		return all
	}
	return append(all, fmt.Sprintf("%s %s %s::text::jsonb", field, operator, a.add(strconv.FormatFloat(bound, 'g', -1, 64))))
}

func hasType(field, name string) string { return "jsonb_typeof(" + field + ") = '" + name + "'" }

// never is a condition that does not hold.
func never(field string) string { return "(FALSE AND " + field + " IS NULL)" }

func isTime(v any) bool {
	_, ok := v.(time.Time)
	return ok
}

// bounds returns a number below and one above all decimals that may read as v. The JSON has decimals,
// many of which read as the same float, and the printed form of a float may be half a step away from
// it.
func bounds(v reflect.Value) (low, high float64, ok bool) {
	var f float64
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		f = float64(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		f = float64(v.Uint())
	case reflect.Float32, reflect.Float64:
		f = v.Float()
	default:
		return 0, 0, false
	}
	below := func(f float64) float64 { return math.Nextafter(f, math.Inf(-1)) }
	above := func(f float64) float64 { return math.Nextafter(f, math.Inf(1)) }
	return below(below(f)), above(above(f)), true
}

// jsonScalar is the JSON of a bool or a string, if JSON holds it.
func jsonScalar(v any) (string, bool) {
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(rv.Bool()), true
	case reflect.String:
		text, err := jsonb.AppendString(nil, "", rv.String())
		return string(text), err == nil
	}
	return "", false
}
