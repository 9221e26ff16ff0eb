//go:build unix

package postgres_test

import (
	"testing"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/pregel/changetest"
	"github.com/stele-go/stele/saver"
)

// Threads survive changed programs as they do on disk, and a preflight says the same.
func TestChanges(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	var s *postgres.Saver
	changetest.Run(t, func(t *testing.T) saver.Saver {
		if s != nil {
			s.Close()
		}
		s = open(t, url, postgres.Options{})
		return s
	}, "../pregel/changetest/testdata/preflights.golden", false)
}
