package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// Leader appends to a lineage. The package comment has the protocol.
//
// A Leader runs nothing by itself. Run does: it calls Upload from a few goroutines and Renew from
// one, until its context ends. All methods may be called concurrently, but Append, whose calls
// follow one another.
type Leader struct {
	o     Options
	epoch uint64
	lease *lease

	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, when Wait or an upload may go on
	end     Position      // of what was appended
	synced  Position      // of what the lineage has
	queue   []queued      // in no chunk yet
	queued  int           // bytes of the records in queue
	held    int           // memory of queue and flights
	flights []*flight     // chunks from synced.Seq on, in order
	lastCut time.Duration
	wanted  base.LSN // the last record that somebody has waited for
	// lost is the first LSN that the lineage will not have from this leader; 0: none.
	lost    base.LSN
	unsure  base.LSN // the first one that only the next leader knows of; 0: none
	closed  bool     // Run has ended
	trouble error    // of the last call of the bucket

	renewing chan struct{} // capacity 1: held by the caller of Current that renews
	// Of Retain and CreatePoint, which do not run at the same time:
	pins    map[string]pinSeen
	dropped map[string]bool // the files that Retain has deleted, or tried to
	points  uint64          // how many it made
}

// queued is a batch that waits, with the chain before and behind it.
type queued struct {
	batch         Batch
	before, after Chain
	size          int // of its records
}

// memory is about what a batch takes.
func (q *queued) memory() int { return 100 + q.size + 32*len(q.batch.Records) }

// flight is a chunk that may be in the bucket.
type flight struct {
	header  header
	batches []Batch
	memory  int
	body    []byte // once it is encoded; it never changes
	busy    bool   // an upload works at it
	landed  bool   // the bucket has it, byte for byte
}

func newLeader(o Options, hold *lease, at Position) *Leader {
	return &Leader{o: o, epoch: at.Epoch, lease: hold, changed: make(chan struct{}), end: at, synced: at,
		lastCut: o.Clock() - o.Interval, renewing: make(chan struct{}, 1), pins: map[string]pinSeen{}, dropped: map[string]bool{}}
}

// Epoch is the number of this leader's reign.
func (l *Leader) Epoch() uint64 { return l.epoch }

// End is the place behind the last record that was appended.
func (l *Leader) End() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Synced is the last record that the lineage has, whoever leads next.
func (l *Leader) Synced() base.LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced.LSN
}

// SyncedAt is the place behind the last record that no later leader can lose.
func (l *Leader) SyncedAt() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced
}

// Lost reports whether there are records that this leader will not bring into the lineage: it takes none any more.
func (l *Leader) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost > 0
}

// Trouble is the error of the last upload or renewal; nil if it succeeded.
func (l *Leader) Trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// Holds reports whether nobody else can have taken over yet, by this machine's clock. A read at
// the leader is current if Holds is true after it began. A clock that runs up to 20 % slower than
// others' is allowed for; a machine that was suspended is not.
func (l *Leader) Holds() bool { return l.lease.holds() }

// Current returns nil if nobody else led at some moment after it was called: what this leader shows from then on is not older
// than the call. If the lease is not held it renews it, once for all callers that wait. Errors: ErrFenced; those of the
// bucket and of ctx, and then another call may succeed.
func (l *Leader) Current(ctx context.Context) error {
	if l.Holds() {
		return nil
	}
	select {
	case l.renewing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.renewing }()
	if l.Holds() {
		return nil // another caller has renewed it
	}
	if err := l.Renew(ctx); err != nil {
		return err
	}
	if !l.Holds() {
		return errLeaseLate
	}
	return nil
}

// errLeaseLate: a renewal took longer than the lease that it gave.
var errLeaseLate = errors.New("the bucket answered when the lease had ended")

