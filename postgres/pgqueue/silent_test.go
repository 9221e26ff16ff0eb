//go:build unix

package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"

	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
)

// impatient are options with which a server that is silent is soon given up.
var impatient = postgres.Options{StatementTimeout: 500 * time.Millisecond, RetryTime: 100 * time.Millisecond, LeaseTime: time.Second}

// TestSilentServer: every call ends though nothing is heard of the server, as TestSilentServer of the
// saver's has it.
func TestSilentServer(t *testing.T) {
	url, ctx := pgtest.Shared(t).Database(t), t.Context()
	direct := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	status := func(want runs.Status) func(c runs.Claim) (bool, error) {
		return func(c runs.Claim) (bool, error) {
			r, err := direct.Get(ctx, c.ID)
			return r.Status == want, err
		}
	}
	var wg sync.WaitGroup
	var tried atomic.Int64
	ended := func(c runs.Claim, o runs.Outcome, then func(context.Context, string) error) error {
		if err := direct.Finish(ctx, c, o); err != nil {
			return err
		}
		return then(ctx, c.ID)
	}
	table := map[string]struct {
		call func(q *pgqueue.Queue, c runs.Claim) error
		done func(c runs.Claim) (bool, error) // whether something has changed; nil where that does not count
	}{
		"Submit": {
			func(q *pgqueue.Queue, c runs.Claim) error {
				_, err := q.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: "new " + c.ThreadID, Graph: "new"}})
				return err
			},
			func(c runs.Claim) (bool, error) {
				for _, err := range direct.List(ctx, runs.Query{ThreadID: "new " + c.ThreadID}) {
					return err == nil, err
				}
				return false, nil
			},
		},
		"Get": {call: func(q *pgqueue.Queue, c runs.Claim) error {
			_, err := q.Get(ctx, c.ID)
			return err
		}},
		"List": {call: func(q *pgqueue.Queue, c runs.Claim) (err error) {
			for _, err = range q.List(ctx, runs.Query{ThreadID: c.ThreadID}) {
			}
			return err
		}},
		"Cancel": {
			func(q *pgqueue.Queue, c runs.Claim) error {
				_, err := q.Cancel(ctx, c.ID, runs.Interrupt)
				return err
			},
			func(c runs.Claim) (bool, error) {
				r, err := direct.Get(ctx, c.ID)
				return r.Cancel != "", err
			},
		},
		"Claim": {call: func(q *pgqueue.Queue, c runs.Claim) error { // one that got lost is void after LeaseTime
			if _, err := direct.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: "next " + c.ThreadID, Graph: "next " + c.Graph}}); err != nil {
				return err
			}
			_, _, err := q.Claim(ctx, "w", []string{"next " + c.Graph})
			return err
		}},
		"Renew": {call: func(q *pgqueue.Queue, c runs.Claim) error {
			_, err := q.Renew(ctx, []runs.Claim{c})
			return err
		}},
		"Mark": {call: func(q *pgqueue.Queue, c runs.Claim) error { return q.Mark(ctx, c, "here") }},
		"Append": {
			func(q *pgqueue.Queue, c runs.Claim) error {
				_, err := q.Append(ctx, c, []runs.Event{{Kind: "k"}})
				return err
			},
			func(c runs.Claim) (bool, error) {
				found, err := direct.Events(ctx, c.ID, 0, 0)
				return len(found) > 0, err
			},
		},
		"Finish": {func(q *pgqueue.Queue, c runs.Claim) error {
			return q.Finish(ctx, c, runs.Outcome{Status: runs.Success})
		}, status(runs.Success)},
		"Events": {call: func(q *pgqueue.Queue, c runs.Claim) error {
			_, err := q.Events(ctx, c.ID, 0, 0)
			return err
		}},
		"Count": {call: func(q *pgqueue.Queue, c runs.Claim) error {
			_, err := q.Count(ctx, runs.Query{ThreadID: c.ThreadID})
			return err
		}},
		"Metrics": {call: func(q *pgqueue.Queue, _ runs.Claim) error {
			_, err := q.Metrics(ctx)
			return err
		}},
		"Versions": {call: func(q *pgqueue.Queue, _ runs.Claim) error {
			_, err := q.Versions(ctx)
			return err
		}},
		"Serve": {call: func(q *pgqueue.Queue, c runs.Claim) error {
			_, err := q.Serve(ctx, "w "+c.Graph, map[string]string{c.Graph: "1"})
			return err
		}},
		"Wake": {call: func(q *pgqueue.Queue, c runs.Claim) error { return q.Wake(ctx, c.ThreadID) }},
		"ChildEnd": {call: func(q *pgqueue.Queue, c runs.Claim) error {
			_, _, err := q.ChildEnd(ctx, c.ThreadID)
			return err
		}},
		"Retry": {func(q *pgqueue.Queue, c runs.Claim) error {
			return ended(c, runs.Outcome{Status: runs.Error, Error: "failed"}, func(ctx context.Context, id string) error {
				_, err := q.Retry(ctx, id)
				return err
			})
		}, status(runs.Pending)},
		"Delete": {call: func(q *pgqueue.Queue, c runs.Claim) error { // it may be made again, and says no more of its outcome
			return ended(c, runs.Outcome{Status: runs.Success}, q.Delete)
		}},
		"Advance": {call: func(q *pgqueue.Queue, c runs.Claim) error {
			s, err := direct.PutSchedule(ctx, runs.Schedule{ID: "advance " + c.Graph, Cron: "0 0 1 1 *", Spec: runs.Spec{ThreadID: c.ThreadID, Graph: "no such"}})
			if err == nil {
				err = q.Advance(ctx, s.ID, s.Next, s.Next.Add(time.Hour))
			}
			return err
		}},
		"PutSchedule": {call: func(q *pgqueue.Queue, c runs.Claim) error {
			_, err := q.PutSchedule(ctx, runs.Schedule{ID: c.Graph, Cron: "0 0 1 1 *", Spec: runs.Spec{ThreadID: c.ThreadID, Graph: "no such"}})
			if err == nil {
				_, err = q.Schedules(ctx)
			}
			if err == nil {
				err = q.DeleteSchedule(ctx, c.Graph)
			}
			return err
		}},
		"Sweep": {call: func(q *pgqueue.Queue, c runs.Claim) error {
			_, err := q.Sweep(ctx, time.Unix(0, 0))
			return err
		}},
		"Watch": {call: func(q *pgqueue.Queue, c runs.Claim) error {
			changed, stop := q.Watch("")
			defer stop()
			<-changed
			return q.Close()
		}},
	}
	methods.Covered(t, direct, table, map[string]string{"Schedules": "see PutSchedule", "DeleteSchedule": "see PutSchedule", "Close": "see Watch",
		"LeaseTime": "asks nobody", "Serializer": "asks nobody"})
	for name, c := range table {
		wg.Go(func() {
			pgtest.InSilence(t, url, func(url string) (func() error, func(error) error) {
				var c1 *runs.Claim
				s, err := pgtest.Patiently(func() (*postgres.Saver, error) { return postgres.Open(ctx, url, impatient) })
				key := fmt.Sprint(name, tried.Add(1))
				if err == nil {
					_, err = direct.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: key, Graph: key}})
				}
				if err == nil {
					c1, _, err = direct.Claim(ctx, "w", []string{key})
				}
				if err != nil {
					return func() error { return err }, func(error) error { return err }
				}
				q := pgqueue.Open(s, pgqueue.Options{})
				return func() error { return c.call(q, *c1) }, func(err error) error {
					defer s.Close()
					defer q.Close()
					if _, err := pgtest.Patiently(func() (any, error) { return nil, s.Sync(ctx) }); err != nil {
						return err
					}
					if c.done == nil || errors.Is(err, saver.ErrOutcomeUnknown) {
						return nil
					}
					done, unread := c.done(*c1)
					if unread == nil && done != (err == nil) {
						return fmt.Errorf("done: %v, and the error is %w", done, err)
					}
					return unread
				}
			})
		})
	}
	wg.Wait()
}

