package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/group"
)

func (m *machine) put(t *rapid.T) {
	req := m.drawPut(t)
	m.change(t, fmt.Sprintf("put %+v", req), func(s saver.Saver) error {
		cfg, err := s.PutRequest(m.ctx, req)
		if want := req.Config.At(req.Checkpoint.ID); err == nil && fmt.Sprint(cfg) != fmt.Sprint(want) {
			return fmt.Errorf("returned %+v", cfg)
		}
		return err
	})
}

// putGroup puts several checkpoints, at once if the saver can do that. As in a run, most follow upon
// the one before.
func (m *machine) putGroup(t *rapid.T) {
	reqs := []saver.PutRequest{m.drawPut(t)}
	for range rapid.IntRange(1, 4).Draw(t, "more") {
		req := m.drawPut(t)
		if rapid.IntRange(0, 4).Draw(t, "follows") > 0 {
			follow(&req, reqs[len(reqs)-1])
		}
		reqs = append(reqs, req)
	}
	m.clock.Add(time.Millisecond)
	m.changed = true
	m.both(t, fmt.Sprintf("group %+v", reqs), func(s saver.Saver) string {
		n, err := putAll(m.ctx, s, reqs)
		return fmt.Sprint(n, " ", outcome(err))
	})
}

// follow makes req the next checkpoint of a run: it has the maps of the one before, and its own
// changes.
func follow(req *saver.PutRequest, before saver.PutRequest) {
	at := before.Config.At(before.Checkpoint.ID)
	req.Config.ThreadID, req.Config.Namespace, req.Config.CheckpointID = at.ThreadID, at.Namespace, at.CheckpointID
	if req.Config.ExpectHead != nil {
		req.Config.ExpectHead = &at.CheckpointID
	}
	if req.ValuesFrom != nil {
		from := at.At(req.ValuesFrom.CheckpointID)
		req.ValuesFrom = &from
	}
	if run, ok := before.Metadata["run_id"]; ok {
		req.Metadata["run_id"] = run
	}
	versions := maps.Clone(before.Checkpoint.Versions)
	maps.Copy(versions, req.Checkpoint.Versions)
	seen := maps.Clone(before.Checkpoint.Seen)
	if seen == nil {
		seen = map[string]map[string]saver.Version{}
	}
	maps.Copy(seen, req.Checkpoint.Seen)
	req.Checkpoint.Versions, req.Checkpoint.Seen = versions, seen
}

// putAll puts reqs in order up to the first that is refused, and returns how many are stored.
func putAll(ctx context.Context, s saver.Saver, reqs []saver.PutRequest) (stored int, err error) {
	p := group.Of(s)
	for stored < len(reqs) && err == nil {
		if p != nil {
			var n int
			n, err = p.PutGroup(ctx, reqs[stored:])
			stored += n
		} else if _, err = s.PutRequest(ctx, reqs[stored]); err == nil {
			stored++
		}
	}
	return stored, err
}

func (m *machine) putWrites(t *rapid.T) {
	cfg := saver.Config{ThreadID: thread.Draw(t, "thread"), Namespace: namespace.Draw(t, "namespace"), CheckpointID: checkpointID.Draw(t, "checkpoint")}
	ws, id, path := drawWrites(t), task.Draw(t, "task"), taskPath.Draw(t, "path")
	m.change(t, fmt.Sprintf("put writes %+v of %s %q on %+v", ws, id, path, cfg), func(s saver.Saver) error {
		return s.PutWrites(m.ctx, cfg, ws, id, path)
	})
}

func (m *machine) get(t *rapid.T) {
	cfg := m.drawTarget(t)
	m.both(t, fmt.Sprintf("get %+v", cfg), func(s saver.Saver) string {
		tup, err := s.GetTuple(m.ctx, cfg)
		if err != nil {
			return outcome(err)
		}
		return tuple(tup)
	})
}

func (m *machine) list(t *rapid.T) {
	q := saver.Query{
		ThreadID:     rapid.SampledFrom([]string{"", "t1", "t2", "t3"}).Draw(t, "thread"),
		CheckpointID: sometimes(checkpointID).Draw(t, "checkpoint"),
		Before:       sometimes(checkpointID).Draw(t, "before"),
		Limit:        rapid.SampledFrom([]int{0, 0, 1, 2, 3, saver.NoResults, -1}).Draw(t, "limit"),
	}
	if rapid.Bool().Draw(t, "in namespace") {
		q.Namespace = saver.InNamespace(namespace.Draw(t, "namespace"))
	}
	if rapid.Bool().Draw(t, "filtered") {
		q.Filter = drawFilter(t)
	}
	m.both(t, fmt.Sprintf("list %+v", q), func(s saver.Saver) string { return listing(s.List(m.ctx, q)) })
}

