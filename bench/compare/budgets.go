package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stele-go/stele/bench/compare/peer"
)

// budget is one figure stele is held to.
type budget struct {
	name   string
	target float64
	atMost bool
	value  func(round) (float64, bool)
}

// round reads the figures of one round.
type round struct {
	r *run
	n int
}

func (q round) get(k key, figure string) (float64, bool) {
	all := q.r.results[k]
	if len(all) == 0 {
		return 0, false
	}
	v, ok := all[min(q.n, len(all)-1)][figure]
	return v, ok
}

const base = "sqlite-mattn"

// plain is a figure of stele; over its ratio to another engine's, or, where less is
// better, under the other's to stele's.
func plain(k key, figure string) func(round) (float64, bool) {
	k.Engine = "stele"
	return func(q round) (float64, bool) { return q.get(k, figure) }
}

func over(k key, engine, figure string) func(round) (float64, bool) {
	mine, other := k, k
	mine.Engine, other.Engine = "stele", engine
	return func(q round) (float64, bool) { return ratio(q, mine, figure, other, figure) }
}

func under(k key, engine, figure string) func(round) (float64, bool) {
	mine, other := k, k
	mine.Engine, other.Engine = "stele", engine
	return func(q round) (float64, bool) { return ratio(q, other, figure, mine, figure) }
}

func within(k key, figure, of string) func(round) (float64, bool) {
	k.Engine = "stele"
	return func(q round) (float64, bool) { return ratio(q, k, figure, k, of) }
}

func ratio(q round, a key, figureA string, b key, figureB string) (float64, bool) {
	x, okX := q.get(a, figureA)
	y, okY := q.get(b, figureB)
	return x / y, okX && okY && y > 0
}

