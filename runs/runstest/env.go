package runstest

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/stele-go/stele/runs"
)

// env is the environment of a case: one queue and helpers that fail the case.
type env struct {
	TB
	q      runs.Queue
	reopen func() runs.Queue
	ctx    context.Context
	clock  *clock
}

// on is a request for a run of graph "g" on a thread.
func on(thread string) runs.Request {
	return runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "g"}}
}

func with(thread string, change func(*runs.Request)) runs.Request {
	req := on(thread)
	change(&req)
	return req
}

func multitask(thread string, s runs.Strategy) runs.Request {
	return with(thread, func(r *runs.Request) { r.Multitask = s })
}

func (e *env) submit(req runs.Request) runs.Run {
	e.Helper()
	r, err := e.q.Submit(e.ctx, req)
	if err != nil {
		e.Fatalf("submit %+v: %v", req, err)
	}
	return r
}

func (e *env) get(id string) runs.Run {
	e.Helper()
	r, err := e.q.Get(e.ctx, id)
	if err != nil {
		e.Fatalf("get %s: %v", id, err)
	}
	return r
}

// is checks the status of a run.
func (e *env) is(id string, want runs.Status) runs.Run {
	e.Helper()
	r := e.get(id)
	if r.Status != want {
		e.Fatalf("run %s is %s, want %s: %+v", id, r.Status, want, r)
	}
	return r
}

// next claims a run; nil if there is none.
func (e *env) next() (*runs.Claim, time.Time) {
	e.Helper()
	c, next, err := e.q.Claim(e.ctx, "w", []string{"g"})
	if err != nil {
		e.Fatalf("claim: %v", err)
	}
	return c, next
}

// claim claims the run that must be next.
func (e *env) claim(want runs.Run) runs.Claim {
	e.Helper()
	c, _ := e.next()
	if c == nil {
		e.Fatalf("claimed nothing, want %s", want.ID)
	}
	if c.ID != want.ID {
		e.Fatalf("claimed %s of thread %s, want %s of %s", c.ID, c.ThreadID, want.ID, want.ThreadID)
	}
	return *c
}

// idle checks that no run may begin now, and returns when one may.
func (e *env) idle() time.Time {
	e.Helper()
	c, next := e.next()
	if c != nil {
		e.Fatalf("claimed %s of thread %s, want none", c.ID, c.ThreadID)
	}
	return next
}

func (e *env) finish(c runs.Claim, o runs.Outcome) {
	e.Helper()
	if err := e.q.Finish(e.ctx, c, o); err != nil {
		e.Fatalf("finish %s with %+v: %v", c.ID, o, err)
	}
}

// end finishes a run with Success.
func (e *env) end(c runs.Claim) {
	e.Helper()
	e.finish(c, runs.Outcome{Status: runs.Success})
}

func (e *env) cancel(id string, how runs.Strategy) runs.Run {
	e.Helper()
	r, err := e.q.Cancel(e.ctx, id, how)
	if err != nil {
		e.Fatalf("cancel %s: %v", id, err)
	}
	return r
}

func (e *env) retry(id string) runs.Run {
	e.Helper()
	r, err := e.q.Retry(e.ctx, id)
	if err != nil {
		e.Fatalf("retry %s: %v", id, err)
	}
	return r
}

// emit stores events of these kinds, and returns the number of the last.
func (e *env) emit(c runs.Claim, kinds ...runs.Kind) int64 {
	e.Helper()
	var events []runs.Event
	for _, k := range kinds {
		data, err := e.q.Serializer().Encode(string(k))
		if err != nil {
			e.Fatalf("encode: %v", err)
		}
		events = append(events, runs.Event{Kind: k, Data: data})
	}
	last, err := e.q.Append(e.ctx, c, events)
	if err != nil {
		e.Fatalf("append: %v", err)
	}
	return last
}

func (e *env) events(id string, after int64, limit int) []runs.Event {
	e.Helper()
	found, err := e.q.Events(e.ctx, id, after, limit)
	if err != nil {
		e.Fatalf("events of %s: %v", id, err)
	}
	return found
}

// kinds checks the kinds of all events of a run, and that their numbers have no gaps.
func (e *env) kinds(id string, want ...runs.Kind) {
	e.Helper()
	var got []runs.Kind
	for i, ev := range e.events(id, 0, 0) {
		if ev.Seq != int64(i)+1 {
			e.Fatalf("event %d of %s has number %d", i+1, id, ev.Seq)
		}
		got = append(got, ev.Kind)
	}
	e.equal("kinds of events", got, want)
}

func (e *env) list(q runs.Query) (found []runs.Run) {
	e.Helper()
	for r, err := range e.q.List(e.ctx, q) {
		if err != nil {
			e.Fatalf("list: %v", err)
		}
		found = append(found, r)
	}
	return found
}

// lists checks which runs a listing yields.
func (e *env) lists(q runs.Query, want ...runs.Run) {
	e.Helper()
	var got, ids []string
	for _, r := range e.list(q) {
		got = append(got, r.ID)
	}
	for _, r := range want {
		ids = append(ids, r.ID)
	}
	e.equal("list", got, ids)
	if q.After == "" && q.Limit == 0 {
		n, err := e.q.Count(e.ctx, q)
		if err != nil {
			e.Fatalf("count: %v", err)
		}
		e.equal("count", n, len(ids))
	}
}

// refused checks that a call failed as it should.
func (e *env) refused(what string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("%s: got %v, want %v", what, err, want)
	}
}

// fenced checks that no call of a claim does anything.
func (e *env) fenced(c runs.Claim) {
	e.Helper()
	before, events := e.list(runs.Query{}), len(e.events(c.ID, 0, 0))
	if held, err := e.q.Renew(e.ctx, []runs.Claim{c}); err != nil || len(held) > 0 {
		e.Fatalf("renew of a void claim: %v, %v", held, err)
	}
	e.refused("mark", e.q.Mark(e.ctx, c, "late"), runs.ErrFenced)
	_, err := e.q.Append(e.ctx, c, []runs.Event{{Kind: "custom"}})
	e.refused("append", err, runs.ErrFenced)
	_, err = e.q.Append(e.ctx, c, nil)
	e.refused("append nothing", err, runs.ErrFenced)
	for _, s := range []runs.Status{runs.Success, runs.Error, runs.Interrupted, runs.Pending} {
		e.refused("finish", e.q.Finish(e.ctx, c, runs.Outcome{Status: s}), runs.ErrFenced)
	}
	e.equal("runs after void calls", e.list(runs.Query{}), before)
	e.equal("events after void calls", len(e.events(c.ID, 0, 0)), events)
}

func (e *env) equal(what string, got, want any) {
	e.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if g.Kind() == reflect.Slice && w.Kind() == reflect.Slice && g.Len() == 0 && w.Len() == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		e.Fatalf("%s:\n got %#v\nwant %#v", what, got, want)
	}
}

// refusedLater is refused for goroutines, which cannot end the case.
func (e *env) refusedLater(what string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("%s: got %v, want %v", what, err, want)
	}
}
