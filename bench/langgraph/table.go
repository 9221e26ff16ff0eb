package main

import (
	"fmt"
	"io"
	"slices"
)

// minRatio is how many times faster the engine must be with the memory saver on
// both sides, maxTask what a task may cost it, in µs, and maxHidden how much
// longer than without a saver nodes of a millisecond may take.
const (
	minRatio  = 10
	maxTask   = 25
	maxHidden = 1.3
)

// spread are the quartiles of some figures.
type spread struct{ low, median, high float64 }

func spreadOf(figures []float64) spread {
	s := slices.Sorted(slices.Values(figures))
	at := func(q float64) float64 {
		x := q * float64(len(s)-1)
		i := int(x)
		if i+1 >= len(s) {
			return s[i]
		}
		return s[i] + (x-float64(i))*(s[i+1]-s[i])
	}
	return spread{at(0.25), at(0.5), at(0.75)}
}

// ratios divides round by round: neighbours in time are compared, because the
// machine changes.
func ratios(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range out {
		out[i] = a[i] / b[i]
	}
	return out
}

// printTable prints the comparison, and how the memory saver's rows stand to
// what was asked of them.
func printTable(out io.Writer, rows []*row) {
	fmt.Fprintln(out, "| graph | saver | stele supersteps/s | LangGraph supersteps/s | times faster (quartiles) | stele µs/task | LangGraph µs/task | CPU µs/task | times less CPU |")
	fmt.Fprintln(out, "|---|---|---:|---:|---:|---:|---:|---:|---:|")
	met, missed := 0, 0
	count := func(ok bool) {
		if ok {
			met++
		} else {
			missed++
		}
	}
	for _, r := range rows {
		ours, theirs, ratio := spreadOf(r.ours.took), spreadOf(r.theirs.took), spreadOf(ratios(r.theirs.took, r.ours.took))
		cpu, less := spreadOf(r.ours.cpu), spreadOf(ratios(r.theirs.cpu, r.ours.cpu))
		tasks, steps := float64(r.w.Tasks), float64(r.w.Steps)
		fmt.Fprintf(out, "| %s | %s | %.0f | %.0f | **%.1f** (%.1f-%.1f) | %.1f | %.0f | %.1f | %.1f |\n", r.w.Name, r.k,
			steps/ours.median, steps/theirs.median, ratio.median, ratio.low, ratio.high, ours.median*1e6/tasks, theirs.median*1e6/tasks,
			cpu.median*1e6/tasks, less.median)
		if r.k.saver == "memory" {
			// A target is missed if three rounds of four are on the wrong side.
			count(ratio.high >= minRatio)
			if r.w.Turns == 1 { // of a conversation, most is the encoding of its list
				count(ours.low*1e6/tasks <= maxTask)
			}
		}
	}
	fmt.Fprintf(out, "\nmemory saver: at least %d times LangGraph's supersteps/s and at most %d µs a task: %d met, %d missed\n\n", minRatio, maxTask, met, missed)
}

// printHidden prints how long nodes of a millisecond take with each saver,
// compared with none.
func printHidden(out io.Writer, rows []*row) {
	fmt.Fprintln(out, "| 20 nodes of 1 ms, saver | ms | times none (quartiles) |")
	fmt.Fprintln(out, "|---|---:|---:|")
	none := rows[0].ours.took
	met, missed := 0, 0
	for _, r := range rows {
		s := spreadOf(ratios(r.ours.took, none))
		fmt.Fprintf(out, "| %s | %.1f | %.2f (%.2f-%.2f) |\n", r.k, spreadOf(r.ours.took).median*1e3, s.median, s.low, s.high)
		if r.k.durability == "async" && r.k.saver != "none" {
			if s.low <= maxHidden {
				met++
			} else {
				missed++
			}
		}
	}
	fmt.Fprintf(out, "\nasync with nodes of 1 ms: at most %.1f times none: %d met, %d missed\n", maxHidden, met, missed)
}
