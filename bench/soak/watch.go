package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// watch looks at the store until the day is over.
func (k *soak) watch(ctx context.Context, over <-chan struct{}) error {
	last := 0
	for {
		ended := false
		select {
		case <-over:
			ended = true
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
		disk, err := dirBytes(k.Dir)
		if err != nil {
			return err
		}
		n := k.window(min(k.behind(), int64(k.Puts)-1))
		w := &k.seen[n]
		w.DiskMax, w.Goroutines = max(w.DiskMax, disk), max(w.Goroutines, runtime.NumGoroutine())
		if n > last || ended {
			for i := last; i < n; i++ {
				k.end(&k.seen[i], disk)
			}
			if last = n; ended {
				k.end(w, disk)
				return nil
			}
		}
	}
}

// end fills what is measured at the end of a window, also of one that went by unseen.
func (k *soak) end(w *Window, disk int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.Heap, w.RSS, w.Threads = int64(m.HeapAlloc), residentBytes(), k.s.Stats().Threads
	w.DiskMax, w.Goroutines = max(w.DiskMax, disk), max(w.Goroutines, runtime.NumGoroutine())
}

// dirBytes is the size of the files of a directory from which some may just go away.
func dirBytes(dir string) (n int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, d := range entries {
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		n += info.Size()
	}
	return n, nil
}

// residentBytes is the memory of this process, where the system says.
func residentBytes() int64 {
	b, err := os.ReadFile(filepath.Join("/proc", "self", "statm"))
	if err != nil {
		return 0
	}
	if f := strings.Fields(string(b)); len(f) > 1 {
		if pages, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			return pages * int64(os.Getpagesize())
		}
	}
	return 0
}

// Verdict says of one figure whether it is flat.
type Verdict struct {
	Name          string
	Third, Fourth float64 // medians of the third and of the last quarter of the day
	Most          float64 // what the last may be, as a multiple of the third
	Flat          bool
}

// Verdicts compares the last quarter of the day with the one before.
func (r Report) Verdicts() []Verdict {
	quarter := len(r.Windows) / 4
	third, fourth := r.Windows[2*quarter:3*quarter], r.Windows[3*quarter:]
	judge := func(name string, most float64, of func(Window) float64) Verdict {
		v := Verdict{Name: name, Third: medianOf(third, of), Fourth: medianOf(fourth, of), Most: most}
		v.Flat = v.Fourth <= v.Third*most
		return v
	}
	return []Verdict{
		judge("disk, MB", 1.25, func(w Window) float64 { return float64(w.DiskMax) / (1 << 20) }),
		judge("heap, MB", 1.25, func(w Window) float64 { return float64(w.Heap) / (1 << 20) }),
		judge("resident, MB", 1.25, func(w Window) float64 { return float64(w.RSS) / (1 << 20) }),
		judge("goroutines", 1.1, func(w Window) float64 { return float64(w.Goroutines) }),
		judge("put p99, ms", 2, func(w Window) float64 { return float64(w.P99) / 1e6 }),
	}
}

func medianOf(windows []Window, of func(Window) float64) float64 {
	var v []float64
	for _, w := range windows {
		v = append(v, of(w))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// Print prints the day as a Markdown table, and the verdicts, the last line being how
// many figures are flat.
func (r Report) Print(w io.Writer) error {
	var b strings.Builder
	puts, threads := 0, 0
	for _, v := range r.Windows {
		puts, threads = puts+v.Puts, v.Threads
	}
	fmt.Fprintf(&b, "%d puts in %.0f s; retention removed %d checkpoints, TTL %d threads; %d threads are left.\n\n", puts, r.Took.Seconds(),
		r.Retained, r.Expired, threads)
	b.WriteString("| hour | puts | p50 ms | p99 ms | disk MB | heap MB | resident MB | goroutines | threads |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for i, v := range r.Windows {
		fmt.Fprintf(&b, "| %.3g | %d | %.3f | %.3f | %.1f | %.1f | %.1f | %d | %d |\n", float64(i+1)*24/float64(len(r.Windows)), v.Puts,
			float64(v.P50)/1e6, float64(v.P99)/1e6, float64(v.DiskMax)/(1<<20), float64(v.Heap)/(1<<20), float64(v.RSS)/(1<<20), v.Goroutines, v.Threads)
	}
	b.WriteString("\n| | third quarter | last quarter | at most | |\n|---|---:|---:|---:|---|\n")
	flat := 0
	all := r.Verdicts()
	for _, v := range all {
		word := "not flat"
		if v.Flat {
			word = "flat"
			flat++
		}
		fmt.Fprintf(&b, "| %s | %.4g | %.4g | × %.3g | %s |\n", v.Name, v.Third, v.Fourth, v.Most, word)
	}
	fmt.Fprintf(&b, "\nsoak: %d of %d flat in the second half\n", flat, len(all))
	_, err := io.WriteString(w, b.String())
	return err
}
