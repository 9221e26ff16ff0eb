package pgdb

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stele-go/stele/base/metrics"
)

// failures counts what was sent and failed. Those who share a pool share it.
type failures [len(metrics.FailureNames)]atomic.Int64

// note counts err, unless it is none of the database's. lost says that the connection is. It returns err.
func (f *failures) note(ctx context.Context, err error, lost bool) error {
	var pg *pgconn.PgError
	var unanswered *silentError
	var schema *SchemaError
	switch isPG := errors.As(err, &pg); {
	case err == nil || HasCode(err, CodeRefused, CodeUnique): // the rules say no, and are asked that way
	case isPG && HasCode(err, codeSerialization, codeDeadlock):
		f[metrics.FailureConflict].Add(1)
	case isPG && pg.Code == codeCanceled && ctx.Err() == nil, errors.As(err, &unanswered):
		f[metrics.FailureTimeout].Add(1)
	case ctx.Err() != nil:
	case isPG && pg.SeverityUnlocalized == "ERROR", errors.As(err, &schema):
		f[metrics.FailureServer].Add(1)
	case isPG || lost:
		f[metrics.FailureConnection].Add(1)
	}
	return err
}

// Failed counts the error of what was sent without the methods of d, and returns it.
func (d *DB) Failed(ctx context.Context, err error) error { return d.failures.note(ctx, err, true) }

// Metrics are those of the pool, and of all who share it.
func (d *DB) Metrics() (m metrics.Database) {
	s := d.Pool.Stat()
	m = metrics.Database{
		Used: int64(s.AcquiredConns()), Idle: int64(s.IdleConns()), Connecting: int64(s.ConstructingConns()), Max: int64(s.MaxConns()),
		Acquired: s.AcquireCount(), Waited: s.EmptyAcquireCount(), GivenUp: s.CanceledAcquireCount(), Wait: s.AcquireDuration(),
	}
	for i := range m.Failures {
		m.Failures[i] = d.failures[i].Load()
	}
	return m
}
