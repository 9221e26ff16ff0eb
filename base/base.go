// Package base holds the small vocabulary every layer of the engine shares:
// sequence and file numbers, the names of files, hard limits, and the one checksum. The errors
// that callers act upon are in base/fault. It imports nothing of the project.
//
// It is for this repository, and makes no promise to others.
package base

import (
	"fmt"
	"math"
	"strconv"
	"strings"

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

// FileKind is a kind of file that has a FileNum, and the end of its name.
type FileKind string

// The kinds of numbered files. A LogTempFile is being made (a copy of the end of the log, or a
// spare file) and never part of a log; the next open removes it.
const (
	LogFile     FileKind = ".log"
	LogTempFile FileKind = ".log.tmp"
	SegmentFile FileKind = ".seg"
	ImageFile   FileKind = ".img"
)

// Name is the name of file n of this kind within its store: "000007.log".
func (k FileKind) Name(n FileNum) string { return n.String() + string(k) }

// Parse is the inverse of Name. It reports false for any name that Name does not produce, so
// that a store never takes another program's file for its own.
func (k FileKind) Parse(name string) (FileNum, bool) {
	digits, ok := strings.CutSuffix(name, string(k))
	if !ok {
		return 0, false
	}
	return ParseFileNum(digits)
}

// ParseFileNum is the inverse of FileNum.String. It accepts one spelling of each number, so
// that two names never stand for the same file.
func ParseFileNum(digits string) (FileNum, bool) {
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || FileNum(n).String() != digits {
		return 0, false
	}
	return FileNum(n), true
}

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
