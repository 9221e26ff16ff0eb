package runs

import (
	"slices"
	"time"
)

// A worker that found nothing to claim waits, and offers to execute what comes. A run that may
// begin at once is stored as claimed by it: one write instead of two. Who submits it begins it, and does
// not wake the worker to do that.

// offer is what a worker offers that waits.
type offer struct {
	worker string
	graphs []string
	begin  func(Claim)   // begins a run; see Local.offer
	room   int           // how many more runs it takes
	until  time.Time     // when another run may be the next to begin; zero for none
	given  *Claim        // the last, which it has not fetched yet
	come   chan struct{} // capacity 1: it is there
}

func (o *offer) give(c Claim) {
	if o.room--; o.room > 0 {
		o.begin(c)
		return
	}
	o.given = &c
	o.come <- struct{}{}
}

// offer offers that a worker takes runs of some graphs, as many as there is room for. Until it withdraws
// the offer, begin is called for each, but for the last: come says that it was given, and withdraw returns
// it as it is then, as who cancels it in between tells nobody else. begin must not wait for the queue. An
// offer ends by itself when a run that was stored before may be the next one to begin: the worker learns
// that as all do, and claims.
func (q *Local) offer(worker string, graphs []string, room int, begin func(Claim)) (come <-chan struct{}, withdraw func() *Claim) {
	o := &offer{worker: worker, graphs: graphs, begin: begin, room: room, come: make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	best, next := q.next(graphs)
	if o.until = next; best == nil { // else it came since the worker asked
		q.offers = append(q.offers, o)
	}
	return o.come, func() *Claim {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.offers = slices.DeleteFunc(q.offers, func(other *offer) bool { return other == o })
		if o.given != nil {
			if r, err := q.held(*o.given); err == nil {
				o.given.Run = r.Run
			}
		}
		return o.given
	}
}

// offered is an offer for a new run, nil if there is none or if the run may not begin. The caller
// holds mu.
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
