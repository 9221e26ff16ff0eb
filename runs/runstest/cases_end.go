package runstest

import (
	"errors"
	"slices"
	"time"

	"github.com/stele-go/stele/runs"
)

var cancelCases = []testCase{
	{"cancel", "of a run that waits", func(e *env) {
		for _, how := range []runs.Strategy{runs.Interrupt, runs.Rollback} {
			r, next := e.submit(on("t")), e.submit(on("t"))
			got := e.cancel(r.ID, how)
			if got.Status != runs.Interrupted || got.Cancel != how || !got.Ended.Equal(e.clock.Now()) || !got.Started.IsZero() {
				e.Errorf("cancelled: %+v", got)
			}
			e.equal("stored", e.get(r.ID), got)
			e.kinds(r.ID, runs.KindEnd)
			e.end(e.claim(next))
		}
	}},
	{"cancel", "of a run that has a worker", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		got := e.cancel(r.ID, runs.Interrupt)
		if got.Status != runs.Running || got.Cancel != runs.Interrupt {
			e.Errorf("cancelled: %+v", got)
		}
		held, err := e.q.Renew(e.ctx, []runs.Claim{c})
		if err != nil || len(held) != 1 || held[0].Cancel != runs.Interrupt {
			e.Fatalf("renew: %+v, %v", held, err)
		}
		e.emit(c, "custom") // the claim holds
		e.finish(c, runs.Outcome{Status: runs.Interrupted})
		e.is(r.ID, runs.Interrupted)
	}},
	{"cancel", "a rollback replaces an interrupt", func(e *env) {
		r := e.submit(on("t"))
		e.claim(r)
		for _, step := range []struct{ how, want runs.Strategy }{{runs.Interrupt, runs.Interrupt}, {runs.Rollback, runs.Rollback}, {runs.Interrupt, runs.Rollback}} {
			if got := e.cancel(r.ID, step.how); got.Cancel != step.want {
				e.Errorf("cancel is %s after %s, want %s", got.Cancel, step.how, step.want)
			}
		}
	}},
	{"cancel", "of a run that was given back", func(e *env) {
		far := e.clock.Now().Add(time.Hour)
		a, b := e.submit(on("a")), e.submit(on("b"))
		e.finish(e.claim(a), runs.Outcome{Status: runs.Pending, After: far})
		e.finish(e.claim(b), runs.Outcome{Status: runs.Pending, After: far})
		e.cancel(a.ID, runs.Interrupt)
		e.is(a.ID, runs.Interrupted)
		if got := e.cancel(b.ID, runs.Rollback); got.Status != runs.Pending {
			e.Errorf("cancelled: %+v", got)
		}
		c := e.claim(b) // at once
		if c.Cancel != runs.Rollback {
			e.Errorf("claimed: %+v", c)
		}
		e.finish(c, runs.Outcome{Status: runs.Interrupted})
	}},
	{"cancel", "of a run that is given back later", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		e.cancel(r.ID, runs.Interrupt)
		e.finish(c, runs.Outcome{Status: runs.Pending, After: e.clock.Now().Add(time.Hour)})
		got := e.is(r.ID, runs.Interrupted)
		if got.Ended.IsZero() {
			e.Errorf("ended: %+v", got)
		}
		e.kinds(r.ID, runs.KindEnd)
	}},
	{"cancel", "of a run whose worker died", func(e *env) {
		r := e.submit(on("t"))
		e.claim(r)
		e.clock.pass(leaseTime)
		if got := e.cancel(r.ID, runs.Interrupt); got.Status != runs.Running {
			e.Errorf("cancelled: %+v", got)
		}
		c := e.claim(r)
		if c.Cancel != runs.Interrupt {
			e.Errorf("claimed: %+v", c)
		}
	}},
	{"cancel", "what has ended stays", func(e *env) {
		r := e.submit(on("t"))
		e.end(e.claim(r))
		before := e.get(r.ID)
		e.equal("cancelled", e.cancel(r.ID, runs.Rollback), before)
		e.equal("stored", e.get(r.ID), before)
		e.kinds(r.ID, runs.KindEnd)
	}},
}

