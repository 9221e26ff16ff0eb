package runs

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// fill sets all fields of a struct to something, those of structs inside as well.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.CanSet() {
			continue
		}
		switch f.Interface().(type) {
		case time.Time:
			f.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, i, 5000, time.UTC)))
			continue
		case map[string]any:
			f.Set(reflect.ValueOf(map[string]any{"a<b": []any{"\n", 1.5, nil}, "b": map[string]any{"n": float64(i)}}))
			continue
		}
		switch f.Kind() {
		case reflect.Struct:
			fill(f)
		case reflect.String:
			f.SetString(f.Type().Name() + "\"ü\u2028")
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 2, 2))
			if f.Type().Elem().Kind() == reflect.String {
				f.Index(0).SetString("x\ty")
			}
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{"k": "v"}))
		default:
			panic("a field of kind " + f.Kind().String())
		}
	}
}

// TestItemTexts: package json reads from the texts of items what it reads from those it writes, of
// values that have all their fields and of such that have none.
func TestItemTexts(t *testing.T) {
	var spec Spec
	fill(reflect.ValueOf(&spec).Elem())
	var run storedRun
	fill(reflect.ValueOf(&run).Elem())
	run.Spec, run.ID = Spec{}, "" // its key
	var note TaskNote
	fill(reflect.ValueOf(&note).Elem())
	marshal := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	same := func(got, want []byte, into func() any) {
		t.Helper()
		a, b := into(), into()
		if err := json.Unmarshal(got, a); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if err := json.Unmarshal(want, b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s\nreads as %+v, want %+v", got, a, b)
		}
	}
	odd := Spec{Metadata: map[string]any{"a": json.Number("1")}, Labels: map[string]any{"m": map[string]any(nil), "t": map[string]string{"a": "b"}}}
	for _, s := range []Spec{spec, {}, odd, {Input: serde.Typed{Data: []byte{}}}} {
		text, err := appendSpec(nil, &s)
		if err != nil {
			t.Fatal(err)
		}
		same(text, marshal(s), func() any { return new(Spec) })
	}
	for _, r := range []storedRun{run, {}} {
		text, err := appendRun(nil, &r)
		if err != nil {
			t.Fatal(err)
		}
		same(text, marshal(r), func() any { return new(storedRun) })
	}
	for _, n := range []TaskNote{note, {}} {
		same(appendNote(nil, n), marshal(n), func() any { return new(TaskNote) })
	}
	if _, err := appendRun(nil, &storedRun{Run: Run{After: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}); err == nil {
		t.Error("a time that cannot be read again was written")
	}
	if _, err := appendSpec(nil, &Spec{Labels: map[string]any{"f": func() {}}}); err == nil {
		t.Error("what is no JSON was written")
	}
}

// TestStoredAfter: a run that may begin when it was created does not store that, and one that was put off,
// as well as one of before 0.1.0, which stored both, is read as it was.
func TestStoredAfter(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for _, after := range []time.Time{created, created.Add(time.Microsecond), created.Add(-time.Hour)} {
		r := storedRun{Run: Run{ID: "r", Status: Pending, Created: created, After: after}}
		short, err := appendRun(nil, &r)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(short, []byte(`"after"`)) != (after != created) {
			t.Errorf("%s", short)
		}
		for _, text := range [][]byte{short, whole} {
			var got storedRun
			if err := got.decode(&store.Item{Key: "r", Value: map[string]any{jsonField: string(text)}}); err != nil || !reflect.DeepEqual(got, r) {
				t.Errorf("%s: %+v, %v", text, got, err)
			}
		}
	}
}
