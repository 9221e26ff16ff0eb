package wal

import (
	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/seal"
	"github.com/stele-go/stele/internal/vfs"
)

// RecoverOptions say what Recover reads. FS and Dir are required.
type RecoverOptions struct {
	FS  vfs.FS
	Dir string

	// Files are the files of the log, oldest first, as the manifest names them.
	// A missing one is a CorruptionError; others in the directory are reported
	// as strays. nil means: find them in the directory. A file that lost its
	// name, if it was the newest, is then not missed.
	Files []base.FileNum

	// FromLSN is the first record wanted: records before it are not visited,
	// and files that hold only such records are not read. 0 means all there
	// are. It is an error if the log begins after it.
	FromLSN base.LSN
	// From is a place recorded earlier (Log.Position, once durable) from which
	// reading can start, so that not even the file that holds FromLSN is read
	// from its beginning. The zero Position means none.
	From Position
	// Origin is the chain value that Options.Start had when the log began, if it
	// was given one: it tells the first file of this log from that of another.
	// 0 means nothing is known.
	Origin uint64
	// DurableLSN is what the caller knows to be durable from elsewhere, for
	// instance from a manifest edit after a clean Close. A log that ends before
	// it is damaged, however it ends. 0 means nothing is known.
	DurableLSN base.LSN

	// Mark is what ReadMark returned before Files was made. A log that ends before
	// it is damaged as well. One of another Origin is ignored; the zero Mark says
	// nothing.
	Mark Mark
	// Salts are those of Files, as FileInfo told them; a file of another salt is
	// another file. One that is not there, or 0, is not known.
	Salts map[base.FileNum]uint64

	// ReadOnly is for readers of a log that another process may be writing: an
	// invalid frame at the live tail means "not yet", and the directory is not
	// searched for strays.
	ReadOnly bool
	// AllowDamage goes on past damage and reports it in Recovery.Damage. What
	// it skips may have held deletions. Only with ReadOnly.
	AllowDamage bool
	// Keys are those of the store; nil for a store without encryption. A file that
	// needs another key, or should need one and does not, is a *fault.KeyError.
	Keys *seal.Keyring
	// MaxRecord is the largest payload accepted; 0 means base.MaxRecord.
	MaxRecord int64

	// Ended, if set, is called when the end of the log was found, and no error on the way
	// there, with what Recover is going to return. Recover returns its error.
	Ended func(Recovery) error
}

// Entry is one record of the log as Recover visits it.
type Entry struct {
	LSN    base.LSN
	File   base.FileNum
	Offset int64 // of the payload in the file
	// Sealed: the file is encrypted, and Payload is not what lies at Offset; see
	// PayloadReader.
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
	// Records and Bytes count what was visited: records, and payload bytes.
	Records int64
	Bytes   int64

	// End is the place behind the last accepted frame. It is where a reader may
	// go on later, not where a writer may: for that see Rewrite.
	End Position
	// Clean reports that the newest file ends with a close mark, or that there
	// is no file: nothing was cut, and nothing can have been lost unnoticed.
	Clean bool
	// Promise is the offset up to which the newest file was promised durable.
	Promise int64
	// Torn is what was cut from the newest file.
	Torn Torn
	// Unpromised are the accepted records above the highest promise.
	Unpromised Unpromised

	// Strays are files of the log's naming that are not part of it: spare files
	// and the like, left by a crash. See RemoveStrays.
	Strays []string

	// Damage holds, with AllowDamage, the first 1,000 damages passed over;
	// Damages counts them all.
	Damage  []*fault.CorruptionError
	Damages int

	cut Position // the place at the highest promise, where the log continues
}

// Torn is the torn tail of a log: bytes of writes that were under way when the
// writer ended, and that no promise covers.
type Torn struct {
	File   base.FileNum // 0 if nothing was torn
	Offset int64
	Bytes  int64 // up to the last byte that is not zero
}

// Unpromised describes records that are valid but that no later frame promises
// durable. They may exist in the page cache alone, so Rewrite writes them anew.
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

// boundaries remembers places between frames, from the highest promise on. A
// file without promises has too many to keep, so they are thinned out: cutting
// at a place below the promise is safe too, it only rewrites more.
type boundaries struct {
	list  []boundary
	every int // keep one in so many
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

// promise forgets the places below the highest one not above off.
func (b *boundaries) promise(off int64) {
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

// cut is the highest remembered place not above the promise.
func (b *boundaries) cut() boundary { return b.list[0] }
