package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/bench/compare/peer"
)

// scaleColumns are the figures that must not depend on how much a store holds.
var scaleColumns = []string{"put p50 ms", "get cold p50 ms", "get warm p50 ms", "list 10 p50 ms", "open ms", "open heap MB", "rss MB"}

// flatWithin is how far a figure may be apart over all sizes.
const flatWithin = 2

// scaleProbe is how many threads, spread over the store, are looked at: the same work
// in a store of any size.
const scaleProbe = 200

// scale prints what calls cost in stores of several sizes.
func scale(o options, counts []int, w io.Writer) error {
	dir, err := os.MkdirTemp(o.dir, "stele-scale-")
	if err != nil {
		return err
	}
	r := &run{options: o, size: fullSizes, results: map[key][]figures{}, log: os.Stderr}
	r.dir = dir
	err = r.scale(counts, w)
	return errors.Join(err, os.RemoveAll(dir))
}

func (r *run) scale(counts []int, w io.Writer) error {
	seen := map[int][]figures{}
	stores := map[int]string{}
	for _, n := range counts {
		r.size.OpenThreads, r.size.OpenEach = max(scaleProbe, n/50), 50
		stores[n] = r.path("scale", fmt.Sprint(n))
		start := time.Now()
		if _, err := r.cell("fillW5", "stele", peer.Relaxed, stores[n]); err != nil {
			return err
		}
		fmt.Fprintf(r.log, "%d checkpoints took %.0f s\n", n, time.Since(start).Seconds())
	}
	for range r.rounds {
		for _, n := range counts {
			r.size.OpenThreads, r.size.OpenEach = max(scaleProbe, n/50), 50
			dir := r.path("scale", "copy")
			if err := copyDir(stores[n], dir); err != nil {
				return err
			}
			out, err := r.cell("scale", "stele", peer.Relaxed, dir)
			if err != nil {
				return err
			}
			seen[n] = append(seen[n], out)
		}
	}
	printScale(w, r.rounds, counts, seen)
	return r.growth(w)
}

// scaleCell is what calls cost in a store that was filled: from Open on, in threads
// spread over all of it.
func (c cell) scaleCell() (figures, error) {
	before, out := heap(), figures{}
	start := time.Now()
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	out["open ms"] = float64(time.Since(start).Nanoseconds()) / 1e6
	out["open heap MB"] = max(0, heap()-before)
	threads := make([]string, scaleProbe)
	for i := range threads {
		threads[i] = openThread(i * (c.Size.OpenThreads / scaleProbe))
	}
	rand.New(rand.NewPCG(5, 42)).Shuffle(len(threads), func(i, j int) { threads[i], threads[j] = threads[j], threads[i] })
	each := func(name string, rounds int, call func(thread string, n int) error) error {
		var took latencies
		for n := range rounds {
			for _, t := range threads {
				start := time.Now()
				if err := call(t, n); err != nil {
					return err
				}
				took.since(start)
			}
		}
		took.report(out, name)
		return nil
	}
	get := func(t string, _ int) error {
		tuple, err := s.Get(t, "")
		if err == nil {
			_, err = tuple.Raw()
		}
		return err
	}
	steps := raw(bench.NewData(13).Small(c.Size.OpenEach+10, 700))[c.Size.OpenEach:]
	err = errors.Join(each("get cold", 1, get), each("get warm", 5, get),
		each("list 10", 3, func(t string, _ int) error {
			return s.List(t, 10, false, func(*peer.Tuple) error { return nil })
		}),
		each("put", len(steps), func(t string, n int) error {
			return s.Put(t, bench.CheckpointID(c.Size.OpenEach+n-1), &steps[n])
		}))
	out["rss MB"] = peakMB(s)
	return out, errors.Join(err, s.Close())
}

func printScale(w io.Writer, rounds int, counts []int, seen map[int][]figures) {
	fmt.Fprintf(w, "%d rounds, medians; relaxed, raw, %d threads of 50 checkpoints spread over the store.\n\n", rounds, scaleProbe)
	fmt.Fprintf(w, "| checkpoints | %s |\n|---:|%s\n", strings.Join(scaleColumns, " | "), strings.Repeat("---:|", len(scaleColumns)))
	least, most := map[string]float64{}, map[string]float64{}
	for _, n := range counts {
		cells := make([]string, len(scaleColumns))
		for i, column := range scaleColumns {
			var values []float64
			for _, f := range seen[n] {
				values = append(values, f[column])
			}
			_, median, _ := quartiles(values)
			cells[i] = number(median)
			if old, ok := least[column]; !ok || median < old {
				least[column] = median
			}
			most[column] = max(most[column], median)
		}
		fmt.Fprintf(w, "| %d | %s |\n", n, strings.Join(cells, " | "))
	}
	cells, flat := make([]string, len(scaleColumns)), 0
	for i, column := range scaleColumns {
		cells[i] = "not flat"
		if most[column] <= flatWithin*least[column] {
			cells[i] = "flat"
			flat++
		}
	}
	fmt.Fprintf(w, "| within × %d | %s |\n\nscale: %d of %d flat\n", flatWithin, strings.Join(cells, " | "), flat, len(scaleColumns))
}

// growthLimit is how much more a chat of twice the steps may take.
const growthLimit = 2.2

// growth prints what chats of several lengths take on disk.
func (r *run) growth(w io.Writer) error {
	lengths := []int{50, 100, 200, 400, 800}
	fmt.Fprintf(w, "\n| chat of N steps | written, B | compacted, B | written (2N) ÷ (N) | compacted (2N) ÷ (N) |\n|---:|---:|---:|---:|---:|\n")
	var last figures
	worst := 0.0
	for _, n := range lengths {
		out, err := r.grown("stele", n)
		if err != nil {
			return err
		}
		ratios := []string{"", ""}
		for i, name := range []string{"written B", "compacted B"} {
			if last != nil {
				q := out[name] / last[name]
				ratios[i], worst = number(q), max(worst, q)
			}
		}
		fmt.Fprintf(w, "| %d | %.0f | %.0f | %s | %s |\n", n, out["written B"], out["compacted B"], ratios[0], ratios[1])
		last = out
	}
	word := "met"
	if worst > growthLimit {
		word = "missed"
	}
	fmt.Fprintf(w, "\ngrowth: at most %s for twice the steps, limit %s: %s\n", number(worst), number(growthLimit), word)
	return nil
}

// grown is the size of a chat of n steps in a store of an engine.
func (r *run) grown(engine string, n int) (figures, error) {
	r.size.ChatSteps = n
	dir := r.path("grown")
	if _, err := r.cell("fillW4", engine, peer.Relaxed, dir); err != nil {
		return nil, err
	}
	written, err := diskBytes(dir)
	if err != nil {
		return nil, err
	}
	if engine == "postgres" {
		written = 0 // its directory says nothing
	}
	out, err := r.cell("compact", engine, peer.Relaxed, dir)
	if err != nil {
		return nil, err
	}
	return figures{"written B": float64(written), "compacted B": out["disk B"]}, os.RemoveAll(dir)
}

// counts reads a list of numbers.
func counts(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		var n int
		if _, err := fmt.Sscan(part, &n); err != nil || n < 50*scaleProbe {
			return nil, fmt.Errorf("%q is no number of checkpoints; the least is %d", part, 50*scaleProbe)
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return out, nil
}
