package bench

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stele-go/stele/base/vfs"
)

// commitBytes is what a commit of W2 takes in the log: a step, which is two of them,
// takes twice that.
const commitBytes = 1600

// BenchmarkW2Floor is what the device allows W2: batches of so many of its commits
// written behind each other, or over zeros, and synced, by one caller who computes
// nothing.
func BenchmarkW2Floor(b *testing.B) {
	for _, over := range []string{"nothing", "zeros"} {
		for _, commits := range []int{1, 16, 32, 64} {
			b.Run(fmt.Sprintf("over=%s/batch=%d", over, commits), func(b *testing.B) {
				batch := []byte(NewData(3).Text(commits * commitBytes))[:commits*commitBytes]
				f, err := vfs.OS{}.Create(filepath.Join(b.TempDir(), "log"))
				must(b, err)
				if over == "zeros" {
					writeZeros(b, f, int64(b.N)*int64(len(batch)))
				}
				var syncs latencies
				b.ResetTimer()
				cpu := startCPU()
				for i := range b.N {
					start := time.Now()
					_, err := f.WriteAt(batch, int64(i)*int64(len(batch)))
					must(b, err)
					must(b, f.SyncData())
					syncs.since(start)
				}
				cpu.report(b, b.N)
				b.ReportMetric(float64(commits)*float64(b.N)/b.Elapsed().Seconds(), "commits/s")
				syncs.report(b, "sync")
				must(b, f.Close())
			})
		}
	}
}

// writeZeros fills f with n zeros that are durable.
func writeZeros(b *testing.B, f vfs.File, n int64) {
	b.Helper()
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < n; at += int64(len(zeros)) {
		_, err := f.WriteAt(zeros[:min(n-at, int64(len(zeros)))], at)
		must(b, err)
	}
	must(b, f.Sync())
}
