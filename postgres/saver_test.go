//go:build unix

package postgres_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"

	"github.com/stele-go/stele/postgres/pgtest"
)

var ids atomic.Int64

// nextID is a checkpoint id that grows.
func nextID() string { return fmt.Sprintf("1f0f5200-24f1-6%03x-8000-bde4e02ab92b", ids.Add(1)) }

// request is a put of values at minted versions.
func request(t testing.TB, s saver.Saver, thread, parent string, values map[string]any) saver.PutRequest {
	t.Helper()
	cp := saver.Checkpoint{V: 4, ID: nextID(), TS: "2026-01-02T03:04:05+00:00", Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}}
	for channel, v := range values {
		version, err := s.NextVersion(saver.Version{}, channel)
		if err != nil {
			t.Fatal(err)
		}
		cp.Values[channel], cp.Versions[channel] = saver.ValueOf(v), version
	}
	return saver.PutRequest{
		Config: saver.Config{ThreadID: thread, CheckpointID: parent}, Checkpoint: cp,
		Metadata: saver.Metadata{"source": "loop", "step": 1}, NewVersions: cp.Versions,
	}
}

func put(t testing.TB, s saver.Saver, thread, parent string, values map[string]any) saver.Config {
	t.Helper()
	cfg, err := s.PutRequest(t.Context(), request(t, s, thread, parent, values))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func get(t testing.TB, s saver.Saver, cfg saver.Config) *saver.Tuple {
	t.Helper()
	tup, err := s.GetTuple(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tup
}

// awkward are values that JSON in PostgreSQL would change.
func awkward() map[string]any {
	return map[string]any{
		"nul": "a\x00b", "huge": 1e300, "tiny": 5e-324, "whole": 1.0, "big whole": 1e22, "max": uint64(math.MaxUint64), "min": int64(math.MinInt64),
		"inf": math.Inf(1), "negative zero": math.Copysign(0, -1), "nil": nil, "yes": true, "long": strings.Repeat("x", 5000),
		"quotes": "\"'\\\n\t\x1f\u2028", "escape": `\u0000`, "empty": "", "point": 0.1, "list": []any{1.0, "a\x00b"}, "bytes": []byte{0, 255},
	}
}

func TestAwkwardValuesSurvive(t *testing.T) {
	s := open(t, pgtest.Shared(t).Database(t), postgres.Options{})
	want := awkward()
	first := put(t, s, "t", "", want)
	// An unchanged channel reads the same at the next checkpoint.
	req := request(t, s, "t", first.CheckpointID, nil)
	req.Checkpoint.Versions = get(t, s, first).Checkpoint.Versions
	if _, err := s.PutRequest(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []saver.Config{first, {ThreadID: "t"}} {
		values := get(t, s, cfg).Checkpoint.Values
		for channel, v := range want {
			got, err := values[channel].Typed()
			typed, _ := serde.Default().Encode(v)
			if err != nil || !reflect.DeepEqual(got.Kind, typed.Kind) || string(got.Data) != string(typed.Data) {
				t.Errorf("%s: got %v %v, want %v", channel, got, err, typed)
			}
		}
	}
	nan := get(t, s, put(t, s, "nan", "", map[string]any{"v": math.NaN()}))
	if v, err := nan.Checkpoint.Values["v"].Any(); err != nil || !math.IsNaN(v.(float64)) {
		t.Errorf("NaN: %v, %v", v, err)
	}
}

// What cannot be stored is refused before anything is.
func TestNamesAndMetadataThatAreRefused(t *testing.T) {
	s := open(t, pgtest.Shared(t).Database(t), postgres.Options{})
	bad := map[string]func(r *saver.PutRequest){
		"thread":           func(r *saver.PutRequest) { r.Config.ThreadID = "a\x00" },
		"namespace":        func(r *saver.PutRequest) { r.Config.Namespace = "\xff" },
		"parent":           func(r *saver.PutRequest) { r.Config.CheckpointID = "\x00" },
		"id":               func(r *saver.PutRequest) { r.Checkpoint.ID = "\x00" },
		"expected head":    func(r *saver.PutRequest) { r.Config.ExpectHead = saver.Head("\x00") },
		"time":             func(r *saver.PutRequest) { r.Checkpoint.TS = "\x00" },
		"channel":          func(r *saver.PutRequest) { r.Checkpoint.Versions["a\\b"] = saver.IntVersion(1) },
		"version":          func(r *saver.PutRequest) { r.Checkpoint.Versions["v"] = saver.StringVersion("\x00") },
		"infinite version": func(r *saver.PutRequest) { r.Checkpoint.Versions["v"] = saver.FloatVersion(math.Inf(1)) },
		"seen":             func(r *saver.PutRequest) { r.Checkpoint.Seen = map[string]map[string]saver.Version{"\x00": {}} },
		"updated":          func(r *saver.PutRequest) { r.Checkpoint.Updated = []string{"\xff"} },
		"kind":             func(r *saver.PutRequest) { r.Checkpoint.Values["n"] = saver.ValueTyped(serde.Typed{Kind: `a\b`}) },
		"metadata NUL":     func(r *saver.PutRequest) { r.Metadata["x"] = []any{"\x00"} },
		"metadata key":     func(r *saver.PutRequest) { r.Metadata["a\x00"] = 1 },
		"metadata NaN":     func(r *saver.PutRequest) { r.Metadata["x"] = math.NaN() },
		"metadata -0.0":    func(r *saver.PutRequest) { r.Metadata["x"] = math.Copysign(0, -1) },
		"metadata bytes":   func(r *saver.PutRequest) { r.Metadata["x"] = []byte{1} },
		"task":             func(r *saver.PutRequest) { r.Writes[0].TaskID = `a\b` },
		"path":             func(r *saver.PutRequest) { r.Writes[0].TaskPath = "\x00" },
		"written channel":  func(r *saver.PutRequest) { r.Writes[0].Writes[0].Channel = `a\b` },
	}
	for name, spoil := range bad {
		req := request(t, s, "t", "", map[string]any{"n": 1})
		req.Writes = []saver.TaskWrites{{TaskID: "task", Writes: []saver.Write{{Channel: "ch", Value: saver.ValueOf(1)}}}}
		spoil(&req)
		if _, err := s.PutRequest(t.Context(), req); !errors.Is(err, saver.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	for info, err := range s.Threads(t.Context(), saver.ThreadQuery{}) {
		t.Errorf("stored %+v, %v", info, err)
	}
	want := saver.Metadata{"f": 1e300, "whole": 1e17, "n": int64(1), "s": `\u0000 "`, "deep": map[string]any{"l": []any{1.0, nil}}}
	req := request(t, s, "t", "", nil)
	req.Metadata = want
	cfg, err := s.PutRequest(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, cfg).Metadata; !reflect.DeepEqual(got, want) {
		t.Errorf("metadata %#v, want %#v", got, want)
	}
}

// Names within the limits may together be longer than an index takes.
func TestNamesThatAreTooLongTogether(t *testing.T) {
	s := open(t, pgtest.Shared(t).Database(t), postgres.Options{})
	noise := make([]byte, 0, 2<<10)
	for r := rand.New(rand.NewPCG(1, 2)); len(noise) < 2<<10; {
		noise = append(noise, byte(' '+r.IntN(60)))
	}
	req := request(t, s, string(noise[:1<<10]), "", nil)
	req.Config.Namespace = string(noise)
	if _, err := s.PutRequest(t.Context(), req); !errors.Is(err, saver.ErrTooLarge) {
		t.Errorf("put: %v, want ErrTooLarge", err)
	}
}

// A version has one value in the schema. A put that would change what another checkpoint
// reads is refused, whichever of the two came first.
func TestVersionsThatAreTaken(t *testing.T) {
	s := open(t, pgtest.Shared(t).Database(t), postgres.Options{})
	at := func(thread, parent string, v any) (saver.Config, error) {
		req := request(t, s, thread, parent, nil)
		req.Checkpoint.Versions["ch"] = saver.IntVersion(7)
		req.NewVersions = req.Checkpoint.Versions
		if v != "nothing" {
			req.Checkpoint.Values["ch"] = saver.ValueOf(v)
		}
		return s.PutRequest(t.Context(), req)
	}
	for name, pair := range map[string][2]any{
		"lists": {[]any{1}, []any{2}}, "a scalar after a list": {[]any{1}, "scalar"}, "a list after a scalar": {"scalar", []any{1}},
		"nothing after a list": {[]any{1}, "nothing"}, "a list after nothing": {"nothing", []any{1}},
	} {
		first, err := at(name, "", pair[0])
		if err != nil {
			t.Fatal(err)
		}
		before := get(t, s, first)
		_, err = at(name, "", pair[1])
		var taken *postgres.VersionTakenError
		if !errors.Is(err, postgres.ErrVersionTaken) || !errors.As(err, &taken) || taken.Channel != "ch" || taken.Version != "7" {
			t.Errorf("%s: %v", name, err)
		}
		a, _ := before.Checkpoint.Values["ch"].View()
		b, _ := get(t, s, saver.Config{ThreadID: name}).Checkpoint.Values["ch"].View()
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %v became %v", name, a, b)
		}
		if _, err := at(name, "", pair[0]); err != nil {
			t.Errorf("%s: the same again: %v", name, err)
		}
	}
}

// counting counts how often a pool writes to the network before it reads.
type counting struct {
	net.Conn
	trips *atomic.Int64
	wrote atomic.Bool
}

func (c *counting) Write(b []byte) (int, error) { c.wrote.Store(true); return c.Conn.Write(b) }
func (c *counting) Read(b []byte) (int, error) {
	if c.wrote.Swap(false) {
		c.trips.Add(1)
	}
	return c.Conn.Read(b)
}

func TestOneRoundTrip(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	open(t, url, postgres.Options{})
	cfg, err := postgres.ParseConfig(url + " pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	var trips atomic.Int64
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return &counting{Conn: c, trips: &trips}, err
	}
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := postgres.OpenPool(t.Context(), pool, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write := []saver.Write{{Channel: "ch", Value: saver.ValueOf([]any{1})}}
	step := func(parent saver.Config) (tips [3]int64, cfg saver.Config) {
		req := request(t, s, "t", parent.CheckpointID, map[string]any{"n": 1, "list": []any{1, 2}})
		req.Writes = []saver.TaskWrites{{TaskID: "with", Writes: write}}
		was := trips.Load()
		cfg, err := s.PutRequest(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		tips[0] = trips.Load() - was
		was = trips.Load()
		if err := s.PutWrites(t.Context(), cfg, write, "task", ""); err != nil {
			t.Fatal(err)
		}
		tips[1] = trips.Load() - was
		was = trips.Load()
		get(t, s, saver.Config{ThreadID: "t"})
		tips[2] = trips.Load() - was
		return tips, cfg
	}
	_, first := step(saver.Config{})
	if got, _ := step(first); got != [3]int64{1, 1, 1} {
		t.Errorf("round trips of put, put writes and get: %v, want one each", got)
	}
}

// Of the writers of many processes that put upon one head exactly one wins, and all learn
// which.
func TestOneWriterWins(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	const writers, rounds = 6, 40
	var savers []*postgres.Saver
	for i := range writers {
		savers = append(savers, open(t, url, postgres.Options{}))
		put(t, savers[i], "warm", "", map[string]any{"n": 1}) // its connection has described the statements
	}
	head := put(t, savers[0], "t", "", map[string]any{"n": 1}).CheckpointID
	for range rounds {
		reqs, errs := make([]saver.PutRequest, writers), make([]error, writers)
		for i := range reqs {
			reqs[i] = request(t, savers[i], "t", head, map[string]any{"n": i, "list": []any{i}})
			reqs[i].Config.ExpectHead = saver.Head(head)
		}
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				<-start
				_, errs[i] = savers[i].PutRequest(t.Context(), reqs[i])
			})
		}
		close(start)
		wg.Wait()
		won := ""
		for i, err := range errs {
			switch {
			case err == nil && won == "":
				won = reqs[i].Checkpoint.ID
			case err == nil:
				t.Fatalf("%s and %s both are put upon %s", won, reqs[i].Checkpoint.ID, head)
			case !errors.Is(err, saver.ErrConflict):
				t.Fatal(err)
			}
		}
		if head = get(t, savers[0], saver.Config{ThreadID: "t"}).Config.CheckpointID; head != won {
			t.Fatalf("head %s, but %s won", head, won)
		}
	}
}

// A lock that is held too long ends in a typed error, and nothing is written. Behind a pooler
// the setting stays with the transaction: who has the server's connection next is not bounded.
func TestStatementTimeout(t *testing.T) {
	srv := pgtest.Shared(t)
	for name, pooled := range map[string]bool{"directly": false, "through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			direct := srv.Database(t)
			url := direct
			if pooled {
				url = srv.Bouncer(t, direct)
			}
			open(t, direct, postgres.Options{})
			relay, url := pgtest.NewRelay(t, url)
			var connected atomic.Int32
			relay.Cut(func(b []byte) bool {
				if len(b) > 8 && bytes.Equal(b[4:8], []byte{0, 3, 0, 0}) { // begins a connection
					connected.Add(1)
				}
				return false
			}, nil)
			// A machine that pauses meets the timeout where nobody holds a lock, too: then once more.
			var s *postgres.Saver
			var canceled *pgconn.PgError
			for s == nil {
				var err error
				if s, err = postgres.Open(t.Context(), url, postgres.Options{StatementTimeout: 500 * time.Millisecond}); err != nil && (!errors.As(err, &canceled) || canceled.Code != "57014") {
					t.Fatal(err)
				}
			}
			defer s.Close()
			conn := pgtest.Connect(t, direct)
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "LOCK TABLE checkpoints"); err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for before := int32(-1); before != connected.Load(); {
				before = connected.Load()
				_, err = s.PutRequest(short, request(t, s, "t", "", nil)) // the statements are new to the connection
				if short.Err() != nil {
					t.Fatal("this program gave the statements up each time, and its connections with them; the server did not")
				}
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, saver.ErrOutcomeUnknown) {
					t.Fatalf("put: %v", err)
				}
				if _, err = s.GetTuple(short, saver.Config{ThreadID: "t"}); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("get: %v", err)
				}
			}
			if err := s.CopyThread(short, "t", "copy"); !errors.Is(err, context.DeadlineExceeded) || short.Err() != nil {
				t.Fatalf("copy: %v", err)
			}
			for _, err := range s.Threads(short, saver.ThreadQuery{}) {
				if !errors.Is(err, context.DeadlineExceeded) || short.Err() != nil {
					t.Errorf("threads: %v", err)
				}
			}
			for _, err := range s.List(short, saver.Query{Filter: map[string]any{"source": "loop"}}) {
				if !errors.Is(err, context.DeadlineExceeded) || short.Err() != nil {
					t.Errorf("list: %v", err)
				}
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			for err = context.DeadlineExceeded; errors.Is(err, context.DeadlineExceeded) && short.Err() == nil; {
				_, err = s.GetTuple(short, saver.Config{ThreadID: "t"})
			}
			if !errors.Is(err, saver.ErrNotFound) {
				t.Errorf("get afterwards: %v", err)
			}
			if !pooled {
				return
			}
			var shown string
			if err := pgtest.Connect(t, url).QueryRow(t.Context(), "SHOW statement_timeout", pgx.QueryExecModeExec).Scan(&shown); err != nil || shown != "0" {
				t.Errorf("statement_timeout of the pooler's connection: %s, %v", shown, err)
			}
		})
	}
}

