package runs_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// finisher is a queue whose Finish may fail.
type finisher struct {
	*runs.Local
	fail func(o runs.Outcome) error
}

func (f *finisher) Finish(ctx context.Context, c runs.Claim, o runs.Outcome) error {
	if err := f.fail(o); err != nil {
		return err
	}
	return f.Local.Finish(ctx, c, o)
}

// failing starts a worker whose calls of Finish may fail.
func (h *house) failing(lease time.Duration, fail func(o runs.Outcome) error) {
	h.Helper()
	h.queue = must(runs.NewLocal(h.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{LeaseTime: lease}))
	w := h.worker()
	w.Queue = &finisher{h.queue, fail}
	h.start(w)
}

// TestRefusedLastEvents: a run whose last events can never be stored ends in error at once.
func TestRefusedLastEvents(t *testing.T) {
	h := newHouse(t)
	h.add("g", says("a"))
	refused := 0
	h.failing(time.Hour, func(o runs.Outcome) error {
		if len(o.Events) > 0 && refused < 2 {
			refused++
			return saver.ErrTooLarge
		}
		return nil
	})
	for { // until events were left to Finish
		r := must(runs.Wait(t.Context(), h.queue, h.submit(runs.Request{Input: in("x"), Spec: runs.Spec{Modes: []pregel.Mode{pregel.ModeValues}}}).ID))
		if refused == 0 {
			continue
		}
		if r.Status != runs.Error || r.Attempt != 1 || r.Error == "" || refused != 1 {
			t.Errorf("%s after %d attempts, %q, refused %d times", r.Status, r.Attempt, r.Error, refused)
		}
		return
	}
}

// TestLastValues: a worker dies before it stores the last events of an attempt that came to the end.
// The next one shows the values that the thread has.
func TestLastValues(t *testing.T) {
	asks := func(ctx context.Context, _ []string) (string, error) {
		_, err := pregel.AskFor[string](ctx, "sure?")
		return "b", err
	}
	for _, c := range []struct {
		name  string
		last  node
		modes []pregel.Mode
		want  []string
	}{
		{"done", says("b"), []pregel.Mode{pregel.ModeUpdates, pregel.ModeValues}, []string{`{"log":["x","a","b"]}`}},
		{"waiting", asks, []pregel.Mode{pregel.ModeValues}, []string{`{"__interrupt__":[{"id":"`}},
		{"other modes", says("b"), []pregel.Mode{pregel.ModeUpdates}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.add("g", says("a"), c.last)
			var died atomic.Bool
			h.failing(time.Second, func(runs.Outcome) error {
				if !died.Swap(true) {
					return runs.ErrFenced // as the next attempt would see it
				}
				return nil
			})
			r := h.wait(h.submit(runs.Request{Input: in("x"), Spec: runs.Spec{Modes: c.modes}}), runs.Success)
			var got []string
			for _, ev := range must(h.queue.Events(t.Context(), r.ID, 0, 0)) {
				if ev.Attempt == 2 && ev.Kind != runs.KindAttempt && ev.Kind != runs.KindEnd {
					got = append(got, string(must(ev.JSON(h.queue.Serializer()))))
				}
			}
			if r.Attempt != 2 || !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("attempt %d emitted %q, want %q", r.Attempt, got, c.want)
			}
		})
	}
}

// holding is a queue that hands out no run.
type holding struct {
	*runs.Local
	asked chan struct{}
}

func (q holding) Claim(ctx context.Context, _ string, _ []string) (*runs.Claim, time.Time, error) {
	select {
	case q.asked <- struct{}{}:
	case <-ctx.Done():
	}
	return nil, time.Time{}, nil
}

// TestClaimOfOnesOwn: a worker executes what Claim hands out, and nothing else, where the queue of a
// program has a Local in it and a Claim of its own.
func TestClaimOfOnesOwn(t *testing.T) {
	h := newHouse(t)
	h.add("g", says("a"))
	q := holding{h.queue, make(chan struct{})}
	w := h.worker()
	w.Queue = q
	h.start(w)
	var all []runs.Run
	for n := range 5 {
		<-q.asked
		time.Sleep(time.Millisecond) // so that it waits
		all = append(all, h.submit(runs.Request{Input: in("x"), Spec: runs.Spec{ThreadID: string(rune('a' + n))}}))
	}
	for _, r := range all {
		if r := must(h.queue.Get(t.Context(), r.ID)); r.Status != runs.Pending || r.Attempt != 0 {
			t.Errorf("%s after %d attempts", r.Status, r.Attempt)
		}
	}
}