// drawFilter is a filter of metadata, not always a valid one.
func drawFilter(t *rapid.T) map[string]any {
	filter := map[string]any{}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"step", "run_id", "user", "nested.k", "none", "bad key"}), 1, 2, rapid.ID).Draw(t, "keys") {
		filter[key] = rapid.SampledFrom([]any{0, 1.0, "r1", nil, "u", 7, []any{1}}).Draw(t, "filter value")
	}
	return filter
}

func (m *machine) history(t *rapid.T) {
	cfg := m.drawTarget(t)
	channels := rapid.SliceOfNDistinct(channel, 0, 3, rapid.ID).Draw(t, "channels")
	slices.Sort(channels)
	m.both(t, fmt.Sprintf("history of %v at %+v", channels, cfg), func(s saver.Saver) string {
		return histories(s.DeltaChannelHistory(m.ctx, cfg, channels))
	})
}

func (m *machine) threads(t *rapid.T) {
	q := saver.ThreadQuery{
		Prefix: rapid.SampledFrom([]string{"", "t", "t2", "x"}).Draw(t, "prefix"),
		Status: rapid.SampledFrom([]saver.Status{"", "", saver.StatusWaiting, saver.StatusFailed, saver.StatusDone, saver.StatusUnfinished}).Draw(t, "status"),
		Limit:  rapid.SampledFrom([]int{0, 1, 2, -1}).Draw(t, "limit"),
	}
	if rapid.IntRange(0, 3).Draw(t, "by metadata") == 0 {
		q.Metadata = drawFilter(t)
	}
	if rapid.Bool().Draw(t, "since") {
		q.UpdatedSince = m.clock.Now().Add(-time.Duration(rapid.IntRange(0, 5).Draw(t, "back")) * time.Millisecond)
	}
	m.both(t, fmt.Sprintf("threads %+v", q), func(s saver.Saver) string { return threadList(s.Threads(m.ctx, q)) })
}

func (m *machine) countAttempt(t *rapid.T) {
	cfg := m.drawTarget(t)
	numbers := []int{}
	m.change(t, fmt.Sprintf("count an attempt at %+v", cfg), func(s saver.Saver) error {
		n, err := s.CountAttempt(m.ctx, cfg)
		if numbers = append(numbers, n); err == nil && n != numbers[0] {
			return fmt.Errorf("it is number %d, not %d", n, numbers[0])
		}
		return err
	})
}

func (m *machine) deleteThread(t *rapid.T) {
	id := thread.Draw(t, "thread")
	m.change(t, "delete "+id, func(s saver.Saver) error { return s.DeleteThread(m.ctx, id) })
}

// removal is change for a call that says what it removed and what it kept.
func (m *machine) removal(t *rapid.T, what string, call func(s saver.Saver) (saver.Removal, error)) {
	var first *saver.Removal
	m.change(t, what, func(s saver.Saver) error {
		done, err := call(s)
		if first == nil {
			first = &done
		} else if fmt.Sprintf("%+v", done) != fmt.Sprintf("%+v", *first) {
			return fmt.Errorf("it says %+v, not %+v", done, *first)
		}
		return err
	})
}

func (m *machine) deleteForRuns(t *rapid.T) {
	runs := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"r1", "r2", "r9", ""}), 0, 2, rapid.ID).Draw(t, "runs")
	m.removal(t, fmt.Sprintf("delete for runs %q", runs), func(s saver.Saver) (saver.Removal, error) {
		return s.DeleteForRuns(m.ctx, runs, nil)
	})
}

func (m *machine) copyThread(t *rapid.T) {
	src, dst := thread.Draw(t, "from"), thread.Draw(t, "to")
	m.change(t, "copy "+src+" to "+dst, func(s saver.Saver) error { return s.CopyThread(m.ctx, src, dst) })
}

func (m *machine) prune(t *rapid.T) {
	ids := rapid.SliceOfN(thread, 0, 2).Draw(t, "threads")
	strategy := rapid.SampledFrom([]saver.PruneStrategy{saver.KeepLatest, saver.KeepLatest, saver.PruneAll, "other"}).Draw(t, "strategy")
	m.removal(t, fmt.Sprintf("prune %v %s", ids, strategy), func(s saver.Saver) (saver.Removal, error) { return s.Prune(m.ctx, ids, strategy) })
}

func (m *machine) nextVersion(t *rapid.T) {
	current := version.Draw(t, "current")
	m.both(t, "next version of "+current.String(), func(s saver.Saver) string {
		v, err := s.NextVersion(current, "a")
		return fmt.Sprint(v.Kind(), v, outcome(err))
	})
}
