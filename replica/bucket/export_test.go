package bucket

import (
	"syscall"
	"testing"
)

// PowerLoss watches a directory. fails says whether the sync of a directory fails. lose makes the
// directory that a power loss leaves.
func PowerLoss(t *testing.T, b Bucket, fails func(path string) bool) (lose func(at string) error) {
	d := b.(*dir)
	w := watch(t, d)
	sync := d.syncDir
	d.syncDir = func(path string) error {
		if fails(path) {
			return syscall.EIO
		}
		return sync(path)
	}
	return func(at string) error { return w.materialize(at, false) }
}
