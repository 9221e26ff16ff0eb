package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// State: what a Local has in memory of its runs and schedules, and how calls change and list it.

// LocalOptions configure a Local.
type LocalOptions struct {
	// Serializer encodes inputs and events. Nil is serde.Default().
	Serializer serde.Serializer
	// Clock tells the time. Nil is time.Now.
	Clock func() time.Time
	// LeaseTime is how long a claim holds without being renewed. Zero is 15 seconds.
	LeaseTime time.Duration
}

// Local is a Queue in the long-term store of a program. Its runs are items in the namespaces that begin
// with "stele.runs": with a store on disk they survive what the checkpoints survive. There must be one
// Local for a store at a time.
//
// Runs that have not ended are in memory as well, and so are those that somebody watches, each with its
// latest events, up to 1 MiB: claiming and following read nothing.
//
// # When it is durable
//
// Changes are written in one order under one lock, and synced outside of it: calls that come together
// share a sync. What was written survives the death of the process. Submit, Cancel, Retry, Mark and
// Finish return when their changes are synced. Get, List and Events sync what they show if it is not
// yet durable. A claim is durable with the next sync, and so are events that nobody has seen. So a run
// under way does not wait for the disk, and no power failure takes back the events and the end that
// anybody has seen. It may take back a claim, and what the state of the thread showed of the last 10
// ms. A Worker does not wait for the end of a run to be synced while it goes on with another run, or
// while somebody watches the first: an end that nobody has asked for is durable after 10 ms. SubmitWith
// need not sync, and Get does not with a context of saver.DeferSync: whoever tells somebody of the run
// calls Sync before, or Get with another context.
//
// Events of a run that nobody has asked for are written after 20 ms, or with the end of the run. Events
// of a run that somebody follows are written within a millisecond.
//
// # A run that cannot be decoded
//
// NewLocal skips a run that is damaged, or that a newer version stored. The fields that can be decoded
// are used: its key, if known, is refused to other runs. If it is not known whether the run has ended,
// no worker gets it, and it holds up no other run of its thread. Get and List return an UnreadableError
// for it, List in its place among all runs and, if the thread is known, among those of the thread.
// Delete removes it whatever its status was. If its key is not known, a second submission with that key
// is a new run. An item that the store itself cannot read is an error of NewLocal.
type Local struct {
	Topics
	ends  Topics // of runs, when they end; see WatchEnd
	items *store.Local
	opts  LocalOptions

	decoded decodedItems

	// steady tells the time for claims, whose lease no step of the clock ends, and for runs that wait, which
	// none holds up: time.Now measures with the time since the process began.
	steady func() time.Time

	// writes counts what was written, and durable how much of that is synced. One sync at a time
	// goes on under syncing: whoever waits for it finds out whether it was enough.
	writes, durable atomic.Int64
	syncing         sync.Mutex

	// mu orders all changes. An item is written under it, before the change is seen.
	mu         sync.Mutex
	open       map[string]*localRun    // by id: those that have not ended
	watched    map[string]*localRun    // by id: those that have ended and are not synced, or that somebody watches
	threads    map[string]*localThread // the same as open, by thread
	children   map[string][]*localRun  // of these, by Run.Parent
	graphs     map[string]*localGraph  // the same, by graph
	ended      map[string]endedRun     // by thread: of the runs that were begun, the last that ended
	byThread   map[string][]string     // ids of all runs by thread, oldest first
	byStatus   map[Status][]string     // ids of the runs that have ended, oldest first; of all, if follows is not nil
	unsettled  []string                // those of watched that may not be synced
	lost       map[string]error        // by id: why those that may not have ended cannot be decoded
	offers     []*offer                // of workers that wait, the longest first
	workers    map[string]localWorker  // by name; see Serve
	pinned     map[[2]string]*line     // by graph and version
	keys       map[string]string       // key to id
	schedules  map[string]Schedule
	unreleased map[string]bool // ids of those of open that are held; see Held
	holds      bool            // the store was not released when somebody looked last

	follows *followed // nil unless the store follows a leader
}

// endedRun is the part of a thread's last run that is kept in memory.
type endedRun struct {
	id             string
	status         Status
	at             time.Time
	graph, version string
	waiting        bool
	parent         string
	detached       bool
}

