package runstest

import (
	"errors"
	"time"

	"github.com/stele-go/stele/runs"
)

// child starts a child of a run on a thread of graph "g".
func (e *env) child(parent runs.Claim, thread string, change ...func(*runs.Request)) runs.Run {
	e.Helper()
	return e.submit(with(thread, func(r *runs.Request) {
		r.Key, r.Parent = "child/"+thread, &parent
		for _, f := range change {
			f(r)
		}
	}))
}

func detached(r *runs.Request) { r.Detached = true }

// ended checks with which run the child on a thread has ended; "" if it was deleted.
func (e *env) ended(thread, want string) runs.ChildEnd {
	e.Helper()
	end, ok, err := e.q.ChildEnd(e.ctx, thread)
	if err != nil || !ok || end.Run.ID != want {
		e.Fatalf("the child on %s has ended: %t, with %q, %v; want %q", thread, ok, end.Run.ID, err, want)
	}
	return end
}

func (e *env) goesOn(thread string) {
	e.Helper()
	if end, ok, err := e.q.ChildEnd(e.ctx, thread); err != nil || ok {
		e.Fatalf("the child on %s has not ended: %+v, %v", thread, end, err)
	}
}

// waitsForIt gives a run back, without an instant at which it is due.
func (e *env) waitsForIt(c runs.Claim) {
	e.Helper()
	e.finish(c, runs.Outcome{Status: runs.Pending, Waiting: true, After: farOff})
}

var farOff = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// interruptedNext claims a run that must be next and is to be interrupted, and ends it.
func (e *env) interruptedNext(want runs.Run) {
	e.Helper()
	c := e.claim(want)
	if c.Cancel != runs.Interrupt {
		e.Fatalf("%s is to be interrupted: %+v", want.ID, c)
	}
	e.finish(c, runs.Outcome{Status: runs.Interrupted})
}

