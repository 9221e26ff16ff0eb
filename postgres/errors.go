package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
)

// Errors of Open and Setup, and of their likes for a store: what is in the schema, or may be done in it, is not what the
// saver needs. Nothing was changed. Match with errors.Is; the message names the schema
// and says what to do.
var (
	// ErrNotSetUp: the tables are missing, or of an older version. Call Setup with a role
	// that may create tables.
	ErrNotSetUp = errors.New("the schema is not set up")
	// ErrFuture: a newer release of LangGraph or stele has changed the tables. Upgrade
	// this program.
	ErrFuture = errors.New("the schema was set up by a newer release")
	// ErrShallow: the tables are those of LangGraph's shallow saver, which keeps only the
	// newest checkpoint of a thread. Use another schema, or move the data first.
	ErrShallow = errors.New("the tables are those of a shallow saver")
	// ErrForeign: a table of one of the names exists, and is another application's. Use
	// another schema.
	ErrForeign = errors.New("a table of another application is in the way")
	// ErrRights: the role may not do what the saver needs. Grant it, or use another role.
	ErrRights = errors.New("the role has not the rights")
	// ErrEncoding: the database does not store text as UTF-8. Create one that does.
	ErrEncoding = errors.New("the encoding of the database is not UTF-8")
	// ErrDimensions: the table of vectors was made for vectors of another length than those
	// of the index. Use another schema. Only stores give it.
	ErrDimensions = errors.New("the table of vectors has another dimension")
)

// SchemaError is what Open and Setup say of a schema they cannot use. It matches one of
// the errors above.
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

// ErrVersionTaken matches every VersionTakenError.
var ErrVersionTaken = errors.New("the version has another value already")

// VersionTakenError refuses a value for a channel at a version that another checkpoint of
// the namespace reads something else at. The schema has one value for a channel and a
// version, so that storing this one would change what the other checkpoint reads. It
// matches ErrVersionTaken. Nothing was written. Versions that NextVersion mints are never
// taken.
type VersionTakenError struct {
	ThreadID, Namespace string
	Channel, Version    string
}

// Error names the channel and the version.
func (e *VersionTakenError) Error() string {
	return fmt.Sprintf("thread %q namespace %q: channel %q has another value at version %s; mint versions with NextVersion", e.ThreadID, e.Namespace, e.Channel, e.Version)
}

// Is makes every VersionTakenError match ErrVersionTaken.
func (e *VersionTakenError) Is(target error) bool { return target == ErrVersionTaken }

// Error codes of PostgreSQL, and the one that stele_refuse raises.
const (
	codeRefused          = "STL01"
	codeTooLong          = "54000" // program_limit_exceeded: a key longer than an index holds
	codeNoRights         = "42501"
	codeReadOnly         = "25006"
	codeDiskFull         = "53100"
	codeSerialization    = "40001"
	codeDeadlock         = "40P01"
	codeUnique           = "23505"
	codeDuplicateTable   = "42P07"
	codeUndefinedTable   = "42P01"
	codeCannotConnectNow = "57P03"
	codeCanceled         = "57014" // a statement timeout
	codeNoStatement      = "26000"
	codeNotSupported     = "0A000" // as a plan whose result would be of another type
)

// outcome is what is known after an error of a call that writes.
type outcome int

const (
	rolledBack outcome = iota // nothing was written
	unsent                    // nothing was sent
	unknown                   // it may have been committed, now or soon
)

// outcomeOf classifies an error that is not nil. The server has rolled back what it
// answers with an ERROR; a FATAL may come after the commit, as when it ends the wait for a
// replica.
func outcomeOf(err error) outcome {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR":
		return rolledBack
	case pgconn.SafeToRetry(err):
		return unsent
	}
	return unknown
}

// passing reports whether the same call may succeed a moment later.
func passing(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == codeSerialization || pg.Code == codeDeadlock || pg.Code == codeCannotConnectNow
	}
	return false
}

// translate makes the error of a call from that of the database.
func (s *Saver) translate(err error) error {
	var pg *pgconn.PgError
	if err == nil || !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case codeTooLong:
		return fmt.Errorf("%w: %w", saver.ErrTooLarge, err)
	case codeDiskFull:
		return fmt.Errorf("the server: %w: %w", fault.ErrDiskFull, err)
	case codeReadOnly:
		return fmt.Errorf("%w: %w", saver.ErrReadOnly, err)
	case codeNoRights:
		return &SchemaError{s.schema, ErrRights, pg.Message}
	case codeCanceled:
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// refusal is what stele_refuse raised: a code and its detail.
func refusal(err error) (code, detail string, ok bool) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != codeRefused {
		return "", "", false
	}
	return strings.TrimPrefix(pg.Message, "stele: "), pg.Detail, true
}

// outcomeUnknown is ErrOutcomeUnknown for the reason err.
func outcomeUnknown(err error) error {
	return fmt.Errorf("%w: %w", saver.ErrOutcomeUnknown, err)
}
