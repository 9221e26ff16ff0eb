package disk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
)

// eraseBatch is how many threads and namespaces one commit of an erasure deletes.
const eraseBatch = 64

// EraseRequest says what Saver.EraseRequest erases in one rewrite of the store's files.
type EraseRequest struct {
	// Before, unless it is nil, is erased before the rest, by the same rewrite: what a call that is repeated finds by the
	// rest alone. Its own Before and Progress are not used.
	Before *EraseRequest
	// Threads are the ids of threads to erase, in that order, with the signals to each that the store has (package pregel).
	Threads []string
	// Items are namespace prefixes of the long-term store (package store): the items of
	// each namespace, and of all below it, are erased. A prefix has at least one label.
	// An item that is put while the call runs may stay.
	Items [][]string
	// Progress, unless it is nil, is called before each part of the store is rewritten, and when old
	// files are removed. It runs on the goroutine of the call and must not block.
	Progress func(metrics.EraseProgress)
}

// Erase implements Eraser.
func (s *Saver) Erase(ctx context.Context, threadIDs ...string) error {
	if err := saver.ValidateThreadID(threadIDs...); err != nil || len(threadIDs) == 0 {
		return cmp.Or(err, ctx.Err())
	}
	return s.EraseRequest(ctx, EraseRequest{Threads: threadIDs})
}

// EraseRequest is Erase for threads and for items of the long-term store, with one rewrite of the files
// for all of them. The promises of Erase hold for items too, except that the erasure of a namespace is
// not remembered: an item that is put later is accepted. An empty request finishes pending erasures, as
// FinishErasures does.
//
// Threads, and behind them namespaces, are deleted in the order of the request, in commits of up to 64, each of them
// whole. If a later commit fails the error matches ErrEraseUnfinished: the rest is as it was.
func (s *Saver) EraseRequest(ctx context.Context, req EraseRequest) error {
	if err := req.validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	doomed, err := s.doomed(req)
	if err != nil {
		return err
	}
	for begin := 0; begin < len(doomed); begin += eraseBatch {
		end := min(begin+eraseBatch, len(doomed))
		if err := s.eraseBatch(ctx, doomed[begin:end]); err != nil {
			if begin == 0 {
				return err
			}
			return fmt.Errorf("erase: %w: %d of %d threads and namespaces are deleted, the others are as they were: %w", saver.ErrEraseUnfinished,
				begin, len(doomed), err)
		}
	}
	if err := s.finishErasures(ctx, req.Progress); err != nil {
		return fmt.Errorf("erase: %w: %w", saver.ErrEraseUnfinished, err)
	}
	return nil
}

// parts are what is erased one behind the other.
func (r EraseRequest) parts() []EraseRequest {
	if r.Before == nil {
		return []EraseRequest{r}
	}
	return []EraseRequest{*r.Before, r}
}

func (r EraseRequest) validate() error {
	for _, part := range r.parts() {
		if err := rules.ValidateErase(part.Threads, part.Items); err != nil {
			return err
		}
	}
	return nil
}

// doomed is a partition that will be erased: a thread, or a namespace of items.
type doomed struct {
	id      string
	thread  string // the id of a thread for callers; "" for a namespace of items
	pending string // key of the note that its erasure is pending
}

// doomed returns the partitions that a request erases, in its order. A prefix itself is one of them, so that its
// erasure is recorded even if no item is left below it.
func (s *Saver) doomed(req EraseRequest) ([]doomed, error) {
	var all []doomed
	v, err := s.e.View()
	if err != nil {
		return nil, err
	}
	defer v.Release()
	below := func(prefix, pending string) error {
		return v.Ascend(prefix, func(t *index.Partition) bool {
			if strings.HasPrefix(t.ID, prefix) {
				all = append(all, doomed{id: t.ID, pending: pending})
			}
			return strings.HasPrefix(t.ID, prefix)
		})
	}
	known := map[string]bool{}
	for _, part := range req.parts() {
		for _, id := range part.Threads {
			if known[id] {
				continue
			}
			known[id] = true
			thread := doomed{id: layout.ThreadKey(id), thread: id, pending: layout.ErasedHash(s.e.StoreID(), id)}
			inbox, former := layout.Inbox(id)
			for _, labels := range [][]string{inbox, former} { // before the thread, by which a filter finds it again
				if err := below(layout.ItemsKey(labels), thread.pending); err != nil {
					return nil, err
				}
			}
			all = append(all, thread)
		}
		for _, labels := range part.Items {
			prefix := layout.ItemsKey(labels)
			note := doomed{id: prefix, pending: layout.ErasedHash(s.e.StoreID(), prefix)}
			begin := len(all)
			if err := below(prefix, note.pending); err != nil {
				return nil, err
			}
			if begin == len(all) || all[begin].id != prefix {
				all = slices.Insert(all, begin, note)
			}
		}
	}
	return all, nil
}

