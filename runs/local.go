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

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
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
// Runs that have not ended are in memory as well, and so are those that somebody watches, each
// with its latest events, up to 1 MiB: claiming and following read nothing.
//
// # When it is durable
//
// Changes are written in one order under one lock, and synced outside of it: calls that come
// together share a sync. What was written survives the death of the process. Submit, Cancel,
// Retry, Mark and Finish return when what they did is synced, and so do Get, List and Events if
// what they show is not yet. A claim is durable with the next sync, and so are events that nobody
// has seen. So a run under way does not wait for the disk, and no power failure takes back the
// events and the end that anybody has seen. It may take back a claim, and what the state of the
// thread showed of the last 10 ms. A Worker does not wait for the end of a run to be synced while it goes
// on with another run, or while somebody watches the first: an end that nobody has asked for is durable
// after 10 ms. SubmitWith need not sync, and Get does not with a context of saver.DeferSync: whoever tells
// somebody of the run calls Sync before, or Get with another context.
//
// Events of a run that nobody has asked for are written after 20 ms, or with the end of the run.
// What somebody follows is written within a millisecond.
//
// # A run that cannot be decoded
//
// NewLocal goes on behind a run that is damaged, or that a newer version stored. What can be decoded
// of it counts: its key, if that is known, is refused to other runs. If it is not known that the run
// has ended, no worker gets it, and it holds up no other run of its thread; Get and List tell of it
// by an UnreadableError, List in its place among all runs and, if the thread is known, among those
// of the thread. Delete removes it whatever its status was. If its key is not known, a second
// submission with that key is a new run. What the store itself cannot read is an error of NewLocal.
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
	mu        sync.Mutex
	open      map[string]*localRun    // by id: those that have not ended
	watched   map[string]*localRun    // by id: those that have ended and are not synced, or that somebody watches
	threads   map[string]*localThread // the same as open, by thread
	graphs    map[string]*localGraph  // the same, by graph
	ended     map[string]endedRun     // by thread: of the runs that were begun, the last that ended
	byThread  map[string][]string     // ids of all runs by thread, oldest first
	byStatus  map[Status][]string     // ids of the runs that have ended, oldest first
	unsettled []string                // those of watched that may not be synced
	lost      map[string]error        // by id: why those that may not have ended cannot be decoded
	offers    []*offer                // of workers that wait, the longest first
	keys      map[string]string       // key to id
	schedules map[string]Schedule
}

// endedRun is what is in memory of the last run of a thread.
type endedRun struct {
	id     string
	status Status
	at     time.Time
}

// localRun is a run that has not ended.
type localRun struct {
	// appending orders those who store events of the run; it is locked before Local.mu.
	appending sync.Mutex
	storedRun
	until  time.Time // when the claim of a worker is void, or Run.After has come, as steady tells the time
	due    bool      // its time has come, or its claim is void; see place
	places [lineKinds]int32
	saved  int64   // Local.writes when the run was last written, but for its claim
	added  int64   // the same of its last event
	synced int64   // the last event that is durable
	latest []Event // the last events, up to Seq; see keep
	bytes  int     // of the data of latest
	asked  func()  // called when somebody asks for events for the first time; may be nil
	wanted bool    // somebody has asked for events
}

// storedRun is the item of a run, written with each change of it. Its Spec, which never changes, has
// an item of its own, which also has the run as it was submitted: until it changes, that is all there
// is of it. Seq is a number that its events reach at least.
type storedRun struct {
	Run
	Seq int64 `json:"seq,omitempty"`
	// Last is the number of the first event that is in the item of the run itself, 0 for none. Those of a
	// run that has ended may be: a short run has no other items of events.
	Last   int64 `json:"last,omitempty"`
	events any   // those in the item, as eventsIn reads them, unless the run is in memory
}

// Namespaces of the items. Events of a run have one of their own below.
var (
	runsSpace      = store.Namespace{"stele.runs", "runs"}
	specsSpace     = store.Namespace{"stele.runs", "specs"}
	eventsSpace    = store.Namespace{"stele.runs", "events"}
	schedulesSpace = store.Namespace{"stele.runs", "schedules"}
)

var _ Queue = (*Local)(nil)

