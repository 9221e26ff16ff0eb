package serde

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// The msgpack lead bytes this package reads and writes. Fix-forms are ranges:
// 00-7f positive int, 80-8f map, 90-9f array, a0-bf str, e0-ff negative int.
const (
	mNil      = 0xc0
	mReserved = 0xc1
	mFalse    = 0xc2
	mTrue     = 0xc3
	mBin8     = 0xc4
	mBin16    = 0xc5
	mBin32    = 0xc6
	mExt8     = 0xc7
	mExt16    = 0xc8
	mExt32    = 0xc9
	mFloat32  = 0xca
	mFloat64  = 0xcb
	mUint8    = 0xcc
	mUint16   = 0xcd
	mUint32   = 0xce
	mUint64   = 0xcf
	mInt8     = 0xd0
	mInt16    = 0xd1
	mInt32    = 0xd2
	mInt64    = 0xd3
	mFixExt1  = 0xd4
	mStr8     = 0xd9
	mStr16    = 0xda
	mStr32    = 0xdb
	mArray16  = 0xdc
	mArray32  = 0xdd
	mMap16    = 0xde
	mMap32    = 0xdf
)

// The append functions of msgp choose the smallest form, as ormsgpack does. So Go and Python
// write equal values as equal bytes.

// appendInt writes a positive integer as an unsigned one, as ormsgpack does.
func appendInt(b []byte, i int64) []byte {
	if i >= 0 {
		return msgp.AppendUint64(b, uint64(i))
	}
	return msgp.AppendInt64(b, i)
}

// appendStr writes s as str. Msgpack strings are UTF-8, and LangGraph refuses to read anything
// else. So invalid bytes are replaced by '?', as LangGraph's encoder does with the surrogates
// in a Python string.
func appendStr(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = replaceInvalid(s)
	}
	return msgp.AppendString(b, s)
}

// replaceInvalid writes one '?' for each surrogate that was forced into three
// bytes (ED A0..BF xx, the form in which other languages leak them) and one
// for each other byte that is not UTF-8.
func replaceInvalid(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r != utf8.RuneError || n > 1:
			out = append(out, s[i:i+n]...)
		case s[i] == 0xed && i+2 < len(s) && s[i+1]&0xe0 == 0xa0 && s[i+2]&0xc0 == 0x80:
			out, n = append(out, '?'), 3
		default:
			out = append(out, '?')
		}
		i += n
	}
	return string(out)
}

// extRoom is the number of bytes that beginExt leaves free: the size of the most common
// header.
const extRoom = 3

// closeExt puts the header before the payload that starts extRoom bytes after mark and runs
// to the end of b. The library's header of 255 or 65,535 bytes is not the smallest.
func closeExt(b []byte, mark int, code int8) []byte {
	n := len(b) - mark - extRoom
	var hdr [6]byte
	h := hdr[:0]
	switch {
	case n == 1 || n == 2 || n == 4 || n == 8 || n == 16:
		lead := byte(mFixExt1)
		for 1<<(lead-mFixExt1) != n {
			lead++
		}
		h = append(h, lead, byte(code))
	case n <= math.MaxUint8:
		h = append(h, mExt8, byte(n), byte(code))
	case n <= math.MaxUint16:
		h = append(binary.BigEndian.AppendUint16(append(h, mExt16), uint16(n)), byte(code))
	default:
		h = append(binary.BigEndian.AppendUint32(append(h, mExt32), uint32(n)), byte(code))
	}
	if d := len(h) - extRoom; d > 0 {
		b = append(b, hdr[:d]...) // room only; the copy below overwrites it
		copy(b[mark+len(h):], b[mark+extRoom:len(b)-d])
	} else if d < 0 {
		copy(b[mark+len(h):], b[mark+extRoom:])
		b = b[:len(b)+d]
	}
	copy(b[mark:], h)
	return b
}
