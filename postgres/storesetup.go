package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// storeMigrations are those of the store in langgraph-checkpoint-postgres 3.2: their places
// in the list are the versions that store_migrations records. LangGraph builds the last index
// while it locks writers out; the index is the same.
var storeMigrations = []string{
	`CREATE TABLE IF NOT EXISTS @.store (
		prefix TEXT NOT NULL,
		key TEXT NOT NULL,
		value JSONB NOT NULL,
		created_at TIMESTAMPTZ DEFAULT CURRENT_TIMESTAMP,
		updated_at TIMESTAMPTZ DEFAULT CURRENT_TIMESTAMP,
		PRIMARY KEY (prefix, key)
	)`,
	`CREATE INDEX CONCURRENTLY IF NOT EXISTS store_prefix_idx ON @.store USING btree (prefix text_pattern_ops)`,
	`ALTER TABLE @.store ADD COLUMN IF NOT EXISTS expires_at TIMESTAMPTZ, ADD COLUMN IF NOT EXISTS ttl_minutes INT`,
	`CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_store_expires_at ON @.store (expires_at) WHERE expires_at IS NOT NULL`,
}

// vectorIndexMigration is the last of LangGraph's migrations of vectors: the index. It is
// not recorded where there is none.
const vectorIndexMigration = 2

// ownStoreMigrations make stele's tables beside LangGraph's; doc.go says what they are for.
// Released ones never change.
var ownStoreMigrations = []string{
	`CREATE TABLE IF NOT EXISTS @.stele_store_migrations (v INTEGER PRIMARY KEY)`,
	`CREATE TABLE IF NOT EXISTS @.stele_items (
		prefix TEXT NOT NULL,
		key TEXT NOT NULL,
		updated_at TIMESTAMPTZ NOT NULL,
		ttl BIGINT,
		kind TEXT,
		value BYTEA,
		PRIMARY KEY (prefix, key),
		FOREIGN KEY (prefix, key) REFERENCES @.store (prefix, key) ON DELETE CASCADE
	)`,
	`CREATE TABLE IF NOT EXISTS @.stele_vectors (
		prefix TEXT NOT NULL,
		key TEXT NOT NULL,
		field_name TEXT NOT NULL,
		updated_at TIMESTAMPTZ NOT NULL,
		embedding BYTEA NOT NULL,
		PRIMARY KEY (prefix, key, field_name),
		FOREIGN KEY (prefix, key) REFERENCES @.store (prefix, key) ON DELETE CASCADE
	)`,
	`ALTER TABLE @.stele_vectors ALTER COLUMN embedding SET STORAGE EXTERNAL`,
	`CREATE TABLE IF NOT EXISTS @.stele_item_calls (
		call UUID PRIMARY KEY,
		at TIMESTAMPTZ NOT NULL,
		given_up BOOLEAN NOT NULL DEFAULT false
	)`,
}

// VectorIndex is a kind of index on vectors in pgvector.
type VectorIndex string

// The kinds of LangGraph's index config. Searches of stele and of LangGraph's store for
// Python are exact and use none; an index serves queries of your own.
const (
	Flat    VectorIndex = "flat" // no index
	HNSW    VectorIndex = "hnsw"
	IVFFlat VectorIndex = "ivfflat"
)

// Vectors say how SetupStore makes the table of vectors: LangGraph's index config.
type Vectors struct {
	// Dims is the number of dimensions of all vectors. Required.
	Dims int
	// Index is Flat by default. For HNSW, M and EfConstruction are parameters, for IVFFlat
	// Lists; 0 leaves them to pgvector. Metric is what the index is for.
	Index                    VectorIndex
	Metric                   store.Metric
	M, EfConstruction, Lists int
	// Half stores components in two bytes instead of four.
	Half bool
	// WithoutExtension does not create the extension, for a role that may not.
	WithoutExtension bool
}

// Limits of pgvector.
const (
	maxDims            = 16000
	maxIndexedDims     = 2000
	maxIndexedHalfDims = 4000
)

func (v *Vectors) validate() error {
	if v == nil {
		return nil
	}
	most := maxDims
	switch v.Index {
	case "", Flat:
	case HNSW, IVFFlat:
		if most = maxIndexedDims; v.Half {
			most = maxIndexedHalfDims
		}
	default:
		return saver.Invalidf("vectors.index", "%q is unknown; use %q, %q or %q", v.Index, Flat, HNSW, IVFFlat)
	}
	if v.Dims < 1 || v.Dims > most {
		return saver.Invalidf("vectors.dims", "%d; use 1 to %d", v.Dims, most)
	}
	if _, ok := distances[v.Metric]; !ok {
		return saver.Invalidf("vectors.metric", "%q is unknown; use %q, %q or %q", v.Metric, store.Cosine, store.Dot, store.L2)
	}
	for name, n := range map[string]int{"m": v.M, "ef_construction": v.EfConstruction, "lists": v.Lists} {
		if n < 0 {
			return saver.Invalidf("vectors."+name, "%d is negative", n)
		}
	}
	return nil
}

