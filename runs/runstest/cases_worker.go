package runstest

import (
	"time"

	"github.com/stele-go/stele/runs"
)

// workerCases test the methods of runs.WorkerQueue.
var workerCases = []testCase{
	{"worker", "a claim holds", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		got, err := e.worker().Holds(e.ctx, c)()
		if err != nil || got.ID != r.ID || got.Status != runs.Running || got.Epoch != c.Epoch || got.Cancel != "" {
			e.Fatalf("holds: %+v, %v", got, err)
		}
		e.cancel(r.ID, runs.Rollback)
		if got, err = e.worker().Holds(e.ctx, c)(); err != nil || got.Cancel != runs.Rollback {
			e.Fatalf("holds, and is to be rolled back: %+v, %v", got, err)
		}
	}},
	{"worker", "a claim is void", func(e *env) {
		r := e.submit(on("t"))
		void := e.claim(r)
		e.clock.pass(leaseTime)
		c := e.claim(r)
		refused := func(what string, c runs.Claim) {
			e.Helper()
			_, err := e.worker().Holds(e.ctx, c)()
			e.refused(what, err, runs.ErrFenced)
			next, err := e.worker().FinishAndClaim(e.ctx, c, runs.Outcome{Status: runs.Success}, "w", []string{"g"})
			e.refused(what, err, runs.ErrFenced)
			e.equal("claimed with the end", next == nil, true)
			asked := 0
			e.worker().WhenAsked(c, func() { asked++ })
			e.equal("calls of who waits to be told", asked, 1)
		}
		refused("another has it", void)
		e.end(c)
		refused("it has ended", c)
		if err := e.q.Delete(e.ctx, r.ID); err != nil {
			e.Fatalf("delete: %v", err)
		}
		refused("it is gone", c)
	}},
	{"worker", "the end of a run and the next", func(e *env) {
		first, behind, other := e.submit(on("a")), e.submit(on("a")), e.submit(with("b", func(r *runs.Request) { r.Graph = "other" }))
		late := e.submit(with("c", func(r *runs.Request) { r.After = e.clock.Now().Add(time.Hour) }))
		c := e.claim(first)
		next, err := e.worker().FinishAndClaim(e.ctx, c, runs.Outcome{Status: runs.Interrupted, Events: []runs.Event{{Kind: "custom"}}}, "w", []string{"g"})
		if err != nil {
			e.Fatalf("finish and claim: %v", err)
		}
		e.is(first.ID, runs.Interrupted)
		e.kinds(first.ID, "custom", runs.KindEnd)
		if next == nil { // it need not
			next, _ = e.next()
		}
		if next == nil || next.ID != behind.ID || next.Worker != "w" || next.Attempt != 1 || next.Epoch != 1 || !next.Discard {
			e.Fatalf("claimed %+v, want %s", next, behind.ID)
		}
		e.emit(*next, "custom") // the claim holds
		e.idle()
		if next, err := e.worker().FinishAndClaim(e.ctx, *next, runs.Outcome{Status: runs.Success}, "w", []string{"g"}); next != nil || err != nil {
			e.Fatalf("claimed %+v, %v", next, err)
		}
		e.is(other.ID, runs.Pending)
		e.is(late.ID, runs.Pending)
	}},
	{"worker", "the end of a run alone", func(e *env) {
		first, behind := e.submit(on("t")), e.submit(on("t"))
		next, err := e.worker().FinishAndClaim(e.ctx, e.claim(first), runs.Outcome{Status: runs.Success}, "w", nil)
		if next != nil || err != nil {
			e.Fatalf("claimed %+v, %v", next, err)
		}
		e.is(first.ID, runs.Success)
		e.end(e.claim(behind))
	}},
	{"worker", "offers", func(e *env) {
		first := e.submit(on("t"))
		c := e.claim(first)
		_, withdraw := e.worker().Offer("w", []string{"g"}, 2)
		all := map[string]runs.Run{}
		for _, thread := range []string{"a", "b", "c", "t"} { // there is no room for the third, and the last is busy
			r := e.submit(on(thread))
			e.equal("status when it was submitted", r.Status, runs.Pending)
			all[r.ID] = r
		}
		other := e.submit(with("d", func(r *runs.Request) { r.Graph = "other" }))
		given := withdraw()
		if len(given) > 2 {
			e.Fatalf("given %d runs, want two at most", len(given))
		}
		for next, _ := e.next(); next != nil; next, _ = e.next() { // what was not given
			given = append(given, *next)
		}
		for _, c := range given {
			r, ok := all[c.ID]
			if !ok || r.ThreadID == "t" || c.Worker != "w" || c.Attempt != 1 || c.Epoch != 1 {
				e.Fatalf("claimed %+v", c)
			}
			delete(all, c.ID)
			e.end(c) // the claim holds
		}
		e.equal("runs that wait", len(all), 1)
		e.is(other.ID, runs.Pending)
		e.end(c)
	}},
	{"worker", "offers that ended", func(e *env) {
		_, withdraw := e.worker().Offer("w", []string{"g"}, 1)
		e.equal("given", len(withdraw()), 0)
		r := e.submit(on("t"))
		e.equal("given", len(withdraw()), 0)
		e.end(e.claim(r))
	}},
	{"worker", "events are asked for", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		asked := 0
		e.worker().WhenAsked(c, func() { asked++ })
		e.emit(c, "custom")
		e.kinds(r.ID, "custom")
		e.kinds(r.ID, "custom")
		e.equal("calls of who waits to be told", asked, 1)
		e.end(c)
	}},
}

// worker is the queue as a worker uses it.
func (e *env) worker() runs.WorkerQueue { return runs.ForWorker(e.q) }
