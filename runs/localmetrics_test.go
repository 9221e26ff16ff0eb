package runs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// TestLocalMetrics: the runs of each graph and status that have not ended are counted, and how long the
// oldest has waited or been under way is told, also after the program began again.
func TestLocalMetrics(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := must(disk.Open(t.TempDir(), disk.Options{}))
	defer s.Close()
	items := must(store.On(s, store.Options{}))
	begin := func() *runs.Local {
		return must(runs.NewLocal(t.Context(), items, runs.LocalOptions{Clock: func() time.Time { return now }}))
	}
	q := begin()
	look := func(want ...metrics.QueueRuns) {
		t.Helper()
		got, err := q.Metrics(t.Context())
		if err != nil || !slices.Equal(got.Runs, want) {
			t.Errorf("%+v, %v; want %+v", got.Runs, err, want)
		}
	}
	look()
	submit := func(thread, graph string, after time.Time) runs.Run {
		return must(q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: graph}, After: after}))
	}
	first := submit("a", "g", time.Time{})
	now = now.Add(time.Minute)
	submit("a", "g", time.Time{})
	submit("b", "h", now.Add(time.Hour))
	look(metrics.QueueRuns{Graph: "g", Status: "pending", Count: 2, Oldest: time.Minute}, metrics.QueueRuns{Graph: "h", Status: "pending", Count: 1})
	c, _, err := q.Claim(t.Context(), "w", []string{"g"})
	if err != nil || c == nil || c.ID != first.ID {
		t.Fatal(c, err)
	}
	now = now.Add(time.Second)
	look(metrics.QueueRuns{Graph: "g", Status: "pending", Count: 1, Oldest: time.Second},
		metrics.QueueRuns{Graph: "g", Status: "running", Count: 1, Oldest: time.Second}, metrics.QueueRuns{Graph: "h", Status: "pending", Count: 1})
	if err := q.Finish(t.Context(), *c, runs.Outcome{Status: runs.Success}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	for range 2 {
		look(metrics.QueueRuns{Graph: "g", Status: "pending", Count: 1, Oldest: 2*time.Hour + time.Second},
			metrics.QueueRuns{Graph: "h", Status: "pending", Count: 1, Oldest: time.Hour + time.Second})
		q = begin()
	}
}
