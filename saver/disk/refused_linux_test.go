package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// refusedDir names the directory of the store for a process in which the system refuses to open files.
const refusedDir = "STELE_REFUSED_DIR"

// TestRefusedByTheSystem: in a directory that may not be written to, and in a process that may open no more files,
// Open, a put, a flush and a compaction are refused with an error that says what to do. Nothing is lost or
// poisoned, and when the cause is gone the same Saver goes on.
func TestRefusedByTheSystem(t *testing.T) {
	if dir := os.Getenv(refusedDir); dir != "" {
		if os.Geteuid() == 0 { // whom no mode refuses anything
			const nobody = 65534
			if err := errors.Join(os.Chown(dir, nobody, nobody), syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
				t.Fatal(err)
			}
		}
		t.Run("mode", func(t *testing.T) { refusedByMode(t, filepath.Join(dir, "mode")) })
		t.Run("limit", func(t *testing.T) { refusedByLimit(t, filepath.Join(dir, "limit")) })
		t.Run("size", func(t *testing.T) { refusedBySize(t, filepath.Join(dir, "size")) })
		return
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), refusedDir+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// refusing is a store of which the system refuses something.
type refusing struct {
	*testing.T
	dir  string
	s    *disk.Saver
	puts int
}

func (r *refusing) open() error {
	s, err := disk.Open(r.dir, disk.Options{LogFileSize: 64 << 10, FlushBytes: 1 << 40, NoPatches: true})
	if err == nil {
		r.s = s
	}
	return err
}

func (r *refusing) put() error {
	id, v := fmt.Sprintf("c%06d", r.puts+1), saver.IntVersion(int64(r.puts+1))
	_, err := r.s.Put(r.Context(), saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: id, Versions: map[string]saver.Version{"m": v},
		Values: map[string]saver.Value{"m": saver.ValueOf(strings.Repeat(id, 5000))}}, nil, map[string]saver.Version{"m": v})
	if err == nil {
		r.puts++
	}
	return err
}

// holds fails the test unless every put that was acknowledged is there.
func (r *refusing) holds() {
	r.Helper()
	if n := count(r.T, r.s); n != r.puts {
		r.Errorf("%d checkpoints are there, and %d were acknowledged", n, r.puts)
	}
}

// refused makes calls while the system refuses: each fails with cause and its advice, and none poisons.
func (r *refusing) refused(cause error, advice string) {
	r.Helper()
	calls := map[string]func() error{
		"flush":   func() error { return r.s.Flush(r.Context()) },
		"compact": func() error { return r.s.Compact(r.Context()) },
		"put": func() (err error) {
			for range 100 { // until the log needs another file
				if err = r.put(); err != nil {
					break
				}
			}
			return err
		},
	}
	for _, name := range []string{"put", "flush", "compact", "put"} {
		if err := calls[name](); !errors.Is(err, cause) || errors.Is(err, fault.ErrPoisoned) || !strings.Contains(err.Error(), advice) {
			r.Errorf("%s: %v", name, err)
		}
	}
}

// goesOn makes the same calls when nothing is refused any more, and opens the store again.
func (r *refusing) goesOn() {
	r.Helper()
	r.holds()
	err := errors.Join(r.put(), r.s.Flush(r.Context()), r.s.Compact(r.Context()), r.put())
	r.holds()
	if err := errors.Join(err, r.s.Close(), r.open()); err != nil {
		r.Fatal(err)
	}
	r.holds()
}

func refusedByMode(t *testing.T, dir string) {
	r := &refusing{T: t, dir: dir}
	mode := func(m os.FileMode) {
		t.Helper()
		if err := os.Chmod(dir, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.open(), r.put()); err != nil {
		t.Fatal(err)
	}
	const advice = "the directory has mode 0500: chmod u+rwx it"
	mode(0o500)
	r.holds()
	r.refused(fs.ErrPermission, advice)
	mode(0o700)
	r.goesOn()
	// Opened while it may not be written to: that is told at once, or by the first call that writes.
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	mode(0o500)
	if err := r.open(); err == nil {
		r.holds()
		r.refused(fs.ErrPermission, advice)
		mode(0o700)
	} else if mode(0o700); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), advice) {
		t.Errorf("open: %v", err)
	} else if err := r.open(); err != nil {
		t.Fatal(err)
	}
	r.goesOn()
	// In a directory that may not be written to there is no store to be made.
	mode(0o500)
	if _, err := disk.Open(filepath.Join(dir, "inside"), disk.Options{}); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), advice) {
		t.Errorf("a store inside: %v", err)
	}
	mode(0o700)
	if err := r.s.Close(); err != nil {
		t.Error(err)
	}
}

// refusedBySize: a limit of the size of files is a full disk to the store, with words of its own.
func refusedBySize(t *testing.T, dir string) {
	r := &refusing{T: t, dir: dir}
	var limit syscall.Rlimit
	if err := errors.Join(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit), r.open(), r.put()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 16 << 10, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 1000 {
		if err = r.put(); err != nil {
			break
		}
	}
	if !errors.Is(err, fault.ErrDiskFull) || errors.Is(err, fault.ErrPoisoned) || !strings.Contains(err.Error(), "ulimit -f") {
		t.Errorf("put: %v", err)
	}
	r.holds()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	r.goesOn()
	if err := r.s.Close(); err != nil {
		t.Error(err)
	}
}

func refusedByLimit(t *testing.T, dir string) {
	r := &refusing{T: t, dir: dir}
	var limit syscall.Rlimit
	if err := errors.Join(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit), r.open(), r.put()); err != nil {
		t.Fatal(err)
	}
	files := func(most uint64) {
		t.Helper()
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
	}
	files(0)
	r.refused(fault.ErrTooManyFiles, "ulimit -n")
	files(limit.Cur)
	r.goesOn()
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	files(0)
	err := r.open()
	files(limit.Cur)
	if !errors.Is(err, fault.ErrTooManyFiles) || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("open: %v", err)
	}
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	r.goesOn()
	if err := r.s.Close(); err != nil {
		t.Error(err)
	}
}