var childCases = []testCase{
	{"children", "each end makes the parent due", func(e *env) {
		for _, o := range []runs.Outcome{{Status: runs.Success}, {Status: runs.Error, Error: "no"}, {Status: runs.Interrupted}} {
			p := e.submit(on("p " + string(o.Status)))
			c := e.claim(p)
			k := e.child(c, "k "+string(o.Status))
			if k.Parent != p.ThreadID || k.Detached {
				e.Fatalf("%+v", k)
			}
			e.goesOn(k.ThreadID)
			e.waitsForIt(c)
			kc := e.claim(k)
			if kc.Parent != p.ThreadID {
				e.Fatalf("claimed: %+v", kc)
			}
			e.idle()
			e.goesOn(k.ThreadID)
			e.finish(kc, o)
			if end := e.ended(k.ThreadID, k.ID); end.Run.Status != o.Status || end.Run.Error != o.Error {
				e.Errorf("%+v", end)
			}
			e.q = e.reopen()
			e.ended(k.ThreadID, k.ID)
			e.end(e.claim(p))
			e.idle()
		}
	}},
	{"children", "the output is that of the run that ended", func(e *env) {
		c := e.claim(e.submit(on("p")))
		k := e.child(c, "k")
		kc := e.claim(k)
		typed, err := e.q.Serializer().Encode("out")
		if err != nil {
			e.Fatalf("%v", err)
		}
		e.emit(kc, "custom", runs.KindOutput)
		e.finish(kc, runs.Outcome{Status: runs.Success, Events: []runs.Event{{Kind: "custom"}, {Kind: runs.KindOutput, Data: typed}}})
		e.equal("output", e.ended("k", k.ID).Output, typed)
		e.q = e.reopen()
		e.equal("output", e.ended("k", k.ID).Output, typed)
	}},
	{"children", "an end while a worker has the parent", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k")
		e.end(e.claim(k)) // behind the parent's look
		e.waitsForIt(c)
		e.end(e.claim(p))
	}},
	{"children", "one place is one child", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k")
		if again := e.child(c, "k"); again.ID != k.ID {
			e.Fatalf("%+v", again)
		}
		e.end(e.claim(k))
		if again := e.child(c, "k"); again.ID != k.ID || again.Status != runs.Success {
			e.Fatalf("%+v", again)
		}
		_, err := e.q.Submit(e.ctx, with("k", func(r *runs.Request) { r.Key, r.Parent, r.Graph = "child/k", &c, "other" }))
		e.refused("another graph", err, runs.ErrKey)
	}},
	{"children", "is started by a claim that holds", func(e *env) {
		p := e.submit(on("p"))
		void := e.claim(p)
		k := e.child(void, "k")
		e.end(e.claim(k))
		e.clock.pass(leaseTime)
		c := e.claim(p)
		start := func(c runs.Claim) error {
			_, err := e.q.Submit(e.ctx, with("late", func(r *runs.Request) { r.Key, r.Parent = "child/late", &c }))
			return err
		}
		e.refused("another has it", start(void), runs.ErrFenced)
		e.child(void, "k") // which is there
		e.end(c)
		e.refused("it has ended", start(c), runs.ErrFenced)
		e.lists(runs.Query{ThreadID: "late"})
	}},
	{"children", "bad requests", func(e *env) {
		c := e.claim(e.submit(on("p")))
		for what, change := range map[string]func(*runs.Request){
			"the same thread":         func(r *runs.Request) { r.Parent = &c },
			"detached without parent": func(r *runs.Request) { r.ThreadID, r.Detached = "k", true },
		} {
			_, err := e.q.Submit(e.ctx, with("p", change))
			e.refused(what, err, runs.ErrInvalid)
		}
	}},
	{"children", "a question is no end", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k")
		e.waitsForIt(c)
		e.finish(e.claim(k), runs.Outcome{Status: runs.Success, Waiting: true})
		e.idle()
		e.goesOn("k")
		e.q = e.reopen()
		answer := e.submit(on("k"))
		if answer.Parent != "p" {
			e.Fatalf("%+v", answer)
		}
		ac := e.claim(answer)
		e.finish(ac, runs.Outcome{Status: runs.Error, Waiting: true, Error: "wrong answer"})
		e.idle()
		e.goesOn("k")
		answer = e.submit(on("k"))
		behind := e.submit(on("k")) // before the child has ended
		if behind.Parent != "p" {
			e.Fatalf("%+v", behind)
		}
		e.cancel(behind.ID, runs.Interrupt)
		e.goesOn("k")
		e.waitsForIt(e.claim(p)) // it looks
		e.end(e.claim(answer))
		e.ended("k", answer.ID)
		e.end(e.claim(p))
		if later := e.submit(on("k")); later.Parent != "" {
			e.Fatalf("the child has ended: %+v", later)
		}
	}},
	{"children", "a run that gave its thread up is not waited for", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k")
		e.waitsForIt(c)
		e.finish(e.claim(k), runs.Outcome{Status: runs.Pending, Waiting: true, Yields: true, After: farOff})
		answer := e.submit(on("k"))
		e.end(e.claim(answer))
		e.ended("k", answer.ID)
		e.end(e.claim(p))
	}},
	{"children", "is cancelled before it was begun", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k")
		e.waitsForIt(c)
		e.cancel(k.ID, runs.Interrupt)
		e.ended("k", k.ID)
		e.end(e.claim(p))
	}},
	{"children", "fails by its attempts", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k", func(r *runs.Request) { r.Attempts = 1 })
		e.waitsForIt(c)
		e.claim(k)
		if err := e.q.Wake(e.ctx, "k"); err != nil { // so it is Waiting when its worker dies
			e.Fatalf("%v", err)
		}
		e.clock.pass(leaseTime)
		pc, _ := e.next() // the child is given up with this claim, or before the next
		if pc == nil {
			pc, _ = e.next()
		}
		if pc == nil || pc.ID != p.ID {
			e.Fatalf("claimed: %+v", pc)
		}
		if end := e.ended("k", k.ID); end.Run.Status != runs.Error {
			e.Fatalf("%+v", end)
		}
	}},
	{"children", "a child that is tried again has not ended", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k")
		e.waitsForIt(c)
		e.finish(e.claim(k), runs.Outcome{Status: runs.Error})
		e.retry(k.ID)
		e.goesOn("k")
		pc := e.claim(p)
		e.waitsForIt(pc)
		e.end(e.claim(k))
		e.ended("k", k.ID)
		e.end(e.claim(p))
	}},
	{"children", "a child that is deleted", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k")
		e.waitsForIt(c)
		e.finish(e.claim(k), runs.Outcome{Status: runs.Success, Waiting: true}) // it asks
		if err := e.q.Delete(e.ctx, k.ID); err != nil {
			e.Fatalf("delete: %v", err)
		}
		e.ended("k", "")
		e.end(e.claim(p))
	}},
	{"children", "the end of a parent interrupts its children, and theirs", func(e *env) {
		for _, o := range []runs.Outcome{{Status: runs.Success}, {Status: runs.Interrupted}} {
			p := e.submit(on("p " + string(o.Status)))
			c := e.claim(p)
			running, sleeps := e.child(c, "running "+p.ID), e.child(c, "sleeps "+p.ID)
			later := e.child(c, "later "+p.ID, func(r *runs.Request) { r.After = e.clock.Now().Add(time.Hour) })
			free := e.child(c, "free "+p.ID, detached)
			rc, sc := e.claim(running), e.claim(sleeps)
			below := e.child(sc, "below "+p.ID)
			e.waitsForIt(sc)
			fc := e.claim(free)
			if !fc.Detached {
				e.Fatalf("%+v", fc)
			}
			e.sleep(e.claim(below), 2*time.Hour)
			e.finish(c, o)
			e.q = e.reopen()
			if held, err := e.q.Renew(e.ctx, []runs.Claim{rc, fc}); err == nil && len(held) > 0 { // a local queue has opened anew
				for _, r := range held {
					if want := map[string]runs.Strategy{running.ID: runs.Interrupt}[r.ID]; r.Cancel != want {
						e.Errorf("%s is to be cancelled with %q, want %q", r.ID, r.Cancel, want)
					}
				}
				e.finish(rc, runs.Outcome{Status: runs.Pending, After: farOff}) // it is given back, and has ended
				e.end(fc)
			}
			left := map[string]runs.Run{running.ID: running, sleeps.ID: sleeps, later.ID: later, free.ID: free, below.ID: below}
			for range left {
				c, _ := e.next()
				if c == nil {
					break
				}
				if c.ID == free.ID {
					if c.Cancel != "" {
						e.Fatalf("it is detached: %+v", c)
					}
					e.end(*c)
					continue
				}
				if c.Cancel != runs.Interrupt {
					e.Fatalf("claimed: %+v", c)
				}
				e.finish(*c, runs.Outcome{Status: runs.Interrupted})
			}
			for id := range left {
				want := runs.Interrupted
				if id == free.ID {
					want = runs.Success
				}
				e.is(id, want)
			}
			e.idle()
		}
	}},
	{"children", "a parent that goes on keeps its children", func(e *env) {
		for _, o := range []runs.Outcome{{Status: runs.Success, Waiting: true}, {Status: runs.Error}} {
			p := e.submit(on("p " + string(o.Status)))
			c := e.claim(p)
			k := e.child(c, "k "+p.ID)
			e.finish(c, o)
			kc := e.claim(k)
			if kc.Cancel != "" {
				e.Fatalf("%+v", kc)
			}
			e.end(kc)
			e.ended(k.ThreadID, k.ID)
			swept := 0
			for range 2 { // the child goes behind its parent
				n, err := e.q.Sweep(e.ctx, e.clock.Now().Add(time.Hour))
				if err != nil {
					e.Fatalf("sweep: %v", err)
				}
				swept += n
			}
			e.equal("swept", swept, 2)
		}
	}},
	{"children", "are kept while their parent may ask", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k")
		e.waitsForIt(c)
		e.end(e.claim(k))
		e.clock.pass(time.Hour)
		if n, err := e.q.Sweep(e.ctx, e.clock.Now()); err != nil || n != 0 {
			e.Fatalf("swept %d, %v", n, err)
		}
		e.end(e.claim(p))
		if n, err := e.q.Sweep(e.ctx, e.clock.Now()); err != nil || n != 1 {
			e.Fatalf("swept %d, %v", n, err)
		}
		e.ended("k", "")
	}},
	{"children", "a run that was never begun interrupts no children", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k")
		behind := e.submit(on("p"))
		e.cancel(behind.ID, runs.Interrupt)
		kc := e.claim(k)
		if kc.Cancel != "" {
			e.Fatalf("%+v", kc)
		}
	}},
	{"children", "the removal of the last run of a parent interrupts its children", func(e *env) {
		first := e.submit(on("p"))
		c := e.claim(first)
		k := e.child(c, "k")
		e.finish(c, runs.Outcome{Status: runs.Success, Waiting: true})
		answer := e.submit(on("p"))
		e.waitsForIt(e.claim(k))
		e.finish(e.claim(answer), runs.Outcome{Status: runs.Success, Waiting: true})
		for _, r := range []runs.Run{first, answer} {
			e.idle()
			if err := e.q.Delete(e.ctx, r.ID); err != nil {
				e.Fatalf("delete: %v", err)
			}
		}
		e.q = e.reopen()
		e.interruptedNext(k)
	}},
	{"children", "an answer to a child whose parent has ended", func(e *env) {
		for _, free := range []bool{false, true} {
			p := e.submit(on("p"))
			c := e.claim(p)
			thread := "k " + p.ID
			k := e.child(c, thread, func(r *runs.Request) { r.Detached = free })
			e.finish(e.claim(k), runs.Outcome{Status: runs.Success, Waiting: true})
			e.end(c)
			e.q = e.reopen()
			answer := e.submit(on(thread))
			if free {
				e.end(e.claim(answer))
				continue
			}
			e.interruptedNext(answer)
		}
	}},
	{"children", "an interrupted parent in the queue's own cancellation", func(e *env) {
		p := e.submit(on("p"))
		c := e.claim(p)
		k := e.child(c, "k")
		e.waitsForIt(c)
		e.submit(multitask("p", runs.Interrupt)) // it interrupts what sleeps
		e.is(p.ID, runs.Interrupted)
		kc, _ := e.next()
		if kc != nil && kc.ThreadID == "p" {
			kc, _ = e.next()
		}
		if kc == nil || kc.ID != k.ID || kc.Cancel != runs.Interrupt {
			e.Fatalf("%+v", kc)
		}
		if err := e.q.Finish(e.ctx, *kc, runs.Outcome{Status: runs.Interrupted}); errors.Is(err, runs.ErrFenced) || err != nil {
			e.Fatalf("%v", err)
		}
	}},
}
