package channel_test

import (
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

type place struct {
	X    int      `json:"x"`
	Tags []string `json:"tags"`
}

func ptr[T any](v T) *T { return &v }

// plain is v as it is decoded if nobody says what type it has.
func plain(t *testing.T, v any) any {
	t.Helper()
	typed, err := serde.Default().Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := serde.Default().Decode(typed)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A value has the channel's type however it came: as itself, as plain data, or stored.
func TestExactOf(t *testing.T) {
	for _, want := range []any{
		1, int8(-1), uint64(1 << 63), 1.5, float32(0.5), "x", true, []byte("x"), time.Minute, netip.MustParseAddr("::1"),
		place{1, []string{"a"}}, []place{{2, []string{}}}, map[string]place{"a": {3, []string{"b"}}}, map[int]string{4: "c"}, [2]int{5, 6},
		ptr(7), ptr(place{8, []string{}}), ptr("y"), (*int)(nil), ptr(netip.MustParseAddr("::2")), []*place{nil, {9, []string{}}},
	} {
		typ := reflect.TypeOf(want)
		spec := channel.ExactOf(typ).Named("c")
		for what, write := range map[string]any{"itself": want, "plain data": plain(t, want)} {
			c := spec.Copy()
			if changed, err := c.Update([]any{write}); err != nil || !changed {
				t.Errorf("%v as %s: %v", typ, what, err)
				continue
			}
			if got, ok := c.Get(); !ok || reflect.TypeOf(got) != typ || !reflect.DeepEqual(got, want) {
				t.Errorf("%v as %s: got %#v", typ, what, got)
			}
		}
		typed, err := serde.Default().Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		c, err := spec.Restore(saver.ValueTyped(typed))
		if err != nil {
			t.Errorf("%v stored: %v", typ, err)
			continue
		}
		if got, _ := c.Get(); reflect.TypeOf(got) != typ || !reflect.DeepEqual(got, want) {
			t.Errorf("%v stored: got %#v", typ, got)
		}
		if c.Key() != "c" || !c.Equal(spec) || c.Equal(channel.ExactOf(reflect.TypeFor[chan int]())) || spec.(channel.Typed).ValueType() != typ {
			t.Errorf("%v: the channel is %+v", typ, c)
		}
	}
}

func TestExactRefuses(t *testing.T) {
	for _, c := range []struct {
		typ   reflect.Type
		write any
	}{
		{reflect.TypeFor[int](), "1"}, {reflect.TypeFor[int8](), 1000}, {reflect.TypeFor[int](), 1.5}, {reflect.TypeFor[uint](), -1},
		{reflect.TypeFor[string](), 1}, {reflect.TypeFor[string](), []any{}}, {reflect.TypeFor[[]int](), "x"}, {reflect.TypeFor[[]int](), []any{"x"}},
		{reflect.TypeFor[place](), 1}, {reflect.TypeFor[place](), map[string]any{"x": "1"}}, {reflect.TypeFor[*int](), "1"}, {reflect.TypeFor[netip.Addr](), "x"},
		{reflect.TypeFor[*place](), true}, {reflect.TypeFor[map[string]int](), []any{1}}, {reflect.TypeFor[bool](), 1},
	} {
		ch := channel.ExactOf(c.typ).Named("c")
		_, err := ch.Update([]any{c.write})
		var mistyped *channel.TypeError
		if !errors.Is(err, channel.ErrInvalidUpdate) || !errors.As(err, &mistyped) {
			t.Errorf("a %T for a %v: %v", c.write, c.typ, err)
		}
		if ch.Available() {
			t.Errorf("a %T changed a %v", c.write, c.typ)
		}
	}
	_, err := channel.Convert[place](map[string]any{"x": []string{"1"}})
	if mistyped := new(channel.TypeError); !errors.As(err, &mistyped) || mistyped.Plain() != "x: want an integer, got a list" || err.Error() != mistyped.Plain() {
		t.Error(err)
	}
	_, err = channel.Convert[place](1)
	if mistyped := new(channel.TypeError); !errors.As(err, &mistyped) || mistyped.Plain() != "want an object, got an integer" || err.Error() != "want an object (channel_test.place), got an integer" {
		t.Error(err)
	}
	if _, err := channel.ExactOf(reflect.TypeFor[int]()).Update([]any{1, 2}); !errors.Is(err, channel.ErrInvalidUpdate) {
		t.Errorf("two writes: %v", err)
	}
	c := channel.ExactOf(reflect.TypeFor[place]())
	if _, err := c.Update([]any{nil}); err != nil {
		t.Error(err)
	}
	if v, ok := c.Get(); !ok || !reflect.DeepEqual(v, place{}) {
		t.Errorf("nil is %#v", v)
	}
}

func TestExactFolds(t *testing.T) {
	must := func(c channel.Channel, err error) channel.Channel {
		if err != nil {
			t.Fatal(err)
		}
		return c.Named("c")
	}
	type counts map[string]int
	for _, c := range []struct {
		ch     channel.Channel
		empty  any
		writes []any
		want   any
	}{
		{must(channel.AppendOf(reflect.TypeFor[[]place]())), []place{}, []any{[]place{{1, []string{}}}, []any{map[string]any{"x": 2, "tags": []any{}}}}, []place{{1, []string{}}, {2, []string{}}}},
		{must(channel.AddOf(reflect.TypeFor[int8]())), int8(0), []any{int8(1), int64(2)}, int8(3)},
		{must(channel.AddOf(reflect.TypeFor[uint]())), uint(0), []any{uint(1), int64(2)}, uint(3)},
		{must(channel.AddOf(reflect.TypeFor[float32]())), float32(0), []any{float32(1), 2.5}, float32(3.5)},
		{must(channel.AddOf(reflect.TypeFor[time.Duration]())), time.Duration(0), []any{time.Second, time.Minute}, 61 * time.Second},
		{must(channel.AddOf(reflect.TypeFor[string]())), "", []any{"a", "b"}, "ab"},
		{must(channel.MergeOf(reflect.TypeFor[counts]())), counts{}, []any{counts{"a": 1, "b": 1}, map[string]any{"b": int64(2)}}, counts{"a": 1, "b": 2}},
	} {
		typ := reflect.TypeOf(c.want)
		if v, ok := c.ch.Get(); !ok || !reflect.DeepEqual(v, c.empty) {
			t.Errorf("%v begins with %#v", typ, v)
		}
		before := c.ch.Copy()
		if err := channel.Check(c.ch, c.writes); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
		if _, err := c.ch.Update(c.writes); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
		got, _ := c.ch.Get()
		if reflect.TypeOf(got) != typ || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: got %#v, want %#v", typ, got, c.want)
		}
		if v, _ := before.Get(); !reflect.DeepEqual(v, c.empty) {
			t.Errorf("%v: the copy became %#v", typ, v)
		}
		for what, stored := range map[string]any{"whole": c.want, "a snapshot": serde.DeltaSnapshot{Value: c.want}} {
			typed, err := serde.Default().Encode(stored)
			if err != nil {
				t.Fatal(err)
			}
			back, err := before.Restore(saver.ValueTyped(typed))
			if err != nil {
				t.Errorf("%v stored as %s: %v", typ, what, err)
				continue
			}
			if v, _ := back.Get(); reflect.TypeOf(v) != typ || !reflect.DeepEqual(v, c.want) {
				t.Errorf("%v stored as %s: %#v", typ, what, v)
			}
		}
		if _, err := c.ch.Update([]any{serde.Overwrite{Value: c.empty}}); err != nil {
			t.Errorf("%v: overwrite: %v", typ, err)
		}
		if v, _ := c.ch.Get(); !reflect.DeepEqual(v, c.empty) {
			t.Errorf("%v: overwritten %#v", typ, v)
		}
		for what, writes := range map[string][]any{"a wrong type": {struct{ A chan int }{}}, "a wrong overwrite": {serde.Overwrite{Value: []any{true, "x"}}}, "two overwrites": {serde.Overwrite{Value: c.want}, serde.Overwrite{Value: c.want}}} {
			if _, err := c.ch.Update(writes); !errors.Is(err, channel.ErrInvalidUpdate) {
				t.Errorf("%v: %s: %v", typ, what, err)
			}
			if err := channel.Check(c.ch, writes); !errors.Is(err, channel.ErrInvalidUpdate) {
				t.Errorf("%v: check of %s: %v", typ, what, err)
			}
		}
		if !c.ch.Equal(before) || c.ch.Equal(channel.ExactOf(typ)) || c.ch.(channel.Typed).ValueType() != typ {
			t.Errorf("%v: the channel is %+v", typ, c.ch)
		}
	}
}

// A type that reads its own text takes a text, also in other channels.
func TestTextIsConverted(t *testing.T) {
	c := channel.LastValue[netip.Addr]()
	if _, err := c.Update([]any{"192.0.2.1"}); err != nil {
		t.Error(err)
	}
	if v, _ := c.Get(); v != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("got %v", v)
	}
	if n, err := channel.Convert[*int](int64(1)); err != nil || *n != 1 {
		t.Errorf("a pointer to a number: %v", err)
	}
	if _, err := channel.Convert[*int]("1"); err == nil {
		t.Error("a text became a pointer to a number")
	}
}

