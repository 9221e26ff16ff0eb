package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
)

// remembered returns what is remembered of a deleted thread. The caller holds mu.
func (s *Saver) remembered(threadID string) (saver.Deleted, bool) {
	d, ok := s.deleted[threadID]
	return d, ok && !d.Expired(s.now(), s.opts.DeletedMemory)
}

// DeleteThread implements saver.Saver.
func (s *Saver) DeleteThread(ctx context.Context, threadID string) error {
	if err := saver.ValidateThreadID(threadID); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.deleteThread(threadID)
	return nil
}

// deleteThread forgets a thread and remembers that it did. The caller holds mu
// for writing.
func (s *Saver) deleteThread(threadID string) {
	t := s.threads[threadID]
	if t == nil {
		return
	}
	again := saver.Deleted{At: s.now()}
	for _, n := range t.namespaces {
		again.GreatestID = max(again.GreatestID, n.head())
		for id := range n.calls {
			again.GreatestID = max(again.GreatestID, id)
		}
	}
	if before, ok := s.remembered(threadID); ok {
		again = before.Merge(again)
		if before.GreatestID == saver.ErasedID && before.At.After(again.At) {
			again.At = before.At // that it was erased is not remembered for less because the clock went back
		}
	}
	s.deleted[threadID] = again
	delete(s.threads, threadID)
}

// Erase implements saver.Eraser. What is remembered of the thread is its id alone.
func (s *Saver) Erase(ctx context.Context, threadID string) error {
	if err := saver.ValidateThreadID(threadID); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	delete(s.threads, threadID)
	s.deleted[threadID] = saver.Deleted{GreatestID: saver.ErasedID, At: s.now()}
	return nil
}

// DeleteForRuns implements saver.RunDeleter.
func (s *Saver) DeleteForRuns(ctx context.Context, runIDs []string) error {
	runs := map[string]bool{}
	for _, id := range runIDs {
		runs[id] = id != ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	doomed := map[*namespace][]string{}
	for _, t := range s.threads {
		for _, n := range t.namespaces {
			for id, cp := range n.checkpoints {
				md, err := saver.DecodeMetadata(cp.record.Metadata, s.opts.Serializer)
				if err != nil {
					return err
				}
				if runs[md.RunID()] {
					doomed[n] = append(doomed[n], id)
				}
			}
		}
	}
	for n, ids := range doomed {
		kept := maps.Clone(n.checkpoints)
		for _, id := range ids {
			delete(kept, id)
		}
		support := saver.PruneMark(pruneView{n}, slices.Collect(maps.Keys(kept)))
		for _, id := range ids {
			if !support[id] {
				n.remove(id)
			}
		}
	}
	s.dropEmpty()
	return nil
}

// Prune implements saver.Pruner. All threads are pruned at one moment.
func (s *Saver) Prune(ctx context.Context, threadIDs []string, strategy saver.PruneStrategy) error {
	if err := saver.ValidatePrune(threadIDs, strategy); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	for _, threadID := range threadIDs {
		t := s.threads[threadID]
		switch {
		case t == nil:
		case strategy == saver.PruneAll:
			s.deleteThread(threadID)
		default:
			for _, n := range t.namespaces {
				n.keepLatest()
			}
		}
	}
	return nil
}

func (n *namespace) keepLatest() {
	head := n.head()
	if head == "" {
		return
	}
	support := saver.PruneMark(pruneView{n}, []string{head})
	for id := range n.checkpoints {
		if id != head && !support[id] {
			n.remove(id)
		}
	}
	for id := range n.calls {
		if id < head && n.checkpoints[id] == nil {
			n.remove(id)
		}
	}
}

// dropEmpty restores the invariants of thread and namespace. The caller holds mu
// for writing.
func (s *Saver) dropEmpty() {
	for _, t := range s.threads {
		maps.DeleteFunc(t.namespaces, func(_ string, n *namespace) bool { return n.empty() })
	}
	maps.DeleteFunc(s.threads, func(_ string, t *thread) bool { return len(t.namespaces) == 0 })
}

// CopyThread implements saver.ThreadCopier. The copy counts as written now, and
// the memory that dst was deleted ends.
func (s *Saver) CopyThread(ctx context.Context, src, dst string) error {
	for _, id := range []string{src, dst} {
		if err := saver.ValidateThreadID(id); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.threads[dst] != nil {
		return fmt.Errorf("copy thread %q to %q: %w", src, dst, saver.ErrThreadExists)
	}
	from := s.threads[src]
	if from == nil {
		return nil
	}
	for ns, n := range from.namespaces {
		to := s.makeNamespace(dst, ns)
		maps.Copy(to.checkpoints, n.checkpoints)
		to.newest = n.newest
		for id, calls := range n.calls {
			to.calls[id] = slices.Clone(calls)
		}
	}
	delete(s.deleted, dst)
	return nil
}

// pruneView implements saver.PruneView.
type pruneView struct{ n *namespace }

// Parent implements saver.PruneView.
func (v pruneView) Parent(id string) (string, bool) {
	cp := v.n.checkpoints[id]
	if cp == nil {
		return "", false
	}
	return cp.record.Parent, true
}

// Valueless implements saver.PruneView.
func (v pruneView) Valueless(id string) []string {
	var channels []string
	for channel := range v.n.checkpoints[id].record.Checkpoint.Versions {
		if !v.HasValue(id, channel) {
			channels = append(channels, channel)
		}
	}
	return channels
}

// HasValue implements saver.PruneView.
func (v pruneView) HasValue(id, channel string) bool {
	sl, ok := v.n.checkpoints[id].slot(channel)
	return ok && !sl.empty
}

// HasWrite implements saver.PruneView.
func (v pruneView) HasWrite(id, channel string) bool {
	for _, c := range v.n.calls[id] {
		if slices.Contains(c.Channels, channel) {
			return true
		}
	}
	return false
}

// Format implements saver.PruneView.
func (v pruneView) Format(id string) int { return v.n.checkpoints[id].record.Checkpoint.V }
