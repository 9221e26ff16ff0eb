package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Where statx(2) is refused, by an old kernel or a filter of calls, a file is still known by its
// name, and one that was replaced or removed is missed.
func TestStatxRefused(t *testing.T) {
	eachErrno(t, withoutStatx, unix.ENOSYS, unix.EPERM, unix.EACCES, unix.EINVAL)
}

func withoutStatx(t *testing.T, errno syscall.Errno) {
	refuse(t, unix.SYS_STATX, errno)
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, ".", 0, unix.STATX_INO, &st); !errors.Is(err, errno) {
		t.Skipf("the filter does not refuse statx, which says %v", err)
	}
	name := filepath.Join(t.TempDir(), "f")
	f, err := OS{}.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Attached(); err != nil {
		t.Errorf("the file has its name: %v", err)
	}
	if err := os.Rename(name, name+" away"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Attached(); !errors.Is(err, ErrDetached) {
		t.Errorf("removed: %v", err)
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Attached(); !errors.Is(err, ErrDetached) {
		t.Errorf("replaced: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
