package disk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
)

// dropThread deletes a thread and remembers that it did.
func (s *Saver) dropThread(tx *engine.Tx, threadID string) error {
	t := tx.Partition(layout.ThreadKey(threadID))
	if t == nil {
		return nil
	}
	again := rules.Deleted{}
	t.Ascend("", func(it *index.Entry) bool {
		for _, parse := range []func(string) (string, string, bool){layout.ParseCheckpointKey, layout.ParseWritesKey} {
			if _, id, ok := parse(it.Key); ok {
				again.GreatestID = max(again.GreatestID, id)
			}
		}
		return true
	})
	before, _, err := s.deletedMemory(tx, threadID)
	if err != nil {
		return err
	}
	again = before.Merge(again)
	if err := forgetRuns(tx, threadID, runsOf(t)); err != nil {
		return err
	}
	if err := dropTTL(tx, threadID); err != nil {
		return err
	}
	return tx.Drop(layout.ThreadKey(threadID), encodeMemo(again.GreatestID))
}

// runCounts are the runs that stored checkpoints of a thread, and how many each.
type runCounts map[string]int

// runsOf counts the checkpoints of each run of the thread.
func runsOf(t *index.Partition) runCounts {
	runs := runCounts{}
	if t == nil {
		return runs
	}
	t.Ascend(string(layout.KeyCheckpoint), func(it *index.Entry) bool {
		if run := it.Slots.At(0).Tag; run != "" {
			runs[run]++
		}
		return true
	})
	return runs
}

