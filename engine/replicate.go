package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Replica says where the log of a store is kept besides its directory, and what a commit waits for. The
// zero value is no replica.
type Replica struct {
	// Bucket is for this store alone. Nil: no replica.
	Bucket bucket.Bucket
	// Mode says when a commit is acknowledged: replica.Async, the default, as Options.Sync says, and the
	// bucket follows; replica.Bounded, the same, but while the bucket is further behind than MaxLag commits
	// wait; replica.Sync, when the bucket has it. The last needs wal.SyncAlways.
	Mode replica.Mode
	// Interval is the least time between two uploads in the modes Async and Bounded, unless somebody waits for one, as
	// SyncReplica does; default 1 s.
	Interval time.Duration
	// MaxLag is the age of the oldest record that the bucket does not have from which on commits wait in mode
	// Bounded; default 10 s.
	MaxLag time.Duration
	// Deadline is how long a commit waits for the bucket at most; default 30 s. In mode Sync it then has an
	// unknown outcome, which Sync settles, or none if it was still queued. In mode Bounded it is refused. Open waits as long
	// for a bucket that does not answer, all calls of it together, and for the call that is under way then.
	Deadline time.Duration
	// AcceptLoss lets Open take over from a leader in another directory that did not release its lease and did
	// not run in mode Sync: what it acknowledged last may be lost. A directory that was restored from the bucket
	// needs it not.
	AcceptLoss bool
	// LocalKeys: package pregel hands out keys of effects in the modes Async and Bounded when the disk of this machine has what
	// they rest on, and does not wait for the bucket. If the machine is lost then, the effect may be repeated with another key.
	LocalKeys bool
	// PointEvery is the least time between two points from which a restore can begin; default 1 h. Keep is for
	// how long any moment can be restored; default 7 days.
	PointEvery, Keep time.Duration
	// TTL is how long a leader's lease lasts; default 15 s.
	TTL time.Duration
	// MaxStale is for a follower: for how long it answers reads without news of the leader; then they fail with
	// fault.ErrStale. Default 60 s; negative: for ever. At a leader in mode Sync, which answers reads while it holds its lease,
	// negative lets it answer without: perhaps with what was before another took over.
	MaxStale time.Duration
	// Clock is a monotonic clock. For simulations only.
	Clock func() time.Duration

	impatient  bool // Open does not wait for the end of a lease: replica.ErrLeased
	queueBytes int  // memory for what the bucket does not have; 0: that of package replica
}

func (o *Replica) withDefaults() {
	def := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	if o.Mode == "" {
		o.Mode = replica.Async
	}
	def(&o.Interval, time.Second)
	def(&o.MaxLag, 10*time.Second)
	def(&o.Deadline, 30*time.Second)
	def(&o.PointEvery, time.Hour)
	def(&o.Keep, 7*24*time.Hour)
	def(&o.TTL, 15*time.Second)
	def(&o.MaxStale, time.Minute)
}

// check refuses options that contradict each other.
func (o *Replica) check(sync wal.Mode, readOnly bool) error {
	if o.Bucket == nil {
		return nil
	}
	switch o.Mode {
	case "", replica.Async, replica.Bounded:
	case replica.Sync:
		if sync != wal.SyncAlways {
			return fmt.Errorf("a replica in mode %s needs syncs in mode %s: the bucket gets what is durable", o.Mode, wal.SyncAlways)
		}
	default:
		return fmt.Errorf("unknown mode %q of a replica", o.Mode)
	}
	if readOnly {
		return errors.New("a store that is only read does not write to a bucket")
	}
	if min(o.Interval, o.MaxLag, o.Deadline, o.PointEvery, o.Keep, o.TTL) < 0 {
		return errors.New("a time of the replica is negative")
	}
	return nil
}

// releaseTimeout is replication.patience, but in tests.
const releaseTimeout = 10 * time.Second

