//go:build unix

package pgqueue_test

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres/pgtest"
)

// TestDeploys rolls versions of a graph out to a fleet, every second or so, forwards and back, while its processes
// are killed. The second version has a field more and another name for the node that asks, the third another
// type of that field. So there are moments at which nobody alive can go on with some of the runs. At the end
// every run has succeeded, the states are those of an undisturbed run, every effect counts once, and no run
// is left in the count of versions. STELE_SEED repeats the deploys, STELE_TORTURE_RUNS makes it longer.
func TestDeploys(t *testing.T) {
	srv, err := newServer()
	if err != nil {
		pgtest.Need(t, err)
	}
	t.Cleanup(srv.Close)
	url := srv.Database(t)
	setUpFleet(t, url)
	t.Setenv("STELE_TORTURE_RUNS", strconv.Itoa(environment("STELE_TORTURE_RUNS", 2)))
	t.Setenv("STELE_TORTURE_VERSION", "3") // of what this process makes, and the first workers
	r := seeded(t)
	f := newFleet(t, r, url)
	x, closes, err := openFleet(t.Context(), f.dir, url)
	if err != nil {
		t.Fatal(err)
	}
	defer closes()
	driven := make(chan error, 1)
	go func() { driven <- x.Drive(t.Context()) }()
	counts := map[string]int{}
	restart := func(i int, how syscall.Signal) {
		f.signal(i, how)
		_ = f.workers[i].Wait()
		f.start(i, r.IntN(1e9))
	}
	pinned := int64(0)
	over := func(pause time.Duration) bool {
		if found, err := x.Queue.Versions(t.Context()); err != nil {
			t.Error(err)
		} else {
			for _, v := range found {
				pinned = max(pinned, v.Pinned)
			}
		}
		select {
		case err := <-driven:
			if err != nil {
				t.Error(err)
			}
			return true
		case <-time.After(pause):
			return false
		}
	}
	for done := false; !done; {
		f.version = 1 + r.IntN(3)
		counts[fmt.Sprint("version ", f.version)]++
		for i := range f.workers { // one after the other: old and new are side by side
			restart(i, syscall.SIGTERM)
			if done = over(time.Duration(50+r.IntN(200)) * time.Millisecond); done {
				break
			}
			if r.IntN(2) == 0 { // one of this version or of the one before
				counts["kill"]++
				restart(r.IntN(i+1), syscall.SIGKILL)
			}
		}
	}
	if err := x.Check(t.Context()); err != nil {
		t.Errorf("after %v:\n%v", counts, err)
	}
	left, err := x.Queue.Versions(t.Context())
	for _, v := range left {
		if v.Runs > 0 || v.Pinned > 0 {
			t.Errorf("left: %+v", v)
		}
	}
	if err != nil {
		t.Error(err)
	}
	fmt.Printf("deploys: %d runs of %d threads, disturbed by %v, up to %d pinned at once\n", 2*x.Threads*x.Runs, x.Threads, counts, pinned)
}