// wake is called with mu held.
func (l *Leader) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Append takes batches, of which the first follows the last record, and each the one before: together, so that no chunk is cut of
// some while there is room for all. A stamp below the last one is raised to it. Append does not wait.
//
// Errors: ErrFenced; ErrBacklog, and the caller waits for Synced to grow; fault.ErrTooLarge. In
// all cases nothing was taken.
func (l *Leader) Append(batches ...Batch) error {
	end := l.End()
	var queue []queued
	memory, bytes := 0, 0
	for _, b := range batches {
		size := 0
		for _, r := range b.Records {
			size += len(r)
		}
		if size > MaxBatch || len(b.Records) > maxRecords {
			return fmt.Errorf("a batch of %d records and %d bytes: %w", len(b.Records), size, fault.ErrTooLarge)
		}
		if b.First != end.LSN+1 || len(b.Records) == 0 {
			return fmt.Errorf("a batch of %d records from %d on does not follow record %d", len(b.Records), b.First, end.LSN)
		}
		b.Stamp = max(b.Stamp, end.Stamp)
		q := queued{batch: b, before: end.Chain, size: size}
		q.after = chainOf(q.before, l.o.ChainKey, []Batch{b}, b.Last())
		end.LSN, end.Chain, end.Stamp = b.Last(), q.after, b.Stamp
		queue, memory, bytes = append(queue, q), memory+q.memory(), bytes+size
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost > 0:
		return ErrFenced
	case l.held > 0 && l.held+memory > l.o.QueueBytes:
		return ErrBacklog
	}
	l.end.LSN, l.end.Chain, l.end.Stamp = end.LSN, end.Chain, end.Stamp
	l.queue = append(l.queue, queue...)
	l.queued += bytes
	l.held += memory
	l.wake()
	return nil
}

// Wait returns nil once the lineage has record lsn, or ErrFenced once it is certain that this leader
// never brings it there: a caller who tells others so sets the record aside first, and appends it
// never again. If ctx or Run ends before, it returns fault.ErrOutcomeUnknown: a later Wait, or the
// next take-over, settles it. So it does if a later leader has deleted all chunks up to there. What somebody waits for is
// sent at once, whatever Options.Interval is.
func (l *Leader) Wait(ctx context.Context, lsn base.LSN) error {
	l.mu.Lock()
	if lsn > l.wanted {
		l.wanted = lsn
		l.wake()
	}
	l.mu.Unlock()
	return l.await(ctx, lsn)
}

// AwaitLoss waits until this leader is Lost, and returns ErrFenced then. If ctx or Run ends before, it returns
// fault.ErrOutcomeUnknown. It hastens nothing.
func (l *Leader) AwaitLoss(ctx context.Context) error { return l.await(ctx, base.MaxLSN) }

// await is Wait for who hastens nothing.
func (l *Leader) await(ctx context.Context, lsn base.LSN) error {
	for {
		l.mu.Lock()
		changed, closed := l.changed, l.closed
		synced, lost, unsure := l.synced.LSN >= lsn, l.lost > 0 && lsn >= l.lost, l.unsure > 0 && lsn >= l.unsure
		l.mu.Unlock()
		switch {
		case synced:
			return nil
		case lost:
			return ErrFenced
		case unsure:
			return errBelowFloor
		case closed:
			return fmt.Errorf("%w: the leader has stopped", fault.ErrOutcomeUnknown)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: the bucket has not answered: %w", fault.ErrOutcomeUnknown, ctx.Err())
		}
	}
}

// Upload sends one chunk, or settles what became of one, and reports whether there was any. The
// error is ErrFenced if there is nothing left to do for this leader; after others it is called
// again, a little later.
func (l *Leader) Upload(ctx context.Context) (bool, error) {
	f, err := l.take()
	if f == nil {
		return false, err
	}
	err = l.send(ctx, f)
	l.settle(f, err)
	return true, err
}

// take chooses the oldest chunk that nobody works at, or cuts one.
func (l *Leader) take() (*flight, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.flights {
		if !f.busy && !f.landed {
			f.busy = true
			return f, nil
		}
	}
	switch {
	case l.lost > 0 && len(l.flights) == 0:
		return nil, ErrFenced
	case l.lost > 0 || len(l.queue) == 0 || l.early() > 0 && l.queued < l.o.ChunkBytes:
		return nil, nil
	}
	l.flights = append(l.flights, l.cut())
	return l.flights[len(l.flights)-1], nil
}

