package replica

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stele-go/stele/base"
)

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

// pointKey names a point by its LSN and by the epoch of the leader that makes it, so that no
// two leaders write one.
func pointKey(lsn base.LSN, epoch uint64) string {
	return fmt.Sprintf("%s%020d-%010d", pointPrefix, lsn, epoch)
}

// pointLSN takes the LSN out of the key of a point.
func pointLSN(key string) (base.LSN, bool) {
	digits, _, _ := strings.Cut(strings.TrimPrefix(key, pointPrefix), "-")
	lsn, err := strconv.ParseUint(digits, 10, 64)
	return base.LSN(lsn), err == nil
}

// FileKey is where a leader stores a file of its store. It has the epoch in it, so that no late
// request of an earlier leader writes or deletes it. name has the characters that keys may have.
func (l *Leader) FileKey(name string) string {
	return fmt.Sprintf("%s%010d/%s", filePrefix, l.epoch, name)
}
