package storemodel

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

const defaultChecks = 60

func checks(t *testing.T) {
	n := os.Getenv("MODEL_CHECKS")
	if n == "" {
		n = fmt.Sprint(defaultChecks)
	}
	f := flag.Lookup("rapid.checks")
	given := false
	flag.Visit(func(g *flag.Flag) { given = given || g == f })
	if given {
		return
	}
	before := f.Value.String()
	if err := f.Value.Set(n); err != nil {
		t.Fatalf("MODEL_CHECKS=%q: %v", n, err)
	}
	t.Cleanup(func() { _ = f.Value.Set(before) })
}

// The spaces are small, so that calls meet.
var (
	namespaces = rapid.SampledFrom([]store.Namespace{{"a"}, {"a", "b"}, {"a", "b", "c"}, {"ab"}, {"b"}, {"\x00", "b"}})
	prefixes   = rapid.SampledFrom([]store.Namespace{nil, {"a"}, {"a", "b"}, {"b"}, {"none"}})
	keys       = rapid.SampledFrom([]string{"k1", "k2", "k3", "c1", "w1", ""})
	texts      = rapid.SampledFrom([]string{"x", "xy", "xxy", "yz", "zzz", ""})
	fields     = rapid.SampledFrom([]string{"n", "s", "t", "m"})
	scalars    = rapid.SampledFrom([]any{nil, true, false, 1, 2, 2.5, "1", "x", int64(-7), []any{1, "x"}, map[string]any{"k": 1}, strings.Repeat("y", 200)})
	lives      = rapid.SampledFrom([]time.Duration{0, 0, 0, -1, time.Second, time.Minute})
)

// embed counts x, y and z.
func embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		out[i] = []float32{float32(strings.Count(t, "x")), float32(strings.Count(t, "y")), float32(strings.Count(t, "z"))}
	}
	return out, nil
}

// machine runs each call on both stores.
type machine struct {
	ctx    context.Context
	now    time.Time
	model  *store.Local
	opts   store.Options
	fs     vfs.FS
	rng    *rand.Rand
	disk   *disk.Saver
	stores []*store.Local // on the disk; they answer in turn
	turn   int
	calls  int
}

func (m *machine) clock() time.Time { return m.now }

func (m *machine) open() error {
	so := disk.Options{Clock: m.clock, ManualWork: true, LogFileSize: 64 << 10, CacheBytes: -1}
	var err error
	if m.disk, err = disk.Open("store", so.In(disk.Simulation{FS: m.fs, Rand: m.rng.Uint64, Inline: true})); err != nil {
		return err
	}
	m.stores = nil
	for _, budget := range []int64{0, 1} { // the second keeps hardly any vectors
		o := m.opts
		o.VectorBytes = budget
		s, err := store.On(m.disk, o)
		if err != nil {
			return err
		}
		m.stores = append(m.stores, s)
	}
	return nil
}

func program(t *rapid.T) {
	m := &machine{ctx: context.Background(), now: time.Unix(1_700_000_000, 0), fs: vfs.NewMem(vfs.MemOptions{WindowsRules: true}),
		rng: rand.New(rand.NewPCG(7, 9))}
	m.opts = store.Options{
		Clock: m.clock, TTL: rapid.SampledFrom([]time.Duration{0, 0, time.Minute}).Draw(t, "ttl"),
		ShowExpired: rapid.Bool().Draw(t, "show expired"), NoRefreshOnRead: rapid.Bool().Draw(t, "keep life"),
		Index: &store.Index{Dims: 3, Embed: embed, Fields: []string{"t", "m"},
			Metric: rapid.SampledFrom([]store.Metric{"", store.Dot, store.L2}).Draw(t, "metric")},
	}
	var err error
	if m.model, err = store.NewMemory(m.opts); err != nil {
		t.Fatal(err)
	}
	if err := m.open(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.disk.Close() }()
	t.Repeat(map[string]func(*rapid.T){
		"put": m.put, "put2": m.put, "put3": m.put, "delete": m.delete, "batch": m.batch, "get": m.get, "search": m.search, "search2": m.search,
		"list": m.list, "sweep": m.sweep, "pass": m.pass, "reopen": m.reopen, "scan": m.scan, "erase": m.erase, "": m.all,
	})
}

// both compares the answers, as text.
func (m *machine) both(t *rapid.T, what string, call func(*store.Local) string) {
	t.Helper()
	m.calls++
	m.turn = (m.turn + 1) % len(m.stores)
	want, got := call(m.model), call(m.stores[m.turn])
	if got != want {
		t.Fatalf("%s:\n disk %s\nmodel %s", what, got, want)
	}
}

