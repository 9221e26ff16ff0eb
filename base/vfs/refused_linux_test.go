package vfs

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusing names the error with which a system call is refused, in a process of its own.
const refusing = "STELE_CALL_REFUSED"

// eachErrno runs without, the body of the running test, once for each error, in processes of
// their own: a filter of system calls stays until its process ends.
func eachErrno(t *testing.T, without func(*testing.T, syscall.Errno), errnos ...syscall.Errno) {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv(refusing)); err == nil {
		without(t, syscall.Errno(n))
		return
	}
	for _, errno := range errnos {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), refusing+"="+strconv.Itoa(int(errno)))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", errno, err, out)
		} else {
			t.Logf("%v: %s", errno, out)
		}
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
