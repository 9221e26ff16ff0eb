package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver/disk"
)

// acked is a child that tells of each checkpoint it stored.
type acked struct {
	cmd   *exec.Cmd
	lines chan int // numbers of stored checkpoints; closed at the child's end
}

// startAcked starts a child that writes in the given mode.
func startAcked(t *testing.T, dir string, mode disk.SyncMode) *acked {
	t.Helper()
	a := &acked{cmd: exec.Command(os.Args[0]), lines: make(chan int, 1<<16)}
	a.cmd.Env = append(os.Environ(), childEnv+"=ack", childDirEnv+"="+dir, childModeEnv+"="+fmt.Sprint(mode), "GORACE=atexit_sleep_ms=0")
	stdin, err := a.cmd.StdinPipe() // kept open: the child writes until it is killed
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(a.lines)
		defer func() { _ = stdin.Close() }()
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "ack %d", &n); err == nil {
				a.lines <- n
			}
		}
	}()
	return a
}

// stop kills the child after it has stored some checkpoints and some more time,
// having called before, and returns the last one it told of.
func (a *acked) stop(t *testing.T, stored int, more time.Duration, before func()) (last int) {
	t.Helper()
	for range stored {
		n, ok := <-a.lines
		if !ok {
			t.Fatal("the child ended by itself")
		}
		last = n
	}
	time.Sleep(more)
	before()
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for n := range a.lines {
		last = n
	}
	_ = a.cmd.Wait() // it was killed
	return last
}

// TestReaderBesideKilledWriter reads a store that nobody recovers: its writer was
// killed in the midst of its work, again and again. The reader finds all that was
// acknowledged, and changes no file.
func TestReaderBesideKilledWriter(t *testing.T) {
	dir, rng := t.TempDir(), rand.New(rand.NewPCG(rand.Uint64(), 1))
	kills, last := envInt(t, "READER_KILLS", 6), 0
	for i := range kills {
		mode := []disk.SyncMode{disk.SyncAlways, disk.SyncInterval, disk.SyncNever}[i%3]
		a := startAcked(t, dir, mode)
		last = a.stop(t, 1+rng.IntN(200), time.Duration(rng.IntN(5))*time.Millisecond, func() {})
		before := sizes(t, dir)
		n, _ := readPrefix(t, dir)
		if n != last && n != last+1 { // one may have been on its way
			t.Fatalf("kill %d: %d checkpoints were acknowledged, a reader sees %d", i, last, n)
		}
		if after := sizes(t, dir); after != before {
			t.Fatalf("a reader changed the files: %s, before %s", after, before)
		}
	}
	line := fmt.Sprintf("readers beside killed writers: %d kills, %d checkpoints at last, 0 missing", kills, last)
	fmt.Println(line)
	t.Log(line)
}

// raceForLock opens the store a few times, as soon as it can. While it has it, a file of
// its own stands beside: two holders at once would meet there.
func raceForLock(dir string) int {
	won := 0
	for won < 8 {
		s, err := disk.Open(dir, disk.Options{})
		if errors.Is(err, fault.ErrLocked) {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		if err != nil {
			fmt.Println("error:", err)
			return 1
		}
		mark := filepath.Join(filepath.Dir(dir), "held")
		f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			fmt.Println("error: two have the store:", err)
			return 1
		}
		n, err := newest(s)
		if err == nil {
			err = putNumber(context.Background(), s, n+1)
		}
		if err = errors.Join(err, f.Close(), os.Remove(mark), s.Close()); err != nil {
			fmt.Println("error:", err)
			return 1
		}
		won++
	}
	fmt.Println("won", won)
	return 0
}

// TestProcessesRaceForTheLock: of several processes that open a store at once, one
// has it at a time, and what each stored is there at the end.
func TestProcessesRaceForTheLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	var racers []*exec.Cmd
	var outs []*strings.Builder
	for range 3 {
		cmd, out := exec.Command(os.Args[0]), &strings.Builder{}
		cmd.Env = append(os.Environ(), childEnv+"=race", childDirEnv+"="+dir, "GORACE=atexit_sleep_ms=0")
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		racers, outs = append(racers, cmd), append(outs, out)
	}
	total := 0
	for i, cmd := range racers {
		err := cmd.Wait()
		var won int
		if _, serr := fmt.Sscanf(outs[i].String(), "won %d", &won); err != nil || serr != nil {
			t.Fatalf("racer %d: %v: %s", i, err, outs[i])
		}
		total += won
	}
	n, _ := readPrefix(t, dir)
	if n != total || total == 0 {
		t.Fatalf("%d checkpoints, the racers stored %d", n, total)
	}
	line := fmt.Sprintf("race for the lock: %d processes, %d turns, never two at once", len(racers), total)
	fmt.Println(line)
	t.Log(line)
}
