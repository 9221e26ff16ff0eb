package serde_test

import (
	"encoding"
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/saver/serde"
)

// Fixed has methods so small that the compiler inlines them where they are promoted.
type Fixed struct{}

func (Fixed) EncodeValue() (any, int64, error) { return "fixed", 0, nil }

func (*Fixed) DecodeValue(any, func(int64) error) error { return nil }

type Tag struct{ b []byte }

func (t Tag) MarshalText() ([]byte, error) { return t.b, nil }

type labelled struct {
	Fixed
	Label string
}

type labelledAt struct {
	*Fixed
	Label string
}

type tagged struct {
	Tag
	Label string
}

type taggedAt struct {
	*Tag
	Label string
}

// ownSmall has methods of its own that are as small.
type ownSmall struct {
	Fixed
	Label string
}

func (o ownSmall) EncodeValue() (any, int64, error) { return o.Fixed.EncodeValue() }

func (o *ownSmall) DecodeValue(v any, m func(int64) error) error { return o.Fixed.DecodeValue(v, m) }

// TestPromotedInlined: a method that is inlined in the one that the compiler wrote for the struct
// does not hide it.
func TestPromotedInlined(t *testing.T) {
	for _, v := range []any{labelled{Label: "x"}, labelledAt{&Fixed{}, "x"}, tagged{Label: "x"}, taggedAt{&Tag{}, "x"}} {
		if typed, err := serde.Default().Encode(v); !errors.Is(err, serde.ErrUnsupported) {
			t.Errorf("%T: %q %v", v, typed.Data, err)
		}
	}
	for _, v := range []any{ownSmall{Label: "x"}, &ownSmall{Label: "x"}} {
		if _, err := serde.Default().Encode(v); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
}

type (
	ptr    struct{ *Celsius }
	iface  struct{ serde.ValueEncoder }
	text   struct{ encoding.TextMarshaler }
	at     struct{ *time.Time }
	failed struct {
		error
		Code int
	}
	nest struct{ ptr }
)

// TestPromotedNil: a struct whose method is that of an embedded pointer or interface that is nil is
// stored as nil, and what is stored is read into an embedded pointer that is made.
func TestPromotedNil(t *testing.T) {
	for _, v := range []any{ptr{}, &ptr{}, iface{}, iface{(*celsius)(nil)}, text{}, at{}, &at{}, failed{}, &failed{}, nest{}, alone{}} {
		typed, err := serde.Default().Encode(v)
		if err != nil || typed.Kind != serde.KindNull {
			t.Errorf("%T: %s %q %v", v, typed.Kind, typed.Data, err)
		}
		if _, err := serde.Default().Encode([]any{v}); err != nil {
			t.Errorf("%T in a list: %v", v, err)
		}
	}
	var e *serde.EncodeError
	for _, v := range []any{map[at]int{{}: 1}, map[*netip.Addr]int{nil: 1}} {
		if _, err := serde.Default().Encode(v); !errors.As(err, &e) {
			t.Errorf("a key of %T: %v", v, err)
		}
	}
	hot, err := serde.Default().Encode(celsius{degrees: 3})
	if err != nil {
		t.Fatal(err)
	}
	var p ptr
	if err := serde.Default().DecodeInto(hot, &p); err != nil || p.Celsius == nil || p.degrees != 3 {
		t.Errorf("%+v %v", p, err)
	}
	noon, err := serde.Default().Encode("2026-01-01T12:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	var a at
	if err := serde.Default().DecodeInto(noon, &a); err != nil || a.Time == nil || a.Hour() != 12 {
		t.Errorf("%+v %v", a, err)
	}
	var te *serde.TypeError
	for _, dst := range []any{new(alone), new(struct{ encoding.TextUnmarshaler })} {
		in := hot
		if reflect.TypeOf(dst) != reflect.TypeFor[*alone]() {
			in = noon
		}
		if err := serde.Default().DecodeInto(in, dst); !errors.As(err, &te) {
			t.Errorf("%T: %v", dst, err)
		}
	}
}

// unpacked is stored as JSON alone.
type unpacked func()

func (unpacked) MarshalJSON() ([]byte, error) { return []byte(`"unpacked"`), nil }

// TestPromotedJSON: what would lose fields is not written as JSON instead, which would lose them too.
func TestPromotedJSON(t *testing.T) {
	codec, err := serde.New(serde.Options{JSONFallback: true})
	if err != nil {
		t.Fatal(err)
	}
	m := moment{time.Unix(0, 0), "Oslo"}
	for _, v := range []any{
		m, []any{m}, []any{unpacked(nil), m}, map[string]any{"a": unpacked(nil), "b": &m}, struct {
			A unpacked
			B [1]moment
		}{B: [1]moment{m}}, []any{unpacked(nil), map[host]int{{netip.IPv6Loopback(), 80}: 1}},
	} {
		if typed, err := codec.Encode(v); !errors.Is(err, serde.ErrUnsupported) {
			t.Errorf("%s %q %v", typed.Kind, typed.Data, err)
		}
	}
	for _, v := range []any{unpacked(nil), []any{unpacked(nil), time.Unix(0, 0), own{celsius{}, "Oslo"}, nil, (*moment)(nil), []int(nil)}, struct {
		A unpacked
		B moment `json:"-"`
	}{}} {
		if typed, err := codec.Encode(v); err != nil || typed.Kind != serde.KindJSON {
			t.Errorf("%T: %s %q %v", v, typed.Kind, typed.Data, err)
		}
	}
}

// Price has a method of its own for JSON, Weight has it on the pointer.
type (
	Price  struct{ Cents int }
	Weight struct{ Grams int }
)

func (p Price) MarshalJSON() ([]byte, error) { return json.Marshal(p.Cents) }

func (w *Weight) MarshalJSON() ([]byte, error) { return json.Marshal(w.Grams) }

type (
	priced struct {
		Price
		Name string
	}
	pricedAt struct {
		*Price
		Name string
	}
	weighed struct {
		Weight
		Name string
	}
	onlyPrice struct{ Price }
	named     struct {
		Price
		Name string
	}
	// stamped is whole in MessagePack, and in JSON it is the time alone.
	stamped struct {
		time.Time
		Name string
	}
)

func (n named) MarshalJSON() ([]byte, error) { return json.Marshal(n.Name) }

func (s stamped) EncodeValue() (any, int64, error) {
	return map[string]any{"time": s.Time, "name": s.Name}, 0, nil
}

// TestPromotedMarshalJSON: the text of a struct that has its MarshalJSON, or for JSON alone its
// MarshalText, from a field that it embeds would be that of the field.
func TestPromotedMarshalJSON(t *testing.T) {
	codec, err := serde.New(serde.Options{JSONFallback: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{
		priced{Name: "bread"}, &priced{Name: "bread"}, pricedAt{&Price{}, "bread"}, &weighed{Name: "bread"}, []weighed{{Name: "bread"}},
		struct{ priced }{priced{Name: "bread"}}, stamped{Name: "bread"},
	} {
		if typed, err := codec.Encode([]any{unpacked(nil), v}); !errors.Is(err, serde.ErrUnsupported) {
			t.Errorf("%T: %s %q %v", v, typed.Kind, typed.Data, err)
		}
		if typed, err := codec.Encode(v); err != nil || typed.Kind != serde.KindMsgpack {
			t.Errorf("%T alone: %s %q %v", v, typed.Kind, typed.Data, err)
		}
	}
	for _, v := range []any{onlyPrice{}, &onlyPrice{}, named{Name: "bread"}, &Weight{}, map[string]weighed{"a": {Name: "bread"}}, json.RawMessage("1")} {
		if typed, err := codec.Encode([]any{unpacked(nil), v}); err != nil || typed.Kind != serde.KindJSON {
			t.Errorf("%T: %s %q %v", v, typed.Kind, typed.Data, err)
		}
	}
}
