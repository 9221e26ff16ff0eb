package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stele-go/stele/base/metrics"
	steleprom "github.com/stele-go/stele/ops/prometheus"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// pool is a pool of connections as it is at a moment.
type pool metrics.Database

func (p pool) Metrics() metrics.Database { return metrics.Database(p) }

// queue is a queue on disk, with a run that nobody can claim.
func queue(t *testing.T, d *disk.Saver) *runs.Local {
	t.Helper()
	items, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { items.Close() })
	q, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	submit(t, q, "left", "nobody's")
	return q
}

func submit(t *testing.T, q runs.Queue, thread, graph string) runs.Run {
	t.Helper()
	input, err := q.Serializer().Encode(map[string]any{"k": "x"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := q.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: graph, Input: input}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestQueueCollector: what the queue holds is told, a worker's attempts are counted, and so are those whose
// claim was void. The hook behind still works.
func TestQueueCollector(t *testing.T) {
	d := open(t, disk.Options{})
	q := queue(t, d)
	c := steleprom.NewQueueCollector(q)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	begun, ended := 0, 0
	begin := c.Begin(func(ctx context.Context, r runs.Run) (context.Context, func(error)) {
		begun++
		return ctx, func(error) { ended++ }
	})
	g, err := graph.New(graph.Key("k", channel.LastValue[string]())).Node("n", func(context.Context, any) (any, error) { return nil, nil }).
		Edge(graph.Start, "n").Compile(graph.Options{Saver: d})
	if err != nil {
		t.Fatal(err)
	}
	r := submit(t, q, "t", "letter")
	if got := scrape(t, reg)[`stele_queue_runs{graph="letter",status="pending"}`]; got != 1 {
		t.Errorf("%v runs wait", got)
	}
	working, stop := context.WithCancel(ctx)
	w := &runs.Worker{Queue: q, Saver: d, Graphs: map[string]*pregel.Graph{"letter": g}, Begin: begin, Logger: slog.New(slog.DiscardHandler)}
	done := make(chan error)
	go func() { done <- w.Run(working) }()
	end, unwatch := q.WatchEnd(r.ID)
	for got, err := q.Get(ctx, r.ID); got.Ended.IsZero(); got, err = q.Get(ctx, r.ID) {
		if err != nil {
			t.Fatal(err)
		}
		<-end
	}
	unwatch()
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for cause, void := range map[error]bool{runs.ErrFenced: true, nil: false, errors.New("the worker stops"): false} {
		inside, cancel := context.WithCancelCause(ctx)
		_, end := begin(inside, runs.Run{Spec: runs.Spec{Graph: fmt.Sprint("void ", void)}})
		cancel(cause)
		end(context.Canceled)
	}
	_, slow := begin(ctx, runs.Run{Spec: runs.Spec{Graph: "slow"}})
	slow(fmt.Errorf("put: %w", saver.ErrFenced))
	left, _, err := q.Claim(ctx, "w", []string{"nobody's"})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Finish(ctx, *left, runs.Outcome{Status: runs.Pending, Version: "1", After: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Serve(ctx, "w", map[string]string{"letter": "2"}); err != nil {
		t.Fatal(err)
	}
	got := scrape(t, reg)
	for name, want := range map[string]float64{
		`stele_queue_version_runs{graph="nobody's",version="1"}`: 1, `stele_queue_version_pinned{graph="nobody's",version="1"}`: 1,
		`stele_queue_version_workers{graph="nobody's",version="1"}`: 0, `stele_queue_version_workers{graph="letter",version="2"}`: 1,
		"stele_queue_readable": 1, `stele_queue_runs{graph="nobody's",status="pending"}`: 1,
		`stele_queue_claims_total{graph="letter"}`: 1, `stele_queue_claims_total{graph="void false"}`: 2,
		`stele_queue_lost_leases_total{graph="void true"}`: 1, `stele_queue_lost_leases_total{graph="slow"}`: 1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	for _, name := range []string{`stele_queue_runs{graph="letter",status="pending"}`, `stele_queue_lost_leases_total{graph="letter"}`, `stele_queue_lost_leases_total{graph="void false"}`} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
	if begun != 5 || ended != 5 {
		t.Errorf("the hook behind saw %d begin and %d end", begun, ended)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// sourceFunc is a queue that says something else.
type sourceFunc func(ctx context.Context) (metrics.Queue, error)

func (f sourceFunc) Metrics(ctx context.Context) (metrics.Queue, error) { return f(ctx) }

// TestQueueThatDoesNotAnswer: a queue that cannot be read is told as that, with a bounded wait, and the
// rest of the scrape arrives.
func TestQueueThatDoesNotAnswer(t *testing.T) {
	c := steleprom.NewQueueCollector(sourceFunc(func(ctx context.Context) (metrics.Queue, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the wait has no bound")
		}
		return metrics.Queue{}, errors.New("no connection")
	}))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	_, end := c.Begin(nil)(ctx, runs.Run{Spec: runs.Spec{Graph: "g"}})
	end(nil)
	got := scrape(t, reg)
	if v, ok := got["stele_queue_readable"]; !ok || v != 0 || got[`stele_queue_claims_total{graph="g"}`] != 1 {
		t.Errorf("%v", got)
	}
}

// TestManyGraphs: names of graphs that a program makes at run time share series, whose runs are summed.
func TestManyGraphs(t *testing.T) {
	c := steleprom.NewQueueCollector(sourceFunc(func(context.Context) (q metrics.Queue, err error) {
		for i := range 300 {
			q.Runs = append(q.Runs, metrics.QueueRuns{Graph: fmt.Sprintf("g%03d", i), Status: "pending", Count: 2, Oldest: time.Duration(i) * time.Second})
			q.Versions = append(q.Versions, metrics.QueueVersion{Graph: "g000", Version: fmt.Sprint(i), Runs: 3})
		}
		return q, nil
	}))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	got := scrape(t, reg)
	if n := got[`stele_queue_runs{graph="other",status="pending"}`]; n != 200 {
		t.Errorf("%v runs of other graphs", n)
	}
	if n := got[`stele_queue_version_runs{graph="g000",version="other"}`]; n != 300 {
		t.Errorf("%v runs of other versions", n)
	}
	if age := got[`stele_queue_oldest_seconds{graph="other",status="pending"}`]; age != 299 {
		t.Errorf("the oldest of them is %v s old", age)
	}
}

// TestDatabaseCollector: the numbers of a scrape are those of the pool.
func TestDatabaseCollector(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(steleprom.NewDatabaseCollector(pool{Used: 1, Idle: 2, Connecting: 3, Max: 9, Acquired: 100, Waited: 7, GivenUp: 4, Wait: 1500 * time.Millisecond, Failures: [4]int64{5, 6, 7, 8}}))
	got := scrape(t, reg)
	for name, want := range map[string]float64{
		`stele_postgres_connections{state="used"}`: 1, `stele_postgres_connections{state="idle"}`: 2, `stele_postgres_connections{state="connecting"}`: 3,
		"stele_postgres_connections_limit": 9, "stele_postgres_acquires_total": 100, "stele_postgres_acquires_waited_total": 7,
		"stele_postgres_acquires_cancelled_total": 4, "stele_postgres_acquire_wait_seconds_total": 1.5,
		`stele_postgres_errors_total{reason="conflict"}`: 5, `stele_postgres_errors_total{reason="timeout"}`: 6,
		`stele_postgres_errors_total{reason="connection"}`: 7, `stele_postgres_errors_total{reason="server"}`: 8,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