// budgets are the targets.
func budgets() []budget {
	w1, w1raw, w2 := key{Work: "W1", Mode: peer.Durable}, key{Work: "W1raw", Mode: peer.Durable}, key{Work: "W2", Mode: peer.Durable}
	all := []budget{
		{"W1 steps/s ÷ SQLite", 1.8, false, over(w1, base, "steps/s")},
		{"W1 raw steps/s ÷ SQLite", 2.5, false, over(w1raw, base, "steps/s")},
		{"W1 put p99, ms", 1.5, true, plain(w1, "put p99 ms")},
		{"W1 disk as written, B/step", 5 << 10, true, plain(w1, "disk B/step")},
		{"W1 disk compacted, B/step", 1.5 * 1024, true, plain(w1, "compacted B/step")},
		{"W1 device KB/step", 28, true, plain(w1, "device KB/step")},
		{"W1 log syncs/step", 3.05, true, plain(w1, "syncs/step")},
		{"W2 commits/s ÷ SQLite", 9, false, over(w2, base, "commits/s")},
		{"W2 commits/s ÷ Pebble", 1, false, over(w2, "pebble", "commits/s")},
		{"W2 disk as written, B/step", 3900, true, plain(w2, "disk B/step")},
		{"W2 disk compacted, B/step", 2700, true, plain(w2, "compacted B/step")},
		{"W2 put p50, ms", 0.9, true, plain(w2, "put p50 ms")},
		{"W2 put p99, ms", 5, true, plain(w2, "put p99 ms")},
		{"W2 log syncs/step", 0.15, true, plain(w2, "syncs/step")},
	}
	for _, form := range []string{"written", "compacted"} {
		w3, w4 := key{Work: "W3", Mode: peer.Relaxed, Form: form}, key{Work: "W4", Mode: peer.Relaxed, Form: form}
		for _, cache := range []string{"cold", "warm"} {
			all = append(all,
				budget{"W3 " + form + ", " + cache + ", decoded, get/s ÷ SQLite", 1.6, false, over(w3, base, cache+" decoded get/s")},
				budget{"W3 " + form + ", " + cache + ", raw, get/s ÷ SQLite", 2.3, false, over(w3, base, cache+" raw get/s")})
		}
		all = append(all,
			budget{"W3 " + form + ", warm, decoded, get/s ÷ bbolt", 1, false, over(w3, "bbolt", "warm decoded get/s")},
			budget{"W3 " + form + ", 8 readers, decoded, get/s ÷ bbolt", 1, false, over(w3, "bbolt", "8 at once decoded get/s")},
			budget{"W3 " + form + ", 8 readers, decoded p99, ms", 2, true, plain(w3, "8 at once decoded p99 ms")},
			budget{"W3 " + form + ", heap MB", 30, true, plain(w3, "heap MB")},
			budget{"W4 " + form + ", SQLite's list ÷ stele's", 4, false, under(w4, base, "list p50 ms")},
			budget{"W4 " + form + ", by id p50, ms", 0.06, true, plain(w4, "by id p50 ms")},
			budget{"W4 " + form + ", full list ÷ list of metadata", 50, false, within(w4, "list p50 ms", "list metadata p50 ms")})
	}
	all = append(all, realistic()...)
	closed, killed := key{Work: "W5close", Mode: peer.Relaxed}, key{Work: "W5kill", Mode: peer.Relaxed}
	get, put := key{Work: "itemget", Mode: peer.Relaxed}, key{Work: "itemput", Mode: peer.Durable}
	return append(all,
		budget{"W5 ready after close, ms", 5, true, plain(closed, "ready ms")},
		budget{"W5 ready after kill -9, ms", 15, true, plain(killed, "ready ms")},
		budget{"W5 heap after close, MB", 10, true, plain(closed, "heap MB")},
		budget{"acknowledged puts lost by kill -9", 0, true, plain(key{Work: "lost", Mode: peer.Relaxed}, "lost")},
		budget{"items: durable puts/s ÷ SQLite", 3, false, over(put, base, "puts/s")},
		budget{"items: gets/s ÷ SQLite", 2, false, over(get, base, "gets/s")},
		budget{"items: SQLite's search ÷ stele's", 3, false, under(key{Work: "itemsearch", Mode: peer.Relaxed}, base, "search p50 ms")},
		budget{"vector: search ÷ memory floor", 3, true, within(key{Work: "vector", Mode: peer.Relaxed}, "search p50 ms", "floor p50 ms")},
	)
}

// realistic are the targets on realistic data.
func realistic() []budget {
	w2, relaxed := key{Work: "W2/realistic", Mode: peer.Durable}, key{Work: "W2/realistic", Mode: peer.Relaxed}
	fill := key{Work: "fill/realistic", Mode: peer.Relaxed}
	all := []budget{
		{"W2/realistic commits/s ÷ Pebble", 1.2, false, over(w2, "pebble", "commits/s")},
		{"W2/realistic put p99 ÷ Pebble", 1, true, over(w2, "pebble", "put p99 ms")},
		{"W2/realistic cpu ÷ Pebble", 1, true, over(w2, "pebble", "cpu µs/step")},
		{"W2/realistic relaxed, cpu ÷ Pebble", 1, true, over(relaxed, "pebble", "cpu µs/step")},
		{"W2/realistic disk as written ÷ Pebble", 1, true, over(w2, "pebble", "disk B/step")},
		{"fill/realistic cpu ÷ Pebble", 1, true, over(fill, "pebble", "cpu µs/step")},
		{"fill/realistic Close, ms", 150, true, plain(fill, "close ms")},
		{"fill/realistic Open after it, ms", 5, true, plain(fill, "open ms")},
	}
	for _, mode := range []peer.Mode{peer.Durable, peer.Relaxed} {
		all = append(all,
			budget{"W5/realistic " + string(mode) + ", ready after kill -9, ms", 15, true, plain(key{Work: "W5kill/realistic", Mode: mode}, "ready ms")},
			budget{"W5/realistic " + string(mode) + ", the same after a tenth of the puts, ms", 5, true,
				plain(key{Work: "W5kill/realistic", Mode: mode, Form: fewer}, "ready ms")})
	}
	return all
}

