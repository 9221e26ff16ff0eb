package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
)

func (s *threadAPI) delete(c *call, t thread) error {
	return c.none(s.removeWithCrons(c.ctx, t.ID))
}

// endWait bounds how long the removal of a thread waits for its runs to end.
const endWait = 15 * time.Second

// removeWithCrons removes threads that clients may have made crons for. The crons go first, so that what
// a crash leaves goes when the thread is removed again; those that came meanwhile go behind it.
func (s *threadAPI) removeWithCrons(ctx context.Context, threads ...string) error {
	for _, id := range threads {
		for _, remove := range []func(context.Context, string) error{s.crons.removeOf, s.remove, s.crons.removeOf} {
			if err := remove(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove ends the runs of a thread and removes it with all that is kept of it. What a
// crash leaves is removed when it is removed again.
func (s *threadAPI) remove(ctx context.Context, id string) error {
	defer s.locks.thread(id)()
	return s.removeLocked(ctx, id)
}

// unfinishedTime is how long another server may take to make a thread.
const unfinishedTime = time.Hour

// removeAllUnfinished removes the unfinished threads from before a time.
func (s *threadAPI) removeAllUnfinished(ctx context.Context, before time.Time) error {
	var old []unfinishedThread // a list that is read by pages loses some while it is changed
	for h, err := range s.unfinished.all(ctx) {
		if err != nil {
			return err
		}
		if h.Since.Before(before) {
			old = append(old, h)
		}
	}
	for _, h := range old {
		if err := s.removeUnfinished(ctx, h.Thread); err != nil && !errors.Is(err, saver.ErrConflict) {
			return err
		}
	}
	return nil
}

// ownUnfinished takes an unfinished thread for a request, among all servers: no other makes it, or removes it, until the lease is
// released.
func (s *threadAPI) ownUnfinished(ctx context.Context, id string, wait bool) (*saver.Lease, error) {
	waiting, done := context.WithTimeout(ctx, endWait)
	defer done()
	l, err := s.saver.Own(waiting, id, wait)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = errExists(id)
	}
	return l, err
}

func errExists(id string) error { return fail(409, "Thread with ID %s already exists", id) }

// removeUnfinished removes a thread that got no record. While another request makes it anew, on whatever server,
// the error matches saver.ErrConflict.
func (s *threadAPI) removeUnfinished(ctx context.Context, id string) error {
	defer s.locks.thread(id)()
	lease, err := s.ownUnfinished(ctx, id, false)
	if err != nil {
		return err
	}
	defer lease.Release()
	if _, ok, err := s.unfinished.get(ctx, id); err != nil || !ok {
		return err
	}
	_, made, err := s.records.get(ctx, id)
	if err == nil && !made {
		err = s.removeLocked(ctx, id)
	}
	if err != nil {
		return err
	}
	return s.unfinished.delete(ctx, id)
}

// ownLeft is ownUnfinished if there is one, or in any case, and nil else. It waits while another request makes it.
func (s *threadAPI) ownLeft(ctx context.Context, id string, always bool) (*saver.Lease, error) {
	_, left, err := s.unfinished.get(ctx, id)
	if err != nil || !left && !always {
		return nil, err
	}
	return s.ownUnfinished(ctx, id, true)
}

// removeLeft removes what a request that was cut off has left of a thread. The caller holds the lock of
// the thread.
func (s *threadAPI) removeLeft(ctx context.Context, id string) error {
	lease, err := s.ownLeft(ctx, id, false)
	if err != nil || lease == nil {
		return err
	}
	defer lease.Release()
	if _, made, err := s.records.get(ctx, id); made || err != nil { // another server made it meanwhile
		return cmp.Or(err, errExists(id))
	}
	return s.removeOwned(ctx, id)
}

// removeOwned is removeLeft for who owns it.
func (s *threadAPI) removeOwned(ctx context.Context, id string) error {
	_, left, err := s.unfinished.get(ctx, id)
	if err != nil || !left {
		return err
	}
	if err := s.removeLocked(ctx, id); err != nil {
		return err
	}
	return s.unfinished.delete(ctx, id)
}

// removeLocked is remove. The caller holds the lock of the thread.
func (s *threadAPI) removeLocked(ctx context.Context, id string) error {
	all, err := s.endRuns(ctx, id)
	if err != nil {
		return err
	}
	if err := s.saver.DeleteThread(ctx, id); err != nil && !errors.Is(err, saver.ErrNotFound) {
		return err
	}
	if err := pregel.DeleteSignals(ctx, s.store, id); err != nil { // this server need not have the thread's graph
		return err
	}
	for _, g := range s.graphs.by {
		if err := g.DeleteSignals(ctx, id); err != nil {
			return err
		}
	}
	return s.forget(ctx, id, all)
}

// endRuns ends the runs of a thread, and returns them.
func (s *threadAPI) endRuns(ctx context.Context, id string) (all []runs.Run, err error) {
	for r, err := range s.queue.List(ctx, runs.Query{ThreadID: id}) {
		if err != nil && !errors.Is(err, runs.ErrUnreadable) {
			return nil, err
		}
		all = append(all, r)
	}
	for _, r := range all {
		if err := s.endRun(ctx, r, runs.Interrupt); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// forget removes runs of a thread that have ended, and the server's records of it, that which names it last.
func (s *threadAPI) forget(ctx context.Context, id string, all []runs.Run) error {
	for _, r := range all {
		if err := s.queue.Delete(ctx, r.ID); err != nil && !errors.Is(err, runs.ErrNotFound) {
			return err
		}
	}
	if err := s.removed.delete(ctx, id); err != nil {
		return err
	}
	return s.records.delete(ctx, id)
}

// endRun cancels a run and waits until it has ended. One that cannot be decoded is not waited for:
// the queue lets it be deleted if nobody has it.
func (s *threadAPI) endRun(ctx context.Context, r runs.Run, how runs.Strategy) error {
	if r.Status.Ended() {
		return nil
	}
	r, err := s.queue.Cancel(ctx, r.ID, how)
	if errors.Is(err, runs.ErrNotFound) || errors.Is(err, runs.ErrUnreadable) {
		return nil
	}
	if err != nil || r.Status.Ended() {
		return err
	}
	waiting, done := context.WithTimeout(ctx, endWait)
	defer done()
	_, err = runs.Wait(waiting, s.queue, r.ID)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fail(409, "Run %s does not end. Try again later.", r.ID)
	}
	if errors.Is(err, runs.ErrNotFound) {
		return nil
	}
	return err
}

// deleteOf removes the threads that an assistant's runs made, as far as the user sees them.
func (s *threadAPI) deleteOf(c *call, assistantID string) error {
	g, err := c.access("threads", "delete")
	if err != nil {
		return err
	}
	var all []string
	for t, err := range s.records.all(c.ctx) {
		if err != nil {
			return err
		}
		if t.Metadata["assistant_id"] == assistantID && g.admits(t.Metadata) {
			all = append(all, t.ID)
		}
	}
	return s.removeWithCrons(c.ctx, all...)
}

func (s *threadAPI) prune(c *call) error {
	pruned, seen := []string{}, map[string]bool{}
	for _, given := range c.body.texts("thread_ids") {
		id, err := s.id(c.ctx, given)
		if err != nil {
			return err
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		_, ok, err := s.record(c.ctx, id, c.grant)
		if err != nil {
			return err
		}
		if ok {
			pruned = append(pruned, id)
		}
	}
	if c.body.text("strategy") == "keep_latest" {
		for _, id := range pruned {
			if _, err := s.saver.Prune(c.ctx, []string{id}, saver.KeepLatest); err != nil {
				return err
			}
		}
	} else if err := s.removeWithCrons(c.ctx, pruned...); err != nil {
		return err
	}
	return c.json(map[string]any{"pruned_count": len(pruned)})
}

// expires is when a thread expires that has a time to live: so long behind its last change, which a signal is too, also one to a graph
// that another server has.
func (s *threadAPI) expires(ctx context.Context, t thread, changed time.Time) (time.Time, error) {
	sent, err := pregel.LastSignal(ctx, s.store, t.ID)
	if err != nil {
		return changed, err
	}
	if sent.After(changed) {
		changed = sent
	}
	return changed.Add(t.TTL.duration()), nil
}

// expire removes a thread, or its history, when it has not been changed for its time to live.
func (s *threadAPI) expire(ctx context.Context, a deferredAction) (again time.Time, err error) {
	t, ok, err := s.records.get(ctx, a.Thread)
	if err != nil || !ok || t.TTL == nil {
		return s.deferred.done(ctx, a, err)
	}
	at, err := s.statusOf(ctx, t)
	if err != nil {
		return time.Time{}, err
	}
	due, err := s.expires(ctx, t, at.at)
	if err != nil {
		return time.Time{}, err
	}
	if at.state != nil {
		for _, w := range at.state.Waits { // who waits until an instant is not forgotten before it
			if after := w.Until.Add(t.TTL.duration()); after.After(due) {
				due = after
			}
		}
	}
	if due.After(now()) {
		return due, nil
	}
	if at.status == busy {
		return now().Add(t.TTL.duration()), nil
	}
	if t.TTL.Strategy == "keep_latest" {
		_, err = s.saver.Prune(ctx, []string{t.ID}, saver.KeepLatest)
		return now().Add(t.TTL.duration()), err
	}
	return s.deferred.done(ctx, a, s.removeWithCrons(ctx, t.ID))
}
