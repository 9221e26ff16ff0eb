//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"

	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
)

// sleepPast makes the leases of a schema run out, as if their owners had slept.
func sleepPast(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), `UPDATE stele_leases SET expires_at = clock_timestamp() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
}

// long is a lease that no pause of the machine ends.
var long = postgres.Options{LeaseTime: time.Hour}

// An owner keeps the thread by renewing its lease. One that died has it until the lease has
// run out.
func TestLeaseOfTheDead(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	a, b := open(t, url, long), open(t, url, long)
	lease, err := a.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	conn := pgtest.Connect(t, url)
	const expires = `SELECT expires_at::text FROM stele_leases`
	first := pgtest.Column(t, conn, expires)[0]
	postgres.Renew(a)
	if pgtest.Column(t, conn, expires)[0] == first {
		t.Error("the lease was not renewed")
	}
	if _, err := b.Own(t.Context(), "t", false); !errors.Is(err, saver.ErrConflict) {
		t.Fatalf("own of a thread that is owned: %v", err)
	}
	lease.Release()
	if got := pgtest.Column(t, conn, expires); len(got) > 0 {
		t.Errorf("rows after the release: %v", got)
	}
	if lease, err = b.Own(t.Context(), "t", false); err != nil {
		t.Fatal(err)
	}
	die := func(lasts string) {
		if _, err := conn.Exec(t.Context(), `INSERT INTO stele_leases (thread_id, owner, expires_at) VALUES ('t', gen_random_uuid(), clock_timestamp() + $1::interval)
			ON CONFLICT (thread_id) DO UPDATE SET owner = EXCLUDED.owner, epoch = DEFAULT, expires_at = EXCLUDED.expires_at`, lasts); err != nil {
			t.Fatal(err)
		}
	}
	die("1 hour")
	if _, err := b.Own(t.Context(), "t", false); !errors.Is(err, saver.ErrConflict) {
		t.Fatalf("own of a dead owner's thread: %v", err)
	}
	die("100 ms")
	next, err := b.Own(t.Context(), "t", true)
	if err != nil {
		t.Fatal(err)
	}
	lease.Release() // of what was lost: the next owner keeps the thread
	if _, err := a.Own(t.Context(), "t", false); !errors.Is(err, saver.ErrConflict) {
		t.Fatalf("own of a thread that is owned: %v", err)
	}
	next.Release()
}

// A Saver renews its leases by itself. One that a pause of the machine has cost is taken again.
func TestLeasesAreRenewed(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	s := open(t, url, postgres.Options{LeaseTime: 300 * time.Millisecond})
	conn := pgtest.Connect(t, url)
	const expires = `SELECT expires_at::text FROM stele_leases`
	for renewed := false; !renewed; {
		lease, err := s.Own(t.Context(), "t", true)
		if err != nil {
			t.Fatal(err)
		}
		first := pgtest.Column(t, conn, expires)[0]
		for lost := false; !renewed && !lost; {
			select {
			case <-lease.Lost():
				lost = true
			default:
				renewed = pgtest.Column(t, conn, expires)[0] != first
			}
		}
		lease.Release()
	}
}

// An owner that slept past its lease writes nothing once somebody else has the thread, and
// learns of it. Until then it may go on.
func TestOwnerThatSlept(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	a, b := open(t, url, long), open(t, url, long)
	conn := pgtest.Connect(t, url)
	lease, err := a.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	req := request(t, a, "t", "", map[string]any{"n": 1})
	req.Config.Epoch = lease.Epoch()
	sleepPast(t, conn)
	if _, err := a.PutRequest(t.Context(), req); err != nil {
		t.Fatalf("nobody else had the thread: %v", err)
	}
	next, err := b.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	again := request(t, a, "t", req.Checkpoint.ID, map[string]any{"n": 2})
	again.Config.Epoch = lease.Epoch()
	if _, err := a.PutRequest(t.Context(), again); !errors.Is(err, saver.ErrFenced) {
		t.Errorf("put of who slept: %v, want ErrFenced", err)
	}
	if _, err := a.DeleteForRuns(t.Context(), []string{"run"}, lease); !errors.Is(err, saver.ErrFenced) {
		t.Errorf("removal of who slept: %v, want ErrFenced", err)
	}
	postgres.Renew(a)
	select {
	case <-lease.Lost():
	default:
		t.Error("who slept does not learn that the lease is lost")
	}
	lease.Release()
	again.Config.Epoch = next.Epoch()
	if _, err := b.PutRequest(t.Context(), again); err != nil {
		t.Errorf("put of the next owner: %v", err)
	}
	next.Release()
}

// A server that cannot be reached for LeaseTime takes the leases with it: somebody else may
// reach it.
func TestLeaseWithoutServer(t *testing.T) {
	srv, err := newServer()
	if err != nil {
		pgtest.Need(t, err)
	}
	t.Cleanup(srv.Close)
	const leaseTime = 300 * time.Millisecond
	s := open(t, srv.Database(t), postgres.Options{LeaseTime: leaseTime, RetryTime: -1})
	begin := time.Now()
	lease, err := s.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Stop("immediate"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Lost():
		if took := time.Since(begin); took < leaseTime {
			t.Errorf("lost after %v", took)
		}
		if lease.Held() {
			t.Error("a lost lease is held")
		}
	case <-time.After(time.Minute):
		t.Error("the lease is not lost")
	}
	lease.Release()
}

// A run whose process slept past its lease stores nothing more and ends with ErrFenced, its
// node with it. The run that took the thread over ends as if the first had died.
func TestRunThatSlept(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	conn := pgtest.Connect(t, url)
	first := make(chan context.Context, 1)
	goOn := make(chan struct{})
	build := func(s saver.Saver, late bool) *pregel.Graph {
		g, err := graph.New(graph.Key("n", channel.LastValue[int]())).
			Node("one", func(context.Context, any) (any, error) { return map[string]any{"n": 1}, nil }).
			Node("two", func(ctx context.Context, _ any) (any, error) {
				if late {
					first <- ctx
					<-goOn
				}
				return map[string]any{"n": map[bool]int{true: 66, false: 2}[late]}, nil
			}).
			Edge(graph.Start, "one").Edge("one", "two").
			Compile(graph.Options{Name: "g", Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	a, b := open(t, url, long), open(t, url, long)
	ended := make(chan error, 1)
	go func() {
		_, err := build(a, true).Invoke(t.Context(), pregel.Thread("t"), map[string]any{"n": 0})
		ended <- err
	}()
	inside := <-first
	sleepPast(t, conn)
	var report pregel.RecoverReport
	for len(report.Threads) == 0 { // what the run has stored may be on its way
		var err error
		if report, err = build(b, false).Recover(t.Context(), pregel.RecoverOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if report.Threads[0].Outcome != pregel.Recovered {
		t.Fatalf("report %+v", report)
	}
	postgres.Renew(a)
	select {
	case <-inside.Done():
	case <-time.After(time.Minute):
		t.Error("the node of the run that slept was not told")
	}
	close(goOn)
	if err := <-ended; !errors.Is(err, saver.ErrFenced) {
		t.Errorf("the run that slept: %v, want ErrFenced", err)
	}
	state, err := build(b, false).GetState(t.Context(), pregel.Thread("t"))
	if err != nil || state.Values.(map[string]any)["n"] != 2 {
		t.Errorf("state %+v, %v", state, err)
	}
}

// TestRollbackOfWhoSlept: a worker sleeps past its lease while it rolls a run back, and another
// has the thread when it wakes up. It removes nothing.
func TestRollbackOfWhoSlept(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	a, b := open(t, url, long), open(t, url, long)
	conn := pgtest.Connect(t, url)
	entered, removed := make(chan bool, 1), make(chan error, 1)
	slow := saver.Intercept(a, func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
		if call.Method != "DeleteForRuns" {
			return next(ctx)
		}
		sleepPast(t, conn)
		if _, err := b.Own(ctx, "t", false); err != nil {
			t.Error(err)
		}
		err := next(ctx)
		removed <- err
		return err
	})
	g, err := graph.New(graph.Key("n", channel.LastValue[int]())).
		Node("one", func(context.Context, any) (any, error) { return map[string]any{"n": 1}, nil }).
		Node("two", func(ctx context.Context, _ any) (any, error) {
			entered <- true
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}).
		Sequence(graph.Start, "one", "two").
		Compile(graph.Options{Name: "g", Saver: slow})
	if err != nil {
		t.Fatal(err)
	}
	q := pgqueue.Open(a, pgqueue.Options{LeaseTime: time.Hour})
	defer q.Close()
	working, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		w := runs.Worker{Queue: q, Saver: slow, Graphs: map[string]*pregel.Graph{"g": g}, Logger: slog.New(slog.DiscardHandler)}
		ended <- w.Run(working)
	}()
	r, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}, Input: map[string]any{"n": 0}})
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	if _, err := q.Cancel(t.Context(), r.ID, runs.Rollback); err != nil {
		t.Fatal(err)
	}
	if err := <-removed; !errors.Is(err, saver.ErrFenced) {
		t.Errorf("the removal of who slept: %v, want ErrFenced", err)
	}
	if head := get(t, b, saver.Config{ThreadID: "t"}); head.Metadata.RunID() != r.ID {
		t.Errorf("the head is of %+v", head.Metadata)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