// absolute are the five floors of the design posts.
func absolute() []budget {
	w1, w2, w3 := key{Work: "W1", Mode: peer.Durable}, key{Work: "W2", Mode: peer.Durable}, key{Work: "W3", Mode: peer.Relaxed, Form: "written"}
	return []budget{
		{"save p95 < 10 ms", 10, true, plain(w1, "put p95 ms")},
		{"load p95 < 5 ms", 5, true, plain(w3, "warm decoded p95 ms")},
		{"more than 1,000 serialised op/s", 1000, false, plain(w2, "commits/s")},
		{"at least 60 % smaller than raw", 60, false, plain(w1, "smaller %")},
		{"less than 500 MB", 500, true, plain(w3, "rss MB")},
	}
}

// verdict is what became of a budget.
type verdict struct {
	q1, median, q3 float64
	measured, met  bool
}

// judge looks at all rounds. A budget is missed if the upper quartile is on the
// wrong side.
func (r *run) judge(b budget) verdict {
	var values []float64
	for n := range r.rounds {
		if v, ok := b.value(round{r, n}); ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return verdict{}
	}
	q1, median, q3 := quartiles(values)
	met := q3 >= b.target
	if b.atMost {
		met = q3 <= b.target
	}
	return verdict{q1, median, q3, true, met}
}

// quartiles interpolates between the values that are next to them.
func quartiles(values []float64) (q1, median, q3 float64) {
	v := slices.Sorted(slices.Values(values))
	at := func(q float64) float64 {
		x := q * float64(len(v)-1)
		i := int(x)
		if i+1 == len(v) {
			return v[i]
		}
		return v[i] + (x-float64(i))*(v[i+1]-v[i])
	}
	return at(0.25), at(0.5), at(0.75)
}

// count judges all budgets, and tells of each with its line of a table. Those of the
// design posts are not counted.
func (r *run) count(tell func(line string, v verdict)) (met, missed, unknown int) {
	for _, b := range budgets() {
		v := r.judge(b)
		switch {
		case !v.measured:
			unknown++
		case v.met:
			met++
		default:
			missed++
		}
		tell(b.line(v), v)
	}
	return met, missed, unknown
}

// line is a budget in a table.
func (b budget) line(v verdict) string {
	sign := "≥"
	if b.atMost {
		sign = "≤"
	}
	if !v.measured {
		return fmt.Sprintf("| %s | %s %s | |\n", b.name, sign, number(b.target))
	}
	return fmt.Sprintf("| %s | %s %s | %s (%s-%s) |\n", b.name, sign, number(b.target), number(v.median), number(v.q1), number(v.q3))
}

// word is what became of a budget.
func (v verdict) word() string {
	switch {
	case !v.measured:
		return "not measured"
	case v.met:
		return "met"
	default:
		return "missed"
	}
}

// printBudgets prints one line for each budget, the last line being the count.
func (r *run) printBudgets(w io.Writer) {
	const head = "\n### %s\n\n| | target | median (quartiles) | verdict |\n|---|---:|---:|---|\n"
	tell := func(line string, v verdict) {
		fmt.Fprintf(w, "%s %s |\n", strings.TrimSuffix(line, "\n"), v.word())
	}
	fmt.Fprintf(w, head, "Absolute floors")
	for _, b := range absolute() {
		v := r.judge(b)
		tell(b.line(v), v)
	}
	fmt.Fprintf(w, head, "Budgets")
	met, missed, unknown := r.count(tell)
	if r.rounds < 5 {
		fmt.Fprintf(w, "\n%d rounds are too few for a verdict; the budgets ask for 5.\n", r.rounds)
	}
	if unknown > 0 {
		fmt.Fprintf(w, "\n%d not measured in this run.\n", unknown)
	}
	fmt.Fprintf(w, "\nbudgets: %d met, %d missed\n", met, missed)
}
