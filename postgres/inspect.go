package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// found is what is in a schema before anything is done in it.
type found struct {
	schema  string
	exists  bool
	version int // of LangGraph's tables; -1 if there are none
	own     int // of stele's
	lacks   []string
}

// columns are those by which the tables are known to be LangGraph's. Others may be there.
var columns = map[string][]string{
	"checkpoint_migrations": {"v integer"},
	"checkpoints":           {"thread_id text", "checkpoint_ns text", "checkpoint_id text", "parent_checkpoint_id text", "checkpoint jsonb", "metadata jsonb"},
	"checkpoint_blobs":      {"thread_id text", "checkpoint_ns text", "channel text", "version text", "type text", "blob bytea"},
	"checkpoint_writes":     {"thread_id text", "checkpoint_ns text", "checkpoint_id text", "task_id text", "idx integer", "channel text", "type text", "blob bytea"},
}

// primaryKeys tell LangGraph's tables from those of its shallow saver, which has the same
// columns but one checkpoint in a namespace, and no versions.
var primaryKeys = map[string]string{
	"checkpoints":       "thread_id, checkpoint_ns, checkpoint_id",
	"checkpoint_blobs":  "thread_id, checkpoint_ns, channel, version",
	"checkpoint_writes": "thread_id, checkpoint_ns, checkpoint_id, task_id, idx",
}

var shallowKeys = map[string]string{
	"checkpoints":      "thread_id, checkpoint_ns",
	"checkpoint_blobs": "thread_id, checkpoint_ns, channel",
}

var ownTables = []string{"stele_threads", "stele_checkpoints", "stele_calls", "stele_deleted", "stele_voided", "stele_leases",
	"stele_runs", "stele_run_events", "stele_schedules"}

// inspect looks at a schema, and refuses one that is not LangGraph's or stele's to use.
func inspect(ctx context.Context, conn *pgx.Conn, schema string) (*found, error) {
	names := slices.Concat(ownTables, slices.Collect(maps.Keys(columns)), []string{"stele_migrations"})
	return look(ctx, conn, schema, func(f *found, tx pgx.Tx) error {
		tables, err := f.tables(ctx, tx, names)
		if err != nil {
			return err
		}
		if err := f.recognize(tables); err != nil {
			return err
		}
		return f.versions(ctx, tx, tables)
	})
}

// look calls further for a schema that exists, and is in a database that can be used. All
// is seen with one snapshot: else a Setup that runs at the same time would make tables after
// they were looked for, and raise the version before it is read.
func look(ctx context.Context, conn *pgx.Conn, schema string, further func(f *found, tx pgx.Tx) error) (*found, error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer rollBack(ctx, tx.Rollback)
	f := &found{schema: schema, version: -1, own: -1}
	var encoding string
	err = tx.QueryRow(ctx, `SELECT coalesce(nullif($1, ''), current_schema(), ''), current_setting('server_encoding')`, schema).Scan(&f.schema, &encoding)
	if err != nil {
		return nil, err
	}
	if f.schema == "" {
		return nil, &SchemaError{"", ErrNotSetUp, "the search path names no schema that exists; set Options.Schema"}
	}
	if encoding != "UTF8" {
		return nil, f.refuse(ErrEncoding, "it is %s; create a database with ENCODING 'UTF8'", encoding)
	}
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, f.schema).Scan(&f.exists); err != nil || !f.exists {
		return f, err
	}
	if err := further(f, tx); err != nil {
		return nil, f.rightsError(err)
	}
	return f, nil
}

func (f *found) refuse(reason error, format string, args ...any) error {
	return &SchemaError{f.schema, reason, fmt.Sprintf(format, args...)}
}

// table is what the catalogue tells of a table.
type table struct {
	columns []string // "name type"
	key     string   // the columns of the primary key
	rights  bool     // the role may read and write it
}

// tables looks for tables of these names, and notes in lacks those that the role may not use.
func (f *found) tables(ctx context.Context, tx pgx.Tx, names []string) (map[string]table, error) {
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
		WHERE n.nspname = $1 AND c.relname = ANY($2) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')`, f.schema, names)
	if err != nil {
		return nil, err
	}
	tables := map[string]table{}
	for rows.Next() {
		var name string
		var t table
		if err := rows.Scan(&name, &t.columns, &t.key, &t.rights); err != nil {
			return nil, err
		}
		tables[name] = t
		if !t.rights && !strings.HasSuffix(name, "_migrations") {
			f.lacks = append(f.lacks, name)
		}
	}
	slices.Sort(f.lacks)
	return tables, rows.Err()
}

// recognize refuses tables that are not what their names say.
func (f *found) recognize(tables map[string]table) error {
	for _, name := range []string{"checkpoint_blobs", "checkpoints"} {
		if t, ok := tables[name]; ok && t.key == shallowKeys[name] {
			return f.refuse(ErrShallow, "table %s has the primary key (%s); set Options.Schema to another schema", name, t.key)
		}
	}
	return f.fits(tables, columns, primaryKeys)
}

// fits refuses tables that have not these columns, or other primary keys.
func (f *found) fits(tables map[string]table, columns map[string][]string, keys map[string]string) error {
	for name, want := range columns {
		t, ok := tables[name]
		if !ok {
			continue
		}
		for _, column := range want {
			if !slices.Contains(t.columns, column) {
				return f.refuse(ErrForeign, "table %s has the columns (%s), and not %q; set Options.Schema to another schema", name, strings.Join(t.columns, ", "), column)
			}
		}
		if key := keys[name]; key != "" && t.key != key {
			return f.refuse(ErrForeign, "table %s has the primary key (%s), and not (%s); set Options.Schema to another schema", name, t.key, key)
		}
	}
	return nil
}

// versions reads how far the schema is migrated, and refuses the future.
func (f *found) versions(ctx context.Context, tx pgx.Tx, tables map[string]table) error {
	for _, list := range []struct {
		table string
		v     *int
		known int
		whose string
	}{
		{"checkpoint_migrations", &f.version, len(migrations) - 1, "LangGraph"},
		{"stele_migrations", &f.own, len(ownMigrations) - 1, "stele"},
	} {
		if _, ok := tables[list.table]; !ok {
			continue
		}
		if err := tx.QueryRow(ctx, qualify(f.schema, "SELECT coalesce(max(v), -1) FROM @."+list.table)).Scan(list.v); err != nil {
			return err
		}
		if *list.v > list.known {
			return f.refuse(ErrFuture, "%s has version %d of %s, and this program knows up to %d; upgrade it", list.table, *list.v, list.whose, list.known)
		}
	}
	for name := range columns {
		if _, ok := tables[name]; !ok && f.version >= 3 {
			return f.refuse(ErrForeign, "checkpoint_migrations has version %d, but table %s is missing; restore it, or set Options.Schema to another schema", f.version, name)
		}
	}
	return nil
}

// ready reports what is missing before a Saver can work.
func (f *found) ready() error {
	switch {
	case f.version < len(migrations)-1 || f.own < len(ownMigrations)-1:
		return f.refuse(ErrNotSetUp, "LangGraph's tables are at version %d of %d, stele's at %d of %d; call postgres.Setup", f.version, len(migrations)-1, f.own, len(ownMigrations)-1)
	case len(f.lacks) > 0:
		return f.refuse(ErrRights, "grant SELECT, INSERT, UPDATE and DELETE on %s", strings.Join(f.lacks, ", "))
	}
	return nil
}

// rightsError is err, as a SchemaError if the role may not do something.
func (f *found) rightsError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == codeNoRights {
		return f.refuse(ErrRights, "%s; grant it, or use another role", pg.Message)
	}
	return err
}
