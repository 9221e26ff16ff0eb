package pgstore

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// schemaState is the state of a schema with the tables of a store.
type schemaState struct {
	*pgdb.SchemaState
	items     pgdb.Migrations // of LangGraph's table of items
	vectors   pgdb.Migrations // of LangGraph's table of vectors; it has only the steps of its newest version
	steles    pgdb.Migrations // of stele's tables beside them
	column    vectorColumn    // of LangGraph's table of vectors, if it is there
	extension extensionState  // pgvector
	left      bool            // stele_vectors has rows, though LangGraph's table is there
}

// vectorColumn is the column of vectors in LangGraph's table.
type vectorColumn struct {
	dims int // 0: there is no such table
	half bool
}

// extensionState says whether the database has pgvector.
type extensionState struct {
	schema    string // where it is installed; "" if it is not
	available bool   // it can be installed
}

// columns are the columns by which LangGraph's tables of a store are recognised.
var columns = map[string][]string{
	"store_migrations":  {"v integer"},
	"store":             {"prefix text", "key text", "value jsonb", "created_at timestamp with time zone", "updated_at timestamp with time zone"},
	"vector_migrations": {"v integer"},
	"store_vectors":     {"prefix text", "key text", "field_name text"},
}

var primaryKeys = map[string]string{"store": "prefix, key", "store_vectors": "prefix, key, field_name"}

var ownTables = []string{"stele_items", "stele_vectors", "stele_item_calls"}

// inspect looks at the tables of a store, and refuses those that are not LangGraph's or
// stele's to use.
func inspect(ctx context.Context, conn *pgx.Conn, schema string) (f *schemaState, err error) {
	f = &schemaState{
		items:   pgdb.Migrations{Table: "store_migrations", Steps: migrations, Makes: []string{"store"}, Version: -1},
		vectors: pgdb.Migrations{Table: "vector_migrations", Steps: make([]string, vectorIndexMigration+1), Makes: []string{"store_vectors"}, Since: 1, Version: -1},
		steles:  pgdb.Migrations{Table: "stele_store_migrations", Steps: ownMigrations, Makes: []string{"stele_items"}, Since: 1, Version: -1},
	}
	names := slices.Concat(ownTables, slices.Collect(maps.Keys(columns)), []string{"stele_store_migrations"})
	f.SchemaState, err = pgdb.InspectSchema(ctx, conn, schema, func(at *pgdb.SchemaState, tx pgx.Tx) error {
		f.SchemaState = at
		tables, err := at.Tables(ctx, tx, names)
		if err != nil {
			return err
		}
		if t, ok := tables["store"]; ok && slices.Contains(t.Columns, "namespace_path text") {
			return at.Refuse(postgres.ErrForeign, "table store is that of LangGraph's store for JavaScript, which is another than Python's; set Options.Schema to another schema")
		}
		if err := at.Fits(tables, columns, primaryKeys); err != nil {
			return err
		}
		for _, m := range []*pgdb.Migrations{&f.items, &f.vectors, &f.steles} {
			if err := m.ReadVersion(ctx, tx, at, tables); err != nil {
				return err
			}
		}
		return f.lookForVectors(ctx, tx, tables)
	})
	return f, err
}

// columnType matches the type that format_type prints for a column of pgvector.
var columnType = regexp.MustCompile(`^(?:.*\.)?(vector|halfvec)\((\d+)\)$`)

func (f *schemaState) lookForVectors(ctx context.Context, tx pgx.Tx, tables map[string]pgdb.Table) error {
	err := tx.QueryRow(ctx, `
		SELECT coalesce((SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'), ''),
			EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')`).Scan(&f.extension.schema, &f.extension.available)
	if err != nil {
		return err
	}
	if _, ok := tables["store_vectors"]; !ok {
		return nil
	}
	var shown string
	err = tx.QueryRow(ctx, `
		SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'store_vectors' AND a.attname = 'embedding' AND NOT a.attisdropped`, f.Schema).Scan(&shown)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	m := columnType.FindStringSubmatch(shown)
	if m == nil {
		return f.Refuse(postgres.ErrForeign, "column embedding of table store_vectors has the type %q, and not that of a vector; set Options.Schema to another schema", shown)
	}
	f.column.half = m[1] == "halfvec"
	if f.column.dims, err = strconv.Atoi(m[2]); err != nil {
		return f.Refuse(postgres.ErrForeign, "column embedding of table store_vectors has the type %q", shown)
	}
	if _, ok := tables["stele_vectors"]; ok {
		return tx.QueryRow(ctx, pgdb.Qualify(f.Schema, "SELECT EXISTS (SELECT FROM @.stele_vectors)")).Scan(&f.left)
	}
	return nil
}

// ready returns an error if a Store whose vectors have dims dimensions cannot use the schema; 0 is a
// store without an index.
func (f *schemaState) ready(dims int) error {
	switch {
	case f.column.dims > 0 && dims > 0 && f.column.dims != dims:
		return f.Refuse(postgres.ErrDimensions, "table store_vectors holds vectors of %d dimensions, and the index has %d; set Options.Schema to another schema", f.column.dims, dims)
	case f.items.Missing() || f.steles.Missing():
		return f.Refuse(postgres.ErrNotSetUp, "LangGraph's table of items is at version %d of %d, stele's beside it at %d of %d; call pgstore.Setup",
			f.items.Version, len(migrations)-1, f.steles.Version, len(ownMigrations)-1)
	case f.left:
		return f.Refuse(postgres.ErrNotSetUp, "vectors are in table stele_vectors, and table store_vectors has been made since; call pgstore.Setup with Vectors, which moves them")
	}
	return f.Usable()
}