// TestWorkerOfASilentServer: a worker that is told to stop ends though nothing is heard of the server,
// and the run ends elsewhere.
func TestWorkerOfASilentServer(t *testing.T) {
	ctx := t.Context()
	worker := func(q runs.Queue, s saver.Saver, node func(context.Context) error) *runs.Worker {
		g, err := graph.New(graph.Key("n", channel.LastValue[int]())).
			Node("one", func(ctx context.Context, _ any) (any, error) { return map[string]any{"n": 1}, node(ctx) }).
			Edge(graph.Start, "one").Compile(graph.Options{Name: "g", Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		return &runs.Worker{Queue: q, Saver: s, Graphs: map[string]*pregel.Graph{"g": g}, DrainTimeout: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	}
	for name, text := range map[string]string{"when it claims": "for update of r skip locked", "in a node": "", "when it stores": "stele_put(", "when it ends a run": "waiting = $4::bool"} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.Shared(t).Database(t)
			otherSaver := open(t, url, postgres.Options{})
			other := openQueue(t, otherSaver, pgqueue.Options{LeaseTime: time.Second})
			input, err := other.Serializer().Encode(map[string]any{"n": 0})
			if err != nil {
				t.Fatal(err)
			}
			run, err := other.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g", Input: input}})
			if err != nil {
				t.Fatal(err)
			}
			r, through := pgtest.NewRelay(t, url)
			s, err := pgtest.Patiently(func() (*postgres.Saver, error) { return postgres.Open(ctx, through, impatient) })
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			q := pgqueue.Open(s, pgqueue.Options{LeaseTime: time.Second})
			defer q.Close()
			hung := make(chan struct{})
			var resume func() bool
			node := func(context.Context) error { return nil }
			if text != "" {
				resume = r.HangAt(text, func() { close(hung) })
			} else {
				node = func(ctx context.Context) error {
					resume = r.HangAt("", func() { close(hung) })
					<-ctx.Done()
					return ctx.Err()
				}
			}
			working, stop := context.WithCancel(ctx)
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- worker(q, s, node).Run(working) }()
			select {
			case <-hung:
			case <-time.After(time.Minute):
				t.Fatalf("nothing was sent that has %q", text)
			}
			stop()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("the worker does not end before the server is back")
			}
			resume()
			later, done := context.WithCancel(ctx)
			defer done()
			go worker(other, otherSaver, func(context.Context) error { return nil }).Run(later)
			for !run.Status.Ended() {
				if run, err = other.Get(ctx, run.ID); err != nil {
					t.Fatal(err)
				}
				_ = pgdb.Pause(ctx, 10*time.Millisecond)
			}
			if run.Status != runs.Success {
				t.Errorf("the run ends with %q: %s", run.Status, run.Error)
			}
		})
	}
}
