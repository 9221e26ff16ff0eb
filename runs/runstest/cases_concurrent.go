package runstest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/runs"
)

// soon waits for a hint.
func (e *env) soon(what string, changed <-chan struct{}) {
	e.Helper()
	select {
	case <-changed:
	case <-time.After(30 * time.Second):
		e.Fatalf("%s: no hint", what)
	}
}

var watchCases = []testCase{
	{"watch", "a run", func(e *env) {
		r := e.submit(on("t"))
		changed, stop := e.q.Watch(r.ID)
		defer stop()
		c := e.claim(r)
		e.soon("claim", changed)
		e.emit(c, "custom")
		e.soon("event", changed)
		e.cancel(r.ID, runs.Interrupt)
		e.soon("cancel", changed)
		e.end(c)
		e.soon("end", changed)
	}},
	{"watch", "work", func(e *env) {
		changed, stop := e.q.Watch("")
		defer stop()
		r := e.submit(on("t"))
		e.soon("submit", changed)
		c := e.claim(r)
		e.cancel(r.ID, runs.Interrupt)
		e.soon("cancel", changed)
		e.finish(c, runs.Outcome{Status: runs.Error})
		e.retry(r.ID)
		e.soon("retry", changed)
	}},
	{"watch", "for several", func(e *env) {
		a, stopA := e.q.Watch("")
		b, stopB := e.q.Watch("")
		defer stopB()
		e.submit(on("t"))
		e.soon("first", a)
		e.soon("second", b)
		stopA()
		stopA()
		e.submit(on("t"))
		e.soon("second", b)
	}},
}

var reopenCases = []testCase{
	{"durability", "a queue that is opened again", func(e *env) {
		done := e.submit(with("done", func(r *runs.Request) { r.Key, r.Metadata = "k", map[string]any{"m": "x"} }))
		c := e.claim(done)
		e.emit(c, "a", "b")
		e.end(c)
		stopped := e.submit(on("t"))
		e.finish(e.claim(stopped), runs.Outcome{Status: runs.Interrupted})
		next := e.submit(on("t"))
		delayed := e.submit(later(e, "delayed", time.Hour))
		died := e.submit(on("died"))
		e.claim(next)
		void := e.claim(died)
		e.emit(void, "1")
		e.emit(void, "2", "3")
		if err := e.q.Mark(e.ctx, void, "m"); err != nil {
			e.Fatalf("mark: %v", err)
		}
		schedule := e.put("s", "@daily")
		before := e.list(runs.Query{})

		e.q = e.reopen()
		e.equal("runs", e.list(runs.Query{}), before)
		e.equal("schedules", e.schedules(), []runs.Schedule{schedule})
		e.kinds(done.ID, "a", "b", runs.KindEnd)
		if again := e.submit(with("done", func(r *runs.Request) { r.Key = "k" })); again.ID != done.ID {
			e.Errorf("the key is forgotten")
		}
		e.clock.pass(leaseTime)
		if c := e.claim(next); !c.Discard || c.Attempt != 2 {
			e.Errorf("claimed %+v", c)
		}
		c = e.claim(died)
		if c.Mark != "m" || c.Epoch <= void.Epoch {
			e.Errorf("claimed %+v", c)
		}
		e.fenced(void)
		e.equal("number", e.emit(c, "4"), int64(4))
		e.end(c)
		e.kinds(died.ID, "1", "2", "3", "4", runs.KindEnd)
		e.idle()
		e.clock.pass(time.Hour - leaseTime)
		e.q = e.reopen()
		found, _ := e.next()
		for found != nil && found.ID != delayed.ID {
			found, _ = e.next()
		}
		if found == nil {
			e.Errorf("what was delayed is lost")
		}
	}},
}

