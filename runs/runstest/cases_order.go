package runstest

import (
	"time"

	"github.com/stele-go/stele/runs"
)

func later(e *env, thread string, d time.Duration) runs.Request {
	return with(thread, func(r *runs.Request) { r.After = e.clock.Now().Add(d) })
}

func priority(thread string, p int) runs.Request {
	return with(thread, func(r *runs.Request) { r.Priority = p })
}

var orderCases = []testCase{
	{"order", "of a thread that of submission", func(e *env) {
		var all []runs.Run
		for p := range 4 { // priority is between threads
			all = append(all, e.submit(priority("t", p)))
		}
		for _, r := range all {
			c := e.claim(r)
			e.idle()
			e.end(c)
		}
	}},
	{"order", "by priority, then by time", func(e *env) {
		low := e.submit(priority("low", -1))
		delayed := e.submit(later(e, "delayed", time.Second))
		e.clock.pass(500 * time.Millisecond)
		first, second := e.submit(on("a")), e.submit(on("b"))
		high := e.submit(priority("high", 1))
		e.clock.pass(time.Second)
		last := e.submit(on("c"))
		for _, r := range []runs.Run{high, first, second, delayed, last, low} {
			e.claim(r)
		}
		e.idle()
	}},
	{"order", "only graphs that were asked for", func(e *env) {
		g := e.submit(on("a"))
		h := e.submit(with("b", func(r *runs.Request) { r.Graph, r.Priority = "h", 9 }))
		e.claim(g)
		e.idle()
		if c, _, err := e.q.Claim(e.ctx, "w", nil); c != nil || err != nil {
			e.Errorf("claim of no graph: %v, %v", c, err)
		}
		c, _, err := e.q.Claim(e.ctx, "w", []string{"x", "h"})
		if err != nil || c == nil || c.ID != h.ID {
			e.Errorf("claim: %+v, %v", c, err)
		}
	}},
	{"order", "another graph's run holds its thread", func(e *env) {
		e.submit(with("t", func(r *runs.Request) { r.Graph = "h" }))
		e.submit(on("t"))
		e.idle()
	}},
	{"order", "a delay", func(e *env) {
		r := e.submit(later(e, "t", time.Minute))
		if next := e.idle(); !next.IsZero() && !next.Equal(r.After) {
			e.Errorf("the next begins at %v, want %v", next, r.After)
		}
		e.clock.pass(time.Minute - time.Microsecond)
		e.idle()
		e.clock.pass(time.Microsecond)
		e.claim(r)
	}},
	{"order", "a run whose time has not come holds nobody up", func(e *env) {
		waits, r := e.submit(later(e, "t", time.Minute)), e.submit(on("t"))
		e.end(e.claim(r))
		r = e.submit(on("t"))
		e.clock.pass(time.Minute) // now it is the first of the two
		e.end(e.claim(waits))
		e.end(e.claim(r))
	}},
	{"order", "a run that was begun holds its thread", func(e *env) {
		early, a, b := e.submit(later(e, "t", time.Second)), e.submit(on("t")), e.submit(on("t"))
		e.finish(e.claim(a), runs.Outcome{Status: runs.Pending, After: e.clock.Now().Add(time.Minute)})
		e.idle()
		e.clock.pass(2 * time.Second) // early is due, and must wait as b does
		e.idle()
		e.clock.pass(time.Minute)
		e.end(e.claim(a))
		e.end(e.claim(early))
		e.end(e.claim(b))
	}},
	{"order", "the dead hold their thread", func(e *env) {
		early, a := e.submit(later(e, "t", time.Second)), e.submit(on("t"))
		e.claim(a)
		e.clock.pass(leaseTime)
		c := e.claim(a)
		e.idle()
		e.end(c)
		e.claim(early)
	}},
	{"order", "one that is tried again waits for the one that was begun", func(e *env) {
		a, b := e.submit(on("t")), e.submit(on("t"))
		e.finish(e.claim(a), runs.Outcome{Status: runs.Error})
		e.claim(b)
		e.retry(a.ID)
		e.idle()
		e.clock.pass(leaseTime)
		c := e.claim(b)
		e.finish(c, runs.Outcome{Status: runs.Pending})
		c = e.claim(b)
		e.end(c)
		e.claim(a)
	}},
}

