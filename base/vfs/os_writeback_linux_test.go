//go:build !arm && !ppc64 && !ppc64le

package vfs

// On arm and ppc64 the call has another number: sync_file_range2.

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Where sync_file_range(2) is refused, bytes are written back all the same. Else no flush of more
// than a MiB would succeed, and the log would grow for ever.
func TestWriteBackRefused(t *testing.T) {
	eachErrno(t, writeBackWithout, unix.ENOSYS, unix.EPERM, unix.EACCES, unix.EOPNOTSUPP)
}

func writeBackWithout(t *testing.T, errno syscall.Errno) {
	refuse(t, unix.SYS_SYNC_FILE_RANGE, errno)
	f, err := OS{}.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("text"), 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.SyncFileRange(int(f.(*osFile).f.Fd()), 0, 4, 0); !errors.Is(err, errno) {
		t.Skipf("the filter does not refuse sync_file_range, which says %v", err)
	}
	if err := f.(WriteBacker).WriteBack(0, 4); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
