package runs

import (
	"context"
	"slices"
	"testing"
	"time"
)

// TestOffer: a run that is submitted while a worker waits is stored as claimed by it, in one write.
// It counts as an attempt, and a process that dies with it leaves it to the next.
func TestOffer(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	submit := func(s Spec) Run {
		t.Helper()
		s.Graph = "g"
		r, err := q.Submit(ctx, Request{Spec: s})
		if err != nil || r.Status != Pending {
			t.Fatalf("%v: submitted as %s", err, r.Status)
		}
		return r
	}
	come, withdraw := q.Offer("w", []string{"f", "g"}, 2)
	before := q.writes.Load()
	r := submit(Spec{ThreadID: "a", Attempts: 2})
	if n := q.writes.Load() - before; n != 1 {
		t.Errorf("%d writes", n)
	}
	select {
	case <-come:
	default:
		t.Fatal("nothing came")
	}
	if c, _, err := q.Claim(ctx, "other", []string{"g"}); c != nil || err != nil {
		t.Fatalf("%v: it can be claimed twice: %+v", err, c)
	}
	given := withdraw()
	if len(given) != 1 || given[0].ID != r.ID || given[0].Status != Running || given[0].Worker != "w" || given[0].Attempt != 1 || given[0].Epoch != 1 {
		t.Fatalf("%+v", given)
	}
	if _, err := q.Append(ctx, given[0], nil); err != nil {
		t.Error(err)
	}
	// The process dies.
	var err error
	if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
		t.Fatal(err)
	}
	c, _, err := q.Claim(ctx, "w2", []string{"g"})
	if err != nil || c == nil || c.ID != r.ID || c.Attempt != 2 || c.Epoch != 2 {
		t.Fatalf("%v: %+v", err, c)
	}
}

// TestOfferCancelled: a worker that fetches a run is told that it was cancelled since it was stored.
func TestOfferCancelled(t *testing.T) {
	ctx := t.Context()
	q, _ := newQueue(t, LocalOptions{})
	for _, how := range []Strategy{Interrupt, Rollback} {
		_, withdraw := q.Offer("w", []string{"g"}, 1)
		r, err := q.Submit(ctx, Request{Spec: Spec{Graph: "g"}})
		if err == nil {
			_, err = q.Cancel(ctx, r.ID, how)
		}
		if err != nil {
			t.Fatal(err)
		}
		if given := withdraw(); len(given) != 1 || given[0].ID != r.ID || given[0].Cancel != how {
			t.Errorf("given %+v, want a run to cancel by %s", given, how)
		}
	}
}

// TestOfferOrder: only a run that is the next one to begin is given to who waits.
func TestOfferOrder(t *testing.T) {
	ctx := t.Context()
	at := time.Now()
	submit := func(q *Local, thread, graph string, after time.Time) Run {
		t.Helper()
		return submitted(t, q, Request{Spec: Spec{ThreadID: thread, Graph: graph, Multitask: Enqueue}, After: after})
	}
	claim := func(q *Local) Claim {
		t.Helper()
		c, _, err := q.Claim(ctx, "w0", []string{"g"})
		if err != nil || c == nil {
			t.Fatalf("%v: %+v", err, c)
		}
		return *c
	}
	for name, c := range map[string]struct {
		before, during func(q *Local)
		given          []string // threads
	}{
		"room for two":  {nil, func(q *Local) { submit(q, "a", "g", at); submit(q, "b", "g", at); submit(q, "c", "g", at) }, []string{"a", "b"}},
		"another graph": {nil, func(q *Local) { submit(q, "a", "other", at) }, nil},
		"a later time":  {nil, func(q *Local) { submit(q, "a", "g", at.Add(time.Hour)) }, nil},
		"one was there": {func(q *Local) { submit(q, "a", "g", at) }, func(q *Local) { submit(q, "b", "g", at) }, nil},
		"a busy thread": {func(q *Local) { submit(q, "a", "g", at); claim(q) }, func(q *Local) { submit(q, "a", "g", at); submit(q, "b", "g", at) }, nil},
		"one is due":    {func(q *Local) { submit(q, "a", "g", at.Add(time.Minute)) }, func(q *Local) { q.opts.Clock = func() time.Time { return at.Add(time.Hour) }; submit(q, "b", "g", at) }, nil},
		"one comes free": {func(q *Local) {
			submit(q, "a", "g", at)
			submit(q, "a", "g", at)
			claim(q)
		}, func(q *Local) {
			for _, r := range q.open {
				if r.Status == Running {
					if err := q.Finish(ctx, Claim{Run: r.Run}, Outcome{Status: Success}); err != nil {
						t.Error(err)
					}
					break
				}
			}
			submit(q, "b", "g", at)
		}, nil},
		"one is given back": {func(q *Local) { submit(q, "a", "g", at) }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			q, _ := newQueue(t, LocalOptions{Clock: func() time.Time { return at }})
			if c.before != nil {
				c.before(q)
			}
			during := c.during
			if name == "one is given back" {
				held := claim(q)
				during = func(q *Local) {
					if err := q.Finish(ctx, held, Outcome{Status: Pending}); err != nil {
						t.Error(err)
					}
					submit(q, "b", "g", at)
				}
			}
			_, withdraw := q.Offer("w", []string{"g"}, 2)
			during(q)
			var got []string
			for _, c := range withdraw() {
				got = append(got, c.ThreadID)
			}
			if !slices.Equal(got, c.given) {
				t.Errorf("given %q, want %q", got, c.given)
			}
			if withdraw(); len(q.offers) != 0 {
				t.Error("an offer is left")
			}
		})
	}
}

// TestUnreadEvents: events that nobody asks for are stored all the same, while their run goes on.
func TestUnreadEvents(t *testing.T) {
	soon, stop := context.WithTimeout(t.Context(), time.Minute) // nothing takes as long, but what never comes
	defer stop()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	q, _ := newQueue(t, LocalOptions{})
	r := submitted(t, q, Request{Spec: Spec{Graph: "g"}})
	c, _, err := q.Claim(ctx, "w", []string{"g"})
	if err != nil {
		t.Fatal(err)
	}
	rec := newRecorder(ctx, q, *c, cancel, Event{Kind: KindAttempt})
	stored := func(n int) {
		t.Helper()
		for {
			last, err := q.lastSeq(ctx, storedRun{Run: r})
			if err != nil || soon.Err() != nil {
				t.Fatal(err, "not stored")
			}
			if last >= int64(n) {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	stored(1)
	if rec.due.Stop() {
		t.Error("a run without events looks for them")
	}
	rec.add(Event{Kind: "custom"})
	stored(2)
	for range recorderMany { // as many as do not wait
		rec.add(Event{Kind: "custom"})
	}
	stored(2 + recorderMany)
	// Who asks once is waited for.
	if _, err := q.Events(ctx, r.ID, 2+recorderMany, 0); err != nil {
		t.Fatal(err)
	}
	rec.add(Event{Kind: "custom"})
	stored(3 + recorderMany)
	for patient := true; patient; {
		if soon.Err() != nil {
			t.Fatal("it does not know that somebody waits")
		}
		rec.mu.Lock()
		patient = rec.patient
		rec.mu.Unlock()
	}
	if left, err := rec.close(); err != nil || len(left) != 0 {
		t.Errorf("%v: %d are left", err, len(left))
	}
}
