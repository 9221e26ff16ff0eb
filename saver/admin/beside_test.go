package admin_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// The backups beside a store are found however it is named: from within, and through a link that lies elsewhere.
func TestBackupsBesideTheStore(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, link := filepath.Join(root, "home"), filepath.Join(root, "elsewhere", "link")
	store, backup := filepath.Join(home, "store"), filepath.Join(home, "backup")
	for _, dir := range []string{home, filepath.Dir(link)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	switch err := os.Symlink(store, link); {
	case err != nil && runtime.GOOS == "windows":
		t.Skipf("Windows lets only some users make links: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Chdir(home)
	for i, path := range []string{store, "store", ".", link, "store/../store"} {
		if path == "." {
			t.Chdir(store)
		} else {
			t.Chdir(home)
		}
		d, err := disk.Open(path, disk.Options{ManualWork: true})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, err := admin.BackupOpen(t.Context(), d, backup, admin.BackupOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		found, err := admin.BackupsOf(d)
		if err != nil || len(found) != 1 || found[0].Dir != backup || found[0].Made.IsZero() || found[0].Unread != "" {
			t.Errorf("beside %s: %+v, %v", path, found, err)
		}
		if named, err := admin.BackupsOf(d, filepath.Join(path, "..", "backup")); path != link && (err != nil || len(named) != 1) {
			t.Errorf("beside %s, named: %+v, %v", path, named, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What lies beside a store and may not be read may be a backup of it, and so may one whose list is damaged.
func TestUnreadBesideTheStore(t *testing.T) {
	mem, inj := vfs.NewMem(vfs.MemOptions{}), faultfs.NewInjector()
	store, backup := filepath.Join("home", "store"), filepath.Join("home", "backup")
	d, err := disk.Open(store, disk.Options{ManualWork: true, Simulation: disk.Simulation{FS: faultfs.New(mem, inj)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.BackupOpen(t.Context(), d, backup, admin.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	look := func(what, dir string) {
		t.Helper()
		found, err := admin.BackupsOf(d)
		if err != nil || len(found) == 0 || !slices.ContainsFunc(found, func(b admin.FoundBackup) bool { return b.Dir == dir && b.Unread != "" && b.Made.IsZero() }) {
			t.Errorf("%s: %+v, %v", what, found, err)
		}
	}
	inj.Set(faultfs.Rule{Op: faultfs.OpHold, PathGlob: backup, Err: fs.ErrPermission, Sticky: true})
	look("the directory", backup)
	inj.Set(faultfs.Rule{Op: faultfs.OpOpen, PathGlob: filepath.Join(backup, "BACKUP"), Err: fs.ErrPermission, Sticky: true})
	look("the list", backup)
	inj.Set(faultfs.Rule{Op: faultfs.OpReadAt, PathGlob: filepath.Join(backup, "BACKUP"), Sticky: true})
	look("a sector of the list", backup)
	inj.Set(faultfs.Rule{Op: faultfs.OpList, PathGlob: "home", Err: fs.ErrPermission, Sticky: true})
	look("what is around", "home")
	inj.Set()
	f, err := mem.OpenReadWrite(filepath.Join(backup, "BACKUP"))
	if err == nil {
		_, err = f.WriteAt([]byte(strings.Repeat("x", 20)), 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	look("a damaged list", backup)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