// forgetRuns takes a thread out of the lists of runs, and drops lists that are
// empty then.
func forgetRuns[V any](tx *engine.Tx, threadID string, runs map[string]V) error {
	for _, run := range layout.SortedNames(runs) {
		id := layout.RunKey(run)
		if err := tx.Delete(id, threadID); err != nil {
			return err
		}
		if t := tx.Partition(id); t != nil && t.Last("") == nil {
			if err := tx.Drop(id, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// errMoreThreads makes commitWith run its function again with more threads loaded.
var errMoreThreads = errors.New("the commit needs more threads")

// commitWith runs fn as one commit that touches threads and the lists of their runs. Which partitions
// these are is known only when fn runs. fn calls need for each; need returns false once one is not
// loaded. fn then returns errMoreThreads and is run again with more of them loaded.
func (s *Saver) commitWith(ctx context.Context, ids map[string]bool, fn func(tx *engine.Tx, need func(id string) bool) error) error {
	for {
		missing := false
		err := s.e.CommitWith(ctx, engine.CommitOptions{Urgent: true}, layout.SortedNames(ids), func(tx *engine.Tx) error {
			need := func(id string) bool {
				if !ids[id] {
					ids[id], missing = true, true
				}
				return !missing
			}
			if err := fn(tx, need); err != nil {
				return err
			}
			if missing {
				return errMoreThreads
			}
			return nil
		})
		if !errors.Is(err, errMoreThreads) {
			return err
		}
	}
}

// DeleteThread implements Saver: one tombstone, whatever the thread holds.
func (s *Saver) DeleteThread(ctx context.Context, threadID string) error {
	if err := saver.ValidateThreadID(threadID); err != nil {
		return err
	}
	_, err := s.deleteThreads(ctx, []string{threadID})
	return err
}

func (s *Saver) deleteThreads(ctx context.Context, threadIDs []string) (saver.Removal, error) {
	if err := ctx.Err(); err != nil {
		return saver.Removal{}, err
	}
	var done saver.Removal
	ids := map[string]bool{layout.TTLPartition: true}
	for _, id := range threadIDs {
		ids[layout.ThreadKey(id)] = true
	}
	err := s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		done = saver.Removal{}
		for _, id := range threadIDs {
			if !needRuns(tx, id, need) {
				return errMoreThreads
			}
		}
		for _, id := range threadIDs {
			if t := tx.Partition(layout.ThreadKey(id)); t != nil {
				t.Ascend("", func(it *index.Entry) bool {
					countRemoved(&done, it)
					return true
				})
			}
			if err := s.dropThread(tx, id); err != nil {
				return err
			}
		}
		tx.Answer(done)
		return nil
	})
	return removedUnless(&done, err)
}

// countRemoved adds an entry that is removed to r, if the entry is there.
func countRemoved(r *saver.Removal, it *index.Entry) {
	switch {
	case it == nil || it.Key == "":
	case it.Key[0] == layout.KeyCheckpoint:
		r.Checkpoints++
	case it.Key[0] == layout.KeyWrites:
		r.Writes += it.Slots.Len() - 1
	}
}

// removedUnless returns *r if err is nil, else an empty Removal. With an error it must not read r: the
// outcome may be unknown, and the commit may still be counting in it.
func removedUnless(r *saver.Removal, err error) (saver.Removal, error) {
	if err != nil {
		return saver.Removal{}, err
	}
	return *r, nil
}

// needRuns calls need for the run lists of a thread. False: some are not loaded, and fn must return
// errMoreThreads to be run again.
func needRuns(tx *engine.Tx, threadID string, need func(string) bool) bool {
	ok := true
	for run := range runsOf(tx.Partition(layout.ThreadKey(threadID))) {
		ok = need(layout.RunKey(run)) && ok
	}
	return ok
}

// Prune implements saver.Saver. All threads are pruned in one commit.
func (s *Saver) Prune(ctx context.Context, threadIDs []string, strategy saver.PruneStrategy) (saver.Removal, error) {
	if err := strategy.Validate(); err != nil {
		return saver.Removal{}, err
	}
	if err := saver.ValidateThreadID(threadIDs...); err != nil {
		return saver.Removal{}, err
	}
	threadIDs = slices.Compact(slices.Sorted(slices.Values(threadIDs)))
	if strategy == saver.PruneAll {
		return s.deleteThreads(ctx, threadIDs)
	}
	if err := ctx.Err(); err != nil {
		return saver.Removal{}, err
	}
	var done saver.Removal
	ids := map[string]bool{}
	for _, id := range threadIDs {
		ids[layout.ThreadKey(id)] = true
	}
	err := s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		done = saver.Removal{}
		for _, id := range threadIDs {
			if t := tx.Partition(layout.ThreadKey(id)); t != nil && !needRuns(tx, id, need) {
				return errMoreThreads
			}
		}
		for _, id := range threadIDs {
			if err := keepLatest(tx, id, &done); err != nil {
				return err
			}
		}
		tx.Answer(done)
		return nil
	})
	return removedUnless(&done, err)
}

// keepLatest removes all checkpoints of a thread except the newest one of each namespace and those
// needed to read it.
func keepLatest(tx *engine.Tx, threadID string, done *saver.Removal) error {
	t := tx.Partition(layout.ThreadKey(threadID))
	if t == nil {
		return nil
	}
	var gone []string
	for ns, ids := range checkpointsByNamespace(t) {
		last := len(ids) - 1
		gone = append(gone, removable(t, threadID, ns, ids[last:], ids[:last], done)...)
		gone = append(gone, orphanWrites(t, ns, ids[last])...)
	}
	return removeEntries(tx, threadID, gone, runsOf(t), done)
}

// removable returns the keys of the doomed checkpoints that no kept one needs. It adds the others to
// done.Kept.
func removable(t *index.Partition, threadID, ns string, kept, doomed []string, done *saver.Removal) (gone []string) {
	support := rules.PruneMark(diskPrune{t, ns}, kept)
	for _, id := range doomed {
		if why, needed := support[id]; needed {
			why.ThreadID, why.Namespace = threadID, ns
			done.Keep(why)
		} else {
			gone = append(gone, keysOf(t, ns, id)...)
		}
	}
	return gone
}

