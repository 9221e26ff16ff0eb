package savertest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/stele-go/stele/saver"
)

// Power names an optional interface that a saver may implement in addition to saver.Saver.
type Power string

// The optional powers the kit tests.
const (
	PowerEraser Power = "Eraser"
	PowerCloser Power = "io.Closer"
)

func has(s saver.Saver, p Power) (ok bool) {
	switch p {
	case PowerEraser:
		_, ok = s.(saver.Eraser)
	case PowerCloser:
		_, ok = s.(io.Closer)
	}
	return ok
}

// Options name the powers that a saver lacks, and cases to leave out.
type Options struct {
	// Without lists the powers the saver lacks. Their cases are left out and
	// their IDs not counted. A power that is missing and not listed fails its
	// cases; one that is listed and there fails the run.
	Without []Power
	// Except lists the cases that the saver does not pass, by ID and name such as
	// "values/names of every kind", each with the reason: the saver's profile. They are
	// left out, and an ID without other cases is not counted. One that is no case fails
	// the run.
	Except map[string]string
}

// Factory opens a new, empty saver. It registers its own cleanup with t. What it
// returns is used by one case and by several goroutines.
type Factory func(t *testing.T) saver.Saver

// Run tests the savers that factory opens, with every optional power.
func Run(t *testing.T, factory func(t *testing.T) saver.Saver) {
	t.Helper()
	RunWith(t, factory, Options{})
}

// RunWith is Run for a saver that lacks some optional powers. It prints
// "ids: 76 of 76, cases: N": the IDs of which a case ran, of all there are, and
// the cases that ran. With -run the numbers are those of the cases selected.
func RunWith(t *testing.T, factory func(t *testing.T) saver.Saver, o Options) {
	t.Helper()
	for name := range o.Except {
		if !slices.ContainsFunc(allCases(), func(c testCase) bool { return c.fullName() == name }) {
			t.Errorf("Options.Except names %q, which is no case", name)
		}
	}
	ran, cases := map[string]bool{}, 0
	for _, group := range groupByID(allCases()) {
		chosen := slices.DeleteFunc(slices.Clone(group), func(c testCase) bool {
			return slices.Contains(o.Without, c.needs) || o.Except[c.fullName()] != ""
		})
		if len(chosen) == 0 {
			continue
		}
		t.Run(group[0].id, func(t *testing.T) {
			for _, c := range chosen {
				t.Run(c.name, func(t *testing.T) {
					ran[c.id] = true
					cases++
					c.run(t, factory(t))
				})
			}
		})
	}
	if len(o.Without) > 0 {
		t.Run("Without", func(t *testing.T) {
			s := factory(t)
			for _, p := range o.Without {
				if has(s, p) {
					t.Errorf("%T has %s, which Options.Without denies", s, p)
				}
			}
		})
	}
	line := summary(ran, cases)
	fmt.Println(line)
	t.Log(line)
}

func summary(ran map[string]bool, cases int) string {
	all, n := ids(), 0
	for _, id := range all {
		if ran[id] {
			n++
		}
	}
	return fmt.Sprintf("ids: %d of %d, cases: %d", n, len(all), cases)
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
	// Logf says something.
	Logf(format string, args ...any)
}

// testCase is one test of a saver. Cases beyond the IDs have an id that tells
// their subject instead.
type testCase struct {
	id    string
	name  string
	needs Power // "" if saver.Saver suffices
	fn    func(e *env)
}

func (c testCase) fullName() string { return c.id + "/" + c.name }

func (c testCase) run(t TB, s saver.Saver) {
	t.Helper()
	if c.needs != "" && !has(s, c.needs) {
		t.Fatalf("%T does not implement saver.%s; declare it in Options.Without", s, c.needs)
	}
	c.fn(&env{TB: t, s: s, ctx: context.Background()})
}

// groupByID groups cases by id, in the order of their first appearance.
func groupByID(cases []testCase) [][]testCase {
	var groups [][]testCase
	at := map[string]int{}
	for _, c := range cases {
		i, ok := at[c.id]
		if !ok {
			i = len(groups)
			at[c.id] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

func allCases() []testCase {
	return slices.Concat(
		putCases, writeCases, listCases, removeCases, deltaCases, specificCases, kindCases, serdeCases,
		forkCases, conflictCases, deletedCases, pruneCases, retainCases, eraseCases, ttlCases, isolationCases, badInputCases, concurrencyCases,
		threadCases, noteCases, attemptCases, ownerCases,
	)
}
