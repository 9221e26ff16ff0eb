//go:build linux || darwin

package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGroupOfFiles: new files have the group of the lock file also where they have its owner
// already, as where root owns them for a service that has its rights by the group.
func TestGroupOfFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files to any group")
	}
	const group = 70009
	d, file := lockedFor(t, 0, group)
	f, err := d.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	if st.Uid != 0 || st.Gid != group || st.Mode&0o777 != 0o660 {
		t.Errorf("a new file belongs to %d:%d with mode %o, want 0:%d and 660", st.Uid, st.Gid, st.Mode&0o777, group)
	}
}

// lockedFor is a directory that is held, whose lock file is that of a user and a group that both write, and the path of a file
// in it that is not there.
func lockedFor(t *testing.T, user, group int) (d Dir, file string) {
	t.Helper()
	dir := t.TempDir()
	lock := filepath.Join(dir, "LOCK")
	if err := errors.Join(os.WriteFile(lock, nil, 0o600), os.Chmod(lock, 0o660), os.Chown(lock, user, group), os.Chown(dir, user, group)); err != nil {
		t.Fatal(err)
	}
	d, err := OS{}.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	l, err := d.Lock(lock, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return d, filepath.Join(dir, "file")
}
