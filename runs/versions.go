package runs

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
)

// Versions: which worker goes on with a thread that another version of the graph has stored.

// heldFor is for how many lease times a thread that would break is left to workers of its version, before
// another one judges it again: it may be of a later version.
const heldFor = 20

// serve tells the queue which versions this worker has, and returns those of the others.
func (w *Worker) serve(ctx context.Context) (others map[string][]string, err error) {
	versions := map[string]string{}
	for name, g := range w.Graphs {
		versions[name] = g.Version()
	}
	return w.Queue.Serve(ctx, w.name, versions)
}

// another returns how a run is given back whose thread this worker leaves to workers of another version: that
// of its newest checkpoint. It returns nil for one that goes on here. The worker owns the thread.
func (w *Worker) another(ctx context.Context, c Claim, info saver.ThreadInfo) (*Outcome, error) {
	g := w.Graphs[c.Graph]
	if info.Version == "" || info.Version == g.Version() || info.Graph != g.Name() {
		return nil, nil
	}
	w.mu.Lock()
	stopping := w.stopping
	w.mu.Unlock()
	if stopping { // its row in the queue is gone, and stays so
		return &Outcome{Status: Pending, Uncounted: true}, nil
	}
	back := &Outcome{Status: Pending, Uncounted: true, Version: info.Version, After: time.Now().Add(w.Queue.LeaseTime())}
	if !g.MigratesFrom(info.Version) {
		others, err := w.serve(ctx)
		if err != nil {
			return nil, persistError("look for workers of version "+info.Version, err)
		}
		if slices.Contains(others[c.Graph], info.Version) {
			return back, nil
		}
	}
	report, err := g.Preflight(ctx, w.Saver, saver.ThreadQuery{ThreadID: c.ThreadID})
	if err != nil {
		return nil, persistError("judge thread "+c.ThreadID, err)
	}
	var broken error = errPinned
	switch {
	case len(report.Broken) > 0:
		broken = report.Broken[0].Err
	case !w.Pinned || g.MigratesFrom(info.Version):
		return nil, nil
	}
	back.After = time.Now().Add(heldFor * w.Queue.LeaseTime())
	w.logger().Warn("a run waits for a worker with the version that stored its thread", "run", c.ID, "thread", c.ThreadID, "graph", c.Graph,
		"version", info.Version, "here", g.Version(), pregel.LogError(broken))
	return back, nil
}

var errPinned = errors.New("this worker takes over no threads of another version")