// due is when an upload that found nothing to do need look again, unless it is woken.
func (l *Leader) due() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return l.o.TTL
	}
	return max(l.early(), time.Millisecond)
}

// early is for how long the queue need not be sent yet, unless it is large: nobody waits for it. mu is held.
func (l *Leader) early() time.Duration {
	if l.queue[0].batch.First <= l.wanted {
		return 0
	}
	return l.lastCut + l.o.Interval - l.o.Clock()
}

// cut makes the next chunk, from whole batches.
func (l *Leader) cut() *flight {
	n, size, records := 0, 0, 0
	f := &flight{busy: true}
	for _, q := range l.queue {
		size, records = size+q.size, records+len(q.batch.Records)
		if n > 0 && (size > l.o.ChunkBytes || records > maxRecords || q.batch.Cut) {
			break
		}
		n++
		l.queued -= q.size
		f.memory += q.memory()
		f.batches = append(f.batches, q.batch)
	}
	first, last := l.queue[0], l.queue[n-1]
	f.header = header{store: l.o.Store, epoch: l.epoch, seq: l.synced.Seq + uint64(len(l.flights)),
		first: first.batch.First, last: last.batch.Last(), firstStamp: first.batch.Stamp, lastStamp: last.batch.Stamp,
		before: first.before, after: last.after}
	if first.batch.Cut {
		f.header.flags = flagCut
	}
	clear(l.queue[:n])
	l.queue = l.queue[n:]
	l.lastCut = l.o.Clock()
	return f
}

// errBelowFloor: a fence stands where a chunk should, and a later leader deletes chunks there. So the
// chunk may have been in the lineage before: a fence that a take-over put may come late.
var errBelowFloor = fmt.Errorf("%w: a later leader keeps nothing up to there", fault.ErrOutcomeUnknown)

// send puts a chunk, or finds it there. ErrFenced: something else stands there, and the chunk never
// did; errBelowFloor: it may have.
func (l *Leader) send(ctx context.Context, f *flight) (err error) {
	if f.header.seq > maxSeq {
		return fmt.Errorf("epoch %d is full: the store must be opened again", l.epoch)
	}
	if f.body == nil {
		if f.body, err = encodeChunk(f.header, f.batches, l.o.Keys); err != nil {
			return err
		}
		f.batches = nil
	}
	key := chunkKey(l.epoch, f.header.seq)
	found, err := l.o.create(ctx, key, f.body)
	if found == nil {
		return err
	}
	if _, _, err := decodeChunk(key, l.o.Store, found, l.o.Keys); errors.Is(err, fault.ErrCorrupt) {
		return err // it may be the own one
	}
	h, err := l.o.readHead(ctx)
	switch {
	case err != nil:
		return err
	case h.Floor.LSN >= f.header.first:
		return errBelowFloor
	}
	return ErrFenced
}

// settle notes what became of a chunk. A record is acknowledged only if its chunk has landed and
// so have all before it: a later one may land though a fence stands at an earlier number.
func (l *Leader) settle(f *flight, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.wake()
	f.busy, f.landed, l.trouble = false, err == nil, err
	if errors.Is(err, ErrFenced) {
		l.loseFrom(f.header.first)
		return
	}
	if errors.Is(err, errBelowFloor) {
		if l.unsure == 0 || l.unsure > f.header.first {
			l.unsure = f.header.first
		}
		l.loseFrom(l.flights[len(l.flights)-1].header.last + 1)
		l.held -= f.memory
		l.flights = slices.DeleteFunc(l.flights, func(g *flight) bool { return g == f })
	}
	for len(l.flights) > 0 && l.flights[0].landed {
		f := l.flights[0]
		l.flights[0] = nil
		l.flights = l.flights[1:]
		l.held -= f.memory
		if l.unsure == 0 || f.header.first < l.unsure {
			l.synced = f.header.end()
		}
	}
}

