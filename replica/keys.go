package replica

import "fmt"

const (
	headKey     = "head"
	chunkPrefix = "e"
	pointPrefix = "point/"
	pinPrefix   = "pin/"
	filePrefix  = "file/"
)

// chunkKey is where chunk seq of an epoch lies, or its fence. The order of keys is that of the
// lineage.
func chunkKey(epoch, seq uint64) string {
	return fmt.Sprintf("%s%010d/%012d", chunkPrefix, epoch, seq)
}

// FileKey is where a leader stores a file of its store. It has the epoch in it, so that no late
// request of an earlier leader writes or deletes it. name must have only
// characters that keys may have. Once Retain has deleted a file its name is not used again: see ErrFileGone.
func (l *Leader) FileKey(name string) string {
	return fmt.Sprintf("%s%010d/%s", filePrefix, l.epoch, name)
}