// replication leads the lineage of an open store. docs/adr/0025-engine-replicates.md has the whole.
//
// The log gives it each record once, in order, when it is durable (given), and in wal.SyncAlways before
// anybody sees it. It hands them to the leader at once, unless the leader has no room: then the log files
// have them, and feed reads them there. So memory is bounded, and a commit in mode Async never waits. In
// mode Sync given waits for the bucket. Callers do not wait longer than Replica.Deadline; those
// behind them wait in the queue of the log.
//
// A log file is removed once the bucket has its records: see keep.
type replication struct {
	e     *Engine
	o     Replica
	ro    replica.Options
	local *localChain      // until the leader leads; then nil
	same  replica.Position // up to where log and lineage were found to be the same

	leader     *replica.Leader
	found      base.LSN        // the last record when it began to lead; a leader before it may have acknowledged it
	ctx        context.Context // of all that waits for the bucket; ended by Close
	cancel     context.CancelFunc
	points     context.Context // of making points, and of what is not in the log yet; Close ends it first
	stopPoints context.CancelFunc
	work       sync.WaitGroup
	seeded     chan struct{} // closed when the bucket has a point
	nudge      chan struct{} // capacity 1: segments were published

	clock func() time.Duration // monotonic

	waited   time.Duration // by Open, for a bucket that does not answer
	toldAway bool          // Open has logged that

	patience  time.Duration // how long Close waits for the bucket
	pointWait time.Duration // how long a point does: Replica.Deadline

	making      sync.Mutex // held while a point is made; guards the next four
	pointsTried int
	pointLSN    base.LSN          // where the newest point ends
	lastPoint   time.Duration     // when it was made, about, by clock
	stored      map[string]string // keys of files that are in no point yet, because it failed, by what they are; see pointUpload

	cut atomic.Uint64 // the first record behind the last cut of a flush

	mu      sync.Mutex
	given   base.LSN      // the last record that the log gave
	fed     bool          // the leader has all that was given; else feed works
	hungry  chan struct{} // capacity 1: fed is false
	ages    []aged        // of what the bucket does not have, oldest first
	trouble error         // of what is done in the background; nil if it succeeded last
}

// aged says that the records up to last, and behind those of the entry before, were given at since or later.
type aged struct {
	last  base.LSN
	since time.Time
}

// ageStep is how exact ages are, while there are fewer than mostAges.
const (
	ageStep  = 100 * time.Millisecond
	mostAges = 4096
)

func newReplication(e *Engine) *replication {
	r := &replication{e: e, o: e.Opts.Replica, seeded: make(chan struct{}), nudge: make(chan struct{}, 1), hungry: make(chan struct{}, 1),
		stored: map[string]string{}, patience: releaseTimeout, pointWait: e.Opts.Replica.Deadline, clock: e.Opts.Replica.Clock}
	if began := time.Now(); r.clock == nil {
		r.clock = func() time.Duration { return time.Since(began) }
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.points, r.stopPoints = context.WithCancel(r.ctx)
	return r
}

// give is wal.Options.Replicate.
func (r *replication) give(first base.LSN, records [][]byte) error {
	if r.leader == nil {
		return nil // they came from the lineage
	}
	last := first + base.LSN(len(records)) - 1
	for len(records) > 0 {
		batches, n := r.batch(first, records)
		if err := r.append(batches, first+base.LSN(n)-1); err != nil {
			return err
		}
		first, records = first+base.LSN(n), records[n:]
	}
	if r.o.Mode != replica.Sync {
		return nil
	}
	return r.await(r.ctx, last)
}

// givenBytes is how many bytes of records the leader gets at once at most, unless one record has more: far less than replica.MaxBatch.
const givenBytes = 64 << 20

// batch makes batches of the first n records, which may be all of a large log file. As in readBatches, one has the commits of one time.
func (r *replication) batch(first base.LSN, records [][]byte) (batches []replica.Batch, n int) {
	cut := base.LSN(r.cut.Load())
	from := 0 // where the last batch begins
	for size := 0; n < len(records) && (n == 0 || size+len(records[n]) <= givenBytes); n++ {
		size += len(records[n])
		lsn, stamp := first+base.LSN(n), recordTime(records[n])
		if n == 0 || lsn == cut || stamp != batches[len(batches)-1].Stamp {
			from = n
			batches = append(batches, replica.Batch{First: lsn, Stamp: stamp, Cut: lsn == cut})
		}
		batches[len(batches)-1].Records = records[from : n+1 : n+1]
	}
	return batches, n
}

// append gives batches to the leader. If that has no room, feed reads them from the log later.
func (r *replication) append(batches []replica.Batch, last base.LSN) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given = last
	r.age(last)
	if r.leader.Lost() { // it may have no room for the batch, and acknowledges nothing all the same
		return replica.ErrFenced
	}
	if !r.fed {
		return nil
	}
	err := r.leader.Append(batches...)
	if errors.Is(err, replica.ErrBacklog) {
		r.starve()
		return nil
	}
	return err
}

