//go:build unix

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/postgres/pgtest"
)

var place = store.Namespace{"a", "b"}

func putItem(t testing.TB, s store.Store, key string, v map[string]any, opts ...store.PutOption) {
	t.Helper()
	if err := s.Put(t.Context(), place, key, v, opts...); err != nil {
		t.Fatal(err)
	}
}

// The answer to a commit is lost: the call finds out by itself that it was committed, and
// neither fails nor writes twice.
func TestLostAnswersOfAStore(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	openStore(t, url, postgres.Options{}, store.Options{})
	r, through := pgtest.NewRelay(t, url)
	s, err := pgstore.Open(t.Context(), through, postgres.Options{}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	putItem(t, s, "k", map[string]any{"n": 1}) // every statement is described by now
	before, err := s.Get(t.Context(), place, "k")
	if err != nil {
		t.Fatal(err)
	}
	r.LoseNext(`INTO "public".stele_item_calls`, nil)
	putItem(t, s, "k", map[string]any{"n": 2})
	it, err := s.Get(t.Context(), place, "k")
	if err != nil || it.Value["n"] != int64(2) || !it.CreatedAt.Equal(before.CreatedAt) {
		t.Errorf("read %+v, %v", it, err)
	}
	if n := pgtest.Column(t, pgtest.Connect(t, url), `SELECT count(*) || ' ' || count(*) FILTER (WHERE given_up) FROM stele_item_calls`)[0]; n != "2 0" {
		t.Errorf("calls, and those that were given up: %s, want 2 0", n)
	}
}

// A call that did not arrive is tried again. What arrives of it later writes nothing.
func TestCallsOfAStoreThatDidNotArrive(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	openStore(t, url, postgres.Options{}, store.Options{})
	r, through := pgtest.NewRelay(t, url)
	s, err := pgstore.Open(t.Context(), through, postgres.Options{}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	putItem(t, s, "k", map[string]any{"n": 1})
	arrive := make(chan struct{})
	r.LoseNext(`INTO "public".stele_item_calls`, arrive)
	putItem(t, s, "k", map[string]any{"n": 2})
	if it, err := s.Get(t.Context(), place, "k"); err != nil || it.Value["n"] != int64(2) {
		t.Errorf("read %+v, %v", it, err)
	}
	putItem(t, s, "k", map[string]any{"n": 3})
	close(arrive)
	select {
	case <-r.Answered:
	case <-time.After(time.Minute):
		t.Fatal("the server does not answer to what came late")
	}
	if it, err := s.Get(t.Context(), place, "k"); err != nil || it.Value["n"] != int64(3) {
		t.Errorf("after the late arrival: %+v, %v", it, err)
	}
}

// A call that was given up is settled by Sync: what arrives later writes nothing.
func TestLateArrivalsAtAStoreWriteNothing(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	openStore(t, url, postgres.Options{}, store.Options{})
	r, through := pgtest.NewRelay(t, url)
	s, err := pgstore.Open(t.Context(), through, postgres.Options{}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	putItem(t, s, "k", map[string]any{"n": 1})
	arrive := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	r.LoseNext(`INTO "public".stele_item_calls`, arrive, cancel)
	if err := s.Put(ctx, place, "late", map[string]any{"n": 3}); !errors.Is(err, saver.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Fatalf("put: %v, want ErrOutcomeUnknown", err)
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(arrive)
	select {
	case <-r.Answered:
	case <-time.After(time.Minute):
		t.Fatal("the server does not answer to what came late")
	}
	if _, err := s.Get(t.Context(), place, "late"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what came late: %v, want ErrNotFound", err)
	}
}

// Names that the table cannot hold are refused before anything is written. Nothing can be
// read under them.
func TestNamesThatAStoreRefuses(t *testing.T) {
	s := openStore(t, pgtest.Shared(t).Database(t), postgres.Options{}, store.Options{})
	ctx, v := t.Context(), map[string]any{}
	good := store.PutOp{Namespace: place, Key: "good", Value: v}
	for _, ns := range []store.Namespace{nil, {}, {""}, {"a", ""}, {"a.b"}, {"a", "b\x00"}, {"\xff"}} {
		var ne *store.NamespaceError
		if _, err := s.Batch(ctx, good, store.PutOp{Namespace: ns, Key: "k", Value: v}); !errors.As(err, &ne) || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("put into %q: %v", []string(ns), err)
		}
		if _, err := s.Get(ctx, ns, "k"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("get in %q: %v", []string(ns), err)
		}
		if err := s.Delete(ctx, ns, "k"); err != nil {
			t.Errorf("delete in %q: %v", []string(ns), err)
		}
	}
	for _, key := range []string{"\x00", "\xff"} {
		if err := s.Put(ctx, place, key, v); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("put of %q: %v", key, err)
		}
		if _, err := s.Get(ctx, place, key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("get of %q: %v", key, err)
		}
	}
	if found, err := s.Search(ctx, store.Query{}); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if _, err := s.Batch(ctx, store.PutOp{Namespace: store.Namespace{"langgraph", "x"}, Key: "k", Value: v}); err != nil {
		t.Errorf("a batch puts where LangGraph puts: %v", err)
	}
	for _, ns := range []store.Namespace{{"a!", "b"}, {"a", "b"}, {"a"}, {"B"}, {"a", "é"}} {
		if err := s.Put(ctx, ns, "k", v); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.ListNamespaces(ctx, store.NamespaceQuery{})
	if want := "[[B] [a] [a b] [a é] [a! b] [langgraph x]]"; fmt.Sprint(got) != want {
		t.Errorf("namespaces %v, %v; want %s", got, err, want)
	}
}

// What Python puts, which knows nothing of stele's rows, replaces what is in them.
func TestRowsOfAReplacedValueDoNotCount(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	s := openStore(t, url, postgres.Options{}, xyz)
	putItem(t, s, "k", map[string]any{"t": "x", "nul": "\x00"}, store.TTL(90*time.Second))
	const python = `INSERT INTO store (prefix, key, value) VALUES ('a.b', 'k', '{"t": "y"}')
		ON CONFLICT (prefix, key) DO UPDATE SET value = EXCLUDED.value, updated_at = CURRENT_TIMESTAMP, expires_at = CURRENT_TIMESTAMP + '10 minutes', ttl_minutes = 10`
	if _, err := pgtest.Connect(t, url).Exec(t.Context(), python); err != nil {
		t.Fatal(err)
	}
	found, err := s.Search(t.Context(), store.Query{Text: "x"})
	if err != nil || len(found) != 1 || found[0].Scored || found[0].Value["t"] != "y" || found[0].Value["nul"] != nil {
		t.Errorf("found %+v, %v", found, err)
	}
	if left := time.Until(found[0].ExpiresAt); left < 9*time.Minute {
		t.Errorf("expires in %v", left)
	}
}

// Filters are narrowed in the database: what cannot match is not even read, such as a row
// that no store wrote.
func TestFiltersAreNarrowedInTheDatabase(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	s := openStore(t, url, postgres.Options{}, store.Options{})
	putItem(t, s, "k", map[string]any{"n": 1, "s": "é", "b": true, "l": []any{1}, "m": map[string]any{"x": 1}})
	if _, err := pgtest.Connect(t, url).Exec(t.Context(), `INSERT INTO store (prefix, key, value) VALUES ('a.b', 'strange', '["not a map"]')`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Search(t.Context(), store.Query{}); !errors.Is(err, saver.ErrCorrupt) {
		t.Errorf("without a filter: %v, want ErrCorrupt", err)
	}
	if _, err := s.Get(t.Context(), place, "strange"); !errors.Is(err, saver.ErrCorrupt) {
		t.Errorf("get: %v, want ErrCorrupt", err)
	}
	for _, want := range []any{1, 1.0, map[string]any{"$gt": 0}, map[string]any{"$lte": 1.5}, map[string]any{"$eq": uint8(1)}, map[string]any{"$ne": nil}} {
		found, err := s.Search(t.Context(), store.Query{Filter: map[string]any{"n": want}})
		if err != nil || len(found) != 1 {
			t.Errorf("n %v: found %v, %v", want, found, err)
		}
	}
	for field, want := range map[string]any{"s": map[string]any{"$gt": "z"}, "b": true, "l": []any{1}, "m": map[string]any{"x": 1}} {
		found, err := s.Search(t.Context(), store.Query{Filter: map[string]any{field: want}})
		if err != nil || len(found) != 1 {
			t.Errorf("%s %v: found %v, %v", field, want, found, err)
		}
	}
}

// A filter that passes few of many items is given more rows until the page is full.
func TestPagesBehindAFilter(t *testing.T) {
	s := openStore(t, pgtest.Shared(t).Database(t), postgres.Options{}, store.Options{})
	var ops []store.Op
	for i := range 900 {
		// U+0000 keeps the database from deciding.
		ops = append(ops, store.PutOp{Namespace: place, Key: fmt.Sprintf("%04d", i), Value: map[string]any{"n": i, "x": "\x00"}})
	}
	if _, err := s.Batch(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ least, offset, limit, first, n int }{{890, 0, 5, 890, 5}, {890, 7, 5, 897, 3}, {100, 700, 50, 800, 50}, {100, 0, store.NoLimit, 100, 800}, {900, 0, 1, 0, 0}} {
		found, err := s.Search(t.Context(), store.Query{Filter: map[string]any{"n": map[string]any{"$gte": c.least}}, ByKey: true, Offset: c.offset, Limit: c.limit})
		if err != nil || len(found) != c.n || c.n > 0 && found[0].Value["n"] != int64(c.first) {
			t.Errorf("%+v: %d found, %v", c, len(found), err)
		}
	}
}

// Batches that touch the same items in other orders never wait for each other.
func TestBatchesInEveryOrder(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	s := openStore(t, url, postgres.Options{}, store.Options{TTL: time.Hour})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 20 {
				var ops []store.Op
				for k := range 10 {
					op := store.PutOp{Namespace: place, Key: fmt.Sprint(k), Value: map[string]any{"w": w}}
					if (i+k+w)%4 == 0 {
						op.Value = nil
					}
					ops = append(ops, op)
				}
				if w%2 == 0 {
					slices.Reverse(ops)
				}
				if _, err := s.Batch(t.Context(), ops...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// The server counts the deadlocks it broke when a connection ends.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn := pgtest.Connect(t, url)
	for pgtest.Column(t, conn, `SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)[0] != "0" {
		time.Sleep(5 * time.Millisecond)
	}
	if n := pgtest.Column(t, conn, `SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database()`)[0]; n != "0" {
		t.Errorf("%s deadlocks", n)
	}
}

// A serializer that encrypts leaves nothing in the clear, and takes no index.
func TestEncryptedItems(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	codec, err := serde.NewEncrypted(serde.Default(), serde.EncryptedOptions{Key: []byte("0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, url, postgres.Options{Serializer: codec}, store.Options{})
	putItem(t, s, "k", map[string]any{"secret": "swordfish"})
	found, err := s.Search(t.Context(), store.Query{Filter: map[string]any{"secret": "swordfish"}})
	if err != nil || len(found) != 1 || found[0].Value["secret"] != "swordfish" {
		t.Errorf("found %v, %v", found, err)
	}
	if rows := pgtest.Column(t, pgtest.Connect(t, url), `SELECT s.value::text || x.kind || encode(x.value, 'escape') FROM store s JOIN stele_items x USING (prefix, key)`); len(rows) != 1 || !strings.HasPrefix(rows[0], "{}msgpack+aes") || strings.Contains(rows[0], "sword") {
		t.Errorf("rows %q", rows)
	}
	if _, err := pgstore.Open(t.Context(), url, postgres.Options{Serializer: codec}, xyz); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("with an index: %v", err)
	}
}

// A store beside a saver ends before it, uses its connections and its clock, and serves a
// graph. Items in one transaction with a checkpoint are refused, not forgotten.
func TestStoreBesideASaver(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	tick := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	opts := postgres.Options{Clock: func() time.Time { return tick }}
	if err := postgres.Setup(t.Context(), url, opts); err != nil {
		t.Fatal(err)
	}
	sv, err := postgres.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer sv.Close()
	if _, err := pgstore.On(t.Context(), sv, store.Options{}); !errors.Is(err, postgres.ErrNotSetUp) {
		t.Fatalf("before it is set up: %v", err)
	}
	if err := pgstore.Setup(t.Context(), url, postgres.Options{}, nil); err != nil {
		t.Fatal(err)
	}
	s, err := pgstore.On(t.Context(), sv, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := func() *graph.Builder {
		b := graph.New(graph.Key("text", channel.LastValue[string]()))
		return b.Node("learn", func(ctx context.Context, state any) (any, error) {
			return nil, s.Put(ctx, place, "learned", map[string]any{"text": state.(map[string]any)["text"]})
		}).Sequence(graph.Start, "learn", graph.End)
	}
	if _, err := b().Compile(graph.Options{Saver: sv, Store: s, AtomicStore: true}); err == nil {
		t.Error("AtomicStore is taken")
	}
	g, err := b().Compile(graph.Options{Saver: sv, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"text": "hello"}); err != nil {
		t.Fatal(err)
	}
	it, err := s.Get(t.Context(), place, "learned")
	if err != nil || it.Value["text"] != "hello" || !it.CreatedAt.Equal(tick) {
		t.Errorf("read %+v, %v", it, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), place, "learned"); !errors.Is(err, saver.ErrClosed) {
		t.Errorf("get of a closed store: %v", err)
	}
	if _, err := sv.GetTuple(t.Context(), saver.Config{ThreadID: "t"}); err != nil {
		t.Errorf("the saver is closed as well: %v", err)
	}
}

// Names of calls do not stay for ever, though Sweep is never called.
func TestNamesOfCallsAreForgotten(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	tick := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := openStore(t, url, postgres.Options{Clock: func() time.Time { return tick }}, store.Options{SweepEvery: time.Hour})
	conn := pgtest.Connect(t, url)
	count := func() string { return pgtest.Column(t, conn, `SELECT count(*)::text FROM stele_item_calls`)[0] }
	for range 10 {
		putItem(t, s, "k", map[string]any{})
	}
	tick = tick.AddDate(0, 0, 2)
	if _, err := s.Sweep(t.Context()); err != nil || count() != "0" {
		t.Errorf("after a sweep: %s names, %v", count(), err)
	}
	for range 10 {
		putItem(t, s, "k", map[string]any{})
	}
	tick = tick.AddDate(0, 0, 2)
	for range 300 {
		putItem(t, s, "k", map[string]any{})
	}
	if n := pgtest.Column(t, conn, `SELECT count(*)::text FROM stele_item_calls WHERE at < '2026-01-05'`)[0]; n != "0" {
		t.Errorf("%s old names are left", n)
	}
}
