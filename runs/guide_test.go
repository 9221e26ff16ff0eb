package runs_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

type Order struct {
	Item string `json:"item"`
	Sent bool   `json:"sent"`
}

// ordersGraph asks before it sends.
func ordersGraph(s *disk.Saver) (*graph.Graph[Order], error) {
	return graph.For[Order]().Node("send", func(ctx context.Context, o *Order) (graph.Update, error) {
		ok, err := pregel.AskFor[bool](ctx, "send "+o.Item+"?")
		if err != nil {
			return nil, err
		}
		return graph.Write(&o.Sent, ok), nil
	}).Sequence(graph.Start, "send", graph.End).Compile(graph.Options{Saver: s})
}

func work(ctx context.Context, s *disk.Saver, g *graph.Graph[Order]) (runs.Queue, <-chan error, error) {
	items, err := store.On(s, store.Options{})
	if err != nil {
		return nil, nil, err
	}
	queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	if err != nil {
		return nil, nil, err
	}
	worker := &runs.Worker{
		Queue:  queue,
		Saver:  s,
		Graphs: map[string]*pregel.Graph{"orders": g.Untyped()},
	}
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	return queue, done, nil
}

func place(ctx context.Context, queue runs.Queue) (runs.Run, error) {
	run, err := queue.Submit(ctx, runs.Request{
		Spec:  runs.Spec{Graph: "orders", ThreadID: "order-7"},
		Input: Order{Item: "tea"},
		Key:   "order-7 placed", // submitted twice, it is one run
	})
	if err != nil {
		return run, err
	}
	run, err = runs.Wait(ctx, queue, run.ID)
	fmt.Println(run.Status, run.Waiting, run.Error)
	return run, err
}

func answer(ctx context.Context, queue runs.Queue) (runs.Run, error) {
	return queue.Submit(ctx, runs.Request{
		Spec:  runs.Spec{Graph: "orders", ThreadID: "order-7"},
		Input: pregel.Command{Resume: true},
	})
}

func follow(ctx context.Context, queue runs.Queue, run runs.Run, last int64) (int64, error) {
	for ev, err := range runs.Follow(ctx, queue, run.ID, last) {
		if err != nil {
			return last, err
		}
		text, err := ev.JSON(queue.Serializer())
		if err != nil {
			return last, err
		}
		fmt.Println(ev.Attempt, ev.Kind, string(text))
		last = ev.Seq
	}
	return last, nil
}

func schedule(ctx context.Context, queue runs.Queue) error {
	_, err := queue.PutSchedule(ctx, runs.Schedule{
		ID:   "report",
		Cron: "CRON_TZ=Europe/Berlin 0 7 * * 1-5",
		Spec: runs.Spec{Graph: "orders"}, // each run has a new thread
	})
	return err
}

func sweep(ctx context.Context, queue runs.Queue) (int, error) {
	return queue.Sweep(ctx, time.Now().AddDate(0, 0, -30))
}

func left(ctx context.Context, queue runs.Queue) error {
	found, err := queue.Versions(ctx)
	for _, v := range found {
		fmt.Println(v.Graph, v.Version, v.Runs, "runs,", v.Pinned, "of them pinned,", v.Workers, "workers")
	}
	return err
}

// workOn is the program of the guide's page until use is over.
func workOn(ctx context.Context, s *disk.Saver, g *graph.Graph[Order], use func(runs.Queue) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	queue, done, err := work(ctx, s, g)
	if err != nil {
		return err
	}
	if err := use(queue); err != nil {
		return err
	}
	stop()
	return <-done
}

// placeTwice submits the order twice, which is one run, and answers its question.
func placeTwice(ctx context.Context, queue runs.Queue) (runs.Run, error) {
	for range 2 {
		if run, err := place(ctx, queue); err != nil {
			return run, err
		}
	}
	stored := 0
	for run, err := range queue.List(ctx, runs.Query{ThreadID: "order-7"}) {
		if err != nil {
			return run, err
		}
		if stored++; stored > 1 || run.Status != runs.Success || !run.Waiting {
			return run, fmt.Errorf("run %d of the thread is %+v", stored, run)
		}
	}
	run, err := answer(ctx, queue)
	if err != nil {
		return run, err
	}
	return runs.Wait(ctx, queue, run.ID)
}

// followAll follows a run to its end, and returns the kinds of its events.
func followAll(ctx context.Context, queue runs.Queue, run runs.Run) (kinds []runs.Kind, err error) {
	last, err := follow(ctx, queue, run, 0)
	if err != nil {
		return nil, err
	}
	stored, err := queue.Events(ctx, run.ID, 0, 0)
	if err == nil && (len(stored) == 0 || last != stored[len(stored)-1].Seq) {
		err = fmt.Errorf("the last of %d events that was followed is %d", len(stored), last)
	}
	for _, ev := range stored {
		kinds = append(kinds, ev.Kind)
	}
	return kinds, err
}

// TestGuide runs the guide's page about runs, whose snippets stand above, and what that about changes has of a queue.
func TestGuide(t *testing.T) {
	s, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g, err := ordersGraph(s)
	if err != nil {
		t.Fatal(err)
	}
	err = workOn(t.Context(), s, g, func(queue runs.Queue) error {
		run, err := placeTwice(t.Context(), queue)
		if err != nil {
			return err
		}
		if run.Status != runs.Success || run.Waiting {
			t.Errorf("the answer's run: %+v", run)
		}
		state, err := g.State(t.Context(), pregel.Thread("order-7"))
		if err != nil {
			return err
		}
		if !state.State.Sent {
			t.Errorf("%+v was not sent", state.State)
		}
		kinds, err := followAll(t.Context(), queue, run)
		if err != nil {
			return err
		}
		if want := []runs.Kind{runs.KindAttempt, runs.KindEnd}; !slices.Equal(kinds, want) {
			t.Errorf("events %v, want %v", kinds, want)
		}
		if err := schedule(t.Context(), queue); err != nil {
			return err
		}
		if err := left(t.Context(), queue); err != nil {
			return err
		}
		versions, err := queue.Versions(t.Context())
		if err != nil {
			return err
		}
		if want := []metrics.QueueVersion{{Graph: "orders", Version: g.Untyped().Version(), Workers: 1}}; !slices.Equal(versions, want) {
			t.Errorf("versions %+v, want %+v", versions, want)
		}
		removed, err := sweep(t.Context(), queue)
		if err != nil {
			return err
		}
		if removed != 0 {
			t.Errorf("%d runs of today were removed as older than a month", removed)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
