//go:build unix

package pgqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/runs/runstest"
	"github.com/stele-go/stele/saver"

	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
)

// open sets a schema up and opens its saver.
func open(t testing.TB, url string, opts postgres.Options) *postgres.Saver {
	t.Helper()
	ctx := context.Background()
	if err := postgres.Setup(ctx, url, opts); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(ctx, url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func openQueue(t testing.TB, s *postgres.Saver, opts pgqueue.Options) *pgqueue.Queue {
	q := pgqueue.Open(s, opts)
	t.Cleanup(func() { q.Close() })
	return q
}

// queues are of one schema, emptied for each case.
func queues(t *testing.T, url string) runstest.Factory {
	schema := pgtest.NewSchema()
	s := open(t, url, postgres.Options{Schema: schema})
	conn := pgtest.Connect(t, url)
	return func(t *testing.T, o runstest.Options) (runs.Queue, func() runs.Queue) {
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(`DELETE FROM @.stele_runs; DELETE FROM @.stele_run_events; DELETE FROM @.stele_schedules; DELETE FROM @.stele_workers`, "@", schema)); err != nil {
			t.Fatal(err)
		}
		opened := func() runs.Queue {
			return openQueue(t, s, pgqueue.Options{Clock: o.Clock, LeaseTime: o.LeaseTime})
		}
		return opened(), opened
	}
}

func TestQueueKit(t *testing.T) { runstest.Run(t, queues(t, pgtest.Shared(t).Database(t))) }

// The whole kit once more with a pooler in between that gives each transaction another
// server connection.
func TestQueueKitThroughPgBouncer(t *testing.T) {
	srv := pgtest.Shared(t)
	runstest.Run(t, queues(t, srv.Bouncer(t, srv.Database(t))))
}

func submit(t testing.TB, q runs.Queue, thread string) runs.Run {
	t.Helper()
	r, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "g"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func claim(t testing.TB, q runs.Queue) *runs.Claim {
	t.Helper()
	c, _, err := q.Claim(t.Context(), "w", []string{"g"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Two claims that saw different moments take two runs of one thread: the later one finds
// that out, and takes neither.
func TestClaimsOfOneThreadAtOnce(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	first, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}, After: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	submit(t, q, "t")
	conn := pgtest.Connect(t, url)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `UPDATE stele_runs SET status = 'running', started_at = now(), due_at = now() + interval '1 hour' WHERE id = $1`, first.ID); err != nil {
		t.Fatal(err)
	}
	got := make(chan *runs.Claim)
	go func() {
		c, _, err := q.Claim(t.Context(), "w", []string{"g"})
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	look := pgtest.Connect(t, url)
	for deadline := time.Now().Add(time.Minute); len(pgtest.Column(t, look, `SELECT pid::text FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)) == 0; {
		select {
		case c := <-got:
			t.Fatalf("claimed %+v while another claim of the thread is under way", c)
		default:
			if time.Now().After(deadline) {
				t.Fatal("the claim does not wait for the other")
			}
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := <-got; c != nil {
		t.Errorf("claimed %+v while %s runs", c, first.ID)
	}
}

// The answer to a commit is lost: the call finds out by itself what became of it, and does
// nothing twice.
func TestLostAnswersOfQueues(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	open(t, url, postgres.Options{})
	r, through := pgtest.NewRelay(t, url+" pool_max_conns=1")
	s, err := postgres.Open(t.Context(), through, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q := openQueue(t, s, pgqueue.Options{})
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lose := func(string) {}
	n := 0
	cycle := func() {
		n++
		thread := fmt.Sprint("t", n)
		lose("submit")
		run, err := q.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "g", Multitask: runs.Reject}})
		check(err)
		lose("claim")
		c := claim(t, q)
		if c == nil || c.ID != run.ID || c.Attempt != 1 || c.Epoch != 1 {
			t.Fatalf("claimed %+v", c)
		}
		lose("append")
		last, err := q.Append(ctx, *c, []runs.Event{{Kind: "a"}, {Kind: "b"}})
		check(err)
		if last != 2 {
			t.Fatalf("the last event is %d", last)
		}
		lose("cancel")
		got, err := q.Cancel(ctx, run.ID, runs.Interrupt)
		check(err)
		if got.Cancel != runs.Interrupt {
			t.Fatalf("cancelled %+v", got)
		}
		lose("finish")
		check(q.Finish(ctx, *c, runs.Outcome{Status: runs.Interrupted, Events: []runs.Event{{Kind: "c"}}}))
		lose("retry")
		got, err = q.Retry(ctx, run.ID)
		check(err)
		if got.Status != runs.Pending {
			t.Fatalf("tried again %+v", got)
		}
		c = claim(t, q)
		check(q.Finish(ctx, *c, runs.Outcome{Status: runs.Success}))
		events, err := q.Events(ctx, run.ID, 0, 0)
		check(err)
		var kinds []runs.Kind
		for _, ev := range events {
			kinds = append(kinds, ev.Kind)
		}
		if want := []runs.Kind{"a", "b", "c", runs.KindEnd, runs.KindEnd}; !slices.Equal(kinds, want) {
			t.Fatalf("events %v, want %v", kinds, want)
		}
	}
	conn := pgtest.Connect(t, url)
	voided := func() string { return pgtest.Column(t, conn, `SELECT count(*)::text FROM stele_voided`)[0] }
	for what, text := range map[string]string{
		"submit": "INSERT INTO \"public\".stele_runs (", "claim": "SKIP LOCKED", "append": "WITH ORDINALITY e(kind", "cancel": "least(r.after_at", "finish": "greatest(r.attempt", "retry": "status IN ('error', 'interrupted')",
	} {
		lose = func(string) {}
		cycle() // every statement is described by now
		before := voided()
		lost := false
		lose = func(now string) {
			if now == what {
				r.LoseNext(text, nil)
				lost = true
			}
		}
		cycle()
		if after := voided(); !lost || (after == before) != (what == "claim") {
			t.Errorf("%s: calls that were settled: %s, then %s", what, before, after)
		}
	}
	if n := pgtest.Column(t, conn, `SELECT count(*)::text FROM stele_runs`)[0]; n != "12" {
		t.Errorf("%s runs, want 12", n)
	}
}

// A notification tells other processes, and a connection that was lost is opened again.
func TestHints(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	watching := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{PollEvery: time.Hour})
	other := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	changed, stop := watching.Watch("")
	defer stop()
	soon := func(what string) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatalf("no hint: %s", what)
		}
	}
	conn := pgtest.Connect(t, url)
	const listener = `FROM pg_stat_activity WHERE application_name LIKE '% listener' AND query LIKE 'LISTEN%' AND state = 'idle'`
	for range 2 {
		for len(pgtest.Column(t, conn, `SELECT pid::text `+listener)) == 0 {
			time.Sleep(time.Millisecond)
		}
		soon("it listens")
		for n := 0; n < 3; n++ {
			for len(changed) > 0 {
				<-changed
			}
			submit(t, other, "t")
			soon("a run was submitted")
		}
		pgtest.Column(t, conn, `SELECT pg_terminate_backend(pid)::text `+listener)
		soon("the connection was lost")
	}
}

// Behind a pooler nobody listens, and those who watch look by themselves.
func TestHintsThroughPgBouncer(t *testing.T) {
	srv := pgtest.Shared(t)
	url := srv.Database(t)
	q := openQueue(t, open(t, srv.Bouncer(t, url), postgres.Options{}), pgqueue.Options{PollEvery: time.Millisecond})
	changed, stop := q.Watch("any")
	defer stop()
	for range 10 {
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatal("no hint")
		}
	}
	if got := pgtest.Column(t, pgtest.Connect(t, url), `SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`); len(got) > 0 {
		t.Errorf("somebody listens: %v", got)
	}
}

// A claim that is under way when its context ends is waited for: else nobody would know that
// the run is claimed. A machine that stalls for longer than that gets another try.
func TestClaimOutlivesItsContext(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := openQueue(t, open(t, url, postgres.Options{}), pgqueue.Options{})
	conn, look := pgtest.Connect(t, url), pgtest.Connect(t, url)
	for try := 0; ; try++ {
		r := submit(t, q, "")
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `LOCK TABLE stele_runs IN ACCESS EXCLUSIVE MODE`); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		type answer struct {
			claim *runs.Claim
			err   error
		}
		got := make(chan answer)
		go func() {
			c, _, err := q.Claim(ctx, "w", []string{"g"})
			got <- answer{c, err}
		}()
		for len(pgtest.Column(t, look, `SELECT pid::text FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		a := <-got
		if a.err == nil && a.claim != nil && a.claim.ID == r.ID {
			return
		}
		if !errors.Is(a.err, context.Canceled) || try == 5 {
			t.Fatalf("claim %+v, %v", a.claim, a.err)
		}
		if _, err := q.Cancel(t.Context(), r.ID, runs.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
}

// Two workers with connections of their own, and a third program that submits: runs end as
// those of an undisturbed program do.
func TestWorkers(t *testing.T) {
	url, dir := pgtest.Shared(t).Database(t), t.TempDir()
	program := func() *runstest.Torture {
		s := open(t, url, postgres.Options{})
		return &runstest.Torture{Dir: dir, Saver: s, Store: openItems(t, url, s), Queue: openQueue(t, s, pgqueue.Options{}), Threads: 4, Runs: 2, Seed: 1}
	}
	ctx, cancel := context.WithCancel(t.Context())
	worked := make(chan error)
	for range 2 {
		x := program()
		go func() { worked <- x.Work(ctx) }()
	}
	x := program()
	if err := x.Drive(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	for range 2 {
		if err := <-worked; err != nil {
			t.Error(err)
		}
	}
	if err := x.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// BenchmarkSubmitToClaim measures how long after a submission a waiting worker of another
// process has the run, with nothing else to do.
func BenchmarkSubmitToClaim(b *testing.B) {
	url := pgtest.Shared(b).Database(b)
	producer := openQueue(b, open(b, url, postgres.Options{}), pgqueue.Options{})
	worker := openQueue(b, open(b, url, postgres.Options{}), pgqueue.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	claimed, ended := make(chan time.Time), make(chan struct{})
	defer func() { <-ended }()
	defer cancel()
	go func() {
		defer close(ended)
		changed, stop := worker.Watch("")
		defer stop()
		for ctx.Err() == nil {
			c, _, err := worker.Claim(ctx, "w", []string{"g"})
			if c == nil {
				if err != nil && ctx.Err() == nil {
					b.Error(err)
				}
				select {
				case <-changed:
				case <-ctx.Done():
				}
				continue
			}
			claimed <- time.Now()
			if err := worker.Finish(context.WithoutCancel(ctx), *c, runs.Outcome{Status: runs.Success}); err != nil {
				b.Error(err)
			}
		}
	}()
	submit(b, producer, "warm")
	<-claimed
	var took []time.Duration
	for b.Loop() {
		time.Sleep(5 * time.Millisecond) // the worker waits again
		begin := time.Now()
		submit(b, producer, "")
		took = append(took, (<-claimed).Sub(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkClaim measures a claim and its end beside 100,000 runs that have ended and 10,000
// that wait, of as many threads, of one thread that is busy, or for their time.
func BenchmarkClaim(b *testing.B) {
	for _, shape := range []struct{ name, thread, after string }{
		{"many threads", "'t' || i", "now()"}, {"one thread", "'busy'", "now()"}, {"delayed", "'t' || i", "now() + interval '1 day'"},
	} {
		b.Run(shape.name, func(b *testing.B) {
			url := pgtest.Shared(b).Database(b)
			q := openQueue(b, open(b, url, postgres.Options{}), pgqueue.Options{})
			conn, err := pgx.Connect(context.Background(), url)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close(context.Background())
			insert := `INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, spec, due_at, after_at, created_at, started_at, ended_at)
				SELECT `
			for _, sql := range []string{
				insert + `'0' || i, 't' || i % 5000, 'g', 'success', 0, 3, '{"graph": "g"}', NULL, now(), now(), now(), now() FROM generate_series(1, 100000) i`,
				insert + `'1' || lpad(i::text, 9, '0'), ` + shape.thread + `, 'g', CASE i WHEN 1 THEN 'running' ELSE 'pending' END, 1, 3, '{"graph": "g"}',
					CASE i WHEN 1 THEN now() + interval '1 day' ELSE ` + shape.after + ` END, ` + shape.after + `, now(), CASE i WHEN 1 THEN now() END, NULL FROM generate_series(1, 10000) i`,
				`ANALYZE stele_runs`,
			} {
				if _, err := conn.Exec(context.Background(), sql); err != nil {
					b.Fatal(err)
				}
			}
			timeClaims(b, q)
		})
	}
}

// timeClaims measures claims of runs that are submitted behind all others.
func timeClaims(b *testing.B, q *pgqueue.Queue) {
	var took []time.Duration
	for b.Loop() {
		submit(b, q, "")
		begin := time.Now()
		c := claim(b, q)
		took = append(took, time.Since(begin))
		if c == nil {
			b.Fatal("nothing was claimed")
		}
		if err := q.Finish(context.Background(), *c, runs.Outcome{Status: runs.Success}); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "claim-p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "claim-p99-ms")
}

// BenchmarkClaimBehind measures a claim beside runs that wait behind a running one of their thread, of up to
// 5,000 threads.
func BenchmarkClaimBehind(b *testing.B) {
	for _, waiting := range []int{100, 5000, 20000, 100000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			url := pgtest.Shared(b).Database(b)
			q := openQueue(b, open(b, url, postgres.Options{}), pgqueue.Options{})
			fillBehind(b, pgtest.Connect(b, url), min(waiting, 5000), waiting)
			timeClaims(b, q)
		})
	}
}

// fillBehind makes busy threads, and runs that wait behind theirs as Submit leaves them.
func fillBehind(t testing.TB, conn *pgx.Conn, busy, waiting int) {
	t.Helper()
	const fill = `INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, epoch, spec, due_at, after_at, created_at, started_at, behind)
		SELECT 'w' || lpad(i::text, 9, '0'), 't' || i %% %[2]d, 'g', CASE WHEN i <= %[2]d THEN 'running' ELSE 'pending' END, 0, 3, (i <= %[2]d)::int, '{"graph": "g"}',
			CASE WHEN i <= %[2]d THEN now() + interval '1 day' ELSE now() END, now(), now(), CASE WHEN i <= %[2]d THEN now() END, i > %[2]d
		FROM generate_series(1, %[1]d) i`
	for _, sql := range []string{fmt.Sprintf(fill, busy+waiting, busy), "ANALYZE stele_runs"} {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQueueUnreadable: a run whose row cannot be decoded is an error of its own, and the others are
// listed as they are.
func TestQueueUnreadable(t *testing.T) {
	url, schema := pgtest.Shared(t).Database(t), pgtest.NewSchema()
	q := openQueue(t, open(t, url, postgres.Options{Schema: schema}), pgqueue.Options{})
	var ids []string
	for range 3 {
		r, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	if _, err := pgtest.Connect(t, url).Exec(t.Context(), strings.ReplaceAll(`UPDATE @.stele_runs SET spec = '{"tags": 5}' WHERE id = $1`, "@", schema), ids[1]); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r, err := range q.List(t.Context(), runs.Query{ThreadID: "t"}) {
		if got = append(got, r.ID); errors.Is(err, runs.ErrUnreadable) != (r.ID == ids[1]) || err != nil && r.ID != ids[1] {
			t.Errorf("run %s: %v", r.ID, err)
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("listed %q, want %q", got, ids)
	}
	if _, err := q.Get(t.Context(), ids[1]); !errors.Is(err, runs.ErrUnreadable) {
		t.Error(err)
	}
}

// TestQueueUnreadableClaim: workers go on behind a run that cannot be decoded. It is given up as one whose
// workers die, and can be cancelled and deleted.
func TestQueueUnreadableClaim(t *testing.T) {
	url, schema := pgtest.Shared(t).Database(t), pgtest.NewSchema()
	now := time.Now()
	q := openQueue(t, open(t, url, postgres.Options{Schema: schema}), pgqueue.Options{Clock: func() time.Time { return now }})
	submit := func(thread string) string {
		t.Helper()
		r, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "g"}})
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	damaged := func(thread string) string {
		t.Helper()
		id := submit(thread)
		if _, err := pgtest.Connect(t, url).Exec(t.Context(), strings.ReplaceAll(`UPDATE @.stele_runs SET spec = '{"tags": 5}' WHERE id = $1`, "@", schema), id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	bad := damaged("bad")
	for i := range 5 {
		good := submit(fmt.Sprint(i))
		if c := claim(t, q); c == nil || c.ID != good {
			t.Errorf("claim %d: %+v, want %s", i, c, good)
		}
		now = now.Add(time.Minute)
		for c := claim(t, q); c != nil; c = claim(t, q) { // those of earlier rounds, and the one that is damaged
			if c.ID == bad {
				t.Error("claimed a run that cannot be decoded")
			}
			if err := q.Finish(t.Context(), *c, runs.Outcome{Status: runs.Success}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r, err := q.Get(t.Context(), bad); r.Status != runs.Error || !errors.Is(err, runs.ErrUnreadable) {
		t.Errorf("%s, %v", r.Status, err)
	}
	waits := damaged("waits")
	if r, err := q.Cancel(t.Context(), waits, runs.Interrupt); r.Status != runs.Interrupted || !errors.Is(err, runs.ErrUnreadable) || errors.Is(err, saver.ErrOutcomeUnknown) {
		t.Errorf("%s, %v", r.Status, err)
	}
	for _, id := range []string{bad, waits} {
		if err := q.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
		if _, err := q.Get(t.Context(), id); !errors.Is(err, runs.ErrNotFound) {
			t.Error(err)
		}
	}
}

// TestQueueNewer: a run whose status or cancellation this version does not know is as one that cannot be
// decoded. No worker of this version gets it; it holds its thread, and can be deleted
// unless a worker may have it.
func TestQueueNewer(t *testing.T) {
	url, schema := pgtest.Shared(t).Database(t), pgtest.NewSchema()
	q := openQueue(t, open(t, url, postgres.Options{Schema: schema}), pgqueue.Options{})
	conn := pgtest.Connect(t, url)
	for _, change := range []string{"status = 'paused'", "cancel = 'pause'"} {
		r, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: change, Graph: "g"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), fmt.Sprintf(`UPDATE %s.stele_runs SET %s WHERE id = $1`, schema, change), r.ID); err != nil {
			t.Fatal(err)
		}
		behind, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: change, Graph: "g"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Get(t.Context(), r.ID); !errors.Is(err, runs.ErrUnreadable) {
			t.Errorf("%s: %v", change, err)
		}
		if c := claim(t, q); c != nil {
			t.Errorf("%s: claimed %+v", change, c)
		}
		if _, err := conn.Exec(t.Context(), fmt.Sprintf(`UPDATE %s.stele_runs SET due_at = clock_timestamp() + interval '1 hour' WHERE id = $1`, schema), r.ID); err != nil {
			t.Fatal(err)
		}
		if err := q.Delete(t.Context(), r.ID); !errors.Is(err, runs.ErrInvalid) { // a worker of the newer version may have it
			t.Errorf("%s: %v", change, err)
		}
		if _, err := conn.Exec(t.Context(), fmt.Sprintf(`UPDATE %s.stele_runs SET due_at = clock_timestamp() WHERE id = $1`, schema), r.ID); err != nil {
			t.Fatal(err)
		}
		if err := q.Delete(t.Context(), r.ID); err != nil {
			t.Errorf("%s: %v", change, err)
		}
		if c := claim(t, q); c == nil || c.ID != behind.ID {
			t.Errorf("%s: claimed %+v, want the run behind it", change, c)
		}
	}
}

// TestQueueRenewNewer: a claimed run that a newer version cancels in a way this one does not know is lost to its
// worker, which keeps the others.
func TestQueueRenewNewer(t *testing.T) {
	url, schema := pgtest.Shared(t).Database(t), pgtest.NewSchema()
	q := openQueue(t, open(t, url, postgres.Options{Schema: schema}), pgqueue.Options{})
	var claims []runs.Claim
	for _, thread := range []string{"one", "two"} {
		if _, err := q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "g"}}); err != nil {
			t.Fatal(err)
		}
		claims = append(claims, *claim(t, q))
	}
	if _, err := pgtest.Connect(t, url).Exec(t.Context(), fmt.Sprintf(`UPDATE %s.stele_runs SET cancel = 'pause' WHERE id = $1`, schema), claims[0].ID); err != nil {
		t.Fatal(err)
	}
	held, err := q.Renew(t.Context(), claims)
	if err != nil || len(held) != 1 || held[0].ID != claims[1].ID {
		t.Errorf("%+v, %v", held, err)
	}
}

// TestQueueUnreadableSchedule: a schedule whose row cannot be decoded is listed with the reason, and the
// others as they are. It can be deleted.
func TestQueueUnreadableSchedule(t *testing.T) {
	url, schema := pgtest.Shared(t).Database(t), pgtest.NewSchema()
	q := openQueue(t, open(t, url, postgres.Options{Schema: schema}), pgqueue.Options{})
	for _, id := range []string{"bad", "good"} {
		if _, err := q.PutSchedule(t.Context(), runs.Schedule{ID: id, Cron: "@daily", Spec: runs.Spec{Graph: "g"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pgtest.Connect(t, url).Exec(t.Context(), fmt.Sprintf(`UPDATE %s.stele_schedules SET spec = '{"graph": "g", "tags": 5}', next_at = '2020-01-01' WHERE id = 'bad'`, schema)); err != nil {
		t.Fatal(err)
	}
	all, err := q.Schedules(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != "bad" || all[0].Unreadable == nil || all[0].Spec.Graph != "" || all[1].ID != "good" || all[1].Unreadable != nil {
		t.Errorf("%+v, %v", all, err)
	}
	if err := q.DeleteSchedule(t.Context(), "bad"); err != nil {
		t.Error(err)
	}
	if all, err := q.Schedules(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}
