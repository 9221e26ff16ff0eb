package runs

import (
	"context"
	"errors"
	"slices"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
)

// Versions: which worker goes on with a thread that another version of the graph has stored.

// leftLeases is for how many lease times a thread that would break is left to workers of its version, before
// another one judges it again: it may be of a later version.
const leftLeases = 20

// versions are those of the worker's graphs.
func (w *Worker) versions() map[string]string {
	versions := map[string]string{}
	for name, g := range w.Graphs {
		versions[name] = g.Version()
	}
	return versions
}

// serve tells the queue which versions this worker has, and returns those of the others.
func (w *Worker) serve(ctx context.Context) (others map[string][]string, err error) {
	return w.Queue.Serve(ctx, w.name, w.versions())
}

// another returns how a run is given back whose thread this worker leaves to workers of another version: that
// of the last attempt at a run of the thread, which may have left writes behind a checkpoint of the version
// before, or else that of the newest checkpoint. It returns nil for one that goes on here, and notes the version
// with it. The worker owns the thread. head is its newest checkpoint, nil if that was not read.
func (w *Worker) another(ctx context.Context, j *job, info saver.ThreadInfo, head *saver.Tuple) (*Outcome, error) {
	c, own := j.claim, w.Graphs[j.claim.Graph].Version()
	// The information has no version of a thread that is done. Where the run before was of this version, the thread is.
	unsaid := info.Status == saver.StatusDone && (c.Before != own || c.Version != own)
	if head == nil && info.Head != "" && (unsaid || c.Before != "" && info.Version != "" && c.Before != info.Version) {
		var err error
		if head, _, err = w.thread(ctx, c.ThreadID); err != nil {
			return nil, err
		}
	}
	graph, stored := info.Graph, info.Version
	if unsaid && head != nil && head.Note != nil {
		graph, stored = head.Note.Graph, head.Note.Version
	}
	version := stored
	// What was stored by hand is newer than the run before.
	byHand := c.Epoch == 1 && head != nil && head.Metadata.RunID() == "" && len(head.PendingWrites) == 0
	if c.Version != "" && (c.Before != "" || c.Epoch > 1) && !byHand { // else it is that of this claim
		version = c.Version
	}
	theirs := version != own
	if !theirs { // it may not fit the checkpoint all the same
		version = stored
	}
	if version != "" && version != own && graph == w.Graphs[c.Graph].Name() {
		if back, err := w.leave(ctx, c, version, theirs, info.Status); back != nil || err != nil {
			return back, err
		}
	}
	if c.Version == own {
		return nil, nil
	}
	w.mu.Lock()
	j.claim.Version = own
	c = j.claim
	w.mu.Unlock()
	return nil, persistError("note the version of run "+c.ID, w.Queue.Mark(ctx, c, c.Mark))
}

// leave decides for another whether a thread goes on at workers of a version that is not this worker's. Where it
// is theirs it does so as long as one is alive.
func (w *Worker) leave(ctx context.Context, c Claim, version string, theirs bool, status saver.Status) (*Outcome, error) {
	w.mu.Lock()
	stopping := w.stopping
	w.mu.Unlock()
	if stopping { // the queue has been told so, and is not told otherwise
		return &Outcome{Status: Pending, Uncounted: true}, nil
	}
	g, declared := w.Graphs[c.Graph], w.Graphs[c.Graph].MigratesFrom(version)
	back := &Outcome{Status: Pending, Uncounted: true, Version: version, Delay: w.Queue.LeaseTime()}
	if theirs && !declared {
		others, err := w.serve(ctx)
		if err != nil {
			return nil, persistError("look for workers of version "+version, err)
		}
		if slices.Contains(others[c.Graph], version) {
			return back, nil
		}
	}
	q := saver.ThreadQuery{ThreadID: c.ThreadID}
	if status == saver.StatusDone { // else it is not judged
		q.Status = status
	}
	report, err := g.Preflight(ctx, w.Saver, q)
	if err != nil {
		return nil, persistError("judge thread "+c.ThreadID, err)
	}
	broken := errPinned
	switch {
	case len(report.Broken) > 0:
		broken = report.Broken[0].Err
	case declared || !w.Pinned:
		return nil, nil
	}
	back.Delay = leftLeases * w.Queue.LeaseTime()
	w.logger().Warn("a run waits for a worker with the version that stored its thread", "run", c.ID, "thread", c.ThreadID, "graph", c.Graph,
		"version", version, "here", g.Version(), pregel.LogError(broken))
	return back, nil
}

var errPinned = errors.New("this worker takes over no threads of another version")
