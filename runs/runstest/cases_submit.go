package runstest

import (
	"errors"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
)

var submitCases = []testCase{
	{"submit", "defaults", func(e *env) {
		r := e.submit(runs.Request{Spec: runs.Spec{Graph: "g"}})
		now := e.clock.Now()
		if r.ID == "" || r.ThreadID == "" || r.Status != runs.Pending || r.Multitask != runs.Enqueue || r.Attempts != runs.DefaultAttempts ||
			r.Attempt != 0 || r.Epoch != 0 {
			e.Errorf("submitted %+v", r)
		}
		if !r.Created.Equal(now) || !r.After.Equal(now) || !r.Started.IsZero() || !r.Ended.IsZero() || r.Created.Location() != time.UTC {
			e.Errorf("times %v, %v, %v, %v; it is %v", r.Created, r.After, r.Started, r.Ended, now)
		}
		v, err := e.q.Serializer().Decode(r.Input)
		if v != nil || err != nil {
			e.Errorf("input %v, %v", v, err)
		}
		e.equal("stored", e.get(r.ID), r)
		other := e.submit(runs.Request{Spec: runs.Spec{Graph: "g"}})
		if other.ThreadID == r.ThreadID || other.ID <= r.ID {
			e.Errorf("ids %s, %s; threads %s, %s", r.ID, other.ID, r.ThreadID, other.ThreadID)
		}
	}},
	{"submit", "all of a spec is kept", func(e *env) {
		want := runs.Spec{
			ThreadID: "t ü \\ '", Graph: "g/h", CheckpointID: "c", Metadata: map[string]any{"m": "a\x00b"},
			Configurable: map[string]any{"n": 1.5, "id": int64(1<<53 + 1)}, Context: map[string]any{"list": []any{"x", nil, true}},
			Tags: []string{"a", "b"}, RecursionLimit: 7, Durability: pregel.Exit, InterruptBefore: []string{"x"}, InterruptAfter: []string{"*"},
			Modes: []pregel.Mode{pregel.ModeUpdates}, Subgraphs: true, Tasks: true, Multitask: runs.Reject, Priority: -3, Attempts: 9,
		}
		r := e.submit(runs.Request{Spec: want, Input: map[string]any{"v": []byte{0, 255}}})
		want.Input = r.Input
		got := e.get(r.ID)
		e.equal("spec", got.Spec, want)
		e.equal("run", got, r)
		v, err := e.q.Serializer().Decode(got.Input)
		if err != nil {
			e.Fatalf("decode: %v", err)
		}
		e.equal("input", v, any(map[string]any{"v": []byte{0, 255}}))
	}},
	{"submit", "an encoded input is kept", func(e *env) {
		typed, err := e.q.Serializer().Encode("encoded")
		if err != nil {
			e.Fatalf("encode: %v", err)
		}
		r := e.submit(with("t", func(r *runs.Request) { r.Spec.Input = typed }))
		e.equal("input", e.get(r.ID).Input, typed)
	}},
	{"submit", "a time that has passed is now", func(e *env) {
		r := e.submit(with("t", func(r *runs.Request) { r.After = e.clock.Now().Add(-time.Hour) }))
		if !r.After.Equal(e.clock.Now()) {
			e.Errorf("after %v", r.After)
		}
		e.claim(r)
	}},
	{"submit", "no such run", func(e *env) {
		e.submit(on("t"))
		for _, id := range []string{"", "no", "a\x00", "a.b", "\xff", string(make([]byte, 5000))} {
			_, err := e.q.Get(e.ctx, id)
			e.refused("get", err, runs.ErrNotFound)
			_, err = e.q.Cancel(e.ctx, id, runs.Interrupt)
			e.refused("cancel", err, runs.ErrNotFound)
			_, err = e.q.Retry(e.ctx, id)
			e.refused("retry", err, runs.ErrNotFound)
			e.equal("events", e.events(id, 0, 0), []runs.Event(nil))
			e.fenced(runs.Claim{Run: runs.Run{ID: id}})
		}
	}},
}

