package wire

import (
	"io"
	"os"
	"syscall"

	"github.com/stele-go/stele/base/vfs"
)

// maxFile bounds the files by which clients find a server.
const maxFile = 64 << 10

// ReadFile is the beginning of a regular file by which the server of a directory is found, at most 64 KiB. Links are
// followed. Something else in its place is a fault.NotRegularError: to open it may wait for ever, and to read it may have
// no end.
func ReadFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := vfs.NotRegular(name, st.Mode()); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}