// change is both for a call that writes; time passes first.
func (m *machine) change(t *rapid.T, what string, call func(*store.Local) error) {
	t.Helper()
	m.now = m.now.Add(time.Millisecond)
	m.both(t, what, func(s *store.Local) string { return fmt.Sprint(call(s)) })
}

func drawValue(t *rapid.T) map[string]any {
	v := rapid.MapOfN(fields, scalars, 0, 3).Draw(t, "value")
	v["t"] = texts.Draw(t, "text")
	return v
}

func drawPut(t *rapid.T) store.PutOp {
	op := store.PutOp{Namespace: namespaces.Draw(t, "ns"), Key: keys.Draw(t, "key"), TTL: lives.Draw(t, "ttl"), NoIndex: rapid.IntRange(0, 4).Draw(t, "no index") == 0}
	if rapid.IntRange(0, 4).Draw(t, "deletes") > 0 {
		op.Value = drawValue(t)
	}
	if rapid.IntRange(0, 5).Draw(t, "own fields") == 0 {
		op.IndexFields = rapid.SampledFrom([][]string{{}, {"s"}, {"t", "$"}}).Draw(t, "fields")
	}
	return op
}

func (m *machine) put(t *rapid.T) {
	op := drawPut(t)
	m.change(t, fmt.Sprintf("put %+v", op), func(s *store.Local) error {
		_, err := s.Batch(m.ctx, op)
		return err
	})
}

func (m *machine) delete(t *rapid.T) {
	ns, key := namespaces.Draw(t, "ns"), keys.Draw(t, "key")
	m.change(t, "delete", func(s *store.Local) error { return s.Delete(m.ctx, ns, key) })
}

// erase is the saver's: what it does to items is what deleting each of them does. Expired
// ones are swept first, as a search may not show them.
func (m *machine) erase(t *rapid.T) {
	prefix := rapid.SampledFrom([]store.Namespace{{"a", "b"}, {"b"}, {"\x00"}, {"none"}, {"a"}}).Draw(t, "prefix")
	m.sweep(t)
	m.change(t, fmt.Sprintf("erase %q", prefix), func(s *store.Local) error {
		if s != m.model {
			return m.disk.EraseRequest(m.ctx, disk.EraseRequest{Items: [][]string{prefix}})
		}
		all, err := s.Search(m.ctx, store.Query{Prefix: prefix, Limit: store.NoLimit, NoRefresh: true})
		for _, f := range all {
			err = errors.Join(err, s.Delete(m.ctx, f.Namespace, f.Key))
		}
		return err
	})
}

func drawQuery(t *rapid.T) store.Query {
	q := store.Query{Prefix: prefixes.Draw(t, "prefix"), Limit: rapid.SampledFrom([]int{0, 1, 3, store.NoLimit}).Draw(t, "limit"),
		Offset: rapid.IntRange(0, 3).Draw(t, "offset"), ByKey: rapid.Bool().Draw(t, "by key"), NoRefresh: rapid.Bool().Draw(t, "no refresh")}
	if rapid.Bool().Draw(t, "filtered") {
		q.Filter = map[string]any{}
		for _, f := range rapid.SliceOfNDistinct(fields, 1, 2, rapid.ID).Draw(t, "filter") {
			q.Filter[f] = rapid.OneOf(scalars, rapid.SampledFrom([]any{map[string]any{"$ne": nil}, map[string]any{"$gt": 1}, map[string]any{"$lte": "x", "$ne": "1"}})).Draw(t, f)
		}
	}
	if rapid.Bool().Draw(t, "by text") {
		q.Text = rapid.SampledFrom([]string{"x", "yz", "none"}).Draw(t, "query")
	}
	return q
}

func (m *machine) get(t *rapid.T) {
	ns, key := namespaces.Draw(t, "ns"), keys.Draw(t, "key")
	m.both(t, "get", func(s *store.Local) string {
		it, err := s.Get(m.ctx, ns, key)
		if err != nil {
			return err.Error()
		}
		return item(*it)
	})
}

func item(it store.Item) string {
	return fmt.Sprintf("%q %q %v %d %d %d", []string(it.Namespace), it.Key, it.Value, it.CreatedAt.UnixMicro(), it.UpdatedAt.UnixMicro(), it.ExpiresAt.UnixMicro())
}

func found(all []store.Found, err error) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s %v %v\n", item(f.Item), f.Scored, f.Score)
	}
	return fmt.Sprint(b.String(), err)
}

