package vfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusing names the error with which statx(2) is refused, in a process of its own.
const refusing = "STELE_STATX_REFUSED"

// Where statx(2) is refused, by an old kernel or a filter of calls, a file is still known by its
// name, and one that was replaced or removed is missed.
func TestStatxRefused(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv(refusing)); err == nil {
		withoutStatx(t, syscall.Errno(n))
		return
	}
	for _, errno := range []syscall.Errno{unix.ENOSYS, unix.EPERM, unix.EACCES, unix.EINVAL} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestStatxRefused$", "-test.v")
		cmd.Env = append(os.Environ(), refusing+"="+strconv.Itoa(int(errno)))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", errno, err, out)
		} else {
			t.Logf("%v: %s", errno, out)
		}
	}
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
	if err := f.Attached(); err != nil {
		t.Errorf("the file has its name: %v", err)
	}
	if err := os.Rename(name, name+" away"); err != nil {
		t.Fatal(err)
	}
	if err := f.Attached(); !errors.Is(err, ErrDetached) {
		t.Errorf("removed: %v", err)
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Attached(); !errors.Is(err, ErrDetached) {
		t.Errorf("replaced: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// refuse makes a system call fail in this process, if the kernel has filters.
func refuse(t *testing.T, call uint32, errno syscall.Errno) {
	t.Helper()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Skipf("this process may not give itself a filter of system calls: %v", err)
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); e != 0 {
		t.Skipf("the kernel takes no filter of system calls: %v", e)
	}
}
