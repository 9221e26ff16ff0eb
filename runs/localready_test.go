package runs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// looked counts how often two runs are compared in the lines of a graph and its threads.
func looked(q *Local, graph string, n *int) {
	count := func(l *line) {
		before := l.before
		l.before = func(a, b *localRun) bool { *n++; return before(a, b) }
	}
	g := q.graph(graph)
	count(&g.claimed)
	count(&g.later)
	count(&g.ready)
	for _, t := range q.threads {
		count(&t.due)
	}
}

// TestClaimLooks: a claim looks at a few runs, however many wait: of one thread, of many, or for their time.
func TestClaimLooks(t *testing.T) {
	const waiting, most = 4000, 400
	for name, spec := range map[string]func(i int) Request{
		"one thread":   func(int) Request { return Request{Spec: Spec{ThreadID: "t", Graph: "g"}} },
		"many threads": func(i int) Request { return Request{Spec: Spec{ThreadID: fmt.Sprint(i), Graph: "g", Priority: i % 3}} },
		"later": func(i int) Request {
			return Request{Spec: Spec{ThreadID: fmt.Sprint("t", i%2), Graph: "g"}, After: time.Now().Add(time.Duration(i%2) * time.Hour)}
		},
	} {
		q, _ := newQueue(t, LocalOptions{})
		for i := range waiting {
			submitted(t, q, spec(i))
		}
		n := 0
		looked(q, "g", &n)
		for range 3 {
			c, _, err := q.Claim(t.Context(), "w", []string{"g"})
			if err != nil || c == nil {
				t.Fatalf("%s: claimed %+v, %v", name, c, err)
			}
			if err := q.Finish(t.Context(), *c, Outcome{Status: Success}); err != nil {
				t.Fatal(err)
			}
		}
		if n == 0 || n > most {
			t.Errorf("%s: 3 claims among %d runs compared runs %d times, want at most %d", name, waiting, n, most)
		}
	}
}

// plainNext is the rule of Local.next, by a look at all runs.
func plainNext(q *Local, graphs []string) (best *localRun, next time.Time) {
	now := q.now()
	blocked := func(r *localRun) bool {
		return r.Started.IsZero() && slices.ContainsFunc(q.ofThread(r.ThreadID), func(other *localRun) bool {
			return other != r && (!other.Started.IsZero() || other.ID < r.ID && !other.After.After(now))
		})
	}
	for _, r := range q.open {
		if !slices.Contains(graphs, r.Graph) {
			continue
		}
		at := r.After
		if r.Status == Running {
			at = r.until
		}
		switch {
		case at.After(now):
			if next.IsZero() || at.Before(next) {
				next = at
			}
		case (best == nil || before(r, best)) && !blocked(r):
			best = r
		}
	}
	return best, next
}