func (m *machine) search(t *rapid.T) {
	q := drawQuery(t)
	m.both(t, fmt.Sprintf("search %+v", q), func(s *store.Local) string { return found(s.Search(m.ctx, q)) })
}

func (m *machine) scan(t *rapid.T) {
	q := drawQuery(t)
	q.NoRefresh = true
	m.both(t, fmt.Sprintf("scan %+v", q), func(s *store.Local) string {
		var all []store.Found
		for f, err := range s.Scan(m.ctx, q) {
			if err != nil {
				return err.Error()
			}
			all = append(all, f)
		}
		return found(all, nil)
	})
}

func (m *machine) list(t *rapid.T) {
	q := store.NamespaceQuery{MaxDepth: rapid.IntRange(0, 3).Draw(t, "depth"), Limit: rapid.IntRange(0, 3).Draw(t, "limit"), Offset: rapid.IntRange(0, 2).Draw(t, "offset")}
	path := rapid.SampledFrom([]store.Namespace{{"a"}, {"*", "b"}, {"b"}, {"a", "*"}, {}})
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		kind := rapid.SampledFrom([]store.MatchKind{store.MatchPrefix, store.MatchSuffix}).Draw(t, "kind")
		q.Match = append(q.Match, store.Match{Kind: kind, Path: path.Draw(t, "path")})
	}
	m.both(t, fmt.Sprintf("list %+v", q), func(s *store.Local) string {
		all, err := s.ListNamespaces(m.ctx, q)
		return fmt.Sprintf("%q %v", all, err)
	})
}

func (m *machine) batch(t *rapid.T) {
	var ops []store.Op
	for range rapid.IntRange(1, 5).Draw(t, "ops") {
		switch rapid.IntRange(0, 3).Draw(t, "op") {
		case 0:
			ops = append(ops, store.GetOp{Namespace: namespaces.Draw(t, "ns"), Key: keys.Draw(t, "key")})
		case 1:
			ops = append(ops, drawQuery(t))
		default:
			ops = append(ops, drawPut(t))
		}
	}
	m.change(t, fmt.Sprintf("batch %+v", ops), func(s *store.Local) error {
		res, err := s.Batch(m.ctx, ops...)
		var b strings.Builder
		for _, r := range res {
			if r.Item != nil {
				b.WriteString(item(*r.Item))
			}
			b.WriteString(found(r.Found, nil))
		}
		return fmt.Errorf("%s %w", b.String(), err)
	})
}

func (m *machine) sweep(t *rapid.T) {
	m.both(t, "sweep", func(s *store.Local) string {
		n, err := s.Sweep(m.ctx)
		return fmt.Sprint(n, err)
	})
}

func (m *machine) pass(t *rapid.T) {
	m.now = m.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, 400 * time.Millisecond, 2 * time.Second, 45 * time.Second}).Draw(t, "time"))
}

// reopen does what time does to a store.
func (m *machine) reopen(t *rapid.T) {
	how := rapid.SampledFrom([]string{"flush", "compact", "close", "image", "lose images"}).Draw(t, "how")
	err := func() error {
		switch how {
		case "flush":
			return m.disk.Flush(m.ctx)
		case "compact":
			return m.disk.Compact(m.ctx)
		case "image":
			return m.disk.Inside().Engine.WriteImage(m.ctx)
		}
		if err := m.disk.Close(); err != nil {
			return err
		}
		if how == "lose images" {
			names, err := m.fs.List("store")
			if err != nil {
				return err
			}
			for _, n := range names {
				if strings.HasSuffix(n, ".img") {
					if err := m.fs.Remove(filepath.Join("store", n)); err != nil {
						return err
					}
				}
			}
		}
		return m.open()
	}()
	if err != nil {
		t.Fatalf("%s: %v", how, err)
	}
}

// all compares everything stored, and that the saver knows nothing of it.
func (m *machine) all(t *rapid.T) {
	m.both(t, "everything", func(s *store.Local) string {
		return found(s.Search(m.ctx, store.Query{Limit: store.NoLimit, ByKey: true, NoRefresh: true}))
	})
	for info, err := range m.disk.Threads(m.ctx, saver.ThreadQuery{}) {
		t.Fatalf("the saver lists thread %+v, %v", info, err)
	}
	for tup, err := range m.disk.List(m.ctx, saver.Query{}) {
		t.Fatalf("the saver lists checkpoint %+v, %v", tup, err)
	}
}

func TestModel(t *testing.T) {
	checks(t)
	rapid.Check(t, program)
}
