package runs

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/serde"
	"github.com/stele-go/stele/store"
)

// LocalOptions configure a Local.
type LocalOptions struct {
	// Serializer encodes inputs and events. Nil is serde.Default().
	Serializer serde.Serializer
	// Clock tells the time. Nil is time.Now.
	Clock func() time.Time
	// LeaseTime is how long a claim holds without being renewed. Zero is 15 seconds.
	LeaseTime time.Duration
}

// Local is a Queue in the long-term store of a program. Its runs are items in the
// namespaces that begin with "stele.runs": with a store on disk they survive what the
// checkpoints survive. There must be one Local for a store at a time.
//
// Runs that have not ended are in memory as well, so that claiming reads nothing.
type Local struct {
	Topics
	items *store.Local
	opts  LocalOptions

	// mu orders all changes. An item is written under it, before the change is seen.
	mu        sync.Mutex
	open      map[string]*localRun            // by id: those that have not ended
	threads   map[string]map[string]*localRun // the same by thread and id
	ended     map[string]Run                  // by thread: of the runs that were begun, the last that ended
	byThread  map[string][]string             // ids of all runs by thread, oldest first
	keys      map[string]string               // key to id
	schedules map[string]Schedule
}

// localRun is a run that has not ended.
type localRun struct {
	// appending orders those who store events of the run; it is locked before Local.mu.
	appending sync.Mutex
	storedRun
	until time.Time // while a worker has it: when the claim is void
}

// storedRun is the item of a run. Seq is a number that its events reach at least.
type storedRun struct {
	Run
	Seq int64 `json:"seq,omitempty"`
}

// Namespaces of the items. Events of a run have one of their own below.
var (
	runsSpace      = store.Namespace{"stele.runs", "runs"}
	eventsSpace    = store.Namespace{"stele.runs", "events"}
	schedulesSpace = store.Namespace{"stele.runs", "schedules"}
)

var _ Queue = (*Local)(nil)

