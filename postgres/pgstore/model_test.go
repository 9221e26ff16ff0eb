//go:build unix

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/pgtest"
)

// storeModel runs one random program on a store on PostgreSQL and on one in memory.
type storeModel struct {
	*testing.T
	r      *rand.Rand
	now    time.Time
	real   store.Store
	twin   store.Store
	calls  int
	good   int // calls that were not refused
	places int // of scores that are compared
}

// Spaces are small, so that calls meet.
var (
	modelNamespaces = []store.Namespace{{"a"}, {"a", "b"}, {"a", "b", "c"}, {"ab"}, {"a!", "b"}, {"b"}, {"B"}, {"é_%", `\`}}
	modelPrefixes   = []store.Namespace{nil, {"a"}, {"a", "b"}, {"b"}, {"none"}, {"é_%"}, {"a.b"}, {"\xff"}}
	modelKeys       = []string{"k1", "K2", "k3", "é", ""}
	modelFields     = []string{"n", "s", "t", "m\x00", "'"}
	modelTexts      = []string{"x", "xy", "xxy", "yz", "zzz", ""}
	modelNumbers    = []any{0, 1, 2, -7, 2.5, 1.0, 0.1, math.Nextafter(0.1, 1), 1e300, -1e300, 5e-324, math.Copysign(0, -1), math.Inf(1), int64(math.MaxInt64),
		int64(math.MinInt64), uint64(math.MaxUint64), float64(math.MaxUint64), int64(1 << 53), int64(1<<53 + 1), float64(1 << 53), 1e23, uint8(3), float32(0.1)}
	modelScalars = slices.Concat(modelNumbers, modelNumbers, []any{nil, true, false, "1", "x", "é", "Z", "a\x00b", "\xff", strings.Repeat("y", 200),
		time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC), time.Date(2024, 1, 2, 4, 4, 5, 6000, time.FixedZone("", 3600)), []byte("raw"), []byte{}})
	modelLives = []time.Duration{0, 0, 0, -1, time.Second, time.Minute, 90 * time.Second, time.Hour}
)

func (m *storeModel) data(depth int) any {
	switch n := m.r.IntN(12); {
	case n == 0 && depth > 0:
		list := []any{}
		for range m.r.IntN(3) {
			list = append(list, m.data(depth-1))
		}
		return list
	case n == 1 && depth > 0:
		return m.fields(depth - 1)
	}
	return pick(m.r, modelScalars)
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (m *storeModel) fields(depth int) map[string]any {
	v := map[string]any{}
	for range m.r.IntN(4) {
		v[pick(m.r, modelFields)] = m.data(depth)
	}
	return v
}

func (m *storeModel) put() store.PutOp {
	op := store.PutOp{Namespace: pick(m.r, modelNamespaces), Key: pick(m.r, modelKeys), TTL: pick(m.r, modelLives), NoIndex: m.r.IntN(5) == 0}
	if m.r.IntN(5) > 0 {
		op.Value = m.fields(2)
		op.Value["t"] = pick(m.r, modelTexts)
	}
	if m.r.IntN(6) == 0 {
		op.IndexFields = pick(m.r, [][]string{{}, {"s"}, {"t", "t"}, {"n[*]", "t"}})
	}
	return op
}

func (m *storeModel) operand() any {
	for {
		v := m.data(1)
		if f, ok := v.(float64); !ok || !math.IsNaN(f) {
			return v
		}
	}
}

func (m *storeModel) query() store.Query {
	q := store.Query{Prefix: pick(m.r, modelPrefixes), Limit: pick(m.r, []int{0, 1, 3, store.NoLimit}), Offset: m.r.IntN(4), ByKey: m.r.IntN(2) == 0, NoRefresh: m.r.IntN(2) == 0}
	if m.r.IntN(2) == 0 {
		q.Filter = map[string]any{}
		for range 1 + m.r.IntN(2) {
			var want any = m.operand()
			if m.r.IntN(2) == 0 {
				operators := map[string]any{pick(m.r, []string{"$eq", "$ne"}): m.operand()}
				if m.r.IntN(2) == 0 {
					operators = map[string]any{pick(m.r, []string{"$gt", "$gte", "$lt", "$lte"}): pick(m.r, modelScalars)}
				}
				want = operators
			}
			q.Filter[pick(m.r, modelFields)] = want
		}
	}
	if m.r.IntN(2) == 0 {
		q.Text = pick(m.r, []string{"x", "yz", "none"})
	}
	return q
}

func (m *storeModel) namespaces() store.NamespaceQuery {
	q := store.NamespaceQuery{MaxDepth: m.r.IntN(4), Limit: m.r.IntN(4), Offset: m.r.IntN(3)}
	for range m.r.IntN(3) {
		path := pick(m.r, []store.Namespace{{"a"}, {"*", "b"}, {"b"}, {"a", "*"}, {}, {"*", "*", "c"}, {"é_%"}, {"a", "b.c"}, {"\x00"}})
		q.Match = append(q.Match, store.Match{Kind: pick(m.r, []store.MatchKind{store.MatchPrefix, store.MatchSuffix}), Path: path})
	}
	return q
}

// ops are those of one call. A page of a search by text may end between items whose scores
// differ by less than the places that are compared; then it is asked for everything.
func (m *storeModel) ops() []store.Op {
	ops := []store.Op{}
	for range 1 + m.r.IntN(4) {
		switch m.r.IntN(8) {
		case 0:
			ops = append(ops, store.GetOp{Namespace: pick(m.r, modelNamespaces), Key: pick(m.r, modelKeys), NoRefresh: m.r.IntN(2) == 0})
		case 1, 2:
			q := m.query()
			if q.Text != "" && m.places < 16 {
				q.Limit, q.Offset = store.NoLimit, 0
			}
			ops = append(ops, q)
		case 3:
			ops = append(ops, m.namespaces())
		default:
			ops = append(ops, m.put())
		}
	}
	return ops
}

func (m *storeModel) item(it *store.Item) string {
	if it == nil {
		return "none"
	}
	return fmt.Sprintf("%q %q %s %d %d %d", []string(it.Namespace), it.Key, shownData(it.Value), it.CreatedAt.UnixMicro(), it.UpdatedAt.UnixMicro(), it.ExpiresAt.UnixMicro())
}

// shownData prints data with its types, and zeros with their signs.
func shownData(v any) string {
	switch x := v.(type) {
	case map[string]any:
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(x)) {
			fmt.Fprintf(&b, "%q: %s, ", k, shownData(x[k]))
		}
		return "{" + b.String() + "}"
	case []any:
		var b strings.Builder
		for _, e := range x {
			b.WriteString(shownData(e) + ", ")
		}
		return "[" + b.String() + "]"
	case float64:
		return "float " + strconv.FormatFloat(x, 'g', -1, 64)
	case time.Time:
		return "time " + x.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("%T %q", v, fmt.Sprint(v))
}

// answers prints results. Where scores are compared to some places only, those that are
// equal so far have no order.
func (m *storeModel) answers(results []store.Result, err error) string {
	var b strings.Builder
	for _, r := range results {
		lines := []string{}
		for _, f := range r.Found {
			lines = append(lines, fmt.Sprintf("%v %s", f.Scored, m.item(&f.Item)))
		}
		if m.places < 16 && slices.ContainsFunc(r.Found, func(f store.Found) bool { return f.Scored }) {
			for i, f := range r.Found {
				lines[i] = fmt.Sprintf("%.*f %s", m.places, f.Score+0, lines[i])
			}
			slices.Sort(lines)
		} else {
			for i, f := range r.Found {
				lines[i] = fmt.Sprintf("%v %s", f.Score, lines[i])
			}
		}
		fmt.Fprintf(&b, "%s\n%s\n%q\n", m.item(r.Item), strings.Join(lines, "\n"), r.Namespaces)
	}
	for _, known := range []error{store.ErrInvalid, store.ErrNotFound} {
		if errors.Is(err, known) {
			err = known
		}
	}
	return b.String() + fmt.Sprint(err)
}

func (m *storeModel) step() {
	m.calls++
	m.now = m.now.Add(pick(m.r, []time.Duration{time.Millisecond, time.Millisecond, 400 * time.Millisecond, 2 * time.Second, 45 * time.Second, 10 * time.Minute}))
	if m.r.IntN(12) == 0 {
		got, gotErr := m.real.(store.Sweeper).Sweep(m.Context())
		want, wantErr := m.twin.(store.Sweeper).Sweep(m.Context())
		if got != want || gotErr != nil || wantErr != nil {
			m.Fatalf("call %d: sweep removed %d, %v; want %d, %v", m.calls, got, gotErr, want, wantErr)
		}
		return
	}
	ops := m.ops()
	got, want := m.answers(m.real.Batch(m.Context(), ops...)), m.answers(m.twin.Batch(m.Context(), ops...))
	if strings.HasSuffix(want, "<nil>") {
		m.good++
	}
	if got != want {
		m.Fatalf("call %d: %+v\nPostgreSQL\n%s\nmemory\n%s", m.calls, ops, got, want)
	}
}

// countXYZ is an embedder.
func countXYZ(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		out[i] = []float32{float32(strings.Count(t, "x")), float32(strings.Count(t, "y")), float32(strings.Count(t, "z"))}
	}
	return out, nil
}

func runStoreModel(t *testing.T, url string, metric store.Metric, places int) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("STELE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	steps := 150
	if s := os.Getenv("MODEL_STEPS"); s != "" {
		steps, _ = strconv.Atoi(s)
	}
	t.Logf("STELE_SEED=%d go test -run '%s'", seed, t.Name())
	m := &storeModel{T: t, r: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_700_000_000, 0), places: places}
	clock := func() time.Time { return m.now }
	so := store.Options{Clock: clock, TTL: pick(m.r, []time.Duration{0, 0, time.Minute, 90 * time.Second}), ShowExpired: m.r.IntN(2) == 0, NoRefreshOnRead: m.r.IntN(3) == 0,
		Index: &store.Index{Dims: 3, Embed: countXYZ, Fields: []string{"t", "s"}, Metric: metric}}
	twin, err := store.NewMemory(so)
	if err != nil {
		t.Fatal(err)
	}
	m.twin = twin
	m.real = openStore(t, url, postgres.Options{Schema: pgtest.NewSchema(), Clock: clock}, so)
	for range steps {
		m.step()
	}
	if m.good < steps/2 {
		t.Errorf("%d of %d calls are refused: they compare little", steps-m.good, steps)
	}
}

// What the store answers is what store.NewMemory answers, whatever the program. STELE_SEED
// repeats one, MODEL_STEPS makes it longer.
func TestStoreModel(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	for _, metric := range []store.Metric{store.Cosine, store.Dot, store.L2} {
		t.Run(string(metric), func(t *testing.T) { runStoreModel(t, url, metric, 16) })
	}
}

// pgvector computes with other roundings: scores are compared to six places.
func TestStoreModelWithVectors(t *testing.T) {
	url := pgtest.SharedWithVectors(t).Database(t)
	for _, metric := range []store.Metric{store.Cosine, store.Dot, store.L2} {
		t.Run(string(metric), func(t *testing.T) { runStoreModel(t, url, metric, 6) })
	}
}
