package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// childStore tells this test binary to be a writer of that store until it is killed.
const childStore = "STELE_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childStore); dir != "" {
		if err := write(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	if text := os.Getenv(childImport); text != "" {
		args := strings.Split(text, "\n")
		os.Exit(untilSignal(onlyReads(args), func(ctx context.Context) int { return run(ctx, args, io.Discard, os.Stderr) }))
	}
	if command := os.Getenv(childStuck); command != "" {
		os.Exit(stuck(command))
	}
	os.Exit(m.Run())
}

// write puts checkpoints until it fails, and says after each that it is acknowledged.
func write(dir string) error {
	d, err := disk.Open(dir, disk.Options{LogFileSize: 64 << 10, FlushBytes: 256 << 10, ImageBytes: 32 << 10, CompactFanout: 2})
	if err != nil {
		return err
	}
	parent := ""
	for n := 1; ; n++ {
		id := fmt.Sprintf("%012d", n)
		versions := map[string]saver.Version{"c": saver.IntVersion(int64(n))}
		cp := saver.Checkpoint{V: 4, ID: id, TS: "t", Versions: versions, Values: map[string]saver.Value{"c": saver.ValueOf(strings.Repeat(id, 40))}}
		if _, err := d.Put(context.Background(), saver.Config{ThreadID: "t", CheckpointID: parent}, cp, nil, versions); err != nil {
			return err
		}
		parent = id
		fmt.Println(id)
	}
}

// TestBesideProcess: what reads works beside a writer in another process, and after it
// was killed; what writes is refused, and names the holder.
func TestBesideProcess(t *testing.T) {
	root := t.TempDir()
	dir, dest := filepath.Join(root, "store"), filepath.Join(root, "backup")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childStore+"="+dir)
	child.Stderr = os.Stderr
	pipe, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	acks := bufio.NewScanner(pipe)
	acked := ""
	read := func(n int) {
		for ; n > 0 && acks.Scan(); n-- {
			acked = acks.Text()
		}
	}
	read(50)
	_, stderr, code := stele(t, "compact", dir)
	if holder := fmt.Sprintf("pid %d ", child.Process.Pid); code != exitLocked || !strings.Contains(stderr, holder) {
		t.Errorf("compact beside a writer: exit code %d, %q, want %d and %q", code, stderr, exitLocked, holder)
	}
	if _, stderr, code = stele(t, "--json", "compact", dir); code != exitLocked || !strings.Contains(stderr, `"kind":"locked"`) {
		t.Errorf("compact beside a writer: exit code %d, %q", code, stderr)
	}
	_, stderr, code = stele(t, "erase", dir, "--thread", "t", "--yes")
	if holder := fmt.Sprintf("pid %d ", child.Process.Pid); code != exitLocked || !strings.Contains(stderr, holder) {
		t.Errorf("erase beside a writer: exit code %d, %q", code, stderr)
	}
	for round := range 3 {
		read(50)
		for _, args := range [][]string{{"verify", dir}, {"info", dir}, {"stats", dir}, {"threads", dir}, {"log", dir}, {"show", dir, "t"}, {"erase", dir, "--thread", "t"}, {"threads", dir, "--filter", "step:=1"}, {"backup", dir, dest}} {
			if out, stderr, code := stele(t, args...); code != exitDone {
				t.Fatalf("%v beside a writer: exit code %d, %s%s", args, code, out, stderr)
			}
		}
		to := filepath.Join(root, fmt.Sprint("restored", round))
		if out, stderr, code := stele(t, "restore", dest, to); code != exitDone {
			t.Fatalf("restore: exit code %d, %s%s", code, out, stderr)
		}
		if out, stderr, code := stele(t, "show", to, "t", "--checkpoint", acked); code != exitDone {
			t.Fatalf("checkpoint %s was acknowledged before the backup: exit code %d, %s%s", acked, code, out, stderr)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for acks.Scan() {
		acked = acks.Text()
	}
	var exit *exec.ExitError
	if err := child.Wait(); !errors.As(err, &exit) {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", dir}, {"compact", dir}, {"verify", "--strict", dir}, {"show", dir, "t", "--checkpoint", acked}} {
		if out, stderr, code := stele(t, args...); code != exitDone {
			t.Fatalf("%v after the writer was killed: exit code %d, %s%s", args, code, out, stderr)
		}
	}
}

// spoil flips the bits of one byte of a file.
func spoil(t *testing.T, path string, off int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[off] ^= 0xff
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamage pins what verify, dump and salvage say of a store that is damaged in every
// kind of file, and their exit codes.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name, file string
		off        int64
		code       int // of salvage
	}{
		{"block", "000005.seg", 100, exitFound},
		{"directory", "000005.seg", 230, exitFound},
		{"footer", "000005.seg", 560, exitDone},     // all frames were found
		{"tombstones", "000005.seg", 440, exitDone}, // the images know as well
		{"log", "000007.log", 300, exitFound},
		{"log-header", "000007.log", 10, exitFound},
		{"image", "000008.img", 100, exitDone}, // it is derived
		{"manifest", "MANIFEST-000001", 300, exitFound},
	} {
		for _, form := range []string{"", "--json"} {
			name := "damage-" + c.name
			if form != "" {
				name += "-json"
			}
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.fixture()
				root := filepath.Dir(w.dir)
				spoil(t, filepath.Join(w.dir, c.file), c.off)
				all := ""
				for _, args := range [][]string{{"verify", w.dir}, {"dump", "--headers", filepath.Join(w.dir, c.file)}, {"salvage", "--output", filepath.Join(root, "new"), w.dir}} {
					if form != "" {
						args = append([]string{form}, args...)
					}
					out, stderr, code := stele(t, args...)
					all += fmt.Sprintf("$ stele %s\n%s%sexit code %d\n", strings.Join(args, " "), out, stderr, code)
				}
				if !strings.HasSuffix(all, fmt.Sprintf("exit code %d\n", c.code)) {
					t.Errorf("salvage ends with another exit code than %d", c.code)
				}
				golden(t, name, stable(salvagedID.ReplaceAllString(all, "${1}RANDOM"), root))
			})
		}
	}
}

