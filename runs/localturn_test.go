package runs

import (
	"errors"
	"testing"
	"time"
)

// TestTurn: a worker that ends a run gets the next one by the same write. It is claimed as by Claim:
// nobody else gets it, and a process that dies with it leaves it to the next.
func TestTurn(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	first := submitted(t, q, Request{Spec: Spec{Graph: "g", ThreadID: "a"}})
	behind := submitted(t, q, Request{Spec: Spec{Graph: "g", ThreadID: "a"}})
	submitted(t, q, Request{Spec: Spec{Graph: "other", ThreadID: "b"}})
	last := submitted(t, q, Request{Spec: Spec{Graph: "g", ThreadID: "c"}, After: time.Now().Add(time.Hour)})
	c, _, err := q.Claim(ctx, "w", []string{"g"})
	if err != nil || c == nil || c.ID != first.ID {
		t.Fatalf("%v: %+v", err, c)
	}
	before := q.writes.Load()
	next, err := q.FinishAndClaim(ctx, *c, Outcome{Status: Interrupted, Events: []Event{{Kind: "custom"}}}, "w", []string{"f", "g"})
	if err != nil || next == nil || next.ID != behind.ID || next.Status != Running || next.Worker != "w" || next.Attempt != 1 || next.Epoch != 1 || !next.Discard {
		t.Fatalf("%v: got %+v, want run %s", err, next, behind.ID)
	}
	if n := q.writes.Load() - before; n != 1 {
		t.Errorf("%d writes", n)
	}
	if again, err := q.FinishAndClaim(ctx, *c, Outcome{Status: Success}, "w", []string{"g"}); again != nil || !errors.Is(err, ErrFenced) {
		t.Errorf("%v: a claim that has ended gives %+v", err, again)
	}
	if other, _, err := q.Claim(ctx, "w2", []string{"g"}); other != nil || err != nil {
		t.Fatalf("%v: it can be claimed twice: %+v", err, other)
	}
	if _, err := q.Append(ctx, *next, nil); err != nil {
		t.Error(err)
	}
	// The process dies.
	if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
		t.Fatal(err)
	}
	if r, err := q.Get(ctx, first.ID); err != nil || r.Status != Interrupted || r.Ended.IsZero() {
		t.Errorf("%v: %+v", err, r)
	}
	if events, err := q.Events(ctx, first.ID, 0, 0); err != nil || len(events) != 2 || events[0].Kind != "custom" || events[1].Kind != KindEnd {
		t.Errorf("%v: %+v", err, events)
	}
	c, _, err = q.Claim(ctx, "w2", []string{"g"})
	if err != nil || c == nil || c.ID != behind.ID || c.Attempt != 2 || c.Epoch != 2 {
		t.Fatalf("%v: %+v", err, c)
	}
	if next, err := q.FinishAndClaim(ctx, *c, Outcome{Status: Success}, "w2", []string{"g"}); err != nil || next != nil {
		t.Errorf("%v: %+v, but %s is not due", err, next, last.ID)
	}
}

// TestTurnAlone: what is no end of a run, or must not be claimed so, is stored without another run.
func TestTurnAlone(t *testing.T) {
	ctx := t.Context()
	long := make([]Event, eventsInItem+1)
	for i := range long {
		long[i].Kind = "custom"
	}
	for name, c := range map[string]struct {
		outcome  Outcome
		graphs   []string
		attempts int // that the other run has had, of 1
	}{
		"given back":      {Outcome{Status: Pending}, []string{"g"}, 0},
		"a worker stops":  {Outcome{Status: Success}, nil, 0},
		"many events":     {Outcome{Status: Success, Events: long}, []string{"g"}, 0},
		"no attempt left": {Outcome{Status: Success}, []string{"g"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			q, _ := newQueue(t, LocalOptions{Clock: func() time.Time { return now }})
			other := submitted(t, q, Request{Spec: Spec{Graph: "g", ThreadID: "b", Attempts: 1}})
			for range c.attempts {
				if _, _, err := q.Claim(ctx, "w0", []string{"g"}); err != nil {
					t.Fatal(err)
				}
				now = now.Add(time.Hour) // that worker is dead
			}
			submitted(t, q, Request{Spec: Spec{Graph: "g", ThreadID: "a", Priority: 1}})
			claim, _, err := q.Claim(ctx, "w", []string{"g"})
			if err != nil || claim == nil || claim.ThreadID != "a" {
				t.Fatalf("%v: %+v", err, claim)
			}
			next, err := q.FinishAndClaim(ctx, *claim, c.outcome, "w", c.graphs)
			if err != nil || next != nil {
				t.Errorf("%v: %+v", err, next)
			}
			if r, err := q.Get(ctx, claim.ID); err != nil || r.Status != c.outcome.Status {
				t.Errorf("%v: %+v", err, r)
			}
			if r, err := q.Get(ctx, other.ID); err != nil || r.Attempt != c.attempts {
				t.Errorf("%v: %+v", err, r)
			}
		})
	}
}