// orphanWrites are the keys of writes against checkpoints older than head that
// are not there.
func orphanWrites(t *index.Partition, ns, head string) []string {
	var keys []string
	t.Ascend(string(layout.KeyWrites)+layout.Escape(ns), func(it *index.Entry) bool {
		_, id, ok := layout.ParseWritesKey(it.Key)
		if ok && id < head && t.Get(layout.CheckpointKey(ns, id)) == nil {
			keys = append(keys, it.Key)
		}
		return true
	})
	return keys
}

// checkpointsByNamespace are the ids of a thread's checkpoints, ascending.
func checkpointsByNamespace(t *index.Partition) map[string][]string {
	out := map[string][]string{}
	t.Ascend(string(layout.KeyCheckpoint), func(it *index.Entry) bool {
		if ns, id, ok := layout.ParseCheckpointKey(it.Key); ok {
			out[ns] = append(out[ns], id)
		}
		return true
	})
	return out
}

// keysOf are the keys of a checkpoint, its writes and its count of attempts.
func keysOf(t *index.Partition, ns, id string) []string {
	keys := []string{layout.CheckpointKey(ns, id)}
	if key := layout.AttemptsKey(ns, id); t.Get(key) != nil {
		keys = append(keys, key)
	}
	t.Ascend(layout.WritesPrefix(ns, id), func(it *index.Entry) bool {
		keys = append(keys, it.Key)
		return true
	})
	return keys
}

// removeEntries deletes entries of a thread and counts them in done. It updates the lists of runs and
// the status of the thread, and drops the thread if nothing is left. runs are the run counts of the
// thread, as runsOf returns them; it reduces them.
func removeEntries(tx *engine.Tx, threadID string, keys []string, runs runCounts, done *saver.Removal) error {
	if len(keys) == 0 {
		return nil
	}
	id := layout.ThreadKey(threadID)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	ended := map[string]bool{} // runs without a checkpoint
	for _, key := range keys {
		it := tx.Partition(id).Get(key)
		countRemoved(done, it)
		if it == nil || key[0] != layout.KeyCheckpoint {
			continue
		}
		if run := it.Slots.At(0).Tag; run != "" {
			if runs[run]--; runs[run] == 0 {
				ended[run] = true
				delete(runs, run)
			}
		}
	}
	if err := tx.Delete(id, keys...); err != nil {
		return err
	}
	if err := forgetRuns(tx, threadID, ended); err != nil {
		return err
	}
	if t := tx.Partition(id); t.Head == "" && t.Last("") == nil {
		if err := dropTTL(tx, threadID); err != nil {
			return err
		}
		return tx.Drop(id, nil)
	}
	updateStatus(tx, layout.ThreadKey(threadID))
	return nil
}

// DeleteForRuns implements saver.Saver, in one commit.
func (s *Saver) DeleteForRuns(ctx context.Context, runIDs []string, owned *saver.Lease) (saver.Removal, error) {
	if err := ctx.Err(); err != nil {
		return saver.Removal{}, err
	}
	var done saver.Removal
	runs, ids := map[string]bool{}, map[string]bool{}
	for _, run := range runIDs {
		if run != "" {
			runs[shortRun(run)], ids[layout.RunKey(shortRun(run))] = true, true
		}
	}
	if len(runs) == 0 {
		return done, nil
	}
	err := s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		if err := s.owned.CheckLease(owned); err != nil {
			return err
		}
		done = saver.Removal{}
		threads, ok := map[string]bool{}, true
		for run := range runs {
			if t := tx.Partition(layout.RunKey(run)); t != nil {
				t.Ascend("", func(it *index.Entry) bool {
					if owned != nil && it.Key != owned.ThreadID() {
						return true
					}
					threads[it.Key] = true
					ok = need(layout.ThreadKey(it.Key)) && ok
					return true
				})
			}
		}
		for id := range threads {
			ok = ok && needRuns(tx, id, need)
		}
		if !ok {
			return errMoreThreads
		}
		for _, id := range layout.SortedNames(threads) {
			if err := deleteRuns(tx, id, runs, &done); err != nil {
				return err
			}
		}
		tx.Answer(done)
		return nil
	})
	return removedUnless(&done, err)
}

