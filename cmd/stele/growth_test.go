//go:build unix

package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// growthRows are commands, and what is wanted: at most so many milliseconds of CPU at the largest size,
// or CPU that grows at most with so high a power of the number of threads. Those that change a store
// are the last.
var growthRows = []struct {
	command string // DIR is the store, NEW a path of the row's own
	ms, pow float64
}{
	{"info DIR", 100, 0},
	{"threads --limit 100 DIR", 100, 0},
	{"show DIR thread-00000007", 100, 0},
	{"stats DIR", 0, 1.1},
	{"threads DIR", 0, 1.1},
	{"threads --status waiting DIR", 0, 1.1},
	{"log DIR", 0, 1.1},
	{"verify DIR", 0, 1.1},
	{"backup DIR NEW", 0, 1.1},
	{"salvage --output NEW DIR", 0, 1.1},
	{"export ndjson DIR NEW", 0, 1.1},
	{"erase --yes --thread thread-00000008 DIR", 0, 1.1},
	{"compact DIR", 0, 1.1},
}

// BenchmarkGrowth measures each command on a store of a tenth of BENCH_GROWTH threads of two checkpoints and
// on one of all, 10,000 unless it is set, and says whether what is wanted was met.
func BenchmarkGrowth(b *testing.B) {
	most, err := strconv.Atoi(os.Getenv("BENCH_GROWTH"))
	if err != nil {
		most = 10_000
	}
	took := make([][2]float64, len(growthRows))
	for i, n := range []int{most / 10, most} {
		dir := filepath.Join(b.TempDir(), "store")
		d, err := disk.Open(dir, disk.Options{Sync: disk.SyncNever})
		if err != nil {
			b.Fatal(err)
		}
		for k := range 2 * n {
			v := map[string]saver.Version{"a": saver.IntVersion(int64(k + 1))}
			cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("%08d", k), Versions: v, Values: map[string]saver.Value{"a": saver.ValueOf(k)}}
			if _, err := d.Put(b.Context(), saver.Config{ThreadID: fmt.Sprintf("thread-%08d", k%n)}, cp, saver.Metadata{"step": int64(k / n)}, v); err != nil {
				b.Fatal(err)
			}
		}
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
		for k, row := range growthRows {
			args := strings.Fields(row.command)
			for j := range args {
				args[j] = strings.NewReplacer("DIR", dir, "NEW", filepath.Join(b.TempDir(), "new")).Replace(args[j])
			}
			var told strings.Builder
			start := cpuTime(b)
			if code := run(b.Context(), args, io.Discard, &told); code != 0 {
				b.Fatalf("%s: %d %s", row.command, code, told.String())
			}
			took[k][i] = (cpuTime(b) - start) * 1e3
		}
	}
	for k, row := range growthRows {
		power := math.Log10(took[k][1] / took[k][0])
		met, wanted := row.ms > 0 && took[k][1] <= row.ms, fmt.Sprintf("at most %g ms", row.ms)
		if row.pow > 0 {
			met, wanted = power <= row.pow, fmt.Sprintf("at most with power %g", row.pow)
		}
		fmt.Printf("%s: %.3g ms with %d threads, %.3g ms with %d: wanted %s: %s\n", row.command, took[k][0], most/10, took[k][1], most, wanted, map[bool]string{true: "met", false: "missed"}[met])
	}
}

// cpuTime is the processor time of the process, in seconds.
func cpuTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