// NewLocal is the queue in a store. The runs that an earlier process had are pending again, but for
// those that cannot be decoded; see Local.
func NewLocal(ctx context.Context, items *store.Local, opts LocalOptions) (*Local, error) {
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
	q := &Local{items: items, opts: opts, steady: steady, open: map[string]*localRun{}, watched: map[string]*localRun{}, threads: map[string]*localThread{}, graphs: map[string]*localGraph{}, ended: map[string]endedRun{}, byThread: map[string][]string{}, byStatus: map[Status][]string{}, keys: map[string]string{}, lost: map[string]error{}, schedules: map[string]Schedule{}}
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
			q.add(&localRun{storedRun: r, synced: r.Seq}) // a claim of an earlier process is void
		}
	}
	idsFollow(newest)
	for found, err := range items.Scan(ctx, store.Query{Prefix: schedulesSpace, ByKey: true, NoRefresh: true}) {
		if err != nil {
			return nil, fmt.Errorf("%v: %w", schedulesSpace, err)
		}
		var s Schedule
		if err := valueOf(&found.Item, &s); err != nil {
			s = Schedule{Unreadable: err}
		}
		s.ID = found.Key
		q.schedules[s.ID] = s
	}
	return q, nil
}

// drop removes a run that has ended, and keeps it for those who watch it. The caller holds mu.
func (q *Local) drop(l *localRun) {
	r := l.Run
	q.leave(l)
	q.watched[r.ID], q.unsettled = l, append(q.unsettled, r.ID)
	q.noteStatus(r)
}

// noteEnd remembers a run that ended, if it left something on its thread, and none that is known ended later.
func (q *Local) noteEnd(r Run) {
	if !r.Ended.Before(q.ended[r.ThreadID].at) {
		q.noteLast(r)
	}
}

// noteLast is noteEnd for a run that ended just now, whatever the clock shows.
func (q *Local) noteLast(r Run) {
	if r.ThreadID != "" && r.Epoch > 0 {
		q.ended[r.ThreadID] = endedRun{r.ID, r.Status, r.Ended}
	}
}

// forgetEnd undoes noteEnd for a run that goes on or is gone, which is stored: what ended before it
// counts again, as far as it can be read. The caller holds mu.
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

