package pgdb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SchemaState is the state of a schema before a setup changes it.
type SchemaState struct {
	Schema string
	Exists bool
	lacks  []string // tables that the role may not use
}

// InspectSchema looks up the schema in a read-only, repeatable-read transaction and returns its state.
// If the schema exists, inspect is called in that transaction. A missing schema is no error: Exists is
// false. One snapshot is needed because a setup that runs at the same time could otherwise create
// tables after they were looked for and raise the version before it is read.
func InspectSchema(ctx context.Context, conn *pgx.Conn, schema string, inspect func(f *SchemaState, tx pgx.Tx) error) (*SchemaState, error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer rollBack(ctx, tx.Rollback)
	f := &SchemaState{Schema: schema}
	var encoding string
	err = tx.QueryRow(ctx, `SELECT coalesce(nullif($1, ''), current_schema(), ''), current_setting('server_encoding')`, schema).Scan(&f.Schema, &encoding)
	if err != nil {
		return nil, err
	}
	if f.Schema == "" {
		return nil, f.Refuse(ErrNotSetUp, "the search path names no schema that exists; set Options.Schema")
	}
	if encoding != "UTF8" {
		return nil, f.Refuse(ErrEncoding, "it is %s; create a database with ENCODING 'UTF8'", encoding)
	}
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, f.Schema).Scan(&f.Exists); err != nil || !f.Exists {
		return f, err
	}
	if err := inspect(f, tx); err != nil {
		return nil, f.rightsError(err)
	}
	return f, nil
}

// Refuse makes a SchemaError.
func (f *SchemaState) Refuse(reason error, format string, args ...any) error {
	return &SchemaError{f.Schema, reason, fmt.Sprintf(format, args...)}
}

// Table is a table as the catalogue describes it.
type Table struct {
	Columns []string // "name type"
	Key     string   // the columns of the primary key
}

// Tables looks for tables of these names, and notes in lacks those that the role may not use.
func (f *SchemaState) Tables(ctx context.Context, tx pgx.Tx, names []string) (map[string]Table, error) {
	rows, err := tx.Query(ctx, `
		SELECT c.relname,
			ARRAY(SELECT a.attname || ' ' || format_type(a.atttypid, NULL) FROM pg_attribute a
				WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
			coalesce((SELECT string_agg(a.attname, ', ' ORDER BY k.n) FROM pg_index i
				CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n)
				JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
				WHERE i.indrelid = c.oid AND i.indisprimary), ''),
			has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
				AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = ANY($2) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')`, f.Schema, names)
	if err != nil {
		return nil, err
	}
	tables := map[string]Table{}
	var name string
	var t Table
	var rights bool // the role may read and write it
	_, err = pgx.ForEachRow(rows, []any{&name, &t.Columns, &t.Key, &rights}, func() error {
		if tables[name] = t; !rights && !strings.HasSuffix(name, "_migrations") {
			f.lacks = append(f.lacks, name)
		}
		return nil
	})
	slices.Sort(f.lacks)
	return tables, err
}

// Fits refuses tables that have not these columns, or other primary keys.
func (f *SchemaState) Fits(tables map[string]Table, columns map[string][]string, keys map[string]string) error {
	for name, want := range columns {
		t, ok := tables[name]
		if !ok {
			continue
		}
		for _, column := range want {
			if !slices.Contains(t.Columns, column) {
				return f.Refuse(ErrForeign, "table %s has the columns (%s), and not %q; set Options.Schema to another schema", name, strings.Join(t.Columns, ", "), column)
			}
		}
		if key := keys[name]; key != "" && t.Key != key {
			return f.Refuse(ErrForeign, "table %s has the primary key (%s), and not (%s); set Options.Schema to another schema", name, t.Key, key)
		}
	}
	return nil
}

// Migrations are the steps of a schema and the table that records them.
type Migrations struct {
	Table string
	Steps []string // their places are the versions
	// Makes are tables that are there from the version Since on.
	Makes []string
	Since int
	// Version is how far the schema is migrated; -1 if it is not. ReadVersion sets it if there is a
	// table of migrations.
	Version int
}

