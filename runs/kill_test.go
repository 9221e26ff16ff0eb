package runs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/runs/runstest"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// tortureDir in the environment makes of this test binary a process of TestKills.
const tortureDir = "STELE_TORTURE_DIR"

func TestMain(m *testing.M) {
	for variable, run := range map[string]func(dir string) error{
		tortureDir: func(dir string) error { return tortured(dir, openTorture) },
		familyDir:  func(dir string) error { return tortured(dir, openFamilies) },
	} {
		dir := os.Getenv(variable)
		if dir == "" {
			continue
		}
		if err := run(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(firesDir); dir != "" {
		fmt.Fprintln(os.Stderr, fired(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func environment(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// openTorture opens the program of TestKills.
func openTorture(ctx context.Context, dir string) (x *runstest.Torture, closes func() error, err error) {
	s, err := disk.Open(filepath.Join(dir, "data"), disk.Options{})
	if err != nil {
		return nil, nil, err
	}
	x = &runstest.Torture{Dir: dir, Saver: s, Threads: 8, Runs: environment("STELE_TORTURE_RUNS", 4), Seed: uint64(environment("STELE_SEED", 1)),
		Version: environment("STELE_TORTURE_VERSION", 3)}
	mem, err := store.On(s, store.Options{})
	if err == nil {
		x.Store = mem
		x.Queue, err = runs.NewLocal(ctx, mem, runs.LocalOptions{})
	}
	return x, s.Close, err
}

// torturer is a program that is killed: it works on runs, drives them to their ends, and checks what is left.
type torturer interface {
	Work(ctx context.Context) error
	Drive(ctx context.Context) error
	Check(ctx context.Context) error
}

// tortured is the process of a program in a directory.
func tortured[T torturer](dir string, open func(ctx context.Context, dir string) (T, func() error, error)) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x, closes, err := open(ctx, dir)
	if err != nil {
		return err
	}
	worked := make(chan error, 1)
	go func() { worked <- x.Work(ctx) }()
	if err := x.Drive(ctx); err != nil {
		return err
	}
	cancel()
	if err := <-worked; err != nil {
		return err
	}
	return closes()
}

// TestKills kills a program at random, again and again: every run comes to its end, every
// effect counts once, and no task begins again after its writes were acknowledged.
// STELE_SEED repeats the times, STELE_TORTURE_RUNS makes it longer.
func TestKills(t *testing.T) {
	t.Parallel()
	kills(t, tortureDir, openTorture, func(*rand.Rand) int { return 3 })
}

// TestDeploysOnDisk is TestKills with another version of the graph each time, forwards and back.
func TestDeploysOnDisk(t *testing.T) {
	t.Parallel()
	kills(t, tortureDir, openTorture, func(r *rand.Rand) int { return 1 + r.IntN(3) })
}

// TestFamiliesAreKilled is TestKills with parents that start children: each child is started once, and each end reaches its
// parent once.
func TestFamiliesAreKilled(t *testing.T) {
	t.Parallel()
	kills(t, familyDir, openFamilies, func(*rand.Rand) int { return 1 })
}

// kills runs the program that a variable asks for with a version of its graph that is drawn anew after each kill.
func kills[T torturer](t *testing.T, program string, open func(ctx context.Context, dir string) (T, func() error, error), version func(*rand.Rand) int) {
	seed := environment("STELE_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("STELE_SEED=%d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	dir := t.TempDir()
	kills := 0
	for done := false; !done; {
		p := exec.Command(os.Args[0])
		p.Env = append(os.Environ(), program+"="+dir, "STELE_SEED="+strconv.Itoa(random.IntN(1e9)), "STELE_TORTURE_VERSION="+strconv.Itoa(version(random)))
		p.Stderr = os.Stderr
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- p.Wait() }()
		kill := time.NewTimer(time.Duration(30+random.IntN(120+20*kills)) * time.Millisecond)
		select {
		case err := <-ended:
			if done = true; err != nil {
				t.Fatal(err)
			}
		case <-kill.C:
			_ = p.Process.Kill()
			if err := <-ended; err == nil {
				done = true
			}
			kills++
		}
		kill.Stop()
	}
	x, closes, err := open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer closes()
	if err := x.Check(t.Context()); err != nil {
		t.Errorf("after %d kills:\n%v", kills, err)
	}
	fmt.Printf("%s: killed %d times\n", t.Name(), kills)
}
