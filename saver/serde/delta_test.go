package serde_test

import (
	"strings"
	"testing"

	"github.com/stele-go/stele/saver/serde"
)

// MayBeDelta never misses a snapshot, whatever its size, and wants no second look
// at plain data.
func TestMayBeDelta(t *testing.T) {
	for _, v := range []any{1, "a", []string{"a"}, map[string]any{"k": 1}, serde.Interrupt{ID: "i"}, nil, []byte("b")} {
		plain, err := serde.Default().Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		if serde.MayBeDelta(plain) {
			t.Errorf("%#v may be a snapshot", v)
		}
	}
	for _, n := range []int{0, 1, 3, 100, 300, 70_000} {
		typed, err := serde.Default().Encode(serde.DeltaSnapshot{Value: strings.Repeat("x", n)})
		if err != nil {
			t.Fatal(err)
		}
		if !serde.MayBeDelta(typed) {
			t.Errorf("a snapshot of %d bytes is not seen", n)
		}
	}
	if !serde.MayBeDelta(serde.Typed{Kind: "msgpack+aes", Data: []byte("sealed")}) {
		t.Error("what is encrypted may be anything")
	}
}