var retryCases = []testCase{
	{"retry", "of what failed", func(e *env) {
		r := e.submit(with("t", func(r *runs.Request) { r.Attempts = 1 }))
		c := e.claim(r)
		e.finish(c, runs.Outcome{Status: runs.Error, Error: "why", Waiting: true})
		e.clock.pass(time.Minute)
		got := e.retry(r.ID)
		if got.Status != runs.Pending || got.Attempt != 0 || got.Error != "" || got.Cancel != "" || got.Waiting || !got.Ended.IsZero() ||
			!got.Started.IsZero() || !got.After.Equal(e.clock.Now()) || !got.Created.Equal(r.Created) {
			e.Errorf("tried again: %+v", got)
		}
		e.equal("stored", e.get(r.ID), got)
		if c = e.claim(r); c.Attempt != 1 {
			e.Errorf("claimed: %+v", c)
		}
		e.emit(c, "custom")
		e.end(c)
		e.kinds(r.ID, runs.KindEnd, "custom", runs.KindEnd)
	}},
	{"retry", "of what was interrupted", func(e *env) {
		r := e.submit(on("t"))
		e.cancel(r.ID, runs.Interrupt)
		e.retry(r.ID)
		c := e.claim(r)
		e.cancel(r.ID, runs.Interrupt)
		e.finish(c, runs.Outcome{Status: runs.Interrupted})
		if got := e.retry(r.ID); got.Cancel != "" {
			e.Errorf("tried again: %+v", got)
		}
		e.claim(r)
	}},
	{"retry", "of any other is refused", func(e *env) {
		refused := func(id string) {
			e.Helper()
			before := e.get(id)
			_, err := e.q.Retry(e.ctx, id)
			e.refused("retry", err, runs.ErrInvalid)
			e.equal("stored", e.get(id), before)
		}
		r := e.submit(on("t"))
		refused(r.ID)
		c := e.claim(r)
		refused(r.ID)
		e.end(c)
		refused(r.ID)
		r = e.submit(on("t"))
		e.cancel(r.ID, runs.Rollback)
		refused(r.ID)
	}},
	{"retry", "what was begun once is rolled back by a worker", func(e *env) {
		r := e.submit(on("t"))
		e.finish(e.claim(r), runs.Outcome{Status: runs.Error})
		e.retry(r.ID)
		if got := e.cancel(r.ID, runs.Rollback); got.Status != runs.Pending {
			e.Errorf("cancelled: %+v", got)
		}
		if c := e.claim(r); c.Cancel != runs.Rollback {
			e.Errorf("claimed: %+v", c)
		}
	}},
}

var finishCases = []testCase{
	{"finish", "each end", func(e *env) {
		for _, o := range []runs.Outcome{{Status: runs.Success}, {Status: runs.Success, Waiting: true}, {Status: runs.Error, Error: "why"},
			{Status: runs.Interrupted}} {
			r := e.submit(on("t"))
			c := e.claim(r)
			e.clock.pass(time.Second)
			e.finish(c, o)
			want := c.Run
			want.Status, want.Waiting, want.Error, want.Ended = o.Status, o.Waiting, o.Error, e.clock.Now()
			e.equal("ended", e.get(r.ID), want)
			e.kinds(r.ID, runs.KindEnd)
			last := e.events(r.ID, 0, 0)[0]
			status, err := e.q.Serializer().Decode(last.Data)
			if err != nil || status != string(o.Status) || last.Attempt != 1 || !last.Time.Equal(e.clock.Now()) {
				e.Errorf("last event %+v: %v, %v", last, status, err)
			}
			e.fenced(c)
			e.idle()
		}
	}},
	{"finish", "gives back", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		at := e.clock.Now().Add(time.Minute)
		e.finish(c, runs.Outcome{Status: runs.Pending, Error: "why", After: at})
		got := e.is(r.ID, runs.Pending)
		if got.Error != "why" || got.Attempt != 1 || !got.After.Equal(at) || !got.Ended.IsZero() || !got.Started.Equal(c.Started) {
			e.Errorf("given back: %+v", got)
		}
		e.kinds(r.ID)
		e.clock.pass(time.Minute - time.Second)
		e.idle()
		e.clock.pass(time.Second)
		if c = e.claim(r); c.Attempt != 2 {
			e.Errorf("claimed: %+v", c)
		}
		e.finish(c, runs.Outcome{Status: runs.Pending})
		e.claim(r) // at once
	}},
	{"finish", "with the last events", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		e.emit(c, "a")
		last := []runs.Event{{Kind: "b"}, {Kind: "c", Namespace: []string{"x"}}}
		e.finish(c, runs.Outcome{Status: runs.Pending, Uncounted: true, Events: last})
		c = e.claim(r)
		e.finish(c, runs.Outcome{Status: runs.Success, Events: []runs.Event{{Kind: "d"}}})
		e.kinds(r.ID, "a", "b", "c", "d", runs.KindEnd)
		got := e.events(r.ID, 0, 0)
		e.equal("namespace", got[2].Namespace, []string{"x"})
		for i, attempt := range []int{1, 1, 1, 1, 1} { // the first one was not counted
			e.equal("attempt", got[i].Attempt, attempt)
		}
		e.refused("finish", e.q.Finish(e.ctx, c, runs.Outcome{Status: runs.Success, Events: last}), runs.ErrFenced)
		e.kinds(r.ID, "a", "b", "c", "d", runs.KindEnd)
	}},
	{"finish", "any text of an error", func(e *env) {
		r := e.submit(on("t"))
		e.finish(e.claim(r), runs.Outcome{Status: runs.Error, Error: "a\x00b\xff ü"})
		if got := e.get(r.ID).Error; got != "a\ufffdb\ufffd ü" {
			e.Errorf("error %q", got)
		}
	}},
}

