package server

import (
	"encoding/json"
	"testing"
)

// TestOrNull: whatever the shape is, null has it as well, and nothing else does more than before.
func TestOrNull(t *testing.T) {
	for _, c := range []struct {
		shape     *shape
		good, bad any
	}{
		{text, "a", true},
		{oneOf("a", "b"), "a", "c"},
		{either(flag, texts), true, "a"},
		{upTo(1, 3), int64(3), int64(4)},
		{few(text, 1), []any{"a"}, []any{"a", "b"}},
	} {
		s := orNull(c.shape)
		if err := s.check(nil); err != nil {
			t.Errorf("%v: %v", c.shape, err)
		}
		if err := s.check(c.good); err != nil {
			t.Errorf("%v: %v", c.shape, err)
		}
		if s.check(c.bad) == nil {
			t.Errorf("%v: %v is taken", c.shape, c.bad)
		}
	}
	for _, v := range []any{nil, "a", true} {
		if err := orNull(anything).check(v); err != nil {
			t.Error(err)
		}
	}
}

// TestSchemaTellsWhatIsChecked: the description has each bound that a request is held to.
func TestSchemaTellsWhatIsChecked(t *testing.T) {
	for _, c := range []struct {
		shape *shape
		want  string
	}{
		{&shape{types: []string{"array"}, items: text, least: 1, most: 3}, `{"items":{"type":"string"},"maxItems":3,"minItems":1,"type":"array"}`},
		{orNull(oneOf("a", "b")), `{"anyOf":[{"enum":["a","b"],"type":"string"},{"type":"null"}]}`},
		{upTo(1, 3), `{"maximum":3,"minimum":1,"type":"integer"}`},
	} {
		if got, err := json.Marshal(c.shape.schema()); err != nil || string(got) != c.want {
			t.Errorf("%s, %v, want %s", got, err, c.want)
		}
	}
}
