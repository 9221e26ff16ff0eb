package pgdb

import (
	"bytes"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// What parameters encode is what pgx encodes.
func TestParameters(t *testing.T) {
	text := "a\x01ü"
	args := []struct {
		arg any
		oid uint32
	}{
		{int64(-5), pgtype.Int8OID}, {7, pgtype.Int4OID}, {-7, pgtype.Int4OID}, {true, pgtype.BoolOID}, {false, pgtype.BoolOID},
		{[16]byte{1, 15: 9}, pgtype.UUIDOID},
		{time.Date(2031, 2, 3, 4, 5, 6, 7000, time.UTC), pgtype.TimestamptzOID}, {time.Date(1931, 2, 3, 4, 5, 6, 7000, time.UTC), pgtype.TimestamptzOID},
		{text, pgtype.TextOID}, {"", pgtype.TextOID}, {&text, pgtype.TextOID}, {(*string)(nil), pgtype.TextOID},
		{[]byte{0, 255}, pgtype.ByteaOID}, {[]byte{}, pgtype.ByteaOID}, {[]byte(nil), pgtype.ByteaOID}, {[]byte(text), pgtype.TextOID},
		{[]string{"", text}, pgtype.TextArrayOID}, {[]string{}, pgtype.TextArrayOID}, {[]string(nil), pgtype.TextArrayOID},
		{[]*string{&text, nil}, pgtype.TextArrayOID}, {[]*string(nil), pgtype.TextArrayOID},
		{[][]byte{{0, 255}, {}, nil}, pgtype.ByteaArrayOID}, {[][]byte{}, pgtype.ByteaArrayOID}, {[][]byte(nil), pgtype.ByteaArrayOID},
		{[]bool{true, false}, pgtype.BoolArrayOID}, {[]bool(nil), pgtype.BoolArrayOID},
		{[]int32{-1, 1 << 30}, pgtype.Int4ArrayOID}, {[]int32{}, pgtype.Int4ArrayOID},
	}
	p := parametersPool.New().(*parameters)
	var all []any
	for _, a := range args {
		all = append(all, a.arg)
	}
	for range 2 { // the second time in buffers that were used
		if err := p.encode(all); err != nil {
			t.Fatal(err)
		}
		for i, a := range args {
			want, err := pgtype.NewMap().Encode(a.oid, pgtype.BinaryFormatCode, a.arg, []byte{})
			if err != nil {
				t.Fatal(err)
			}
			got := p.values[i]
			if (want == nil) != (got == nil) {
				t.Errorf("%T %v: NULL is %v, want %v", a.arg, a.arg, got == nil, want == nil)
			}
			if isArray(a.arg) && got != nil {
				got, want = bytes.Clone(got), bytes.Clone(want)
				got[7], want[7] = 0, 0 // whether there may be NULLs, which the server does not believe
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%T %v: %x, want %x", a.arg, a.arg, got, want)
			}
		}
		p.buf, p.ends, p.values = p.buf[:0], p.ends[:0], p.values[:0]
	}
	if err := p.encode([]any{int16(1)}); err == nil {
		t.Error("a type that is none of the statements' was encoded")
	}
}

func isArray(arg any) bool {
	switch arg.(type) {
	case []string, []*string, [][]byte, []bool, []int32:
		return true
	}
	return false
}
