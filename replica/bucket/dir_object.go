package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// What Dir adds to the last part of a key: no key has an @.
const (
	firstSuffix = "@1"
	laterSuffix = "@"
)

// versionName is the name of a later version.
func versionName(n uint64) string { return strconv.FormatUint(n, 10) }

// parseVersion is the inverse of versionName, for 2 and above. It reports false for every other
// name.
func parseVersion(name string) (uint64, bool) {
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil && n >= 2 && n < 1<<63 && versionName(n) == name
}

// parseName says what a name in a directory of the bucket stands for: the last part of a key, or
// with a slash a part that others follow. It reports false for what is none of the bucket's.
func parseName(name string) (string, bool) {
	part, _, object := strings.Cut(name, "@")
	switch {
	case !isPart(part):
		return "", false
	case !object:
		return part + "/", true
	}
	return part, name == part+firstSuffix || name == part+laterSuffix
}

// header stands before the bytes of an object: 8 bytes that name the format, 8 with the checksum
// of what follows, 8 with the size of the body, and the first 16 bytes of its SHA-256.
type header struct {
	size int64
	sum  [16]byte
}

const (
	headerMagic = "steleob1"
	headerSize  = 40
)

// tag names version n of an object. The number keeps a content that comes again from being taken
// for the earlier one.
func (h header) tag(n uint64) ETag { return ETag(fmt.Sprintf("%d-%x", n, h.sum)) }

func (h header) encode() []byte {
	b := make([]byte, 16, headerSize)
	b = binary.BigEndian.AppendUint64(b, uint64(h.size))
	b = append(b, h.sum[:]...)
	copy(b, headerMagic)
	binary.BigEndian.PutUint64(b[8:], base.Checksum(0, b[16:]))
	return b
}

// parseHeader is the inverse of encode.
func parseHeader(b []byte) (h header, ok bool) {
	if len(b) != headerSize || string(b[:8]) != headerMagic || binary.BigEndian.Uint64(b[8:]) != base.Checksum(0, b[16:]) {
		return h, false
	}
	h = header{size: int64(binary.BigEndian.Uint64(b[16:])), sum: [16]byte(b[24:])}
	return h, h.size >= 0
}

// openVersion opens a version of an object, and does not wait for somebody at the other end of a named pipe in its place.
func openVersion(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// readHeader reads the header of a file. Where it does not fit the file, the error is a
// *fault.CorruptionError.
func readHeader(f *os.File) (header, error) {
	info, err := f.Stat()
	if err == nil {
		err = vfs.NotRegular(f.Name(), info.Mode())
	}
	if err != nil {
		return header{}, err
	}
	b := make([]byte, headerSize)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return header{}, err
	}
	h, ok := parseHeader(b)
	if !ok || info.Size()-headerSize != h.size {
		return header{}, &fault.CorruptionError{File: f.Name(), Kind: "header of an object", Offset: 0, Len: headerSize}
	}
	return h, nil
}

// writeObject writes a body, and its header.
func writeObject(f *os.File, body io.Reader) (h header, err error) {
	sum := sha256.New()
	h.size, err = io.Copy(io.NewOffsetWriter(f, headerSize), io.TeeReader(body, sum))
	if err != nil {
		return h, err
	}
	copy(h.sum[:], sum.Sum(nil))
	_, err = f.WriteAt(h.encode(), 0)
	return h, err
}

// within calls f, and returns when f has, or when ctx ends: a file system may never answer. Then
// drop, unless nil, is called with what f returns later.
func within[T any](ctx context.Context, d *dir, f func() (T, error), drop func(T)) (T, error) {
	var zero T
	type answer struct {
		v   T
		err error
	}
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	select {
	case d.calls <- struct{}{}:
	case <-ctx.Done():
		return zero, fmt.Errorf("%s does not answer: %w", d.root, ctx.Err())
	}
	answers := make(chan answer)
	go func() {
		v, err := f()
		<-d.calls
		select {
		case answers <- answer{v, err}:
		case <-ctx.Done():
			if err == nil && drop != nil {
				drop(v)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.v, a.err
	case <-ctx.Done():
		return zero, fmt.Errorf("%s has not answered yet: %w", d.root, ctx.Err())
	}
}

// source reads the body of a Put until the Put has returned: then its bytes are the caller's again.
type source struct {
	mu  sync.Mutex
	r   *io.SectionReader
	off int64
}

var errReturned = errors.New("the put has returned")

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.r == nil {
		return 0, errReturned
	}
	n, err := s.r.ReadAt(p, s.off)
	s.off += int64(n)
	return n, err
}

func (s *source) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r = nil
}

// dirBody is the body of an object in a file.
type dirBody struct {
	ctx       context.Context
	d         *dir
	f         *os.File
	off, left int64
	read      []byte // and not given out yet
	err       error
	close     sync.Once
}

// bodyBuffer is how much is read at a time.
const bodyBuffer = 256 << 10

// Read implements io.Reader. It reads into memory of its own, since the system may answer after
// the context has ended.
func (b *dirBody) Read(p []byte) (int, error) {
	if len(b.read) == 0 && b.err == nil {
		if b.left == 0 {
			return 0, io.EOF
		}
		off, length := b.off, min(b.left, bodyBuffer) // this may return before the system answers
		b.read, b.err = within(b.ctx, b.d, func() ([]byte, error) {
			buf := make([]byte, length)
			n, err := b.f.ReadAt(buf, off)
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the header says that there is more
			}
			if n == len(buf) {
				err = nil
			}
			return buf[:n], err
		}, nil)
		b.off += int64(len(b.read))
		b.left -= int64(len(b.read))
	}
	n := copy(p, b.read)
	if b.read = b.read[n:]; n == 0 && len(p) > 0 {
		return 0, b.err
	}
	return n, nil
}

// Close implements io.Closer. A second Close does nothing.
func (b *dirBody) Close() (err error) {
	b.close.Do(func() { err = b.f.Close() })
	return err
}

// NewBody is bytes as the body of a Put.
func NewBody(b []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
}
