//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// sleepPast makes the leases of a schema run out, as if their owners had slept.
func sleepPast(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), `UPDATE stele_leases SET expires_at = clock_timestamp() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
}

// An owner keeps the thread by renewing its lease. One that died has it until the lease has
// run out.
func TestLeaseOfTheDead(t *testing.T) {
	url := server(t).Database(t)
	a := open(t, url, postgres.Options{LeaseTime: 9 * time.Second})
	b := open(t, url, postgres.Options{})
	lease, err := a.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	const expires = `SELECT expires_at::text FROM stele_leases`
	for first := column(t, conn, expires)[0]; column(t, conn, expires)[0] == first; { // until it was renewed
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := b.Own(t.Context(), "t", false); !errors.Is(err, saver.ErrConflict) {
		t.Fatalf("own of a thread that is owned: %v", err)
	}
	lease.Release()
	if got := column(t, conn, expires); len(got) > 0 {
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

// An owner that slept past its lease writes nothing once somebody else has the thread, and
// learns of it. Until then it may go on.
func TestOwnerThatSlept(t *testing.T) {
	url := server(t).Database(t)
	a := open(t, url, postgres.Options{LeaseTime: 300 * time.Millisecond})
	b := open(t, url, postgres.Options{})
	conn := connect(t, url)
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
	var next *saver.Lease
	for next == nil { // the renewal of a may come between
		sleepPast(t, conn)
		if next, err = b.Own(t.Context(), "t", false); err != nil && !errors.Is(err, saver.ErrConflict) {
			t.Fatal(err)
		}
	}
	again := request(t, a, "t", req.Checkpoint.ID, map[string]any{"n": 2})
	again.Config.Epoch = lease.Epoch()
	if _, err := a.PutRequest(t.Context(), again); !errors.Is(err, saver.ErrFenced) {
		t.Errorf("put of who slept: %v, want ErrFenced", err)
	}
	if _, err := a.DeleteForRuns(t.Context(), []string{"run"}, lease); !errors.Is(err, saver.ErrFenced) {
		t.Errorf("removal of who slept: %v, want ErrFenced", err)
	}
	select {
	case <-lease.Lost():
		if lease.Held() {
			t.Error("a lost lease is held")
		}
	case <-time.After(time.Minute):
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
		need(t, err)
	}
	t.Cleanup(srv.Close)
	s := open(t, srv.Database(t), postgres.Options{LeaseTime: 300 * time.Millisecond, RetryTime: -1})
	lease, err := s.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Lost():
		t.Fatal("lost while the server is there")
	default:
	}
	if err := srv.Stop("immediate"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Lost():
	case <-time.After(time.Minute):
		t.Error("the lease is not lost")
	}
	lease.Release()
}

// A run whose process slept past its lease stores nothing more and ends with ErrFenced, its
// node with it. The run that took the thread over ends as if the first had died.
func TestRunThatSlept(t *testing.T) {
	url := server(t).Database(t)
	conn := connect(t, url)
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
	a := open(t, url, postgres.Options{LeaseTime: 300 * time.Millisecond})
	b := open(t, url, postgres.Options{})
	ended := make(chan error, 1)
	go func() {
		_, err := build(a, true).Invoke(t.Context(), pregel.Thread("t"), map[string]any{"n": 0})
		ended <- err
	}()
	inside := <-first
	var report pregel.RecoverReport
	for len(report.Threads) == 0 || report.Threads[0].Outcome != pregel.Recovered { // the renewal of a may come between
		sleepPast(t, conn)
		var err error
		if report, err = build(b, false).Recover(t.Context(), pregel.RecoverOptions{}); err != nil {
			t.Fatal(err)
		}
	}
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