// distance is how pgvector measures: the name of the operator class, and the operator.
type distance struct{ class, operator string }

var distances = map[store.Metric]distance{
	"":           {"cosine_ops", "<=>"},
	store.Cosine: {"cosine_ops", "<=>"},
	store.Dot:    {"ip_ops", "<#>"},
	store.L2:     {"l2_ops", "<->"},
}

// SetupStore makes the tables of a store that are missing in the schema, as Setup does those
// of a saver: LangGraph's, at the version that its store for Python reads, and stele's beside
// them. Neither needs the other's tables.
//
// With vectors, the table of vectors is LangGraph's, if the server has the extension
// pgvector, which is created if need be. Else, and without vectors, it is a table of stele
// that needs no extension. When SetupStore finds the extension later, it moves the vectors;
// open the stores of all programs again then.
//
// Errors: InvalidError, SchemaError, and those of the database.
func SetupStore(ctx context.Context, connString string, opts Options, vectors *Vectors) error {
	cfg, err := ParseConfig(connString)
	if err != nil {
		return err
	}
	return setupStore(ctx, cfg.ConnConfig, opts, vectors)
}

// SetupStorePool is SetupStore on the database of a pool. It opens connections of its own.
func SetupStorePool(ctx context.Context, pool *pgxpool.Pool, opts Options, vectors *Vectors) error {
	return setupStore(ctx, pool.Config().ConnConfig, opts, vectors)
}

func setupStore(ctx context.Context, cfg *pgx.ConnConfig, opts Options, vectors *Vectors) error {
	if err := vectors.validate(); err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	found, err := inspectStore(ctx, conn, opts.Schema)
	if err != nil || found.complete(vectors) {
		return err
	}
	if err := found.ready(vectors.dims()); errors.Is(err, ErrDimensions) {
		return err
	}
	unlock, err := lockSetup(ctx, cfg, found.schema)
	if err != nil {
		return err
	}
	defer unlock()
	if !found.exists { // what the database offers is seen from a schema
		if _, err := conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+quoted(found.schema)); err != nil {
			return found.rightsError(err)
		}
	}
	if found, err = inspectStore(ctx, conn, found.schema); err != nil || found.complete(vectors) {
		return err
	}
	if err := found.rightsError(found.upgrade(ctx, conn, vectors)); err != nil {
		return err
	}
	if found, err = inspectStore(ctx, conn, found.schema); err != nil {
		return err
	}
	return found.ready(vectors.dims())
}

func (v *Vectors) dims() int {
	if v == nil {
		return 0
	}
	return v.Dims
}

// complete reports whether nothing is left to be made.
func (s *foundStore) complete(v *Vectors) bool {
	if s.ready(v.dims()) != nil {
		return false
	}
	return !s.wantsVectors(v) || s.vectors >= s.lastVectors(v)
}

// wantsVectors reports whether LangGraph's table of vectors is there or is to be made.
func (s *foundStore) wantsVectors(v *Vectors) bool {
	return v != nil && (s.column.dims > 0 || !v.WithoutExtension && (s.extension.schema != "" || s.extension.available))
}

// lastVectors is the version that LangGraph's table of vectors gets.
func (s *foundStore) lastVectors(v *Vectors) int {
	if v.Index == "" || v.Index == Flat {
		return vectorIndexMigration - 1
	}
	return vectorIndexMigration
}

// upgrade runs the migrations that are missing.
func (s *foundStore) upgrade(ctx context.Context, conn *pgx.Conn, v *Vectors) error {
	if err := s.run(ctx, conn, "store_migrations", s.version, storeMigrations); err != nil {
		return err
	}
	if err := s.run(ctx, conn, "stele_store_migrations", s.own, ownStoreMigrations); err != nil {
		return err
	}
	if !s.wantsVectors(v) {
		return nil
	}
	if s.extension.schema == "" {
		if err := s.migrate(ctx, conn, "CREATE EXTENSION IF NOT EXISTS vector"); err != nil {
			return err
		}
		err := conn.QueryRow(ctx, `SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'`).Scan(&s.extension.schema)
		if err != nil {
			return err
		}
	}
	if err := s.run(ctx, conn, "vector_migrations", s.vectors, s.vectorMigrations(v)); err != nil {
		return err
	}
	return s.moveVectors(ctx, conn, v)
}