// localRun is a run that has not ended.
type localRun struct {
	// appending orders the calls that store events of the run; it is locked before Local.mu.
	appending sync.Mutex
	storedRun
	until  time.Time // when the claim of a worker is void, or Run.After has come, as steady tells the time
	due    bool      // its time has come, or its claim is void; see place
	places [lineKinds]int32
	pin    *line   // the line of its version; nil if it is in none
	saved  int64   // Local.writes when the run was last written, but for its claim
	added  int64   // the same of its last event
	synced int64   // the last event that is durable
	latest []Event // the last events, up to Seq; see keep
	bytes  int     // of the data of latest
	asked  func()  // called when events are first requested; may be nil
	wanted bool    // events were requested
}

var _ Queue = (*Local)(nil)

// NewLocal is the queue in a store. Have one for each store of a process: a second one takes the runs that the first
// executes for those of a process that died, and begins them again. The runs that an earlier process had are pending again, but for
// those that cannot be decoded; see Local. In a store that follows a leader, it shows what the leader's queue has stored: no run is
// claimed, and changing calls return fault.ErrFollower.
func NewLocal(ctx context.Context, items *store.Local, opts LocalOptions) (*Local, error) {
	if items == nil {
		return nil, fmt.Errorf("%w: the store is nil; make one with store.On or store.NewMemory", ErrInvalid)
	}
	if opts.Serializer == nil {
		opts.Serializer = serde.Default()
	}
	steady := opts.Clock
	if opts.Clock == nil {
		opts.Clock, steady = time.Now, time.Now
	}
	if opts.LeaseTime == 0 {
		opts.LeaseTime = 15 * time.Second
	}
	q := &Local{items: items, opts: opts, steady: steady, open: map[string]*localRun{}, watched: map[string]*localRun{},
		threads: map[string]*localThread{}, children: map[string][]*localRun{}, graphs: map[string]*localGraph{}, ended: map[string]endedRun{}, byThread: map[string][]string{},
		byStatus: map[Status][]string{}, keys: map[string]string{}, lost: map[string]error{}, schedules: map[string]Schedule{},
		workers: map[string]localWorker{}, pinned: map[[2]string]*line{}, unreleased: map[string]bool{}}
	if items.Follows() {
		q.follows = newFollowed(items)
		return q, q.catchUp(ctx)
	}
	held, heldSchedules, err := heldItems(ctx, items)
	if err != nil {
		return nil, err
	}
	q.holds = held != nil
	newest := ""
	for r, err := range q.scanRuns(ctx) {
		newest = r.ID
		if err == nil && !r.Status.Ended() {
			r.Seq, err = q.lastSeq(ctx, r)
			err = unreadable(r.ID, err)
		}
		if err != nil && !errors.Is(err, ErrUnreadable) {
			return nil, err
		}
		if r.Key != "" {
			q.keys[r.Key] = r.ID
		}
		if r.ThreadID != "" {
			q.byThread[r.ThreadID] = append(q.byThread[r.ThreadID], r.ID)
		}
		switch {
		case r.Status.Ended():
			q.noteEnd(r.Run)
			q.noteStatus(r.Run)
		case err != nil: // nobody can execute it
			q.lost[r.ID] = err
		default:
			// The clock was set back since: it waits as long as it was to. A time before Created was set behind that.
			if ahead := r.Created.Sub(q.now()); ahead > clockTolerance && !r.After.Before(r.Created) {
				r.After = r.After.Add(-ahead)
			}
			if held[r.ID] {
				q.unreleased[r.ID] = true
			}
			q.add(&localRun{storedRun: r, synced: r.Seq}) // a claim of an earlier process is void
		}
	}
	idsFollow(newest)
	return q, q.loadSchedules(ctx, heldSchedules)
}

// drop removes a run that has ended, and keeps it for those who watch it. The caller holds mu.
func (q *Local) drop(l *localRun) {
	r := l.Run
	q.leave(l)
	q.watched[r.ID], q.unsettled = l, append(q.unsettled, r.ID)
	q.noteStatus(r)
}

// noteEnd remembers a run that ended and left something on its thread, unless a known run of the thread
// ended later.
func (q *Local) noteEnd(r Run) {
	if !r.Ended.Before(q.ended[r.ThreadID].at) {
		q.noteLast(r)
	}
}

