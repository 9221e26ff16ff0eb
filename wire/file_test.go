//go:build unix

package wire_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/wire"
)

// TestReadFile: the place of a server, and its token, are regular files, to which a link may lead, and no more than 64 KiB of one
// are read.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("said"), 0o600), os.Symlink("file", at("link")), os.WriteFile(at("long"), make([]byte, 1<<20), 0o600),
		syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("pipe", at("link to a pipe")), os.Symlink("/dev/zero", at("link to what has no end")), os.Mkdir(at("directory"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "link"} {
		if b, err := wire.ReadFile(at(name)); err != nil || string(b) != "said" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := wire.ReadFile(at("long")); err != nil || len(b) != 64<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	for _, name := range []string{"pipe", "link to a pipe", "link to what has no end", "directory"} {
		if b, err := wire.ReadFile(at(name)); !errors.Is(err, fault.ErrNotRegular) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if _, err := wire.ReadFile(at("nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
