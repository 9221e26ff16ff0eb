package pgdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
)

// The reasons of a SchemaError: see those of package postgres.
var (
	ErrNotSetUp   = errors.New("the schema is not set up")
	ErrFuture     = errors.New("the schema was set up by a newer release")
	ErrShallow    = errors.New("the tables are those of a shallow saver")
	ErrForeign    = errors.New("a table of another application is in the way")
	ErrRights     = errors.New("the role has not the rights")
	ErrEncoding   = errors.New("the encoding of the database is not UTF-8")
	ErrDimensions = errors.New("the table of vectors has another dimension")
)

// SchemaError is postgres.SchemaError.
type SchemaError struct {
	Schema string
	Reason error  // ErrNotSetUp, ErrFuture, …
	Detail string // what was found, and what to do
}

// Error names the schema, what is wrong and what to do.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("schema %q: %v: %s", e.Schema, e.Reason, e.Detail)
}

// Unwrap gives the reason.
func (e *SchemaError) Unwrap() error { return e.Reason }

// Codes of stele_refuse that more than one package knows.
const (
	RefusedVoided = "voided" // the call was given up before it arrived
	RefusedFenced = "fenced" // the thread, or the run, has no lease of this epoch
)

// Error codes of PostgreSQL, and the one that stele_refuse raises.
const (
	CodeRefused          = "STL01"
	codeTooLong          = "54000" // program_limit_exceeded: a key longer than an index holds
	codeNoRights         = "42501"
	codeReadOnly         = "25006"
	codeDiskFull         = "53100"
	codeSerialization    = "40001"
	codeDeadlock         = "40P01"
	CodeUnique           = "23505"
	codeDuplicateTable   = "42P07"
	codeUndefinedTable   = "42P01"
	codeCannotConnectNow = "57P03"
	codeCanceled         = "57014" // a statement timeout
)

// Outcome says whether a call that failed has written.
type Outcome int

const (
	RolledBack Outcome = iota // nothing was written
	Unsent                    // nothing was sent
	Unknown                   // it may have been committed, now or soon
)

// OutcomeOf classifies an error that is not nil. The server has rolled back what it
// answers with an ERROR; a FATAL may come after the commit, as when it ends the wait for a
// replica.
func OutcomeOf(err error) Outcome {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR":
		return RolledBack
	case pgconn.SafeToRetry(err):
		return Unsent
	}
	return Unknown
}

// HasCode reports whether an error of the server has one of these codes.
func HasCode(err error, codes ...string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains(codes, pg.Code)
}

// Passing reports whether the same call may succeed a moment later.
func Passing(err error) bool {
	return HasCode(err, codeSerialization, codeDeadlock, codeCannotConnectNow)
}

// Translate makes the error of a call from that of the database.
func (d *DB) Translate(err error) error {
	var pg *pgconn.PgError
	if err == nil || !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case codeUndefinedTable:
		if d.opts.Setup != "" {
			return &SchemaError{d.Schema, ErrNotSetUp, pg.Message + "; call " + d.opts.Setup}
		}
	case codeTooLong:
		return fmt.Errorf("%w: %w", saver.ErrTooLarge, err)
	case codeDiskFull:
		return fmt.Errorf("the server: %w: %w", fault.ErrDiskFull, err)
	case codeReadOnly:
		return fmt.Errorf("%w: %w", saver.ErrReadOnly, err)
	case codeNoRights:
		return &SchemaError{d.Schema, ErrRights, pg.Message}
	case codeCanceled:
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// Refusal returns the code and the detail of an error that stele_refuse raised.
func Refusal(err error) (code, detail string, ok bool) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != CodeRefused {
		return "", "", false
	}
	return strings.TrimPrefix(pg.Message, "stele: "), pg.Detail, true
}

// outcomeUnknown is ErrOutcomeUnknown for the reason err.
func outcomeUnknown(err error) error {
	return fmt.Errorf("%w: %w", saver.ErrOutcomeUnknown, err)
}
