//go:build linux || darwin

package bucket_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket"
)

// TestDirPipe: a named pipe, a link to one, or a directory in place of an object is refused. Nobody waits for somebody at the
// other end.
func TestDirPipe(t *testing.T) {
	path := t.TempDir()
	b := openDir(t, path)
	put(t, b, "later", "1", bucket.Condition{})
	put(t, b, "later", "2", bucket.Condition{})
	at := func(name string) string { return filepath.Join(path, name) }
	for _, err := range []error{
		syscall.Mkfifo(at("pipe@1"), 0o600), os.Symlink("pipe@1", at("link@1")), os.Mkdir(at("directory@1"), 0o700),
		os.Remove(at("later@/2")), syscall.Mkfifo(at("later@/2"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"pipe", "link", "directory", "later"} {
		if text, err := get(t, b, key); !errors.Is(err, fault.ErrNotRegular) {
			t.Errorf("%s: got %q, %v", key, text, err)
		}
		if _, err := b.Put(t.Context(), key, bucket.NewBody([]byte("x")), bucket.Condition{}); !errors.Is(err, fault.ErrNotRegular) {
			t.Errorf("%s: put %v", key, err)
		}
	}
}

// TestDirKeepsTheOwner: whatever root puts into the bucket of a service, the service may read, overwrite and delete.
func TestDirKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("LEFT OUT: only root may give files to others")
	}
	const service = 70001
	path := t.TempDir()
	if err := os.Chown(path, service, service); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(path, ".tmp"), 0o700); err != nil { // root's, as a crash leaves it
		t.Fatal(err)
	}
	b := openDir(t, path)
	for _, text := range []string{"1", "2", "3"} {
		put(t, b, "epoch/part/chunk", text, bucket.Condition{})
	}
	files := 0
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != service || st.Gid != service {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
		if !d.IsDir() {
			files++
		}
		return nil
	})
	if err != nil || files < 3 {
		t.Errorf("%d files, %v", files, err)
	}
}
