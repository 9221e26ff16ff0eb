package runstest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
)

// Options configure the queue of a case.
type Options struct {
	// Clock tells the queue the time, in place of every other clock. It stands still until
	// the case moves it.
	Clock func() time.Time
	// LeaseTime is how long a claim holds.
	LeaseTime time.Duration
}

// Factory opens a new, empty queue. It registers its own cleanup with t. reopen opens
// another one over what the first has stored, as a process does after a crash of the one
// before: the case does not use the first again.
type Factory func(t *testing.T, o Options) (q runs.Queue, reopen func() runs.Queue)

// Run tests the queues that factory opens. It prints how many cases ran.
func Run(t *testing.T, factory Factory) {
	t.Helper()
	cases := 0
	for _, group := range byID(allCases()) {
		t.Run(group[0].id, func(t *testing.T) {
			for _, c := range group {
				t.Run(c.name, func(t *testing.T) {
					cases++
					c.run(t, func(o Options) (runs.Queue, func() runs.Queue) { return factory(t, o) })
				})
			}
		})
	}
	line := fmt.Sprintf("cases: %d", cases)
	fmt.Println(line)
	t.Log(line)
}

// TB is the part of testing.TB that the cases use, so that the kit's own test can watch
// them fail.
type TB interface {
	// Helper marks the caller as a helper.
	Helper()
	// Errorf reports a fault and goes on.
	Errorf(format string, args ...any)
	// Fatalf reports a fault and ends the case.
	Fatalf(format string, args ...any)
}

// testCase is one test of a queue. Its id is the part of the contract.
type testCase struct {
	id, name string
	fn       func(e *env)
}

const leaseTime = 10 * time.Second

func (c testCase) run(t TB, open func(Options) (runs.Queue, func() runs.Queue)) {
	t.Helper()
	e := &env{TB: t, ctx: context.Background(), clock: &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}}
	e.q, e.reopen = open(Options{Clock: e.clock.Now, LeaseTime: leaseTime})
	c.fn(e)
}

// byID groups cases in the order of their first appearance.
func byID(cases []testCase) (groups [][]testCase) {
	for _, c := range cases {
		i := slices.IndexFunc(groups, func(g []testCase) bool { return g[0].id == c.id })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

func allCases() []testCase {
	return slices.Concat(submitCases, keyCases, busyCases, orderCases, claimCases, attemptCases, cancelCases, retryCases, sleepCases, versionCases, childCases,
		finishCases, eventCases, watchCases, workerCases, scheduleCases, listCases, sweepCases, deleteCases, badCases, reopenCases, concurrencyCases)
}

// clock stands still until a case moves it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now is the time.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
