//go:build unix

package sqlite_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stele-go/stele/saver/memory"
)

// childFile tells this test binary, run by somebody without rights, which file to copy.
const childFile = "STELE_TEST_READONLY_FILE"

// A file in WAL mode, as LangGraph makes them, can be read where nothing can be made beside it.
func TestReadOnlyDirectory(t *testing.T) {
	if path := os.Getenv(childFile); path != "" {
		if rep, _ := copyTo(t, open(t, path), memory.New(memory.Options{})); rep.Checkpoints != 3 {
			t.Errorf("%+v", rep)
		}
		return
	}
	f := newFile(t, "PRAGMA journal_mode=WAL;"+layout)
	for _, s := range chat(3) {
		f.checkpoint("t", "", s.id, s.parent, "msgpack", s.object(), "{}")
	}
	if err := f.db.Close(); err != nil { // which removes the log
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "stele-readonly-") // that others can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700); os.RemoveAll(dir) })
	path, bin := filepath.Join(dir, "f.sqlite"), filepath.Join(dir, "test")
	for from, to := range map[string]string{f.path: path, os.Args[0]: bin} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o555)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "-test.run=^TestReadOnlyDirectory$")
	cmd.Env, cmd.Dir = append(os.Environ(), childFile+"="+path), dir
	if os.Getuid() == 0 { // whom no mode of a directory stops
		const nobody = 65534 // a number does, with or without a name
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
