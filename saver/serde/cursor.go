package serde

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Errors of msgpack bytes.
var (
	errShort    = errors.New("ends in the middle of a value")
	errReserved = errors.New("reserved byte 0xc1")
	errTrailing = errors.New("bytes follow the value")
	errUTF8     = errors.New("string is not UTF-8")
	errKey      = errors.New("map key is a map or an extension")
	errCount    = errors.New("announces more elements than bytes remain")
)

// class is the family a msgpack value belongs to.
type class uint8

const (
	cNil class = iota
	cBool
	cInt  // item.num holds the int64's bits
	cUint // above MaxInt64
	cFloat
	cStr
	cBin
	cArray
	cMap
	cExt
)

// item is one msgpack head: a whole scalar, or the length or count of anything else. After reading it
// the cursor is at the body.
type item struct {
	num   uint64 // bool, integer or float bits
	n     int    // bytes of str, bin, ext; elements of array; pairs of map
	class class
	code  int8 // of ext
}

// cursor reads msgpack heads from data[off:end]. It owns nothing and checks
// every length against end before anyone can act on it.
type cursor struct {
	data []byte
	off  int
	end  int
}

func newCursor(data []byte) cursor { return cursor{data: data, end: len(data)} }

// be reads an n-byte big-endian unsigned integer.
func (c *cursor) be(n int) (uint64, error) {
	if c.end-c.off < n {
		return 0, errShort
	}
	b := c.data[c.off : c.off+n]
	c.off += n
	switch n {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), nil
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), nil
	}
	return binary.BigEndian.Uint64(b), nil
}

// sized finishes a head whose count or length stands in the next width bytes.
// Bodies of bytes must lie within the data; for elements see decoder.promise.
func (c *cursor) sized(cl class, width int) (item, error) {
	n, err := c.be(width)
	if err != nil {
		return item{}, err
	}
	if n > uint64(c.end-c.off) { // also keeps int(n) positive where int has 32 bits
		if cl == cArray || cl == cMap {
			return item{}, errCount
		}
		return item{}, errShort
	}
	it := item{class: cl, n: int(n)}
	if cl == cExt {
		code, err := c.be(1)
		if err != nil {
			return item{}, err
		}
		it.code = int8(code)
	}
	return it, c.fits(it)
}

// fits checks that enough bytes are left for the body: an array needs one for each element, a
// map two for each pair.
func (c *cursor) fits(it item) error {
	need := it.n
	if it.class == cMap {
		need = 2 * it.n
	}
	if need > c.end-c.off {
		if it.class == cArray || it.class == cMap {
			return errCount
		}
		return errShort
	}
	return nil
}

// atStr reports whether a string is at the cursor.
func (c *cursor) atStr() bool {
	if c.off >= c.end {
		return false
	}
	b := c.data[c.off]
	return b&0xe0 == 0xa0 || b >= mStr8 && b <= mStr32
}

// next reads one head.
func (c *cursor) next() (item, error) {
	if c.off >= c.end {
		return item{}, errShort
	}
	b := c.data[c.off]
	c.off++
	var it item
	switch {
	case b <= 0x7f:
		return item{class: cInt, num: uint64(b)}, nil
	case b >= 0xe0:
		return item{class: cInt, num: uint64(int64(int8(b)))}, nil
	case b <= 0x8f:
		it = item{class: cMap, n: int(b & 0x0f)}
	case b <= 0x9f:
		it = item{class: cArray, n: int(b & 0x0f)}
	case b <= 0xbf:
		it = item{class: cStr, n: int(b & 0x1f)}
	default:
		return c.nextWide(b)
	}
	return it, c.fits(it)
}

// nextWide finishes the heads of more than one byte.
func (c *cursor) nextWide(b byte) (item, error) {
	switch b {
	case mNil:
		return item{class: cNil}, nil
	case mFalse, mTrue:
		return item{class: cBool, num: uint64(b - mFalse)}, nil
	case mBin8, mBin16, mBin32:
		return c.sized(cBin, 1<<(b-mBin8))
	case mExt8, mExt16, mExt32:
		return c.sized(cExt, 1<<(b-mExt8))
	case mStr8, mStr16, mStr32:
		return c.sized(cStr, 1<<(b-mStr8))
	case mArray16, mArray32:
		return c.sized(cArray, 2<<(b-mArray16))
	case mMap16, mMap32:
		return c.sized(cMap, 2<<(b-mMap16))
	case mFloat32:
		u, err := c.be(4)
		return item{class: cFloat, num: math.Float64bits(float64(math.Float32frombits(uint32(u))))}, err
	case mFloat64:
		u, err := c.be(8)
		return item{class: cFloat, num: u}, err
	case mUint8, mUint16, mUint32, mUint64:
		u, err := c.be(1 << (b - mUint8))
		if u > math.MaxInt64 {
			return item{class: cUint, num: u}, err
		}
		return item{class: cInt, num: u}, err
	case mInt8, mInt16, mInt32, mInt64:
		width := 1 << (b - mInt8)
		u, err := c.be(width)
		shift := 64 - 8*width
		return item{class: cInt, num: uint64(int64(u<<shift) >> shift)}, err
	case mReserved:
		return item{}, errReserved
	}
	// What is left is fixext 1, 2, 4, 8, 16.
	code, err := c.be(1)
	if err != nil {
		return item{}, err
	}
	it := item{class: cExt, code: int8(code), n: 1 << (b - mFixExt1)}
	return it, c.fits(it)
}

// body returns the bytes of a str, bin or ext and steps over them. They alias
// the input.
func (c *cursor) body(it item) []byte {
	b := c.data[c.off : c.off+it.n]
	c.off += it.n
	return b
}

// skip steps over one whole value. It is not recursive: its only state is the number of values
// still to skip.
func (c *cursor) skip() error {
	for left := 1; left > 0; left-- {
		it, err := c.next()
		if err != nil {
			return err
		}
		switch it.class {
		case cStr, cBin, cExt:
			c.off += it.n
		case cArray:
			left += it.n
		case cMap:
			left += 2 * it.n
		}
		if left > c.end-c.off+1 {
			return errCount
		}
	}
	return nil
}

func (c *cursor) failed(kind string, err error) error {
	return &DecodeError{Kind: kind, Offset: c.off, Err: fmt.Errorf("msgpack: %w", err)}
}
