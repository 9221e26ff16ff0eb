package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/wal"
)

// Options configures a store. The zero value is the documented default.
type Options struct {
	// FS is the file system; nil means the operating system's.
	FS vfs.FS
	// Sync says when a commit is durable: before it returns (the default), within
	// SyncInterval, or when the kernel likes.
	Sync         wal.Mode
	SyncInterval time.Duration // default 1 s

	LogFileSize int64 // rotate beyond; default 64 MiB, at least 64 KiB
	FlushBytes  int64 // log bytes that make a flush; default 64 MiB
	ImageBytes  int64 // log bytes since the last image that make the next; default 4 MiB
	// MemoryBudget bounds what is kept in memory for the sake of speed, in bytes, as
	// well as it can be estimated: loaded partitions, and within it CacheBytes and
	// VersionBytes. Default 256 MiB, negative for none. Beyond it are what the store
	// needs: about 100 bytes and the id for each partition, the partitions that changed
	// since the last image, and what views and calls in progress hold.
	MemoryBudget int64
	CacheBytes   int64 // decoded blocks kept; default an eighth of MemoryBudget, negative for none
	// VersionBytes bounds the last values kept in memory to make patches against;
	// default an eighth of MemoryBudget, negative for none: then every value is logged whole. A value
	// larger than half of it, or than 16 MiB, is always whole.
	VersionBytes int64
	// NoPatches stores every value whole, in log and segments.
	NoPatches bool
	// PatchMin is the size below which a value is not patched; default 512 bytes.
	// PatchRun is how many patches follow each other in the log before one is made
	// against the first of them; default 31, at most 120.
	PatchMin, PatchRun int
	// CompactFanout is how many segments of one size make a compaction; default 4.
	CompactFanout int
	// SegmentSize is the size at which compaction ends a segment and begins another,
	// and from which segments are not merged any more by themselves: rewriting so much
	// for one more layer of it costs more than it gives back. Default 256 MiB.
	SegmentSize int64
	// CompactRate limits the bytes of values that compaction reads and of files that
	// it writes, together, per second; default 64 MiB/s, negative for no limit. As
	// values shrink on the way, it is reading that bounds how much it computes. While
	// twice CompactFanout segments of a size wait, it goes as fast as it can.
	CompactRate int64

	// Reserve is the free space below which only commits that free space are
	// taken, so that a full device can be dug out of; default 8 MiB, negative for
	// none.
	Reserve int64
	// LowSpace is the free space, in bytes, below which Events.LowSpace is called and
	// Health is degraded, while writes go on; default the larger of 256 MiB and twice
	// Reserve, negative for none. It must not be below Reserve.
	LowSpace int64

	// Opening, unless it is nil, is for how long Open is wanted: when it ends, Open does
	// at the next read, and changes nothing that a crash at that point would not. It
	// means nothing to the store once that is open.
	Opening context.Context

	// Replica says where the log is kept besides the directory; the zero value is nowhere.
	Replica Replica
	follows bool // the store applies what others wrote: see ApplyBatches
	// TakeOver is for OpenFollower: the follower takes over in the bucket as soon as it may, and its role ends once it
	// has. Without it the role ends when it may.
	TakeOver bool

	ReadOnly    bool // take no lock, write nothing
	AllowDamage bool // with ReadOnly: go on past damage, wherever it is; see Open
	// DeletedMemory is how long deleted partitions are remembered; default 30 days,
	// negative: not at all.
	DeletedMemory time.Duration
	// ManualWork leaves flush, image and compaction to explicit calls.
	ManualWork bool

	// Hot says which of a partition's entries, given in the order of keys, are read
	// often; a flush lays their values apart, whole and quick to read. Nil means
	// all of them.
	Hot func(entries []*index.Entry) []bool

	// Series names the series of values that a slot of an entry continues, so that a
	// segment holds the older ones as patches; "" if it continues none. Names need be
	// unique within a partition and its copies. Nil means that slots of one name do.
	Series func(it *index.Entry, slot int, name string) string

	// Listed says which values are read by those who look through entries and leave
	// the other values alone. Older ones lie in blocks of their own. Default: none.
	Listed func(it *index.Entry, slot int) bool

	// Keys encrypt the store; nil means no encryption. Every file is made under the
	// provider's current key and stays under it; Compact brings all files under the
	// current one. Keys are asked for at Open, and for each new file.
	Keys seal.KeyProvider
	// EncryptExisting, with Keys, opens a store without encryption and encrypts it:
	// every new file is. The files there are now stay as they are until flush and
	// compaction replace them.
	EncryptExisting bool
	// Entropy fills slices with random bytes for encryption; nil means crypto/rand.
	// For simulations only.
	Entropy func([]byte)

	// Clock and Rand are called from several goroutines.
	Clock func() time.Time
	Rand  func() uint64
	// Inline keeps the log's background goroutines from touching files, so that
	// the order of file operations depends on the calls alone. For simulations.
	Inline bool
	Logger *slog.Logger
	Events metrics.Events
}

