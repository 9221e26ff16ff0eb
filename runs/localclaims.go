package runs

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
)

// Claims: which run is the next to begin, who has it, and for how long.

// Claim implements Queue.
func (q *Local) Claim(ctx context.Context, worker string, graphs []string) (*Claim, time.Time, error) {
	if err := CheckText("worker", worker); err != nil {
		return nil, time.Time{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	for {
		q.mu.Lock()
		best, next := q.next(worker, graphs)
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

func (q *Local) claim(ctx context.Context, r *localRun, worker string) (*Claim, time.Time, error) {
	if err := q.save(ctx, r, q.claimed(r.Run, worker, nil), nil); err != nil {
		return nil, time.Time{}, err
	}
	r.until = q.leased()
	q.place(r)
	c := q.grant(r)
	return &c, time.Time{}, nil
}

// localWorker is a worker that is alive, as Serve was told.
type localWorker struct {
	versions map[string]string
	until    time.Time
}

// Serve implements Queue.
func (q *Local) Serve(ctx context.Context, worker string, versions map[string]string) (map[string][]string, error) {
	if err := CheckServed(worker, versions); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.steady()
	maps.DeleteFunc(q.workers, func(_ string, w localWorker) bool { return !w.until.After(now) })
	if delete(q.workers, worker); len(versions) > 0 {
		q.workers[worker] = localWorker{maps.Clone(versions), now.Add(2 * q.opts.LeaseTime)}
	}
	others := map[string][]string{}
	for name, w := range q.workers {
		for graph, version := range w.versions {
			if name != worker && !slices.Contains(others[graph], version) {
				others[graph] = append(others[graph], version)
			}
		}
	}
	return others, nil
}

// Versions implements Queue.
func (q *Local) Versions(ctx context.Context) ([]metrics.QueueVersion, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.versions(), nil
}

// versions is Versions. The caller holds mu.
func (q *Local) versions() []metrics.QueueVersion {
	found := map[[2]string]metrics.QueueVersion{}
	count := func(graph, version string, runs, pinned, workers int64) {
		v := found[[2]string{graph, version}]
		found[[2]string{graph, version}] = metrics.QueueVersion{Graph: graph, Version: version, Runs: v.Runs + runs, Pinned: v.Pinned + pinned,
			Workers: v.Workers + workers}
	}
	for _, r := range q.open {
		pinned := int64(0)
		if r.Pinned {
			pinned = 1
		}
		count(r.Graph, r.Version, 1, pinned, 0)
	}
	now := q.steady()
	for _, w := range q.workers {
		for graph, version := range w.versions {
			if w.until.After(now) {
				count(graph, version, 0, 0, 1)
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b metrics.QueueVersion) int {
		return cmp.Or(cmp.Compare(a.Graph, b.Graph), cmp.Compare(a.Version, b.Version))
	})
}

// claimed is a run as it is when a worker has claimed it. over is the run whose end is stored with that, nil for none.
func (q *Local) claimed(r Run, worker string, over *Run) Run {
	r.Status, r.Worker, r.Waiting, r.Pinned = Running, worker, false, false
	before := q.before(r)
	if over != nil && over.ThreadID == r.ThreadID {
		if before = over.Version; over.Graph != r.Graph {
			before = ""
		}
	}
	r.Version = cmp.Or(r.Version, before, q.workers[worker].versions[r.Graph])
	r.Attempt++
	r.Epoch++
	if r.Started.IsZero() {
		r.Started = q.now()
	}
	return r
}

// leased is when a claim that begins, or is renewed, is void.
func (q *Local) leased() time.Time { return q.steady().Add(q.opts.LeaseTime) }

// grant is the claim of a run that was stored as claimed. The caller holds mu.
func (q *Local) grant(r *localRun) Claim {
	return Claim{Run: r.Run, Discard: q.ended[r.ThreadID].status == Interrupted, Before: q.before(r.Run)}
}

// before is Claim.Before. The caller holds mu.
func (q *Local) before(r Run) string {
	last := q.ended[r.ThreadID]
	if last.graph != r.Graph {
		return ""
	}
	return last.version
}

// giveUp ends a run that was claimed as often as it may be.
func (q *Local) giveUp(ctx context.Context, id string) error {
	r, unlock := q.lock(id)
	if r == nil || r.Attempt < r.Attempts || r.Cancel != "" || !r.due {
		unlock()
		return nil
	}
	to := r.Run
	to.Status, to.Ended, to.Pinned, to.Waiting = Error, q.now(), false, false // it may have been woken meanwhile
	if to.Error == "" {
		to.Error = GivenUp(to)
	}
	err := q.save(ctx, r, to, nil)
	unlock()
	return q.synced(ctx, err)
}

// validClaim returns the run of a claim that still holds. An expired claim still holds until another worker
// takes the run.
func (q *Local) validClaim(c Claim) (*localRun, error) {
	r := q.open[c.ID]
	if r == nil || r.Status != Running || r.Epoch != c.Epoch {
		return nil, fenced(c)
	}
	return r, nil
}

func fenced(c Claim) error { return fmt.Errorf("run %s, epoch %d: %w", c.ID, c.Epoch, ErrFenced) }

// ForWorker is q as a worker of this process uses it, and nil for a queue that embeds q: it may have calls
// of its own.
func (q *Local) ForWorker(whole Queue) WorkerQueue {
	if whole != Queue(q) {
		return nil
	}
	return q
}

// Holds implements WorkerQueue: it has the answer immediately.
func (q *Local) Holds(_ context.Context, c Claim) func() (Run, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.validClaim(c)
	if err != nil {
		return func() (Run, error) { return Run{}, err }
	}
	run := r.Run
	return func() (Run, error) { return run, nil }
}

// Wake implements Queue.
func (q *Local) Wake(ctx context.Context, threadID string) error {
	if err := CheckText("thread", threadID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return q.synced(ctx, q.wake(ctx, threadID))
}

func (q *Local) wake(ctx context.Context, threadID string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.ofThread(threadID) {
		if to, changed := q.woken(r.Run); changed {
			if err := q.save(ctx, r, to, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// woken is a run as it is when its thread was woken.
func (q *Local) woken(r Run) (to Run, changed bool) {
	switch now := q.now(); {
	case r.Asleep() && (r.After.After(now) || q.unreleased[r.ID]):
		r.After = now
	case r.Status == Running && !r.Waiting:
		r.Waiting = true
	default:
		return r, false
	}
	return r, true
}

// Renew implements Queue.
func (q *Local) Renew(ctx context.Context, claims []Claim) ([]Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []Run
	for _, c := range claims {
		if r, err := q.validClaim(c); err == nil {
			r.until = q.leased()
			q.place(r)
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
	r, err := q.validClaim(c)
	if err == nil {
		to := r.Run
		to.Mark, to.Version = mark, c.Version
		err = q.save(ctx, r, to, nil)
	}
	q.mu.Unlock()
	return q.synced(ctx, err)
}

// Finish implements Queue.
func (q *Local) Finish(ctx context.Context, c Claim, o Outcome) error {
	if err := CheckOutcome(o); err != nil {
		return err
	}
	return q.synced(ctx, q.finish(ctx, c, o))
}

func (q *Local) finish(ctx context.Context, c Claim, o Outcome) error {
	_, unlock := q.lock(c.ID)
	defer unlock()
	r, err := q.validClaim(c)
	if err != nil {
		return err
	}
	return q.save(ending(ctx, r.Run, o), r, q.finished(r.Run, o), q.numbered(r.storedRun, o.Events))
}

// finished is a run as it is when its claim has ended.
func (q *Local) finished(r Run, o Outcome) Run {
	woken := r.Waiting
	r.Status, r.Waiting, r.Error = o.Status, o.Waiting, Text(o.Error)
	if o.Uncounted && r.Attempt > 0 {
		r.Attempt--
	}
	if r.Status == Pending {
		if r.Waiting {
			r.Attempt = 0
		}
		if o.Yields {
			r.Started = time.Time{}
		}
		if r.Cancel == Interrupt { // a cancellation was requested, and no worker has the run now
			r.Status, r.Waiting = Interrupted, false
		}
		r.Pinned = o.Version != "" && r.Cancel == ""
		if r.Pinned {
			r.Version = o.Version
		}
		unaware := r.Cancel == Rollback && (o.Waiting || o.Yields || o.Version != "") // its worker went on as if it were not cancelled
		switch r.After = o.After.UTC().Truncate(time.Microsecond); {
		case r.Waiting && woken || unaware:
			r.After = q.now()
		case o.After.IsZero():
			r.After = q.now().Add(o.Delay).Truncate(time.Microsecond)
		}
	}
	if r.Status.Ended() {
		r.Ended = q.now()
	}
	return r
}

// unsettledMost is how many runs that have ended may be in memory because they are not known to be
// durable, before FinishAndClaim syncs.
const unsettledMost = 32

// FinishAndClaim implements WorkerQueue: one write for both. Get makes the end durable before it
// returns it. Otherwise the log syncs it within 10 ms, or with a record that comes in that time.
func (q *Local) FinishAndClaim(ctx context.Context, c Claim, o Outcome, worker string, graphs []string) (next *Claim, err error) {
	if err := CheckOutcome(o); err != nil {
		return nil, err
	}
	next, wait, err := q.turn(ctx, c, o, worker, graphs)
	if wait {
		err = q.synced(ctx, err)
	}
	return next, err
}

// turn is FinishAndClaim without a sync; wait reports whether to sync.
func (q *Local) turn(ctx context.Context, c Claim, o Outcome, worker string, graphs []string) (next *Claim, wait bool, err error) {
	_, unlock := q.lock(c.ID)
	defer unlock()
	r, err := q.validClaim(c)
	if err != nil {
		return nil, false, err
	}
	ended, err := q.change(r, q.finished(r.Run, o), q.numbered(r.storedRun, o.Events))
	if err != nil {
		return nil, false, err
	}
	var begun change
	ops := ended.ops
	// A long list of events is written by itself, so that an error is about the list.
	if ended.to.Status.Ended() && ended.to.Last > 0 && len(ended.kin) == 0 {
		best := q.after(r, worker, graphs)
		if best != nil && (best.Attempt < best.Attempts || best.Cancel != "") {
			if begun, err = q.change(best, q.claimed(best.Run, worker, &ended.to.Run), nil); err != nil {
				return nil, false, err
			}
			ops = append(ops, begun.ops...)
		}
	}
	err = q.write(ctx, ops...)
	if errors.Is(err, fault.ErrDiskFull) { // the end alone may be stored
		begun, err = change{}, q.write(ending(ctx, r.Run, o), ended.ops...)
	}
	if err != nil {
		return nil, false, err
	}
	q.made(ended)
	if begun.r != nil {
		q.made(begun)
		begun.r.until = q.leased()
		q.place(begun.r)
		granted := q.grant(begun.r)
		next = &granted
	}
	watched := q.isWatched(c.ID) || q.ends.isWatched(c.ID)
	return next, next == nil && !watched || len(q.unsettled) > unsettledMost, nil
}

// A worker that found nothing to claim waits, and offers to execute what comes. A run that may
// begin at once is stored as claimed by it: one write instead of two.

// offer is the offer of a waiting worker; see WorkerQueue.Offer.
type offer struct {
	worker string
	graphs []string
	room   int           // how many more runs it takes
	until  time.Time     // when another run may be the next to begin; zero for none
	given  []Claim       // those that it has not fetched yet
	come   chan struct{} // capacity 1: there are some
}

func (o *offer) give(c Claim) {
	o.given = append(o.given, c)
	o.room--
	select {
	case o.come <- struct{}{}:
	default: // it knows
	}
}

// Offer implements WorkerQueue. An offer ends by itself when a run that was stored before may be the next
// one to begin: the worker learns that as all do, and claims.
func (q *Local) Offer(worker string, graphs []string, room int) (come <-chan struct{}, withdraw func() []Claim) {
	o := &offer{worker: worker, graphs: graphs, room: room, come: make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	best, next := q.next(worker, graphs)
	if o.until = next; best == nil { // else it came since the worker asked
		q.offers = append(q.offers, o)
	}
	return o.come, func() []Claim {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.offers = slices.DeleteFunc(q.offers, func(other *offer) bool { return other == o })
		for i, c := range o.given {
			if r, err := q.validClaim(c); err == nil {
				o.given[i].Run = r.Run
			}
		}
		return o.given
	}
}

// offered returns an offer that a new run can be given to, nil if there is none or if the run may not
// begin. The caller holds mu.
func (q *Local) offered(r Run) *offer {
	now := q.now()
	if r.After.After(now) || q.threads[r.ThreadID] != nil {
		return nil
	}
	for _, o := range q.offers {
		if o.room > 0 && (o.until.IsZero() || o.until.After(now)) && slices.Contains(o.graphs, r.Graph) {
			return o
		}
	}
	return nil
}

// withdrawAll ends all offers. The caller holds mu.
func (q *Local) withdrawAll() { q.offers = nil }

// line is a heap of runs: the first in an order is known. A run notes its place in each line.
type line struct {
	runs   []*localRun
	before func(a, b *localRun) bool
	kind   lineKind
}

type lineKind int

const (
	claimedLine lineKind = iota // of a graph: the runs whose claims hold, by the time when these are void
	laterLine                   // of a graph: those that wait for their time, by that
	waitLine                    // of a graph: the same, by when they have waited as long as they were to
	readyLine                   // of a graph: those that may begin
	dueLine                     // of a thread: those that were not begun and whose time has come, by id
	pinLine                     // of a graph and version: those that wait for their time or for such a worker
	lineKinds
)

// Len implements heap.Interface.
func (l *line) Len() int { return len(l.runs) }

// Less implements heap.Interface.
func (l *line) Less(i, j int) bool { return l.before(l.runs[i], l.runs[j]) }

// Swap implements heap.Interface.
func (l *line) Swap(i, j int) {
	l.runs[i], l.runs[j] = l.runs[j], l.runs[i]
	l.runs[i].places[l.kind], l.runs[j].places[l.kind] = int32(i+1), int32(j+1)
}

// Push implements heap.Interface.
func (l *line) Push(x any) {
	r := x.(*localRun)
	l.runs = append(l.runs, r)
	r.places[l.kind] = int32(len(l.runs))
}

// Pop implements heap.Interface.
func (l *line) Pop() any {
	n := len(l.runs) - 1
	r := l.runs[n]
	l.runs[n] = nil
	l.runs = l.runs[:n]
	r.places[l.kind] = 0
	return r
}

// first returns the first run of a line, nil if there is none.
func (l *line) first() *localRun {
	if len(l.runs) == 0 {
		return nil
	}
	return l.runs[0]
}

// set puts a run at its present place in the line, or removes it.
func (l *line) set(r *localRun, in bool) {
	switch place := int(r.places[l.kind]) - 1; {
	case in && place < 0:
		heap.Push(l, r)
	case in:
		heap.Fix(l, place)
	case place >= 0:
		heap.Remove(l, place)
	}
}

// localGraph are the runs of a graph that have not ended, but for those that their threads hold up.
type localGraph struct{ claimed, later, waiting, ready line }

// localThread are the runs of a thread that have not ended.
type localThread struct {
	runs  []*localRun // all, by id
	due   line
	begun *localRun // it has the thread until it ends, so that there is one at most; nil for none
	head  *localRun // the one that is ready; nil for none
}

func (q *Local) graph(name string) *localGraph {
	g := q.graphs[name]
	if g == nil {
		g = &localGraph{
			claimed: line{kind: claimedLine, before: func(a, b *localRun) bool { return a.until.Before(b.until) }},
			later:   line{kind: laterLine, before: func(a, b *localRun) bool { return a.After.Before(b.After) }},
			waiting: line{kind: waitLine, before: func(a, b *localRun) bool { return a.until.Before(b.until) }},
			ready:   line{kind: readyLine, before: before},
		}
		q.graphs[name] = g
	}
	return g
}

// add adds a run that has not ended. The caller holds mu.
func (q *Local) add(r *localRun) {
	q.open[r.ID] = r
	t := q.threads[r.ThreadID]
	if t == nil {
		t = &localThread{due: line{kind: dueLine, before: func(a, b *localRun) bool { return a.ID < b.ID }}}
		q.threads[r.ThreadID] = t
	}
	i, _ := t.find(r.ID)
	t.runs = slices.Insert(t.runs, i, r)
	if r.Parent != "" {
		q.children[r.Parent] = append(q.children[r.Parent], r)
	}
	q.place(r)
}

// leave takes a run that has ended from those that have not. The caller holds mu.
func (q *Local) leave(r *localRun) {
	delete(q.open, r.ID)
	t, g := q.threads[r.ThreadID], q.graph(r.Graph)
	i, _ := t.find(r.ID)
	t.runs = withoutAt(t.runs, i)
	g.claimed.set(r, false)
	g.later.set(r, false)
	g.waiting.set(r, false)
	q.pin(r, false)
	t.due.set(r, false)
	if t.begun == r {
		t.begun = nil
	}
	q.makeReady(t)
	if len(t.runs) == 0 {
		delete(q.threads, r.ThreadID)
	}
	if r.Parent != "" {
		left := slices.DeleteFunc(q.children[r.Parent], func(other *localRun) bool { return other == r })
		if q.children[r.Parent] = left; len(left) == 0 {
			delete(q.children, r.Parent)
		}
	}
}

// find is where a run with an id is among those of the thread, or would be.
func (t *localThread) find(id string) (i int, there bool) {
	return slices.BinarySearchFunc(t.runs, id, func(r *localRun, id string) int { return strings.Compare(r.ID, id) })
}

// place puts a run that waits, or whose claim has changed, into the lines where it belongs now. What is
// due then stays so when the clock is set back, and what is not waits no longer for that. The caller holds mu.
func (q *Local) place(r *localRun) { q.placeAt(r, q.now(), q.steady()) }

// placeAt is place at a time, as both clocks tell it.
func (q *Local) placeAt(r *localRun, now, steady time.Time) {
	t, g := q.threads[r.ThreadID], q.graph(r.Graph)
	running := r.Status == Running
	if !running && r.places[laterLine] == 0 { // it begins to wait
		r.until = steady.Add(r.After.Sub(now))
	}
	held := q.unreleased[r.ID]
	r.due = !held && (!r.until.After(steady) || !running && !r.After.After(now))
	waits := !held && !running && !r.due
	g.claimed.set(r, !held && running && !r.due)
	g.later.set(r, waits)
	g.waiting.set(r, waits)
	q.pin(r, waits && r.Pinned && !r.Started.IsZero())
	switch {
	case !r.Started.IsZero():
		t.begun = r
	case t.begun == r: // it has yielded
		t.begun = nil
	}
	t.due.set(r, r.due && r != t.begun)
	q.makeReady(t)
}

// pin puts a run into the line of its version, or takes it out of the one where it is. The caller holds mu.
func (q *Local) pin(r *localRun, in bool) {
	if r.pin != nil {
		r.pin.set(r, false)
		r.pin = nil
	}
	if !in {
		return
	}
	key := [2]string{r.Graph, r.Version}
	if q.pinned[key] == nil {
		q.pinned[key] = &line{kind: pinLine, before: before}
	}
	r.pin = q.pinned[key]
	r.pin.set(r, true)
}

// makeReady makes ready the run of a thread that may begin, or be claimed again: the one that was begun, if it
// is due, or else the first of those that are. The caller holds mu.
func (q *Local) makeReady(t *localThread) {
	head := t.due.first()
	if t.begun != nil {
		if head = nil; t.begun.due {
			head = t.begun
		}
	}
	if t.head != nil && t.head != head {
		q.graph(t.head.Graph).ready.set(t.head, false)
	}
	if t.head = head; head != nil {
		q.graph(head.Graph).ready.set(head, true)
	}
}

// next is the run to claim; if there is none, when there may be one. It looks at the first of each line.
// The caller holds mu.
func (q *Local) next(worker string, graphs []string) (best *localRun, next time.Time) {
	q.noticeRelease()
	now, steady := q.now(), q.steady() // once: what is due leaves its line, also if the clock is set back now
	for _, g := range q.graphs {       // a run of another graph may hold a thread
		for r := g.claimed.first(); r != nil && !r.until.After(steady); r = g.claimed.first() {
			q.placeAt(r, now, steady)
		}
		for r := g.later.first(); r != nil && !r.After.After(now); r = g.later.first() {
			q.placeAt(r, now, steady)
		}
		for r := g.waiting.first(); r != nil && !r.until.After(steady); r = g.waiting.first() {
			q.placeAt(r, now, steady)
		}
	}
	for _, name := range graphs {
		if p := q.pinned[[2]string{name, q.workers[worker].versions[name]}]; p != nil && p.first() != nil {
			return p.first(), next
		}
	}
	for _, name := range graphs {
		g := q.graphs[name]
		if g == nil {
			continue
		}
		if r := g.ready.first(); r != nil && (best == nil || before(r, best)) {
			best = r
		}
		for _, r := range []*localRun{g.claimed.first(), g.waiting.first()} {
			if r != nil && (next.IsZero() || r.until.Before(next)) {
				next = r.until.UTC()
			}
		}
		if r := g.later.first(); r != nil && (next.IsZero() || r.After.Before(next)) {
			next = r.After
		}
	}
	return best, next
}

// after returns the run to claim when the run over, which a worker has, has ended; nil if there is
// none. The caller holds mu.
func (q *Local) after(over *localRun, worker string, graphs []string) *localRun {
	t := q.threads[over.ThreadID]
	t.begun = nil
	q.graph(over.Graph).claimed.set(over, false)
	q.makeReady(t)
	best, _ := q.next(worker, graphs)
	q.place(over) // it has not ended yet
	return best
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
