package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/store"
)

// Factory opens a new, empty store with the options given, whose Clock it uses.
// It registers its own cleanup with t. The store implements store.Scanner and
// store.Sweeper.
type Factory func(t *testing.T, o store.Options) store.Store

// Options say what a store does not do.
type Options struct {
	// Except lists the cases that the store does not pass, by ID and name such as
	// "STO-04/invalid namespaces", each with the reason: the store's profile. They are left
	// out, and an ID without other cases is not counted. One that is no case fails the run.
	Except map[string]string
}

// Run tests the stores that factory opens, with every case.
func Run(t *testing.T, factory Factory) {
	t.Helper()
	RunWith(t, factory, Options{})
}

// RunWith is Run for a store that does not pass some cases. It prints
// "ids: 12 of 12, cases: N": the IDs of which a case ran, of all there are, and the cases
// that ran.
func RunWith(t *testing.T, factory Factory, o Options) {
	t.Helper()
	for name := range o.Except {
		if !slices.ContainsFunc(allCases(), func(c testCase) bool { return c.fullName() == name }) {
			t.Errorf("Options.Except names %q, which is no case", name)
		}
	}
	ran, cases := map[string]bool{}, 0
	for _, c := range allCases() {
		if o.Except[c.fullName()] != "" {
			continue
		}
		t.Run(c.fullName(), func(t *testing.T) {
			ran[c.id] = true
			cases++
			c.run(t, func(o store.Options) store.Store { return factory(t, o) })
		})
	}
	line := summary(ran, cases)
	fmt.Println(line)
	t.Log(line)
}

const lastID = 12

func ids() []string {
	all := make([]string, lastID)
	for i := range all {
		all[i] = fmt.Sprintf("STO-%02d", i+1)
	}
	return all
}

func summary(ran map[string]bool, cases int) string {
	n := 0
	for _, id := range ids() {
		if ran[id] {
			n++
		}
	}
	return fmt.Sprintf("ids: %d of %d, cases: %d", n, lastID, cases)
}

func allCases() []testCase {
	return slices.Concat(namespaceCases, itemCases, batchCases, pathCases, filterCases, ttlCases, vectorCases, scanCases, restoreCases, moveCases, appendCases, overCases, badCases)
}

// TB is the part of testing.TB the cases use, so that the kit's own test can
// watch them fail.
type TB interface {
	// Helper marks the caller as a helper.
	Helper()
	// Errorf reports a fault and goes on.
	Errorf(format string, args ...any)
	// Fatalf reports a fault and ends the case.
	Fatalf(format string, args ...any)
}

// testCase is one test of a store. Cases beyond the IDs have an id that tells
// their subject instead.
type testCase struct {
	id, name string
	opts     store.Options
	fn       func(e *env)
}

func (c testCase) fullName() string { return c.id + "/" + c.name }

func (c testCase) run(t TB, open func(store.Options) store.Store) {
	t.Helper()
	e := &env{TB: t, ctx: context.Background(), clock: &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}}
	o := c.opts
	o.Clock = e.clock.Now
	e.s = open(o)
	c.fn(e)
}

// clock stands still until a case moves it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now is the time; each asking is a microsecond later.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Microsecond)
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
