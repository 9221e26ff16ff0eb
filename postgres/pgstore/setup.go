package pgstore

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

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// migrations are those of the store in langgraph-checkpoint-postgres 3.2: their places
// in the list are the versions that store_migrations records. LangGraph builds the last index
// while it locks writers out; the index is the same.
var migrations = []string{
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

// ownMigrations make stele's tables beside LangGraph's; doc.go says what they are for.
// Released ones never change.
var ownMigrations = []string{
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

// Vectors say how Setup makes the table of vectors: LangGraph's index config.
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

// Setup makes the tables of a store that are missing in the schema, as Setup does those
// of a saver: LangGraph's, at the version that its store for Python reads, and stele's beside
// them. Neither needs the other's tables.
//
// With vectors, the table of vectors is LangGraph's, if the server has the extension
// pgvector, which is created if need be. Else, and without vectors, it is a table of stele
// that needs no extension. When Setup finds the extension later, it moves the vectors;
// open the stores of all programs again then.
//
// Errors: InvalidError, SchemaError, and those of the database.
func Setup(ctx context.Context, connString string, opts postgres.Options, vectors *Vectors) error {
	cfg, err := postgres.ParseConfig(connString)
	if err != nil {
		return err
	}
	return setup(ctx, cfg.ConnConfig, opts, vectors)
}

// SetupPool is Setup on the database of a pool. It opens connections of its own.
func SetupPool(ctx context.Context, pool *pgxpool.Pool, opts postgres.Options, vectors *Vectors) error {
	cfg, err := pgdb.PoolConfig(pool)
	if err != nil {
		return err
	}
	return setup(ctx, cfg, opts, vectors)
}

func setup(ctx context.Context, cfg *pgx.ConnConfig, opts postgres.Options, vectors *Vectors) error {
	if err := vectors.validate(); err != nil {
		return err
	}
	return pgdb.Setup(ctx, cfg, shared(opts), func(ctx context.Context, conn *pgx.Conn, schema string) (*pgdb.SchemaState, func(context.Context) error, error) {
		found, err := inspect(ctx, conn, schema)
		if err != nil || found.complete(vectors) {
			return found.SchemaState, nil, err
		}
		if err := found.ready(vectors.dims()); errors.Is(err, postgres.ErrDimensions) {
			return nil, nil, err
		}
		return found.SchemaState, func(ctx context.Context) error {
			if err := found.upgrade(ctx, conn, vectors); err != nil {
				return err
			}
			now, err := inspect(ctx, conn, found.Schema)
			if err != nil {
				return err
			}
			return now.ready(vectors.dims())
		}, nil
	})
}

func (v *Vectors) dims() int {
	if v == nil {
		return 0
	}
	return v.Dims
}

// complete reports whether nothing is left to be made.
func (f *schemaState) complete(v *Vectors) bool {
	if f.ready(v.dims()) != nil {
		return false
	}
	return !f.wantsVectors(v) || f.vectors.Version >= f.lastVectors(v)
}

// wantsVectors reports whether LangGraph's table of vectors is there or must be made.
func (f *schemaState) wantsVectors(v *Vectors) bool {
	return v != nil && (f.column.dims > 0 || !v.WithoutExtension && (f.extension.schema != "" || f.extension.available))
}

// lastVectors is the version that LangGraph's table of vectors gets.
func (f *schemaState) lastVectors(v *Vectors) int {
	if v.Index == "" || v.Index == Flat {
		return vectorIndexMigration - 1
	}
	return vectorIndexMigration
}

// upgrade runs the migrations that are missing.
func (f *schemaState) upgrade(ctx context.Context, conn *pgx.Conn, v *Vectors) error {
	if err := f.items.Upgrade(ctx, conn, f.SchemaState); err != nil {
		return err
	}
	if err := f.steles.Upgrade(ctx, conn, f.SchemaState); err != nil || !f.wantsVectors(v) {
		return err
	}
	if f.extension.schema == "" {
		if err := f.Migrate(ctx, conn, "CREATE EXTENSION IF NOT EXISTS vector"); err != nil {
			return err
		}
		err := conn.QueryRow(ctx, `SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'`).Scan(&f.extension.schema)
		if err != nil {
			return err
		}
	}
	if f.column.dims == 0 {
		f.column = vectorColumn{v.Dims, v.Half}
	}
	f.vectors.Steps = f.vectorMigrations(v)
	if err := f.vectors.Upgrade(ctx, conn, f.SchemaState); err != nil {
		return err
	}
	return f.moveVectors(ctx, conn)
}

// vectorMigrations are LangGraph's, for the table that is there or that v asks for.
func (f *schemaState) vectorMigrations(v *Vectors) []string {
	extension := pgdb.Quoted(f.extension.schema) + "."
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
		)`, extension, f.column.typeName(), f.column.dims),
	}
	if f.lastVectors(v) < vectorIndexMigration {
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
		v.Index, extension, f.column.typeName(), distances[v.Metric].class)
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
func (f *schemaState) moveVectors(ctx context.Context, conn *pgx.Conn) error {
	into := fmt.Sprintf(`
INSERT INTO @.store_vectors (prefix, key, field_name, embedding, created_at, updated_at)
SELECT $1, $2, $3, $4::text::%s.%s, i.updated_at, i.updated_at FROM @.store i
WHERE i.prefix = $1 AND i.key = $2 AND i.updated_at = $5 ON CONFLICT DO NOTHING`, pgdb.Quoted(f.extension.schema), f.column.typeName())
	for {
		moved := 0
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, pgdb.Qualify(f.Schema, `
DELETE FROM @.stele_vectors WHERE (prefix, key, field_name) IN (SELECT prefix, key, field_name FROM @.stele_vectors LIMIT 500)
RETURNING prefix, key, field_name, embedding, updated_at`))
			if err != nil {
				return err
			}
			b := &pgx.Batch{}
			var prefix, key, field string
			var stored []byte
			var updated time.Time
			_, err = pgx.ForEachRow(rows, []any{&prefix, &key, &field, &stored, &updated}, func() error {
				moved++
				vector, err := decodeVector(nil, stored)
				if err != nil {
					return fmt.Errorf("vector of key %q in namespace %q: %w", key, namespaceOf(prefix), err)
				}
				if len(vector) == f.column.dims {
					b.Queue(pgdb.Qualify(f.Schema, into), prefix, key, field, vectorText(vector), updated)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return tx.SendBatch(ctx, b).Close()
		})
		if err != nil || moved == 0 {
			return err
		}
	}
}
