package wire

import (
	"errors"
	"io"

	"github.com/stele-go/stele/base/vfs"
)

// maxFile bounds the files by which clients find a server.
const maxFile = 64 << 10

// ReadFile is the beginning of a regular file by which the server of a directory is found, at most 64 KiB. Something
// else in its place is a fault.NotRegularError: to open it may wait for ever, and to read it may have no end.
func ReadFile(name string) ([]byte, error) {
	f, err := vfs.OS{}.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(size, maxFile))
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) { // it has been cut since
		err = nil
	}
	return b[:n], err
}
