package runstest

import (
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/runs"
)

// serve tells the queue that a worker has a version of graph "g"; "" says that it stops.
func (e *env) serve(worker, version string) map[string][]string {
	e.Helper()
	versions := map[string]string{"g": version}
	if version == "" {
		versions = nil
	}
	others, err := e.q.Serve(e.ctx, worker, versions)
	if err != nil {
		e.Fatalf("serve %s: %v", worker, err)
	}
	return others
}

// takes claims for a worker; want is the run that must be next, "" for none.
func (e *env) takes(worker, want string) runs.Claim {
	e.Helper()
	c, _, err := e.q.Claim(e.ctx, worker, []string{"g"})
	if err != nil {
		e.Fatalf("claim: %v", err)
	}
	if c == nil {
		c = &runs.Claim{}
	}
	if c.ID != want {
		e.Fatalf("worker %s claimed %q, want %q", worker, c.ID, want)
	}
	return *c
}

// pin gives a run back for workers of a version, for d.
func (e *env) pin(c runs.Claim, version string, d time.Duration) {
	e.Helper()
	e.finish(c, runs.Outcome{Status: runs.Pending, Uncounted: true, Version: version, Delay: d})
}

func (e *env) versions(want ...metrics.QueueVersion) {
	e.Helper()
	got, err := e.q.Versions(e.ctx)
	if err != nil {
		e.Fatalf("versions: %v", err)
	}
	e.equal("versions", got, want)
}

func version(name string, runs, pinned, workers int64) metrics.QueueVersion {
	return metrics.QueueVersion{Graph: "g", Version: name, Runs: runs, Pinned: pinned, Workers: workers}
}

