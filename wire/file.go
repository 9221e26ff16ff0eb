package wire

import (
	"io"
	"os"
	"syscall"

	"github.com/stele-go/stele/base/fault"
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
	if !st.Mode().IsRegular() {
		return nil, &fault.NotRegularError{File: name, Kind: kindOf(st.Mode())}
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

func kindOf(mode os.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&os.ModeNamedPipe != 0:
		return "named pipe"
	}
	return "device"
}
