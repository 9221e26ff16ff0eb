package postgres

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// foundStore is what is in a schema of the tables of a store.
type foundStore struct {
	*found
	version   int            // of LangGraph's table of items; -1 if there is none
	own       int            // of stele's tables beside it
	vectors   int            // of LangGraph's table of vectors
	column    vectorColumn   // of LangGraph's table of vectors, if it is there
	extension extensionState // pgvector
	left      bool           // stele_vectors has rows, though LangGraph's table is there
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

// storeColumns are those by which the tables of a store are known to be LangGraph's.
var storeColumns = map[string][]string{
	"store_migrations":  {"v integer"},
	"store":             {"prefix text", "key text", "value jsonb", "created_at timestamp with time zone", "updated_at timestamp with time zone"},
	"vector_migrations": {"v integer"},
	"store_vectors":     {"prefix text", "key text", "field_name text"},
}

var storeKeys = map[string]string{"store": "prefix, key", "store_vectors": "prefix, key, field_name"}

var ownStoreTables = []string{"stele_items", "stele_vectors", "stele_item_calls"}

// inspectStore looks at the tables of a store, and refuses those that are not LangGraph's or
// stele's to use.
func inspectStore(ctx context.Context, conn *pgx.Conn, schema string) (*foundStore, error) {
	names := slices.Concat(ownStoreTables, slices.Collect(maps.Keys(storeColumns)), []string{"stele_store_migrations"})
	s := &foundStore{version: -1, own: -1, vectors: -1}
	f, err := look(ctx, conn, schema, func(f *found, tx pgx.Tx) error {
		s.found = f
		tables, err := f.tables(ctx, tx, names)
		if err != nil {
			return err
		}
		if t, ok := tables["store"]; ok && slices.Contains(t.columns, "namespace_path text") {
			return f.refuse(ErrForeign, "table store is that of LangGraph's store for JavaScript, which is another than Python's; set Options.Schema to another schema")
		}
		if err := f.fits(tables, storeColumns, storeKeys); err != nil {
			return err
		}
		if err := s.versions(ctx, tx, tables); err != nil {
			return err
		}
		return s.lookForVectors(ctx, tx, tables)
	})
	if err != nil {
		return nil, err
	}
	s.found = f
	return s, nil
}

// versions reads how far the tables are migrated, and refuses the future.
func (s *foundStore) versions(ctx context.Context, tx pgx.Tx, tables map[string]table) error {
	for _, list := range []struct {
		table, first string // the first table that a migration makes
		v            *int
		made         int // the version from which on it is there
		known        int
	}{
		{"store_migrations", "store", &s.version, 0, len(storeMigrations) - 1},
		{"vector_migrations", "store_vectors", &s.vectors, 1, vectorIndexMigration},
		{"stele_store_migrations", "stele_items", &s.own, 1, len(ownStoreMigrations) - 1},
	} {
		if _, ok := tables[list.table]; !ok {
			continue
		}
		if err := tx.QueryRow(ctx, qualify(s.schema, "SELECT coalesce(max(v), -1) FROM @."+list.table)).Scan(list.v); err != nil {
			return err
		}
		if *list.v > list.known {
			return s.refuse(ErrFuture, "%s has version %d, and this program knows up to %d; upgrade it", list.table, *list.v, list.known)
		}
		if _, ok := tables[list.first]; !ok && *list.v >= list.made {
			return s.refuse(ErrForeign, "%s has version %d, but table %s is missing; restore it, or set Options.Schema to another schema", list.table, *list.v, list.first)
		}
	}
	return nil
}

// columnType is what format_type prints of a column that pgvector holds.
var columnType = regexp.MustCompile(`^(?:.*\.)?(vector|halfvec)\((\d+)\)$`)

func (s *foundStore) lookForVectors(ctx context.Context, tx pgx.Tx, tables map[string]table) error {
	err := tx.QueryRow(ctx, `
		SELECT coalesce((SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'), ''),
			EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')`).Scan(&s.extension.schema, &s.extension.available)
	if err != nil {
		return err
	}
	if _, ok := tables["store_vectors"]; !ok {
		return nil
	}
	var shown string
	err = tx.QueryRow(ctx, `
		SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'store_vectors' AND a.attname = 'embedding' AND NOT a.attisdropped`, s.schema).Scan(&shown)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	m := columnType.FindStringSubmatch(shown)
	if m == nil {
		return s.refuse(ErrForeign, "column embedding of table store_vectors has the type %q, and not that of a vector; set Options.Schema to another schema", shown)
	}
	s.column.half = m[1] == "halfvec"
	if s.column.dims, err = strconv.Atoi(m[2]); err != nil {
		return s.refuse(ErrForeign, "column embedding of table store_vectors has the type %q", shown)
	}
	if _, ok := tables["stele_vectors"]; ok {
		return tx.QueryRow(ctx, qualify(s.schema, "SELECT EXISTS (SELECT FROM @.stele_vectors)")).Scan(&s.left)
	}
	return nil
}

// ready reports what is missing before a Store can work whose vectors have dims dimensions,
// 0 for a store without an index.
func (s *foundStore) ready(dims int) error {
	switch {
	case s.column.dims > 0 && dims > 0 && s.column.dims != dims:
		return s.refuse(ErrDimensions, "table store_vectors holds vectors of %d dimensions, and the index has %d; set Options.Schema to another schema", s.column.dims, dims)
	case s.version < len(storeMigrations)-1 || s.own < len(ownStoreMigrations)-1:
		return s.refuse(ErrNotSetUp, "LangGraph's table of items is at version %d of %d, stele's beside it at %d of %d; call postgres.SetupStore", s.version, len(storeMigrations)-1, s.own, len(ownStoreMigrations)-1)
	case s.left:
		return s.refuse(ErrNotSetUp, "vectors are in table stele_vectors, and table store_vectors has been made since; call postgres.SetupStore with Vectors, which moves them")
	case len(s.lacks) > 0:
		return s.refuse(ErrRights, "grant SELECT, INSERT, UPDATE and DELETE on %s", strings.Join(s.lacks, ", "))
	}
	return nil
}
