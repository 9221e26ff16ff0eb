package jsontext

import (
	"testing"
	"time"
)

type named []string

func TestKind(t *testing.T) {
	for want, v := range map[string]any{
		"null": nil, "a boolean": true, "a string": "", "an integer": uint16(1), "a number": 1.5, "a list": []any{}, "bytes": []byte{}, "an object": map[any]any{},
		"a list (jsontext.named)": &named{}, "an object (time.Time)": time.Time{}, "func()": func() {},
	} {
		if got := Kind(v); got != want {
			t.Errorf("%T is %q, want %q", v, got, want)
		}
	}
}