// TestCopies pins what backup, restore and compact say.
func TestCopies(t *testing.T) {
	for _, form := range []string{"", "--json"} {
		name := "copies"
		if form != "" {
			name += "-json"
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fixture()
			root := filepath.Dir(w.dir)
			backup := filepath.Join(root, "backup")
			all := ""
			for _, args := range [][]string{
				{"backup", w.dir, backup}, {"backup", "--check", w.dir, backup}, {"verify", backup}, {"restore", backup, filepath.Join(root, "restored")},
				{"restore", backup, filepath.Join(root, "restored")}, {"verify", filepath.Join(root, "restored")}, {"compact", filepath.Join(root, "restored")},
				{"backup", root, backup}, {"salvage", w.dir}, {"salvage", "-o", filepath.Join(root, "new"), w.dir},
			} {
				if form != "" {
					args = append([]string{form}, args...)
				}
				out, stderr, code := stele(t, args...)
				all += fmt.Sprintf("$ stele %s\n%s%sexit code %d\n", strings.Join(args, " "), out, stderr, code)
			}
			golden(t, name, stable(salvagedID.ReplaceAllString(all, "${1}RANDOM"), root))
		})
	}
}

// TestCompletion: every shell has one, and threads of a store are offered.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, _, code := stele(t, "completion", shell); code != exitDone || len(out) < 1000 {
			t.Errorf("completion %s: exit code %d, %d bytes", shell, code, len(out))
		}
	}
	w := newWorld(t)
	w.fixture()
	if out, _, _ := stele(t, "__complete", "show", w.dir, "a"); !strings.HasPrefix(out, "alice\n") {
		t.Errorf("completions: %q", out)
	}
}