// eraseBatch deletes threads and namespaces in one record, and notes there that their
// erasures are pending.
func (s *Saver) eraseBatch(ctx context.Context, batch []doomed) error {
	ids := map[string]bool{layout.ErasuresPartition: true, layout.TTLPartition: true, layout.NewestPartition: true}
	for _, d := range batch {
		if ids[d.id] = true; d.thread != "" {
			ids[layout.SpaceErased+d.pending] = true
		}
	}
	return s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		ok := true
		for _, d := range batch {
			if d.thread != "" {
				ok = needRuns(tx, d.thread, need) && ok
			}
		}
		if !ok {
			return errMoreThreads
		}
		for _, d := range batch {
			if err := d.erase(tx); err != nil {
				return err
			}
		}
		return tx.Drop(layout.NewestPartition, nil)
	})
}

// erase deletes one thread or namespace. The memory of a deleted thread is replaced by the hash of its
// id.
func (d *doomed) erase(tx *engine.Tx) error {
	if d.thread != "" {
		if err := forgetRuns(tx, d.thread, runsOf(tx.Partition(d.id))); err != nil {
			return err
		}
		if err := dropTTL(tx, d.thread); err != nil {
			return err
		}
	}
	if err := tx.Drop(d.id, nil); err != nil {
		return err
	}
	if d.thread != "" {
		memory := layout.SpaceErased + d.pending
		if err := tx.Put(memory, "", 0, nil); err != nil {
			return err
		}
		if err := tx.ForgetTombstone(memory, d.id); err != nil {
			return err
		}
		if err := tx.Drop(memory, encodeMemo(rules.ErasedID)); err != nil {
			return err
		}
	}
	return tx.Put(layout.ErasuresPartition, d.pending, 0, nil)
}

// PendingErasures is how many threads and namespace prefixes were erased by a call that
// did not finish: they are deleted, but files may still hold bytes of them.
func (s *Saver) PendingErasures() (int, error) {
	keys, err := s.pending()
	return len(keys), err
}

func (s *Saver) pending() ([]string, error) {
	t, err := s.e.Partition(layout.ErasuresPartition)
	if err != nil || t == nil {
		return nil, err
	}
	var keys []string
	t.Ascend("", func(it *index.Entry) bool {
		keys = append(keys, it.Key)
		return true
	})
	return keys, nil
}

// FinishErasures does what Erase left undone when it was interrupted: afterwards no
// file of the store, and no object of its bucket, holds a byte of what was erased before the call. It
// does nothing if there is nothing to do. A store that finds unfinished erasures
// when it is opened does it by itself, unless Options.ManualWork.
func (s *Saver) FinishErasures(ctx context.Context) error { return s.finishErasures(ctx, nil) }

func (s *Saver) finishErasures(ctx context.Context, tell func(metrics.EraseProgress)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	keys, err := s.pending()
	if err != nil || len(keys) == 0 {
		return err
	}
	if err := s.e.Scrub(ctx, tell); err != nil {
		return err
	}
	err = s.commitWith(ctx, map[string]bool{layout.ErasuresPartition: true}, func(tx *engine.Tx, _ func(string) bool) error {
		if err := tx.Delete(layout.ErasuresPartition, keys...); err != nil {
			return err
		}
		if t := tx.Partition(layout.ErasuresPartition); t != nil && t.Last("") == nil {
			return tx.Drop(layout.ErasuresPartition, nil)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note that erasures are finished: %w", err)
	}
	return nil
}

// forgetErased forgets that dst was erased, as it is about to become a copy of src.
func (s *Saver) forgetErased(tx *engine.Tx, src, dst string) error {
	for _, store := range s.origins {
		if err := tx.ForgetTombstone(layout.ThreadKey(src), layout.ErasedThread(store, dst)); err != nil {
			return err
		}
	}
	return nil
}
