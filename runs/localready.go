package runs

import (
	"container/heap"
	"slices"
	"strings"
	"time"
)

// line is a heap of runs: the first in an order is known. A run notes its place in each line.
type line struct {
	runs   []*localRun
	before func(a, b *localRun) bool
	kind   lineKind
}

type lineKind int

const (
	heldLine  lineKind = iota // of a graph: the runs whose claims hold, by the time when these are void
	laterLine                 // of a graph: those that wait for their time, by that
	waitLine                  // of a graph: the same, by when they have waited as long as they were to
	readyLine                 // of a graph: those that may begin
	dueLine                   // of a thread: those that were not begun and whose time has come, by id
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

// first is the first run of a line, nil if there is none.
func (l *line) first() *localRun {
	if len(l.runs) == 0 {
		return nil
	}
	return l.runs[0]
}

// set puts a run where it belongs now, or takes it out.
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
type localGraph struct{ held, later, waiting, ready line }

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
			held:    line{kind: heldLine, before: func(a, b *localRun) bool { return a.until.Before(b.until) }},
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
	q.place(r)
}

// leave takes a run that has ended from those that have not. The caller holds mu.
func (q *Local) leave(r *localRun) {
	delete(q.open, r.ID)
	t, g := q.threads[r.ThreadID], q.graph(r.Graph)
	i, _ := t.find(r.ID)
	t.runs = withoutAt(t.runs, i)
	g.held.set(r, false)
	g.later.set(r, false)
	g.waiting.set(r, false)
	t.due.set(r, false)
	if t.begun == r {
		t.begun = nil
	}
	q.lead(t)
	if len(t.runs) == 0 {
		delete(q.threads, r.ThreadID)
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
	r.due = !r.until.After(steady) || !running && !r.After.After(now)
	g.held.set(r, running && !r.due)
	g.later.set(r, !running && !r.due)
	g.waiting.set(r, !running && !r.due)
	if !r.Started.IsZero() {
		t.begun = r
	}
	t.due.set(r, r.due && r != t.begun)
	q.lead(t)
}

// lead makes ready the run of a thread that may begin, or be claimed again: the one that was begun, if it
// is due, or else the first of those that are. The caller holds mu.
func (q *Local) lead(t *localThread) {
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
func (q *Local) next(graphs []string) (best *localRun, next time.Time) {
	now, steady := q.now(), q.steady() // once: what is due leaves its line, also if the clock is set back now
	for _, g := range q.graphs {       // a run of another graph may hold a thread
		for r := g.held.first(); r != nil && !r.until.After(steady); r = g.held.first() {
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
		g := q.graphs[name]
		if g == nil {
			continue
		}
		if r := g.ready.first(); r != nil && (best == nil || before(r, best)) {
			best = r
		}
		for _, r := range []*localRun{g.held.first(), g.waiting.first()} {
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

// after is the run to claim once over, which a worker has, has ended; nil if there is none. The caller
// holds mu.
func (q *Local) after(over *localRun, graphs []string) *localRun {
	t := q.threads[over.ThreadID]
	t.begun = nil
	q.graph(over.Graph).held.set(over, false)
	q.lead(t)
	best, _ := q.next(graphs)
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