var eventCases = []testCase{
	{"events", "as they were", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		data, err := e.q.Serializer().Encode(map[string]any{"b": []byte{0, 1}, "s": "\x00"})
		if err != nil {
			e.Fatalf("encode: %v", err)
		}
		e.clock.pass(time.Second)
		want := runs.Event{Kind: "updates", Namespace: []string{"a:1", "b\\:2"}, Data: data}
		if last, err := e.q.Append(e.ctx, c, []runs.Event{want, {Kind: "custom"}}); last != 2 || err != nil {
			e.Fatalf("append: %d, %v", last, err)
		}
		got := e.events(r.ID, 0, 0)
		want.Seq, want.Attempt, want.Time = 1, 1, e.clock.Now()
		e.equal("event", got[0], want)
		if len(got) != 2 || got[1].Kind != "custom" || len(got[1].Namespace) != 0 || len(got[1].Data.Data) != 0 {
			e.Errorf("events %+v", got)
		}
	}},
	{"events", "no gaps over attempts", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		e.equal("last", e.emit(c, "a", "b"), int64(2))
		e.equal("nothing", e.emit(c), int64(2))
		e.clock.pass(leaseTime)
		c = e.claim(r)
		e.equal("last", e.emit(c, "c"), int64(3))
		e.finish(c, runs.Outcome{Status: runs.Pending})
		c = e.claim(r)
		e.equal("last", e.emit(c, "d"), int64(4))
		e.end(c)
		e.kinds(r.ID, "a", "b", "c", "d", runs.KindEnd)
		var attempts []int
		for _, ev := range e.events(r.ID, 0, 0) {
			attempts = append(attempts, ev.Attempt)
		}
		e.equal("attempts", attempts, []int{1, 1, 2, 3, 3})
	}},
	{"events", "from any number, so many", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		e.emit(c, "1", "2", "3", "4", "5")
		for _, q := range []struct {
			after int64
			limit int
			want  []int64
		}{{0, 0, []int64{1, 2, 3, 4, 5}}, {0, 2, []int64{1, 2}}, {2, 2, []int64{3, 4}}, {4, 9, []int64{5}}, {5, 0, nil}, {99, 1, nil}} {
			var got []int64
			for _, ev := range e.events(r.ID, q.after, q.limit) {
				got = append(got, ev.Seq)
			}
			e.equal("numbers", got, q.want)
		}
	}},
	{"events", "each run has its own", func(e *env) {
		a, b := e.submit(on("a")), e.submit(on("b"))
		ca, cb := e.claim(a), e.claim(b)
		e.emit(ca, "a")
		e.emit(cb, "b")
		e.emit(ca, "a")
		e.kinds(a.ID, "a", "a")
		e.kinds(b.ID, "b")
	}},
	{"events", "many", func(e *env) {
		r := e.submit(on("t"))
		c := e.claim(r)
		for range 3 {
			e.emit(c, slices.Repeat([]runs.Kind{"k"}, 1000)...)
		}
		e.equal("number", len(e.events(r.ID, 0, 0)), 3000)
		e.equal("page", len(e.events(r.ID, 1500, 256)), 256)
	}},
}

