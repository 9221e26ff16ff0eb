package vfs_test

import (
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// BenchmarkAttached is what the log asks of its file and of the lock for each batch: one
// statx(2) or fstatat(2).
func BenchmarkAttached(b *testing.B) {
	dir := b.TempDir()
	d, err := vfs.Hold(vfs.OS{}, dir)
	if err != nil {
		b.Fatal(err)
	}
	l, err := d.Lock(filepath.Join(dir, "LOCK"), "")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Attached(); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
}
