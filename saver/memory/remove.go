package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// remembered returns the memory of a deleted thread; false if there is none. The caller holds mu.
func (s *Saver) remembered(threadID string) (rules.Deleted, bool) {
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
	again := rules.Deleted{At: s.now()}
	for _, n := range t.namespaces {
		again.GreatestID = max(again.GreatestID, n.newest)
		for id := range n.calls {
			again.GreatestID = max(again.GreatestID, id)
		}
	}
	if before, ok := s.remembered(threadID); ok {
		again = before.Merge(again)
	}
	s.deleted[threadID] = again
	delete(s.threads, threadID)
}

// Erase implements saver.Eraser. Only the ids of the threads are remembered.
func (s *Saver) Erase(ctx context.Context, threadIDs ...string) error {
	if err := saver.ValidateThreadID(threadIDs...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	for _, id := range threadIDs {
		delete(s.threads, id)
		s.deleted[id] = rules.Deleted{GreatestID: rules.ErasedID, At: s.now()}
	}
	return nil
}

// DeleteForRuns implements saver.Saver.
func (s *Saver) DeleteForRuns(ctx context.Context, runIDs []string, owned *saver.Lease) (saver.Removal, error) {
	done, runs := saver.Removal{}, map[string]bool{}
	for _, id := range runIDs {
		runs[id] = id != ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return done, err
	}
	if err := s.owned.CheckLease(owned); err != nil {
		return done, err
	}
	type place struct{ threadID, ns string }
	doomed := map[place][]string{}
	for threadID, t := range s.threads {
		if owned != nil && threadID != owned.ThreadID() {
			continue
		}
		for ns, n := range t.namespaces {
			for id, cp := range n.checkpoints {
				md, err := saver.DecodeMetadata(cp.metadata, s.opts.Serializer)
				if err != nil {
					return done, err
				}
				if runs[md.RunID()] {
					at := place{threadID, ns}
					doomed[at] = append(doomed[at], id)
				}
			}
		}
	}
	for at, ids := range doomed {
		s.removeUnneeded(at.threadID, at.ns, ids, &done)
	}
	s.dropEmpty()
	return done, nil
}

// removeUnneeded removes the checkpoints ids of a namespace, except those that the remaining
// ones need.
func (s *Saver) removeUnneeded(threadID, ns string, ids []string, done *saver.Removal) {
	n := s.threads[threadID].namespaces[ns]
	kept := maps.Clone(n.checkpoints)
	for _, id := range ids {
		delete(kept, id)
	}
	support := rules.PruneMark(n.view(ns), slices.Collect(maps.Keys(kept)))
	for _, id := range ids {
		if why, needed := support[id]; needed {
			why.ThreadID, why.Namespace = threadID, ns
			done.Keep(why)
		} else {
			n.count(id, done)
			n.remove(id)
		}
	}
}

// count adds to done what remove will remove.
func (n *namespace) count(id string, done *saver.Removal) {
	if n.checkpoints[id] != nil {
		done.Checkpoints++
	}
	for _, c := range n.calls[id] {
		done.Writes += len(c.Channels)
	}
}

// Prune implements saver.Saver. It prunes all threads under one lock.
func (s *Saver) Prune(ctx context.Context, threadIDs []string, strategy saver.PruneStrategy) (saver.Removal, error) {
	done := saver.Removal{}
	if err := strategy.Validate(); err != nil {
		return done, err
	}
	if err := saver.ValidateThreadID(threadIDs...); err != nil {
		return done, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return done, err
	}
	for _, threadID := range slices.Compact(slices.Sorted(slices.Values(threadIDs))) {
		t := s.threads[threadID]
		switch {
		case t == nil:
		case strategy == saver.PruneAll:
			for _, n := range t.namespaces {
				for _, id := range n.all() {
					n.count(id, &done)
				}
			}
			s.deleteThread(threadID)
		default:
			for ns := range t.namespaces {
				s.keepLatest(threadID, ns, &done)
			}
		}
	}
	return done, nil
}

// all returns the ids of checkpoints of which the namespace has a checkpoint or writes, sorted.
func (n *namespace) all() []string {
	ids := slices.AppendSeq(slices.Collect(maps.Keys(n.checkpoints)), maps.Keys(n.calls))
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

func (s *Saver) keepLatest(threadID, ns string, done *saver.Removal) {
	n := s.threads[threadID].namespaces[ns]
	head := n.newest
	if head == "" {
		return
	}
	older := slices.DeleteFunc(slices.Collect(maps.Keys(n.checkpoints)), func(id string) bool { return id == head })
	s.removeUnneeded(threadID, ns, older, done)
	for _, id := range n.all() {
		if id < head && n.checkpoints[id] == nil {
			n.count(id, done)
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

// CopyThread implements saver.Saver. The copy counts as written now. A deletion of dst
// is forgotten.
func (s *Saver) CopyThread(ctx context.Context, src, dst string) error {
	if err := saver.ValidateThreadID(src, dst); err != nil {
		return err
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
		maps.Copy(to.attempts, n.attempts)
	}
	delete(s.deleted, dst)
	return nil
}

// view shows a namespace to the rules of removals. A value is identified by the commit and the
// channel that stored it.
func (n *namespace) view(ns string) rules.SpaceView {
	type stored struct {
		ns, channel string
		commit      uint64
	}
	all := make(rules.SpaceView, len(n.checkpoints))
	for id, cp := range n.checkpoints {
		v := &rules.CheckpointView{V: cp.v, TS: cp.ts, Parent: cp.parent, Note: cp.note, Metadata: int64(len(cp.metadata.Data)),
			Slots: make(map[string]rules.ValueView, len(cp.slots)), Calls: n.calls[id]}
		for _, sl := range cp.slots {
			v.Slots[sl.channel] = rules.ValueView{}
			if sl.isFilled() {
				v.Slots[sl.channel] = rules.ValueView{ID: stored{ns, sl.channel, sl.commit}, Bytes: int64(len(sl.value.Data))}
			}
		}
		all[id] = v
	}
	return all
}
