package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestInPlace: a server ends at once when its store is gone, and when nothing can be seen of it for long,
// but not as a look fails once.
func TestInPlace(t *testing.T) {
	dir := t.TempDir()
	lock := filepath.Join(dir, lockName)
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var failing error
		alive, err := inPlace(dir, func(path string) (os.FileInfo, error) {
			if failing != nil {
				return nil, &os.PathError{Op: "stat", Path: path, Err: failing}
			}
			return os.Stat(path)
		}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		look := func(what string, fail error, ends bool) {
			t.Helper()
			failing = fail
			if err := alive(); (err != nil) != ends {
				t.Errorf("%s: %v", what, err)
			}
		}
		look("in place", nil, false)
		look("a look that fails", syscall.EIO, false)
		time.Sleep(unclearTime - time.Second)
		look("another", syscall.EIO, false)
		look("in place again", nil, false)
		time.Sleep(2 * time.Second)
		look("a failure of its own", syscall.EIO, false)
		time.Sleep(unclearTime)
		look("failures that last", syscall.EIO, true)
		look("in place after all", nil, false)
		look("no directory", syscall.ENOTDIR, true)
		look("nothing there", syscall.ENOENT, true)
		if err := os.Rename(lock, lock+".moved"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		look("another file", nil, true)
	})
}
