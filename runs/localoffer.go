package runs

import (
	"slices"
	"time"
)

// A worker that found nothing to claim waits, and offers to execute what comes. A run that may
// begin at once is stored as claimed by it: one write instead of two.

// offer is what a worker offers that waits.
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
	best, next := q.next(graphs)
	if o.until = next; best == nil { // else it came since the worker asked
		q.offers = append(q.offers, o)
	}
	return o.come, func() []Claim {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.offers = slices.DeleteFunc(q.offers, func(other *offer) bool { return other == o })
		for i, c := range o.given {
			if r, err := q.held(c); err == nil {
				o.given[i].Run = r.Run
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