// NewLocal is the queue in a store. The runs that an earlier process had are pending again.
func NewLocal(ctx context.Context, items *store.Local, opts LocalOptions) (*Local, error) {
	if opts.Serializer == nil {
		opts.Serializer = serde.Default()
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.LeaseTime == 0 {
		opts.LeaseTime = 15 * time.Second
	}
	q := &Local{items: items, opts: opts, open: map[string]*localRun{}, threads: map[string]map[string]*localRun{}, ended: map[string]Run{}, byThread: map[string][]string{}, keys: map[string]string{}, schedules: map[string]Schedule{}}
	for r, err := range scan[storedRun](ctx, items, runsSpace) {
		if err != nil {
			return nil, err
		}
		if r.Key != "" {
			q.keys[r.Key] = r.ID
		}
		q.byThread[r.ThreadID] = append(q.byThread[r.ThreadID], r.ID)
		if !r.Status.Ended() {
			if r.Seq, err = q.lastSeq(ctx, r); err != nil {
				return nil, err
			}
			q.add(&localRun{storedRun: r}) // a claim of an earlier process is void
		} else {
			q.noteEnd(r.Run)
		}
	}
	for s, err := range scan[Schedule](ctx, items, schedulesSpace) {
		if err != nil {
			return nil, err
		}
		q.schedules[s.ID] = s
	}
	return q, nil
}

// add adds a run that has not ended. The caller holds mu.
func (q *Local) add(r *localRun) {
	q.open[r.ID] = r
	if q.threads[r.ThreadID] == nil {
		q.threads[r.ThreadID] = map[string]*localRun{}
	}
	q.threads[r.ThreadID][r.ID] = r
}

// drop removes a run that has ended. The caller holds mu.
func (q *Local) drop(r Run) {
	delete(q.open, r.ID)
	if delete(q.threads[r.ThreadID], r.ID); len(q.threads[r.ThreadID]) == 0 {
		delete(q.threads, r.ThreadID)
	}
}

// noteEnd remembers a run that ended, if it left something on its thread.
func (q *Local) noteEnd(r Run) {
	if r.Epoch > 0 && !r.Ended.Before(q.ended[r.ThreadID].Ended) {
		q.ended[r.ThreadID] = Run{ID: r.ID, Status: r.Status, Ended: r.Ended}
	}
}

// forgetEnd undoes noteEnd for a run that goes on or is gone: what ended before it counts
// again. The caller holds mu.
func (q *Local) forgetEnd(ctx context.Context, r Run) error {
	if q.ended[r.ThreadID].ID != r.ID {
		return nil
	}
	delete(q.ended, r.ThreadID)
	for _, id := range q.byThread[r.ThreadID] {
		other, err := q.get(ctx, id)
		if err != nil {
			return err
		}
		if other.ID != r.ID && other.Status.Ended() {
			q.noteEnd(other)
		}
	}
	return nil
}

// Serializer implements Queue.
func (q *Local) Serializer() serde.Serializer { return q.opts.Serializer }

// LeaseTime implements Queue.
func (q *Local) LeaseTime() time.Duration { return q.opts.LeaseTime }

func (q *Local) now() time.Time { return q.opts.Clock().UTC().Truncate(time.Microsecond) }

// Submit implements Queue.
func (q *Local) Submit(ctx context.Context, req Request) (Run, error) {
	r, err := NewRun(req, q.opts.Serializer, q.now())
	if err != nil {
		return Run{}, err
	}
	unlock := q.lockAll(r.ThreadID)
	defer unlock()
	if id := q.keys[r.Key]; r.Key != "" && id != "" {
		stored, err := q.get(ctx, id)
		if err != nil {
			return Run{}, err
		}
		if err := SameKey(stored, req); err != nil {
			return Run{}, err
		}
		return stored, nil
	}
	switch busy := q.ofThread(r.ThreadID); {
	case len(busy) == 0 || r.Multitask == Enqueue:
	case r.Multitask == Reject:
		return Run{}, &BusyError{ThreadID: r.ThreadID, RunID: busy[0].ID}
	default:
		for _, other := range busy {
			if _, err := q.cancel(ctx, other, r.Multitask); err != nil {
				return Run{}, err
			}
		}
	}
	l := &localRun{}
	if err := q.save(ctx, l, r); err != nil {
		return Run{}, err
	}
	q.add(l)
	q.byThread[r.ThreadID] = append(q.byThread[r.ThreadID], r.ID)
	if r.Key != "" {
		q.keys[r.Key] = r.ID
	}
	return r, nil
}

// ofThread are the runs of a thread that have not ended, in order. The caller holds mu.
func (q *Local) ofThread(threadID string) []*localRun {
	var found []*localRun
	for _, r := range q.threads[threadID] {
		found = append(found, r)
	}
	slices.SortFunc(found, func(a, b *localRun) int { return strings.Compare(a.ID, b.ID) })
	return found
}

// lockAll locks the queue, and the events of all runs of a thread that have not ended.
func (q *Local) lockAll(threadID string) (unlock func()) {
	for {
		q.mu.Lock()
		runs := q.ofThread(threadID)
		q.mu.Unlock()
		for _, r := range runs {
			r.appending.Lock()
		}
		q.mu.Lock()
		unlock := func() {
			q.mu.Unlock()
			for _, r := range runs {
				r.appending.Unlock()
			}
		}
		if slices.Equal(runs, q.ofThread(threadID)) {
			return unlock
		}
		unlock()
	}
}

// lock locks the queue, and the events of a run; nil if it has ended.
func (q *Local) lock(id string) (r *localRun, unlock func()) {
	q.mu.Lock()
	r = q.open[id]
	if r == nil {
		return nil, q.mu.Unlock
	}
	q.mu.Unlock()
	r.appending.Lock()
	q.mu.Lock()
	unlock = func() {
		q.mu.Unlock()
		r.appending.Unlock()
	}
	if q.open[id] != r { // it ended meanwhile
		return nil, unlock
	}
	return r, unlock
}

// save stores a run as it is to be, its last event with it if it ends, and then makes it
// so. The caller holds mu, and the events of a run that ends.
func (q *Local) save(ctx context.Context, r *localRun, to Run) error {
	stored := storedRun{Run: to, Seq: r.Seq}
	var ops []store.Op
	if to.Status.Ended() {
		status, err := q.opts.Serializer.Encode(string(to.Status))
		if err != nil {
			return err
		}
		if ops, err = q.eventOps(stored, []Event{{Kind: KindEnd, Data: status}}); err != nil {
			return err
		}
		stored.Seq++
	}
	op, err := putOp(runsSpace, to.ID, stored)
	if err != nil {
		return err
	}
	if err := q.write(ctx, append(ops, op)...); err != nil {
		return err
	}
	r.storedRun = stored
	if to.Status.Ended() {
		q.drop(to)
		q.noteEnd(to)
	}
	q.Changed(to.ID)
	q.Changed("")
	return nil
}

// write stores items. It is not given up half way: what is in memory would no longer be
// what is stored.
func (q *Local) write(ctx context.Context, ops ...store.Op) error {
	if err := ctx.Err(); err != nil || len(ops) == 0 {
		return err
	}
	_, err := q.items.Batch(context.WithoutCancel(ctx), ops...)
	return err
}

// Get implements Queue.
func (q *Local) Get(ctx context.Context, id string) (Run, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.get(ctx, id)
}

func (q *Local) get(ctx context.Context, id string) (Run, error) {
	if r := q.open[id]; r != nil {
		return r.Run, nil
	}
	r, err := q.stored(ctx, id)
	return r.Run, err
}

// stored is a run that may have ended.
func (q *Local) stored(ctx context.Context, id string) (storedRun, error) {
	var r storedRun
	if checkName("run", id) != nil {
		return r, ErrNotFound
	}
	err := get(ctx, q.items, runsSpace, id, &r)
	return r, err
}

// List implements Queue.
func (q *Local) List(ctx context.Context, sel Query) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		n := 0
		for r, err := range q.candidates(ctx, sel) {
			if err != nil {
				yield(Run{}, err)
				return
			}
			if r.ID <= sel.After || sel.ThreadID != "" && r.ThreadID != sel.ThreadID || sel.Graph != "" && r.Graph != sel.Graph || sel.Status != "" && r.Status != sel.Status {
				continue
			}
			if n++; !yield(r, nil) || n == sel.Limit {
				return
			}
		}
	}
}

