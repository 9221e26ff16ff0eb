//go:build unix

package postgres_test

import (
	"strings"
	"testing"

	"github.com/stele-go/stele/internal/race"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/runs/runstest"
)

func openQueue(t testing.TB, s *postgres.Saver, opts postgres.QueueOptions) *postgres.Queue {
	q := postgres.OpenQueue(s, opts)
	t.Cleanup(func() { q.Close() })
	return q
}

// queues are of one schema, emptied for each case.
func queues(t *testing.T, url string) runstest.Factory {
	schema := newSchema()
	s := open(t, url, postgres.Options{Schema: schema})
	conn := connect(t, url)
	return func(t *testing.T, o runstest.Options) (runs.Queue, func() runs.Queue) {
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(`DELETE FROM @.stele_runs; DELETE FROM @.stele_run_events; DELETE FROM @.stele_schedules`, "@", schema)); err != nil {
			t.Fatal(err)
		}
		opened := func() runs.Queue {
			return openQueue(t, s, postgres.QueueOptions{Clock: o.Clock, LeaseTime: o.LeaseTime})
		}
		return opened(), opened
	}
}

func TestQueueKit(t *testing.T) { runstest.Run(t, queues(t, server(t).Database(t))) }

// The whole kit once more with a pooler in between that gives each transaction another
// server connection.
func TestQueueKitThroughPgBouncer(t *testing.T) {
	if race.Enabled {
		t.Skip("not with -race: TestQueueKit runs the same code of this module, and this test runs without it")
	}
	srv := server(t)
	runstest.Run(t, queues(t, srv.Bouncer(t, srv.Database(t))))
}
