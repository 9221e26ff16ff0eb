package soak_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/bench/soak"
	"github.com/stele-go/stele/saver/disk"
)

// TestDay runs a small day, whose size is SOAK_PUTS: all figures that do not depend on
// how busy the machine is must be flat, and retention and TTL must have had to do.
func TestDay(t *testing.T) {
	puts := 4000
	if s := os.Getenv("SOAK_PUTS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		puts = n
	}
	o := soak.Options{Dir: t.TempDir(), Puts: puts, Windows: 12, Workers: 2, Sync: disk.SyncNever, FlushBytes: 256 << 10}
	rep, err := soak.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := rep.Print(&out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if rep.Expired == 0 || rep.Retained == 0 {
		t.Errorf("%d threads expired, retention removed %d checkpoints", rep.Expired, rep.Retained)
	}
	n := 0
	for i, w := range rep.Windows {
		if n += w.Puts; w.Threads <= 0 || w.Threads > puts {
			t.Errorf("at the end of window %d there are %d threads", i, w.Threads)
		}
	}
	if n != puts {
		t.Errorf("%d puts of %d", n, puts)
	}
	if w := rep.Windows[5]; w.P50 <= 0 || w.P99 < w.P50 {
		t.Errorf("half of the puts took %v, nearly all %v", w.P50, w.P99)
	}
	// The store of so short a day is small beside what one flush makes it vary by, and
	// a quarter is a moment: twice as much is growth.
	for _, v := range rep.Verdicts() {
		if (v.Name == "disk, MB" || v.Name == "heap, MB" || v.Name == "goroutines") && v.Fourth > 2*v.Third {
			t.Errorf("%s grew from %.4g to %.4g", v.Name, v.Third, v.Fourth)
		}
	}
}

// TestVerdicts gives days that grow and one that does not.
func TestVerdicts(t *testing.T) {
	flat := soak.Report{}
	for range 8 {
		flat.Windows = append(flat.Windows, soak.Window{P99: time.Millisecond, DiskMax: 1 << 20, Heap: 1 << 20, RSS: 1 << 20, Goroutines: 10})
	}
	for _, v := range flat.Verdicts() {
		if !v.Flat {
			t.Errorf("%s is not flat", v.Name)
		}
	}
	for name, grow := range map[string]func(*soak.Window){
		"disk, MB": func(w *soak.Window) { w.DiskMax *= 2 }, "heap, MB": func(w *soak.Window) { w.Heap *= 2 },
		"resident, MB": func(w *soak.Window) { w.RSS *= 2 }, "goroutines": func(w *soak.Window) { w.Goroutines *= 2 },
		"put p99, ms": func(w *soak.Window) { w.P99 *= 3 },
	} {
		r := soak.Report{Windows: append([]soak.Window{}, flat.Windows...)}
		for i := 6; i < 8; i++ {
			grow(&r.Windows[i])
		}
		for _, v := range r.Verdicts() {
			if v.Flat == (v.Name == name) {
				t.Errorf("%s grew, and %s is called flat: %v", name, v.Name, v.Flat)
			}
		}
	}
}

// TestNoDay: a day without puts, windows or workers is refused.
func TestNoDay(t *testing.T) {
	for _, o := range []soak.Options{{Puts: 10, Windows: 4, Workers: 1}, {Puts: 1000, Windows: 3, Workers: 1}, {Puts: 1000, Windows: 4}} {
		o.Dir = t.TempDir()
		if _, err := soak.Run(t.Context(), o); err == nil {
			t.Errorf("%+v is taken for a day", o)
		}
	}
}
