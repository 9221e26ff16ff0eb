package disk_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func largest(series []int64) int64 { return slices.Max(series) }

// diskUse is the size of a store's files.
func diskUse(t *testing.T, fsys vfs.FS) int64 {
	t.Helper()
	names, err := fsys.List("store")
	must(t, err)
	var sum int64
	for _, n := range names {
		f, err := fsys.Open("store/" + n)
		must(t, err)
		size, err := f.Size()
		must(t, err, f.Close())
		sum += size
	}
	return sum
}