// TestNext: whatever happens to runs, the next one is the one that a look at all of them finds.
// STELE_SEED repeats a sequence.
func TestNext(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("STELE_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("STELE_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx := t.Context()
	at := time.Now().Truncate(time.Microsecond)
	o := LocalOptions{Clock: func() time.Time { return at }, LeaseTime: 10 * time.Second}
	q, items := newQueue(t, o)
	var all []string
	var claims []Claim
	kinds := [][]string{{"f"}, {"g"}, {"g", "f"}}
	for step := range 3000 {
		switch random.IntN(9) {
		case 0, 1:
			req := Request{Spec: Spec{ThreadID: fmt.Sprint(random.IntN(5)), Graph: kinds[random.IntN(2)][0], Priority: random.IntN(2), Attempts: 1 + random.IntN(2)}}
			req.Multitask = []Strategy{Enqueue, Enqueue, Enqueue, Reject, Interrupt, Rollback}[random.IntN(6)]
			req.After = at.Add(time.Duration(random.IntN(3)*random.IntN(20)) * time.Second)
			if r, err := q.Submit(ctx, req); err == nil {
				all = append(all, r.ID)
			}
		case 2, 3:
			c, _, err := q.Claim(ctx, "w", kinds[random.IntN(3)])
			if err != nil {
				t.Fatal(err)
			}
			if c != nil {
				claims = append(claims, *c)
			}
		case 4, 5:
			if len(claims) == 0 {
				continue
			}
			i := random.IntN(len(claims))
			o := Outcome{Status: []Status{Success, Error, Interrupted, Pending, Pending}[random.IntN(5)], Uncounted: random.IntN(4) == 0}
			if random.IntN(2) == 0 {
				o.After = at.Add(time.Duration(random.IntN(20)) * time.Second)
			}
			c := claims[i]
			claims = slices.Delete(claims, i, i+1)
			graphs := append([]string(nil), kinds[random.IntN(3)][:random.IntN(2)]...) // none: it only ends
			next, err := q.FinishAndClaim(ctx, c, o, "w", graphs)                      // the claim may be void
			if next != nil {
				claims = append(claims, *next)
			} else if best, _ := plainNext(q, graphs); err == nil && o.Status.Ended() && best != nil && best.Attempt < best.Attempts {
				t.Fatalf("step %d: a turn of %q left %+v", step, graphs, best)
			}
		case 6:
			if len(all) > 0 {
				id := all[random.IntN(len(all))]
				if _, err := q.Cancel(ctx, id, []Strategy{Interrupt, Rollback}[random.IntN(2)]); err != nil {
					t.Fatal(err)
				}
				_, _ = q.Retry(ctx, id) // it may be none to try again
			}
		case 7:
			if len(claims) > 0 {
				if _, err := q.Renew(ctx, claims[:1+random.IntN(len(claims))]); err != nil {
					t.Fatal(err)
				}
			}
		case 8:
			at = at.Add(time.Duration(random.IntN(8)) * time.Second)
		}
		if random.IntN(200) == 0 { // another process opens the queue
			var err error
			if q, err = NewLocal(ctx, items, o); err != nil {
				t.Fatal(err)
			}
			claims = nil
		}
		for _, graphs := range append(kinds, nil, []string{"none"}) {
			best, next := q.next("w", graphs)
			if want, later := plainNext(q, graphs); best != want || best == nil && !next.Equal(later) {
				t.Fatalf("step %d: of %q the next is %+v or at %v, want %+v or %v", step, graphs, best, next, want, later)
			}
		}
	}
	// What has ended is in no line.
	for _, r := range q.open {
		if _, err := q.Cancel(ctx, r.ID, Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	at = at.Add(time.Hour)
	for c, _, err := q.Claim(ctx, "w", kinds[2]); c != nil || err != nil; c, _, err = q.Claim(ctx, "w", kinds[2]) {
		if err == nil {
			err = q.Finish(ctx, *c, Outcome{Status: Interrupted})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, g := range q.graphs {
		if n := len(q.open) + len(q.threads) + g.claimed.Len() + g.later.Len() + g.waiting.Len() + g.ready.Len(); n != 0 {
			t.Errorf("graph %s: %d are left", name, n)
		}
	}
}

// TestClockSteps: a clock that is set forward ends no lease, and one that is set back does not hold up
// what was due.
func TestClockSteps(t *testing.T) {
	at := time.Now()
	q, _ := newQueue(t, LocalOptions{Clock: func() time.Time { return at }})
	steady := at
	q.steady = func() time.Time { return steady }
	submitted(t, q, Request{Spec: Spec{ThreadID: "a", Graph: "g"}})
	claim := func() *Claim { return claimNext(t, q) }
	first := claim()
	at = at.Add(time.Hour)
	if c := claim(); c != nil {
		t.Errorf("a claim was void when the clock was set forward: %+v", c)
	}
	if _, err := q.Renew(t.Context(), []Claim{*first}); err != nil {
		t.Fatal(err)
	}
	at = at.Add(-2 * time.Hour)
	if steady = steady.Add(q.LeaseTime()); claim() == nil {
		t.Error("a claim holds for longer than its lease when the clock was set back")
	}
	submitted(t, q, Request{Spec: Spec{ThreadID: "b", Graph: "g"}})
	at = at.Add(-time.Hour)
	if c := claim(); c == nil || c.ThreadID != "b" {
		t.Errorf("claimed %+v when the clock was set back", c)
	}
	submitted(t, q, Request{Spec: Spec{ThreadID: "c", Graph: "g"}, After: at.Add(5 * time.Second)})
	at = at.Add(-time.Hour)
	if steady = steady.Add(4 * time.Second); claim() != nil {
		t.Error("a run did not wait for its time")
	}
	if steady = steady.Add(time.Second); claim() == nil {
		t.Error("a run waits for longer than it was to when the clock was set back")
	}
	submitted(t, q, Request{Spec: Spec{ThreadID: "d", Graph: "g"}, After: at.Add(time.Hour)})
	if at = at.Add(time.Hour); claim() == nil {
		t.Error("a run waits for longer than until its time when the clock was set forward")
	}
}