// loseFrom drops all from an LSN on. mu is held.
func (l *Leader) loseFrom(lsn base.LSN) {
	if l.lost > 0 && l.lost <= lsn {
		return
	}
	l.lost = lsn
	l.queue, l.queued, l.held = nil, 0, 0
	l.flights = slices.DeleteFunc(l.flights, func(f *flight) bool { return f.header.first >= lsn })
	for _, f := range l.flights {
		l.held += f.memory
	}
}

// Renew renews the lease, and tells HEAD how far the lineage has come. ErrFenced: another leader
// has taken over, so nothing more is sent; chunks that were are settled by Upload.
func (l *Leader) Renew(ctx context.Context) error {
	return l.update(ctx, func(*head) {})
}

// update changes HEAD.
func (l *Leader) update(ctx context.Context, change func(*head)) error {
	err := l.lease.update(ctx, func(h *head) {
		l.mu.Lock()
		h.End = l.synced
		l.mu.Unlock()
		change(h)
	})
	l.mu.Lock()
	l.trouble = err
	l.mu.Unlock()
	if errors.Is(err, ErrFenced) {
		l.stop()
	}
	return err
}

// stop ends what can be ended for certain: records that are in no chunk.
func (l *Leader) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.synced.LSN + 1
	if n := len(l.flights); n > 0 {
		next = l.flights[n-1].header.last + 1
	}
	l.loseFrom(next)
	l.wake()
}

// SetMode says in HEAD how this leader acknowledges. It returns before the first acknowledgement
// of mode Async or Bounded, and for Sync it waits until the lineage has all that was appended:
// until then HEAD has the old mode. So a follower that obeys HEAD knows what may be lost. From the
// call with Sync on, the caller acknowledges nothing that Wait has not returned nil for.
func (l *Leader) SetMode(ctx context.Context, mode Mode) error {
	if err := mode.check(); err != nil {
		return err
	}
	if mode == Sync {
		if err := l.Wait(ctx, l.End().LSN); err != nil {
			return err
		}
	}
	return l.update(ctx, func(h *head) { h.Mode = mode })
}

// Release waits until the lineage has all that was appended, and gives the lease back, so that a
// successor need not wait for its end. Nothing is appended meanwhile nor afterwards, and Run ends
// with ErrFenced. If it fails, the lease ends by itself.
func (l *Leader) Release(ctx context.Context) error {
	if err := l.Wait(ctx, l.End().LSN); err != nil {
		return err
	}
	l.stop()
	l.lease.expire()
	return l.update(ctx, func(h *head) { h.Released = true })
}

// uploads is how many chunks are on their way at a time.
const uploads = 4

// Run uploads chunks and renews the lease until ctx ends, or until another leader has taken over
// and all chunks on their way are settled: ErrFenced. It ends with all its goroutines. What is
// not settled then has an unknown outcome.
func (l *Leader) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	for range uploads {
		work.Go(func() { cancel(l.uploadAll(ctx)) })
	}
	work.Go(func() { l.renewAll(ctx) })
	work.Wait()
	cancel(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
	return context.Cause(ctx)
}

// uploadAll uploads until it is fenced or ctx ends.
func (l *Leader) uploadAll(ctx context.Context) error {
	for ctx.Err() == nil {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		did, err := l.Upload(ctx)
		switch {
		case errors.Is(err, ErrFenced):
			if !did {
				return ErrFenced
			}
		case err != nil:
			pause(ctx, min(l.o.TTL/10, time.Second), nil)
		case !did:
			pause(ctx, l.due(), changed)
		}
	}
	return ctx.Err()
}

// renewAll renews the lease three times in its TTL.
func (l *Leader) renewAll(ctx context.Context) {
	for ctx.Err() == nil {
		switch err := l.Renew(ctx); {
		case errors.Is(err, ErrFenced):
			return
		case err != nil:
			pause(ctx, min(l.o.TTL/10, time.Second), nil)
		default:
			pause(ctx, l.o.TTL/3, nil)
		}
	}
}

// pause waits, until ctx ends or woken is closed at most.
func pause(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-woken:
	case <-ctx.Done():
	}
}
