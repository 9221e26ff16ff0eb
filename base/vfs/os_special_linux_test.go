package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stele-go/stele/base/fault"
)

// TestSpecialIsNotOpened: what is no regular file is refused without being opened, which a
// program at the other end of a FIFO would see.
func TestSpecialIsNotOpened(t *testing.T) {
	name := filepath.Join(t.TempDir(), "000001.log")
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err == nil {
		err = unix.Mkfifo(name, 0o600)
	}
	if err == nil {
		_, err = unix.InotifyAddWatch(watch, name, unix.IN_OPEN)
	}
	if err != nil {
		t.Fatal(err)
	}
	opened := func() bool {
		n, err := unix.Read(watch, make([]byte, 4096))
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		return n > 0
	}
	for what, open := range map[string]func(string) (File, error){"read": OS{}.Open, "write": OS{}.OpenReadWrite} {
		if _, err := open(name); !errors.Is(err, fault.ErrNotRegular) || opened() {
			t.Errorf("%s: %v, or it was opened", what, err)
		}
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil || !opened() {
		t.Errorf("opening it is not seen: %v", err)
	}
	if err := errors.Join(f.Close(), unix.Close(watch)); err != nil {
		t.Fatal(err)
	}
}