// ReadVersion reads how far the schema is migrated. It refuses a version that this program does not
// know, and a version whose tables are missing.
func (m *Migrations) ReadVersion(ctx context.Context, tx pgx.Tx, f *SchemaState, tables map[string]Table) error {
	if _, ok := tables[m.Table]; !ok {
		return nil
	}
	if err := tx.QueryRow(ctx, Qualify(f.Schema, "SELECT coalesce(max(v), -1) FROM @."+m.Table)).Scan(&m.Version); err != nil {
		return err
	}
	if last := len(m.Steps) - 1; m.Version > last {
		return f.Refuse(ErrFuture, "%s has version %d, and this program knows up to %d; upgrade it", m.Table, m.Version, last)
	}
	for _, name := range m.Makes {
		if _, ok := tables[name]; !ok && m.Version >= m.Since {
			return f.Refuse(ErrForeign, "%s has version %d, but table %s is missing; restore it, or set Options.Schema to another schema", m.Table, m.Version, name)
		}
	}
	return nil
}

// Missing reports whether there are migrations to run.
func (m *Migrations) Missing() bool { return m.Version < len(m.Steps)-1 }

// Upgrade runs the migrations that are missing. The migrations' own table is made first.
func (m *Migrations) Upgrade(ctx context.Context, conn *pgx.Conn, f *SchemaState) error {
	if err := f.Migrate(ctx, conn, "CREATE TABLE IF NOT EXISTS @."+m.Table+" (v INTEGER PRIMARY KEY)"); err != nil {
		return err
	}
	for v := m.Version + 1; v < len(m.Steps); v++ {
		if err := f.Migrate(ctx, conn, m.Steps[v]); err != nil {
			return fmt.Errorf("%s %d: %w", m.Table, v, err)
		}
		if _, err := conn.Exec(ctx, Qualify(f.Schema, "INSERT INTO @."+m.Table+" (v) VALUES ($1) ON CONFLICT DO NOTHING"), v); err != nil {
			return err
		}
	}
	return nil
}

// Migrate runs one migration. LangGraph takes no lock: where its setup runs at the same
// time, both may find that the table is missing, and one of them fails; then it is there.
func (f *SchemaState) Migrate(ctx context.Context, conn *pgx.Conn, step string) error {
	if err := f.dropInvalid(ctx, conn, step); err != nil {
		return err
	}
	var err error
	for range 3 {
		_, err = conn.Exec(ctx, Qualify(f.Schema, step))
		if !HasCode(err, CodeUnique, codeDuplicateTable, codeDeadlock) {
			return err
		}
	}
	return err
}

