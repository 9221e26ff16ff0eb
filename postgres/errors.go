package postgres

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// Errors of Open and Setup, and of the same functions for a store: the content of the schema, or the
// rights on it, do not suffice. Nothing was changed. Match with errors.Is; the message names the schema
// and says what to do.
var (
	// ErrNotSetUp: the tables are missing, or of an older version. Call Setup with a role
	// that may create tables.
	ErrNotSetUp = pgdb.ErrNotSetUp
	// ErrFuture: a newer release of LangGraph or stele has changed the tables. Upgrade
	// this program.
	ErrFuture = pgdb.ErrFuture
	// ErrShallow: the tables are those of LangGraph's shallow saver, which keeps only the
	// newest checkpoint of a thread. Use another schema, or move the data first.
	ErrShallow = pgdb.ErrShallow
	// ErrForeign: a table of one of the names exists, and is another application's. Use
	// another schema.
	ErrForeign = pgdb.ErrForeign
	// ErrRights: the role may not do what the saver needs. Grant it, or use another role.
	ErrRights = pgdb.ErrRights
	// ErrEncoding: the database does not store text as UTF-8. Create one that does.
	ErrEncoding = pgdb.ErrEncoding
	// ErrDimensions: the table of vectors was made for vectors of another length than those
	// of the index. Use another schema. Only stores give it.
	ErrDimensions = pgdb.ErrDimensions
)

// SchemaError is the error of Open and Setup for a schema that they cannot use. Schema is its name,
// Reason one of the errors above, which it matches, and Detail says what was found, and what to do.
type SchemaError = pgdb.SchemaError

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
	return fmt.Sprintf("thread %q namespace %q: channel %q has another value at version %s; mint versions with NextVersion", e.ThreadID,
		e.Namespace, e.Channel, e.Version)
}

// Is makes every VersionTakenError match ErrVersionTaken.
func (e *VersionTakenError) Is(target error) bool { return target == ErrVersionTaken }
