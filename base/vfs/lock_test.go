package vfs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// lockEnv makes the test binary a process that takes the lock it names, says
// so on its standard output and holds the lock until its standard input ends.
const lockEnv = "STELE_TEST_LOCK"

func TestMain(m *testing.M) {
	if name := os.Getenv(lockEnv); name != "" {
		os.Exit(holdLock(name))
	}
	os.Exit(m.Run())
}

func holdLock(name string) int {
	_, err := vfs.OS{}.Lock(name, fmt.Sprintf("pid %d", os.Getpid()))
	switch {
	case errors.Is(err, vfs.ErrLockHeld):
		fmt.Println("held")
	case err != nil:
		fmt.Println("error:", err)
	default:
		fmt.Println("locked")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	return 0 // the lock is left for the kernel to drop
}

type lockProcess struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  string
}

func startLockProcess(t *testing.T, name string) *lockProcess {
	t.Helper()
	p := &lockProcess{cmd: exec.Command(os.Args[0])}
	// The race detector otherwise lets every process sleep a second at its end.
	p.cmd.Env = append(os.Environ(), lockEnv+"="+name, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the child said %q: %v", line, err)
	}
	p.said = line[:len(line)-1]
	return p
}

// exit lets the child end in peace.
func (p *lockProcess) exit(t *testing.T) {
	t.Helper()
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// kill ends the child with SIGKILL.
func (p *lockProcess) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err == nil {
		t.Fatal("the killed child exited in peace")
	}
}

func TestLockTwoProcesses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")

	l, err := vfs.OS{}.Lock(name, "pid parent")
	if err != nil {
		t.Fatal(err)
	}
	child := startLockProcess(t, name)
	if child.said != "held" {
		t.Fatalf("the child said %q while the parent held the lock", child.said)
	}
	child.exit(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	for _, end := range []func(*lockProcess, *testing.T){(*lockProcess).exit, (*lockProcess).kill} {
		child = startLockProcess(t, name)
		if child.said != "locked" {
			t.Fatalf("the child said %q of a free lock", child.said)
		}
		if _, err := (vfs.OS{}).Lock(name, "pid parent"); !errors.Is(err, vfs.ErrLockHeld) {
			t.Fatalf("locked beside a living child: %v", err)
		}
		text, err := os.ReadFile(name)
		if want := fmt.Sprintf("pid %d", child.cmd.Process.Pid); err != nil || string(text) != want {
			t.Fatalf("the lock file says %q (%v), want %q", text, err, want)
		}
		end(child, t)
		l, err := vfs.OS{}.Lock(name, "pid parent")
		if err != nil {
			t.Fatalf("the lock outlived its process: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLockAlias: another path to the same file is the same lock.
func TestLockAlias(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "LOCK")
	l, err := vfs.OS{}.Lock(name, "")
	if err != nil {
		t.Fatal(err)
	}
	alias := filepath.Join(dir, "ALIAS")
	if err := os.Link(name, alias); err != nil {
		t.Fatal(err)
	}
	if _, err := (vfs.OS{}).Lock(alias, ""); !errors.Is(err, vfs.ErrLockHeld) {
		t.Fatalf("locked through a second name: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
