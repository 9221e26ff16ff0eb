package runs

import (
	"context"
	"errors"
)

// WorkerQueue has the methods that a Worker needs beside those of Queue: a queue in the same process
// knows more, and saves writes. ForWorker makes one of any Queue. The effects are the same as those of
// the corresponding methods of Queue.
type WorkerQueue interface {
	// Holds checks whether a claim holds, perhaps in the background: the function that it returns waits
	// for the answer and returns the run, which need not be durable. Call it once. Errors: ErrFenced if
	// the claim is void, and those of the queue.
	Holds(ctx context.Context, c Claim) (answer func() (Run, error))

	// FinishAndClaim is Finish for a worker that takes the next run of one of the graphs, if it may begin at
	// once; it may return nil all the same, and always does without graphs. The end is durable when it
	// was asked for, or soon. A run that comes with an error is claimed, and both are stored, but may
	// not be durable.
	FinishAndClaim(ctx context.Context, c Claim, o Outcome, worker string, graphs []string) (next *Claim, err error)

	// Offer offers to run up to room runs of some graphs on a worker for which Claim found nothing.
	// Until the worker withdraws the offer, runs may be claimed for it; come signals that. withdraw
	// returns the claimed runs in their present state: a cancellation in between is seen only there.
	Offer(worker string, graphs []string, room int) (come <-chan struct{}, withdraw func() []Claim)

	// WhenAsked calls f, once, when somebody has asked for events of a claim's run: until then they may
	// be stored late. It calls f immediately if the queue cannot know, or the claim is void. f must not
	// wait for the queue.
	WhenAsked(c Claim, f func())
}

// workerQueuer is a queue that may be a WorkerQueue. A queue that embeds another has the methods of that
// one: they must not lead past its own Claim, Finish, Get or Events.
type workerQueuer interface {
	// ForWorker is the WorkerQueue for a queue whose calls all are the receiver's own, and nil for any
	// other whole that the receiver is a part of.
	ForWorker(whole Queue) WorkerQueue
}

// ForWorker returns q as a WorkerQueue. If q is none itself, as a Local is, the methods are made of
// those of Queue.
func ForWorker(q Queue) WorkerQueue {
	if own, ok := q.(workerQueuer); ok {
		if w := own.ForWorker(q); w != nil {
			return w
		}
	}
	return byCalls{q}
}

// byCalls is a WorkerQueue that knows the calls of a Queue alone.
type byCalls struct{ q Queue }

// Holds implements WorkerQueue: the queue may be far away.
func (b byCalls) Holds(ctx context.Context, c Claim) func() (Run, error) {
	type answer struct {
		r   Run
		err error
	}
	come := make(chan answer, 1)
	go func() {
		r, err := b.q.Get(ctx, c.ID)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnreadable) || err == nil && (r.Status != Running || r.Epoch != c.Epoch) {
			err = fenced(c)
		}
		come <- answer{r, err}
	}()
	return func() (Run, error) {
		a := <-come
		return a.r, a.err
	}
}

// FinishAndClaim implements WorkerQueue: the worker claims as it always does.
func (b byCalls) FinishAndClaim(ctx context.Context, c Claim, o Outcome, _ string, _ []string) (*Claim, error) {
	return nil, b.q.Finish(ctx, c, o)
}

// Offer implements WorkerQueue: nothing comes.
func (b byCalls) Offer(string, []string, int) (<-chan struct{}, func() []Claim) {
	return nil, func() []Claim { return nil }
}

// WhenAsked implements WorkerQueue.
func (b byCalls) WhenAsked(_ Claim, f func()) { f() }
