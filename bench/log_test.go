package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/wal"
)

// BenchmarkLogAppend commits records of 1 KiB to the log alone.
func BenchmarkLogAppend(b *testing.B) {
	for _, mode := range []wal.Mode{wal.SyncAlways, wal.SyncInterval, wal.SyncNever} {
		for _, writers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("sync=%s/writers=%d", mode, writers), func(b *testing.B) { benchLog(b, mode, writers) })
		}
	}
}

func benchLog(b *testing.B, mode wal.Mode, writers int) {
	var num atomic.Uint64
	l, err := wal.New(wal.Options{FS: vfs.OS{}, Dir: b.TempDir(), Mode: mode,
		NewFileNum: func() (base.FileNum, error) { return base.FileNum(num.Add(1)), nil }})
	must(b, err)
	payload := [][]byte{[]byte(NewData(1).Text(1024))[:1024]}
	b.ReportAllocs()
	b.SetBytes(1024)
	inParallel(b, writers, func(int) error {
		return l.Commit(context.Background(), &wal.Record{Size: 1024, Prepare: func(base.LSN) ([][]byte, error) { return payload, nil }})
	})
	m := l.Metrics()
	b.ReportMetric(float64(m.Syncs)/float64(b.N), "fsyncs/op")
	must(b, l.Close())
}