// age notes when records were given, in bounded memory however long the bucket is away. mu is held.
func (r *replication) age(last base.LSN) {
	r.forgetAges()
	n := len(r.ages)
	if n > 0 && time.Since(r.ages[n-1].since) < ageStep {
		r.ages[n-1].last = last
		return
	}
	if n == mostAges {
		for i := range n / 2 { // of two, the older time counts for both
			r.ages[i] = aged{r.ages[2*i+1].last, r.ages[2*i].since}
		}
		r.ages = r.ages[:n/2]
	}
	r.ages = append(r.ages, aged{last, time.Now()})
}

// forgetAges drops the ages of what the bucket has, and returns up to where that is. mu is held.
func (r *replication) forgetAges() base.LSN {
	synced := r.leader.Synced()
	for len(r.ages) > 0 && r.ages[0].last <= synced {
		r.ages = r.ages[1:]
	}
	return synced
}

// starve leaves what was given to feed. mu is held.
func (r *replication) starve() {
	r.fed = false
	select {
	case r.hungry <- struct{}{}:
	default:
	}
}

// await waits until the bucket has a record.
func (r *replication) await(ctx context.Context, lsn base.LSN) error {
	if r.e.Opts.Inline {
		return r.pump(ctx, lsn)
	}
	return r.leader.Wait(ctx, lsn)
}

// pump uploads on the caller's goroutine until the bucket has a record, in a simulation. After an error it
// gives up, as if the process had been killed then.
func (r *replication) pump(ctx context.Context, lsn base.LSN) error {
	for tries := 0; r.leader.Synced() < lsn; {
		did, err := r.leader.Upload(ctx)
		switch {
		case errors.Is(err, replica.ErrFenced) && !did:
			return replica.ErrFenced
		case err == nil && !did, err != nil && tries >= 3:
			return r.leader.Wait(ended(), lsn)
		case err != nil:
			tries++
		}
	}
	return nil
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// admit holds up a commit before the log has it: while the bucket has no point, in mode Sync; while it is
// too far behind, in mode Bounded. The context that it returns bounds the rest of the commit.
// Errors say that nothing was written.
func (r *replication) admit(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if r == nil {
		return ctx, func() {}, nil
	}
	if r.leader == nil {
		return ctx, nil, fault.ErrReadOnly
	}
	if err := r.lost(); err != nil {
		return ctx, nil, err
	}
	if r.o.Mode == replica.Async {
		return ctx, func() {}, nil
	}
	within, cancel := context.WithTimeout(ctx, r.o.Deadline)
	var err error
	if r.o.Mode == replica.Sync {
		select {
		case <-r.seeded:
			return within, cancel, nil
		case <-within.Done():
			err = replica.ErrSeeding
		case <-r.points.Done():
			err = fault.ErrClosed
		}
	}
	for err == nil && r.lag().Age > r.o.MaxLag {
		switch err = r.lost(); {
		case err != nil:
		case r.points.Err() != nil:
			err = fault.ErrClosed
		case within.Err() != nil:
			err = replica.ErrBacklog
		}
		sleep(within, ageStep/10)
	}
	if err == nil && r.o.Mode == replica.Bounded {
		cancel() // what follows does not wait for the bucket
		return ctx, func() {}, nil
	}
	cancel()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return ctx, nil, err
}

// SyncReplica is Sync, and returns when the bucket has all that Sync makes durable, in every mode; without a replica it is Sync. It
// waits for Replica.Deadline at most. Errors: those of Sync; ErrFenced: another leads, and the bucket never gets all; ErrOutcomeUnknown:
// it may get it yet; and then replica.ErrSeeding, too, if nothing can be restored from the bucket yet, whatever it has;
// fault.ErrBucketAway: the store is only read, and may show what the bucket lacks.
func (e *Engine) SyncReplica(ctx context.Context) error {
	if e.Away() {
		return fault.ErrBucketAway
	}
	if err := e.Sync(ctx); err != nil || e.replica == nil || e.MayWrite() != nil {
		return err
	}
	if err := e.Enter(); err != nil {
		return err
	}
	defer e.Leave()
	return e.replica.awaitAll(ctx)
}

// awaitAll waits until all that the log has can be restored from the bucket, for Replica.Deadline at most, and until Close.
func (r *replication) awaitAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.Deadline)
	defer cancel()
	defer context.AfterFunc(r.points, cancel)()
	lsn := r.e.log.LastLSN() // what is committed meanwhile is not waited for
	select {
	case <-r.seeded: // else there is no point from which the records could be applied
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", fault.ErrOutcomeUnknown, replica.ErrSeeding)
	}
	return r.await(ctx, lsn)
}

