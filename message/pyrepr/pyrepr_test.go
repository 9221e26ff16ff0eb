package pyrepr

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// TestRecorded: the texts are Python's.
func TestRecorded(t *testing.T) {
	data, err := os.ReadFile("testdata/repr.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Value json.RawMessage
		Repr  string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		dec := json.NewDecoder(strings.NewReader(string(c.Value)))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if got := String(numbers(v)); got != c.Repr {
			t.Errorf("%s: got %s, want %s", c.Value, got, c.Repr)
		}
	}
}

// numbers tells floats from integers, as a checkpoint does.
func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64()
		return f
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return v
}

func TestOther(t *testing.T) {
	for want, v := range map[string]any{
		"nan": math.NaN(), "inf": math.Inf(1), "-inf": math.Inf(-1), "{'a': 1, 'b': 2}": map[string]any{"b": 2, "a": uint64(1)},
	} {
		if got := String(v); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	loop := []any{nil}
	loop[0] = loop
	if got := String(loop); !strings.Contains(got, "...") {
		t.Error("a list that contains itself")
	}
}