var listCases = []testCase{
	{"list", "what a query selects, oldest first", func(e *env) {
		a := e.submit(on("t"))
		b := e.submit(with("t", func(r *runs.Request) { r.Graph = "h" }))
		c := e.submit(on("u"))
		e.end(e.claim(a))
		e.lists(runs.Query{}, a, b, c)
		e.lists(runs.Query{ThreadID: "t"}, a, b)
		e.lists(runs.Query{Graph: "g"}, a, c)
		e.lists(runs.Query{Status: runs.Success}, a)
		e.lists(runs.Query{Status: runs.Pending, Graph: "h", ThreadID: "t"}, b)
		e.lists(runs.Query{ThreadID: "no"})
		e.lists(runs.Query{Limit: 2}, a, b)
		e.lists(runs.Query{After: a.ID}, b, c)
		e.lists(runs.Query{After: a.ID, Limit: 1}, b)
		e.lists(runs.Query{After: c.ID})
		e.lists(runs.Query{Newest: true}, c, b, a)
		e.lists(runs.Query{Newest: true, Limit: 2}, c, b)
		e.lists(runs.Query{Newest: true, After: c.ID}, b, a)
		e.lists(runs.Query{Newest: true, After: b.ID, Graph: "g"}, a)
		e.lists(runs.Query{Newest: true, ThreadID: "t"}, b, a)
		e.lists(runs.Query{Newest: true, ThreadID: "t", Status: runs.Success, Limit: 1}, a)
		e.lists(runs.Query{Newest: true, After: a.ID})
		for _, r := range e.list(runs.Query{}) {
			e.equal("listed", r, e.get(r.ID))
		}
	}},
	{"list", "while runs change", func(e *env) {
		for range 5 {
			e.submit(on("t"))
		}
		n := 0
		for r, err := range e.q.List(e.ctx, runs.Query{}) {
			if err != nil {
				e.Fatalf("list: %v", err)
			}
			e.cancel(r.ID, runs.Interrupt)
			n++
		}
		e.equal("runs", n, 5)
		e.equal("cancelled", len(e.list(runs.Query{Status: runs.Interrupted})), 5)
	}},
}

var sweepCases = []testCase{
	{"sweep", "removes what ended before", func(e *env) {
		sweep := func(before time.Time, want int) {
			e.Helper()
			if n, err := e.q.Sweep(e.ctx, before); n != want || err != nil {
				e.Fatalf("sweep: %d, %v; want %d", n, err, want)
			}
		}
		old := e.submit(with("t", func(r *runs.Request) { r.Key = "k" }))
		c := e.claim(old)
		e.emit(c, "a", "b")
		e.end(c)
		open := e.submit(on("u"))
		running := e.submit(on("v"))
		e.finish(e.claim(open), runs.Outcome{Status: runs.Pending, After: e.clock.Now().Add(time.Hour)})
		c = e.claim(running)
		sweep(e.clock.Now(), 0)
		e.clock.pass(leaseTime / 2)
		recent := e.submit(on("t"))
		e.end(e.claim(recent))
		sweep(e.clock.Now(), 1)
		_, err := e.q.Get(e.ctx, old.ID)
		e.refused("get", err, runs.ErrNotFound)
		e.kinds(old.ID)
		e.lists(runs.Query{}, open, running, recent)
		e.kinds(recent.ID, runs.KindEnd)
		if again := e.submit(with("t", func(r *runs.Request) { r.Key = "k" })); again.ID == old.ID {
			e.Errorf("the key of what was removed is still taken")
		}
		sweep(e.clock.Now().Add(time.Hour), 1)
		e.end(c)
	}},
}

