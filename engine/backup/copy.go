package backup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// piece is how many bytes of a file are copied by one read and one write.
const piece = 1 << 20

// sumFile reads the first size bytes of a file and returns their checksum. They are written to into, if
// that is not nil. A shorter file is damage.
func sumFile(ctx context.Context, f io.ReaderAt, name string, size int64, into io.WriterAt, progress func(int64)) (string, error) {
	var d xxhash.Digest
	d.Reset()
	buf := make([]byte, min(piece, max(size, 1)))
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		b := buf[:min(int64(len(buf)), size-off)]
		n, err := f.ReadAt(b, off)
		if n < len(b) {
			if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return "", &fault.CorruptionError{File: name, Kind: "file", Offset: off + int64(n), Detail: fmt.Sprintf("it ends here, and should have %d bytes", size)}
			}
			return "", fmt.Errorf("read %s at %d: %w", name, off, err)
		}
		_, _ = d.Write(b) // xxhash never returns an error
		if into != nil {
			if _, err := into.WriteAt(b, off); err != nil {
				return "", fmt.Errorf("write copy of %s at %d: %w", name, off, err)
			}
		}
		off += int64(len(b))
		if progress != nil {
			progress(int64(len(b)))
		}
	}
	return fmt.Sprintf("%016x", d.Sum64()), nil
}

// copyFile copies the first size bytes of from to a new file, synced, and returns
// their checksum. After an error the file is removed.
func copyFile(ctx context.Context, from io.ReaderAt, name string, size int64, fsys vfs.FS, to string, progress func(int64)) (sum string, err error) {
	f, err := fsys.Create(to)
	if err != nil {
		return "", err
	}
	sum, err = sumFile(ctx, from, name, size, f, progress)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = fsys.Remove(to) // the first error is the one returned
		return "", err
	}
	return sum, nil
}
