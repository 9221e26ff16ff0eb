package wal

import (
	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// RecoverOptions say what Recover reads. FS and Dir are required.
type RecoverOptions struct {
	FS  vfs.FS
	Dir string

	// Files are the files of the log, oldest first, as the manifest names them. A
	// missing one is a CorruptionError; other log files in the directory are reported
	// as strays. nil means to find them in the directory, where nothing tells if the
	// newest is missing.
	Files []base.FileNum

	// FromLSN is the first record to visit. Files that hold only earlier ones are not
	// read. 0 means all records. It is an error if the log begins after it.
	FromLSN base.LSN
	// From is a place noted earlier (Log.Position, once durable) from which reading can
	// start, so that the file that holds FromLSN need not be read from its beginning.
	// The zero Position means none.
	From Position
	// Origin is the chain value that Options.Start had when the log began. It tells the
	// first file of this log from that of another. 0 means that it is not known.
	Origin uint64
	// DurableLSN is a record that the caller knows to be durable, for instance from a
	// manifest edit after a clean Close. A log that ends before it is damaged, however
	// it ends. 0 means that nothing is known.
	DurableLSN base.LSN

	// Mark is what ReadMark returned before Files was read. A log that ends before it
	// is damaged as well. A mark of another Origin is ignored; the zero Mark says
	// nothing.
	Mark Mark
	// Salts are those of Files, from FileInfo. A file with another salt is another
	// file. A salt that is missing, or 0, is not known.
	Salts map[base.FileNum]uint64

	// ReadOnly is for logs that another process may be writing: an invalid frame at the
	// end means that it is not written yet, and the directory is not searched for
	// strays.
	ReadOnly bool
	// AllowDamage continues behind damage, and reports it in Recovery.Damage. What it
	// skips may have been deletions. Only with ReadOnly.
	AllowDamage bool
	// Keys is the keyring of the store; nil for a store without encryption. A file that
	// needs another key, or that should be encrypted and is not, is a *fault.KeyError.
	Keys *seal.Keyring
	// MaxRecord is the largest payload accepted; 0 means base.MaxRecord.
	MaxRecord int64

	// Ended, if set, is called with the result of Recover when it has reached the end of the log
	// without an error. Recover returns its error.
	Ended func(Recovery) error
}

// Entry is one record of the log as Recover visits it.
type Entry struct {
	LSN    base.LSN
	File   base.FileNum
	Offset int64 // of the payload in the file
	// Sealed: the file is encrypted, so that Payload is not what the file has at Offset;
	// see PayloadReader.
	Sealed bool
	// Payload is valid during the call.
	Payload []byte
}

// Recovery is what Recover found.
type Recovery struct {
	// Files are the files of the log, oldest first. Those that FromLSN or From
	// let Recover skip are included.
	Files []FileInfo
	// LastLSN is the LSN of the last accepted record; if no file holds any, the
	// one before FromLSN.
	LastLSN base.LSN
	// Records and Bytes count the visited records and their payload bytes.
	Records int64
	Bytes   int64

	// End is the place behind the last accepted frame. A reader may continue there
	// later. A writer may not; see EndCopy.
	End Position
	// Clean: the newest file ends with a close mark, or there is no file. Nothing was
	// cut off, and nothing can have been lost unnoticed.
	Clean bool
	// Promise is the offset up to which the newest file was promised durable.
	Promise int64
	// Torn is the tail that was cut from the newest file.
	Torn Torn
	// Unpromised are the accepted records above the highest promise.
	Unpromised Unpromised

	// Strays are files that have the name of a log file and are not part of the log,
	// such as spare files that a crash left. The store sweeps them at its next open.
	Strays []string

	// Damage is, with AllowDamage, the damage that was skipped, up to 1,000 errors; Damages counts all.
	Damage  []*fault.CorruptionError
	Damages int

	cut Position // the place at the highest promise, where the log continues
}

// Torn is the torn tail of a log: the rest of writes that a crash interrupted, and that no promise
// covers.
type Torn struct {
	File   base.FileNum // 0 if nothing was torn
	Offset int64
	Bytes  int64 // up to the last byte that is not zero
}

// Unpromised describes records that are valid but not covered by a promise. They may
// exist in the page cache alone, so CopyEnd copies them.
type Unpromised struct {
	Records  int64
	Bytes    int64 // of payload
	FirstLSN base.LSN
}

// maxDamage bounds Recovery.Damage.
const maxDamage = 1000

func (r *Recovery) addDamage(c *fault.CorruptionError) {
	r.Damages++
	if len(r.Damage) < maxDamage {
		r.Damage = append(r.Damage, c)
	}
}

// boundary is a place between two frames of the newest file.
type boundary struct {
	off     int64
	chain   uint64
	nextLSN base.LSN
	payload int64 // bytes of the records before
}

// maxBoundaries bounds the memory for places above the promise.
const maxBoundaries = 512

// boundaries remembers places between frames, from the highest promise on. Where a file
// has too many to keep, it forgets some of them: it is safe to cut the log at a place
// below the promise, and only means that more is copied.
type boundaries struct {
	list  []boundary
	every int // keep one boundary of this many
	skip  int
}

func (b *boundaries) add(p boundary) {
	if b.every == 0 {
		b.every = 1
	}
	b.skip++
	if len(b.list) > 0 && b.skip < b.every {
		return
	}
	b.skip = 0
	b.list = append(b.list, p)
	if len(b.list) < maxBoundaries {
		return
	}
	kept := b.list[:0]
	for i := 0; i < len(b.list); i += 2 {
		kept = append(kept, b.list[i])
	}
	b.list = kept
	b.every *= 2
}

// dropBelow drops all places below the highest one at or below off.
func (b *boundaries) dropBelow(off int64) {
	i := len(b.list) - 1
	for i > 0 && b.list[i].off > off {
		i--
	}
	if i > 0 {
		b.list = append(b.list[:0], b.list[i:]...)
	}
	if len(b.list) < maxBoundaries/4 {
		b.every = 1
	}
}

// cut is the highest remembered place that is not above the promise.
func (b *boundaries) cut() boundary { return b.list[0] }
