package linear

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/anishathalye/porcupine"
)

// threads is how many registers there are: few, so that calls meet.
const threads = 2

// op is a call of a client.
type op struct {
	thread    int
	write     bool
	old, new  int64 // of a write: the head that it wants, and its own number
	found     int64 // of a read
	call, end int64 // the order of events; end is math.MaxInt64 while it has no outcome
	void      bool  // it had no effect, and says nothing
}

// history is what clients did.
type history struct {
	ops    []*op
	clock  int64
	number int64
	heads  [threads]int64 // that some client has learned last
}

// begin notes that a call begins.
func (h *history) begin(thread int, write bool) *op {
	h.clock++
	o := &op{thread: thread, write: write, call: h.clock, end: math.MaxInt64}
	if write {
		h.number++
		o.old, o.new = h.heads[thread], h.number
	}
	h.ops = append(h.ops, o)
	return o
}

// did notes that a call has ended, with the head as its client knows it.
func (h *history) did(o *op, head int64) {
	h.clock++
	o.end = h.clock
	if o.found = head; head > h.heads[o.thread] {
		h.heads[o.thread] = head
	}
}

func (h *history) didNot(o *op) { o.void = true }

// idOf is the id of the checkpoint with a number; later ones sort behind it.
func idOf(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%012d", n)
}

func numberOf(id string) int64 {
	n, _ := strconv.ParseInt(id, 10, 64)
	return n
}

// model is the head of a thread. A write without an outcome may have its effect at any time behind its call, or at the end, where
// nobody sees it.
var model = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, in, _ any) (bool, any) {
		o, head := in.(*op), state.(int64)
		switch {
		case !o.write:
			return o.found == head, head
		case o.old == head:
			return true, o.new
		}
		return o.end == math.MaxInt64, head
	},
	Equal: func(a, b any) bool { return a.(int64) == b.(int64) },
}

// linearizable reports whether the calls of each thread have an order that explains them.
func (h *history) linearizable() bool {
	for thread := range threads {
		seen := map[int64]bool{} // numbers that some client learned
		for _, o := range h.ops {
			if o.thread == thread && !o.void && o.end != math.MaxInt64 {
				seen[o.old], seen[o.found] = true, true
			}
		}
		var ops []porcupine.Operation
		for i, o := range h.ops {
			lost := o.end == math.MaxInt64 && !seen[o.new] // a read without an outcome, or a write that explains nothing
			if o.thread == thread && !o.void && !lost {
				ops = append(ops, porcupine.Operation{ClientId: i, Input: o, Call: o.call, Output: o.found, Return: o.end})
			}
		}
		if !porcupine.CheckOperations(model, ops) {
			return false
		}
	}
	return true
}

// TestCheckerSeesStaleRead: the checker refuses a read that misses what was acknowledged before it began, and one of what nobody wrote;
// and accepts a write without an outcome that is seen later, or never.
func TestCheckerSeesStaleRead(t *testing.T) {
	write := func(old, new, call, end int64) *op {
		return &op{write: true, old: old, new: new, found: new, call: call, end: end}
	}
	read := func(found, call, end int64) *op { return &op{found: found, call: call, end: end} }
	for name, c := range map[string]struct {
		ops  []*op
		want bool
	}{
		"in order":              {[]*op{write(0, 1, 1, 2), read(1, 3, 4)}, true},
		"stale":                 {[]*op{write(0, 1, 1, 2), read(0, 3, 4)}, false},
		"both at once":          {[]*op{write(0, 1, 1, 4), read(0, 2, 3)}, true},
		"seen, then not":        {[]*op{write(0, 1, 1, 8), read(1, 2, 3), read(0, 4, 5)}, false},
		"unknown, seen later":   {[]*op{write(0, 1, 1, math.MaxInt64), read(0, 2, 3), read(1, 4, 5)}, true},
		"unknown, never seen":   {[]*op{write(0, 1, 1, math.MaxInt64), write(0, 2, 2, 3), read(2, 4, 5)}, true},
		"two on one head":       {[]*op{write(0, 1, 1, 2), write(0, 2, 3, 4)}, false},
		"nobody wrote it":       {[]*op{write(0, 1, 1, 2), read(7, 3, 4)}, false},
		"acknowledged and lost": {[]*op{write(0, 1, 1, 2), write(1, 2, 3, 4), read(1, 5, 6)}, false},
	} {
		h := history{ops: c.ops}
		if h.linearizable() != c.want {
			t.Errorf("%s: linearizable is %t", name, !c.want)
		}
	}
}

// TestLinearizable has two or three machines take over from each other while clients write and read at each that believes to lead. What
// they saw is linearizable, and what the bucket has at the end is the last state of it.
func TestLinearizable(t *testing.T) {
	want := 20
	if n, err := strconv.Atoi(os.Getenv("TAKE_OVERS")); err == nil {
		want = n
	}
	from, one := uint64(1), false
	if s := os.Getenv("STELE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		from, one = seed, true
	}
	stats, histories := map[string]int{}, 0
	for seed := from; (histories == 0 || !one) && stats["take-overs"] < want && !t.Failed(); seed++ {
		w := newWorld(t, seed, stats)
		for range 3000 {
			w.step()
		}
		w.end()
		histories++
		if !w.history.linearizable() {
			w.fatal("what clients saw is not linearizable")
		}
		if one {
			for _, line := range w.log {
				t.Log(line)
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(stats)) {
		t.Logf("%d histories: %d %s", histories, stats[what], what)
	}
	for _, what := range []string{"acknowledged", "reads", "refused reads", "unknown", "fenced", "kills", "pauses", "from a lost leader", "closed", "restored"} {
		if stats[what] == 0 && !one && !t.Failed() {
			t.Errorf("no %s: the histories prove less than they should", what)
		}
	}
}
