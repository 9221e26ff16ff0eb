package runs

import (
	"context"
	"fmt"
	"time"
)

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

func (q *Local) claim(ctx context.Context, r *localRun, worker string) (*Claim, time.Time, error) {
	if err := q.save(ctx, r, q.claimed(r.Run, worker), nil); err != nil {
		return nil, time.Time{}, err
	}
	r.until = q.leased()
	q.place(r)
	c := q.grant(r)
	return &c, time.Time{}, nil
}

// claimed is a run as it is when a worker has claimed it.
func (q *Local) claimed(r Run, worker string) Run {
	r.Status, r.Worker = Running, worker
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
	return Claim{Run: r.Run, Discard: q.ended[r.ThreadID].status == Interrupted}
}

// giveUp ends a run that was claimed as often as it may be.
func (q *Local) giveUp(ctx context.Context, id string) error {
	r, unlock := q.lock(id)
	if r == nil || r.Attempt < r.Attempts || r.Cancel != "" || !r.due {
		unlock()
		return nil
	}
	to := r.Run
	to.Status, to.Ended = Error, q.now()
	if to.Error == "" {
		to.Error = GivenUp(to)
	}
	err := q.save(ctx, r, to, nil)
	unlock()
	return q.synced(ctx, err)
}

// held is the run of a claim that still holds. A void claim that nobody took yet holds
// until somebody does.
func (q *Local) held(c Claim) (*localRun, error) {
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

// Holds implements WorkerQueue: it has the answer at once.
func (q *Local) Holds(_ context.Context, c Claim) func() (Run, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.held(c)
	if err != nil {
		return func() (Run, error) { return Run{}, err }
	}
	run := r.Run
	return func() (Run, error) { return run, nil }
}

// Renew implements Queue.
func (q *Local) Renew(_ context.Context, claims []Claim) ([]Run, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []Run
	for _, c := range claims {
		if r, err := q.held(c); err == nil {
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
	r, err := q.held(c)
	if err == nil {
		to := r.Run
		to.Mark = mark
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
	r, err := q.held(c)
	if err != nil {
		return err
	}
	return q.save(ctx, r, q.finished(r.Run, o), q.numbered(r.storedRun, o.Events))
}

// finished is a run as it is when its claim has ended.
func (q *Local) finished(r Run, o Outcome) Run {
	r.Status, r.Waiting, r.Error = o.Status, o.Waiting, Text(o.Error)
	if o.Uncounted && r.Attempt > 0 {
		r.Attempt--
	}
	if r.Status == Pending {
		if r.Cancel == Interrupt { // it was asked for, and no worker has the run now
			r.Status = Interrupted
		}
		if r.After = o.After.UTC().Truncate(time.Microsecond); o.After.IsZero() {
			r.After = q.now()
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

// FinishAndClaim implements WorkerQueue: one write for both. The end is durable for whoever asks for it,
// as all that Get returns is. As long as nobody does, the log syncs it within 10 ms, or with a record that
// comes then.
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
	r, err := q.held(c)
	if err != nil {
		return nil, false, err
	}
	ended, err := q.change(r, q.finished(r.Run, o), q.numbered(r.storedRun, o.Events))
	if err != nil {
		return nil, false, err
	}
	var begun change
	ops := ended.ops
	// A long list of events goes alone, so that what is refused is refused because of it.
	if ended.to.Status.Ended() && ended.to.Last > 0 {
		best := q.after(r, graphs)
		if best != nil && (best.Attempt < best.Attempts || best.Cancel != "") {
			if begun, err = q.change(best, q.claimed(best.Run, worker), nil); err != nil {
				return nil, false, err
			}
			ops = append(ops, begun.ops...)
		}
	}
	if err := q.write(ctx, ops...); err != nil {
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
