package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/check"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Moment is up to where a store is restored: the longest prefix of its commits that neither LSN nor Time
// excludes, or the shortest one that has an entry. The zero Moment is the end of the lineage.
type Moment struct {
	LSN  base.LSN  // the last record; 0: any
	Time time.Time // by the leader's clock, when they were committed; zero: any

	// Partition has the entry, if it is set, and LSN and Time are not. Entry tells it by its key, Named is what people call it.
	Partition string
	Entry     func(key string) bool
	Named     string
}

// end reports whether it is the end of the lineage.
func (m Moment) end() bool { return m.LSN == 0 && m.Time.IsZero() && m.Partition == "" }

func (m Moment) before(lsn base.LSN, stamp int64) bool {
	return m.LSN > 0 && lsn > m.LSN || !m.Time.IsZero() && stamp > m.Time.UnixMicro()
}

// cut returns the longest prefix of batches that is not behind the moment, and whether there is more. Each record is a whole call.
func (m Moment) cut(batches []replica.Batch) (prefix []replica.Batch, past bool) {
	for i, b := range batches {
		switch {
		case m.before(b.First, b.Stamp):
			return batches[:i], true
		case m.LSN > 0 && b.Last() > m.LSN:
			b.Records = b.Records[:m.LSN-b.First+1]
			return append(batches[:i:i], b), true
		}
	}
	return batches, false
}

// FromBucketReport says what was restored.
type FromBucketReport struct {
	StoreID uint64
	LSN     base.LSN  // of the last record
	Stamp   time.Time // by the leader's clock
	Epoch   uint64    // of the leader that wrote it
	Point   base.LSN  // where the point ended with which the restore began
}

// FromBucket makes a store in dir, which must be empty or missing, of the lineage in a bucket: of the newest point
// that is not behind the moment, and the records after it up to the moment. Each of them is one call.
// The files of the point are verified by package engine/check.
//
// A store that was restored to the end is a new directory of the lineage: it opens with the bucket, takes over, and goes on with all that
// waits. One that was restored to a moment is a store of its own, and held. It opens without a bucket or with an empty one, and with this
// one the error is replica.ErrDiverged.
//
// Errors: a *NoMomentError; replica.ErrNoLineage; replica.ErrSeeding; replica.ErrPointGone, if what is needed was deleted meanwhile; and
// those of Restore. After an error what was written is removed; after a crash Open refuses dir, which has to be
// removed.
func FromBucket(ctx context.Context, b bucket.Bucket, dir string, at Moment, o Options) (*FromBucketReport, error) {
	if o.Engine.FS == nil {
		o.Engine.FS = vfs.OS{}
	}
	if o.Dest == nil {
		o.Dest = o.Engine.FS
	}
	to, err := vfs.HoldEmpty(o.Dest, dir)
	if err != nil {
		return nil, fmt.Errorf("restore to %s: %w", dir, err)
	}
	defer func() { _ = to.Close() }() // nothing is made any more
	return restoreBucket(ctx, b, dir, at, o, to)
}

func restoreBucket(ctx context.Context, b bucket.Bucket, dir string, at Moment, o Options, to vfs.Dir) (*FromBucketReport, error) {
	r := &fromBucket{o: o, dir: dir, at: at, to: to, ro: replica.Options{Bucket: b, Dir: "restore", Ahead: replica.ReadAhead}, pieces: make(slots, atATime)}
	if o.Engine.Inline {
		r.ro.Ahead, r.pieces = 1, make(slots, 1)
	}
	rep, err := r.run(ctx)
	if err != nil {
		names, _ := to.List(dir)
		for _, n := range names {
			if engine.StoreFile(n) || n == engine.LockName {
				_ = to.Remove(filepath.Join(dir, n)) // the first cause is what counts
			}
		}
		return nil, fmt.Errorf("restore to %s: %w", dir, err)
	}
	return rep, nil
}

// OpenFollower is engine.OpenFollower. A directory that is empty or missing, or that came from the bucket and cannot go on, it makes
// anew from the newest point.
func OpenFollower(dir string, o engine.Options) (*engine.Engine, error) {
	e, err := engine.OpenFollower(dir, o)
	if !errors.Is(err, engine.ErrSeed) {
		return e, err
	}
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if err := seed(dir, o); err != nil {
		return nil, fmt.Errorf("open follower %s: %w", dir, err)
	}
	return engine.OpenFollower(dir, o)
}

