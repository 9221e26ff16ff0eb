package bolt

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// remembered is what is remembered of a deleted thread; nil if that is nothing.
func (s *Saver) remembered(tx *bbolt.Tx, thread string) (*rules.Deleted, error) {
	d, found, err := load[rules.Deleted](tx.Bucket(deletedName), []byte(thread))
	if err != nil || !found || d.Expired(s.now(), s.opts.DeletedMemory) {
		return nil, err
	}
	return &d, nil
}

// DeleteThread implements saver.Saver.
func (s *Saver) DeleteThread(ctx context.Context, threadID string) error {
	if err := saver.ValidateThreadID(threadID); err != nil {
		return err
	}
	return s.update(ctx, func(tx *bbolt.Tx) error { return s.deleteThread(tx, threadID) })
}

// deleteThread removes a thread and remembers that it did. It does nothing for one that is not
// there.
func (s *Saver) deleteThread(tx *bbolt.Tx, thread string) error {
	if threadOf(tx, thread) == nil {
		return nil
	}
	again := rules.Deleted{At: s.now()}
	for _, n := range spacesOf(tx, thread) {
		last, _ := n.writes.Cursor().Last()
		again.GreatestID = max(again.GreatestID, n.head(), string(last))
	}
	before, err := s.remembered(tx, thread)
	if err != nil {
		return err
	}
	if before != nil {
		again = before.Merge(again)
	}
	if err := store(tx.Bucket(deletedName), []byte(thread), again); err != nil {
		return err
	}
	return tx.Bucket(threadsName).DeleteBucket([]byte(thread))
}

// count adds what remove removes to done.
func (n *space) count(id string, done *saver.Removal) error {
	if n.has(id) {
		done.Checkpoints++
	}
	calls, err := n.calls(id)
	for _, c := range calls {
		done.Writes += len(c.Channels)
	}
	return err
}

// remove removes a checkpoint, if it is there, with its writes and its count of attempts, and
// adds them to done. Its values stay until dropValues.
func (n *space) remove(id string, done *saver.Removal) error {
	if err := n.count(id, done); err != nil {
		return err
	}
	if n.writes.Bucket([]byte(id)) != nil {
		if err := n.writes.DeleteBucket([]byte(id)); err != nil {
			return err
		}
	}
	if err := n.checkpoints.Delete([]byte(id)); err != nil {
		return err
	}
	return n.attempts.Delete([]byte(id))
}

