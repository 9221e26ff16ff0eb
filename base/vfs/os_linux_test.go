package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFullDevice asks the kernel's own full device.
func TestFullDevice(t *testing.T) {
	dev, err := os.OpenFile("/dev/full", os.O_RDWR, 0) // which an OS does not open
	if err != nil {
		t.Fatal(err)
	}
	d, err := holdOS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &osFile{f: dev, osEntry: osEntry{dir: d, own: d}}
	if n, err := f.WriteAt([]byte("x"), 0); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("wrote %d bytes to a full device: %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestErrorsKeepTheirCause(t *testing.T) {
	quota := &os.PathError{Op: "write", Path: "f", Err: syscall.EDQUOT}
	err := fmt.Errorf("append: %w", osError(quota))
	var pe *os.PathError
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, syscall.EDQUOT) || !errors.As(err, &pe) {
		t.Errorf("a spent quota is %v", err)
	}
	if want := "append: write f: disk quota exceeded"; err.Error() != want {
		t.Errorf("text is %q, want %q", err, want)
	}
	limit := osError(&os.PathError{Op: "write", Path: "f", Err: syscall.EFBIG})
	if !errors.Is(limit, syscall.ENOSPC) || !errors.Is(limit, syscall.EFBIG) || !strings.Contains(limit.Error(), "ulimit -f") {
		t.Errorf("a limit of the size of files is %v", limit)
	}
	eio := &os.PathError{Op: "write", Path: "f", Err: syscall.EIO}
	if got := osError(eio); got != error(eio) || errors.Is(got, syscall.ENOSPC) {
		t.Errorf("EIO became %v", got)
	}
}

// TestRetry: a call that a signal interrupted is repeated, any other is not.
func TestRetry(t *testing.T) {
	for _, end := range []error{nil, syscall.EIO, syscall.EAGAIN} {
		calls := 0
		err := retryEINTR(func() error {
			if calls++; calls < 3 {
				return syscall.EINTR
			}
			return end
		})
		if calls != 3 || !errors.Is(err, end) {
			t.Errorf("%d calls, %v; want 3, %v", calls, err, end)
		}
	}
}

func TestSyncDirOfFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (OS{}).SyncDir(name); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("synced a file as a directory: %v", err)
	}
}

func TestSaturate(t *testing.T) {
	for _, c := range []struct {
		blocks, unit uint64
		want         int64
	}{
		{0, 4096, 0}, {5, 0, 0}, {3, 4096, 12288},
		{math.MaxInt64 / 4096, 4096, math.MaxInt64 - 4095}, {1 << 52, 4096, math.MaxInt64}, {math.MaxUint64, 1, math.MaxInt64},
	} {
		if got := saturate(c.blocks, c.unit); got != c.want {
			t.Errorf("%d blocks of %d are %d bytes, want %d", c.blocks, c.unit, got, c.want)
		}
	}
}

// TestModes: others than owner and group see nothing of a store.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if err := (OS{}).MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	f, err := OS{}.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := OS{}.Lock(filepath.Join(dir, "LOCK"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "f", "LOCK"} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm()&0o027 != 0 {
			t.Errorf("%q has mode %v", name, fi.Mode())
		}
	}
	if err := errors.Join(f.Close(), l.Close()); err != nil {
		t.Error(err)
	}
}

// TestRegisterAnswersFirst: where the kernel would grant a process the lock it
// already has, the register refuses, and leaves the text alone.
func TestRegisterAnswersFirst(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := holdOS(filepath.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	id, _, err := d.identityAt(filepath.Base(name))
	if err != nil {
		t.Fatal(err)
	}
	held := &osLock{f: f, osEntry: osEntry{dir: d, own: d, base: filepath.Base(name), id: id}} // in the register, but not locked in the kernel
	locks.Lock()
	locks.held = append(locks.held, held)
	locks.Unlock()
	if _, err := (OS{}).Lock(name, "other"); !errors.Is(err, ErrLockHeld) {
		t.Errorf("locked twice by one process: %v", err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "mine" {
		t.Errorf("the text is %q, %v", text, err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := OS{}.Lock(name, "other")
	if err != nil {
		t.Fatalf("the register kept a lock that was released: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// What is written back reads as it was written, and a closed file says so.
func TestWriteBack(t *testing.T) {
	f, err := OS{}.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	w, ok := f.(WriteBacker)
	if !ok {
		t.Fatal("a file of the system is no WriteBacker")
	}
	text := []byte("written back")
	if _, err := f.WriteAt(text, 4096); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteBack(0, 4096+int64(len(text))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := f.ReadAt(got, 4096); err != nil || string(got) != string(text) {
		t.Errorf("read %q, %v", got, err)
	}
	if err := w.WriteBack(-1, 1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("before the file: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteBack(0, 1); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestLockKeepsOtherTexts: a file that somebody put in place of LOCK is locked, and keeps
// what it holds. Only a text of a lock, or none, is replaced.
func TestLockKeepsOtherTexts(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	long := "pid " + strings.Repeat("x", mostSaid)
	for was, want := range map[string]string{"": "pid 2", "pid 1 on a host": "pid 2", "\x00\x00": "pid 2",
		"root:x:0:0\n": "root:x:0:0\n", "pidgin": "pidgin", long: long} {
		if err := os.WriteFile(name, []byte(was), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := OS{}.Lock(name, "pid 2")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%.20q became %.20q (%v), want %.20q", was, got, err, want)
		}
	}
}

// The question whether a file has its name leaves no trace in the file: no later write gets a time
// of its own, which would make the sync after it store the inode. Since Linux 6.13 a write gets one
// after a look at the times.
func TestAttachedLeavesTimes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := OS{}.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	write := func() {
		t.Helper()
		if _, err := f.WriteAt([]byte("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	stat := func() time.Time {
		t.Helper()
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return fi.ModTime()
	}
	// keeps reports whether a write after between ever has a time from before it.
	keeps := func(between func()) bool {
		for range 1000 {
			stat()
			write() // takes the mark of that look away
			now := time.Now()
			between()
			write()
			if stat().Before(now) {
				return true
			}
		}
		return false
	}
	if !keeps(func() {}) {
		t.Skip("this file system gives each write a time of its own, looked at or not")
	}
	if !keeps(func() {
		if _, err := f.Attached(); err != nil {
			t.Fatal(err)
		}
	}) {
		t.Error("Attached looked at the times of the file")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
