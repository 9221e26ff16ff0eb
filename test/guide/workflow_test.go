package guide

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

type Purchase struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

type Services struct {
	Charge func(ctx context.Context, key string, cents int) (string, error)
	Ship   func(ctx context.Context, key, id string) (string, error)
}

func purchases(with Services, s saver.Saver) (*pregel.Graph, error) {
	pay := pregel.NewTask("pay", func(ctx context.Context, p Purchase) (string, error) {
		key, err := pregel.IdempotencyKey(ctx, "charge") // the same in every attempt
		if err != nil {
			return "", err
		}
		return with.Charge(ctx, key, p.Cents)
	}, pregel.TaskOptions{Retry: []pregel.RetryPolicy{{MaxAttempts: 3, InitialInterval: 100 * time.Millisecond}}})
	ship := pregel.NewTask("ship", func(ctx context.Context, p Purchase) (string, error) {
		key, err := pregel.IdempotencyKey(ctx, "ship")
		if err != nil {
			return "", err
		}
		return with.Ship(ctx, key, p.ID)
	})
	body := func(ctx context.Context, p Purchase) (string, error) {
		payment, err := pay.Call(ctx, p)
		if err != nil {
			return "", err
		}
		if p.Cents > 100_000 {
			if ok, err := pregel.AskFor[bool](ctx, "ship "+p.ID+"?"); err != nil || !ok {
				return payment, err // it waits, here or for weeks; the answer resumes it
			}
		}
		parcel, err := ship.Call(ctx, p)
		return payment + ", " + parcel, err
	}
	return pregel.Entrypoint("purchase", body, pregel.EntrypointOptions{Options: pregel.Options{Saver: s}})
}

func begin(ctx context.Context, g *pregel.Graph, p Purchase) (*pregel.Result, error) {
	return g.Invoke(ctx, pregel.Thread("purchase-"+p.ID), p)
}

func atStart(ctx context.Context, g *pregel.Graph) error {
	report, err := g.Recover(ctx, pregel.RecoverOptions{}) // all that a crash cut off
	for _, r := range report.Threads {
		fmt.Println(r.ThreadID, r.Outcome, r.Err)
	}
	return err
}

func approve(ctx context.Context, g *pregel.Graph, id string) (*pregel.Result, error) {
	return g.Invoke(ctx, pregel.Thread("purchase-"+id), pregel.Command{Resume: true})
}

func waiting(ctx context.Context, s saver.Saver) (ids []string, err error) {
	for t, err := range s.Threads(ctx, saver.ThreadQuery{Prefix: "purchase-", Status: saver.StatusWaiting}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, t.ThreadID)
	}
	return ids, nil
}

func steps(ctx context.Context, s saver.Saver, id string) error {
	done, err := pregel.Steps(ctx, s, pregel.Thread("purchase-"+id))
	for _, x := range done {
		fmt.Println(x.Kind, x.Name, x.State, x.Result, x.Error, x.Attempts, x.Took)
	}
	return err
}

// shop counts what its services did under each key.
type shop map[string]int

func (s shop) services(ship func() error) Services {
	return Services{
		Charge: func(_ context.Context, key string, cents int) (string, error) {
			s["charge "+key]++
			return fmt.Sprint("paid ", cents), nil
		},
		Ship: func(_ context.Context, key, id string) (string, error) {
			s["ship "+key]++
			return "parcel " + id, ship()
		},
	}
}

// TestWorkflow runs the page about workflows: after a crash in the second step the first is not repeated and the
// second has its key, and one that waits is listed and answered, by a person or by a run at a later time.
func TestWorkflow(t *testing.T) {
	dir, did := t.TempDir(), shop{}
	ctx, die := context.WithCancel(t.Context())
	defer die()
	run := func(ship func() error, use func(g *pregel.Graph, s *disk.Saver)) {
		t.Helper()
		s, err := disk.Open(dir, disk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		g, err := purchases(did.services(ship), s)
		if err != nil {
			t.Fatal(err)
		}
		use(g, s)
	}
	result := func(g *pregel.Graph, thread string) any {
		state, err := g.GetState(t.Context(), pregel.Thread(thread))
		if err != nil {
			t.Fatal(err)
		}
		return state.Values
	}
	run(func() error { die(); return ctx.Err() }, func(g *pregel.Graph, _ *disk.Saver) {
		if _, err := begin(ctx, g, Purchase{ID: "7", Cents: 500}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
	run(func() error { return nil }, func(g *pregel.Graph, s *disk.Saver) {
		if err := atStart(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if got := result(g, "purchase-7"); got != "paid 500, parcel 7" {
			t.Errorf("the result is %v", got)
		}
		if err := steps(t.Context(), s, "7"); err != nil {
			t.Error(err)
		}
		done, err := pregel.Steps(t.Context(), s, pregel.Thread("purchase-7"))
		if err != nil || len(done) != 2 || done[0].Name != "pay" || done[0].Result != "paid 500" || done[1].Name != "ship" || done[1].State != pregel.StepDone || done[1].Attempts != 1 {
			t.Errorf("the steps: %+v, %v", done, err)
		}
		var times []int
		for _, n := range did {
			times = append(times, n)
		}
		if slices.Sort(times); !slices.Equal(times, []int{1, 2}) {
			t.Errorf("calls by key: %v", did)
		}
		for _, id := range []string{"8", "9"} {
			if res, err := begin(t.Context(), g, Purchase{ID: id, Cents: 200_000}); err != nil || len(res.Interrupts) != 1 || res.Interrupts[0].Value != "ship "+id+"?" {
				t.Fatal(res, err)
			}
		}
		if ids, err := waiting(t.Context(), s); err != nil || !slices.Equal(ids, []string{"purchase-8", "purchase-9"}) {
			t.Errorf("waiting: %v, %v", ids, err)
		}
		if res, err := approve(t.Context(), g, "8"); err != nil || res.Value != "paid 200000, parcel 8" {
			t.Error(res, err)
		}
		later(t, s, g, "purchase-9")
		if got := result(g, "purchase-9"); got != "paid 200000, parcel 9" {
			t.Errorf("the result is %v", got)
		}
	})
}

// later lets a run with a time answer what a thread waits for.
func later(t *testing.T, s *disk.Saver, g *pregel.Graph, thread string) {
	items, err := store.On(s, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer items.Close()
	queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- (&runs.Worker{Queue: queue, Saver: s, Graphs: map[string]*pregel.Graph{"purchase": g}}).Run(ctx)
	}()
	run, err := queue.Submit(ctx, runs.Request{Spec: runs.Spec{Graph: "purchase", ThreadID: thread}, Input: pregel.Command{Resume: true}, After: time.Now().Add(time.Millisecond)})
	if err == nil {
		run, err = runs.Wait(ctx, queue, run.ID)
	}
	if err != nil || run.Status != runs.Success {
		t.Error(run, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