// current returns nil once the lease is held, which says that nobody else led at that moment: so a read that begins before, and
// looks at the store behind it, misses nothing that any leader had acknowledged when it began. No clock but the own one is
// asked; see replica.Leader.Holds. A read waits for the lease as a commit waits for the bucket: up to Replica.Deadline.
//
// Errors: ErrFenced, fault.ErrStale, ErrClosed, that of ctx.
func (r *replication) current(ctx context.Context) error {
	if r.leader == nil || r.leader.Holds() {
		return nil // nil: Open reads
	}
	within, cancel := context.WithTimeout(ctx, r.o.Deadline)
	defer cancel()
	defer context.AfterFunc(r.points, cancel)()
	for {
		err := r.leader.Current(within)
		switch {
		case err == nil, errors.Is(err, replica.ErrFenced):
			return err
		case r.points.Err() != nil:
			return fault.ErrClosed
		case ctx.Err() != nil:
			return ctx.Err()
		case within.Err() != nil, r.e.Opts.Inline: // in a simulation it tries once
			return fmt.Errorf("%w: it leads, and its lease has ended: %v", fault.ErrStale, err) // err may say that within has ended, which is no deadline of the caller
		}
		sleep(within, min(r.o.TTL/10, time.Second))
	}
}

// lost returns ErrFenced once another leader has taken over.
func (r *replication) lost() error {
	if r.leader.Lost() {
		return fmt.Errorf("nothing was written: %w", replica.ErrFenced)
	}
	return nil
}

// lag says how far the bucket is behind.
func (r *replication) lag() (l metrics.Lag) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if synced := r.forgetAges(); len(r.ages) > 0 {
		l.Records, l.Age = uint64(r.given-min(synced, r.given)), time.Since(r.ages[0].since)
	}
	return l
}

// mark is what the manifest says of the lineage: as far as the bucket has it.
func (r *replication) mark(at replica.Position) *snapshot.Replica {
	m := *r.e.manifest.State().Replica
	if r.leader != nil {
		m.Restored, m.Ahead = false, r.o.Mode != replica.Sync || m.Ahead && at.LSN < r.found
	}
	m.LSN, m.Stamp, m.Epoch, m.Seq, m.Chain = at.LSN, at.Stamp, at.Epoch, at.Seq, at.Chain
	return &m
}

