package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stele-go/stele/bench/compare/peer"
)

// chart is a figure against a size, a line for each engine.
type chart struct {
	file, title, better, x string
	unit                   func(float64) string
	sizes                  []int
	measure                func(r *run, engine string, n int) (float64, error)
}

var charts = []chart{
	{"disk.svg", "Size of a chat on disk, compacted", "less is better", "steps of the chat", inBytes, []int{25, 50, 100, 200, 400}, chartDisk},
	{"commits.svg", "Durable commits per second", "more is better", "concurrent writers", thousands, []int{1, 4, 16, 64}, chartCommits},
	{"open.svg", "From Open to the first answer, after a clean close", "less is better", "checkpoints in the store", inTime,
		[]int{2_000, 10_000, 50_000}, chartOpen},
}

func chartDisk(r *run, engine string, n int) (float64, error) {
	out, err := r.grown(engine, n)
	return out["compacted B"], err
}

func chartCommits(r *run, engine string, n int) (float64, error) {
	r.size.Writers, r.size.ManySteps = n, max(20, 400/n)
	return r.medianOf(engine, "W2", "commits/s", peer.Durable, "")
}

func chartOpen(r *run, engine string, n int) (float64, error) {
	r.size.OpenThreads, r.size.OpenEach = n/50, 50
	from := r.path("chart", "from")
	if _, err := r.cell("fillW5", engine, peer.Relaxed, from); err != nil {
		return 0, err
	}
	ms, err := r.medianOf(engine, "W5close", "ready ms", peer.Relaxed, from)
	return ms, errors.Join(err, os.RemoveAll(from))
}

// medianOf is the median of a figure over the rounds, each in a new store, or a copy.
func (r *run) medianOf(engine, work, figure string, mode peer.Mode, from string) (float64, error) {
	var values []float64
	for range r.rounds {
		dir := r.path("chart", "cell")
		if from != "" {
			if err := copyDir(from, dir); err != nil {
				return 0, err
			}
		}
		out, err := r.cell(work, engine, mode, dir)
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			return 0, err
		}
		values = append(values, out[figure])
	}
	_, median, _ := quartiles(values)
	return median, nil
}

// drawCharts measures what the charts show and writes them into a directory.
func drawCharts(o options, to string) error {
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "stele-charts-")
	if err != nil {
		return err
	}
	r := &run{options: o, size: quickSizes, log: os.Stderr}
	r.dir = dir
	r.choose()
	for _, c := range charts {
		var lines []series
		for _, e := range r.engines {
			l := series{name: e.Name}
			for _, n := range c.sizes {
				v, err := c.measure(r, e.Name, n)
				if err != nil {
					return errors.Join(err, os.RemoveAll(dir))
				}
				l.points = append(l.points, point{float64(n), v})
			}
			lines = append(lines, l)
			fmt.Fprintf(r.log, "%s: %s %v\n", c.file, e.Name, l.points)
		}
		if err := os.WriteFile(filepath.Join(to, c.file), []byte(c.svg(lines)), 0o666); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
	}
	return os.RemoveAll(dir)
}
