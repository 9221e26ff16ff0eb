package base

import (
	"encoding/binary"
	"fmt"
)

// Cursor decodes from the front of a slice. The first thing that does not fit ends it, as
// Fail does: Err is set, Left is empty, and what follows reads as zero, so that a decoder need ask
// only now and then. It never reads past the end and allocates nothing but the error.
type Cursor struct {
	What string // what is decoded, for errors
	Left []byte // what is left
	Err  error  // the first error
}

// Fail ends decoding with an error, unless one came before.
func (c *Cursor) Fail(format string, args ...any) {
	if c.Err == nil {
		c.Err = fmt.Errorf(c.What+": "+format, args...)
	}
	c.Left = nil
}

// Uvarint decodes a number.
func (c *Cursor) Uvarint() uint64 {
	n, w := binary.Uvarint(c.Left)
	c.take(w)
	return n
}

// Varint decodes a number that may be negative.
func (c *Cursor) Varint() int64 {
	n, w := binary.Varint(c.Left)
	c.take(w)
	return n
}

// take moves behind a number of w bytes. If w is not positive, there is no number: the Cursor fails.
func (c *Cursor) take(w int) {
	if w <= 0 {
		c.Fail("cut short")
		return
	}
	c.Left = c.Left[w:]
}

// Count decodes how many elements of at least size bytes follow, and fails if the rest is too short for
// them: so the memory for them is bounded by the input.
func (c *Cursor) Count(size int) int {
	n := c.Uvarint()
	if n > uint64(len(c.Left)/size) {
		c.Fail("%d entries do not fit in %d bytes", n, len(c.Left))
		return 0
	}
	return int(n)
}

// Bytes takes n bytes. They are part of the slice, and nil after an error.
func (c *Cursor) Bytes(n uint64) []byte {
	if n > uint64(len(c.Left)) {
		c.Fail("%d bytes of %d left", n, len(c.Left))
		return nil
	}
	b := c.Left[:n]
	c.Left = c.Left[n:]
	return b
}

// Byte takes one byte.
func (c *Cursor) Byte() uint8 {
	b := c.Bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}
