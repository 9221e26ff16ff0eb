package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// With childEnv set the test binary is another process with a store: "hold" keeps
// it open for writing, "write" writes to it, until the standard input ends; "ack"
// writes and tells of each checkpoint that is stored; "race" opens and closes it
// again and again; "account" does so under writers that account for every put.
const (
	childEnv     = "STELE_CRASH_CHILD"
	childDirEnv  = "STELE_CRASH_DIR"
	childModeEnv = "STELE_CRASH_SYNC"
)

func child(role, dir string) int {
	if role == "race" {
		return raceForLock(dir)
	}
	if role == "account" {
		return account(dir)
	}
	opts := disk.Options{LogFileSize: 64 << 10, FlushBytes: 256 << 10, ImageBytes: 32 << 10, CompactFanout: 2, CompactRate: -1, DiskReserve: -1}
	for _, mode := range []disk.SyncMode{disk.SyncAlways, disk.SyncInterval, disk.SyncNever} {
		if fmt.Sprint(mode) == os.Getenv(childModeEnv) {
			opts.Sync = mode
		}
	}
	s, err := disk.Open(dir, opts)
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println("open", os.Getpid())
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	if role != "hold" {
		if err := writeUntil(s, stop, role == "ack"); err != nil {
			fmt.Println("error:", err)
			return 1
		}
	} else {
		<-stop
	}
	if err := s.Close(); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// writeUntil puts checkpoints 1, 2, 3, … in turn on a few threads, each with a
// value that tells its number, and compacts now and then. It goes on where the
// store ends.
func writeUntil(s *disk.Saver, stop <-chan struct{}, tell bool) error {
	ctx := context.Background()
	first, err := newest(s)
	if err != nil {
		return err
	}
	for n := first + 1; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := putNumber(ctx, s, n); err != nil {
			return err
		}
		if tell {
			fmt.Println("ack", n)
		}
		if n%500 == 0 {
			if err := s.Compact(ctx); err != nil {
				return err
			}
		}
	}
}

// putNumber stores checkpoint n; its channel holds n and some ballast.
func putNumber(ctx context.Context, s saver.Saver, n int) error { return putBallast(ctx, s, n, 0) }

// putBallast is putNumber with so many random bytes besides.
func putBallast(ctx context.Context, s saver.Saver, n, ballast int) error {
	v := saver.IntVersion(int64(n))
	id, parent := fmt.Sprintf("%09d", n), ""
	if n > 4 {
		parent = fmt.Sprintf("%09d", n-4)
	}
	cp := saver.Checkpoint{V: 4, ID: id, TS: "2026-01-02T03:04:05+00:00",
		Values:   map[string]saver.Value{"n": saver.ValueOf(numberText(n))},
		Versions: map[string]saver.Version{"n": v}}
	fresh := map[string]saver.Version{"n": v}
	if ballast > 0 {
		b := make([]byte, ballast)
		rng := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
		_, _ = rng.Read(b) // never fails
		cp.Values["ballast"], cp.Versions["ballast"], fresh["ballast"] = saver.ValueOf(b), v, v
	}
	_, err := s.Put(ctx, saver.Config{ThreadID: fmt.Sprint("thread", n%4), CheckpointID: parent}, cp,
		saver.Metadata{"source": "loop", "step": n}, fresh)
	return err
}

func numberText(n int) string { return strings.Repeat(fmt.Sprint(n, " "), 100) }

type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// startChild starts a child and waits until it has the store open.
func startChild(t *testing.T, role, dir string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), childEnv+"="+role, childDirEnv+"="+dir, "GORACE=atexit_sleep_ms=0")
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
	if err != nil || !strings.HasPrefix(line, "open ") {
		t.Fatalf("the child said %q: %v", line, err)
	}
	return p
}

