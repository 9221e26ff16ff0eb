package vfs

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOwnerOfFilesByPathStays: what changes the owner by a path changes that of sockets and
// directories alone.
func TestOwnerOfFilesByPathStays(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	uid, gid := os.Geteuid(), os.Getegid()
	l, err := net.Listen("unix", at("sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"to file": "file", "to dir": "."} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sock", "."} {
		if err := chownOS(at(name), uid, gid); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"file", "to file", "to dir"} {
		if chownOS(at(name), uid, gid) == nil {
			t.Errorf("the owner of %s was changed", name)
		}
	}
	if err := os.Link(at("sock"), at("another name")); err != nil {
		t.Fatal(err)
	}
	if chownOS(at("sock"), uid, gid) == nil {
		t.Error("the owner of a socket with two names was changed")
	}
}

// without runs do on a thread of root without a capability, as in a container that has dropped it.
func without(t *testing.T, capability int, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	if err := unix.Capget(&head, &had[0]); err != nil {
		t.Fatal(err)
	}
	less := had
	less[0].Effective &^= 1 << capability
	if err := unix.Capset(&head, &less[0]); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Capset(&head, &had[0]); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// TestRefusedForAnotherReason: who is refused for another reason than the owner of the files is not sent to the owner, and
// root hears of CAP_CHOWN only where it lacks that.
func TestRefusedForAnotherReason(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root is refused for another reason than the owner of files")
	}
	st := &unix.Stat_t{Uid: 70011, Mode: unix.S_IFDIR | 0o755}
	if err := whose(st, unix.EPERM); err != unix.EPERM {
		t.Errorf("an attribute of the directory: %v", err)
	}
	if err := whose(st, unix.EACCES); !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "sudo -u '#70011'") || strings.Contains(err.Error(), "CAP_CHOWN") {
		t.Errorf("a root without the rights of another: %v", err)
	}
}

// TestModeOfFilesGiven: a root that may not change the mode of files of others gives those that it makes for a
// group the mode of the others as well.
func TestModeOfFilesGiven(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes files for others")
	}
	const user, group = 70011, 70012
	d, file := lockedFor(t, user, group)
	without(t, unix.CAP_FOWNER, func() {
		f, err := d.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	})
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil || st.Uid != user || st.Gid != group || st.Mode&0o777 != 0o660 {
		t.Errorf("a new file belongs to %d:%d with mode %o, %v", st.Uid, st.Gid, st.Mode&0o777, err)
	}
}

// TestRootThatMayNotGive: a root without the right to change owners is refused before it leaves files in a
// directory of somebody else's, who could not open them, and it is told what to do.
func TestRootThatMayNotGive(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes files for others")
	}
	const user = 70011
	own, theirs := t.TempDir(), t.TempDir()
	lock := filepath.Join(theirs, "LOCK")
	if err := errors.Join(os.WriteFile(lock, []byte("text"), 0o640), os.Chown(lock, user, user), os.Chown(theirs, user, user)); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "CAP_CHOWN") || strings.Contains(err.Error(), "or as root") {
			t.Errorf("%s: %v", what, err)
		}
	}
	without(t, unix.CAP_CHOWN, func() {
		refused("a directory", OS{}.MkdirAll(filepath.Join(theirs, "new", "store")))
		d, err := OS{}.Hold(theirs)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		_, err = d.Create(filepath.Join(theirs, "file"))
		refused("a file", err)
		_, err = d.Lock(lock, "other")
		refused("a lock", err)
		refused("the owner of a directory", KeepOwner(own, theirs))
		f, err := os.Create(filepath.Join(own, "file"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		refused("the owner of a file", KeepFileOwner(f, theirs))
		if err := errors.Join(KeepOwner(own, own), KeepFileOwner(f, own), OS{}.MkdirAll(filepath.Join(own, "a", "b"))); err != nil {
			t.Errorf("what is root's already: %v", err)
		}
	})
	text, err := os.ReadFile(lock)
	left, lerr := os.ReadDir(theirs)
	if err != nil || lerr != nil || string(text) != "text" || len(left) != 1 {
		t.Errorf("left behind: %v, LOCK %q, %v %v", left, text, err, lerr)
	}
	// With the right it works.
	d, err := OS{}.Hold(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l, err := d.Lock(lock, "text of mine")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