// run runs the migrations of a list after version from.
func (s *foundStore) run(ctx context.Context, conn *pgx.Conn, table string, from int, steps []string) error {
	if err := s.migrate(ctx, conn, "CREATE TABLE IF NOT EXISTS @."+table+" (v INTEGER PRIMARY KEY)"); err != nil {
		return err
	}
	for v := from + 1; v < len(steps); v++ {
		if err := s.migrate(ctx, conn, steps[v]); err != nil {
			return fmt.Errorf("%s %d: %w", table, v, err)
		}
		if _, err := conn.Exec(ctx, qualify(s.schema, "INSERT INTO @."+table+" (v) VALUES ($1) ON CONFLICT DO NOTHING"), v); err != nil {
			return err
		}
	}
	return nil
}

// vectorMigrations are LangGraph's, for the table that is there or that v asks for.
func (s *foundStore) vectorMigrations(v *Vectors) []string {
	column := s.column
	if column.dims == 0 {
		column = vectorColumn{v.Dims, v.Half}
	}
	extension := quoted(s.extension.schema) + "."
	list := []string{
		`SELECT 1`, // the extension is there
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS @.store_vectors (
			prefix TEXT NOT NULL,
			key TEXT NOT NULL,
			field_name TEXT NOT NULL,
			embedding %s%s(%d),
			created_at TIMESTAMPTZ DEFAULT CURRENT_TIMESTAMP,
			updated_at TIMESTAMPTZ DEFAULT CURRENT_TIMESTAMP,
			PRIMARY KEY (prefix, key, field_name),
			FOREIGN KEY (prefix, key) REFERENCES @.store (prefix, key) ON DELETE CASCADE
		)`, extension, column.typeName(), column.dims),
	}
	if s.lastVectors(v) < vectorIndexMigration {
		return list
	}
	var with []string
	for _, p := range []struct {
		name  string
		n     int
		index VectorIndex
	}{{"m", v.M, HNSW}, {"ef_construction", v.EfConstruction, HNSW}, {"lists", v.Lists, IVFFlat}} {
		if p.n > 0 && p.index == v.Index {
			with = append(with, fmt.Sprintf("%s = %d", p.name, p.n))
		}
	}
	step := fmt.Sprintf(`CREATE INDEX CONCURRENTLY IF NOT EXISTS store_vectors_embedding_idx ON @.store_vectors USING %s (embedding %s%s_%s)`,
		v.Index, extension, column.typeName(), distances[v.Metric].class)
	if len(with) > 0 {
		step += " WITH (" + strings.Join(with, ", ") + ")"
	}
	return append(list, step)
}

func (c vectorColumn) typeName() string {
	if c.half {
		return "halfvec"
	}
	return "vector"
}

// moveVectors moves the vectors that stele's table got before the extension was there. Those
// of another dimension, or of a value that was replaced since, are in no search; they go.
func (s *foundStore) moveVectors(ctx context.Context, conn *pgx.Conn, v *Vectors) error {
	column := vectorColumn{v.Dims, v.Half}
	if s.column.dims > 0 {
		column = s.column
	}
	into := fmt.Sprintf(`
INSERT INTO @.store_vectors (prefix, key, field_name, embedding, created_at, updated_at)
SELECT $1, $2, $3, $4::text::%s.%s, i.updated_at, i.updated_at FROM @.store i
WHERE i.prefix = $1 AND i.key = $2 AND i.updated_at = $5 ON CONFLICT DO NOTHING`, quoted(s.extension.schema), column.typeName())
	for {
		moved := 0
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, qualify(s.schema, `
DELETE FROM @.stele_vectors WHERE (prefix, key, field_name) IN (SELECT prefix, key, field_name FROM @.stele_vectors LIMIT 500)
RETURNING prefix, key, field_name, embedding, updated_at`))
			if err != nil {
				return err
			}
			b := &pgx.Batch{}
			for rows.Next() {
				var prefix, key, field string
				var stored []byte
				var updated time.Time
				if err := rows.Scan(&prefix, &key, &field, &stored, &updated); err != nil {
					return err
				}
				moved++
				vector, err := decodeVector(nil, stored)
				if err != nil {
					return fmt.Errorf("vector of key %q in namespace %q: %w", key, namespaceOf(prefix), err)
				}
				if len(vector) == column.dims {
					b.Queue(qualify(s.schema, into), prefix, key, field, vectorText(vector), updated)
				}
			}
			if rows.Err() != nil {
				return rows.Err()
			}
			return tx.SendBatch(ctx, b).Close()
		})
		if err != nil || moved == 0 {
			return err
		}
	}
}
