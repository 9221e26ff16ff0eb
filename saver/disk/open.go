// Package disk is the durable saver: [Open] opens a store in a directory, on an
// append-only log-structured engine. It is for one process at a time; others may read
// beside it ([Options].ReadOnly). docs/durability.md says what survives which failure.
//
// # Where to read
//
//	open.go   Options, Open, Health       threads.go  Threads; status.go keeps what it reads
//	put.go    Put, PutWrites              newest.go   the newest checkpoints over all threads
//	read.go   GetTuple; tuple.go decodes  remove.go   deletions, copies of threads
//	list.go   List                        retain.go   Retain; ttl.go: threads that expire
//	erase.go  Erase; erase_plan.go        leadorfollow.go  one store on several machines
package disk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/backup"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/wal"
)

// SyncMode says when a call is durable.
type SyncMode int

// The modes of Options.Sync.
const (
	// SyncAlways: a nil from Put, PutWrites or DeleteThread survives power loss.
	// Concurrent calls share one fdatasync. The default.
	SyncAlways = SyncMode(wal.SyncAlways)
	// SyncInterval: it survives the death of the process immediately, and power loss after at most
	// Options.SyncInterval.
	SyncInterval = SyncMode(wal.SyncInterval)
	// SyncNever: it survives the death of the process immediately, and power loss once the kernel has
	// written it, or after Sync.
	SyncNever = SyncMode(wal.SyncNever)
)

// String is "always", "interval" or "never".
func (m SyncMode) String() string { return wal.Mode(m).String() }

// Options configures Open. The zero value is the documented default.
type Options struct {
	// Sync says when a call is durable; SyncAlways by default.
	Sync SyncMode
	// SyncInterval is the longest time to a sync in SyncInterval; default 1 s.
	SyncInterval time.Duration
	// Serializer encodes and decodes values; default serde.Default().
	Serializer serde.Serializer
	// DecodeLimit is the most memory, in bytes, that decoding one value may take; 0
	// leaves it to Serializer, whose default is serde.DefaultDecodeLimit (1 GiB), and
	// below 0 is no limit. See serde.Options.DecodeLimit for what counts.
	//
	// A Go value that could not be read with it is refused when it is put, with
	// serde.ErrDecodeLimit, before a byte is written. Bytes given as ValueTyped are
	// stored as they are. Reading them raw (Value.Typed), copying, verifying, backup
	// and salvage work whatever the limit; Value.Any and Value.Decode return
	// serde.ErrDecodeLimit where it does not suffice, and a higher one reads them.
	// Metadata is not subject to it, but to serde.DefaultDecodeLimit: listings work.
	//
	// A Serializer of another package needs a method WithDecodeLimit; see
	// serde.WithDecodeLimit.
	DecodeLimit int64
	// ReadOnly opens a store without a lock, beside a writer in another process
	// or none, as it is at that moment. Writing calls return ErrReadOnly.
	ReadOnly bool
	// AllowDamage, with ReadOnly, goes on past damage, wherever it is: what is intact
	// is served, what is not is left out. OpenReport lists what Open skipped, which
	// may include deletions.
	AllowDamage bool
	// DeletedMemory is how long deleted threads are remembered, so that a late
	// write does not bring one back; default 30 days. Forgetting never revives
	// data.
	DeletedMemory time.Duration

	// DefaultTTL is how long a thread lives after its last write, if SetTTL does not say
	// otherwise; at least a microsecond, 0 means for ever. See saver.Saver. A thread that sleeps longer, or waits for
	// a signal or a child for longer, goes too: give it saver.NoTTL.
	DefaultTTL time.Duration
	// Retention is applied to all threads every SweepInterval, with CutAnyway; nil:
	// nothing. It leaves other calls at least half of the time.
	Retention *saver.RetentionPolicy
	// SweepInterval is how often expired threads are deleted and Retention is
	// applied; default 5 min. With ManualWork it is for Sweep and Retain to do.
	SweepInterval time.Duration

	LogFileSize int64 // bytes; rotate the log beyond; default 64 MiB, at least 64 KiB
	FlushBytes  int64 // log bytes after which they move to a segment; default 64 MiB
	ImageBytes  int64 // log bytes after which the index is saved; bounds replay; default 4 MiB
	// MemoryBudget bounds what is kept in memory for the sake of speed, in bytes, as
	// well as it can be estimated: the threads read or written last, CacheBytes and
	// VersionBytes. Default 256 MiB, negative for none. Beyond it are what the store
	// needs: about 100 bytes and the id for each thread, the threads that changed
	// since the index was last saved, and what calls in progress hold. What was
	// evicted is read from disk when it is asked for. A budget that is smaller than
	// the caches given is refused.
	MemoryBudget int64
	// CacheBytes bounds the decoded blocks kept in memory; default an eighth of
	// MemoryBudget, negative for none. Three eighths of it are for blocks that were
	// read once, the rest for those that were read again. Beside it a call keeps what it
	// decoded until it ends, at most 16 MiB, and the store what the last one kept.
	CacheBytes int64
	// VersionBytes bounds the memory for the last values of channels, kept to log a
	// new value as a patch against the last; default an eighth of MemoryBudget. A
	// channel whose value was forgotten is logged whole once; a value larger than
	// half of it, or than 16 MiB, always.
	VersionBytes int64
	// NoPatches stores every value whole, as it was given: for comparisons.
	NoPatches     bool
	CompactFanout int   // segments of one size class that are merged; default 4
	CompactRate   int64 // bytes per second compaction reads and writes; default 64 MiB/s, negative: no limit; while it is behind, none either
	// DiskReserve is the free space, in bytes, below which Put and PutWrites get
	// ErrDiskFull while deleting calls, flush and Close go on; default 8 MiB,
	// negative for none.
	DiskReserve int64
	// LowSpace is the free space, in bytes, below which Events.LowSpace is called and
	// Health is degraded, while calls go on; default the larger of 256 MiB and twice
	// DiskReserve, negative for none. It must not be below DiskReserve.
	LowSpace int64
	// ManualWork leaves flush, image and compaction to Flush and Compact.
	ManualWork bool

	// Keys encrypt the store at rest: values, ids, names and metadata are in none of
	// its files in clear. nil means no encryption. A store is encrypted when it is
	// made; it opens only with keys from then on, and a store without encryption
	// does not open with keys: either is a KeyError, and nothing was touched. See
	// StaticKeys and LoadKeyFile.
	//
	// New files are under the provider's current key. To change keys, let the
	// provider name another one, call Compact, and wait until Stats().Encryption
	// no longer counts the old one.
	Keys KeyProvider
	// EncryptExisting, with Keys, opens a store that is not encrypted, and encrypts
	// what is written from then on. Compact moves everything else. Set it for one
	// Open only: with it, a store somebody put in place of the encrypted one is
	// taken.
	EncryptExisting bool

	// Replica keeps the log in a bucket, too, so that nothing is lost with the machine; the zero value is none. A
	// directory that has one opens for writing only with it: else the error is fault.ErrReplicated.
	Replica Replica

	// Events are called, on the goroutine that notices, when the store flushed,
	// compacted, or met trouble. They must not block nor call the Saver. All of
	// them are logged too: docs/operations.md has the messages.
	Events metrics.Events
	Logger *slog.Logger     // default: none
	Clock  func() time.Time // default: time.Now
	Random func() float64   // for NextVersion; default: math/rand

	// Simulation is for tests of this repository.
	Simulation Simulation
}

