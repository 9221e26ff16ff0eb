// Package model compares any saver with package saver/memory over random
// programs: rapid draws calls from small spaces of threads, namespaces, ids,
// channels and versions, so that forks, re-puts, conflicts, deletions and
// copies meet. Both savers must give the same answer to every call, and after
// every change hold the same things byte for byte.
//
// A failure prints the seed with the flags that repeat it. MODEL_CHECKS sets the
// number of programs.
package model

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// Env is what a saver under test must be opened with, so that it sees the same
// times and random numbers as the model.
type Env struct {
	// Clock stands still during a call.
	Clock func() time.Time
	// Random gives the fractions of minted versions.
	Random func() float64
	// DeletedMemory is how long deletions are remembered.
	DeletedMemory time.Duration
	// Cleanup registers what to do when the program is over.
	Cleanup func(func())
	// T draws what the saver is opened with, so that a failing program is made
	// simple together with its options.
	T *rapid.T
}

// Subject is a saver under test.
type Subject struct {
	Saver saver.Saver
	// Reopen, if set, closes the saver, or kills it, and opens what it left. It is
	// called between calls.
	Reopen func() (saver.Saver, error)
	// Upset, if set, does something to the saver between calls that must not
	// change an answer, draws what, and says it in words. It returns the saver to
	// go on with.
	Upset func(t *rapid.T) (saver.Saver, string, error)
	// AtWrite, if set, has f called once, when the next call that writes has got
	// as far as the disk.
	AtWrite func(f func())
	// Settle, if set, waits until no call is under way whose caller has left.
	Settle func() error
}

// begin is when every program begins.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

const deletedMemory = 30 * 24 * time.Hour

// Run compares the savers that factory opens, empty, with the model. name tells
// what is tested.
func Run(t *testing.T, name string, factory func(env Env) (Subject, error)) {
	t.Helper()
	setChecks(t)
	t.Run(name, func(t *testing.T) { rapid.Check(t, Program(factory)) })
}

// setChecks gives rapid the number of programs: the one of its own flag if that
// is given, or MODEL_CHECKS, or what the test has set already, or the default.
func setChecks(t *testing.T) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	f := flag.Lookup("rapid.checks")
	before, checks := f.Value.String(), os.Getenv("MODEL_CHECKS")
	switch {
	case given:
		return
	case checks != "":
	case before != f.DefValue:
		return
	default:
		checks = fmt.Sprint(defaultChecks())
	}
	if err := f.Value.Set(checks); err != nil {
		t.Fatalf("MODEL_CHECKS=%q: %v", checks, err)
	}
	t.Cleanup(func() { _ = f.Value.Set(before) })
}

// Program is the property: one random program, run on both savers.
func Program(factory func(env Env) (Subject, error)) func(*rapid.T) {
	return program(factory, func(string, string) {})
}

// program tells note every call and the model's answer.
func program(factory func(env Env) (Subject, error), note func(what, answer string)) func(*rapid.T) {
	return func(t *rapid.T) {
		m := &machine{ctx: context.Background(), clock: clock{now: begin}, note: note}
		env := Env{
			Clock:         m.clock.Now,
			Random:        func() float64 { return 0.5 },
			DeletedMemory: deletedMemory,
			Cleanup:       t.Cleanup,
			T:             t,
		}
		m.model = memory.New(memory.Options{Clock: env.Clock, Random: env.Random, DeletedMemory: env.DeletedMemory})
		var err error
		if m.subject, err = factory(env); err != nil {
			t.Fatalf("open the saver under test: %v", err)
		}
		t.Repeat(m.actions())
	}
}

// machine runs each call on the model and on the saver under test.
type machine struct {
	ctx     context.Context
	clock   clock
	model   *memory.Saver
	subject Subject
	changed bool // since everything was compared
	note    func(what, answer string)
}

// clock is the time both savers see; a store's own work asks for it, too.
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

// Add lets d pass, or sets the clock back.
func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// both runs call on both savers and compares the answers as text.
func (m *machine) both(t *rapid.T, what string, call func(s saver.Saver) string) {
	t.Helper()
	want, got := call(m.model), call(m.subject.Saver)
	if got != want {
		t.Fatalf("%s:\nsaver %s\nmodel %s", what, got, want)
	}
	m.note(what, want)
}

// change is both for a call that writes; time passes first.
func (m *machine) change(t *rapid.T, what string, call func(s saver.Saver) error) {
	t.Helper()
	m.clock.Add(time.Millisecond)
	m.changed = true
	m.both(t, what, func(s saver.Saver) string { return outcome(call(s)) })
}

// actions are the calls that the subject can answer, the frequent ones under several
// names. Rapid prefers names that sort first.
func (m *machine) actions() map[string]func(*rapid.T) {
	_, erases := m.subject.Saver.(saver.Eraser)
	all := map[string]func(*rapid.T){"": m.compareAll}
	for _, a := range []struct {
		name   string
		weight int
		run    func(*rapid.T)
		can    bool
	}{
		{"Put", 8, m.put, true},
		{"PutGroup", 2, m.putGroup, true},
		{"PutWrites", 4, m.putWrites, true},
		{"Get", 1, m.get, true},
		{"List", 2, m.list, true},
		{"History", 2, m.history, true},
		{"Threads", 1, m.threads, true},
		{"Attempt", 1, m.countAttempt, true},
		{"Delete", 1, m.deleteThread, true},
		{"DeleteRuns", 1, m.deleteForRuns, true},
		{"Copy", 1, m.copyThread, true},
		{"Prune", 1, m.prune, true},
		{"Retain", 1, m.retain, true},
		{"Erase", 1, m.erase, erases},
		{"TTL", 1, m.setTTL, true},
		{"Sweep", 1, m.sweep, true},
		{"Wait", 1, m.wait, true},
		{"Mint", 1, m.nextVersion, true},
		{"Reopen", 1, m.reopen, m.subject.Reopen != nil},
		{"Upset", 4, m.upset, m.subject.Upset != nil},
		{"TooLate", 1, m.tooLate, true},
		{"Leave", 1, m.leave, m.subject.AtWrite != nil},
	} {
		for n := 0; a.can && n < a.weight; n++ {
			all[fmt.Sprintf("%02d %s", len(all), a.name)] = a.run
		}
	}
	return all
}

func (m *machine) compareAll(t *rapid.T) {
	t.Helper()
	if !m.changed {
		return
	}
	m.changed = false
	m.both(t, "everything", func(s saver.Saver) string { return everything(m.ctx, s) })
}

// wait lets time pass, or the clock be set back. Once a deletion may have been
// forgotten the clock stays: forgetting is for good, whatever the clock says later.
func (m *machine) wait(t *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Hour, deletedMemory, deletedMemory + time.Second, -time.Hour}).Draw(t, "wait")
	if d > 0 || m.clock.Now().Before(begin.Add(deletedMemory/2)) {
		m.clock.Add(d)
	}
}

func (m *machine) reopen(t *rapid.T) {
	s, err := m.subject.Reopen()
	if err != nil {
		t.Fatalf("reopen: %v", err)
	}
	m.subject.Saver, m.changed = s, true
}

// defaultChecks is the number of programs for one saver.
func defaultChecks() int {
	if race.Enabled {
		return 40
	}
	return 250
}
