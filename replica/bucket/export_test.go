package bucket

import (
	"syscall"
	"testing"
)

// PowerLoss watches a directory. fail makes so many syncs of directories fail from now on; lose
// makes the directory that a power loss leaves.
func PowerLoss(t *testing.T, b Bucket) (fail func(n int), lose func(at string) error) {
	d := b.(*dir)
	w := watch(t, d)
	sync, left := d.syncDir, 0
	d.syncDir = func(path string) error {
		if left > 0 {
			left--
			return syscall.EIO
		}
		return sync(path)
	}
	return func(n int) { left = n }, func(at string) error { return w.materialize(at, false) }
}
