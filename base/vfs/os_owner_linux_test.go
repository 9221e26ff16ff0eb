package vfs

import (
	"net"
	"os"
	"path/filepath"
	"testing"
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
