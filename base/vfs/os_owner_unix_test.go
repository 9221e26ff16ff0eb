//go:build linux || darwin

package vfs

import (
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
	dir := t.TempDir()
	lock, file := filepath.Join(dir, "LOCK"), filepath.Join(dir, "file")
	const group = 70009
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(lock, 0, group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(lock, 0o660); err != nil {
		t.Fatal(err)
	}
	d, err := OS{}.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l, err := d.Lock(lock, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
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
