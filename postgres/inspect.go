package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// schemaState is the state of a schema with the tables of a saver and a queue.
type schemaState struct {
	*pgdb.SchemaState
	langGraphs, steles pgdb.Migrations
}

// columns are the columns by which LangGraph's tables are recognised. The tables may have others.
var columns = map[string][]string{
	"checkpoint_migrations": {"v integer"},
	"checkpoints":           {"thread_id text", "checkpoint_ns text", "checkpoint_id text", "parent_checkpoint_id text", "checkpoint jsonb", "metadata jsonb"},
	"checkpoint_blobs":      {"thread_id text", "checkpoint_ns text", "channel text", "version text", "type text", "blob bytea"},
	"checkpoint_writes": {"thread_id text", "checkpoint_ns text", "checkpoint_id text", "task_id text", "idx integer", "channel text",
		"type text", "blob bytea"},
}

// primaryKeys distinguish LangGraph's tables from those of its shallow saver, which have the same
// columns but only one checkpoint in a namespace, and no versions.
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
	"stele_runs", "stele_run_events", "stele_schedules", "stele_workers"}

// inspect looks at a schema, and refuses one that is not LangGraph's or stele's to use.
func inspect(ctx context.Context, conn *pgx.Conn, schema string) (f *schemaState, err error) {
	f = &schemaState{
		langGraphs: pgdb.Migrations{Table: "checkpoint_migrations", Steps: migrations, Makes: slices.Sorted(maps.Keys(columns)), Since: 3, Version: -1},
		steles:     pgdb.Migrations{Table: "stele_migrations", Steps: ownMigrations, Version: -1},
	}
	names := slices.Concat(ownTables, f.langGraphs.Makes, []string{"stele_migrations"})
	f.SchemaState, err = pgdb.InspectSchema(ctx, conn, schema, func(at *pgdb.SchemaState, tx pgx.Tx) error {
		tables, err := at.Tables(ctx, tx, names)
		if err != nil {
			return err
		}
		for _, name := range []string{"checkpoint_blobs", "checkpoints"} {
			if t, ok := tables[name]; ok && t.Key == shallowKeys[name] {
				return at.Refuse(ErrShallow, "table %s has the primary key (%s); set Options.Schema to another schema", name, t.Key)
			}
		}
		if err := at.Fits(tables, columns, primaryKeys); err != nil {
			return err
		}
		if err := f.langGraphs.ReadVersion(ctx, tx, at, tables); err != nil {
			return err
		}
		return f.steles.ReadVersion(ctx, tx, at, tables)
	})
	return f, err
}

// ready returns an error if a Saver cannot use the schema.
func (f *schemaState) ready() error {
	if f.langGraphs.Missing() || f.steles.Missing() {
		return f.Refuse(ErrNotSetUp, "LangGraph's tables are at version %d of %d, stele's at %d of %d; call postgres.Setup",
			f.langGraphs.Version, len(migrations)-1, f.steles.Version, len(ownMigrations)-1)
	}
	return f.Usable()
}