// marked is the place in the lineage that a manifest names.
func marked(m *snapshot.Replica) replica.Position {
	return replica.Position{LSN: m.LSN, Stamp: m.Stamp, Epoch: m.Epoch, Seq: m.Seq, Chain: m.Chain}
}

// place is how far the log and the bucket are known to be the same; its Epoch is 0 before that is known.
func (r *replication) place() replica.Position {
	if r.leader != nil {
		return r.leader.SyncedAt()
	}
	return r.e.follower.place()
}

// cutBehind notes that no record behind one holds a patch against a value that is not. The next chunk says so, unless the record
// behind it was given already.
func (r *replication) cutBehind(lsn base.LSN) {
	if r != nil {
		r.cut.Store(uint64(lsn) + 1)
	}
}

// keep returns the mark for an edit of the manifest, and those log files of a flush that the bucket has,
// which the edit may remove. A file goes once all of its records are up to the mark: from the mark on, the
// log is what the chain of the lineage is computed from, and what feed reads.
func (r *replication) keep(st snapshot.State, finished []base.FileNum) (*snapshot.Replica, []base.FileNum) {
	if r == nil || r.leader == nil && r.e.follower == nil {
		return nil, finished
	}
	at := r.place()
	if at.Epoch == 0 {
		return nil, nil
	}
	m := r.mark(at)
	for i := range finished { // which are the first of st.Logs
		last := r.e.log.LastLSN()
		if i+1 < len(st.Logs) {
			last = st.Logs[i+1].BaseLSN - 1
		}
		if last > m.LSN {
			return m, finished[:i]
		}
	}
	return m, finished
}

// start begins the work in the background.
func (r *replication) start() {
	if r.e.Opts.Inline {
		return
	}
	r.work.Go(func() {
		_ = r.leader.Run(r.ctx) // what ended it, the next one waits for
	})
	r.work.Go(func() { // a leader whose chunks do not get through may still read that another leads
		if errors.Is(r.leader.AwaitLoss(r.ctx), replica.ErrFenced) && r.points.Err() == nil {
			r.e.Opts.Logger.Error("replica", "error", replica.ErrFenced)
			r.e.role.end(replica.ErrFenced)
		}
	})
	r.work.Go(func() {
		for r.ctx.Err() == nil {
			r.note(r.feed(r.ctx))
			select {
			case <-r.hungry:
			case <-r.ctx.Done():
			}
		}
	})
}

