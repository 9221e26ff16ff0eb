package peer

import (
	"database/sql"
	"errors"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// PostgresDSN names the environment variable that says how to reach a PostgreSQL
// server of one's own, whose data the run replaces. See postgres.sh.
const PostgresDSN = "COMPARE_POSTGRES"

// ErrNoPostgres is what opening "postgres" returns without a server.
var ErrNoPostgres = errors.New("no PostgreSQL server: " + PostgresDSN + " is not set; run postgres.sh")

func openPostgres(o Options) (Store, error) {
	dsn := os.Getenv(PostgresDSN)
	if dsn == "" {
		return nil, ErrNoPostgres
	}
	if o.Mode == Durable {
		dsn += " synchronous_commit=on"
	} else {
		dsn += " synchronous_commit=off"
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(max(8, o.Writers))
	db.SetMaxIdleConns(max(8, o.Writers))
	return openSQL(db, &sqlStore{vacuum: "VACUUM FULL"}, true)
}
