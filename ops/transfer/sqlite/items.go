package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/store"
)

// beginItems looks at the table of LangGraph's long-term store. Older files have no lives of items.
func (s *Source) beginItems(columns map[string]bool) error {
	for _, need := range []string{"store.prefix", "store.key", "store.value", "store.created_at", "store.updated_at"} {
		if !columns[need] {
			return fmt.Errorf("%w: it has no column %s", ErrForeign, need)
		}
	}
	expires, minutes := "NULL", "NULL"
	if columns["store.expires_at"] {
		expires = "CAST(expires_at AS TEXT)"
	}
	if columns["store.ttl_minutes"] {
		minutes = "ttl_minutes"
	}
	s.items = "SELECT prefix, key, value, CAST(created_at AS TEXT), CAST(updated_at AS TEXT), " + expires + ", " + minutes + " FROM store"
	return nil
}

// CountItems is the number of items of LangGraph's long-term store in the file, with those that
// have expired.
func (s *Source) CountItems(ctx context.Context) (n int, err error) {
	if s.items == "" {
		return 0, nil
	}
	err = s.tx.QueryRowContext(ctx, "SELECT count(*) FROM store").Scan(&n)
	return n, err
}

// Items implements transfer.ItemSource: the items of LangGraph's long-term store, by namespace and
// key. The table has the times to the second.
func (s *Source) Items(ctx context.Context, below store.Namespace) iter.Seq2[*store.Item, error] {
	return func(yield func(*store.Item, error) bool) {
		if s.items == "" {
			return
		}
		now := time.Now()
		query, args := s.items, []any(nil)
		if len(below) > 0 {
			prefix := strings.Join(below, ".")
			query += " WHERE prefix = ? OR substr(prefix, 1, ?) = ?"
			args = []any{prefix, len([]rune(prefix)) + 1, prefix + "."}
		}
		err := s.rows(ctx, func(scan func(...any) error) error {
			var r itemRow
			if err := scan(&r.prefix, &r.key, &r.value, &r.created, &r.updated, &r.expires, &r.minutes); err != nil {
				return err
			}
			it, err := r.item()
			if err == nil && !it.ExpiresAt.IsZero() && !now.Before(it.ExpiresAt) {
				return nil
			}
			if err != nil {
				it, err = nil, &transfer.Rejected{What: "item", Name: fmt.Sprintf("%q %q", r.prefix, r.key), Kind: "json", Raw: r.value, Reason: err}
			}
			if !yield(it, err) {
				return errStopped
			}
			return nil
		}, query+" ORDER BY prefix, key", args...)
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// itemRow is a row of table store.
type itemRow struct {
	prefix, key               string
	value                     []byte
	created, updated, expires sql.NullString
	minutes                   sql.NullFloat64
}

func (r *itemRow) item() (*store.Item, error) {
	it := &store.Item{Namespace: strings.Split(r.prefix, "."), Key: r.key}
	var err error
	if it.Value, err = readObject(r.value); err != nil {
		return nil, err
	}
	if it.CreatedAt, err = readTime(r.created); err != nil {
		return nil, fmt.Errorf("created_at: %w", err)
	}
	if it.UpdatedAt, err = readTime(r.updated); err != nil {
		return nil, fmt.Errorf("updated_at: %w", err)
	}
	if !r.expires.Valid {
		return it, nil
	}
	if it.ExpiresAt, err = readTime(r.expires); err != nil {
		return nil, fmt.Errorf("expires_at: %w", err)
	}
	if m := r.minutes.Float64; m > 0 && m < math.MaxInt64/float64(time.Minute) {
		it.TTL = time.Duration(m * float64(time.Minute)).Truncate(time.Microsecond)
	}
	return it, nil
}

// readTime reads a time as SQLite's CURRENT_TIMESTAMP, and Python's sqlite3, write it. One without
// a zone is UTC.
func readTime(s sql.NullString) (time.Time, error) {
	for _, layout := range []string{"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, strings.Replace(s.String, "T", " ", 1)); err == nil {
			return t.UTC().Truncate(time.Microsecond), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time", s.String)
}

// readObject reads a JSON object. A number without a point and an exponent is an integer.
func readObject(data []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON")
	}
	if m == nil {
		return nil, errors.New("the value is null")
	}
	v, err := numbers(m)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

// numbers replaces each json.Number in v.
func numbers(v any) (_ any, err error) {
	switch x := v.(type) {
	case json.Number:
		if strings.ContainsAny(x.String(), ".eE") {
			return x.Float64()
		}
		return x.Int64()
	case []any:
		for i := range x {
			if x[i], err = numbers(x[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range x {
			if x[name], err = numbers(x[name]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