// Replica says where the log is kept, and what a call waits for. Bucket is one of bucket.Dir, or of module replica/s3; Mode
// is "async", the default, "bounded" or "sync". These and the other fields are described at [engine.Replica]: Interval,
// MaxLag, Deadline, AcceptLoss, LocalKeys, PointEvery, Keep, TTL. Only its fields are promised.
type Replica = engine.Replica

// Saver is the durable saver. It implements saver.Saver and saver.Eraser. All
// methods are safe for concurrent use; one process at a time has a directory
// open for writing.
type Saver struct {
	e      *engine.Engine
	codec  *measured
	opts   Options
	m      *meters
	sweep  *sweeper // shared by all that WithSerializer made
	newest *newest  // shared too
	// owned are the threads that runs own: shared too. No other process can write to
	// the directory.
	owned *rules.Owners
	// origins are the numbers of this store and of those it was salvaged from; fixed
	// once it is open.
	origins []uint64
}

var (
	_ saver.Saver  = (*Saver)(nil)
	_ saver.Eraser = (*Saver)(nil)
)

// Open opens the store in dir, creating it if dir is empty or missing, and
// recovers what a crash left; OpenReport tells what that was.
//
// Errors: LockedError if another process has it open for writing; ErrNotStore
// for a directory with other files; VersionError for a store of a newer format;
// CorruptionError if anything acknowledged is damaged in log or manifest;
// KeyError if the keys are missing or wrong, see Options.Keys. With Options.Replica: replica.ErrAway if the bucket
// does not answer for Replica.Deadline.
func Open(dir string, opts Options) (*Saver, error) { return open(dir, opts, engine.Open) }