var claimCases = []testCase{
	{"claims", "what a claim tells", func(e *env) {
		r := e.submit(on("t"))
		e.clock.pass(time.Second)
		c := e.claim(r)
		now := e.clock.Now()
		want := r
		want.Status, want.Attempt, want.Epoch, want.Worker, want.Started = runs.Running, 1, c.Epoch, "w", now
		e.equal("claim", c.Run, want)
		if c.Epoch <= 0 || c.Discard {
			e.Errorf("claim %+v", c)
		}
		e.equal("stored", e.get(r.ID), c.Run)
		e.idle()
	}},
	{"claims", "hold for the lease time", func(e *env) {
		if e.q.LeaseTime() != leaseTime {
			e.Fatalf("lease time %v", e.q.LeaseTime())
		}
		r := e.submit(on("t"))
		c := e.claim(r)
		if next := e.idle(); !next.IsZero() && !next.Equal(e.clock.Now().Add(leaseTime)) {
			e.Errorf("the next begins at %v", next)
		}
		e.clock.pass(leaseTime - time.Microsecond)
		e.idle()
		e.clock.pass(time.Microsecond)
		again := e.claim(r)
		if again.Epoch <= c.Epoch || again.Attempt != 2 || !again.Started.Equal(c.Started) {
			e.Errorf("claimed again: %+v", again)
		}
		e.fenced(c)
		e.end(again)
	}},
	{"claims", "are renewed", func(e *env) {
		a, b := e.submit(on("a")), e.submit(on("b"))
		ca, cb := e.claim(a), e.claim(b)
		for range 3 {
			e.clock.pass(leaseTime - time.Second)
			held, err := e.q.Renew(e.ctx, []runs.Claim{ca, cb})
			if err != nil || len(held) != 2 {
				e.Fatalf("renew: %v, %v", held, err)
			}
			e.idle()
		}
		e.end(cb)
		held, err := e.q.Renew(e.ctx, []runs.Claim{ca, cb})
		if err != nil || len(held) != 1 || held[0].ID != a.ID {
			e.Fatalf("renew: %v, %v", held, err)
		}
		e.equal("renewed", held[0], e.get(a.ID))
		if held, err := e.q.Renew(e.ctx, nil); err != nil || len(held) != 0 {
			e.Errorf("renew nothing: %v, %v", held, err)
		}
	}},
	{"claims", "a void claim that nobody took holds", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		e.clock.pass(2 * leaseTime)
		if held, err := e.q.Renew(e.ctx, []runs.Claim{c}); err != nil || len(held) != 1 {
			e.Fatalf("renew: %v, %v", held, err)
		}
		e.idle()
		e.clock.pass(2 * leaseTime)
		e.emit(c, "custom")
		e.end(c)
		e.is(r.ID, runs.Success)
	}},
	{"claims", "old ones do nothing", func(e *env) {
		r := e.submit(on("t"))
		first := e.claim(r)
		e.clock.pass(leaseTime)
		second := e.claim(r)
		e.fenced(first)
		e.finish(second, runs.Outcome{Status: runs.Pending})
		e.fenced(first)
		e.fenced(second)
		third := e.claim(r)
		e.fenced(second)
		forged := third
		forged.Epoch++
		e.fenced(forged)
		e.end(third)
		e.fenced(third)
	}},
	{"claims", "of what ended do nothing, once it is tried again", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		e.finish(c, runs.Outcome{Status: runs.Error})
		e.retry(r.ID)
		e.fenced(c)
		if again := e.claim(r); again.Epoch <= c.Epoch {
			e.Errorf("epoch %d after %d", again.Epoch, c.Epoch)
		}
		e.fenced(c)
	}},
	{"claims", "a mark", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		if err := e.q.Mark(e.ctx, c, "noted ü"); err != nil {
			e.Fatalf("mark: %v", err)
		}
		if got := e.get(r.ID).Mark; got != "noted ü" {
			e.Errorf("mark %q", got)
		}
		e.clock.pass(leaseTime)
		if c = e.claim(r); c.Mark != "noted ü" {
			e.Errorf("mark %q at the next attempt", c.Mark)
		}
	}},
}

