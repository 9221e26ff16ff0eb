package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stele-go/stele/store"
)

// deferredAction is an action for when a run has ended, or when a thread's time to live has passed. It
// is stored before the request that causes it is answered, and removed when it is done. So it is done
// after a crash as well, and at least once: a webhook may come twice. Servers that share a store may
// all do it, with the same effect.
type deferredAction struct {
	Kind   string    `json:"kind"`
	Thread string    `json:"thread"`
	Run    string    `json:"run,omitempty"`
	URL    string    `json:"url,omitempty"`
	Due    time.Time `json:"due"`
	Tries  int       `json:"tries,omitempty"`
	// busy: it is being done.
	busy bool
	// fresh, of an undo: the thread was made for the run, and goes with it.
	fresh bool
}

// deferredActions does the actions that are due, in this process. Pending actions are stored as well,
// except those that need not outlive the process.
type deferredActions struct {
	records records[deferredAction]
	store   store.Store
	log     *slog.Logger
	// do does one action, or returns when to try it again. rescan, which is called every rescanEvery,
	// removes the rest of threads whose removal was cut off.
	do     func(ctx context.Context, a deferredAction) (again time.Time, err error)
	rescan func(ctx context.Context, now time.Time) error

	pending  sync.Map      // of deferredAction, by key: those that this server knows
	wake     chan struct{} // wakes run
	settling chan struct{} // bounds the concurrent actions other than webhooks
	calling  chan struct{} // bounds the webhooks that it calls at a time
	running  sync.WaitGroup
}

// Kinds of deferredAction.
const (
	deferredWebhook    = "webhook"
	deferredTemporary  = "temporary"
	deferredTTL        = "ttl"
	deferredCron       = "cron" // Run is the cron
	deferredUndo       = "undo" // of a run that was submitted in vain; never stored
	deferredUnfinished = "half" // of a thread whose making was cut off, Run tells those of its requests apart; never stored
)

// key names an action: there is one of a kind for a thread and run.
func (a deferredAction) key() string { return a.Kind + "/" + a.Thread + "/" + a.Run }

const (
	// rescanEvery is how often a server looks for actions that other servers have stored.
	rescanEvery = 30 * time.Second
	// runPoll is how often it looks whether a run has ended.
	runPoll = 500 * time.Millisecond
	// undoPause is the time between two tries to undo a request that was refused.
	undoPause = time.Second
	// hookTries is how often a webhook is called before it is given up.
	hookTries = 6
	// grace is how long a temporary thread stays after its run, for clients that were cut off.
	grace = time.Minute
)

// hookPause returns the pause before the next try of a webhook that has failed tries times.
func hookPause(tries int) time.Duration { return time.Second << tries }

// putWith stores records and something to do about them in one write: no crash leaves one without the other.
func (s *deferredActions) putWith(ctx context.Context, a deferredAction, records ...store.Op) error {
	op, err := s.records.op(a.key(), a)
	if err != nil {
		return err
	}
	if _, err := s.store.Batch(ctx, append(records, op)...); err != nil {
		return err
	}
	s.expect(a)
	return nil
}

// expect adds an action that is already stored.
func (s *deferredActions) expect(a deferredAction) {
	s.pending.Store(a.key(), a)
	s.awake()
}

// run does the actions that are due until ctx ends.
func (s *deferredActions) run(ctx context.Context) {
	defer s.running.Wait()
	lives := time.Now()
	var scanned time.Time
	var clock clockSteps
	for ctx.Err() == nil {
		begun := time.Now()
		at := now()
		back := clock.back(at, begun.Sub(lives))
		if scanned.IsZero() || begun.Sub(scanned) >= rescanEvery {
			if err := s.look(ctx, at); err != nil {
				s.logUnlessEnding(ctx, "look for what is due", err)
			}
			if err := s.rescan(ctx, at); err != nil {
				s.logUnlessEnding(ctx, "remove what is left of threads", err)
			}
			scanned = begun
		}
		wait := scanned.Add(rescanEvery).Sub(begun)
		due := map[string]deferredAction{}
		s.pending.Range(func(k, v any) bool {
			switch a := v.(deferredAction); {
			case a.busy:
			case !a.Due.After(at) || back && a.Kind != deferredTTL:
				due[k.(string)] = a
			default:
				wait = min(wait, a.Due.Sub(at))
			}
			return true
		})
		for key, a := range due {
			hook, places := a.Kind == deferredWebhook, s.settling
			if hook { // it may hang: nothing else waits for it, and one without a place stays due
				places = s.calling
				select {
				case places <- struct{}{}:
				default:
					continue
				}
			} else {
				select {
				case places <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
			a.busy = true
			s.pending.Store(key, a)
			s.running.Go(func() {
				if hook {
					defer s.awake() // another may have the place
				}
				defer func() { <-places }()
				s.one(ctx, key, a)
			})
		}
		t := time.NewTimer(max(wait, time.Millisecond))
		select {
		case <-t.C:
		case <-s.wake:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// look adds the actions that are stored, but for webhooks and crons of a store that was restored, until it is released: its original
// calls the ones, and fires the others.
func (s *deferredActions) look(ctx context.Context, at time.Time) error {
	var held map[string]bool
	if h, ok := s.store.(interface {
		Held(context.Context, ...store.Namespace) (map[string]bool, error)
	}); ok {
		var err error
		if held, err = h.Held(ctx, s.records.ns); err != nil {
			return err
		}
	}
	for a, err := range s.records.all(ctx) {
		switch {
		case err != nil:
			return err
		case held[a.key()] && (a.Kind == deferredCron || a.Kind == deferredWebhook):
			continue
		// A cron says when it is due, and the clock was set back since a webhook was put off for longer than any is.
		case a.Kind == deferredCron, a.Kind == deferredWebhook && a.Due.After(at.Add(hookPause(hookTries))):
			a.Due = at
		}
		s.pending.LoadOrStore(a.key(), a) // except those being done
	}
	return nil
}

// clockSteps notices that the clock was set back. The zero clockSteps begins with any clock.
type clockSteps struct {
	shown  time.Time
	passed time.Duration
}

// back reports whether the clock was set back by more than a minute since the last call: due times are
// then too late by as much. shown is the clock's time, and passed is how long the server has been
// running.
func (c *clockSteps) back(shown time.Time, passed time.Duration) bool {
	before := *c
	*c = clockSteps{shown, passed}
	return !before.shown.IsZero() && shown.Sub(before.shown)-(passed-before.passed) < -time.Minute
}

// one does one action, and notes when to try it again if it is not done.
func (s *deferredActions) one(ctx context.Context, key string, a deferredAction) {
	again, err := s.do(ctx, a)
	if err != nil {
		s.logUnlessEnding(ctx, "do what is due", err)
		again = now().Add(10 * time.Second)
	}
	if again.IsZero() {
		s.pending.Delete(key)
		return
	}
	if v, ok := s.pending.Load(key); ok { // it counts its tries
		a = v.(deferredAction)
	}
	a.Due, a.busy = again, false
	s.pending.Store(key, a)
	s.awake()
}

// awake makes the method run look for due actions now, without waiting for its timer.
func (s *deferredActions) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// logUnlessEnding logs an error, unless it may be due to the end of ctx: then the next server looks again.
func (s *deferredActions) logUnlessEnding(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.log.Error(what, "error", err)
	}
}

// done removes an action that was done, unless that failed with err.
func (s *deferredActions) done(ctx context.Context, a deferredAction, err error) (again time.Time, _ error) {
	if err == nil {
		err = s.records.delete(ctx, a.key())
	}
	return time.Time{}, err
}
