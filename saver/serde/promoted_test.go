package serde_test

import (
	"errors"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/saver/serde"
)

// Celsius is celsius where it is embedded and exported.
type Celsius = celsius

type reading struct {
	Celsius
	Where string
}

type pointing struct {
	*Celsius
	Where string
}

type inner struct{ Celsius }

type outer struct {
	inner
	Where string
}

type deep struct{ reading }

type spoken struct {
	serde.ValueEncoder
	Where string
}

type moment struct {
	time.Time
	Where string
}

type host struct {
	netip.Addr
	Port int
}

type large struct {
	big.Int
	Where string
}

// own says itself what is stored.
type own struct {
	Celsius
	Where string
}

func (o own) EncodeValue() (any, int64, error) { return []any{o.degrees, o.Where}, 0, nil }

func (o *own) DecodeValue(v any, _ func(int64) error) error {
	list := v.([]any)
	o.degrees, o.Where = list[0].(int64), list[1].(string)
	return nil
}

// half says what is stored, and leaves the reading to what it embeds.
type half struct {
	Celsius
	Where string
}

func (h half) EncodeValue() (any, int64, error) { return []any{h.degrees, h.Where}, 0, nil }

type generic[T any] struct {
	Celsius
	Where T
}

func (g generic[T]) EncodeValue() (any, int64, error) { return []any{g.Where}, 0, nil }

func (g *generic[T]) DecodeValue(any, func(int64) error) error { return nil }

type alone struct{ *celsius }

type twice[T any] struct {
	Celsius
	Where T
}

type cached struct {
	Celsius
	Memo  string `json:"-"`
	quick bool
}

// TestPromoted: what would be stored as a field that it embeds, and lose the others, is refused,
// wherever it is.
func TestPromoted(t *testing.T) {
	c := celsius{degrees: 1}
	for _, v := range []any{
		reading{c, "Oslo"}, &reading{c, "Oslo"}, pointing{&c, "Oslo"}, outer{inner{c}, "Oslo"}, deep{reading{c, "Oslo"}}, spoken{c, "Oslo"},
		moment{time.Unix(0, 0), "Oslo"}, host{netip.IPv6Loopback(), 80}, &large{*big.NewInt(1), "Oslo"}, half{c, "Oslo"}, twice[int]{c, 1},
	} {
		for _, in := range []any{v, []any{v}, map[string]any{"k": v}, struct{ V any }{v}} {
			var e *serde.EncodeError
			if typed, err := serde.Default().Encode(in); !errors.As(err, &e) || !errors.Is(err, serde.ErrUnsupported) {
				t.Errorf("%T: %q %v", v, typed.Data, err)
			}
		}
		if err := serde.CheckType(reflect.TypeOf(v)); err == nil {
			t.Errorf("%T: no error", v)
		}
	}
	if _, err := serde.Default().Encode(map[host]int{{netip.IPv6Loopback(), 80}: 1}); !errors.Is(err, serde.ErrUnsupported) {
		t.Errorf("a key: %v", err)
	}
	typed, err := serde.Default().Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	var te *serde.TypeError
	for _, dst := range []any{new(reading), new(outer), new(deep)} {
		if err := serde.Default().DecodeInto(typed, dst); !errors.As(err, &te) || !errors.Is(err, serde.ErrUnsupported) {
			t.Errorf("%T: %v", dst, err)
		}
	}
}

// TestNotPromoted: what has a method of its own, or no other field, is stored.
func TestNotPromoted(t *testing.T) {
	c := celsius{degrees: 1}
	for _, v := range []any{
		own{c, "Oslo"}, &own{c, "Oslo"}, inner{c}, alone{&c}, generic[string]{c, "Oslo"}, cached{c, "x", true},
		struct{ time.Time }{time.Unix(0, 0)}, struct{ At time.Time }{}, struct {
			Now   celsius
			Where string
		}{c, "Oslo"}, struct {
			error
			Code int
		}{errFrozen, 1},
	} {
		if _, err := serde.Default().Encode(v); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
	typed, err := serde.Default().Encode(own{c, "Oslo"})
	if err != nil {
		t.Fatal(err)
	}
	var back own
	if err := serde.Default().DecodeInto(typed, &back); err != nil || back.Where != "Oslo" || back.degrees != 1 {
		t.Errorf("%+v %v", back, err)
	}
}