var deleteCases = []testCase{
	{"delete", "a run that has ended", func(e *env) {
		r := e.submit(with("t", func(r *runs.Request) { r.Key = "k"; r.Labels = map[string]any{"a": "b"} }))
		if got := e.get(r.ID).Labels["a"]; got != "b" {
			e.Errorf("labels %v", e.get(r.ID).Labels)
		}
		e.refused("pending", e.q.Delete(e.ctx, r.ID), runs.ErrInvalid)
		c := e.claim(r)
		e.emit(c, "a")
		e.refused("running", e.q.Delete(e.ctx, r.ID), runs.ErrInvalid)
		e.end(c)
		other := e.submit(on("t"))
		if err := e.q.Delete(e.ctx, r.ID); err != nil {
			e.Fatalf("delete: %v", err)
		}
		_, err := e.q.Get(e.ctx, r.ID)
		e.refused("get", err, runs.ErrNotFound)
		e.kinds(r.ID)
		e.lists(runs.Query{ThreadID: "t"}, other)
		e.refused("again", e.q.Delete(e.ctx, r.ID), runs.ErrNotFound)
		e.refused("no text", e.q.Delete(e.ctx, "\xff"), runs.ErrNotFound)
		if again := e.submit(with("t", func(r *runs.Request) { r.Key = "k" })); again.ID == r.ID {
			e.Errorf("the key of what was deleted is still taken")
		}
	}},
	{"delete", "a run that was interrupted leaves nothing to discard", func(e *env) {
		r := e.submit(on("t"))
		e.finish(e.claim(r), runs.Outcome{Status: runs.Interrupted})
		if err := e.q.Delete(e.ctx, r.ID); err != nil {
			e.Fatalf("delete: %v", err)
		}
		if c := e.claim(e.submit(on("t"))); c.Discard {
			e.Errorf("claimed: %+v", c)
		}
	}},
}

var badCases = []testCase{
	{"bad input", "is refused, and nothing is stored", func(e *env) {
		long := string(make([]byte, 2000))
		for name, spoil := range map[string]func(*runs.Request){
			"no graph":    func(r *runs.Request) { r.Graph = "" },
			"graph":       func(r *runs.Request) { r.Graph = "a\x00" },
			"thread":      func(r *runs.Request) { r.ThreadID = "\xff" },
			"long thread": func(r *runs.Request) { r.ThreadID = long },
			"checkpoint":  func(r *runs.Request) { r.CheckpointID = "\x00" },
			"key":         func(r *runs.Request) { r.Key = "\x00" },
			"strategy":    func(r *runs.Request) { r.Multitask = "ask" },
			"attempts":    func(r *runs.Request) { r.Attempts = -1 },
			"recursion":   func(r *runs.Request) { r.RecursionLimit = -1 },
			"durability":  func(r *runs.Request) { r.Durability = "often" },
			"metadata":    func(r *runs.Request) { r.Metadata = map[string]any{"f": func() {}} },
			"context":     func(r *runs.Request) { r.Context = map[string]any{"c": make(chan int)} },
		} {
			req := on("t")
			spoil(&req)
			_, err := e.q.Submit(e.ctx, req)
			var invalid *runs.InvalidError
			if !errors.Is(err, runs.ErrInvalid) || !errors.As(err, &invalid) || invalid.Field == "" {
				e.Errorf("%s: %v, want an InvalidError", name, err)
			}
		}
		if _, err := e.q.Submit(e.ctx, with("t", func(r *runs.Request) { r.Input = make(chan int) })); err == nil {
			e.Errorf("an input that cannot be encoded is taken")
		}
		e.lists(runs.Query{})
	}},
	{"bad input", "of workers", func(e *env) {
		r := e.submit(on("t"))
		_, _, err := e.q.Claim(e.ctx, "w\x00", []string{"g"})
		e.refused("claim", err, runs.ErrInvalid)
		e.is(r.ID, runs.Pending)
		c := e.claim(r)
		e.refused("mark", e.q.Mark(e.ctx, c, "\xff"), runs.ErrInvalid)
		for _, s := range []runs.Status{"", runs.Running, "done"} {
			e.refused("finish", e.q.Finish(e.ctx, c, runs.Outcome{Status: s}), runs.ErrInvalid)
		}
		wrong := []runs.Event{{Kind: "ok"}, {Kind: "a\x00"}}
		_, err = e.q.Append(e.ctx, c, wrong)
		e.refused("append", err, runs.ErrInvalid)
		e.refused("finish", e.q.Finish(e.ctx, c, runs.Outcome{Status: runs.Success, Events: wrong}), runs.ErrInvalid)
		for _, how := range []runs.Strategy{"", runs.Enqueue, runs.Reject, "stop"} {
			_, err := e.q.Cancel(e.ctx, r.ID, how)
			e.refused("cancel", err, runs.ErrInvalid)
		}
		e.equal("stored", e.get(r.ID), c.Run)
		e.kinds(r.ID)
	}},
}