// candidates are the runs of a thread, or all. Those of a thread are read one by one.
func (q *Local) candidates(ctx context.Context, sel Query) iter.Seq2[Run, error] {
	if sel.ThreadID == "" {
		return scan[Run](ctx, q.items, runsSpace)
	}
	return func(yield func(Run, error) bool) {
		q.mu.Lock()
		ids := slices.Clone(q.byThread[sel.ThreadID])
		q.mu.Unlock()
		for _, id := range ids {
			r, err := q.Get(ctx, id)
			if errors.Is(err, ErrNotFound) { // removed meanwhile
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Cancel implements Queue.
func (q *Local) Cancel(ctx context.Context, id string, how Strategy) (Run, error) {
	if err := CheckCancel(how); err != nil {
		return Run{}, err
	}
	r, unlock := q.lock(id)
	defer unlock()
	if r != nil {
		return q.cancel(ctx, r, how)
	}
	return q.get(ctx, id)
}

func (q *Local) cancel(ctx context.Context, r *localRun, how Strategy) (Run, error) {
	to := r.Run
	if to.Cancel != Rollback {
		to.Cancel = how
	}
	if to.Status == Pending && (to.Cancel == Interrupt || to.Epoch == 0) {
		to.Status, to.Ended = Interrupted, q.now()
	}
	if now := q.now(); to.After.After(now) { // a rollback need not wait
		to.After = now
	}
	return to, q.save(ctx, r, to)
}

// Retry implements Queue.
func (q *Local) Retry(ctx context.Context, id string) (Run, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	stored, err := q.stored(ctx, id)
	if err != nil {
		return Run{}, err
	}
	r := stored.Run
	if err := CheckRetry(r); err != nil {
		return r, err
	}
	r.Status, r.Attempt, r.Cancel, r.Error, r.Waiting, r.After = Pending, 0, "", "", false, q.now()
	r.Started, r.Ended = time.Time{}, time.Time{}
	l := &localRun{storedRun: stored}
	if err := q.save(ctx, l, r); err != nil {
		return Run{}, err
	}
	if err := q.forgetEnd(ctx, r); err != nil {
		return Run{}, err
	}
	q.add(l)
	return r, nil
}

// Sweep implements Queue.
func (q *Local) Sweep(ctx context.Context, before time.Time) (int, error) {
	n := 0
	for r, err := range scan[storedRun](ctx, q.items, runsSpace) {
		if err != nil {
			return n, err
		}
		if !r.Status.Ended() || !r.Ended.Before(before) {
			continue
		}
		removed, err := q.remove(ctx, r.ID, before)
		if err != nil {
			return n, err
		}
		if removed {
			n++
		}
	}
	return n, nil
}

// removed bounds what one write of remove deletes.
const removed = 1000

// Delete implements Queue.
func (q *Local) Delete(ctx context.Context, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.stored(ctx, id)
	if err != nil {
		return err
	}
	if err := CheckDelete(r.Run); err != nil {
		return err
	}
	if err := q.erase(ctx, r); err != nil {
		return err
	}
	return q.forgetEnd(ctx, r.Run)
}

// remove removes a run that Sweep has found. It looks at the run once more, as it may have
// been tried again.
func (q *Local) remove(ctx context.Context, id string, before time.Time) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.stored(ctx, id)
	if errors.Is(err, ErrNotFound) || err == nil && (!r.Status.Ended() || !r.Ended.Before(before)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, q.erase(ctx, r)
}

// erase removes the events of a run, last ones first, and then the run: what a crash leaves
// is found again. The caller holds mu.
func (q *Local) erase(ctx context.Context, r storedRun) error {
	id := r.ID
	var ops []store.Op
	for seq := r.Seq; seq > 0; seq-- {
		if ops = append(ops, store.PutOp{Namespace: eventsOf(id), Key: seqKey(seq)}); len(ops) == removed {
			if err := q.write(ctx, ops...); err != nil {
				return err
			}
			ops = nil
		}
	}
	if err := q.write(ctx, append(ops, store.PutOp{Namespace: runsSpace, Key: id})...); err != nil {
		return err
	}
	if q.keys[r.Key] == r.ID {
		delete(q.keys, r.Key)
	}
	if left := q.byThread[r.ThreadID]; len(left) > 1 {
		q.byThread[r.ThreadID] = slices.DeleteFunc(left, func(other string) bool { return other == id })
	} else {
		delete(q.byThread, r.ThreadID)
	}
	return nil
}
