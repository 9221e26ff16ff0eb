package storetest

import (
	"fmt"

	"github.com/stele-go/stele/store"
)

var pathCases = []testCase{
	{id: "STO-07", name: "texts at paths", fn: func(e *env) {
		doc := value{
			"name": "test", "n": 7, "f": 1.0, "ok": true, "nil": nil, "none": []any{}, "void": value{},
			"info":  value{"age": 25, "tags": []any{"a", "b", "c"}, "metadata": value{"created": "2024-01-01", "updated": "2024-01-02"}},
			"items": []any{value{"id": 1, "value": "first", "tags": []any{"x", "y"}}, value{"id": 2, "value": "second", "tags": []any{"y", "z"}}},
		}
		whole := `{"f": 1.0, "info": {"age": 25, "metadata": {"created": "2024-01-01", "updated": "2024-01-02"}, "tags": ["a", "b", "c"]}, ` +
			`"items": [{"id": 1, "tags": ["x", "y"], "value": "first"}, {"id": 2, "tags": ["y", "z"], "value": "second"}], ` +
			`"n": 7, "name": "test", "nil": null, "none": [], "ok": true, "void": {}}`
		for _, c := range []struct {
			path string
			want []string
		}{
			{"$", []string{whole}}, {"", []string{whole}},
			{"name", []string{"test"}}, {"n", []string{"7"}}, {"f", []string{"1.0"}}, {"ok", []string{"True"}},
			{"info.age", []string{"25"}}, {"info.metadata.created", []string{"2024-01-01"}},
			{"items[0].value", []string{"first"}}, {"items[-1].value", []string{"second"}}, {"items[1].tags[0]", []string{"y"}},
			{"items[*].value", []string{"first", "second"}}, {"items[*].tags[*]", []string{"x", "y", "y", "z"}},
			{"info.metadata.*", []string{"2024-01-01", "2024-01-02"}}, {"info.tags.*", []string{"a", "b", "c"}},
			{"{name,info.age}", []string{"test", "25"}}, {"items[*].{id,value}", []string{"1", "first", "2", "second"}}, {"{ name , none }", []string{"test", "[]"}},
			{"none", []string{"[]"}}, {"void", []string{"{}"}}, {"nil", nil}, {"info.tags", []string{`["a", "b", "c"]`}},
			{"nonexistent", nil}, {"info.nonexistent", nil}, {"items[99].value", nil}, {"items[*].nonexistent", nil}, {"name.x", nil}, {"name[0]", nil},
			{"items[", nil}, {"items[invalid]", nil}, {"{name", nil}, {"items[-3]", nil}, {"{nonexistent}", nil}, {".", []string{whole}},
		} {
			e.equal(fmt.Sprintf("texts at %q", c.path), store.TextAtPath(doc, c.path), c.want)
		}
	}},
	{id: "STO-07", name: "text as Python prints it", fn: func(e *env) {
		for want, v := range map[string]any{
			"null": nil, `"é\n\"\\\u0001"`: "é\n\"\\\x01", "1e+16": 1e16, "1e-05": 1e-5, "0.0001": 0.0001, "123456789.5": 123456789.5,
			"-3": int8(-3), "[true, false]": []bool{true, false},
		} {
			e.equal("text", store.TextAtPath(v, "$"), []string{want})
		}
	}},
}