// noteLast is noteEnd for a run that ended just now: it is the last one, even if the clock was set
// back.
func (q *Local) noteLast(r Run) {
	if r.ThreadID != "" && r.Epoch > 0 {
		q.ended[r.ThreadID] = endedRun{r.ID, r.Status, r.Ended, r.Graph, r.Version, r.Waiting, r.Parent, r.Detached}
	}
}

// forgetEnd undoes noteEnd for a run that continues or was removed, once that is stored: the run that
// ended before it is remembered again, if it can be read. The caller holds mu.
func (q *Local) forgetEnd(ctx context.Context, r Run) error {
	if q.ended[r.ThreadID].id != r.ID {
		return nil
	}
	delete(q.ended, r.ThreadID)
	for _, id := range q.byThread[r.ThreadID] {
		other, err := q.get(context.WithoutCancel(ctx), id)
		if errors.Is(err, ErrUnreadable) {
			continue
		}
		if err != nil {
			return err
		}
		if other.ID != r.ID && other.Status.Ended() {
			q.noteEnd(other)
		}
	}
	return nil
}

// SharesLog reports whether x, a saver or a store, is stored in one log with the queue. Then what
// x has stored is durable when a later call of the queue is, and the other way round.
func (q *Local) SharesLog(x any) bool { return q.items.SharesLog(x) }

// Serializer implements Queue.
func (q *Local) Serializer() serde.Serializer { return q.opts.Serializer }

// LeaseTime implements Queue.
func (q *Local) LeaseTime() time.Duration { return q.opts.LeaseTime }

func (q *Local) now() time.Time { return q.opts.Clock().UTC().Truncate(time.Microsecond) }

// Items is the store that has the runs.
func (q *Local) Items() *store.Local { return q.items }

// Submit implements Queue.
func (q *Local) Submit(ctx context.Context, req Request) (Run, error) {
	return q.SubmitWith(ctx, req, nil, false)
}

// SubmitWith is Submit, and stores the operations that beside returns for the run in the same write:
// both or neither. If a run has the key of the request already, it stores nothing. With deferSync the
// run may not be durable yet; see saver.DeferSync.
func (q *Local) SubmitWith(ctx context.Context, req Request, beside func(Run) ([]store.Op, error), deferSync bool) (Run, error) {
	r, err := q.submit(ctx, req, beside)
	if !deferSync {
		err = q.synced(ctx, err)
	}
	if err != nil {
		return Run{}, err
	}
	return r, nil
}

// submit is Submit without a sync.
func (q *Local) submit(ctx context.Context, req Request, beside func(Run) ([]store.Op, error)) (Run, error) {
	r, err := NewRun(req, q.opts.Serializer, q.now())
	if err != nil {
		return Run{}, err
	}
	var others []store.Op
	if beside != nil {
		if others, err = beside(r); err != nil {
			return Run{}, err
		}
	}
	if r.Key != "" { // before the lock: it may wait
		if err := q.items.Current(ctx); err != nil {
			return Run{}, err
		}
	}
	if r.Multitask == Interrupt || r.Multitask == Rollback {
		defer q.lockAll(r.ThreadID)()
	} else { // the others stay as they are, and may be many
		q.mu.Lock()
		defer q.mu.Unlock()
	}
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
	if req.Parent != nil {
		if _, err := q.validClaim(*req.Parent); err != nil {
			return Run{}, err
		}
		if len(q.children[req.Parent.ThreadID]) >= maxChildren {
			return Run{}, &InvalidError{"Parent", fmt.Sprintf("has %d children that have not ended", maxChildren)}
		}
	} else {
		q.adopt(&r)
	}
	if t := q.threads[r.ThreadID]; t != nil && r.Multitask != Enqueue {
		if r.Multitask == Reject {
			return Run{}, &BusyError{ThreadID: r.ThreadID, RunID: t.runs[0].ID}
		}
		for _, other := range slices.Clone(t.runs) {
			if _, err := q.cancel(ctx, other, r.Multitask); err != nil {
				return Run{}, err
			}
		}
	}
	l, to := &localRun{}, r
	o := q.offered(r)
	if o != nil {
		to, l.until = q.claimed(r, o.worker, nil), q.leased()
	}
	if err := q.save(ctx, l, to, nil, others...); err != nil {
		return Run{}, err
	}
	q.add(l)
	q.byThread[r.ThreadID] = withID(q.byThread[r.ThreadID], r.ID)
	if r.Key != "" {
		q.keys[r.Key] = r.ID
	}
	if o != nil {
		o.give(q.grant(l))
	}
	return r, nil
}

