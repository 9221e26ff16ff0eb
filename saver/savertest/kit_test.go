package savertest

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// watcher is a TB that notes whether a case failed. Fatalf ends the goroutine of
// the case, as testing does.
type watcher struct {
	mu    sync.Mutex
	notes []string
}

func (w *watcher) Helper()             {}
func (w *watcher) Logf(string, ...any) {}

func (w *watcher) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

func (w *watcher) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}

// failure runs one case and returns why it failed, "" if it passed.
func failure(c testCase, s saver.Saver) string {
	w := &watcher{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(w, s)
	}()
	<-done
	return strings.Join(w.notes, "\n")
}

// TestMutants plants one bug at a time into a saver that is right, and wants a
// case of the behaviour it breaks to fail.
func TestMutants(t *testing.T) {
	for _, c := range allCases() {
		if why := failure(c, newMutant(func(*mutant) {})); why != "" {
			t.Fatalf("without a bug, %s/%s fails: %s", c.id, c.name, why)
		}
	}
	for _, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			for _, c := range allCases() {
				if c.id != bug.id {
					continue
				}
				if why := failure(c, newMutant(bug.plant)); why != "" {
					first, _, _ := strings.Cut(why, "\n")
					t.Logf("seen by %s/%s: %s", c.id, c.name, first)
					return
				}
			}
			t.Errorf("no case of %s fails", bug.id)
		})
	}
	t.Logf("%d bugs planted", len(bugs))
}

func TestEveryIDHasACase(t *testing.T) {
	have := map[string]int{}
	for _, c := range allCases() {
		have[c.id]++
	}
	for _, id := range ids() {
		if have[id] == 0 {
			t.Errorf("%s has no case", id)
		}
		delete(have, id)
	}
	for id := range have {
		if regexp.MustCompile(`^[A-Z]{3}-\d\d$`).MatchString(id) {
			t.Errorf("%s is not registered", id)
		}
	}
	if n := len(ids()); n != 76 {
		t.Errorf("%d ids are registered; the catalogue has 76 that need no graph engine", n)
	}
}

func TestCaseNamesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range allCases() {
		key := c.id + "/" + c.name
		if seen[key] {
			t.Errorf("two cases are called %s", key)
		}
		seen[key] = true
	}
}

// bare is a saver without optional powers.
type bare struct{ saver.Saver }

func TestMissingPowersFailUnlessDeclared(t *testing.T) {
	powers := map[Power]int{}
	for _, c := range allCases() {
		s := bare{memory.New(memory.Options{})}
		why := failure(c, s)
		if c.needs == "" {
			if why != "" {
				t.Errorf("%s/%s needs no power, but fails without: %s", c.id, c.name, why)
			}
			continue
		}
		powers[c.needs]++
		if !strings.Contains(why, "does not implement saver."+string(c.needs)) {
			t.Errorf("%s/%s without %s: %q", c.id, c.name, c.needs, why)
		}
	}
	all := []Power{PowerEraser, PowerCloser}
	for _, p := range all {
		if powers[p] == 0 {
			t.Errorf("no case needs %s", p)
		}
		if !has(memory.New(memory.Options{}), p) || has(bare{}, p) {
			t.Errorf("%s is not recognised", p)
		}
	}
}

func TestWithoutPowers(t *testing.T) {
	RunWith(t, func(*testing.T) saver.Saver { return bare{memory.New(memory.Options{})} }, Options{Without: []Power{PowerEraser, PowerCloser}})
}

func TestSummaryCountsWhatRan(t *testing.T) {
	got := summary(map[string]bool{"CHK-01": true, "SER-12": true, "forks": true}, 5)
	if want := "ids: 2 of 76, cases: 5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
