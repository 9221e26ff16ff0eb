package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// ErrSeed: a follower cannot go on with what its directory has, if anything. Nothing there is the only copy: ClearCache removes
// it, and a restore from the bucket makes the directory anew.
var ErrSeed = errors.New("the directory has to be made anew from the bucket")

// errOwnTail is the error for a directory that has led, and has records that the bucket lacks.
var errOwnTail = fmt.Errorf("%w: it has records that the bucket lacks: open it with the replica, so that it leads again; if another directory has led since, rejoin", replica.ErrDiverged)

// OpenFollower opens a directory to follow the leader of its lineage through the bucket of Options.Replica: what the bucket has
// becomes visible here, in the order of commits and once it is durable here, and nothing else is written. It returns when
// all is here that the bucket has. Options.Replica.Interval is the pause between two looks. docs/adr/0025-engine-replicates.md has
// the whole.
//
// Errors: ErrSeed; replica.ErrDiverged for a directory that has led and has records of its own: it stays as it is;
// those of Open and of the bucket.
func OpenFollower(dir string, opts Options) (*Engine, error) {
	if opts.Replica.Bucket == nil {
		return nil, errors.New("a follower needs the bucket of its leader")
	}
	opts.follows, opts.Sync = true, wal.SyncAlways
	cache, err := followable(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open follower %s: %w", dir, err)
	}
	e, err := Open(dir, opts)
	if err == nil {
		if err = e.follower.open(cache); err != nil {
			err = errors.Join(err, e.Close())
		}
	}
	if cache && (errors.Is(err, replica.ErrDiverged) || errors.Is(err, replica.ErrPointGone) || errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist)) {
		err = fmt.Errorf("%w: %w", ErrSeed, err)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// CacheName is a file in the directory of a follower. It says, together with snapshot.Replica.Restored, that all there came from the
// bucket. It is made when a directory is found to be so, and removed when the directory has led.
const CacheName = "FOLLOWER"

// IsCache reports whether the directory may be made anew from the bucket: a follower's that has not led, or one without a store.
// Errors: ErrSeed, beside true, if a follower has to make it first.
func IsCache(dir string, opts Options) (bool, error) { return followable(dir, opts) }

// followable looks whether a follower can open a directory. cache says that it holds nothing that the bucket did not have.
func followable(dir string, opts Options) (cache bool, err error) {
	e := newEngine(newStore(dir, opts.WithDefaults()))
	e.Keys = seal.New(opts.Keys, opts.Entropy)
	names, err := e.Opts.FS.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	marked, empty := false, true
	for _, n := range names {
		marked, empty = marked || n == CacheName, empty && spared(n)
	}
	if empty {
		return true, ErrSeed
	}
	st, _, err := snapshot.Load(e.Opts.FS, dir, e.readManifest()...)
	switch r := st.Replica; {
	case errors.Is(err, snapshot.ErrNoManifest) && marked: // a seed was interrupted
		return true, ErrSeed
	case errors.Is(err, snapshot.ErrNoManifest):
		return false, errors.Join(fault.ErrNotStore, err)
	case err != nil:
		return false, err
	case r == nil:
		return false, fmt.Errorf("%w: the store there is in no lineage", replica.ErrDiverged)
	case r.Epoch == 0 && marked:
		return true, ErrSeed
	case r.Epoch == 0:
		return false, errHalfRestored
	}
	return marked && st.Replica.Restored, nil
}

// spared reports whether a file may lie in a directory that is to become a follower's.
func spared(name string) bool {
	return name == LockName || Beside(name) || strings.HasPrefix(name, tailPrefix)
}

// StoreFile reports whether a file of this name is a part of a store, and goes when a follower's directory is made anew.
func StoreFile(name string) bool {
	return isOwnName(name) || name == wal.MarkName || snapshot.IsManifestName(name)
}

// markCache says in a directory that all it holds comes from the bucket.
func markCache(fsys vfs.FS, dir string) error {
	f, err := fsys.Create(filepath.Join(dir, CacheName))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// LockCache says in a directory that all it will hold comes from the bucket. Until the lock is closed nobody else makes it anew:
// whoever fails to do so removes what is there. fault.LockedError: somebody does.
func LockCache(dir string, opts Options) (vfs.Lock, error) {
	e := newEngine(newStore(dir, opts.WithDefaults()))
	if err := e.Opts.FS.MkdirAll(dir); err != nil {
		return nil, err
	}
	lock, err := e.lockFile(CacheName)
	if err != nil {
		return nil, err
	}
	if err := e.Opts.FS.SyncDir(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// ClearCache removes the store in a directory for which OpenFollower returned ErrSeed. A crash leaves one for which it does
// so again.
func ClearCache(dir string, opts Options) error {
	e := newEngine(newStore(dir, opts.WithDefaults()))
	if err := e.takeLock(); err != nil {
		return err
	}
	cache, err := followable(dir, opts)
	var names []string
	switch {
	case cache:
		names, err = e.Opts.FS.List(dir)
	case err == nil:
		err = fault.ErrNotEmpty
	}
	for _, manifest := range []bool{false, true} { // which says so, last
		for _, n := range names {
			if err == nil && StoreFile(n) && snapshot.IsManifestName(n) == manifest {
				err = e.Opts.FS.Remove(filepath.Join(dir, n))
			}
		}
		if err == nil {
			err = e.Opts.FS.SyncDir(dir)
		}
	}
	return errors.Join(err, e.lock.Close())
}

// isCache reports whether the directory has the mark of a follower.
func (e *Engine) isCache() bool {
	f, err := e.Opts.FS.Open(filepath.Join(e.Dir, CacheName))
	return err == nil && f.Close() == nil
}

// ownDir removes the mark of a follower.
func (e *Engine) ownDir() error {
	if !e.isCache() {
		return nil
	}
	if err := e.Opts.FS.Remove(filepath.Join(e.Dir, CacheName)); err != nil {
		return err
	}
	return e.Opts.FS.SyncDir(e.Dir)
}

// follower applies what the bucket has to an open store, and knows how old that is. A nil one is of a store that does not follow.
type follower struct {
	e      *Engine
	o      Replica
	f      *replica.Follower // of who opens, then of run
	clock  func() time.Duration
	looked time.Duration   // when HEAD was looked at last, about
	retry  time.Duration   // when it may try to take over again
	pause  time.Duration   // see backOff
	leads  *replica.Leader // once it has taken over in the bucket; of who takes over, then of GiveBack

	stopRun context.CancelFunc
	work    sync.WaitGroup
	wake    chan struct{} // capacity 1: somebody waits

	mu      sync.Mutex
	at      replica.Position // up to here it has applied the lineage
	known   replica.Position // what HEAD said that there is
	mode    replica.Mode
	epoch   uint64
	heard   time.Duration // when the leader was known to be there, or to have left nothing behind
	trouble error         // of the last look
	refused error         // of the last try to take over, while the lease is free
	away    time.Duration // when the bucket stopped to answer; while problem is replica.ErrAway
	ended   error         // it goes on no more
	waiting int
	changed chan struct{} // closed when the above changes
}

func newFollower(e *Engine) *follower {
	w := &follower{e: e, o: e.Opts.Replica, clock: e.Opts.Replica.Clock, wake: make(chan struct{}, 1), changed: make(chan struct{})}
	if began := time.Now(); w.clock == nil {
		w.clock = func() time.Duration { return time.Since(began) }
	}
	return w
}

// open finds the place of the directory in the lineage, applies all that the bucket has, and begins to follow.
func (w *follower) open(cache bool) error {
	e, r := w.e, w.e.replica
	ctx := e.Opts.Opening
	if ctx == nil {
		ctx = context.Background()
	}
	m := e.manifest.State().Replica
	at := marked(m)
	r.ro = e.lineageOptions(m)
	var err error
	if r.local, err = e.chainFrom(at, m.ChainKey); err != nil {
		return err
	}
	err = r.insist(ctx, func() (err error) { w.f, err = replica.Follow(ctx, r.ro, r.local, at); return err })
	if err == nil {
		err = r.insist(ctx, func() error { return w.poll(ctx) })
	}
	if err == nil && r.local.End() > w.f.Position().LSN {
		err = errOwnTail
	}
	if err == nil {
		err = markCache(e.Opts.FS, e.Dir)
	}
	if err == nil && !m.Restored {
		at := w.f.Position()
		if err = e.SetLineage(at); err == nil { // it is another directory now
			r.ro = e.lineageOptions(e.manifest.State().Replica)
			err = r.insist(ctx, func() (err error) { w.f, err = replica.Follow(ctx, r.ro, r.local, at); return err })
		}
	}
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if !e.Opts.Inline {
		ctx, w.stopRun = context.WithCancel(context.Background())
		w.work.Go(func() { w.run(ctx) })
	}
	return nil
}

// run follows until ctx ends, or until it cannot go on.
func (w *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.poll(ctx); err != nil && ctx.Err() == nil {
			w.e.Opts.Logger.Warn("follow", "error", err)
		}
		w.mu.Lock()
		ended, pause := w.ended, w.o.Interval
		if w.waiting > 0 && w.trouble == nil {
			pause /= 10
		}
		w.mu.Unlock()
		if ended != nil {
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-w.wake:
			sleep(ctx, min(pause, w.o.Interval/10))
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// stop ends run.
func (w *follower) stop() {
	if w == nil {
		return
	}
	if w.stopRun != nil {
		w.stopRun()
	}
	w.work.Wait()
	w.tell(func() { w.ended = fault.ErrClosed })
}

// tell changes what others read, and wakes who waits for it.
func (w *follower) tell(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := errors.Is(w.problem(), replica.ErrAway)
	if change(); !was && errors.Is(w.problem(), replica.ErrAway) {
		w.away = w.clock()
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// problem is what the follower could not do last. mu is held, or the follower has stopped.
func (w *follower) problem() error {
	if w.trouble != nil {
		return w.trouble
	}
	return w.refused
}

// poll applies what the bucket has. It asks for the next chunk by its name, and for HEAD if that has changed.
func (w *follower) poll(ctx context.Context) error {
	err := w.catchUp(ctx)
	broken := err != nil && (w.e.log.Poison() != nil || w.e.replica.local.End() != w.e.Index.LSN())
	w.tell(func() {
		if w.trouble = err; broken || errors.Is(err, replica.ErrPointGone) || errors.Is(err, replica.ErrDiverged) {
			w.ended = err
			w.e.role.end(err)
		}
		if err == nil && w.f.Released() {
			w.heard = w.clock() // nobody commits until HEAD changes
		}
	})
	switch {
	case err != nil || w.e.RoleEnd() != nil:
	case w.f.May(w.takeOver()) != nil:
		w.tell(func() { w.refused = nil })
	case !w.e.Opts.TakeOver:
		w.e.role.end(ErrVacant)
	case w.stopRun != nil: // who opens it may still give the directory another name in the lineage
		w.succeed(ctx)
	}
	return err
}

// takeOver is how the follower would take over.
func (w *follower) takeOver() replica.TakeOver {
	return replica.TakeOver{Mode: w.o.Mode, LoseTail: w.o.AcceptLoss}
}

func (w *follower) catchUp(ctx context.Context) error {
	for {
		batches, err := w.f.Next(ctx)
		if err != nil || batches == nil {
			w.applied()
			w.looked = w.clock()
			return err
		}
		if batches[0].Cut {
			w.e.flushAtCut(ctx)
		}
		// Once it has begun, who waits for it must see its end.
		if err := w.e.ApplyBatches(context.WithoutCancel(ctx), batches); err != nil {
			return err
		}
		w.applied()
		w.e.nudge()
		if w.clock()-w.looked > w.o.Interval { // there is much, and the leader may be well
			w.looked = w.clock()
			if err := w.f.Look(ctx); err != nil {
				return err
			}
		}
	}
}

// applied says how far the store is, once it has what Next returned.
func (w *follower) applied() {
	local, at := w.e.replica.local, w.f.Position()
	w.tell(func() {
		if at.LSN <= local.End() {
			w.at = at
		}
		w.known, w.epoch, w.mode = w.f.Known(), w.f.Epoch(), w.f.Mode()
		w.heard = max(w.heard, w.clock()-w.f.Silence())
	})
	local.forget(min(w.at.LSN, local.End()))
}

// flushAtCut flushes the log where the leader has cut its own: later records hold no patches against values before, as flusher wants it.
// A follower flushes nowhere else.
func (e *Engine) flushAtCut(ctx context.Context) {
	if !e.Opts.Inline && e.throttle.loggedBytes() < e.Opts.FlushBytes/2 {
		return
	}
	if err := e.flusher.flushWithin(ctx); err != nil { // the log has everything; the next cut comes
		e.Opts.Logger.Warn("follow", "error", err)
	}
	select {
	case e.wakeCompact <- struct{}{}:
	default:
	}
}

// place is how far the store and the lineage are the same.
func (w *follower) place() replica.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// fresh returns ErrStale if the store may be older than Replica.MaxStale allows.
func (w *follower) fresh() error {
	if w.o.MaxStale < 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if age := w.clock() - w.heard; age > w.o.MaxStale {
		return fmt.Errorf("%w: %v, and %v is the most", fault.ErrStale, age.Round(time.Millisecond), w.o.MaxStale)
	}
	return nil
}

// Await returns when the store shows record lsn: at a follower, so that a caller reads what was written at the leader. Another
// store shows what was acknowledged, and Await returns an error for what was not.
func (e *Engine) Await(ctx context.Context, lsn base.LSN) error {
	if err := e.Enter(); err != nil {
		return err
	}
	defer e.Leave()
	if e.Index.LSN() >= lsn {
		return ctx.Err()
	}
	w := e.follower
	if w == nil {
		return fmt.Errorf("record %d: %w: the store ends at record %d, and follows no other", lsn, fault.ErrNotFound, e.Index.LSN())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting++
	defer func() { w.waiting-- }()
	for e.Index.LSN() < lsn {
		if w.ended != nil {
			return fmt.Errorf("record %d: %w", lsn, w.ended)
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case w.wake <- struct{}{}:
		default:
		}
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = fmt.Errorf("record %d is not here yet, but %d: %w", lsn, e.Index.LSN(), ctx.Err())
		}
		w.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Following returns why a follower follows no more; nil while it does, and for other stores until they are closed.
func (e *Engine) Following() error {
	if err := e.Enter(); err != nil {
		return err
	}
	defer e.Leave()
	if e.follower == nil {
		return nil
	}
	e.follower.mu.Lock()
	defer e.follower.mu.Unlock()
	return e.follower.ended
}

// judge judges the follower, for Health.
func (w *follower) judge(h *metrics.Health) {
	if w == nil {
		return
	}
	stale := w.fresh()
	w.mu.Lock()
	defer w.mu.Unlock()
	f := &metrics.Follower{LSN: uint64(w.e.Index.LSN()), Stamp: time.UnixMicro(w.at.Stamp).UTC(), Beat: w.clock() - w.heard}
	if w.known.LSN > w.at.LSN {
		f.Behind = time.Duration(max(w.known.Stamp-w.at.Stamp, 0)) * time.Microsecond
	}
	h.Replica = &metrics.Replica{Mode: string(w.mode), Epoch: w.epoch, Seeded: true, Follower: f}
	trouble := w.problem()
	if trouble != nil {
		h.Replica.Trouble = trouble.Error()
	}
	if errors.Is(trouble, replica.ErrAway) {
		f.Away = w.clock() - w.away
	}
	switch {
	case w.ended != nil:
		addProblem(h, metrics.TroubleReplica, metrics.StatusFailed, w.ended, "it follows no more: close it, and open it again: %v", w.ended)
	case stale != nil:
		addProblem(h, metrics.TroubleReplica, metrics.StatusFailed, stale, "%v", stale)
	case f.Away > 0:
		addProblem(h, metrics.TroubleReplica, metrics.StatusDegraded, trouble, "no answer for %v: %v", f.Away.Round(time.Millisecond), trouble)
	case trouble != nil:
		addProblem(h, metrics.TroubleReplica, metrics.StatusDegraded, trouble, "%v", trouble)
	}
}

// SetAside makes a directory of a lineage one that a follower makes anew, and keeps what it has and the bucket lacks in files there, as a
// take-over that finds it does; see TailName. It returns the first record that is saved; 0 if there is none.
func SetAside(ctx context.Context, dir string, opts Options) (base.LSN, error) {
	opts.follows, opts.ManualWork, opts.Opening = true, true, ctx
	e, err := Open(dir, opts)
	if err != nil {
		return 0, err
	}
	first, err := e.setAside(ctx)
	return first, errors.Join(err, e.Close())
}

func (e *Engine) setAside(ctx context.Context) (base.LSN, error) {
	w, r := e.follower, e.replica
	m := e.manifest.State().Replica
	if m == nil {
		return 0, fmt.Errorf("%w: the store there is in no lineage", replica.ErrDiverged)
	}
	at := marked(m)
	if m.Epoch > 0 {
		r.ro = e.lineageOptions(m)
		var err error
		if r.local, err = e.chainFrom(at, m.ChainKey); err != nil {
			return 0, err
		}
		if w.f, err = replica.Follow(ctx, r.ro, r.local, at); err == nil {
			var more []replica.Batch
			more, err = w.f.Next(ctx) // all that the log has, too, is behind it, or else not the lineage's
			at = w.f.Position()
			tail := err == nil && more == nil && r.local.End() > at.LSN ||
				errors.Is(err, replica.ErrPointGone) && r.local.End() > w.f.Known().LSN // retention has passed the mark
			if tail && w.f.Own() {
				return 0, errOwnTail // nobody has taken over: it leads again, and the bucket gets them
			}
		}
		if err != nil && !errors.Is(err, replica.ErrDiverged) && !errors.Is(err, replica.ErrPointGone) {
			return 0, err
		}
		if err := r.saveTail(at); err != nil {
			return 0, err
		}
	}
	first := base.LSN(0)
	if m.Epoch > 0 && r.local.End() > at.LSN {
		first = at.LSN + 1
	}
	err := markCache(e.Opts.FS, e.Dir)
	if err == nil {
		_, err = e.manifest.Apply(snapshot.Edit{Replica: &snapshot.Replica{Dir: e.newID(), Restored: true, ChainKey: m.ChainKey}})
	}
	return first, err
}
