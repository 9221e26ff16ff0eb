//go:build linux || darwin

package bucket_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stele-go/stele/replica/bucket"
)

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