// TestTurnCancelled: a run that was to be rolled back comes with that to who ends another one.
func TestTurnCancelled(t *testing.T) {
	ctx := t.Context()
	now := time.Now()
	q, _ := newQueue(t, LocalOptions{Clock: func() time.Time { return now }})
	other := submitted(t, q, Request{Spec: Spec{Graph: "g", ThreadID: "b", Attempts: 1}})
	if _, _, err := q.Claim(ctx, "w0", []string{"g"}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Cancel(ctx, other.ID, Rollback); err != nil {
		t.Fatal(err)
	}
	submitted(t, q, Request{Spec: Spec{Graph: "g", ThreadID: "a"}})
	claim, _, err := q.Claim(ctx, "w", []string{"g"})
	if err != nil || claim == nil || claim.ThreadID != "a" {
		t.Fatalf("%v: %+v", err, claim)
	}
	now = now.Add(time.Hour) // the other worker is dead
	if next, err := q.FinishAndClaim(ctx, *claim, Outcome{Status: Success}, "w", []string{"g"}); err != nil || next == nil || next.ID != other.ID || next.Cancel != Rollback {
		t.Errorf("%v: %+v", err, next)
	}
}

// TestTurnLate: who ends a run when its claim was void, but taken by nobody, does not get it again.
func TestTurnLate(t *testing.T) {
	ctx := t.Context()
	now := time.Now()
	q, _ := newQueue(t, LocalOptions{Clock: func() time.Time { return now }})
	r := submitted(t, q, Request{Spec: Spec{Graph: "g"}})
	claim, _, err := q.Claim(ctx, "w", []string{"g"})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	if next, err := q.FinishAndClaim(ctx, *claim, Outcome{Status: Success}, "w", []string{"g"}); err != nil || next != nil {
		t.Errorf("%v: %+v", err, next)
	}
	if r, err := q.Get(ctx, r.ID); err != nil || r.Status != Success {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestWatchEnd: who waits for the end of a run is woken by it alone, and reads from memory what came.
func TestWatchEnd(t *testing.T) {
	ctx := t.Context()
	q, _ := newQueue(t, LocalOptions{})
	r := submitted(t, q, Request{Spec: Spec{Graph: "g"}})
	ended, stop := q.WatchEnd(r.ID)
	woken := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	c, _, err := q.Claim(ctx, "w", []string{"g"})
	if err == nil {
		_, err = q.Append(ctx, *c, []Event{{Kind: "custom"}})
	}
	if err != nil || woken() {
		t.Fatal(err, "woken before the end")
	}
	if err := q.Finish(ctx, *c, Outcome{Status: Success}); err != nil || !woken() {
		t.Fatal(err, "not woken by the end")
	}
	if InMemory(q) != 1 {
		t.Error("a run that somebody waits for is not in memory")
	}
	if stop(); InMemory(q) != 0 {
		t.Error("it stays there")
	}
}

// TestBeginStopping: what a worker claimed just before it stops is asked to stop as well, and cancelled
// if the time for that is over.
func TestBeginStopping(t *testing.T) {
	ctx := t.Context()
	for _, over := range []bool{false, true} {
		w := &Worker{jobs: map[string]*job{}, stopping: true, stopped: over}
		j := w.begin(ctx, Claim{Run: Run{ID: "r"}})
		if _, asked := j.control.DrainRequested(); !asked || (j.ctx.Err() != nil) != over {
			t.Errorf("over %v: asked to stop %v, %v", over, asked, j.ctx.Err())
		}
		j.cancel(nil)
	}
}
