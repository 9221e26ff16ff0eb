package serde_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/saver/serde"
)

// celsius is stored as a list of a number and a unit, and needs memory that depends on it.
type celsius struct {
	degrees int64
	buffer  []byte
}

var errFrozen = errors.New("too cold")

func (c celsius) EncodeValue() (any, int64, error) {
	if c.degrees < -273 {
		return nil, 0, errFrozen
	}
	return []any{c.degrees, "C"}, max(c.degrees, 0), nil
}

func (c *celsius) DecodeValue(v any, meter func(int64) error) error {
	list, ok := v.([]any)
	if !ok || len(list) != 2 || list[1] != "C" {
		return fmt.Errorf("no temperature: %v", v)
	}
	n := list[0].(int64)
	if err := meter(max(n, 0)); err != nil {
		return err
	}
	*c = celsius{n, make([]byte, max(n, 0))}
	return nil
}

// endless stands for itself.
type endless struct{ n int }

func (e endless) EncodeValue() (any, int64, error) { return endless{e.n + 1}, 0, nil }

type weather struct {
	Now   celsius            `json:"now"`
	Other *celsius           `json:"other"`
	Days  []celsius          `json:"days"`
	Towns map[string]celsius `json:"towns"`
	Any   any                `json:"any"`
}

func TestValueEncoder(t *testing.T) {
	w := weather{Now: celsius{degrees: 1}, Other: &celsius{degrees: 2}, Days: []celsius{{degrees: 3}, {degrees: 4}}, Towns: map[string]celsius{"x": {degrees: 5}}, Any: celsius{degrees: 6}}
	typed, err := serde.Default().Encode(w)
	if err != nil {
		t.Fatal(err)
	}
	v, err := serde.Default().Decode(typed)
	if got, want := fmt.Sprint(v), "map[any:[6 C] days:[[3 C] [4 C]] now:[1 C] other:[2 C] towns:map[x:[5 C]]]"; err != nil || got != want {
		t.Errorf("stored %s %v, want %s", got, err, want)
	}
	var back weather
	if err := serde.Default().DecodeInto(typed, &back); err != nil {
		t.Fatal(err)
	}
	if back.Now.degrees != 1 || back.Other.degrees != 2 || back.Days[1].degrees != 4 || back.Towns["x"].degrees != 5 || len(back.Days[0].buffer) != 3 {
		t.Errorf("read %+v", back)
	}
	if typed, err = serde.Default().Encode(weather{Other: (*celsius)(nil)}); err != nil {
		t.Fatal(err)
	}
	back = weather{}
	if err := serde.Default().DecodeInto(typed, &back); err != nil || back.Other != nil {
		t.Errorf("a nil pointer: %+v %v", back, err)
	}
}

func TestValueEncoderRefuses(t *testing.T) {
	var e *serde.EncodeError
	if _, err := serde.Default().Encode(map[string]any{"a": []celsius{{degrees: -300}}}); !errors.As(err, &e) || !errors.Is(err, errFrozen) || e.Path != "$.a[0]" {
		t.Errorf("its own error: %v", err)
	}
	if _, err := serde.Default().Encode(endless{}); !errors.Is(err, serde.ErrDepth) {
		t.Errorf("a value that stands for itself: %v", err)
	}
	typed, err := serde.Default().Encode(map[string]any{"days": []any{[]any{1, "F"}}})
	if err != nil {
		t.Fatal(err)
	}
	var te *serde.TypeError
	if err := serde.Default().DecodeInto(typed, new(weather)); !errors.As(err, &te) || te.Path != "$.days[0]" {
		t.Errorf("its own error: %v", err)
	}
}

// TestValueEncoderLimit: the memory that DecodeValue needs counts, for the reader and the writer.
func TestValueEncoderLimit(t *testing.T) {
	codec := serde.Default().WithDecodeLimit(1 << 20)
	typed, err := codec.Encode(celsius{degrees: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if err := codec.DecodeInto(typed, new(celsius)); err != nil {
		t.Error(err)
	}
	hot := celsius{degrees: 1 << 21}
	if _, err := codec.Encode(hot); !errors.Is(err, serde.ErrDecodeLimit) {
		t.Errorf("written: %v", err)
	}
	if typed, err = serde.Default().Encode(hot); err != nil {
		t.Fatal(err)
	}
	if err := codec.DecodeInto(typed, new(celsius)); !errors.Is(err, serde.ErrDecodeLimit) {
		t.Errorf("read: %v", err)
	}
	var c celsius
	if err := serde.Assign(&c, []any{int64(1 << 21), "C"}); err != nil || len(c.buffer) != 1<<21 {
		t.Errorf("Assign has no limit: %v", err)
	}
}

// TestFields: keys are written in the order given, also behind an Ext that was read.
func TestFields(t *testing.T) {
	f := serde.Fields{{Name: "z", Value: 1}, {Name: "a", Value: serde.Fields{{Name: "y", Value: 2}, {Name: "b", Value: 3}}}}
	typed, err := serde.Default().Encode(f)
	if want := "\x82\xa1z\x01\xa1a\x82\xa1y\x02\xa1b\x03"; err != nil || string(typed.Data) != want {
		t.Errorf("%q %v, want %q", typed.Data, err, want)
	}
}

// TestWithValue: a changed copy of what was read keeps the order of the keys that are left.
func TestWithValue(t *testing.T) {
	fields := serde.Fields{{Name: "z", Value: 1}, {Name: "m", Value: 2}, {Name: "a", Value: serde.Fields{{Name: "y", Value: 2}, {Name: "b", Value: 3}}}}
	typed, err := serde.Default().Encode(serde.NewExt(serde.ExtPydanticV2, "m", "N", fields, ""))
	if err != nil {
		t.Fatal(err)
	}
	v, err := serde.Default().Decode(typed)
	if err != nil {
		t.Fatal(err)
	}
	x := v.(*serde.Ext)
	changed := x.WithValue(map[string]any{"a": x.Fields()["a"], "z": 7, "k": serde.Fields{{Name: "q", Value: 1}, {Name: "c", Value: 2}}})
	again, err := serde.Default().Encode(changed)
	want := serde.NewExt(serde.ExtPydanticV2, "m", "N", serde.Fields{
		{Name: "z", Value: 7}, {Name: "a", Value: serde.Fields{{Name: "y", Value: 2}, {Name: "b", Value: 3}}}, {Name: "k", Value: serde.Fields{{Name: "q", Value: 1}, {Name: "c", Value: 2}}},
	}, "")
	expected, err2 := serde.Default().Encode(want)
	if err != nil || err2 != nil || string(again.Data) != string(expected.Data) {
		t.Errorf("%q %v, want %q", again.Data, err, expected.Data)
	}
	if x.Fields()["z"] != int64(1) {
		t.Error("the original changed")
	}
}