// SubmitWith is Submit, and stores what beside makes of the run together with it, in Items: both or
// neither. If a run has the key of the request already, it stores nothing. An unsynced run is not
// durable yet.
func (q *Local) SubmitWith(ctx context.Context, req Request, beside func(Run) ([]store.Op, error), unsynced bool) (Run, error) {
	r, err := q.submit(ctx, req, beside)
	if !unsynced {
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
		to, l.until = q.claimed(r, o.worker), q.leased()
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

// Newest is the id of the run of a thread that was submitted last; "" if it has none.
func (q *Local) Newest(threadID string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	ids := q.byThread[threadID]
	if len(ids) == 0 {
		return ""
	}
	return ids[len(ids)-1]
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

// change is a run as it is to be, and what is stored of that.
type change struct {
	r      *localRun
	to     storedRun
	events []Event
	ops    []store.Op
}

// save stores a run as it is to be, with numbered events, the last one if it ends, and other items,
// and then makes it so. The caller holds mu, and if there are events the lock of the run's.
func (q *Local) save(ctx context.Context, r *localRun, to Run, events []Event, others ...store.Op) error {
	c, err := q.change(r, to, events)
	if err == nil {
		err = q.write(ctx, append(c.ops, others...)...)
	}
	if err != nil {
		return err
	}
	q.made(c)
	return nil
}

// change is what save stores.
func (q *Local) change(r *localRun, to Run, events []Event) (change, error) {
	stored := storedRun{Run: to, Seq: r.Seq + int64(len(events))}
	if to.Status.Ended() {
		status, err := q.opts.Serializer.Encode(string(to.Status))
		if err != nil {
			return change{}, err
		}
		at := to.Ended
		if n := len(events); n > 0 { // it is stored with them
			at = events[n-1].Time
		}
		stored.Seq++
		events = append(events, Event{Seq: stored.Seq, Attempt: to.Attempt, Kind: KindEnd, Data: status, Time: at})
	}
	var ops []store.Op
	var last []byte
	if to.Status.Ended() && fitsRun(events) {
		stored.Last = events[0].Seq
		last, _ = packEvents(events)
	} else {
		ops = eventOps(to.ID, events)
	}
	if r.Last > 0 { // it goes on: its events become an item like those before them
		ops = append(ops, eventsOp(to.ID, r.Last, r.events))
	}
	item, err := appendRun(make([]byte, 0, 512), &stored)
	if err != nil {
		return change{}, err
	}
	op := textOp(runsSpace, to.ID, string(item))
	if stored.Last > 0 {
		op.Value[eventsField] = last
	}
	if r.ID == "" {
		spec, err := appendSpec(make([]byte, 0, 1024), &to.Spec)
		if err != nil {
			return change{}, err
		}
		op = textOp(specsSpace, to.ID, string(spec))
		op.Value[bornField] = string(item)
	}
	return change{r: r, to: stored, events: events, ops: append(ops, op)}, nil
}

// made makes a run what was written last. The caller holds what save asks for.
func (q *Local) made(c change) {
	r, to := c.r, c.to
	if to.Epoch == r.Epoch || r.ID == "" {
		r.saved = q.writes.Load()
	}
	r.storedRun = to
	r.keep(c.events)
	r.added = q.writes.Load()
	switch {
	case to.Status.Ended():
		q.drop(r)
		q.noteLast(to.Run)
		q.ends.Changed(to.ID)
	case to.Status == Pending && q.open[to.ID] == r:
		q.place(r)
	}
	q.Changed(to.ID)
	// Else it was begun, or has ended and holds up nobody.
	if to.Status == Pending || to.Cancel != "" || to.Status != Running && q.threads[to.ThreadID] != nil {
		if to.Status == Pending || q.threads[to.ThreadID] != nil {
			q.withdrawAll() // another run may be the next
		}
		q.Changed("")
	}
}

// write writes items, and leaves it to sync to make them durable. It is not given up half way:
// what is in memory would no longer be what is stored.
func (q *Local) write(ctx context.Context, ops ...store.Op) error {
	if err := ctx.Err(); err != nil || len(ops) == 0 {
		return err
	}
	_, err := q.items.Batch(saver.DeferSync(context.WithoutCancel(ctx)), ops...)
	if err == nil {
		q.writes.Add(1)
	}
	return err
}

// sync makes durable what was written when Local.writes was want. The caller does not hold mu.
func (q *Local) sync(ctx context.Context, want int64) error {
	if q.durable.Load() >= want {
		return nil
	}
	q.syncing.Lock()
	defer q.syncing.Unlock()
	if q.durable.Load() >= want {
		return nil
	}
	now := q.writes.Load()
	if err := q.items.Sync(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	q.durable.Store(now)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unsettled = slices.DeleteFunc(q.unsettled, func(id string) bool { q.forget(id); return q.watched[id] == nil || q.watched[id].saved <= now })
	return nil
}

// synced makes durable what a call has written, if it has.
func (q *Local) synced(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return q.sync(ctx, q.writes.Load())
}

// Sync returns when everything that was stored before in the log of the queue is durable. Calls
// that come together share a sync.
func (q *Local) Sync(ctx context.Context) error { return q.sync(ctx, q.writes.Add(1)) }

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
		return q.Get(ctx, id)
	}
	run, err := q.cancel(ctx, r, how)
	unlock()
	return run, q.synced(ctx, err)
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
	return to, q.save(ctx, r, to, nil)
}

// Retry implements Queue.
func (q *Local) Retry(ctx context.Context, id string) (Run, error) {
	r, err := q.retry(ctx, id)
	return r, q.synced(ctx, err)
}

func (q *Local) retry(ctx context.Context, id string) (Run, error) {
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
	for found, err := range q.items.Scan(ctx, store.Query{Prefix: runsSpace, ByKey: true, NoRefresh: true}) {
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

// removed bounds what one write of remove deletes.
const removed = 1000

// Delete implements Queue.
func (q *Local) Delete(ctx context.Context, id string) error { return q.synced(ctx, q.delete(ctx, id)) }

func (q *Local) delete(ctx context.Context, id string) error {
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

// remains is a run that cannot be decoded and that no worker has, as far as erase needs to know it:
// where the queue has it in memory, and which events it has. The caller holds mu.
func (q *Local) remains(ctx context.Context, id string) (storedRun, error) {
	r := storedRun{Run: Run{ID: id}}
	for found, err := range q.items.Scan(ctx, store.Query{Prefix: eventsOf(id), ByKey: true, NoRefresh: true}) {
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
	seq := r.Seq
	if r.Last > 0 {
		seq = r.Last - 1
	}
	for ; seq > 0; seq-- { // what no item begins with is removed in vain
		if ops = append(ops, store.PutOp{Namespace: eventsOf(id), Key: seqKey(seq)}); len(ops) == removed {
			if err := q.write(ctx, ops...); err != nil {
				return err
			}
			ops = nil
		}
	}
	if err := q.write(ctx, append(ops, store.PutOp{Namespace: runsSpace, Key: id}, store.PutOp{Namespace: specsSpace, Key: id})...); err != nil {
		return err
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