// OpenFollower opens a directory that follows a leader: another process, as a rule on another machine, that has the same store open
// with Options.Replica and the same bucket. It shows what the bucket has, in the order of commits, about Replica.Interval
// (1 s) behind it; Health says how far. The directory is made from the bucket if it is empty, or lies too far back. It
// opens with Open, after Close, to take over. Then it needs Replica.AcceptLoss, unless the leader ran in mode sync or released its
// place by Close. LeadOrFollow does that by itself.
//
// Writing calls return fault.ErrFollower. Reads return fault.ErrStale when the leader was not heard of for Replica.MaxStale.
// It writes nothing to the bucket, except for a pin while a directory is made.
//
// Errors: those of Open, replica.ErrAway soon; replica.ErrNoLineage and replica.ErrSeeding if the bucket has nothing yet;
// replica.ErrDiverged for a directory that has led, and has records that the bucket lacks: it stays as it is, see admin.RejoinBucket.
func OpenFollower(dir string, opts Options) (*Saver, error) {
	return open(dir, opts, backup.OpenFollower)
}

func open(dir string, opts Options, openEngine func(string, engine.Options) (*engine.Engine, error)) (*Saver, error) {
	if dir == "" {
		return nil, saver.Invalidf("dir", "empty; name a directory")
	}
	codec := opts.Serializer
	if codec == nil {
		codec = serde.Default()
	}
	if opts.DecodeLimit != 0 {
		limited, ok := serde.WithDecodeLimit(codec, opts.DecodeLimit)
		if !ok {
			return nil, saver.Invalidf("options.DecodeLimit", "a %T has no limit for decoding; it needs a method WithDecodeLimit", codec)
		}
		codec = limited
	}
	if err := validateSweep(opts); err != nil {
		return nil, err
	}
	eo := opts.EngineOptions()
	if err := eo.Validate(); err != nil {
		return nil, saver.Invalidf("options", "%v", err)
	}
	e, err := openEngine(dir, eo)
	if err != nil {
		return nil, err
	}
	m := &meters{}
	s := &Saver{e: e, codec: m.measure(codec), opts: opts, m: m, sweep: &sweeper{}, newest: newNewest(e), owned: rules.NewOwners(opts.now().UnixMicro())}
	if err := s.loadOrigins(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if e.MayWrite() == nil && s.heldUpTo() > 0 {
		e.Opts.Logger.Warn(heldDetail, "dir", dir)
	}
	if !opts.ManualWork && e.MayWrite() == nil && !opts.Simulation.Inline {
		s.sweep.start(s)
	}
	return s, nil
}

// EngineOptions are the options of the engine below. It is for this repository, as Inside is.
func (opts *Options) EngineOptions() engine.Options {
	sim := &opts.Simulation
	return engine.Options{
		FS: sim.FS, Rand: sim.Rand, Inline: sim.Inline, Opening: sim.Opening, PatchMin: sim.PatchMin, PatchRun: sim.PatchRun, SegmentSize: sim.SegmentSize,
		Sync: wal.Mode(opts.Sync), SyncInterval: opts.SyncInterval,
		LogFileSize: opts.LogFileSize, FlushBytes: opts.FlushBytes, ImageBytes: opts.ImageBytes,
		MemoryBudget: opts.MemoryBudget, CacheBytes: opts.CacheBytes,
		CompactFanout: opts.CompactFanout, CompactRate: opts.CompactRate, VersionBytes: opts.VersionBytes, NoPatches: opts.NoPatches,
		Reserve: opts.DiskReserve, LowSpace: opts.LowSpace, ManualWork: opts.ManualWork,
		ReadOnly: opts.ReadOnly, AllowDamage: opts.AllowDamage, DeletedMemory: opts.DeletedMemory,
		Hot: layout.HotEntries, Series: layout.SeriesOf, Listed: layout.IsRecord, Events: opts.Events, Clock: opts.Clock, Logger: opts.Logger,
		Replica: opts.Replica, Keys: opts.Keys, EncryptExisting: opts.EncryptExisting, Entropy: sim.Entropy,
	}
}

// now is the clock's time.
func (o Options) now() time.Time {
	if o.Clock != nil {
		return o.Clock()
	}
	return time.Now()
}

// Close makes everything durable and releases the directory. It waits for calls
// in progress; iterators must have ended. A second Close does nothing.
func (s *Saver) Close() error {
	s.sweep.stop()
	s.owned.Close()
	s.newest.keep(s.e)
	return s.e.Close()
}

// Own implements saver.Saver. No other process can write to the store, so a lease
// lasts until it is released or the process ends. Epochs begin with the clock's time, in
// microseconds, at which the store was opened.
func (s *Saver) Own(ctx context.Context, threadID string, wait bool) (*saver.Lease, error) {
	return s.owned.Own(ctx, threadID, wait)
}

// Await returns when the store shows record lsn. Stats().LastLSN of the leader, taken behind a call, is that of the call or of a later
// one: so a follower reads what was written at the leader.
//
// Errors: that of ctx; ErrClosed; saver.ErrNotFound's cause fault.ErrNotFound from a store that follows nobody, and lacks the
// record.
func (s *Saver) Await(ctx context.Context, lsn uint64) error { return s.e.Await(ctx, base.LSN(lsn)) }

// Follows reports whether the store follows a leader, and takes no writes.
func (s *Saver) Follows() bool { return s.e.Follows() }

// Fenced is closed when another leader has taken over: every write fails with fault.ErrFenced from then on, and what this store has is
// no longer what the others see. Nil of a store that follows.
func (s *Saver) Fenced() <-chan struct{} {
	if s.Follows() {
		return nil
	}
	return s.e.RoleOver()
}

// Following returns why a follower follows no more, and nil while it does, however far it is behind: then it is to be closed and opened
// again. What it shows stays as it is. It is nil for other stores until they are closed.
func (s *Saver) Following() error { return s.e.Following() }

// Sync returns when every call that returned before is on stable storage.
func (s *Saver) Sync(ctx context.Context) error { return s.e.Sync(ctx) }

// SyncReplica returns when every call that returned before is on stable storage, and in the bucket of Options.Replica, in every mode:
// what rests on these calls is lost with no machine. In the modes async and bounded that takes an upload, which does not wait for
// Replica.Interval. Without a replica it is Sync.
//
// Errors: ErrOutcomeUnknown if ctx or Replica.Deadline ends before, and then replica.ErrSeeding, too, if the bucket of a new store has
// no point yet, from which it could be restored; fault.ErrFenced if another leads, and the bucket never gets all.
func (s *Saver) SyncReplica(ctx context.Context) error { return s.e.SyncReplica(ctx) }

// SyncEffects implements saver.EffectSyncer: it is SyncReplica, for who is about to do something outside the store that rests on the
// calls before, and must not be done once more when the machine is lost; with Replica.LocalKeys it is Sync.
// Package pregel calls it for each key of an effect.
func (s *Saver) SyncEffects(ctx context.Context) error {
	if s.e.Opts.Replica.LocalKeys {
		return s.Sync(ctx)
	}
	return s.SyncReplica(ctx)
}

// Flush moves the log into a compressed segment. It goes on beside other calls
// and happens by itself every Options.FlushBytes.
func (s *Saver) Flush(ctx context.Context) error { return s.e.Flush(ctx) }

// Compact merges all segments into one that holds only what is live, and gives
// the space of what was deleted or replaced back to the system; Stats.DeadBytes
// says about how much that is, Events.Compacting how far it is. It happens by itself,
// in steps, as segments accumulate or die. All other calls go on meanwhile. When ctx
// ends, the store stays as it was.
func (s *Saver) Compact(ctx context.Context) error { return s.e.Compact(ctx) }

// OpenReport says what Open found and did.
func (s *Saver) OpenReport() metrics.OpenReport { return s.e.Report() }

// Stats returns what the store holds now. It reads no file.
func (s *Saver) Stats() metrics.Stats { return s.e.Stats() }

// Metrics returns the counters now.
func (s *Saver) Metrics() metrics.Metrics { return s.m.read(s.e.Metrics()) }

// Health judges the store by what is in memory and the free space of the device. It
// reads no file, takes microseconds, and may be called from any goroutine. After Close it
// has metrics.TroubleClosed alone.
func (s *Saver) Health() metrics.Health {
	h := s.e.Health()
	s.judgeHeld(&h)
	return h
}

// Space asks the system for the room on the device. With an error, Free and Total
// are not known. After Close the error matches saver.ErrClosed.
func (s *Saver) Space() (metrics.Space, error) { return s.e.Space() }

// NextVersion mints the version that follows current; see the function.
func (s *Saver) NextVersion(current saver.Version, _ string) (saver.Version, error) {
	return saver.NextVersion(current, s.opts.Random)
}

// WithSerializer returns the same store, read and written with another serializer, such as one with a
// wider allowlist. Closing either closes both.
func (s *Saver) WithSerializer(codec serde.Serializer) *Saver {
	c := *s
	c.codec = s.m.measure(codec)
	return &c
}

// Serializer implements saver.Saver. It is the store's serializer, with its work counted.
func (s *Saver) Serializer() serde.Serializer { return s.codec }

func threadError(threadID, what string, err error) error {
	return fmt.Errorf("thread %q: %s: %w", threadID, what, err)
}