// dropValues removes the values that no checkpoint reads any more.
func (n *space) dropValues() error {
	all, err := n.all()
	if err != nil {
		return err
	}
	live := map[string]bool{}
	for _, cp := range all {
		for _, sl := range cp.Slots {
			live[string(number(sl.Number))] = true
		}
	}
	var dead [][]byte
	c := n.values.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if !live[string(k)] {
			dead = append(dead, slices.Clone(k))
		}
	}
	for _, k := range dead {
		if err := n.values.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// clean ends a removal: it removes values that nothing reads, and the namespace and the thread
// if nothing is left of them.
func clean(tx *bbolt.Tx, n *space) error {
	written, _ := n.writes.Cursor().First()
	if n.head() != "" || written != nil {
		return n.dropValues()
	}
	t := threadOf(tx, n.thread)
	if err := t.DeleteBucket([]byte(spacePrefix + n.ns)); err != nil {
		return err
	}
	if len(bucketNames(t)) > 0 {
		return nil
	}
	return tx.Bucket(threadsName).DeleteBucket([]byte(n.thread))
}

// removeUnneeded removes the checkpoints that doomed names, except those that others need.
func (n *space) removeUnneeded(doomed func(id string) (bool, error), done *saver.Removal) error {
	view, err := n.view()
	if err != nil {
		return err
	}
	var gone, stay []string
	for id := range view {
		switch yes, err := doomed(id); {
		case err != nil:
			return err
		case yes:
			gone = append(gone, id)
		default:
			stay = append(stay, id)
		}
	}
	support := rules.PruneMark(view, stay)
	for _, id := range gone {
		if why, isNeeded := support[id]; isNeeded {
			why.ThreadID, why.Namespace = n.thread, n.ns
			done.Keep(why)
		} else if err := n.remove(id, done); err != nil {
			return err
		}
	}
	return nil
}

// DeleteForRuns implements saver.Saver.
func (s *Saver) DeleteForRuns(ctx context.Context, runIDs []string, owned *saver.Lease) (saver.Removal, error) {
	return s.removal(ctx, func(tx *bbolt.Tx, done *saver.Removal) error {
		if err := s.owned.CheckLease(owned); err != nil {
			return err
		}
		threads := threadIDs(tx)
		if owned != nil {
			threads = []string{owned.ThreadID()}
		}
		for _, thread := range threads {
			for _, n := range spacesOf(tx, thread) {
				if err := n.removeUnneeded(func(id string) (bool, error) { return s.isOfRuns(n, id, runIDs) }, done); err != nil {
					return err
				}
				if err := clean(tx, n); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// isOfRuns reports whether the metadata of a checkpoint has one of the run ids.
func (s *Saver) isOfRuns(n *space, id string, runIDs []string) (bool, error) {
	cp, err := n.checkpoint(id)
	if err != nil {
		return false, err
	}
	md, err := saver.DecodeMetadata(cp.Metadata, s.opts.Serializer)
	return err == nil && md.RunID() != "" && slices.Contains(runIDs, md.RunID()), err
}

// removal is update for calls that say what they removed.
func (s *Saver) removal(ctx context.Context, fn func(tx *bbolt.Tx, done *saver.Removal) error) (done saver.Removal, err error) {
	if err := s.update(ctx, func(tx *bbolt.Tx) error { return fn(tx, &done) }); err != nil {
		return saver.Removal{}, err
	}
	return done, nil
}

// Prune implements saver.Saver.
func (s *Saver) Prune(ctx context.Context, threadIDs []string, strategy saver.PruneStrategy) (saver.Removal, error) {
	if err := strategy.Validate(); err != nil {
		return saver.Removal{}, err
	}
	if err := saver.ValidateThreadID(threadIDs...); err != nil {
		return saver.Removal{}, err
	}
	return s.removal(ctx, func(tx *bbolt.Tx, done *saver.Removal) error {
		for _, thread := range slices.Compact(slices.Sorted(slices.Values(threadIDs))) {
			if err := s.prune(tx, thread, strategy, done); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Saver) prune(tx *bbolt.Tx, thread string, strategy saver.PruneStrategy, done *saver.Removal) error {
	if strategy == saver.PruneAll {
		for _, n := range spacesOf(tx, thread) {
			ids := slices.Concat(n.ids(), bucketNames(n.writes))
			for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
				if err := n.count(id, done); err != nil {
					return err
				}
			}
		}
		return s.deleteThread(tx, thread)
	}
	for _, n := range spacesOf(tx, thread) {
		head := n.head()
		if head == "" {
			continue
		}
		if err := n.removeUnneeded(func(id string) (bool, error) { return id != head, nil }, done); err != nil {
			return err
		}
		for _, id := range bucketNames(n.writes) { // older than the head, and without a checkpoint
			if id < head && !n.has(id) {
				if err := n.remove(id, done); err != nil {
					return err
				}
			}
		}
		if err := clean(tx, n); err != nil {
			return err
		}
	}
	return nil
}

// CopyThread implements saver.Saver. The copy has bytes of its own.
func (s *Saver) CopyThread(ctx context.Context, src, dst string) error {
	if err := saver.ValidateThreadID(src, dst); err != nil {
		return err
	}
	return s.update(ctx, func(tx *bbolt.Tx) error {
		if threadOf(tx, dst) != nil {
			return fmt.Errorf("copy thread %q to %q: %w", src, dst, saver.ErrThreadExists)
		}
		from := threadOf(tx, src)
		if from == nil {
			return nil
		}
		to, err := tx.Bucket(threadsName).CreateBucket([]byte(dst))
		if err != nil {
			return err
		}
		if err := copyBucket(from, to); err != nil {
			return err
		}
		if err := store(to, infoName, threadInfo{Updated: s.now().UnixMicro()}); err != nil {
			return err
		}
		return tx.Bucket(deletedName).Delete([]byte(dst))
	})
}

// copyBucket copies all that is in a bucket.
func copyBucket(from, to *bbolt.Bucket) error {
	if err := to.SetSequence(from.Sequence()); err != nil {
		return err
	}
	return from.ForEach(func(k, v []byte) error {
		if v != nil {
			return to.Put(k, v)
		}
		sub, err := to.CreateBucket(k)
		if err != nil {
			return err
		}
		return copyBucket(from.Bucket(k), sub)
	})
}
