//go:build unix

package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWaitsEndOnSignal: one signal ends each command that waits for what nobody bounds: standard input that is open
// and has no more, and a database that answers nothing. It says what it has imported, and leaves nothing half.
func TestWaitsEndOnSignal(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	url := "postgres://" + silent.Addr().String() + "/none?sslmode=disable"
	w := newWorld(t)
	w.fixture()
	for name, args := range map[string][]string{
		"standard input": {"import", "ndjson", "-", "NEW"}, "import": {"import", "postgres", url, "NEW"}, "export": {"export", "postgres", w.dir, url},
		"erase-user": {"erase-user", "--postgres", url, "--identity", "ada", "--yes"}, "move-items": {"move-items", "--postgres", url, "--identity", "ada", "--yes"},
		"signal": {"signal", "--postgres", url, "alice", "paid"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			bound, end := context.WithTimeout(t.Context(), 10*time.Second) // for one that never ends
			defer end()
			cmd := exec.CommandContext(bound, os.Args[0])
			kept := t.TempDir()
			cmd.Env = append(os.Environ(), childImport+"="+strings.ReplaceAll(strings.Join(args, "\n"), "NEW", dir), "TMPDIR="+kept)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			in, err := cmd.StdinPipe()
			must(t, err)
			must(t, cmd.Start())
			if name == "standard input" {
				_, err = in.Write(make([]byte, 1<<20)) // more than a pipe holds: it reads
				must(t, err)
			} else {
				asks, err := silent.Accept()
				must(t, err)
				defer asks.Close()
			}
			must(t, cmd.Process.Signal(terminate))
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
				t.Errorf("%v, %q", err, stderr.String())
			}
			if name == "standard input" && !strings.Contains(stderr.String(), "interrupted while it read standard input; nothing was imported") {
				t.Errorf("it says %q", stderr.String())
			}
			if left, err := os.ReadDir(kept); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a store was made: %v", err)
			}
		})
	}
}

// TestImportOfAPipe: a pipe with a name is refused, and not opened: that waits for who writes, and it can be read only once.
func TestImportOfAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that who opens it all the same does not wait
	must(t, err)
	defer writer.Close()
	_, err = writer.WriteString("no line of NDJSON\n")
	must(t, err)
	dir := filepath.Join(t.TempDir(), "new")
	out, stderr, code := stele(t, "import", "ndjson", pipe, dir)
	if code != exitFailed || !strings.Contains(stderr, "is no regular file") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
}
