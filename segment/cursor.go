package segment

import (
	"encoding/binary"
	"errors"
)

var errShort = errors.New("ends too early, or a number is out of range")

// cursor reads numbers from a decoded payload. After the first failure it returns zeros, so
// that callers need to check only once per entry, before they use what they read.
type cursor struct {
	b      []byte
	failed bool
}

func (c *cursor) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 || v > limit {
		c.failed, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.failed, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) byte() byte {
	if len(c.b) == 0 {
		c.failed = true
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.failed, c.b = true, nil
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// count reads a number of entries, and fails if there are not size bytes left for each of
// them. So what is allocated for them is bounded by bytes that exist.
func (c *cursor) count(size int) int {
	return int(c.uvarint(uint64(len(c.b) / size)))
}
