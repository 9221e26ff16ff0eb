package runstest

import (
	"time"

	"github.com/stele-go/stele/runs"
)

// sleep gives a run back to sleep for d.
func (e *env) sleep(c runs.Claim, d time.Duration) {
	e.Helper()
	e.finish(c, runs.Outcome{Status: runs.Pending, Waiting: true, After: e.clock.Now().Add(d)})
}

// asleep checks that a run sleeps until an instant.
func (e *env) asleep(id string, until time.Time) {
	e.Helper()
	if r := e.is(id, runs.Pending); !r.Asleep() || !r.After.Equal(until.UTC().Truncate(time.Microsecond)) || r.Attempt != 0 {
		e.Fatalf("want it asleep until %v, with no attempt: %+v", until, r)
	}
}

var sleepCases = []testCase{
	{"sleep", "is claimed when it is due, once, and has no attempts", func(e *env) {
		r := e.submit(on("t"))
		for range 5 { // more than it may be tried
			c := e.claim(r)
			if c.Attempt != 1 || c.Waiting {
				e.Fatalf("claimed: %+v", c)
			}
			e.sleep(c, time.Hour)
			e.asleep(r.ID, e.clock.Now().Add(time.Hour))
			if next := e.idle(); !next.Equal(e.get(r.ID).After) {
				e.Fatalf("next at %v", next)
			}
			e.clock.pass(time.Hour - time.Microsecond)
			e.idle()
			e.clock.pass(time.Microsecond)
		}
		e.end(e.claim(r))
		e.idle()
	}},
	{"sleep", "survives a restart", func(e *env) {
		r := e.submit(on("t"))
		e.sleep(e.claim(r), time.Hour)
		e.q = e.reopen()
		e.asleep(r.ID, e.clock.Now().Add(time.Hour))
		e.idle()
		e.clock.pass(2 * time.Hour) // the clock jumps
		e.end(e.claim(r))
	}},
	{"sleep", "keeps the thread", func(e *env) {
		r := e.submit(on("t"))
		e.sleep(e.claim(r), time.Hour)
		behind := e.submit(on("t"))
		e.idle()
		e.clock.pass(time.Hour)
		e.end(e.claim(r))
		e.end(e.claim(behind))
	}},
	{"sleep", "yields the thread", func(e *env) {
		r := e.submit(on("t"))
		e.finish(e.claim(r), runs.Outcome{Status: runs.Pending, Waiting: true, Yields: true, After: e.clock.Now().Add(time.Hour)})
		e.asleep(r.ID, e.clock.Now().Add(time.Hour))
		other := e.submit(on("t"))
		c := e.claim(other)
		e.clock.pass(time.Hour)
		if _, err := e.q.Renew(e.ctx, []runs.Claim{c}); err != nil {
			e.Fatalf("renew: %v", err)
		}
		e.idle() // the thread has a run
		e.end(c)
		e.end(e.claim(r))
	}},
	{"sleep", "ends by interrupt and by rollback", func(e *env) {
		for _, how := range []runs.Strategy{runs.Interrupt, runs.Rollback} {
			r := e.submit(on("t"))
			e.sleep(e.claim(r), time.Hour)
			next := e.submit(multitask("t", how))
			if how == runs.Rollback {
				c := e.claim(r)
				if c.Cancel != runs.Rollback {
					e.Fatalf("claimed: %+v", c)
				}
				e.finish(c, runs.Outcome{Status: runs.Interrupted})
			}
			if got := e.is(r.ID, runs.Interrupted); got.Waiting || got.Cancel != how {
				e.Errorf("cancelled: %+v", got)
			}
			c := e.claim(next)
			if !c.Discard {
				e.Errorf("it is to go on with what the other run waited for: %+v", c)
			}
			e.end(c)
		}
	}},
	{"sleep", "an interrupted run does not sleep", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		e.cancel(r.ID, runs.Interrupt)
		e.sleep(c, time.Hour)
		if got := e.is(r.ID, runs.Interrupted); got.Waiting {
			e.Errorf("%+v", got)
		}
	}},
	{"sleep", "a run that is to be rolled back is due however it was given back", func(e *env) {
		for _, o := range []runs.Outcome{{Waiting: true}, {Waiting: true, Yields: true}, {Uncounted: true, Yields: true}, {Uncounted: true, Version: "2"}} {
			r := e.submit(on("t"))
			c := e.claim(r)
			e.cancel(r.ID, runs.Rollback) // the worker does not know yet
			o.Status, o.After = runs.Pending, e.clock.Now().Add(time.Hour)
			e.finish(c, o)
			if c = e.claim(r); c.Cancel != runs.Rollback {
				e.Errorf("%+v", c)
			}
			e.finish(c, runs.Outcome{Status: runs.Interrupted})
		}
	}},
	{"sleep", "wake", func(e *env) {
		r, other := e.submit(on("t")), e.submit(on("other"))
		e.sleep(e.claim(r), time.Hour)
		e.sleep(e.claim(other), time.Hour)
		e.wake("t")
		c := e.claim(r)
		e.idle()
		e.finish(c, runs.Outcome{Status: runs.Success})
		e.wake("t", "nobody")
		e.idle()
		e.clock.pass(time.Hour)
		e.end(e.claim(other))
	}},
	{"sleep", "a wake while a worker has the run", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		e.wake("t", "t")
		e.sleep(c, time.Hour)
		c = e.claim(r) // at once
		e.sleep(c, time.Hour)
		e.idle() // it counted once
		e.clock.pass(time.Hour)
		e.claim(r)
		e.wake("t")
		e.q = e.reopen()
		e.clock.pass(leaseTime)
		c = e.claim(r) // it looks again
		e.sleep(c, time.Hour)
		e.idle()
	}},
	{"sleep", "a wake of a run that waits for its turn", func(e *env) {
		r := e.submit(with("t", func(r *runs.Request) { r.After = e.clock.Now().Add(time.Hour) }))
		e.wake("t")
		e.idle()
		e.clock.pass(time.Hour)
		c := e.claim(r)
		e.finish(c, runs.Outcome{Status: runs.Pending, After: e.clock.Now().Add(time.Hour)}) // it failed
		e.wake("t")
		e.idle()
	}},
}

func (e *env) wake(threads ...string) {
	e.Helper()
	for _, t := range threads {
		if err := e.q.Wake(e.ctx, t); err != nil {
			e.Fatalf("wake %s: %v", t, err)
		}
	}
}
