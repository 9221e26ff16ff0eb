package runs_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/stele-go/stele/runs"
)

// TestSpecNumbers: integers of 64 bits stay what they are; other numbers are float64, as programs expect them.
func TestSpecNumbers(t *testing.T) {
	for text, want := range map[string]any{
		`1`: 1.0, `-0`: math.Copysign(0, -1), `1.5`: 1.5, `9007199254740992`: 9007199254740992.0, `-9007199254740992`: -9007199254740992.0,
		`9007199254740993`: int64(1<<53 + 1), `-9007199254740993`: int64(-1<<53 - 1), `9223372036854775807`: int64(math.MaxInt64),
		`-9223372036854775808`: int64(math.MinInt64), `9223372036854775808`: float64(1 << 63), `0.1234567890123456789`: 0.12345678901234568,
		`1234567890123456789e1`: 12345678901234567890.0, `"9007199254740993"`: "9007199254740993",
		`[1, {"n": 9007199254740993}]`: []any{1.0, map[string]any{"n": int64(1<<53 + 1)}},
	} {
		for _, field := range []string{"metadata", "configurable", "context", "labels"} {
			var s runs.Spec
			if err := runs.UnmarshalSpec([]byte(`{"graph": "g", "`+field+`": {"v": `+text+`}}`), &s); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			got := map[string]map[string]any{"metadata": s.Metadata, "configurable": s.Configurable, "context": s.Context, "labels": s.Labels}[field]["v"]
			if !reflect.DeepEqual(got, want) || s.Graph != "g" {
				t.Errorf("%s of %s is %T %v, want %T %v", text, field, got, got, want, want)
			}
		}
	}
	for _, wrong := range []string{`{"metadata": {"v": 1234567890123456789e999}}`, `{"graph": 1234567890123456789}`} {
		if err := runs.UnmarshalSpec([]byte(wrong), &runs.Spec{}); !errors.As(err, new(*json.UnmarshalTypeError)) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if err := runs.UnmarshalSpec([]byte(`{} 1234567890123456789`), &runs.Spec{}); !errors.As(err, new(*json.SyntaxError)) {
		t.Errorf("%v", err)
	}
}

// FuzzUnmarshalSpec: what package json takes is taken, with the same values but for long integers, and the rest
// is refused.
func FuzzUnmarshalSpec(f *testing.F) {
	f.Add([]byte(`{"graph": "g", "metadata": {"n": 9007199254740993, "m": [1.5, {"a": -9223372036854775808}]}}`))
	f.Add([]byte(`{"labels": {"n": 1e400, "m": 12345678901234567890}} 1`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var plain, s runs.Spec
		want, err := json.Unmarshal(text, &plain), runs.UnmarshalSpec(text, &s)
		if (want == nil) != (err == nil) {
			t.Fatalf("%v, and package json says %v", err, want)
		}
		if err != nil {
			return
		}
		one, err1 := json.Marshal(plain)
		var again runs.Spec
		text, err2 := json.Marshal(s)
		err3 := json.Unmarshal(text, &again)
		two, err4 := json.Marshal(again)
		if err := errors.Join(err1, err2, err3, err4); err != nil || string(one) != string(two) {
			t.Fatalf("%s, %s: %v", one, two, err)
		}
	})
}