var concurrencyCases = []testCase{
	{"concurrency", "each run once, and one of a thread at a time", func(e *env) {
		const workers, total, threads = 8, 200, 20
		var all []runs.Run
		for i := range total / 2 {
			all = append(all, e.submit(on(fmt.Sprint("t", i%threads))))
		}
		var mu sync.Mutex
		busy, began := map[string]string{}, map[string][]string{}
		var ended atomic.Int64
		ctx, stop := context.WithTimeout(e.ctx, time.Minute)
		defer stop()
		var wg sync.WaitGroup
		fail := func(format string, args ...any) {
			e.Errorf(format, args...)
			stop()
		}
		for w := range workers {
			wg.Go(func() {
				for ctx.Err() == nil && ended.Load() < total {
					c, _, err := e.q.Claim(ctx, fmt.Sprint("w", w), []string{"g"})
					if err != nil {
						fail("claim: %v", err)
						return
					}
					if c == nil {
						continue
					}
					mu.Lock()
					if other := busy[c.ThreadID]; other != "" {
						fail("run %s of thread %s was claimed while %s runs", c.ID, c.ThreadID, other)
					}
					if c.Attempt != 1 {
						fail("attempt %d", c.Attempt)
					}
					busy[c.ThreadID] = c.ID
					began[c.ThreadID] = append(began[c.ThreadID], c.ID)
					mu.Unlock()
					if _, err := e.q.Append(ctx, *c, []runs.Event{{Kind: "custom"}}); err != nil {
						fail("append: %v", err)
					}
					mu.Lock()
					delete(busy, c.ThreadID)
					mu.Unlock()
					if err := e.q.Finish(ctx, *c, runs.Outcome{Status: runs.Success}); err != nil {
						fail("finish: %v", err)
					}
					ended.Add(1)
				}
			})
		}
		for i := range total / 2 { // while they work
			all = append(all, e.submit(on(fmt.Sprint("t", i%threads))))
		}
		wg.Wait()
		if n := ended.Load(); n != total {
			e.Fatalf("%d runs ended, want %d", n, total)
		}
		want := map[string][]string{}
		for _, r := range all {
			want[r.ThreadID] = append(want[r.ThreadID], r.ID)
			e.is(r.ID, runs.Success)
			e.kinds(r.ID, "custom", runs.KindEnd)
		}
		e.equal("order", began, want)
	}},
	{"concurrency", "appends beside one another", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var lasts []int64
		for range 8 {
			wg.Go(func() {
				for range 10 {
					last, err := e.q.Append(e.ctx, c, []runs.Event{{Kind: "a"}, {Kind: "b"}})
					if err != nil {
						e.Errorf("append: %v", err)
					}
					mu.Lock()
					lasts = append(lasts, last)
					mu.Unlock()
				}
			})
		}
		// A reader sees no gap either.
		seen := int64(0)
		for seen < 160 {
			for _, ev := range e.events(r.ID, seen, 50) {
				if ev.Seq != seen+1 {
					e.Fatalf("event %d behind %d", ev.Seq, seen)
				}
				seen = ev.Seq
			}
		}
		wg.Wait()
		e.end(c)
		slices.Sort(lasts)
		for i, last := range lasts {
			if last != int64(i+1)*2 {
				e.Fatalf("append %d returned %d", i, last)
			}
		}
		e.kinds(r.ID, append(slices.Repeat([]runs.Kind{"a", "b"}, 80), runs.KindEnd)...)
	}},
	{"concurrency", "one key", func(e *env) {
		ids := make([]string, 16)
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() {
				r, err := e.q.Submit(e.ctx, with("", func(r *runs.Request) { r.Key = "k" }))
				if err != nil {
					e.Errorf("submit: %v", err)
				}
				ids[i] = r.ID
			})
		}
		wg.Wait()
		if len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 1 || len(e.list(runs.Query{})) != 1 {
			e.Errorf("runs %v", ids)
		}
	}},
	{"concurrency", "one of many is not rejected", func(e *env) {
		var taken atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := e.q.Submit(e.ctx, multitask("t", runs.Reject)); err == nil {
					taken.Add(1)
				} else {
					e.refusedLater("submit", err, runs.ErrBusy)
				}
			})
		}
		wg.Wait()
		e.equal("taken", taken.Load(), int64(1))
	}},
	{"concurrency", "one of many advances a schedule", func(e *env) {
		s := e.put("s", "@hourly")
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if err := e.q.Advance(e.ctx, "s", s.Next, s.Next.Add(time.Duration(i+1)*time.Hour)); err != nil {
					e.Errorf("advance: %v", err)
				}
			})
		}
		wg.Wait()
		first := e.schedules()[0].Next
		if err := e.q.Advance(e.ctx, "s", s.Next, s.Next); err != nil {
			e.Fatalf("advance: %v", err)
		}
		if got := e.schedules()[0].Next; !got.Equal(first) || !got.After(s.Next) {
			e.Errorf("next %v, then %v", first, got)
		}
	}},
	{"concurrency", "an end beside a cancellation", func(e *env) {
		for range 20 {
			r, next := e.submit(on("t")), e.submit(on("t"))
			c := e.claim(r)
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = e.q.Cancel(e.ctx, r.ID, runs.Interrupt) })
			wg.Go(func() { _, _ = e.q.Cancel(e.ctx, next.ID, runs.Interrupt) })
			wg.Go(func() {
				if err := e.q.Finish(e.ctx, c, runs.Outcome{Status: runs.Pending}); err != nil {
					e.Errorf("finish: %v", err)
				}
			})
			wg.Wait()
			e.cancel(r.ID, runs.Interrupt)
			e.is(r.ID, runs.Interrupted)
			e.is(next.ID, runs.Interrupted)
			e.kinds(r.ID, runs.KindEnd)
			e.kinds(next.ID, runs.KindEnd)
			e.idle()
		}
	}},
}
