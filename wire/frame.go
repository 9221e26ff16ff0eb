package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// Protocol is the version of the protocol that this package speaks.
	Protocol = 1
	// DefaultMaxFrame is the largest frame, in bytes, unless a server says otherwise.
	DefaultMaxFrame = 128 << 20
	// headerSize is the length of a frame's header, which is the length of its body.
	headerSize = 4
)

// ErrFrame is returned for a frame that is longer than the limit, or empty. The rest of the connection
// cannot be read.
var ErrFrame = errors.New("frame over the limit")

// readStep is how much memory is allocated for a frame at first. More is allocated only when the peer
// has filled it, and then at most as much as the peer has sent.
const readStep = 1 << 20

// ReadFrame reads the body of the next frame into new memory. The error is io.EOF at the end
// of a stream between two frames, io.ErrUnexpectedEOF within one, ErrFrame for a frame of
// more than limit bytes, or one of r. A frame that is announced and not sent costs at most
// 1 MiB, or as much as was sent of it.
func ReadFrame(r io.Reader, limit int) ([]byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if int64(length) > int64(limit) || length == 0 {
		return nil, fmt.Errorf("%w: %d bytes, %d are allowed", ErrFrame, length, limit)
	}
	n := int(length)
	body := make([]byte, min(n, readStep))
	for got := 0; ; {
		if _, err := io.ReadFull(r, body[got:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if got = len(body); got == n {
			return body, nil
		}
		body = append(body, make([]byte, min(n-got, got))...)
	}
}

// AppendFrame appends a frame with the body that body appends. The error is ErrFrame if it
// is longer than limit; b is then unchanged.
func AppendFrame(b []byte, limit int, body func([]byte) []byte) ([]byte, error) {
	begin := len(b)
	out := body(append(b, make([]byte, headerSize)...))
	n := len(out) - begin - headerSize
	if n > limit {
		return b, fmt.Errorf("%w: %d bytes, %d are allowed", ErrFrame, n, limit)
	}
	binary.BigEndian.PutUint32(out[begin:], uint32(n))
	return out, nil
}