const (
	minLogFile = 64 << 10
	mib        = 1 << 20

	// defaultCompactRate is that of Options.CompactRate, in bytes a second.
	defaultCompactRate = 64 * mib
	defaultSegmentSize = 256 * mib
	defaultReserve     = 8 * mib
)

// Validate refuses options that contradict each other.
func (o Options) Validate() error {
	if o.LogFileSize != 0 && o.LogFileSize < minLogFile {
		return fmt.Errorf("log file size %d is below the least of %d", o.LogFileSize, minLogFile)
	}
	if err := o.Replica.check(o.Sync, o.ReadOnly && !o.follows); err != nil {
		return err
	}
	if o.AllowDamage && !o.ReadOnly {
		return fmt.Errorf("going on past damage needs a read-only store")
	}
	if o.EncryptExisting && (o.Keys == nil || o.ReadOnly) {
		return fmt.Errorf("encrypting an existing store needs keys, and a store that is not read-only")
	}
	if o.CompactFanout == 1 || o.CompactFanout < 0 {
		return fmt.Errorf("a compaction of %d segments does nothing", o.CompactFanout)
	}
	if o.PatchMin < 0 || o.PatchRun < 0 || o.PatchRun > maxPatchRun {
		return fmt.Errorf("patches of values from %d bytes on, %d in a row", o.PatchMin, o.PatchRun)
	}
	if budget, caches := o.MemoryBudget, max(o.CacheBytes, 0)+max(o.VersionBytes, 0); budget > 0 && caches > budget {
		return fmt.Errorf("a memory budget of %d bytes does not hold caches of %d", budget, caches)
	}
	if o.LowSpace > 0 && o.LowSpace < o.reserve() {
		return fmt.Errorf("low space of %d bytes is below the reserve of %d", o.LowSpace, o.reserve())
	}
	for name, d := range map[string]int64{"sync interval": int64(o.SyncInterval), "flush bytes": o.FlushBytes,
		"image bytes": o.ImageBytes, "segment size": o.SegmentSize} {
		if d < 0 {
			return fmt.Errorf("%s is negative", name)
		}
	}
	return nil
}

// loadedBytes is what the budget leaves for loaded partitions.
func (o *Options) loadedBytes() int64 {
	return max(o.MemoryBudget-max(o.CacheBytes, 0)-max(o.VersionBytes, 0), 0)
}

// reserve is Reserve with its default.
func (o Options) reserve() int64 {
	if o.Reserve == 0 {
		return defaultReserve
	}
	return o.Reserve
}

// WithDefaults returns the options with the defaults in place of what is zero.
func (o Options) WithDefaults() Options {
	def := func(p *int64, d int64) {
		if *p == 0 {
			*p = d
		}
	}
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	o.Replica.withDefaults()
	if o.SyncInterval == 0 {
		o.SyncInterval = time.Second
	}
	def(&o.LogFileSize, 64*mib)
	def(&o.FlushBytes, 64*mib)
	def(&o.ImageBytes, 4*mib)
	def(&o.MemoryBudget, 256*mib)
	def(&o.CacheBytes, max(o.MemoryBudget/8, -1))
	def(&o.VersionBytes, max(o.MemoryBudget/8, -1))
	def(&o.CompactRate, defaultCompactRate)
	def(&o.SegmentSize, defaultSegmentSize)
	o.Reserve = o.reserve()
	if o.LowSpace == 0 && o.Reserve > 0 {
		o.LowSpace = max(256*mib, 2*o.Reserve)
	}
	if o.CompactFanout == 0 {
		o.CompactFanout = 4
	}
	if o.PatchMin == 0 {
		o.PatchMin = minRevision
	}
	if o.PatchRun == 0 {
		o.PatchRun = innerChain
	}
	if o.DeletedMemory == 0 {
		o.DeletedMemory = 30 * 24 * time.Hour
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Hot == nil {
		o.Hot = func(entries []*index.Entry) []bool {
			all := make([]bool, len(entries))
			for i := range all {
				all[i] = true
			}
			return all
		}
	}
	if o.Listed == nil {
		o.Listed = func(*index.Entry, int) bool { return false }
	}
	if o.Series == nil {
		o.Series = func(_ *index.Entry, _ int, name string) string { return name }
	}
	return o
}

// The chains that patches of one series form.
const (
	// minRevision is the default size below which a patch saves too little for what
	// it costs to make and to read.
	minRevision = 512
	// maxRevision bounds what is patched: larger values are written from the
	// caller's slice, neither copied nor kept.
	maxRevision = 16 << 20
	// chainLevels is how many kinds of patches a chain is made of. Those of level 0
	// are against the value before. After a run of innerChain of them, by default, one
	// of level 1 is made against the value with which the run began, and after a run
	// of outerChain of those, one of level 2 against the value with which that run
	// began. Of level 2 there are as many as index.MaxChain leaves room for. So a list
	// that grows is logged three times, its second and third time compressed, and
	// whole again only after some 23,000 versions.
	chainLevels = 3
	innerChain  = 31
	outerChain  = 7
	// maxPatchRun is the largest Options.PatchRun: it leaves one patch for level 2.
	maxPatchRun = index.MaxChain - outerChain - 1
)
