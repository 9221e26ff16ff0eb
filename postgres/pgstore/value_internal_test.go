package pgstore

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Whatever a row holds, it is a value or an error. A value that was read is stored so that
// it reads back the same.
func FuzzStoredValue(f *testing.F) {
	for _, text := range []string{`{}`, `{"a": [1, 1.0, -0.0, 1e300, 5e-324, 18446744073709551615, 1e400], "b": {"": null}}`, `[1]`, `null`, `{"a": "\u0000\ud800"}`, `{`, `{"a": 1} x`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := decodeValue(text)
		if err != nil {
			if !errors.Is(err, saver.ErrCorrupt) {
				t.Errorf("%v is no ErrCorrupt", err)
			}
			return
		}
		stored, err := encodeValue(serde.Default(), "k", read)
		if err != nil {
			return // too deep
		}
		var again map[string]any
		if stored.exact != nil {
			again, err = decodeExact(serde.Default(), *stored.exact)
		} else {
			again, err = decodeValue([]byte(stored.json))
		}
		a, _ := serde.Default().Encode(read)
		b, _ := serde.Default().Encode(again)
		if err != nil || !bytes.Equal(a.Data, b.Data) {
			t.Errorf("%q reads back as %v, %v", text, again, err)
		}
		if _, err := decodeValue([]byte(stored.json)); err != nil {
			t.Errorf("what others read of %q: %v", text, err)
		}
	})
}

// Whatever a row holds, it is a vector or an error.
func FuzzVector(f *testing.F) {
	f.Add(encodeVector([]float32{0, -1.5, 1e30}))
	f.Add([]byte{0, 0, 128, 127})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeVector(nil, b)
		if err != nil && !errors.Is(err, saver.ErrCorrupt) || err == nil && !bytes.Equal(encodeVector(v), b) {
			t.Errorf("%x reads as %v, %v", b, v, err)
		}
	})
}

// The bounds of a number are below and above all decimals that read as a float next to it.
func TestBounds(t *testing.T) {
	for _, f := range []float64{0, 1, -1, 0.1, 1e23, 1 << 53, 1 << 63, 5e-324, math.MaxFloat64, math.Inf(1), math.Inf(-1)} {
		low, high, ok := bounds(reflect.ValueOf(f))
		if !ok || low > math.Nextafter(f, math.Inf(-1)) || high < math.Nextafter(f, math.Inf(1)) || !math.IsInf(f, 0) && (low >= f || high <= f) {
			t.Errorf("bounds of %g: %g and %g", f, low, high)
		}
	}
	if low, high, _ := bounds(reflect.ValueOf(int64(1<<53 + 1))); low >= 1<<53 || high <= 1<<53+2 {
		t.Errorf("bounds of an integer that no float is: %g and %g", low, high)
	}
	if _, _, ok := bounds(reflect.ValueOf("1")); ok {
		t.Error("a string has bounds")
	}
}
