package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/bench/compare/peer"
)

func TestQuartiles(t *testing.T) {
	q1, median, q3 := quartiles([]float64{5, 1, 4, 2, 3})
	if q1 != 2 || median != 3 || q3 != 4 {
		t.Errorf("quartiles are %v, %v, %v", q1, median, q3)
	}
	if q1, _, q3 = quartiles([]float64{1, 2}); math.Abs(q1-1.25) > 1e-9 || math.Abs(q3-1.75) > 1e-9 {
		t.Errorf("quartiles of two are %v, %v", q1, q3)
	}
}

// TestVerdicts gives figures on either side of a budget. Nothing else than the upper
// quartile decides, and what was not measured is neither met nor missed.
func TestVerdicts(t *testing.T) {
	k := key{Work: "W1", Engine: "stele", Mode: peer.Durable}
	for _, tc := range []struct {
		name    string
		values  []float64
		atMost  bool
		met     bool
		printed string
	}{
		{"at least, median short, upper quartile there", []float64{1, 1, 1, 3, 3}, false, true, "met"},
		{"at least, short", []float64{1, 1, 1, 1, 3}, false, false, "missed"},
		{"at most, upper quartile beyond", []float64{1, 1, 1, 3, 3}, true, false, "missed"},
		{"at most, there", []float64{1, 1, 1, 1, 3}, true, true, "met"},
	} {
		r := &run{options: options{rounds: len(tc.values)}, results: map[key][]figures{}}
		for _, v := range tc.values {
			r.results[k] = append(r.results[k], figures{"x": v})
		}
		v := r.judge(budget{tc.name, 2, tc.atMost, plain(k, "x")})
		if !v.measured || v.met != tc.met {
			t.Errorf("%s: %+v", tc.name, v)
		}
		if v := r.judge(budget{tc.name, 2, tc.atMost, plain(k, "y")}); v.measured || v.met {
			t.Errorf("%s, not measured: %+v", tc.name, v)
		}
	}
	var out bytes.Buffer
	(&run{options: options{rounds: 5}, results: map[key][]figures{}}).printBudgets(&out)
	if !strings.HasSuffix(out.String(), "\nbudgets: 0 met, 0 missed\n") || !strings.Contains(out.String(), "not measured") {
		t.Errorf("of nothing: %s", out.String())
	}
}

// TestCells makes every cell on the smallest sizes, and looks at what is printed.
func TestCells(t *testing.T) {
	size := sizes{ChatSteps: 4, Writers: 2, ManySteps: 2, Threads: 50, Reads: 100, OpenThreads: 2, OpenEach: 2, Killed: 2, Items: 1100, Searches: 1, FleetThreads: 2}
	closed, wide, history, items, fleet := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for _, step := range []struct {
		work, dir, figure string
	}{
		{"W1", t.TempDir(), "steps/s"}, {"W1raw", t.TempDir(), "compacted B/step"}, {"W1engine", t.TempDir(), "steps/s"}, {"W2", t.TempDir(), "commits/s"},
		{"fillW3", wide, "disk MB"}, {"compact", wide, "disk B"}, {"W3", wide, "8 at once decoded get/s"},
		{"fillW4", history, "disk MB"}, {"W4", history, "by id p50 ms"},
		{"fillW5", closed, "disk MB"}, {"W5close", closed, "ready ms"}, {"lost", closed, "lost"}, {"scale", closed, "list 10 p50 ms"},
		{"W2/realistic", t.TempDir(), "compacted B/step"}, {"fill/realistic", t.TempDir(), "cpu µs/step"},
		{"fillW5/realistic", fleet, "disk MB"}, {"W5close/realistic", fleet, "ready ms"}, {"lost/realistic", fleet, "lost"}, {"W5kill/realistic", fleet, "ready ms"},
		{"itemput", t.TempDir(), "puts/s"}, {"fillItems", items, ""}, {"itemget", items, "gets/s"}, {"itemsearch", items, "search p50 ms"},
		{"beside", t.TempDir(), "p99 ratio"}, {"vector", t.TempDir(), "floor p50 ms"}, {"floors", t.TempDir(), "memcpy GB/s"}, {"copies", t.TempDir(), "27 MB copied p50 ms"},
	} {
		out, err := cell{step.work, "stele", peer.Relaxed, step.dir, size}.run()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := out[step.figure]; !ok && step.figure != "" {
			t.Errorf("%s: no %q in %v", step.work, step.figure, out)
		}
		if strings.HasPrefix(step.work, "lost") && out["lost"] != 2 {
			t.Errorf("of two puts that were never made, %v are lost", out["lost"])
		}
	}
}

// TestServerCells makes cells on a store in processes of its own, whose processor time
// and size count.
func TestServerCells(t *testing.T) {
	e, err := peer.Find("postgres")
	if err != nil {
		t.Fatal(err)
	}
	if why := e.Why(); why != nil {
		t.Logf("%s is left out: %v", e.Name, why)
		return
	}
	size := sizes{ChatSteps: 3, OpenThreads: 2, OpenEach: 2, Killed: 2}
	dir := t.TempDir()
	for _, step := range []struct{ work, dir, figure string }{
		{"W1", t.TempDir(), "compacted B/step"}, {"fillW5", dir, "disk MB"}, {"W5close", dir, "ready ms"},
	} {
		out, err := cell{step.work, e.Name, peer.Relaxed, step.dir, size}.run()
		if err != nil {
			t.Fatal(err)
		}
		if out[step.figure] <= 0 || step.work == "W1" && out["cpu µs/step"] <= 0 {
			t.Errorf("%s: %v", step.work, out)
		}
	}
}

// TestLimit: a run that is late measures nothing more, and says what it left out. A round
// that was not begun does not count.
func TestLimit(t *testing.T) {
	plan := []planned{{key: key{Work: "W1", Engine: "stele"}}, {key: key{Work: "W1", Engine: "bbolt"}}, {key: key{Work: "W2", Engine: "stele"}}}
	r := &run{options: options{rounds: 5, limit: time.Minute}, begun: time.Now().Add(-time.Hour), plan: plan, results: map[key][]figures{}}
	if err := r.measure(); err != nil { // which would fail if it began a cell: there is no directory
		t.Fatal(err)
	}
	var out bytes.Buffer
	r.print(&out)
	if want := "After 1m0s the rest of round 1 was left out: W1, W2."; !strings.Contains(out.String(), want) {
		t.Errorf("nothing says %q:\n%s", want, out.String())
	}
	r = &run{plan: plan}
	if r.leaveOut(3, plan); r.rounds != 3 || len(r.left) != 0 {
		t.Errorf("late before round 4: %d rounds, left out %v", r.rounds, r.left)
	}
	if r.leaveOut(3, plan[2:]); r.rounds != 4 || len(r.left) != 1 {
		t.Errorf("late in round 4: %d rounds, left out %v", r.rounds, r.left)
	}
}