// seed makes the directory of a follower.
func seed(dir string, o engine.Options) error {
	ctx := o.Opening
	if ctx == nil {
		ctx = context.Background()
	}
	lock, err := engine.LockCache(dir, o)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // only held
	if _, err := replica.ReadStatus(ctx, replica.Options{Bucket: o.Replica.Bucket}); err != nil {
		unmark(o.FS, dir)
		return err // what is there stays until there is something in its place
	}
	if err := engine.ClearCache(dir, o); err != nil {
		return err
	}
	if err := vfs.SyncParents(o.FS, dir); err != nil {
		return err
	}
	to, err := vfs.Hold(o.FS, dir)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }() // nothing is made any more
	if _, err = restoreBucket(ctx, o.Replica.Bucket, dir, Moment{}, Options{Engine: o, Dest: o.FS}, to); err != nil {
		unmark(to, dir)
	}
	return err
}

// unmark takes the mark of a follower off a directory in which there is no store: it is as it was found.
func unmark(d interface {
	List(dir string) ([]string, error)
	Remove(name string) error
}, dir string) {
	if names, err := d.List(dir); err == nil && !slices.ContainsFunc(names, engine.StoreFile) {
		_ = d.Remove(filepath.Join(dir, engine.CacheName)) // the first cause is what counts
	}
}

// Rejoin makes a directory that has led, and that the lineage went on without, a follower's. What it has and the bucket lacks is
// kept in files there: first is the first record of that, 0 if there is none. The rest is made anew from the bucket, unless it is what the
// bucket has.
func Rejoin(ctx context.Context, dir string, o engine.Options) (first base.LSN, err error) {
	o.Opening = ctx
	e, first, err := rejoin(dir, o)
	if err != nil {
		return first, err
	}
	return first, e.Close()
}

// RejoinFollower is OpenFollower, after Rejoin where the directory needs that.
func RejoinFollower(dir string, o engine.Options) (*engine.Engine, error) {
	e, first, err := rejoin(dir, o)
	if first > 0 && o.Logger != nil {
		o.Logger.Warn("records that the bucket lacks are kept in files, and are not in the store any more", "dir", dir, "first", first)
	}
	return e, err
}

func rejoin(dir string, o engine.Options) (e *engine.Engine, first base.LSN, err error) {
	e, err = engine.OpenFollower(dir, o)
	if !errors.Is(err, engine.ErrSeed) && (errors.Is(err, replica.ErrDiverged) || errors.Is(err, replica.ErrPointGone)) {
		if first, err = engine.SetAside(o.Opening, dir, o); err != nil {
			return nil, 0, err
		}
		err = engine.ErrSeed
	}
	if errors.Is(err, engine.ErrSeed) {
		e, err = OpenFollower(dir, o)
	}
	return e, first, err
}

// fromBucket is one restore.
type fromBucket struct {
	o     Options
	dir   string
	at    Moment
	to    vfs.Dir
	ro    replica.Options
	point *replica.Point

	pieces slots // of files, that are on their way
}

// atATime is how many files, and how many pieces of files, are got at the same time.
const atATime = 8

// slots bound how much goes on at the same time: as much as the channel has room.
type slots chan struct{}

