package serde

import (
	"reflect"
	"strings"
	"testing"
)

// A list of strings is decoded without a value for each in between; the result, and
// what is refused, are the same.
func TestStringsDecodeAlike(t *testing.T) {
	c := Default()
	long := strings.Repeat("long ", 400)
	cases := []Typed{}
	for _, v := range []any{[]any{}, []any{"a", "", "é", long}, []any{"a", nil}, []any{"a", 1}, []any{[]any{"a"}}, nil, "a", map[string]any{"a": "b"},
		Set{"a", "b"}, []any{Decimal("1.5"), "a"}, []any{[]byte("a")}} {
		typed, err := c.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, typed)
		if n := len(typed.Data); n > 0 {
			cases = append(cases, Typed{Kind: typed.Kind, Data: typed.Data[:n-1]}, Typed{Kind: typed.Kind, Data: append(typed.Data[:n:n], mNil)})
		}
	}
	cases = append(cases, Typed{Kind: KindMsgpack, Data: []byte{0x91, 0xa1, 0xff}}, Typed{Kind: KindMsgpack, Data: []byte{0xdd, 0xff, 0xff, 0xff, 0xff, 0xa0}},
		Typed{Kind: KindBytes, Data: []byte("a")})
	fast := 0
	for _, typed := range cases {
		if _, ok := c.decodeStrings(typed.Data); ok && typed.Kind == KindMsgpack {
			fast++
		}
		for _, before := range [][]string{nil, {"old", "older"}} {
			got, want := before, before
			err := c.DecodeInto(typed, &got)
			v, wantErr := c.Decode(typed)
			if wantErr == nil {
				wantErr = Assign(&want, v)
			}
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Errorf("%s %x: error %v, want %v", typed.Kind, typed.Data, err, wantErr)
			}
			if err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%s %x: %q, want %q", typed.Kind, typed.Data, got, want)
			}
		}
	}
	if fast != 2 {
		t.Errorf("%d of the cases are plain lists of strings, want 2", fast)
	}
}
