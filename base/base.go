// Package base holds the small vocabulary every layer of the engine shares:
// sequence and file numbers, hard limits, the one checksum, and the typed
// errors that callers act upon. It imports nothing of the project.
//
// It is for this repository, and makes no promise to others.
package base

import (
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

// LSN is a log sequence number: the position of one record in the total order
// of commits of a store. The first record of a store has LSN 1; zero means
// "none". LSNs are dense: record n+1 follows record n.
type LSN uint64

// MaxLSN is larger than every LSN a store can hand out.
const MaxLSN LSN = math.MaxUint64

// FileNum names a file of a store, whatever its kind. Numbers are handed out
// once and never again, so a file number identifies bytes for ever.
type FileNum uint64

// String is the number as it stands in file names: at least six digits.
func (n FileNum) String() string { return fmt.Sprintf("%06d", uint64(n)) }

// Checksum is XXH64 with the seed mixed in. Every checksum stele writes to disk
// is this function. The seed binds bytes to their place (file salt and
// offset), so a valid frame copied elsewhere does not validate there.
func Checksum(seed uint64, b []byte) uint64 {
	if seed == 0 {
		return xxhash.Sum64(b)
	}
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	_, _ = d.Write(b) // xxhash never returns an error
	return d.Sum64()
}

// ChecksumParts is Checksum over the concatenation of parts, without joining
// them.
func ChecksumParts(seed uint64, parts ...[]byte) uint64 {
	if len(parts) == 1 {
		return Checksum(seed, parts[0])
	}
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	for _, p := range parts {
		_, _ = d.Write(p) // xxhash never returns an error
	}
	return d.Sum64()
}
