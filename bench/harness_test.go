package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// size is a size of a workload, from the environment or the default.
func size(variable string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	return def
}

// sizes are those of the workloads; BENCH_… variables change them.
var sizes = struct{ chatSteps, writers, manySteps, threads, openCheckpoints, openThreads, killedPuts, asleep int }{
	chatSteps:       size("BENCH_CHAT_STEPS", 200),
	writers:         size("BENCH_WRITERS", 64),
	manySteps:       size("BENCH_MANY_STEPS", 100),
	threads:         size("BENCH_THREADS", 10_000),
	openCheckpoints: size("BENCH_OPEN_CHECKPOINTS", 100_000),
	openThreads:     size("BENCH_OPEN_THREADS", 2_000),
	killedPuts:      size("BENCH_KILLED_PUTS", 2_000),
	asleep:          size("BENCH_ASLEEP", 100_000),
}

// put stores a step upon parent and returns the config of the next parent.
func put(s *disk.Saver, parent saver.Config, st *Step) (saver.Config, error) {
	return s.Put(context.Background(), parent, st.Checkpoint, st.Metadata, st.Changed)
}

// putWrites stores the i-th task's write of a step.
func putWrites(s *disk.Saver, at saver.Config, st *Step, i int) error {
	return putWritesUnder(context.Background(), s, at, st, i)
}

func putWritesUnder(ctx context.Context, s *disk.Saver, at saver.Config, st *Step, i int) error {
	return s.PutWrites(ctx, at, st.Writes[i:i+1], taskIDs[i], "~__pregel_pull, model")
}

var taskIDs = [...]string{"5a6cc58f-18d9-7bf4-96d2-4a9e6b2f5f0c", "0c2f2ba1-9d1c-d3d6-2a3e-7f0f0f2f7a10"}

// latencies collects durations to report quantiles. Not safe for concurrent use.
type latencies []time.Duration

// since adds the time since start, and returns now.
func (l *latencies) since(start time.Time) time.Time {
	now := time.Now()
	*l = append(*l, now.Sub(start))
	return now
}

// report reports median and 99th percentile in µs, under names that begin with
// prefix.
func (l latencies) report(b *testing.B, prefix string) {
	if len(l) == 0 {
		return
	}
	slices.Sort(l)
	us := func(q float64) float64 { return float64(l[int(q*float64(len(l)-1))].Nanoseconds()) / 1e3 }
	b.ReportMetric(us(0.5), prefix+"-p50-µs")
	b.ReportMetric(us(0.99), prefix+"-p99-µs")
}

// cpuMeter measures what the whole process computes, background work included:
// on a busy machine it says more than the time.
type cpuMeter struct{ start time.Duration }

func startCPU() cpuMeter { return cpuMeter{cpuTime()} }

func (m cpuMeter) report(b *testing.B, ops int) {
	var s cpuSum
	s.since(m)
	s.report(b, ops)
}

// cpuSum adds up what several meters saw.
type cpuSum time.Duration

func (s *cpuSum) since(m cpuMeter) { *s += cpuSum(cpuTime() - m.start) }

func (s cpuSum) report(b *testing.B, ops int) {
	b.ReportMetric(float64(time.Duration(s).Nanoseconds())/1e3/float64(ops), "cpu-µs/op")
}

func must(b testing.TB, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// openStore opens a store; with BENCH_NO_PATCHES set, one that keeps every value
// whole.
func openStore(b testing.TB, dir string, opts disk.Options) *disk.Saver {
	b.Helper()
	opts.NoPatches = os.Getenv("BENCH_NO_PATCHES") != ""
	s, err := disk.Open(dir, opts)
	must(b, err)
	return s
}

// diskBytes is what a closed store occupies.
func diskBytes(b testing.TB, dir string) int64 {
	b.Helper()
	entries, err := os.ReadDir(dir)
	must(b, err)
	var n int64
	for _, e := range entries {
		info, err := e.Info()
		must(b, err)
		n += info.Size()
	}
	return n
}

// reportDisk closes s and reports its bytes per step, as written and compacted.
func reportDisk(b *testing.B, s *disk.Saver, dir string, steps int) {
	b.Helper()
	must(b, s.Close())
	b.ReportMetric(float64(diskBytes(b, dir))/float64(steps), "disk-B/step")
	compact(b, dir)
	b.ReportMetric(float64(diskBytes(b, dir))/float64(steps), "compacted-B/step")
}

// compact leaves the store in dir compacted and closed.
func compact(b testing.TB, dir string) {
	b.Helper()
	s := openStore(b, dir, disk.Options{CompactRate: -1})
	must(b, s.Flush(context.Background()))
	must(b, s.Compact(context.Background()))
	must(b, s.Close())
}

// copyStore copies a store as a kill -9 at this moment would leave it: all that
// was handed to the kernel. Segments and images never change once they are
// written, and are linked.
func copyStore(b testing.TB, from, to string) {
	b.Helper()
	must(b, os.MkdirAll(to, 0o777))
	entries, err := os.ReadDir(from)
	must(b, err)
	for _, e := range entries {
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch filepath.Ext(src) {
		case ".seg", ".img":
			if os.Link(src, dst) == nil {
				continue
			}
		}
		must(b, copyFile(src, dst))
	}
}

func copyFile(src, dst string) (err error) {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(dst)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	if _, err = io.Copy(out, in); err != nil {
		return fmt.Errorf("copy %s: %w", src, err)
	}
	return nil
}
