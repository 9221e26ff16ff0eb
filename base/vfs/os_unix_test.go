//go:build unix

package vfs

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that is being started has copies of all descriptors for a moment. A lock
// that is released then is free all the same.
func TestLockIsFreeThoughCopied(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	l, err := OS{}.Lock(name, "first")
	if err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(l.(*osLock).f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OS{}.Lock(name, "second")
	if err != nil {
		t.Fatalf("the lock is not free: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(copied); err != nil {
		t.Fatal(err)
	}
}
