package runs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// silentQueue is a queue that is told much and answers nothing, as a server may that is out of reach.
type silentQueue struct {
	runs.Queue
	hangs func(call string) bool
	hung  chan string
}

func (q *silentQueue) hang(ctx context.Context, call string) error {
	if !q.hangs(call) {
		return nil
	}
	select {
	case q.hung <- call:
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

func (q *silentQueue) LeaseTime() time.Duration { return 100 * time.Millisecond }

func (q *silentQueue) Finish(ctx context.Context, c runs.Claim, o runs.Outcome) error {
	if err := q.hang(ctx, "Finish"); err != nil {
		return err
	}
	return q.Queue.Finish(ctx, c, o)
}

func (q *silentQueue) Append(ctx context.Context, c runs.Claim, events []runs.Event) (int64, error) {
	if err := q.hang(ctx, "Append"); err != nil {
		return 0, err
	}
	return q.Queue.Append(ctx, c, events)
}

func (q *silentQueue) Renew(ctx context.Context, claims []runs.Claim) ([]runs.Run, error) {
	if err := q.hang(ctx, "Renew"); err != nil {
		return nil, err
	}
	return q.Queue.Renew(ctx, claims)
}

// silentSaver is likewise a saver, when a run is rolled back.
type silentSaver struct {
	*memory.Saver
	q *silentQueue
}

func (s silentSaver) DeleteForRuns(ctx context.Context, ids []string, owned *saver.Lease) (saver.Removal, error) {
	if err := s.q.hang(ctx, "DeleteForRuns"); err != nil {
		return saver.Removal{}, err
	}
	return s.Saver.DeleteForRuns(ctx, ids, owned)
}

// TestWorkerOfASilentQueue: a worker that is told to stop ends, whatever the queue or the saver does
// not answer to.
func TestWorkerOfASilentQueue(t *testing.T) {
	for _, call := range []string{"Finish", "Append", "Renew", "DeleteForRuns"} {
		t.Run(call, func(t *testing.T) {
			h := newHouse(t)
			hung := make(chan string, 1)
			w := h.worker()
			queue := &silentQueue{Queue: h.queue, hangs: func(c string) bool { return c == call }, hung: hung}
			w.Queue, w.Saver, w.DrainTimeout = queue, silentSaver{h.saver, queue}, time.Millisecond
			began := make(chan struct{}, 10)
			h.add("g", func(ctx context.Context, _ []string) (string, error) {
				began <- struct{}{}
				switch call {
				case "Finish":
					return "done", nil
				case "Append":
					select {
					case <-hung:
						hung <- call
					case <-ctx.Done():
					}
					return "done", nil
				}
				<-ctx.Done()
				return "", ctx.Err()
			})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			r := h.submit(runs.Request{Input: in("a")})
			<-began
			if call == "DeleteForRuns" {
				if _, err := h.queue.Cancel(t.Context(), r.ID, runs.Rollback); err != nil {
					t.Fatal(err)
				}
			}
			<-hung
			stop()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("the worker does not end")
			}
		})
	}
}