// FuzzExact reads any bytes as values of several types, as a checkpoint has them and as a
// pending write has them.
func FuzzExact(f *testing.F) {
	types := []reflect.Type{reflect.TypeFor[int8](), reflect.TypeFor[string](), reflect.TypeFor[[]place](), reflect.TypeFor[map[string]*place](), reflect.TypeFor[any](), reflect.TypeFor[time.Time](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[[2]float32]()}
	for _, v := range []any{1, "x", []place{{1, []string{"a"}}}, map[string]*place{"a": {}}, time.Now(), nil, []any{1.5, 2}, serde.DeltaSnapshot{Value: []place{{}}}} {
		typed, err := serde.Default().Encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(typed.Data)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		typed := serde.Typed{Kind: "msgpack", Data: b}
		for _, typ := range types {
			specs := []channel.Channel{channel.ExactOf(typ)}
			if c, err := channel.AppendOf(typ); err == nil {
				specs = append(specs, c)
			}
			for _, spec := range specs {
				if c, err := spec.Restore(saver.ValueTyped(typed)); err == nil {
					if v, ok := c.Get(); ok && v != nil && typ.Kind() != reflect.Interface && reflect.TypeOf(v) != typ {
						t.Errorf("a %v was read as a %T", typ, v)
					}
				}
				v, err := serde.Default().Decode(typed)
				if err != nil {
					continue
				}
				c := spec.Copy()
				if _, err := c.Update([]any{v}); err == nil {
					if x, _ := c.Get(); x != nil && typ.Kind() != reflect.Interface && reflect.TypeOf(x) != typ {
						t.Errorf("a %T became a %T, not a %v", v, x, typ)
					}
				}
			}
		}
	})
}

// Two nodes that append to what they are given do not write to one another's memory, nor to
// that of the node that wrote it.
func TestExactHidesSpareCapacity(t *testing.T) {
	list := reflect.TypeFor[[]string]()
	appends, err := channel.AppendOf(list)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]channel.Channel{"exact": channel.ExactOf(list), "append": appends} {
		written := append(make([]string, 0, 8), "written")
		if _, err := c.Update([]any{written}); err != nil {
			t.Fatal(err)
		}
		first, _ := c.Get()
		second, _ := c.Get()
		third := append(written, "writer")
		a, b := append(first.([]string), "a"), append(second.([]string), "b")
		if a[1] != "a" || b[1] != "b" || third[1] != "writer" {
			t.Errorf("%s: appended %v, %v and %v", name, a, b, third)
		}
	}
}
