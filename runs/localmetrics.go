package runs

import (
	"cmp"
	"context"
	"slices"

	"github.com/stele-go/stele/base/metrics"
)

// Metrics says what the queue holds that has not ended. It looks at each run that is in memory and has not
// ended, and other calls wait meanwhile.
func (q *Local) Metrics(ctx context.Context) (out metrics.Queue, err error) {
	if err := ctx.Err(); err != nil {
		return out, err
	}
	at := map[[2]string]int{}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	for _, r := range q.open {
		key := [2]string{r.Spec.Graph, string(r.Status)}
		i, ok := at[key]
		if !ok {
			i, at[key] = len(out.Runs), len(out.Runs)
			out.Runs = append(out.Runs, metrics.QueueRuns{Graph: key[0], Status: key[1]})
		}
		since := r.After
		if r.Status == Running {
			since = r.Started
		}
		out.Runs[i].Count++
		out.Runs[i].Oldest = max(out.Runs[i].Oldest, now.Sub(since))
	}
	out.Versions = q.versions()
	slices.SortFunc(out.Runs, func(a, b metrics.QueueRuns) int {
		return cmp.Or(cmp.Compare(a.Graph, b.Graph), cmp.Compare(a.Status, b.Status))
	})
	return out, nil
}
