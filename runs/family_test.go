package runs_test

import (
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/runs/runstest"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// Workers execute runs that start children.
func TestFamilies(t *testing.T) {
	runstest.Families(t, func(t *testing.T, clock func() time.Time) runstest.Home {
		q := must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{Clock: clock}))
		return runstest.Home{Saver: memory.New(memory.Options{}), Queue: q, Items: must(store.NewMemory(store.Options{}))}
	})
}
