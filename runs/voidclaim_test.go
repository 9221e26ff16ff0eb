package runs

import (
	"context"
	"errors"
	"testing"
	"time"
)

// claimTwice is a run that was claimed again when its first claim was void, and both claims.
func claimTwice(t *testing.T) (q *Local, void, c Claim) {
	t.Helper()
	at := time.Now()
	q, _ = newQueue(t, LocalOptions{Clock: func() time.Time { return at }})
	submitted(t, q, Request{Spec: Spec{Graph: "g"}})
	claim := func() Claim {
		t.Helper()
		c, _, err := q.Claim(t.Context(), "w", []string{"g"})
		if err != nil || c == nil {
			t.Fatalf("claimed %+v, %v", c, err)
		}
		return *c
	}
	void = claim()
	at = at.Add(q.LeaseTime())
	return q, void, claim()
}

// TestVoidClaimAsked: a worker whose claim is void does not take the place of the one that has the run
// and waits to be told that somebody wants its events.
func TestVoidClaimAsked(t *testing.T) {
	q, void, c := claimTwice(t)
	var told []string
	q.WhenAsked(c, func() { told = append(told, "holder") })
	q.WhenAsked(void, func() { told = append(told, "void") })
	if len(told) != 1 || told[0] != "void" {
		t.Errorf("told %q, before somebody asks", told)
	}
	if _, err := q.Events(t.Context(), c.ID, 0, 0); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[1] != "holder" {
		t.Errorf("told %q", told)
	}
}

// TestVoidClaimJob: a worker that claims a run again, after it was too slow to keep it, renews the new
// claim until that ends. The job of the old one is cancelled.
func TestVoidClaimJob(t *testing.T) {
	q, void, c := claimTwice(t)
	w := &Worker{Queue: q, jobs: map[string]*job{}}
	old := w.begin(t.Context(), void)
	j := w.begin(t.Context(), c)
	if cause := context.Cause(old.ctx); !errors.Is(cause, ErrFenced) {
		t.Errorf("the job of a void claim goes on: %v", cause)
	}
	w.execute(old, func(ctx context.Context, c Claim, o Outcome) (*Claim, error) { return nil, q.Finish(ctx, c, o) })
	if _, err := q.Cancel(t.Context(), c.ID, Interrupt); err != nil {
		t.Fatal(err)
	}
	w.renewAll(t.Context())
	if cause := context.Cause(j.ctx); !errors.Is(cause, errCancelled) {
		t.Errorf("the job of the new claim is not told of a cancellation: %v", cause)
	}
}