// Newest is the id of the run of a thread that was submitted last, "" if it has none, and when that run ended, or else
// was submitted. changed is zero if that is in no memory: of a run that ended before it began, or cannot be decoded.
func (q *Local) Newest(threadID string) (id string, changed time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ids := q.byThread[threadID]
	if len(ids) == 0 {
		return "", time.Time{}
	}
	id = ids[len(ids)-1]
	if q.follows != nil {
		return id, q.follows.runs[id].changed
	}
	if r := q.open[id]; r != nil {
		changed = r.Created
	} else if last := q.ended[threadID]; last.id == id {
		changed = last.at
	}
	return id, changed
}

// ofThread are the runs of a thread that have not ended, in order. The caller holds mu.
func (q *Local) ofThread(threadID string) []*localRun {
	t := q.threads[threadID]
	if t == nil {
		return nil
	}
	return slices.Clone(t.runs)
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

// lock locks the queue, and the events of a run; the run is nil if it has ended.
func (q *Local) lock(id string) (*localRun, func()) {
	q.mu.Lock()
	r := q.open[id]
	if r == nil {
		return nil, q.mu.Unlock
	}
	q.mu.Unlock()
	r.appending.Lock()
	q.mu.Lock()
	unlock := func() {
		q.mu.Unlock()
		r.appending.Unlock()
	}
	if q.open[id] != r { // it ended meanwhile
		return nil, unlock
	}
	return r, unlock
}

// forget drops a run that has ended from memory, unless it is not synced or somebody watches it.
// The caller holds mu.
func (q *Local) forget(id string) {
	if r := q.watched[id]; r != nil && r.saved <= q.durable.Load() && !q.isWatched(id) && !q.ends.isWatched(id) {
		delete(q.watched, id)
	}
}

// Cancel implements Queue.
func (q *Local) Cancel(ctx context.Context, id string, how Strategy) (Run, error) {
	if err := CheckCancel(how); err != nil {
		return Run{}, err
	}
	r, unlock := q.lock(id)
	if r == nil {
		unlock()
		if q.follows != nil {
			return Run{}, fault.ErrFollower
		}
		return q.Get(ctx, id)
	}
	run, err := q.cancel(layout.Urgent(ctx), r, how) // also on a full disk, see ending; but no run that is submitted cancels others then
	unlock()
	return run, q.synced(ctx, err)
}

func (q *Local) cancel(ctx context.Context, r *localRun, how Strategy) (Run, error) {
	to := r.Run
	to.Pinned = false
	if to.Cancel != Rollback {
		to.Cancel = how
	}
	if to.Status == Pending && (to.Cancel == Interrupt || to.Epoch == 0) {
		to.Status, to.Ended, to.Waiting = Interrupted, q.now(), false
	}
	if now := q.now(); to.After.After(now) { // a rollback need not wait
		to.After = now
	}
	return to, q.save(ctx, r, to, nil)
}

// Retry implements Queue.
func (q *Local) Retry(ctx context.Context, id string) (Run, error) {
	r, err := q.retry(ctx, id)
	return r, q.synced(ctx, err)
}

func (q *Local) retry(ctx context.Context, id string) (Run, error) {
	if err := q.items.Current(ctx); err != nil { // before the lock: it may wait
		return Run{}, err
	}
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
	l := &localRun{storedRun: stored, synced: stored.Seq}
	if before := q.watched[id]; before != nil { // its last events may not be durable yet
		l.synced = before.synced
	}
	if err := q.save(ctx, l, r, nil); err != nil {
		return Run{}, err
	}
	q.forgetStatus(stored.Run)
	delete(q.watched, r.ID)
	q.add(l)
	return r, q.forgetEnd(ctx, r)
}

// Sweep implements Queue. The first run that cannot be decoded is an error when the others were removed.
func (q *Local) Sweep(ctx context.Context, before time.Time) (int, error) {
	n := 0
	var lost error
	for found, err := range q.items.Scan(store.WithoutLease(ctx), store.Query{Prefix: runsSpace, ByKey: true, NoRefresh: true}) {
		if err != nil {
			return n, err
		}
		var r storedRun
		removed := false
		err = r.decode(&found.Item)
		if err == nil && r.Status.Ended() && r.Ended.Before(before) {
			removed, err = q.remove(ctx, found.Key, before)
		}
		switch {
		case errors.Is(err, ErrUnreadable):
			lost = cmp.Or(lost, err)
		case err != nil:
			return n, err
		case removed:
			n++
		}
	}
	return n, q.synced(ctx, lost)
}

// removed bounds how many items one write of remove deletes.
const removed = 1000

// Delete implements Queue.
func (q *Local) Delete(ctx context.Context, id string) error { return q.synced(ctx, q.delete(ctx, id)) }

func (q *Local) delete(ctx context.Context, id string) error {
	if err := q.items.Current(ctx); err != nil { // before the lock: it may wait
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.open[id]; l != nil {
		return CheckDelete(l.Run)
	}
	r, err := q.stored(ctx, id)
	if errors.Is(err, ErrUnreadable) {
		r, err = q.remains(ctx, id)
	} else if err == nil {
		err = CheckDelete(r.Run)
	}
	if err != nil {
		return err
	}
	if err := q.erase(ctx, r); err != nil {
		return err
	}
	return q.forgetEnd(ctx, r.Run)
}

// remains returns the parts that erase needs of a run that cannot be decoded and that no worker has:
// the run in memory, and its events. The caller holds mu.
func (q *Local) remains(ctx context.Context, id string) (storedRun, error) {
	r := storedRun{Run: Run{ID: id}}
	for found, err := range q.items.Scan(store.WithoutLease(ctx), store.Query{Prefix: eventsOf(id), ByKey: true, NoRefresh: true}) {
		if err != nil {
			return r, err
		}
		if seq, err := strconv.ParseInt(found.Key, 10, 64); err == nil {
			r.Seq = max(r.Seq, seq)
		}
	}
	for key, of := range q.keys {
		if of == id {
			r.Key = key
		}
	}
	for thread, ids := range q.byThread {
		if hasID(ids, id) {
			r.ThreadID = thread
		}
	}
	for status, ids := range q.byStatus {
		if hasID(ids, id) {
			r.Status = status
		}
	}
	return r, nil
}

// remove removes a run that Sweep has found. It looks at the run once more, as it may have
// been tried again.
func (q *Local) remove(ctx context.Context, id string, before time.Time) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.stored(ctx, id)
	if errors.Is(err, ErrNotFound) || err == nil && (!r.Status.Ended() || !r.Ended.Before(before) || q.mayAsk(r.Parent)) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, q.erase(ctx, r)
}

// erase removes the events of a run, last ones first, and then the run: after a crash the rest can be
// found by the run. The caller holds mu.
func (q *Local) erase(ctx context.Context, r storedRun) error {
	id := r.ID
	var ops []store.Op
	seq := r.Seq
	if r.Last > 0 {
		seq = r.Last - 1
	}
	for ; seq > 0; seq-- { // removing keys that do not exist does no harm
		if ops = append(ops, store.PutOp{Namespace: eventsOf(id), Key: seqKey(seq)}); len(ops) == removed {
			if err := q.write(ctx, ops...); err != nil {
				return err
			}
			ops = nil
		}
	}
	kin, err := q.kin(r.Run, true)
	if err != nil {
		return err
	}
	for _, other := range kin {
		ops = append(ops, other.ops...)
	}
	if err := q.write(layout.Urgent(ctx), append(ops, store.PutOp{Namespace: runsSpace, Key: id}, store.PutOp{Namespace: specsSpace, Key: id})...); err != nil {
		return err
	}
	for _, other := range kin {
		q.made(other)
	}
	q.decoded.forget(id)
	delete(q.watched, id) // not before: the end of one that stays may not be durable yet
	q.forgetStatus(r.Run)
	delete(q.lost, id)
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
