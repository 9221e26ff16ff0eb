package savertest

import (
	"context"
	"time"

	"github.com/stele-go/stele/saver"
)

// sweep deletes what has expired, and checks how many threads that was.
func (e *env) sweep(want int) {
	e.Helper()
	rep, err := e.s.Sweep(e.ctx)
	e.ok("sweep", err)
	e.equal("threads expired", rep.Expired, want)
}

// setTTL sets the TTL of a thread. If the saver has a method TTL, it must return the same.
func (e *env) setTTL(thread string, ttl time.Duration) {
	e.Helper()
	e.ok("set the TTL of "+thread, e.s.SetTTL(e.ctx, thread, ttl))
	if s, ok := e.s.(interface {
		TTL(ctx context.Context, threadID string) (time.Duration, error)
	}); ok {
		got, err := s.TTL(e.ctx, thread)
		e.ok("tell the TTL of "+thread, err)
		e.equal("TTL of "+thread, got, ttl)
	}
}

var ttlCases = []testCase{
	{id: "ttl", name: "a thread over its TTL goes with the sweep", fn: func(e *env) {
		e.heavy("t", 1, 2)
		e.heavy("long", 1, 2)
		e.heavy("none", 1, 2)
		e.setTTL("t", time.Microsecond)
		e.setTTL("long", 24*365*time.Hour)
		for start := time.Now(); time.Since(start) < 10*time.Microsecond; { // the saver's clock may be the system's
		}
		e.listed(saver.Query{ThreadID: "t"}, 2, 1)
		e.sweep(1)
		e.gone(head)
		e.refused(func() error { return e.tryWrite(at(2)) })
		e.listed(saver.Query{ThreadID: "long"}, 2, 1)
		e.listed(saver.Query{ThreadID: "none"}, 2, 1)
		e.sweep(0)
		e.put(step{id: id(5)})
		e.sweep(0) // the TTL went with the thread
		e.listed(saver.Query{ThreadID: "t"}, 5)
	}},
	{id: "ttl", name: "it can be taken back", fn: func(e *env) {
		e.heavy("t", 1, 2)
		for _, ttl := range []time.Duration{0, saver.NoTTL} {
			e.setTTL("t", time.Microsecond)
			e.setTTL("t", ttl)
			e.sweep(0)
		}
		e.listed(saver.Query{ThreadID: "t"}, 2, 1)
	}},
	{id: "ttl", name: "bad ones are refused", fn: func(e *env) {
		e.heavy("t", 1, 2)
		e.fails("negative", e.s.SetTTL(e.ctx, "t", -time.Second), saver.ErrInvalid)
		e.fails("tiny", e.s.SetTTL(e.ctx, "t", time.Nanosecond), saver.ErrInvalid)
		e.fails("no id", e.s.SetTTL(e.ctx, "", time.Second), saver.ErrInvalid)
		e.fails("nobody", e.s.SetTTL(e.ctx, "nobody", time.Second), saver.ErrNotFound)
		e.sweep(0)
	}},
}