var attemptCases = []testCase{
	{"attempts", "are bounded, and the run is given up", func(e *env) {
		r := e.submit(with("t", func(r *runs.Request) { r.Attempts = 2 }))
		waits := e.submit(on("t"))
		for n := range 2 {
			if c := e.claim(r); c.Attempt != n+1 {
				e.Errorf("attempt %d, want %d", c.Attempt, n+1)
			}
			e.clock.pass(leaseTime)
		}
		e.claim(waits) // in place of a third attempt
		got := e.is(r.ID, runs.Error)
		if got.Error != runs.GivenUp(got) || got.Attempt != 2 || !got.Ended.Equal(e.clock.Now()) {
			e.Errorf("given up: %+v", got)
		}
		e.kinds(r.ID, runs.KindEnd)
	}},
	{"attempts", "the error of the last one stays", func(e *env) {
		r := e.submit(with("t", func(r *runs.Request) { r.Attempts = 1 }))
		e.finish(e.claim(r), runs.Outcome{Status: runs.Pending, Error: "why"})
		e.idle()
		if got := e.is(r.ID, runs.Error); got.Error != "why" {
			e.Errorf("error %q", got.Error)
		}
	}},
	{"attempts", "uncounted ones", func(e *env) {
		r := e.submit(with("t", func(r *runs.Request) { r.Attempts = 1 }))
		for range 3 {
			c := e.claim(r)
			if c.Attempt != 1 {
				e.Fatalf("attempt %d", c.Attempt)
			}
			e.finish(c, runs.Outcome{Status: runs.Pending, Uncounted: true})
		}
		e.end(e.claim(r))
	}},
	{"attempts", "one that is cancelled is claimed all the same", func(e *env) {
		r := e.submit(with("t", func(r *runs.Request) { r.Attempts = 1 }))
		e.claim(r)
		e.cancel(r.ID, runs.Rollback)
		e.clock.pass(leaseTime)
		if c := e.claim(r); c.Cancel != runs.Rollback {
			e.Errorf("claimed %+v", c)
		}
	}},
	{"discard", "only what was interrupted on purpose", func(e *env) {
		end := func(r runs.Run, s runs.Status, discard bool) {
			e.Helper()
			c := e.claim(r)
			if c.Discard != discard {
				e.Fatalf("discard is %v", c.Discard)
			}
			e.finish(c, runs.Outcome{Status: s})
		}
		end(e.submit(on("t")), runs.Interrupted, false)
		end(e.submit(on("t")), runs.Error, true)
		end(e.submit(on("t")), runs.Success, false)
		end(e.submit(on("t")), runs.Interrupted, false)
		e.claim(e.submit(on("other")))
		r := e.submit(on("t"))
		end(r, runs.Pending, true)
		end(r, runs.Success, true)
	}},
	{"discard", "a run that never began leaves nothing", func(e *env) {
		failed := e.submit(on("t"))
		e.finish(e.claim(failed), runs.Outcome{Status: runs.Error})
		e.clock.pass(time.Second)
		e.cancel(e.submit(on("t")).ID, runs.Interrupt)
		if c := e.claim(e.submit(on("t"))); c.Discard {
			e.Errorf("what failed is not to be finished")
		}
	}},
	{"discard", "not what a run itself left", func(e *env) {
		for _, before := range []runs.Status{runs.Success, runs.Interrupted} {
			thread := string(before)
			e.finish(e.claim(e.submit(on(thread))), runs.Outcome{Status: before})
			e.clock.pass(time.Second)
			r := e.submit(on(thread))
			e.finish(e.claim(r), runs.Outcome{Status: runs.Interrupted})
			e.clock.pass(time.Second)
			e.retry(r.ID)
			c := e.claim(r)
			if c.Discard != (before == runs.Interrupted) {
				e.Errorf("tried again after %s: discard is %v", before, c.Discard)
			}
			e.end(c)
		}
	}},
}
