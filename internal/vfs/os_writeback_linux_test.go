//go:build !arm && !ppc64 && !ppc64le

package vfs

// On arm and ppc64 the call has another number: sync_file_range2.

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// writeBackRefused names the error with which sync_file_range(2) is refused, in a process of its
// own.
const writeBackRefused = "STELE_WRITE_BACK_REFUSED"

// Where sync_file_range(2) is refused, bytes are written back all the same. Else no flush of more
// than a MiB would succeed, and the log would grow for ever.
func TestWriteBackRefused(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv(writeBackRefused)); err == nil {
		writeBackWithout(t, syscall.Errno(n))
		return
	}
	for _, errno := range []syscall.Errno{unix.ENOSYS, unix.EPERM, unix.EACCES, unix.EOPNOTSUPP} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWriteBackRefused$", "-test.v")
		cmd.Env = append(os.Environ(), writeBackRefused+"="+strconv.Itoa(int(errno)))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", errno, err, out)
		} else {
			t.Logf("%v: %s", errno, out)
		}
	}
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
