package runs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/store"
)

// cancelling is a queue whose runs are cancelled just behind the claim. It gives no hints.
type cancelling struct {
	*runs.Local
	how runs.Strategy
}

func (q *cancelling) Claim(ctx context.Context, worker string, graphs []string) (*runs.Claim, time.Time, error) {
	c, next, err := q.Local.Claim(ctx, worker, graphs)
	if err == nil && c != nil {
		_, err = q.Cancel(ctx, c.ID, q.how)
	}
	return c, next, err
}

func (q *cancelling) Watch(string) (<-chan struct{}, func()) { return nil, func() {} }

// TestCancelledBehindClaim: a run that is cancelled when it was claimed, before the worker renews it, does
// not begin.
func TestCancelledBehindClaim(t *testing.T) {
	for _, how := range []runs.Strategy{runs.Interrupt, runs.Rollback} {
		h := newHouse(t)
		h.queue = must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{LeaseTime: time.Hour}))
		h.add("g", func(context.Context, []string) (string, error) {
			t.Error("a run that was cancelled has begun")
			return "a", nil
		})
		r := h.submit(runs.Request{Input: in("x")})
		w := h.worker()
		w.Queue = &cancelling{h.queue, how}
		h.start(w)
		if r = h.wait(r, runs.Interrupted); r.Cancel != how {
			t.Errorf("%s: cancelled by %q", how, r.Cancel)
		}
	}
}