// deleteRuns removes the checkpoints of the runs from one thread, except those that a kept checkpoint
// needs.
func deleteRuns(tx *engine.Tx, threadID string, runs map[string]bool, done *saver.Removal) error {
	t := tx.Partition(layout.ThreadKey(threadID))
	if t == nil {
		return nil
	}
	var gone []string
	for ns, ids := range checkpointsByNamespace(t) {
		var kept, doomed []string
		for _, id := range ids {
			if runs[t.Get(layout.CheckpointKey(ns, id)).Slots.At(0).Tag] {
				doomed = append(doomed, id)
			} else {
				kept = append(kept, id)
			}
		}
		gone = append(gone, removable(t, threadID, ns, kept, doomed, done)...)
	}
	return removeEntries(tx, threadID, gone, runsOf(t), done)
}

// CopyThread implements saver.Saver. It writes one small record: the copies share
// every stored byte.
func (s *Saver) CopyThread(ctx context.Context, src, dst string) error {
	for _, id := range []string{src, dst} {
		if err := saver.ValidateThreadID(id); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ids := map[string]bool{layout.ThreadKey(src): true, layout.ThreadKey(dst): true}
	return s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		if tx.Partition(layout.ThreadKey(dst)) != nil {
			return fmt.Errorf("copy thread %q to %q: %w", src, dst, saver.ErrThreadExists)
		}
		from := tx.Partition(layout.ThreadKey(src))
		if from == nil {
			return nil
		}
		if !needRuns(tx, src, need) {
			return errMoreThreads
		}
		for _, run := range layout.SortedNames(runsOf(from)) {
			if err := tx.Put(layout.RunKey(run), dst, 0, nil); err != nil {
				return err
			}
		}
		if err := s.forgetErased(tx, src, dst); err != nil {
			return err
		}
		s.newest.copied(from, dst, tx.LSN())
		return tx.Copy(layout.ThreadKey(src), layout.ThreadKey(dst))
	})
}

// diskPrune implements PruneView on one namespace of a thread.
type diskPrune struct {
	t  *index.Partition
	ns string
}

func (v diskPrune) entry(id string) *index.Entry { return v.t.Get(layout.CheckpointKey(v.ns, id)) }

// Parent implements PruneView.
func (v diskPrune) Parent(id string) (string, bool) {
	it := v.entry(id)
	if it == nil {
		return "", false
	}
	return it.Slots.At(0).Name, true
}

// Valueless implements PruneView.
func (v diskPrune) Valueless(id string) (channels []string, told bool) {
	it := v.entry(id)
	for i, s := range channelSlots(it, nil) {
		if is, known := layout.IsDelta(it, i); s.Ref.Empty() && (is || !known) {
			channels = append(channels, s.Name)
		}
	}
	return channels, layout.OutlineOf(it) != nil
}

// HasValue implements PruneView.
func (v diskPrune) HasValue(id, channel string) bool {
	s := findSlot(channelSlots(v.entry(id), nil), channel)
	return s != nil && !s.Ref.Empty()
}

// HasWrite implements PruneView.
func (v diskPrune) HasWrite(id, channel string) bool {
	var writes []saver.PendingWrite
	v.t.Ascend(layout.WritesPrefix(v.ns, id), func(it *index.Entry) bool {
		for _, s := range it.Slots.From(1) {
			n, err := unpackIndex(s.Tag)
			if err != nil {
				n = math.MaxInt - len(writes) // damage keeps more, never less
			}
			writes = append(writes, saver.PendingWrite{TaskID: it.Slots.At(0).Name, Channel: s.Name, Index: n})
		}
		return true
	})
	return rules.OnChannel(writes, channel)
}

// Format implements PruneView.
func (v diskPrune) Format(id string) int {
	if v.entry(id).Flags&flagLegacy != 0 {
		return rules.FirstVersionWithTasks - 1
	}
	return rules.FirstVersionWithTasks
}
