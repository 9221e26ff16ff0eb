//go:build unix

package pgqueue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/runs/runstest"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/postgres/pgtest"
)

// Variables that make of this test binary a worker of TestFleet.
const (
	fleetDir = "STELE_FLEET_DIR"
	fleetURL = "STELE_FLEET_URL"
	// fleetOfFamilies makes it one of TestFamiliesAreKilled.
	fleetOfFamilies = "STELE_FLEET_OF_FAMILIES"
)

func TestMain(m *testing.M) {
	if os.Getenv(fleetDir) != "" {
		if err := fleetWorker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	pgtest.Main(m)
}

// newServer is a cluster of the test's own, which keeps what it commits.
func newServer(settings ...string) (*pgtest.Server, error) {
	return pgtest.New(append(settings, "fsync=on", "synchronous_commit=on", "full_page_writes=on")...)
}

func environment(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// openFleet opens the program of TestFleet. Leases are short, so that those who sleep past
// them are many.
func openFleet(ctx context.Context, dir, url string) (x *runstest.Torture, closes func(), err error) {
	s, err := postgres.Open(ctx, url, postgres.Options{LeaseTime: time.Second})
	if err != nil {
		return nil, nil, err
	}
	items, err := pgstore.On(ctx, s, store.Options{})
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	q := pgqueue.Open(s, pgqueue.Options{LeaseTime: time.Second})
	x = &runstest.Torture{Dir: dir, Saver: s, Store: items, Queue: q, Threads: 16, Runs: environment("STELE_TORTURE_RUNS", 4), Seed: uint64(environment("STELE_SEED", 1)),
		Version: environment("STELE_TORTURE_VERSION", 3)}
	return x, func() { q.Close(); items.Close(); s.Close() }, nil
}

// setUpFleet makes the tables of the program.
func setUpFleet(t *testing.T, url string) {
	t.Helper()
	if err := postgres.Setup(t.Context(), url, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := pgstore.Setup(t.Context(), url, postgres.Options{}, nil); err != nil {
		t.Fatal(err)
	}
}

// fleetWorker is a worker process of TestFleet. It ends when it is killed.
func fleetWorker() error {
	ctx := context.Background()
	for {
		x, _, err := openFleet(ctx, os.Getenv(fleetDir), os.Getenv(fleetURL))
		if err == nil && os.Getenv(fleetOfFamilies) != "" {
			return families(x).Work(ctx)
		}
		if err == nil {
			return x.Work(ctx)
		}
		time.Sleep(50 * time.Millisecond) // the server is away
	}
}

// fleet are the worker processes.
type fleet struct {
	*testing.T
	dir  string
	urls []string // of the workers, in turn
	// version is that of the graph of those that are started; 0 is that of openFleet.
	version int

	mu      sync.Mutex
	workers []*exec.Cmd
}

func (f *fleet) start(i int, seed int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fleetDir+"="+f.dir, fleetURL+"="+f.urls[i%len(f.urls)], "STELE_SEED="+strconv.Itoa(seed))
	if f.version > 0 {
		cmd.Env = append(cmd.Env, "STELE_TORTURE_VERSION="+strconv.Itoa(f.version))
	}
	log, err := os.OpenFile(f.dir+"/worker.log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		f.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr, cmd.Stdout = log, log
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workers[i] = cmd
}

func (f *fleet) signal(i int, s syscall.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.workers[i].Process.Signal(s)
}

// newFleet starts worker processes that reach the database by these connection strings.
func newFleet(t *testing.T, r *rand.Rand, urls ...string) *fleet {
	t.Helper()
	f := &fleet{T: t, dir: t.TempDir(), urls: urls, workers: make([]*exec.Cmd, 4)}
	for i := range f.workers {
		f.start(i, r.IntN(1e9))
	}
	t.Cleanup(func() {
		for i, w := range f.workers {
			f.signal(i, syscall.SIGCONT)
			_ = w.Process.Kill()
			_ = w.Wait()
		}
		if t.Failed() {
			log, _ := os.ReadFile(f.dir + "/worker.log")
			t.Logf("workers said:\n%s", tail(string(log), 60))
		}
	})
	return f
}

// seeded is the source of a test's disturbances.
func seeded(t *testing.T) *rand.Rand {
	seed := environment("STELE_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("STELE_SEED=%d", seed)
	return rand.New(rand.NewPCG(uint64(seed), 0))
}

func families(x *runstest.Torture) *runstest.FamilyTorture {
	return &runstest.FamilyTorture{Dir: x.Dir, Saver: x.Saver, Queue: x.Queue, Parents: environment("STELE_FAMILIES", 50)}
}

// TestFamiliesAreKilled kills worker processes, and stops them for longer than their leases, while parents start children: each
// child is started once, and each end reaches its parent once.
func TestFamiliesAreKilled(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	setUpFleet(t, url)
	t.Setenv(fleetOfFamilies, "yes")
	r := seeded(t)
	f := newFleet(t, r, url)
	torture, closes, err := openFleet(t.Context(), f.dir, url)
	if err != nil {
		t.Fatal(err)
	}
	defer closes()
	x, driven := families(torture), make(chan error, 1)
	go func() { driven <- x.Drive(t.Context()) }()
	kills := 0
	for done := false; !done; {
		i := r.IntN(len(f.workers))
		if r.IntN(4) > 0 {
			f.signal(i, syscall.SIGKILL)
			_ = f.workers[i].Wait()
			f.start(i, r.IntN(1e9))
			kills++
		} else {
			f.signal(i, syscall.SIGSTOP)
			time.AfterFunc(time.Duration(1100+r.IntN(900))*time.Millisecond, func() { f.signal(i, syscall.SIGCONT) })
		}
		pause := time.NewTimer(time.Duration(100+r.IntN(300+20*kills)) * time.Millisecond)
		select {
		case err := <-driven:
			if done = true; err != nil {
				t.Fatal(err)
			}
		case <-pause.C:
		}
		pause.Stop()
	}
	if err := x.Check(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("killed %d times during %d families", kills, x.Parents)
}

// TestFleet lets worker processes execute runs on one database, while they are killed,
// stopped for longer than their leases, and cut off, and while the server is stopped at once
// and started again. Half of the workers reach it through PgBouncer, the others through a
// relay that breaks, pauses and half-closes connections. At the end every run has succeeded, the states are those of
// an undisturbed run, every effect counts once, and no task has begun again after its writes
// were acknowledged. STELE_SEED repeats the disturbances, STELE_TORTURE_RUNS makes it longer.
func TestFleet(t *testing.T) {
	srv, err := newServer()
	if err != nil {
		pgtest.Need(t, err)
	}
	t.Cleanup(srv.Close)
	url := srv.Database(t)
	setUpFleet(t, url)
	cut, cutURL := pgtest.NewRelay(t, url)
	r := seeded(t)
	f := newFleet(t, r, srv.Bouncer(t, url), cutURL)
	x, closes, err := openFleet(t.Context(), f.dir, url)
	if err != nil {
		t.Fatal(err)
	}
	defer closes()
	driven := make(chan error, 1)
	go func() { driven <- x.Drive(t.Context()) }()
	counts := map[string]int{}
	for done := false; !done; {
		i := r.IntN(len(f.workers))
		what := []string{"kill", "kill", "stop", "cut", "pause", "half-close"}[r.IntN(6)]
		if counts["all"]%12 == 11 {
			what = "restart"
		}
		switch what {
		case "kill":
			f.signal(i, syscall.SIGKILL)
			_ = f.workers[i].Wait()
			f.start(i, r.IntN(1e9))
		case "stop":
			f.signal(i, syscall.SIGSTOP)
			time.AfterFunc(time.Duration(1100+r.IntN(900))*time.Millisecond, func() { f.signal(i, syscall.SIGCONT) })
		case "cut":
			cut.BreakAll()
		case "pause": // for longer than the leases, at times
			cut.Pause(time.Duration(200+r.IntN(1800)) * time.Millisecond)
		case "half-close":
			cut.HalfClose(func() bool { return r.IntN(2) == 0 })
		case "restart":
			if err := srv.Stop("immediate"); err != nil {
				t.Fatal(err)
			}
			if err := srv.Start(); err != nil {
				t.Fatal(err)
			}
		}
		counts[what]++
		counts["all"]++
		select {
		case err := <-driven:
			if done = true; err != nil {
				t.Error(err)
			}
		case <-time.After(time.Duration(100+r.IntN(400)) * time.Millisecond):
		}
	}
	if err := x.Check(t.Context()); err != nil {
		t.Errorf("after %v:\n%v", counts, err)
	}
	fmt.Printf("fleet: %d runs of %d threads, disturbed by %v\n", 2*x.Threads*x.Runs, x.Threads, counts)
}

// TestFailover loses the primary under a fleet: it is killed; it stops and comes back when the
// standby has been promoted; or it is cut off from the standby and never stops, so that for a
// while there are two that take writes. What was acknowledged was on the standby. A worker that
// still talks to the old primary gets no commit through, since that waits for a standby it has
// lost.
func TestFailover(t *testing.T) {
	for _, how := range []string{"killed", "stopped", "cut off"} {
		t.Run(how, func(t *testing.T) {
			primary, err := newServer()
			if err != nil {
				pgtest.Need(t, err)
			}
			t.Cleanup(primary.Close)
			old := primary.Database(t)
			setUpFleet(t, old)
			standby, err := primary.Standby()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(standby.Close)
			url := strings.Replace(old, primary.Dir, primary.Dir+","+standby.Dir, 1) + " target_session_attrs=read-write"
			r := seeded(t)
			f := newFleet(t, r, url)
			x, closes, err := openFleet(t.Context(), f.dir, url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { closes() }()
			driven := make(chan error, 1)
			driving, stop := context.WithCancel(t.Context())
			go func() { driven <- x.Drive(driving) }()
			time.Sleep(time.Duration(500+r.IntN(1500)) * time.Millisecond)
			switch how {
			case "killed":
				if err := primary.Stop("immediate"); err != nil {
					t.Fatal(err)
				}
			case "stopped":
				if err := primary.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if err := standby.Promote(); err != nil { // which ends the replication
				t.Fatal(err)
			}
			if how == "stopped" {
				if err := primary.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			if how != "killed" {
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond) // some still talk to it
				if err := primary.Stop("immediate"); err != nil {
					t.Fatal(err)
				}
			}
			// Those who wait for an answer of the old primary's learn by its end. The driver
			// begins once more: its keys make one run of what it submits twice.
			var ended error
			for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); {
				if ended = <-driven; ended == nil || driving.Err() != nil {
					break
				}
				go func() { driven <- x.Drive(driving) }()
			}
			stop()
			if ended != nil {
				t.Error(ended)
			}
			if err := x.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func tail(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
