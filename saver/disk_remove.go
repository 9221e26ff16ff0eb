package saver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/engine"
)

// dropThread deletes a thread and remembers that it did.
func (s *Disk) dropThread(tx *engine.Tx, threadID string) error {
	t := tx.Thread(threadKey(threadID))
	if t == nil {
		return nil
	}
	again := Deleted{}
	t.Ascend("", func(it *index.Item) bool {
		for _, parse := range []func(string) (string, string, bool){parseCheckpointKey, parseWritesKey} {
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
	return tx.Drop(threadKey(threadID), encodeMemo(again.GreatestID))
}

// runsOf are the runs that stored checkpoints of the thread.
func runsOf(t *index.Thread) map[string]bool {
	runs := map[string]bool{}
	if t == nil {
		return runs
	}
	t.Ascend(string(keyCheckpoint), func(it *index.Item) bool {
		if run := it.Slots[0].Tag; run != "" {
			runs[run] = true
		}
		return true
	})
	return runs
}

// forgetRuns takes a thread out of the lists of runs, and drops lists that are
// empty then.
func forgetRuns(tx *engine.Tx, threadID string, runs map[string]bool) error {
	for _, run := range sortedNames(runs) {
		id := runKey(run)
		if err := tx.Delete(id, threadID); err != nil {
			return err
		}
		if t := tx.Thread(id); t != nil && t.Last("") == nil {
			if err := tx.Drop(id, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// errMoreThreads asks for another try with more threads loaded.
var errMoreThreads = errors.New("the commit needs more threads")

// commitWith runs fn as one commit that touches threads and the lists of their
// runs. Which these are is known only when it runs; fn says so with need, and
// returns errMoreThreads to be run again with more of them loaded.
func (s *Disk) commitWith(ctx context.Context, ids map[string]bool, fn func(tx *engine.Tx, need func(id string) bool) error) error {
	for {
		missing := false
		err := s.e.CommitHinted(ctx, engine.Hint{Urgent: true}, sortedNames(ids), func(tx *engine.Tx) error {
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
func (s *Disk) DeleteThread(ctx context.Context, threadID string) error {
	if err := ValidateThreadID(threadID); err != nil {
		return err
	}
	_, err := s.deleteThreads(ctx, []string{threadID})
	return err
}

func (s *Disk) deleteThreads(ctx context.Context, threadIDs []string) (Removal, error) {
	if err := ctx.Err(); err != nil {
		return Removal{}, err
	}
	var done Removal
	ids := map[string]bool{ttlThread: true}
	for _, id := range threadIDs {
		ids[threadKey(id)] = true
	}
	err := s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		done = Removal{}
		for _, id := range threadIDs {
			if !needRuns(tx, id, need) {
				return errMoreThreads
			}
		}
		for _, id := range threadIDs {
			if t := tx.Thread(threadKey(id)); t != nil {
				t.Ascend("", func(it *index.Item) bool {
					done.count(it)
					return true
				})
			}
			if err := s.dropThread(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	return done.unless(err)
}

// count adds an item that is removed, if it is there.
func (r *Removal) count(it *index.Item) {
	switch {
	case it == nil || it.Key == "":
	case it.Key[0] == keyCheckpoint:
		r.Checkpoints++
	case it.Key[0] == keyWrites:
		r.Writes += len(it.Slots) - 1
	}
}

// unless is what was removed without an error, and nothing with one. It does not look at
// r then: the outcome may be unknown, and the commit still counting in it.
func (r *Removal) unless(err error) (Removal, error) {
	if err != nil {
		return Removal{}, err
	}
	return *r, nil
}

// needRuns asks for the lists of the runs of a thread.
func needRuns(tx *engine.Tx, threadID string, need func(string) bool) bool {
	ok := true
	for run := range runsOf(tx.Thread(threadKey(threadID))) {
		ok = need(runKey(run)) && ok
	}
	return ok
}

// Prune implements Pruner. All threads are pruned in one commit.
func (s *Disk) Prune(ctx context.Context, threadIDs []string, strategy PruneStrategy) (Removal, error) {
	if err := ValidatePrune(threadIDs, strategy); err != nil {
		return Removal{}, err
	}
	threadIDs = slices.Compact(slices.Sorted(slices.Values(threadIDs)))
	if strategy == PruneAll {
		return s.deleteThreads(ctx, threadIDs)
	}
	if err := ctx.Err(); err != nil {
		return Removal{}, err
	}
	var done Removal
	ids := map[string]bool{}
	for _, id := range threadIDs {
		ids[threadKey(id)] = true
	}
	err := s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		done = Removal{}
		for _, id := range threadIDs {
			if t := tx.Thread(threadKey(id)); t != nil && !needRuns(tx, id, need) {
				return errMoreThreads
			}
		}
		for _, id := range threadIDs {
			if err := keepLatest(tx, id, &done); err != nil {
				return err
			}
		}
		return nil
	})
	return done.unless(err)
}

// keepLatest removes all but the newest checkpoint of each namespace and what it
// needs to be read.
func keepLatest(tx *engine.Tx, threadID string, done *Removal) error {
	t := tx.Thread(threadKey(threadID))
	if t == nil {
		return nil
	}
	var gone []string
	for ns, ids := range checkpointsByNamespace(t) {
		last := len(ids) - 1
		gone = append(gone, removable(t, threadID, ns, ids[last:], ids[:last], done)...)
		gone = append(gone, orphanWrites(t, ns, ids[last])...)
	}
	return removeItems(tx, threadID, gone, done)
}

// removable are the keys of the doomed checkpoints that none of the kept needs. The
// others are told to done.
func removable(t *index.Thread, threadID, ns string, kept, doomed []string, done *Removal) (gone []string) {
	support := PruneMark(diskPrune{t, ns}, kept)
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
func orphanWrites(t *index.Thread, ns, head string) []string {
	var keys []string
	t.Ascend(string(keyWrites)+escape(ns), func(it *index.Item) bool {
		_, id, ok := parseWritesKey(it.Key)
		if ok && id < head && t.Get(checkpointKey(ns, id)) == nil {
			keys = append(keys, it.Key)
		}
		return true
	})
	return keys
}

// checkpointsByNamespace are the ids of a thread's checkpoints, ascending.
func checkpointsByNamespace(t *index.Thread) map[string][]string {
	out := map[string][]string{}
	t.Ascend(string(keyCheckpoint), func(it *index.Item) bool {
		if ns, id, ok := parseCheckpointKey(it.Key); ok {
			out[ns] = append(out[ns], id)
		}
		return true
	})
	return out
}

// keysOf are the keys of a checkpoint, its writes and its count of attempts.
func keysOf(t *index.Thread, ns, id string) []string {
	keys := []string{checkpointKey(ns, id)}
	if key := attemptsKey(ns, id); t.Get(key) != nil {
		keys = append(keys, key)
	}
	t.Ascend(writesPrefix(ns, id), func(it *index.Item) bool {
		keys = append(keys, it.Key)
		return true
	})
	return keys
}

// removeItems deletes items of a thread, counts them in done, and keeps what is derived from them right: the
// lists of runs, the status of the thread, the thread itself.
func removeItems(tx *engine.Tx, threadID string, keys []string, done *Removal) error {
	if len(keys) == 0 {
		return nil
	}
	id := threadKey(threadID)
	before := runsOf(tx.Thread(id))
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, key := range keys {
		done.count(tx.Thread(id).Get(key))
	}
	if err := tx.Delete(id, keys...); err != nil {
		return err
	}
	t := tx.Thread(id)
	for run := range runsOf(t) {
		delete(before, run)
	}
	if err := forgetRuns(tx, threadID, before); err != nil {
		return err
	}
	if t.Last("") == nil {
		if err := dropTTL(tx, threadID); err != nil {
			return err
		}
		return tx.Drop(id, nil)
	}
	updateStatus(tx, threadKey(threadID))
	return nil
}

// DeleteForRuns implements RunDeleter, in one commit.
func (s *Disk) DeleteForRuns(ctx context.Context, runIDs []string) (Removal, error) {
	if err := ctx.Err(); err != nil {
		return Removal{}, err
	}
	var done Removal
	runs, ids := map[string]bool{}, map[string]bool{}
	for _, run := range runIDs {
		if run != "" {
			runs[shortRun(run)], ids[runKey(shortRun(run))] = true, true
		}
	}
	if len(runs) == 0 {
		return done, nil
	}
	err := s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		done = Removal{}
		threads, ok := map[string]bool{}, true
		for run := range runs {
			if t := tx.Thread(runKey(run)); t != nil {
				t.Ascend("", func(it *index.Item) bool {
					threads[it.Key] = true
					ok = need(threadKey(it.Key)) && ok
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
		for _, id := range sortedNames(threads) {
			if err := deleteRuns(tx, id, runs, &done); err != nil {
				return err
			}
		}
		return nil
	})
	return done.unless(err)
}

// deleteRuns removes the checkpoints of the runs from one thread, but for those a
// kept checkpoint needs.
func deleteRuns(tx *engine.Tx, threadID string, runs map[string]bool, done *Removal) error {
	t := tx.Thread(threadKey(threadID))
	if t == nil {
		return nil
	}
	var gone []string
	for ns, ids := range checkpointsByNamespace(t) {
		var kept, doomed []string
		for _, id := range ids {
			if runs[t.Get(checkpointKey(ns, id)).Slots[0].Tag] {
				doomed = append(doomed, id)
			} else {
				kept = append(kept, id)
			}
		}
		gone = append(gone, removable(t, threadID, ns, kept, doomed, done)...)
	}
	return removeItems(tx, threadID, gone, done)
}

// CopyThread implements ThreadCopier. It writes one small record: the copies share
// every stored byte.
func (s *Disk) CopyThread(ctx context.Context, src, dst string) error {
	for _, id := range []string{src, dst} {
		if err := ValidateThreadID(id); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ids := map[string]bool{threadKey(src): true, threadKey(dst): true}
	return s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		if tx.Thread(threadKey(dst)) != nil {
			return fmt.Errorf("copy thread %q to %q: %w", src, dst, ErrThreadExists)
		}
		from := tx.Thread(threadKey(src))
		if from == nil {
			return nil
		}
		if !needRuns(tx, src, need) {
			return errMoreThreads
		}
		for _, run := range sortedNames(runsOf(from)) {
			if err := tx.Put(runKey(run), dst, 0, nil); err != nil {
				return err
			}
		}
		if err := s.forgetErased(tx, src, dst); err != nil {
			return err
		}
		return tx.Copy(threadKey(src), threadKey(dst))
	})
}

// diskPrune implements PruneView on one namespace of a thread.
type diskPrune struct {
	t  *index.Thread
	ns string
}

func (v diskPrune) item(id string) *index.Item { return v.t.Get(checkpointKey(v.ns, id)) }

// Parent implements PruneView.
func (v diskPrune) Parent(id string) (string, bool) {
	it := v.item(id)
	if it == nil {
		return "", false
	}
	return it.Slots[0].Name, true
}

// Valueless implements PruneView.
func (v diskPrune) Valueless(id string) (channels []string, told bool) {
	it := v.item(id)
	for i, s := range channelSlots(it) {
		if is, known := isDelta(it, i); s.Ref.Empty() && (is || !known) {
			channels = append(channels, s.Name)
		}
	}
	return channels, outlineOf(it) != nil
}

// HasValue implements PruneView.
func (v diskPrune) HasValue(id, channel string) bool {
	s := findSlot(channelSlots(v.item(id)), channel)
	return s != nil && !s.Ref.Empty()
}

// HasWrite implements PruneView.
func (v diskPrune) HasWrite(id, channel string) bool {
	found := false
	v.t.Ascend(writesPrefix(v.ns, id), func(it *index.Item) bool {
		found = slices.ContainsFunc(it.Slots[1:], func(s index.Slot) bool { return s.Name == channel })
		return !found
	})
	return found
}

// Format implements PruneView.
func (v diskPrune) Format(id string) int {
	if v.item(id).Flags&flagLegacy != 0 {
		return firstVersionWithTasks - 1
	}
	return firstVersionWithTasks
}
