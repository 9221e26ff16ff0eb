package pgstore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stele-go/stele/saver"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// rankedRead is a search whose vectors are in stele's table, where the database cannot compare
// them: it reads the vectors first, ranks the items, and then reads the best.
type rankedRead struct {
	*searchRead
	begun  bool // the vectors came in
	items  []rankedItem
	looked int // how many items were read
	asked  int // how many are being read
}

// rankedItem is an item without its value.
type rankedItem struct {
	prefix, key string
	labels      []string
	updated     time.Time
	score       float64
	scored      bool
}

func (r *rankedRead) ranked() bool { return true }

func (r *rankedRead) begin() {
	r.begun, r.items, r.looked, r.passed = false, nil, 0, nil
}

func (r *rankedRead) queue(b *pgx.Batch) {
	if !r.begun {
		r.queueVectors(b)
		return
	}
	r.rows = nil
	r.asked = min(len(r.items)-r.looked, max(min(r.want()-len(r.passed), allAsked), firstAsked))
	var prefixes, keys []string
	for _, it := range r.items[r.looked : r.looked+r.asked] {
		prefixes, keys = append(prefixes, it.prefix), append(keys, it.key)
	}
	r.read(b, r.s.sql.addressed, []any{prefixes, keys})
}

// queueVectors queues the query for all vectors that the search covers.
func (r *rankedRead) queueVectors(b *pgx.Batch) {
	r.items = nil
	var a arguments
	sql := fmt.Sprintf(`SELECT s.prefix, s.key, coalesce(s.updated_at, '-infinity'), v.embedding FROM @.store s%s
LEFT JOIN @.stele_vectors v ON v.prefix = s.prefix AND v.key = s.key AND v.updated_at = s.updated_at AND octet_length(v.embedding) = %s::int WHERE %s`,
		itemBeside, a.add(4*len(r.vector)), r.conditions(&a))
	score := r.s.opts.Index.Scorer(r.vector)
	type address struct{ prefix, key string }
	at := map[address]int{}
	var vector []float32
	var it rankedItem
	var stored pgtype.DriverBytes // not copied
	b.Queue(r.s.db.Qualify(sql), a...).Query(pgdb.Each(func() (err error) {
		if vector, err = decodeVector(vector[:0], stored); err != nil {
			return fmt.Errorf("vector of key %q in namespace %q: %w", it.key, namespaceOf(it.prefix), err)
		}
		i, ok := at[address{it.prefix, it.key}]
		if !ok {
			i = len(r.items)
			at[address{it.prefix, it.key}] = i
			it.labels, it.score = namespaceOf(it.prefix), math.Inf(-1)
			r.items = append(r.items, it)
		}
		if len(vector) > 0 {
			r.items[i].score, r.items[i].scored = max(r.items[i].score, score(vector)), true
		}
		return nil
	}, &it.prefix, &it.key, &it.updated, &stored))
}

// encodeVector lays a vector out as stele's table keeps it: little-endian, four bytes a
// component. An array of the database would cost it more to send than the comparison costs.
func encodeVector(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// decodeVector appends what encodeVector wrote to dst. Anything else, and what is not
// finite, is ErrCorrupt.
func decodeVector(dst []float32, b []byte) ([]float32, error) {
	if len(b)%4 != 0 {
		return nil, fmt.Errorf("%d bytes: %w", len(b), saver.ErrCorrupt)
	}
	for ; len(b) > 0; b = b[4:] {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b))
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("component %v: %w", x, saver.ErrCorrupt)
		}
		dst = append(dst, x)
	}
	return dst, nil
}

func (r *rankedRead) more() (bool, error) {
	if !r.begun {
		r.begun = true
		slices.SortFunc(r.items, nearestFirst)
		if r.match == nil {
			r.looked = min(r.q.Offset, len(r.items))
			r.items = r.items[:min(r.want(), len(r.items))]
		}
		return r.looked < len(r.items), nil
	}
	for i, row := range r.rows {
		if it := &r.items[r.looked+i]; it.scored {
			row.score = &it.score
		}
	}
	r.looked += r.asked
	if err := r.filter(); err != nil {
		return false, err
	}
	return r.looked < len(r.items) && len(r.passed) < r.want(), nil
}

// nearestFirst is the order of a search with a query: items without a vector come last.
func nearestFirst(a, b rankedItem) int {
	switch {
	case a.scored != b.scored && a.scored:
		return -1
	case a.scored != b.scored:
		return 1
	case a.scored && a.score != b.score:
		return cmp.Compare(b.score, a.score)
	}
	return cmp.Or(b.updated.Compare(a.updated), slices.Compare(a.labels, b.labels), strings.Compare(a.key, b.key))
}