func (p *process) finish(t *testing.T) {
	t.Helper()
	if err := p.stdin.Close(); err != nil {
		t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
}

// TestLockBetweenProcesses: the second process is told who has the store; the lock
// ends with its holder, however that ends.
func TestLockBetweenProcesses(t *testing.T) {
	dir := t.TempDir()
	p := startChild(t, "hold", dir)
	_, err := disk.Open(dir, disk.Options{})
	var locked *fault.LockedError
	if !errors.As(err, &locked) || !errors.Is(err, fault.ErrLocked) {
		t.Fatalf("second opener: %v", err)
	}
	if want := fmt.Sprintf("pid %d of %s on ", p.cmd.Process.Pid, filepath.Base(p.cmd.Path)); !strings.HasPrefix(locked.Holder, want) {
		t.Fatalf("the holder is %q, want %q", locked.Holder, want)
	}
	if locked.Here || !strings.Contains(err.Error(), "by another process") {
		t.Errorf("another process has the store: %v", err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatalf("after the holder died: %v", err)
	}
	_, err = disk.Open(dir, disk.Options{})
	if !errors.As(err, &locked) || !locked.Here || !strings.Contains(err.Error(), "in this process already") {
		t.Errorf("opened twice in a process: %v", err)
	}
	if _, err := disk.Open(dir, disk.Options{}); !errors.Is(err, fault.ErrLocked) {
		t.Fatalf("second opener in one process: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReaderBesideWriter opens a store for reading, again and again, while another
// process writes, flushes and compacts it. What a reader sees is a prefix of what
// was written, never shorter than what an earlier one saw.
func TestReaderBesideWriter(t *testing.T) {
	dir := t.TempDir()
	p := startChild(t, "write", dir)
	seen, opens, withSegments := 0, 0, 0
	for end := time.Now().Add(time.Duration(envInt(t, "READER_MS", 1500)) * time.Millisecond); time.Now().Before(end) || withSegments == 0; {
		n, segments := readPrefix(t, dir)
		if n < seen {
			t.Fatalf("a reader saw %d checkpoints, the one before %d", n, seen)
		}
		seen = n
		opens++
		if segments > 0 {
			withSegments++
		}
	}
	p.finish(t)
	n, _ := readPrefix(t, dir)
	if n < seen {
		t.Fatalf("%d checkpoints after the writer closed, a reader saw %d", n, seen)
	}
	line := fmt.Sprintf("readers beside a writer: %d opens, %d with segments, %d checkpoints at last", opens, withSegments, n)
	fmt.Println(line)
	t.Log(line)
}

// readPrefix reads all of a store, and returns how many checkpoints it holds, after
// it found them to be 1, 2, 3, … with the right values.
func readPrefix(t *testing.T, dir string) (n, segments int) {
	t.Helper()
	s, err := disk.Open(dir, disk.Options{ReadOnly: true})
	if errors.Is(err, fault.ErrNotStore) {
		return 0, 0 // not there yet
	}
	if err != nil {
		t.Fatalf("read-only open: %v", err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if n, err = newest(s); err != nil {
		t.Fatal(err)
	}
	checkLength(t, s, n)
	if err := putNumber(context.Background(), s, 1); !errors.Is(err, saver.ErrReadOnly) {
		t.Fatalf("put on a read-only store: %v", err)
	}
	return n, s.Stats().Segments
}

// newest is the number of the newest checkpoint; 0 if there is none.
func newest(s saver.Saver) (n int, err error) {
	for tup, err := range s.List(context.Background(), saver.Query{Limit: 1}) {
		if err != nil {
			return 0, err
		}
		if _, err := fmt.Sscanf(tup.Config.CheckpointID, "%d", &n); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// checkLength checks that the newest checkpoint being n, all n are there.
func checkLength(t *testing.T, s *disk.Saver, n int) {
	t.Helper()
	want := n
	for tup, err := range s.List(context.Background(), saver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		var text string
		if err := tup.Checkpoint.Values["n"].Decode(&text); err != nil {
			t.Fatalf("checkpoint %s: %v", tup.Config.CheckpointID, err)
		}
		if tup.Config.CheckpointID != fmt.Sprintf("%09d", want) || text != numberText(want) {
			t.Fatalf("found checkpoint %s of %q, want %d", tup.Config.CheckpointID, text[:20], want)
		}
		want--
	}
	if want != 0 {
		t.Fatalf("checkpoints %d to 1 are missing", want)
	}
}
