package wal

import (
	"context"
	"fmt"
	"sync"

	"github.com/stele-go/stele/base/fault"
)

// requestState says who may end a request. While it is queued, its caller may
// withdraw it; once it is taken, only the committer answers it.
type requestState uint8

const (
	stateQueued requestState = iota
	stateTaken
	stateWithdrawn
)

// controlKind is the kind of a request without a record.
type controlKind uint8

const (
	controlNone controlKind = iota
	controlRotate
	controlSync
)

// request is one queued call of the log.
type request struct {
	rec     *Record
	control controlKind
	state   requestState // guarded by queue.mu
	before  *request     // if its record is not committed, this one's is not either; see CommitAll
	parts   [][]byte     // committer: the result of Prepare
	size    int64        // committer: payload bytes
	failed  bool         // committer: the record will not be committed
	done    chan error   // the answer; capacity 1, so that the committer never waits for a caller
}

func newRequest(rec *Record, control controlKind) *request {
	return &request{rec: rec, control: control, state: stateQueued, done: make(chan error, 1)}
}

func (r *request) finish(err error) { r.done <- err }

// queuedSize is the size a request counts with while it is in the queue.
func (r *request) queuedSize() int64 {
	if r.rec == nil || r.rec.Size < 0 {
		return 0
	}
	return r.rec.Size
}

// loan says whether the committer goroutine that has Log.turn lends it to a caller; see
// committer.
type loan uint8

const (
	loanNone    loan = iota // the goroutine uses the turn itself
	loanOffered             // the goroutine waits, and a caller may take the turn
	loanTaken               // a caller leads
)

// queue holds requests in commit order, and the committer's offer to callers who find
// it empty. Requests that were withdrawn stay in place until the committer skips them.
type queue struct {
	maxBytes   int64
	maxRecords int

	mu struct {
		sync.Mutex
		ring   []*request // [head:] are waiting
		head   int
		bytes  int64 // of waiting, not withdrawn requests
		depth  int
		closed bool
		loan   loan
		room   chan struct{} // closed and replaced when room appears; nil if nobody waits
	}
	// wake has capacity 1: a token means "look again".
	wake chan struct{}
}

func newQueue(maxBytes int64, maxRecords int) *queue {
	return &queue{maxBytes: maxBytes, maxRecords: maxRecords, wake: make(chan struct{}, 1)}
}

// push appends all of rs together, waiting for room if the queue is full. An error means that none of
// them was queued.
func (q *queue) push(ctx context.Context, rs ...*request) error {
	size := int64(0)
	for _, r := range rs {
		size += r.queuedSize()
	}
	for {
		q.mu.Lock()
		if q.mu.closed {
			q.mu.Unlock()
			return fault.ErrClosed
		}
		// Requests larger than the whole bound enter an empty queue.
		if q.mu.depth == 0 || q.mu.depth+len(rs) <= q.maxRecords && q.mu.bytes+size <= q.maxBytes {
			q.mu.ring = append(q.mu.ring, rs...)
			q.mu.depth += len(rs)
			q.mu.bytes += size
			q.mu.Unlock()
			q.signal()
			return nil
		}
		if q.mu.room == nil {
			q.mu.room = make(chan struct{})
		}
		room := q.mu.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return fmt.Errorf("nothing was written: no room in the log queue: %w", ctx.Err())
		}
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// pop takes the next request if it fits into budget bytes, or whatever its size if first is set.
// Requests for a rotation or a sync are taken only as first, so that a batch ends before them. It
// returns nil when there is nothing to take.
func (q *queue) pop(budget int64, first bool) *request {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.mu.head < len(q.mu.ring) {
		r := q.mu.ring[q.mu.head]
		if r.state != stateWithdrawn {
			if !first && (r.control != controlNone || r.queuedSize() > budget) {
				return nil
			}
			r.state = stateTaken
			q.leaveLocked(r)
		}
		q.mu.ring[q.mu.head] = nil
		q.mu.head++
		if q.mu.head == len(q.mu.ring) {
			q.mu.ring, q.mu.head = q.mu.ring[:0], 0
		} else if q.mu.head >= 1024 && q.mu.head*2 >= len(q.mu.ring) {
			n := copy(q.mu.ring, q.mu.ring[q.mu.head:])
			clear(q.mu.ring[n:])
			q.mu.ring, q.mu.head = q.mu.ring[:n], 0
		}
		if r.state == stateTaken {
			return r
		}
	}
	return nil
}

// leaveLocked stops counting r and lets callers who wait for room look again.
func (q *queue) leaveLocked(r *request) {
	q.mu.depth--
	q.mu.bytes -= r.queuedSize()
	if q.mu.room != nil {
		close(q.mu.room)
		q.mu.room = nil
	}
}

// withdraw takes a request back. It reports false if the committer has it.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.state != stateQueued {
		return false
	}
	r.state = stateWithdrawn
	q.leaveLocked(r)
	// The caller owns its record again, so the queue must not keep it.
	r.rec = nil
	return true
}

// close refuses further requests; those queued are still served.
func (q *queue) close() {
	q.mu.Lock()
	q.mu.closed = true
	if q.mu.loan == loanOffered {
		q.mu.loan = loanNone
	}
	if q.mu.room != nil {
		close(q.mu.room)
		q.mu.room = nil
	}
	q.mu.Unlock()
	q.signal()
}

// drained reports whether the queue is closed and nothing waits in it.
func (q *queue) drained() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.closed && q.mu.depth == 0
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.closed
}

// waiting reports whether anything is queued.
func (q *queue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.depth > 0
}

// load returns how many requests wait, and their bytes.
func (q *queue) load() (int, int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.depth, q.mu.bytes
}

// offerLoan says that the committer waits. If may is set, a caller may borrow its turn.
func (q *queue) offerLoan(may bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.loan = loanNone
	if may && q.mu.depth == 0 && !q.mu.closed {
		q.mu.loan = loanOffered
	}
}

// endOffer ends the offer. It reports false if a caller has the turn.
func (q *queue) endOffer() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.loan == loanTaken {
		return false
	}
	q.mu.loan = loanNone
	return true
}

// takeLoan lends the turn to the caller of r, if it is offered and nothing is queued.
func (q *queue) takeLoan(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.loan != loanOffered || q.mu.depth > 0 {
		return false
	}
	q.mu.loan = loanTaken
	r.state = stateTaken
	return true
}

// returnLoan gives the turn back. The offer stands again, unless the committer has
// something to do.
func (q *queue) returnLoan() {
	q.mu.Lock()
	q.mu.loan = loanNone
	if q.mu.depth == 0 && !q.mu.closed {
		q.mu.loan = loanOffered
	}
	offered := q.mu.loan == loanOffered
	q.mu.Unlock()
	if !offered {
		q.signal()
	}
}
