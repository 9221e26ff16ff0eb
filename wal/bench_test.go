package wal

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
)

// Appends of 400-byte records on the system's disk (TMPDIR; a tmpfs there
// measures nothing), by mode and number of writers.
func BenchmarkAppend(b *testing.B) {
	for _, mode := range []Mode{SyncAlways, SyncInterval, SyncNever} {
		for _, writers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/writers=%d", mode, writers), func(b *testing.B) {
				benchAppend(b, mode, writers, 400)
			})
		}
	}
}

// BenchmarkAppendSize is a single durable writer by record size.
func BenchmarkAppendSize(b *testing.B) {
	for _, size := range []int{100, 4 << 10, 64 << 10, 4 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchAppend(b, SyncAlways, 1, size) })
	}
}

func benchAppend(b *testing.B, mode Mode, writers, size int) {
	w := newWorld(vfs.OS{})
	w.dir = b.TempDir()
	l := w.open(b, func(o *Options) {
		o.Mode, o.Inline, o.FileSize, o.IdleMark = mode, false, DefaultFileSize, 0
	})
	p := payload(1, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for g := range writers {
		n := b.N / writers
		if g < b.N%writers {
			n++
		}
		wg.Go(func() {
			for range n {
				if err := commit(l, p); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	m := l.Metrics()
	b.ReportMetric(float64(m.Syncs)/float64(b.N), "fsyncs/commit")
	b.ReportMetric(float64(m.Preallocated)/float64(b.N*size), "zeros/byte")
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRecover reads a clean log of 32 MiB, as a share of open.
func BenchmarkRecover(b *testing.B) {
	for _, size := range []int{400, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			w := newWorld(vfs.OS{})
			w.dir = b.TempDir()
			l := w.open(b, func(o *Options) { o.Mode, o.FileSize = SyncNever, DefaultFileSize })
			p := payload(1, size)
			const total = 32 << 20
			for n := 0; n < total; n += size {
				if err := commit(l, p); err != nil {
					b.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(total)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Recover(w.recoverOptions(), func(Entry) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBareSync is what a durable commit cannot beat: one write of a frame's
// size and one sync, without anything around them.
func BenchmarkBareSync(b *testing.B) {
	for _, zeros := range []int{0, 16 << 20} {
		b.Run(fmt.Sprintf("zeros=%d", zeros), func(b *testing.B) {
			f, err := vfs.OS{}.Create(b.TempDir() + "/bare")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			if _, err := f.WriteAt(make([]byte, zeros), 0); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
			p, off := payload(1, 432), int64(0)
			for b.Loop() {
				if _, err := f.WriteAt(p, off); err != nil {
					b.Fatal(err)
				}
				if err := f.SyncData(); err != nil {
					b.Fatal(err)
				}
				off += int64(len(p))
			}
		})
	}
}

// BenchmarkMark is what the durable mark adds to each sync.
func BenchmarkMark(b *testing.B) {
	m := &markWriter{fs: vfs.OS{}, dir: b.TempDir()}
	f := &logFile{info: FileInfo{Num: 1}, framer: framer{salt: 7}}
	b.ReportAllocs()
	lsn := base.LSN(0)
	for b.Loop() {
		lsn++
		if err := m.write(f, fileHeaderSize, lsn); err != nil {
			b.Fatal(err)
		}
	}
	m.close()
}