// A server that forgot its prepared statements costs one call, and a tracer of the pool's is
// told of puts.
func TestPutOfAPoolWithSettings(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	open(t, url, postgres.Options{})
	cfg, err := postgres.ParseConfig(url + " pool_max_conns=1 default_query_exec_mode=cache_statement")
	if err != nil {
		t.Fatal(err)
	}
	with := func(tracer pgx.QueryTracer) (*postgres.Saver, *pgxpool.Pool) {
		cfg := cfg.Copy()
		cfg.ConnConfig.Tracer = tracer
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		s, err := postgres.OpenPool(t.Context(), pool, postgres.Options{StatementTimeout: -1})
		if err != nil {
			t.Fatal(err)
		}
		return s, pool
	}
	s, pool := with(nil)
	put(t, s, "t", "", map[string]any{"n": 1})
	var prepared int
	err = pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%stele_put(%' AND statement NOT LIKE '%prepared%'`).Scan(&prepared)
	if err != nil || prepared != 1 {
		t.Errorf("%d prepared statements of a put, want 1; %v", prepared, err)
	}
	if _, err := pool.Exec(t.Context(), "DEALLOCATE ALL"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutRequest(t.Context(), request(t, s, "t", "", nil)); err == nil {
		t.Error("a put by a statement that the server has forgotten")
	}
	put(t, s, "t", "", map[string]any{"n": 2})

	seen := &statementsSeen{}
	s, _ = with(seen)
	put(t, s, "t", "", nil)
	if !strings.Contains(strings.Join(seen.sql, " "), "stele_put(") {
		t.Errorf("the tracer was told of %v", seen.sql)
	}
}

// statementsSeen is a tracer.
type statementsSeen struct{ sql []string }

func (s *statementsSeen) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.sql = append(s.sql, data.SQL)
	return ctx
}

func (s *statementsSeen) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A server that hangs while a transaction is rolled back does not hold the caller for ever, and
// what the call found out counts.
func TestServerHangsAtRollback(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	open(t, url, postgres.Options{})
	for name, call := range map[string]func(t *testing.T, s *postgres.Saver, through string){
		"a call that fails": func(t *testing.T, s *postgres.Saver, _ string) {
			if _, err := s.CountAttempt(t.Context(), saver.Config{ThreadID: "t", CheckpointID: "none"}); !errors.Is(err, saver.ErrNotFound) {
				t.Errorf("an attempt at a checkpoint that is not there: %v", err)
			}
		},
		"a snapshot": func(t *testing.T, s *postgres.Saver, _ string) {
			n := 0
			for _, err := range s.List(t.Context(), saver.Query{Filter: map[string]any{"source": "loop"}}) {
				if n++; err != nil {
					t.Error(err)
				}
			}
			if n != 1 {
				t.Errorf("%d checkpoints", n)
			}
		},
		"a put whose statement is new to a connection with a timeout of each transaction": func(t *testing.T, s *postgres.Saver, _ string) {
			req := request(t, s, "t", "", nil)
			req.Config.ExpectHead = saver.Head("another")
			if _, err := s.PutRequest(t.Context(), req); !errors.Is(err, saver.ErrConflict) {
				t.Errorf("a put upon another head: %v", err)
			}
		},
		"Open": func(t *testing.T, _ *postgres.Saver, through string) {
			s, err := postgres.Open(t.Context(), through, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, through := pgtest.NewRelay(t, url)
			cfg, err := postgres.ParseConfig(through)
			if err != nil {
				t.Fatal(err)
			}
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			s, err := postgres.OpenPool(t.Context(), pool, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t"}); errors.Is(err, saver.ErrNotFound) {
				put(t, open(t, url, postgres.Options{}), "t", "", nil)
			}
			resume := r.HangAt("rollback")
			defer resume()
			call(t, s, through)
			if !resume() {
				t.Error("there was no rollback")
			}
		})
	}
}

// A commit whose wait for a replica was cancelled is of unknown outcome, until a later one
// is replicated.
func TestCancelledReplication(t *testing.T) {
	srv, err := newServer()
	if err != nil {
		pgtest.Need(t, err)
	}
	defer srv.Close()
	url := srv.Database(t)
	open(t, url, postgres.Options{})
	s, err := postgres.Open(t.Context(), url, postgres.Options{RetryTime: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	srv.Exec(t, url, `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`, `SELECT pg_reload_conf()`)
	req := request(t, s, "t", "", map[string]any{"n": 1})
	conn := pgtest.Connect(t, url)
	for pgtest.Column(t, conn, `SHOW synchronous_standby_names`)[0] == "" {
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.PutRequest(t.Context(), req)
		ended <- err
	}()
	for err = nil; err == nil; {
		select {
		case err = <-ended:
			if !errors.Is(err, saver.ErrOutcomeUnknown) {
				t.Fatalf("put: %v, want ErrOutcomeUnknown", err)
			}
		default:
			pgtest.Column(t, conn, `SELECT pg_cancel_backend(pid)::text FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		}
	}
	srv.Exec(t, url, `ALTER SYSTEM RESET synchronous_standby_names`, `SELECT pg_reload_conf()`)
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	get(t, s, saver.Config{ThreadID: "t"})
}

// Deferred writes are durable when Sync, or a later put, has returned.
func TestDeferredWritesSurvive(t *testing.T) {
	srv, err := newServer("wal_writer_delay=10s")
	if err != nil {
		pgtest.Need(t, err)
	}
	defer srv.Close()
	s := open(t, srv.Database(t), postgres.Options{})
	at := put(t, s, "t", "", nil)
	for i, flush := range []func(){
		func() {
			if err := s.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		func() { put(t, s, "other", "", nil) },
	} {
		if err := s.PutWrites(saver.DeferSync(t.Context()), at, []saver.Write{{Channel: "ch", Value: saver.ValueOf(i)}}, fmt.Sprint("task", i), ""); err != nil {
			t.Fatal(err)
		}
		flush()
		if err := srv.Stop("immediate"); err != nil {
			t.Fatal(err)
		}
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		if n := len(get(t, s, at).PendingWrites); n != i+1 {
			t.Errorf("%d writes survive, want %d", n, i+1)
		}
	}
}

// The server restarts: calls that follow work, without anybody doing anything.
func TestServerRestarts(t *testing.T) {
	srv, err := newServer()
	if err != nil {
		pgtest.Need(t, err)
	}
	defer srv.Close()
	s := open(t, srv.Database(t), postgres.Options{RetryTime: time.Hour})
	first := put(t, s, "t", "", map[string]any{"n": 1})
	for _, mode := range []string{"immediate", "fast"} {
		if err := srv.Stop(mode); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			_, err := s.PutRequest(t.Context(), request(t, s, "t", first.CheckpointID, map[string]any{"n": 2}))
			ended <- err
		}()
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatalf("put across a restart (%s): %v", mode, err)
		}
		get(t, s, saver.Config{ThreadID: "t"})
	}
}

// A graph stops at a question, and goes on by another Saver. Threads tells how far it is.
func TestGraph(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	run := func(input any) (*postgres.Saver, *pregel.Result) {
		s := open(t, url, postgres.Options{})
		g, err := graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
			Node("before", func(context.Context, any) (any, error) { return map[string]any{"log": []string{"before"}}, nil }).
			Node("ask", func(ctx context.Context, _ any) (any, error) {
				answer, err := pregel.AskFor[string](ctx, "who?")
				if err != nil {
					return nil, err
				}
				return map[string]any{"log": []string{fmt.Sprint("asked ", answer)}}, nil
			}).
			Sequence(graph.Start, "before", "ask", graph.End).
			Compile(graph.Options{Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		res, err := g.Invoke(t.Context(), pregel.Thread("t"), input)
		if err != nil {
			t.Fatal(err)
		}
		return s, res
	}
	status := func(s *postgres.Saver) (all []saver.Status) {
		for info, err := range s.Threads(t.Context(), saver.ThreadQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, info.Status)
		}
		return all
	}
	s, _ := run(map[string]any{"log": []string{"in"}})
	if got := status(s); !reflect.DeepEqual(got, []saver.Status{saver.StatusWaiting}) {
		t.Errorf("status %v, want waiting", got)
	}
	s, res := run(pregel.Command{Resume: "ada"})
	if got := fmt.Sprint(res.Map()["log"]); got != "[in before asked ada]" {
		t.Errorf("log %s", got)
	}
	if got := status(s); !reflect.DeepEqual(got, []saver.Status{saver.StatusDone}) {
		t.Errorf("status %v, want done", got)
	}
}

// Ids of LangGraph are in the same order by bytes and by the collations of languages.
func TestOrderOfIDsByACollation(t *testing.T) {
	s := open(t, pgtest.Shared(t).Database(t, "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"), postgres.Options{})
	parent, want := "", []string{}
	for _, id := range []string{"1ef4f797-8335-6428-8001-8a1503f9b875", "1ef4f797-8335-6429-8001-0a1503f9b875", "1ef4f797-8335-642a-8001-8a1503f9b875",
		"1ef4f797-8335-64a0-8001-8a1503f9b875", "1ef4f797-9335-6428-8001-8a1503f9b875", "1f04f797-0335-6428-8001-8a1503f9b875"} {
		req := request(t, s, "t", parent, nil)
		req.Checkpoint.ID = id
		req.Config.ExpectHead = saver.Head(parent)
		if _, err := s.PutRequest(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		parent, want = id, append([]string{id}, want...)
	}
	var got []string
	for tup, err := range s.List(t.Context(), saver.Query{ThreadID: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, tup.Config.CheckpointID)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

// A listing over all threads is whole and in order, however many statements it takes.
func TestListOfManyThreads(t *testing.T) {
	srv := pgtest.Shared(t)
	url := srv.Database(t)
	s := open(t, url, postgres.Options{})
	const many = 1203
	srv.Exec(t, url, `INSERT INTO checkpoints (thread_id, checkpoint_id, checkpoint) SELECT 't' || n % 7, to_char(n, 'FM00000'),
		jsonb_build_object('v', 4, 'id', to_char(n, 'FM00000'), 'ts', '', 'channel_values', jsonb_build_object('n', n), 'channel_versions', jsonb_build_object('n', 1), 'versions_seen', jsonb_build_object())
		FROM generate_series(0, `+strconv.Itoa(many-1)+`) n`)
	for _, limit := range []int{0, 1, 500, 501, many, many + 1} {
		n := many
		for tup, err := range s.List(t.Context(), saver.Query{Limit: limit}) {
			if err != nil {
				t.Fatal(err)
			}
			n--
			v, err := tup.Checkpoint.Values["n"].Any()
			if want := fmt.Sprintf("%05d", n); tup.Config.CheckpointID != want || tup.Config.ThreadID != fmt.Sprint("t", n%7) || err != nil || fmt.Sprint(v) != fmt.Sprint(n) {
				t.Fatalf("limit %d: %v with %v, %v; want %s", limit, tup.Config, v, err, want)
			}
		}
		if want := min(cmp.Or(limit, many), many); many-n != want {
			t.Errorf("limit %d: %d checkpoints, want %d", limit, many-n, want)
		}
	}
}
