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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// accountWriters is how many threads there are, each with one writer.
const accountWriters = 6

// account is a child process that opens the store, lets a writer for each thread put
// checkpoints 1, 2, 3, … while it closes the store beside them, and begins again, until
// it is killed. Each line says what a writer knows of a put:
//
//	head W N   after Open, thread W ends with checkpoint N
//	try W N    the put begins
//	yes W N    it returned nil, or was found after an unknown outcome and a Sync
//	no W N …   its error says that nothing was written, or Sync settled that
//	may W N …  its outcome is unknown, and no Sync has settled it
func account(dir string) int {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for life := uint64(1); ; life++ {
		opts := disk.Options{LogFileSize: 64 << 10, FlushBytes: 128 << 10, ImageBytes: 32 << 10, SyncInterval: time.Millisecond,
			Sync: []disk.SyncMode{disk.SyncAlways, disk.SyncInterval, disk.SyncNever}[rng.IntN(3)]}
		d, err := disk.Open(dir, opts)
		if err != nil {
			fmt.Println("error", err)
			return 1
		}
		var writers sync.WaitGroup
		for w := range accountWriters {
			a := &accountant{s: &opened{Saver: d}, w: w, rng: rand.New(rand.NewPCG(seed, life<<8|uint64(w)))}
			writers.Go(a.write)
		}
		time.Sleep(time.Duration(rng.IntN(8000)) * time.Microsecond)
		err = d.Close()
		writers.Wait()
		if err != nil {
			fmt.Println("error", err)
			return 1
		}
	}
}

// accountant is the writer of one thread.
type accountant struct {
	s   *opened
	w   int
	rng *rand.Rand
}

func (a *accountant) thread() string { return fmt.Sprint("thread ", a.w) }