// published says that a flush or a compaction was made: a moment for a point.
func (r *replication) published() {
	if r == nil {
		return
	}
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// note keeps the error of work in the background, and waits a while after one.
func (r *replication) note(err error) {
	r.mu.Lock()
	r.trouble = err
	r.mu.Unlock()
	if err != nil && r.points.Err() == nil {
		r.e.Opts.Logger.Warn("replica", "error", err)
		sleep(r.ctx, time.Second)
	}
}

// lockedFeed is how many records feed gives while nobody commits; see feed.
const lockedFeed = 10_000

// feed gives the leader, from the log files, what it does not have, until it has all.
//
// While commits go on, each pass over the log leaves what came meanwhile. So once little is left, the last pass
// holds them up.
func (r *replication) feed(ctx context.Context) error {
	for {
		r.mu.Lock()
		given, end := r.given, r.leader.End().LSN
		if given == end {
			r.fed = true
		}
		if r.fed {
			r.mu.Unlock()
			return nil
		}
		last := given-end <= lockedFeed && !r.e.Opts.Inline
		if !last {
			r.mu.Unlock()
		}
		err := r.feedTo(ctx, given, last)
		if last {
			r.mu.Unlock()
		}
		if errors.Is(err, replica.ErrBacklog) {
			err = r.room(ctx)
		}
		if err != nil {
			r.mu.Lock()
			r.starve()
			r.mu.Unlock()
			return err
		}
	}
}

// feedTo gives the leader the records up to one. With now it does not wait: ErrBacklog.
func (r *replication) feedTo(ctx context.Context, to base.LSN, now bool) error {
	return r.e.readBatches(r.leader.End().LSN+1, to, func(b replica.Batch) error {
		for {
			err := r.leader.Append(b)
			if !errors.Is(err, replica.ErrBacklog) || now {
				return err
			}
			if err := r.room(ctx); err != nil {
				return err
			}
		}
	})
}

// room waits until the bucket has one more of the records that the leader was given, so that there is room for others. It has
// all of them if uploads ended meanwhile, and then nobody but feed would give it another one.
func (r *replication) room(ctx context.Context) error {
	return r.await(ctx, min(r.leader.Synced()+1, r.leader.End().LSN))
}

// closing makes what waits for the bucket give up after a while, so that Close ends. While nothing does, Close may take
// longer, and gives the lease back at its end.
func (r *replication) closing() {
	if r == nil || r.leader == nil {
		return
	}
	r.stopPoints()
	r.work.Go(func() { // until stop
		for wait := r.patience; wait > 0 && r.ctx.Err() == nil; wait = r.patience - r.lag().Age {
			sleep(r.ctx, wait)
		}
		r.cancel()
	})
}

// close gives the lease back, if the bucket gets all in time, and ends the work. The log is closed. It
// returns the mark for the manifest; nil: it stays. log is the error of closing the log.
func (r *replication) close(log error) *snapshot.Replica {
	if r == nil || r.leader == nil {
		m, _ := r.keep(snapshot.State{}, nil)
		return m
	}
	defer r.stop()
	ctx, cancel := context.WithTimeout(r.ctx, r.patience)
	defer cancel()
	err := log
	for err == nil && !r.hasAll() { // to release says that nothing is lost
		if r.e.Opts.Inline {
			err = r.feed(ctx)
		} else {
			sleep(ctx, ageStep/10)
			if err = ctx.Err(); r.leader.Lost() {
				err = replica.ErrFenced
			}
		}
	}
	if err == nil && r.e.Opts.Inline {
		err = r.pump(ctx, r.given)
	}
	if err == nil {
		err = r.leader.Release(ctx)
	}
	if err != nil {
		r.e.Opts.Logger.Warn("the bucket may not have all", "error", err, "records", r.given-r.leader.Synced())
	}
	return r.mark(r.leader.SyncedAt())
}

// hasAll reports whether the leader has all that was given.
func (r *replication) hasAll() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fed
}

// stop ends the work in the background.
func (r *replication) stop() {
	if r == nil {
		return
	}
	r.cancel()
	r.work.Wait()
}

// grace is for how long the bucket may lack a record that it could have, before somebody is to look.
func (r *replication) grace() time.Duration {
	if r.o.Mode == replica.Bounded {
		return max(lagGrace, r.o.MaxLag)
	}
	return lagGrace
}

// judge judges the replica, for Health.
func (r *replication) judge(h *metrics.Health) {
	if r == nil || r.leader == nil {
		return
	}
	m := &metrics.Replica{Mode: string(r.o.Mode), Epoch: r.leader.Epoch(), Lag: r.lag()}
	select {
	case <-r.seeded:
		m.Seeded = true
	default:
	}
	h.Replica = m
	r.mu.Lock()
	trouble := r.trouble
	r.mu.Unlock()
	if trouble == nil {
		trouble = r.leader.Trouble()
	}
	if trouble != nil {
		m.Trouble = trouble.Error()
	}
	switch {
	case r.leader.Lost() && r.points.Err() == nil: // Close gives up the lead, too
		addProblem(h, metrics.TroubleReplica, metrics.StatusFailed, replica.ErrFenced, "%v", replica.ErrFenced)
	case trouble != nil:
		addProblem(h, metrics.TroubleReplica, metrics.StatusDegraded, trouble, "%v", trouble)
	case m.Lag.Age > r.o.Interval+r.grace():
		addProblem(h, metrics.TroubleReplica, metrics.StatusDegraded, nil, "%d records are not in the bucket after %v", m.Lag.Records,
			m.Lag.Age.Round(time.Millisecond))
	}
}
