package serde_test

import (
	"encoding"
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/serde"
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
