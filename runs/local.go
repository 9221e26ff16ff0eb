package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
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
	q := &Local{items: items, opts: opts, open: map[string]*localRun{}, threads: map[string]map[string]*localRun{}, ended: map[string]Run{}, keys: map[string]string{}, schedules: map[string]Schedule{}}
	for r, err := range scan[storedRun](ctx, items, runsSpace) {
		if err != nil {
			return nil, err
		}
		if r.Key != "" {
			q.keys[r.Key] = r.ID
		}
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

// forgetEnd undoes noteEnd for a run that goes on: what ended before it counts again.
func (q *Local) forgetEnd(ctx context.Context, r Run) error {
	if q.ended[r.ThreadID].ID != r.ID {
		return nil
	}
	delete(q.ended, r.ThreadID)
	for other, err := range q.List(ctx, Query{ThreadID: r.ThreadID}) {
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
		for r, err := range scan[Run](ctx, q.items, runsSpace) {
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

// Claim implements Queue.
func (q *Local) Claim(ctx context.Context, worker string, graphs []string) (*Claim, time.Time, error) {
	if err := CheckText("worker", worker); err != nil {
		return nil, time.Time{}, err
	}
	for {
		q.mu.Lock()
		best, next := q.next(graphs)
		if best == nil || best.Attempt < best.Attempts || best.Cancel != "" {
			defer q.mu.Unlock()
			if best == nil {
				return nil, next, nil
			}
			return q.claim(ctx, best, worker)
		}
		q.mu.Unlock()
		if err := q.giveUp(ctx, best.ID); err != nil {
			return nil, time.Time{}, err
		}
	}
}

// next is the run to claim; if there is none, when there may be one.
func (q *Local) next(graphs []string) (best *localRun, next time.Time) {
	now := q.now()
	for _, r := range q.open {
		if !slices.Contains(graphs, r.Graph) {
			continue
		}
		at := r.After
		if r.Status == Running {
			at = r.until
		}
		switch {
		case at.After(now):
			if next.IsZero() || at.Before(next) {
				next = at
			}
		case q.blocked(r, now):
		case best == nil || before(r, best):
			best = r
		}
	}
	return best, next
}

func (q *Local) claim(ctx context.Context, r *localRun, worker string) (*Claim, time.Time, error) {
	now, to := q.now(), r.Run
	to.Status, to.Worker = Running, worker
	to.Attempt++
	to.Epoch++
	if to.Started.IsZero() {
		to.Started = now
	}
	if err := q.save(ctx, r, to); err != nil {
		return nil, time.Time{}, err
	}
	r.until = now.Add(q.opts.LeaseTime)
	return &Claim{Run: to, Discard: q.ended[to.ThreadID].Status == Interrupted}, time.Time{}, nil
}

// giveUp ends a run that was claimed as often as it may be.
func (q *Local) giveUp(ctx context.Context, id string) error {
	r, unlock := q.lock(id)
	defer unlock()
	if r == nil || r.Attempt < r.Attempts || r.Cancel != "" || r.Status == Running && r.until.After(q.now()) {
		return nil
	}
	to := r.Run
	to.Status, to.Ended = Error, q.now()
	if to.Error == "" {
		to.Error = GivenUp(to)
	}
	return q.save(ctx, r, to)
}

// blocked reports whether a run must wait for another one of its thread: one that was
// begun, and, of those that are due, one that was submitted earlier. A run that was begun
// has the thread until it ends, so that there is one at most.
func (q *Local) blocked(r *localRun, now time.Time) bool {
	if !r.Started.IsZero() {
		return false
	}
	for _, other := range q.threads[r.ThreadID] {
		if other == r {
			continue
		}
		if !other.Started.IsZero() || other.ID < r.ID && !other.After.After(now) {
			return true
		}
	}
	return false
}

// before is the order in which runs of different threads are begun.
func before(a, b *localRun) bool {
	switch {
	case a.Priority != b.Priority:
		return a.Priority > b.Priority
	case !a.After.Equal(b.After):
		return a.After.Before(b.After)
	}
	return a.ID < b.ID
}

// held is the run of a claim that still holds. A void claim that nobody took yet holds
// until somebody does.
func (q *Local) held(c Claim) (*localRun, error) {
	r := q.open[c.ID]
	if r == nil || r.Status != Running || r.Epoch != c.Epoch {
		return nil, fmt.Errorf("run %s, epoch %d: %w", c.ID, c.Epoch, ErrFenced)
	}
	return r, nil
}

// Renew implements Queue.
func (q *Local) Renew(_ context.Context, claims []Claim) ([]Run, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []Run
	for _, c := range claims {
		if r, err := q.held(c); err == nil {
			r.until = q.now().Add(q.opts.LeaseTime)
			out = append(out, r.Run)
		}
	}
	return out, nil
}

// Mark implements Queue.
func (q *Local) Mark(ctx context.Context, c Claim, mark string) error {
	if err := CheckText("mark", mark); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.held(c)
	if err != nil {
		return err
	}
	to := r.Run
	to.Mark = mark
	return q.save(ctx, r, to)
}

// Finish implements Queue.
func (q *Local) Finish(ctx context.Context, c Claim, o Outcome) error {
	if err := CheckOutcome(o); err != nil {
		return err
	}
	_, unlock := q.lock(c.ID)
	defer unlock()
	r, err := q.held(c)
	if err != nil {
		return err
	}
	to := r.Run
	to.Status, to.Waiting, to.Error = o.Status, o.Waiting, Text(o.Error)
	if o.Uncounted && to.Attempt > 0 {
		to.Attempt--
	}
	if to.Status == Pending {
		if to.Cancel == Interrupt { // it was asked for, and no worker has the run now
			to.Status = Interrupted
		}
		if to.After = o.After.UTC().Truncate(time.Microsecond); o.After.IsZero() {
			to.After = q.now()
		}
	}
	if to.Status.Ended() {
		to.Ended = q.now()
	}
	return q.save(ctx, r, to)
}

// Append implements Queue. Runs append beside one another.
func (q *Local) Append(ctx context.Context, c Claim, events []Event) (int64, error) {
	if err := CheckEvents(events); err != nil {
		return 0, err
	}
	_, unlock := q.lock(c.ID)
	r, err := q.held(c)
	if err != nil {
		unlock()
		return 0, err
	}
	ops, err := q.eventOps(r.storedRun, events)
	q.mu.Unlock()
	defer r.appending.Unlock()
	if err == nil {
		err = q.write(ctx, ops...)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		return 0, err
	}
	r.Seq += int64(len(ops))
	q.Changed(c.ID)
	return r.Seq, nil
}

// seqKey makes the order of keys that of numbers.
func seqKey(seq int64) string { return fmt.Sprintf("%016d", seq) }

func eventsOf(id string) store.Namespace { return append(slices.Clone(eventsSpace), id) }

func (q *Local) eventOps(r storedRun, events []Event) ([]store.Op, error) {
	ops := make([]store.Op, len(events))
	for i, ev := range events {
		ev.Seq, ev.Attempt, ev.Time = r.Seq+int64(i)+1, r.Attempt, q.now()
		var err error
		if ops[i], err = putOp(eventsOf(r.ID), seqKey(ev.Seq), ev); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// lastSeq is the number of the last event of a run.
func (q *Local) lastSeq(ctx context.Context, r storedRun) (int64, error) {
	for seq := r.Seq; ; seq++ {
		_, err := q.items.Get(ctx, eventsOf(r.ID), seqKey(seq+1))
		if errors.Is(err, store.ErrNotFound) {
			return seq, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// Events implements Queue.
func (q *Local) Events(ctx context.Context, id string, after int64, limit int) ([]Event, error) {
	if checkName("run", id) != nil {
		return nil, nil
	}
	var out []Event
	for seq := max(after, 0) + 1; limit == 0 || len(out) < limit; seq++ {
		var ev Event
		err := get(ctx, q.items, eventsOf(id), seqKey(seq), &ev)
		if errors.Is(err, ErrNotFound) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
	return out, nil
}

// PutSchedule implements Queue.
func (q *Local) PutSchedule(ctx context.Context, s Schedule) (Schedule, error) {
	s, err := NewSchedule(s, q.opts.Serializer, q.now())
	if err != nil {
		return s, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return s, q.saveSchedule(ctx, s)
}

func (q *Local) saveSchedule(ctx context.Context, s Schedule) error {
	op, err := putOp(schedulesSpace, s.ID, s)
	if err != nil {
		return err
	}
	if err := q.write(ctx, op); err != nil {
		return err
	}
	q.schedules[s.ID] = s
	q.Changed("")
	return nil
}

// Schedules implements Queue.
func (q *Local) Schedules(context.Context) ([]Schedule, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.SortedFunc(maps.Values(q.schedules), func(a, b Schedule) int { return strings.Compare(a.ID, b.ID) }), nil
}

// Advance implements Queue.
func (q *Local) Advance(ctx context.Context, id string, from, to time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, ok := q.schedules[id]
	if !ok || !s.Next.Equal(from) {
		return nil
	}
	s.Next = to.UTC().Truncate(time.Microsecond)
	return q.saveSchedule(ctx, s)
}

// DeleteSchedule implements Queue.
func (q *Local) DeleteSchedule(ctx context.Context, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.schedules[id]; !ok {
		return nil
	}
	if err := q.write(ctx, store.PutOp{Namespace: schedulesSpace, Key: id}); err != nil {
		return err
	}
	delete(q.schedules, id)
	return nil
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

// remove removes the events of a run, last ones first, and then the run: what a crash
// leaves is found again. It looks at the run once more, as it may have been tried again.
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
	var ops []store.Op
	for seq := r.Seq; seq > 0; seq-- {
		if ops = append(ops, store.PutOp{Namespace: eventsOf(id), Key: seqKey(seq)}); len(ops) == removed {
			if err := q.write(ctx, ops...); err != nil {
				return false, err
			}
			ops = nil
		}
	}
	if err := q.write(ctx, append(ops, store.PutOp{Namespace: runsSpace, Key: id})...); err != nil {
		return false, err
	}
	if q.keys[r.Key] == r.ID {
		delete(q.keys, r.Key)
	}
	return true, nil
}

// The items are values as JSON: Run, Event and Schedule say how.

func toMap(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(text, &m)
}

func fromMap(m map[string]any, v any) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// putOp stores an item for ever, whatever the default of the store is.
func putOp(ns store.Namespace, key string, v any) (store.PutOp, error) {
	m, err := toMap(v)
	return store.PutOp{Namespace: ns, Key: key, Value: m, TTL: -1, NoIndex: true}, err
}

func get(ctx context.Context, items *store.Local, ns store.Namespace, key string, v any) error {
	item, err := items.Get(ctx, ns, key)
	if errors.Is(err, store.ErrNotFound) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	return fromMap(item.Value, v)
}

// scan yields the items of a namespace by key, as they were when it began.
func scan[T any](ctx context.Context, items *store.Local, ns store.Namespace) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for found, err := range items.Scan(ctx, store.Query{Prefix: ns, ByKey: true, NoRefresh: true}) {
			var v T
			if err == nil {
				err = fromMap(found.Value, &v)
			}
			if err != nil {
				yield(none, fmt.Errorf("%v %s: %w", ns, found.Key, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}