var versionCases = []testCase{
	{"versions", "a run has the version of the worker that claimed it first, or that is noted", func(e *env) {
		r, unknown := e.submit(on("t")), e.submit(on("u"))
		e.serve("old", "1")
		e.serve("new", "2")
		c := e.takes("old", r.ID)
		e.equal("version", c.Version, "1")
		e.finish(c, runs.Outcome{Status: runs.Pending, After: e.clock.Now().Add(time.Second)})
		e.versions(version("", 1, 0, 0), version("1", 1, 0, 1), version("2", 0, 0, 1))
		e.equal("version of one that nobody serves", e.takes("nobody", unknown.ID).Version, "")
		e.clock.pass(time.Second)
		c = e.takes("new", r.ID)
		e.equal("version", c.Version, "1")
		c.Version = "2"
		if err := e.q.Mark(e.ctx, c, "m"); err != nil {
			e.Fatalf("mark: %v", err)
		}
		e.q = e.reopen()
		e.equal("version", e.get(c.ID).Version, "2")
	}},
	{"versions", "a pinned run is for workers of its version", func(e *env) {
		r := e.submit(on("t"))
		e.serve("new", "2")
		e.serve("old", "1")
		for range 5 { // more than it may be tried
			c := e.takes("new", r.ID)
			e.pin(c, "1", time.Hour)
			got := e.is(r.ID, runs.Pending)
			e.equal("pinned", []any{got.Version, got.Pinned, got.Attempt}, []any{"1", true, 0})
			e.takes("new", "")
			e.takes("nobody", "")
			e.versions(version("1", 1, 1, 1), version("2", 0, 0, 1))
			c = e.takes("old", r.ID) // although its time has not come
			e.equal("claimed", []any{c.Version, c.Pinned, c.Attempt}, []any{"1", false, 1})
			e.finish(c, runs.Outcome{Status: runs.Pending, Uncounted: true, After: e.clock.Now()})
			e.equal("given back", e.get(r.ID).Pinned, false)
		}
		e.end(e.takes("new", r.ID))
		e.versions(version("1", 0, 0, 1), version("2", 0, 0, 1))
	}},
	{"versions", "a pinned run is for all when its time has come", func(e *env) {
		r := e.submit(on("t"))
		e.serve("new", "2")
		e.pin(e.takes("new", r.ID), "1", time.Hour)
		e.clock.pass(time.Hour)
		c := e.takes("new", r.ID)
		e.equal("claimed", []any{c.Version, c.Pinned}, []any{"1", false})
		e.end(c)
	}},
	{"versions", "a pinned run keeps its thread, and survives a restart", func(e *env) {
		r, behind := e.submit(on("t")), e.submit(on("t"))
		e.serve("new", "2")
		e.pin(e.takes("new", r.ID), "1", time.Hour)
		e.takes("new", "")
		e.q = e.reopen()
		e.serve("new", "2")
		e.takes("new", "")
		e.serve("old", "1")
		c := e.takes("old", r.ID)
		e.takes("old", "")
		e.end(c)
		e.end(e.takes("new", behind.ID))
	}},
	{"versions", "a cancellation is for all", func(e *env) {
		e.serve("new", "2")
		for _, how := range []runs.Strategy{runs.Interrupt, runs.Rollback} {
			r := e.submit(on("t"))
			e.pin(e.takes("new", r.ID), "1", time.Hour)
			if e.cancel(r.ID, how); how == runs.Rollback {
				c := e.takes("new", r.ID)
				e.pin(c, "1", 0) // what is to be rolled back is not pinned
				e.finish(e.takes("new", r.ID), runs.Outcome{Status: runs.Interrupted})
			}
			e.equal("pinned", e.is(r.ID, runs.Interrupted).Pinned, false)
			e.serve("old", "1")
			e.takes("old", "")
			e.serve("old", "")
		}
	}},
	{"versions", "a claim has the version of the run before on its thread", func(e *env) {
		e.serve("old", "1")
		e.serve("new", "2")
		first, second := e.submit(on("t")), e.submit(on("t"))
		other, third := e.submit(with("t", func(r *runs.Request) { r.Graph = "h" })), e.submit(on("t"))
		c := e.takes("old", first.ID)
		e.equal("before", c.Before, "")
		e.end(c)
		e.q = e.reopen()
		e.serve("new", "2")
		c = e.takes("new", second.ID)
		e.equal("before", []string{c.Before, c.Version}, []string{"1", "1"})
		e.end(c)
		if next, _, err := e.q.Claim(e.ctx, "new", []string{"h"}); err != nil || next == nil || next.ID != other.ID || next.Before != "" {
			e.Fatalf("%+v, %v", next, err)
		} else {
			e.end(*next)
		}
		e.equal("before", e.takes("new", third.ID).Before, "")
	}},
	{"versions", "a run that is claimed as the one before ends has the version of that one", func(e *env) {
		e.serve("old", "1")
		e.end(e.takes("old", e.submit(on("t")).ID))
		e.serve("new", "2")
		r, next := e.submit(on("t")), e.submit(on("t"))
		c := e.takes("new", r.ID)
		c.Version = "2" // it goes on here
		if err := e.q.Mark(e.ctx, c, ""); err != nil {
			e.Fatalf("mark: %v", err)
		}
		e.emit(c, runs.KindAttempt)
		got, err := e.worker().FinishAndClaim(e.ctx, c, runs.Outcome{Status: runs.Success}, "new", []string{"g"})
		if err != nil {
			e.Fatalf("claimed %+v, %v", got, err)
		}
		if got == nil { // it claims by Claim alone
			c = e.takes("new", next.ID)
			got = &c
		}
		e.equal("before", []string{got.Before, got.Version, e.get(next.ID).Version}, []string{"2", "2", "2"})
		e.end(*got)
	}},
	{"versions", "a worker is alive for twice the lease time", func(e *env) {
		e.equal("others", e.serve("old", "1"), map[string][]string{})
		e.equal("others", e.serve("new", "2"), map[string][]string{"g": {"1"}})
		e.clock.pass(2 * leaseTime)
		e.equal("others", e.serve("new", "2"), map[string][]string{})
		e.serve("old", "1")
		e.serve("old too", "1")
		e.equal("others", e.serve("new", "2"), map[string][]string{"g": {"1"}})
		e.versions(version("1", 0, 0, 2), version("2", 0, 0, 1))
		e.serve("old", "")
		e.versions(version("1", 0, 0, 1), version("2", 0, 0, 1))
		e.serve("old too", "3")
		e.equal("others", e.serve("new", "2"), map[string][]string{"g": {"3"}})
	}},
	{"versions", "bad names", func(e *env) {
		for _, bad := range []map[string]string{{"g": "a\x00"}, {"\xff": "1"}} {
			_, err := e.q.Serve(e.ctx, "w", bad)
			e.refused("serve", err, runs.ErrInvalid)
		}
		c := e.claim(e.submit(on("t")))
		e.refused("pin", e.q.Finish(e.ctx, c, runs.Outcome{Status: runs.Pending, Version: "a\x00"}), runs.ErrInvalid)
		e.end(c)
	}},
}