var keyCases = []testCase{
	{"keys", "a second submission is the first run", func(e *env) {
		req := with("", func(r *runs.Request) { r.Key = "k" })
		r := e.submit(req)
		again := e.submit(req)
		e.equal("again", again, r)
		e.lists(runs.Query{}, r)
		e.end(e.claim(r))
		if ended := e.submit(req); ended.ID != r.ID || ended.Status != runs.Success {
			e.Errorf("after the end: %+v", ended)
		}
		e.idle()
		if other := e.submit(with("", func(r *runs.Request) { r.Key = "other" })); other.ID == r.ID {
			e.Errorf("another key is the same run")
		}
	}},
	{"keys", "of another run", func(e *env) {
		r := e.submit(with("t", func(r *runs.Request) { r.Key = "k" }))
		for _, req := range []runs.Request{with("u", func(r *runs.Request) { r.Key = "k" }), with("t", func(r *runs.Request) { r.Key, r.Graph = "k", "h" })} {
			_, err := e.q.Submit(e.ctx, req)
			var taken *runs.KeyError
			if !errors.Is(err, runs.ErrKey) || !errors.As(err, &taken) || taken.Key != "k" || taken.RunID != r.ID {
				e.Errorf("submit: %v", err)
			}
		}
		e.lists(runs.Query{}, r)
	}},
	{"keys", "a second submission cancels nothing", func(e *env) {
		for _, s := range []runs.Strategy{runs.Interrupt, runs.Rollback, runs.Reject} {
			thread := string(s)
			req := with(thread, func(r *runs.Request) { r.Multitask, r.Key = s, thread })
			first := e.submit(req)
			next := e.submit(on(thread))
			e.equal("again", e.submit(req), first)
			e.is(first.ID, runs.Pending)
			e.is(next.ID, runs.Pending)
		}
	}},
	{"keys", "none is no key", func(e *env) {
		if first := e.submit(on("t")); first.ID == e.submit(on("t")).ID {
			e.Errorf("one run of two submissions without a key")
		}
	}},
}

var busyCases = []testCase{
	{"busy", "enqueue", func(e *env) {
		a, b := e.submit(on("t")), e.submit(multitask("t", runs.Enqueue))
		c := e.claim(a)
		e.idle()
		e.end(c)
		e.end(e.claim(b))
	}},
	{"busy", "reject", func(e *env) {
		a := e.submit(on("t"))
		rejected := func() {
			_, err := e.q.Submit(e.ctx, multitask("t", runs.Reject))
			var busy *runs.BusyError
			if !errors.Is(err, runs.ErrBusy) || !errors.As(err, &busy) || busy.ThreadID != "t" || busy.RunID != a.ID {
				e.Fatalf("submit: %v", err)
			}
		}
		rejected()
		c := e.claim(a)
		rejected()
		e.submit(multitask("other", runs.Reject))
		e.end(c)
		e.submit(multitask("t", runs.Reject))
	}},
	{"busy", "interrupt", func(e *env) {
		a, waits := e.submit(on("t")), e.submit(on("t"))
		c := e.claim(a)
		b := e.submit(multitask("t", runs.Interrupt))
		if got := e.is(a.ID, runs.Running); got.Cancel != runs.Interrupt {
			e.Errorf("the run that has the thread: %+v", got)
		}
		e.is(waits.ID, runs.Interrupted)
		e.kinds(waits.ID, runs.KindEnd)
		e.idle()
		e.finish(c, runs.Outcome{Status: runs.Interrupted})
		if c = e.claim(b); !c.Discard {
			e.Errorf("what was interrupted is to be finished")
		}
		e.end(c)
	}},
	{"busy", "rollback", func(e *env) {
		a, waits := e.submit(on("t")), e.submit(on("t"))
		c := e.claim(a)
		e.finish(c, runs.Outcome{Status: runs.Pending, After: e.clock.Now().Add(time.Hour)})
		b := e.submit(multitask("t", runs.Rollback))
		e.is(waits.ID, runs.Interrupted)
		// What was begun needs a worker, and that at once.
		if c = e.claim(a); c.Cancel != runs.Rollback {
			e.Errorf("claimed %+v", c)
		}
		e.idle()
		e.finish(c, runs.Outcome{Status: runs.Interrupted})
		e.claim(b)
	}},
	{"busy", "other threads are left alone", func(e *env) {
		other := e.submit(on("other"))
		e.submit(multitask("t", runs.Interrupt))
		e.submit(multitask("t", runs.Rollback))
		e.is(other.ID, runs.Pending)
	}},
}