// each calls do for the numbers below n, and returns when all calls have ended. After an error, which it returns, and when ctx ends, no
// other one begins, also if there is no room.
func (s slots) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work sync.WaitGroup
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case s <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		work.Go(func() {
			defer func() { <-s }()
			err := ctx.Err()
			if err == nil {
				err = do(ctx, i)
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

func (r *fromBucket) run(ctx context.Context) (*FromBucketReport, error) {
	st, err := replica.ReadStatus(ctx, r.ro)
	if err != nil {
		return nil, err
	}
	r.ro.Store = st.Store
	if err := r.find(ctx); err != nil {
		return nil, err
	}
	if r.point, err = r.choose(ctx); err != nil {
		return nil, err
	}
	release, err := r.pin(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := r.files(ctx); err != nil {
		return nil, err
	}
	return r.follow(ctx)
}

// choose returns the newest point that is not behind the moment.
func (r *fromBucket) choose(ctx context.Context) (*replica.Point, error) {
	points, err := replica.Points(ctx, r.ro)
	if err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, replica.ErrSeeding
	}
	for i := len(points) - 1; i >= 0; i-- {
		if !r.at.before(points[i].LSN, points[i].Stamp) {
			return replica.ReadPoint(ctx, r.ro, points[i])
		}
	}
	return nil, r.noMoment(ctx, "point at or before that moment")
}

// pinBeat is how often a restore says that it still reads.
const pinBeat = 10 * time.Minute

// pin keeps what the restore reads from being deleted. Without rights to write it reads all the same: what is
// missing then is an error.
func (r *fromBucket) pin(ctx context.Context) (release func(), err error) {
	pin, err := replica.TakePin(ctx, r.ro, r.point.Position)
	if errors.Is(err, bucket.ErrRefused) || errors.Is(err, replica.ErrAway) && ctx.Err() == nil { // puts may fail while gets succeed
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	beats, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		for tick := time.NewTicker(pinBeat); ; {
			select {
			case <-tick.C:
				_ = pin.Beat(beats) // if it lapses, what is missing is an error
			case <-beats.Done():
				tick.Stop()
				return
			}
		}
	})
	return func() {
		stop()
		work.Wait()
		_ = pin.Release(ctx) // it lapses by itself
	}, nil
}

// files makes the store as it was at the point. The manifest comes last. It says that a restore has begun.
func (r *fromBucket) files(ctx context.Context) error {
	var state []byte
	var done, total int64
	for _, f := range r.point.Files {
		total += f.Size
	}
	var mu sync.Mutex // of done and Progress
	err := make(slots, cap(r.pieces)).each(ctx, len(r.point.Files), func(ctx context.Context, i int) (err error) {
		f := r.point.Files[i]
		if f.Name == engine.PointState {
			state, err = r.state(ctx, f)
			return err
		}
		if !isStoreFile(f.Name) {
			return &fault.CorruptionError{File: f.Key, Kind: "point", Offset: -1, Detail: fmt.Sprintf("it names a file %q", f.Name)}
		}
		if err := r.file(ctx, f); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if done += f.Size; r.o.Progress != nil {
			r.o.Progress(done, total)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.to.SyncDir(r.dir); err != nil {
		return err
	}
	m, err := check.Assemble(r.to, r.dir, state, r.o.Engine.Keys)
	if err != nil {
		return err
	}
	defer m.Release()
	opts := r.o.Engine
	opts.FS, opts.Replica = r.to, engine.Replica{}
	rep, err := check.RunCaptured(ctx, r.dir, m, opts, nil)
	if err != nil {
		return err
	}
	if rep.Damaged() {
		return fmt.Errorf("the point does not verify: %w", rep.Err())
	}
	if m.State.Replica == nil {
		return &fault.CorruptionError{File: r.dir, Kind: "point", Offset: -1, Detail: "its manifest knows of no lineage"}
	}
	r.ro.Keys, r.ro.ChainKey = m.Keyring(), m.State.Replica.ChainKey
	st := m.State.Clone()
	if r.o.Release && !r.at.end() { // who leads the lineage releases it by a commit, which followers get: see Engine.Release
		st.Held = 0
	}
	*st.Replica = snapshot.Replica{Dir: 1, Restored: true, ChainKey: st.Replica.ChainKey} // in no epoch: Open refuses it
	mf, err := snapshot.Create(r.to, r.dir, st, snapshot.Options{Rand: r.o.Engine.Rand, Keys: seal.New(r.o.Engine.Keys, r.o.Engine.Entropy)})
	if err != nil {
		return err
	}
	return mf.Close()
}

// file copies one file of the point, synced.
func (r *fromBucket) file(ctx context.Context, f replica.File) error {
	out, err := r.to.Create(filepath.Join(r.dir, f.Name))
	if err != nil {
		return err
	}
	err = r.get(ctx, f, out)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// getTries is how often a piece of a file is asked for.
const getTries = 3

// state reads the manifest of the point.
func (r *fromBucket) state(ctx context.Context, f replica.File) ([]byte, error) {
	if f.Size > maxManifest {
		return nil, fmt.Errorf("%s of %d bytes: %w", f.Name, f.Size, fault.ErrTooLarge)
	}
	b := make(writerAt, max(f.Size, 0))
	return b, r.get(ctx, f, b)
}

// get reads a file of the point in pieces, in no order.
func (r *fromBucket) get(ctx context.Context, f replica.File, into io.WriterAt) error {
	const length = 8 << 20
	var mu sync.Mutex // of into
	return r.pieces.each(ctx, int((max(f.Size, 0)+length-1)/length), func(ctx context.Context, i int) error {
		off := int64(i) * length
		var b []byte
		var err error
		for range getTries {
			if b, err = r.piece(ctx, f, off, min(length, f.Size-off)); err == nil || ctx.Err() != nil || errors.Is(err, bucket.ErrNotFound) {
				break
			}
		}
		if errors.Is(err, bucket.ErrNotFound) {
			err = fmt.Errorf("%w: %w", replica.ErrPointGone, err)
		}
		if err != nil {
			return fmt.Errorf("get %s: %w", f.Key, err)
		}
		mu.Lock()
		defer mu.Unlock()
		_, err = into.WriteAt(b, off)
		return err
	})
}

// piece reads a part of an object.
func (r *fromBucket) piece(ctx context.Context, f replica.File, off, n int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	obj, err := r.ro.Bucket.Get(ctx, f.Key, bucket.GetOptions{Offset: off, Length: n})
	if err != nil {
		return nil, replica.Unanswered(err)
	}
	defer func() { _ = obj.Body.Close() }() // only read from
	if obj.Size != f.Size {
		return nil, &fault.CorruptionError{File: f.Key, Kind: "point", Offset: -1, Detail: fmt.Sprintf("it has %d bytes, the point says %d", obj.Size, f.Size)}
	}
	b := make([]byte, n)
	_, err = io.ReadFull(obj.Body, b)
	return b, replica.Unanswered(err)
}

// writerAt is memory that has its size.
type writerAt []byte

// WriteAt implements io.WriterAt.
func (w writerAt) WriteAt(b []byte, off int64) (int, error) { return copy(w[off:], b), nil }

// follow applies the batches behind the point, and says what became of the store.
func (r *fromBucket) follow(ctx context.Context) (*FromBucketReport, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of what is read ahead
	opts := r.o.Engine
	opts.FS, opts.Sync = r.o.Dest, wal.SyncNever // until all is there Open refuses the directory
	e, local, err := engine.OpenFollowing(r.dir, opts, r.point.Position)
	if err != nil {
		return nil, err
	}
	rep := &FromBucketReport{StoreID: r.ro.Store, LSN: r.point.LSN, Stamp: time.UnixMicro(r.point.Stamp), Epoch: r.point.Epoch, Point: r.point.LSN}
	f, err := replica.Follow(ctx, r.ro, local, r.point.Position)
	for past := false; err == nil && !past; {
		var batches []replica.Batch
		if batches, err = f.Next(ctx); err != nil || batches == nil {
			break
		}
		batches, past = r.at.cut(batches)
		if err = e.ApplyBatches(ctx, batches); err == nil && len(batches) > 0 {
			last := &batches[len(batches)-1]
			rep.LSN, rep.Stamp, rep.Epoch = last.Last(), time.UnixMicro(last.Stamp), f.Position().Epoch
		}
	}
	if err == nil {
		err = r.has(ctx, e)
	}
	if err == nil {
		err = e.Sync(ctx)
	}
	if err == nil && r.at.end() {
		err = e.SetLineage(f.Position())
	} else if err == nil {
		err = e.LeaveLineage(!r.o.Release)
	}
	return rep, errors.Join(err, e.Close())
}

// LineageKeys are the keys of the lineage in a bucket, whose store is encrypted with keys: those of its chunks, and that of
// its chain. They are in the manifest of the newest point; without any, or without encryption, both are nil.
func LineageKeys(ctx context.Context, b bucket.Bucket, store uint64, keys seal.KeyProvider) (*seal.Keyring, []byte, error) {
	r := &fromBucket{ro: replica.Options{Bucket: b, Store: store}, pieces: make(slots, 1)}
	points, err := replica.Points(ctx, r.ro)
	if err != nil || len(points) == 0 || keys == nil {
		return nil, nil, err
	}
	p, err := replica.ReadPoint(ctx, r.ro, points[len(points)-1])
	if err != nil {
		return nil, nil, err
	}
	for _, f := range p.Files {
		if f.Name != engine.PointState {
			continue
		}
		state, err := r.state(ctx, f)
		if err != nil {
			return nil, nil, err
		}
		st, ring, err := check.Manifest(state, keys)
		if err != nil || st.Replica == nil {
			return nil, nil, err
		}
		return ring, st.Replica.ChainKey, nil
	}
	return nil, nil, &fault.CorruptionError{File: engine.PointState, Kind: "point", Offset: -1, Detail: "it has no manifest"}
}
