package serde

import (
	"reflect"
	"slices"
	"testing"
)

type (
	lostBase  struct{ ID string }
	lostPlace struct {
		City string `json:"city" state:"alias=town"`
		Zip  string
	}
	lostAll struct {
		lostBase
		*LostMore
		Home   lostPlace            `json:"home"`
		Work   *lostPlace           `json:"work"`
		Others []lostPlace          `json:"others"`
		ByName map[string]lostPlace `json:"by_name"`
		Any    any                  `json:"any"`
		Own    lostOwn              `json:"own"`
		Kept   lostKept             `json:"kept"`
	}
	LostMore struct{ More int }
	lostKept struct {
		A    int            `json:"a"`
		Rest map[string]any `stele:",extra"`
	}
	lostOwn struct{ kept any }
)

func (lostOwn) EncodeValue() (any, int64, error) { return nil, 0, nil }

func (o *lostOwn) DecodeValue(v any, _ func(int64) error) error { o.kept = v; return nil }

// TestLost: each key that Assign leaves out is told with its place, wherever the struct lies, and no other.
func TestLost(t *testing.T) {
	m := func(pairs ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i].(string)] = pairs[i+1]
		}
		return out
	}
	for name, c := range map[string]struct {
		v    any
		want []string
	}{
		"nothing":                      {nil, nil},
		"all known":                    {m("ID", "x", "More", 1, "home", m("city", "c", "Zip", "z")), nil},
		"outermost":                    {m("gone", 1, "home", m()), []string{"gone"}},
		"in a struct":                  {m("home", m("city", "c", "street", "s")), []string{"home.street"}},
		"behind a pointer":             {m("work", m("street", m("x", 1))), []string{"work.street"}},
		"in a list":                    {m("others", []any{m("street", "s"), nil, m("street", "s", "floor", 1)}), []string{"others.floor", "others.street"}},
		"in a map":                     {m("by_name", m("ada", m("street", "s"))), []string{"by_name.street"}},
		"in another map":               {m("by_name", map[any]any{1: m("street", "s")}), []string{"by_name.street"}},
		"in an extension":              {m("home", &Ext{Value: m("street", "s")}), []string{"home.street"}},
		"a former name":                {m("home", m("town", "c")), nil},
		"another case":                 {m("home", m("CITY", "c", "zip", "z")), nil},
		"a name beside its former one": {m("home", m("city", "c", "town", "t")), []string{"home.town"}},
		"two cases":                    {m("home", m("city", "c", "City", "t")), []string{"home.City"}},
		"an any":                       {m("any", m("whatever", 1)), nil},
		"reads itself":                 {m("own", m("whatever", 1)), nil},
		"keeps the rest":               {m("kept", m("a", 1, "whatever", 2)), nil},
		"another type":                 {m("home", []any{m("street", "s")}, "others", "text"), nil},
	} {
		got := Lost(reflect.TypeFor[lostAll](), c.v)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := Lost(reflect.TypeFor[[]*lostPlace](), []any{m("street", "s")}); !slices.Equal(got, []string{"street"}) {
		t.Errorf("a list: %q", got)
	}
}
