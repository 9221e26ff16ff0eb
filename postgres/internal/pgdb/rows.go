package pgdb

import (
	"context"
	"errors"
	"iter"

	"github.com/jackc/pgx/v5"
)

// Each is a function of a batch that scans rows into targets, one after the other, and calls f
// behind each.
func Each(f func() error, targets ...any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, targets, f)
		return err
	}
}

// Row is a function of a batch that scans the row into targets.
func Row(targets ...any) func(pgx.Row) error {
	return func(row pgx.Row) error { return row.Scan(targets...) }
}

// MaybeRow is Row for a query that may return no row. It sets found.
func MaybeRow(found *bool, targets ...any) func(pgx.Row) error {
	return func(row pgx.Row) error {
		err := row.Scan(targets...)
		if *found = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	}
}

// NotNull is data as a value that is not NULL.
func NotNull(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// Yield yields the results of read, as long as the database is not closed.
func Yield[T any](ctx context.Context, d *DB, read func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := read()
		for i := 0; err == nil && i < len(all); i++ {
			if err = d.Ready(ctx); err == nil && !yield(all[i], nil) {
				return
			}
		}
		if err != nil {
			yield(*new(T), err)
		}
	}
}