// tell writes one line by one call, so that a kill cuts between lines.
func (a *accountant) tell(what string, n int, err error) {
	text := ""
	if err != nil {
		text = " " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	_, _ = fmt.Printf("%s %d %d%s\n", what, a.w, n, text) // the parent is gone if it fails
}

func (a *accountant) write() {
	head := 0
	tup, err := a.s.GetTuple(context.Background(), saver.Config{ThreadID: a.thread()})
	switch {
	case err == nil:
		head, err = strconv.Atoi(tup.Config.CheckpointID)
	case errors.Is(err, saver.ErrNotFound):
		err = nil
	}
	if errors.Is(err, saver.ErrClosed) {
		return
	}
	if err != nil {
		fmt.Println("error", err)
		return
	}
	a.tell("head", head, nil)
	for {
		stored, err := a.put(head + 1)
		if stored {
			head++
		}
		if err != nil {
			return
		}
	}
}

// put puts checkpoint n, in every other case under a context that ends meanwhile. An
// error ends the writer's life: the store is closed.
func (a *accountant) put(n int) (stored bool, end error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if a.rng.IntN(2) == 0 {
		defer time.AfterFunc(time.Duration(a.rng.IntN(1500))*time.Microsecond, cancel).Stop()
	}
	a.tell("try", n, nil)
	err := putStep(ctx, a.s, a.thread(), n)
	switch {
	case err == nil:
		a.tell("yes", n, nil)
		return true, nil
	case errors.Is(err, saver.ErrOutcomeUnknown):
		return a.settle(n, err)
	case errors.Is(err, context.Canceled), errors.Is(err, saver.ErrClosed):
		a.tell("no", n, err)
		if errors.Is(err, saver.ErrClosed) {
			return false, err
		}
		return false, nil
	}
	a.tell("error", n, err)
	return false, err
}

// settle finds out what became of a put.
func (a *accountant) settle(n int, unknown error) (stored bool, end error) {
	a.tell("may", n, unknown)
	err := a.s.Sync(context.Background())
	if err == nil {
		stored, err = hasStep(a.s, a.thread(), n)
	}
	switch {
	case err != nil && !errors.Is(err, saver.ErrClosed):
		a.tell("error", n, err)
		return false, err
	case err != nil:
		return false, err
	case stored:
		a.tell("yes", n, nil)
	default:
		a.tell("no", n, errors.New("settled by Sync"))
	}
	return stored, nil
}

// ledger is what the parent knows of the threads.
type ledger struct {
	head    [accountWriters]int  // the last checkpoint that is there
	maybe   [accountWriters]bool // the next one may be
	opens   int                  // heads seen
	further int                  // heads one beyond, of a put that may have been done
	tally   map[string]int       // lines by what they say, and errors by their text
}

// read keeps the books by one line of a child.
func (l *ledger) read(line string) error {
	f := strings.SplitN(line, " ", 4)
	if len(f) < 3 || f[0] == "error" {
		return fmt.Errorf("the child: %s", line)
	}
	w, err := strconv.Atoi(f[1])
	n, err2 := strconv.Atoi(f[2])
	if err != nil || err2 != nil || w >= accountWriters {
		return fmt.Errorf("the child: %s", line)
	}
	l.tally[strings.Join(append([]string{f[0]}, f[3:]...), " ")]++
	switch f[0] {
	case "head":
		l.opens++
		if n != l.head[w] && (n != l.head[w]+1 || !l.maybe[w]) {
			return fmt.Errorf("thread %d ends with checkpoint %d; its writer was sure of %d, and of no more: %t", w, n, l.head[w], !l.maybe[w])
		}
		if n > l.head[w] {
			l.further++
		}
		l.head[w], l.maybe[w] = n, false
		return nil
	case "try", "may":
		l.maybe[w] = true
	case "yes":
		l.head[w]++
		l.maybe[w] = false
	case "no":
		l.maybe[w] = false
	}
	if want := map[bool]int{true: n, false: n - 1}[f[0] == "yes"]; l.head[w] != want {
		return fmt.Errorf("%q, where the thread ends with %d", line, l.head[w])
	}
	return nil
}

// accountLife runs a child until it is killed after wait.
func (l *ledger) accountLife(dir string, wait time.Duration) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=account", childDirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := func() { _ = cmd.Process.Kill() } // too late is no error: the child is at its end
	var timer *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if timer == nil { // from when the child is at work
			timer = time.AfterFunc(wait, kill)
		}
		if e := l.read(lines.Text()); e != nil && err == nil {
			err = e
			kill()
		}
	}
	if timer == nil || timer.Stop() && err == nil {
		err = errors.New("a child ended by itself")
	}
	_ = cmd.Wait() // it was killed
	return err
}

// TestEveryPutIsAccountedFor: real processes put under contexts that end, close the
// store beside their writers, and are killed; and no thread ever ends with another
// checkpoint than its writer knew, but for a put that had not returned, or whose
// outcome was unknown. So an error that says that nothing was written is right.
// ACCOUNT_LIVES is how many lives of the store there are, one or two to a kill.
func TestEveryPutIsAccountedFor(t *testing.T) {
	lives, seed := 60, seedFrom(t, "ACCOUNT_SEED")
	if race.Enabled { // a process takes ten times as long to start
		lives = 15
	}
	lives = envInt(t, "ACCOUNT_LIVES", lives)
	t.Logf("repeat with ACCOUNT_SEED=%d ACCOUNT_LIVES=%d go test ./test/crash -run '^%s$'", seed, lives, t.Name())
	rng, kills := rand.New(rand.NewPCG(seed, 0)), 0
	l := ledger{tally: map[string]int{}}
	for dir := filepath.Join(t.TempDir(), "store"); l.opens < lives*accountWriters; kills++ {
		if err := l.accountLife(dir, time.Duration(rng.IntN(150))*time.Millisecond); err != nil {
			t.Fatalf("after %d kills: %v", kills, err)
		}
	}
	t.Logf("%d kills, %d lives, checkpoints %v; %d times a put that was not known to be done was", kills, l.opens/accountWriters, l.head, l.further)
	for what, n := range l.tally {
		t.Logf("%7d %s", n, what)
	}
}
