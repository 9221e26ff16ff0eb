package main

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"

	"github.com/stele-go/stele/bench/compare/peer"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// chart is a figure against a size, a line for each engine.
type chart struct {
	file, title, x, y string
	sizes             []int
	measure           func(r *run, engine string, n int) (float64, error)
}

var charts = []chart{
	{"disk.svg", "A chat: bytes on disk", "steps", "bytes, compacted", []int{25, 50, 100, 200, 400}, chartDisk},
	{"commits.svg", "Durable commits per second", "writers", "commits/s", []int{1, 4, 16, 64}, chartCommits},
	{"open.svg", "Open after a clean close, to the first answer", "checkpoints", "ms", []int{2_000, 10_000, 50_000}, chartOpen},
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
		lines := map[string]plotter.XYs{}
		for _, e := range r.engines {
			for _, n := range c.sizes {
				v, err := c.measure(r, e.Name, n)
				if err != nil {
					return errors.Join(err, os.RemoveAll(dir))
				}
				lines[e.Name] = append(lines[e.Name], plotter.XY{X: float64(n), Y: v})
			}
			fmt.Fprintf(r.log, "%s: %s %v\n", c.file, e.Name, lines[e.Name])
		}
		if err := c.draw(lines, r.engines, filepath.Join(to, c.file)); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
	}
	return os.RemoveAll(dir)
}

// colors tell engines apart, also for those who do not see all colours; the first is
// stele's.
var colors = []color.RGBA{{0xd5, 0x5e, 0, 0xff}, {0, 0x72, 0xb2, 0xff}, {0, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0x56, 0xb4, 0xe9, 0xff}, {0xe6, 0x9f, 0, 0xff}, {0x80, 0x80, 0x80, 0xff}, {0, 0, 0, 0xff}}

// draw writes a chart with logarithmic axes.
func (c chart) draw(lines map[string]plotter.XYs, engines []peer.Engine, file string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	ticks := make([]plot.Tick, len(c.sizes))
	for i, n := range c.sizes {
		ticks[i] = plot.Tick{Value: float64(n), Label: fmt.Sprint(n)}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.BackgroundColor = color.White
	p.Add(plotter.NewGrid())
	for i, e := range engines {
		line, points, err := plotter.NewLinePoints(lines[e.Name])
		if err != nil {
			return fmt.Errorf("%s of %s: %w", c.title, e.Name, err)
		}
		line.Color, points.Color = colors[i%len(colors)], colors[i%len(colors)]
		if line.Width = vg.Points(1.2); i == 0 {
			line.Width = vg.Points(3)
		}
		p.Add(line, points)
		p.Legend.Add(e.Name, line, points)
	}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(2)
	p.X.Max *= 1.05 // its label ends there
	roomFor(p, lines)
	return p.Save(7*vg.Inch, 4.5*vg.Inch, file)
}

// roomFor leaves room above the lines for the legend.
func roomFor(p *plot.Plot, lines map[string]plotter.XYs) {
	least, most := 0.0, 0.0
	for _, xys := range lines {
		for _, xy := range xys {
			if least == 0 || xy.Y < least {
				least = xy.Y
			}
			most = max(most, xy.Y)
		}
	}
	p.Y.Min, p.Y.Max = least/1.3, most*(most/least)
	if p.Y.Max > most*30 {
		p.Y.Max = most * 30
	}
}