// dropInvalid removes the invalid index that a failed build left behind: IF NOT EXISTS would take it
// for the index.
func (f *SchemaState) dropInvalid(ctx context.Context, conn *pgx.Conn, step string) error {
	_, name, ok := strings.Cut(step, "CONCURRENTLY IF NOT EXISTS ")
	if !ok {
		return nil
	}
	name, _, _ = strings.Cut(name, " ")
	var invalid bool
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND NOT i.indisvalid)`, f.Schema, name).Scan(&invalid)
	if err != nil || !invalid {
		return err
	}
	_, err = conn.Exec(ctx, Qualify(f.Schema, "DROP INDEX CONCURRENTLY IF EXISTS @."+name))
	return err
}

// Usable returns a SchemaError if the role lacks rights in a schema that is set up.
func (f *SchemaState) Usable() error {
	if len(f.lacks) > 0 {
		return f.Refuse(ErrRights, "grant SELECT, INSERT, UPDATE and DELETE on %s", strings.Join(f.lacks, ", "))
	}
	return nil
}

// rightsError is err, as a SchemaError if the role may not do something.
func (f *SchemaState) rightsError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == codeNoRights {
		return f.Refuse(ErrRights, "%s; grant it, or use another role", pg.Message)
	}
	return err
}

// Setup does what is left to be done in a schema. One process at a time does it. look inspects the
// schema and returns its state and a function that does the rest, or nil if nothing is left. A
// migration may take hours: meanwhile the connection that holds the lock is pinged to find out whether
// the server is still there.
func Setup(ctx context.Context, cfg *pgx.ConnConfig, opts Options, look func(ctx context.Context, conn *pgx.Conn,
	schema string) (*SchemaState, func(context.Context) error, error)) error {
	d := &DB{opts: opts}
	d.setDefaults()
	conn, err := d.connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	var found *SchemaState
	var upgrade func(context.Context) error
	err = within(ctx, d.patience(), func(ctx context.Context) error {
		found, upgrade, err = look(ctx, conn, opts.Schema)
		return err
	})
	if err != nil || upgrade == nil {
		return err
	}
	lock, err := d.lockSetup(ctx, cfg, found.Schema)
	if err != nil {
		return err
	}
	defer closeConn(ctx, lock)
	return d.whileAnswering(ctx, lock, func(ctx context.Context) error {
		if !found.Exists { // look sees what the database offers, such as an extension, only from a schema
			if _, err := conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+Quoted(found.Schema)); err != nil {
				return found.rightsError(err)
			}
		}
		if found, upgrade, err = look(ctx, conn, found.Schema); err != nil || upgrade == nil {
			return err
		}
		return found.rightsError(upgrade(ctx))
	})
}

// askAgain is the pause between two pings of the connection that holds the lock.
const askAgain = time.Second

// whileAnswering runs f as long as the server answers on another connection.
func (d *DB) whileAnswering(ctx context.Context, other *pgx.Conn, f func(context.Context) error) error {
	working, end := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		for Pause(working, askAgain) == nil {
			err := within(working, d.patience(), other.Ping)
			if err != nil && working.Err() == nil {
				end(fmt.Errorf("the connection that has the lock of the setup: %w", err))
			}
		}
	})
	err := f(working)
	lost := context.Cause(working)
	end(nil)
	asking.Wait()
	if err != nil && lost != nil && ctx.Err() == nil {
		return lost
	}
	return err
}

func (d *DB) connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	cfg = cfg.Copy()
	d.boundConnect(cfg)
	return pgx.ConnectConfig(ctx, cfg)
}

// closeConn closes a connection, even if ctx has ended.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer done()
	conn.Close(ctx)
}

// lockSetup lets one process at a time set a schema up. The lock is one of a transaction
// on a connection of its own, as a pooler may give the next statement to another session.
// Who waits asks again and again: a statement that waited for the lock would hold a
// snapshot, for which CREATE INDEX CONCURRENTLY waits in turn. So would the portal that
// the extended protocol leaves open, hence the simple one, and the lock's transaction at
// another level than read committed.
// The lock is given up by closing the connection.
func (d *DB) lockSetup(ctx context.Context, cfg *pgx.ConnConfig, schema string) (*pgx.Conn, error) {
	conn, err := d.connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for locked := false; ; {
		err := within(ctx, d.patience(), func(ctx context.Context) (err error) {
			locked, err = tryLock(ctx, conn, LockKey(schema, ""))
			return err
		})
		if err == nil && !locked {
			err = Pause(ctx, 10*time.Millisecond+rand.N(20*time.Millisecond))
		}
		if err != nil {
			closeConn(ctx, conn)
			return nil, err
		}
		if locked {
			return conn, nil
		}
	}
}

// tryLock takes a lock in a transaction that stays open, if nobody has it.
func tryLock(ctx context.Context, conn *pgx.Conn, key int64) (locked bool, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return false, err
	}
	err = tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", pgx.QueryExecModeSimpleProtocol, key).Scan(&locked)
	if err == nil && !locked {
		err = tx.Rollback(ctx)
	}
	return locked, err
}
