package disk

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
)

// List implements Saver. The listing is the store at the moment the iteration
// begins. Values are not read, nor are checkpoints beyond those yielded or
// refused by the filter. Over all threads one with a Limit opens the threads that have the
// newest, as long as these suffice. Which these are is kept at Close: the first listing after a
// crash looks at the threads that were written to since then, and that of a store that has not
// kept it at all of them.
func (s *Saver) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	return func(yield func(*saver.Tuple, error) bool) {
		if err := s.list(ctx, q, yield); err != nil && err != errStopped {
			yield(nil, err)
		}
	}
}

// errStopped ends an iteration that the caller left.
var errStopped = errorString("iteration stopped")

type errorString string

// Error implements error.
func (e errorString) Error() string { return string(e) }

func (s *Saver) list(ctx context.Context, q saver.Query, yield func(*saver.Tuple, error) bool) error {
	if err := q.Validate(); err != nil {
		return err
	}
	if err := s.e.Current(ctx); err != nil {
		return err
	}
	var of newestThreads
	var v *engine.View
	var err error
	some := q.ThreadID == "" && q.Limit > 0 && q.CheckpointID == ""
	if some {
		v, of, err = s.newest.viewed(s.e)
	} else {
		v, err = s.e.View()
	}
	if err != nil {
		return err
	}
	defer v.Release()
	if q.Limit == saver.NoResults {
		return nil
	}
	found, readers := 0, listReaders{s: s, from: s.e.Reader(), alike: s.alike()}
	defer readers.from.End()
	visit := func(t *index.Partition, it *index.Entry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := readers.of(t)
		h, err := r.header(ctx, it)
		if err != nil {
			return err
		}
		if !h.md.Match(q.Filter) {
			return nil
		}
		tup, err := r.tuple(&h, it)
		if err != nil {
			return err
		}
		if found++; !yield(tup, nil) || q.Limit > 0 && found == q.Limit {
			return errStopped
		}
		return nil
	}
	if some {
		return s.listSome(v, q, of, visit)
	}
	if q.ThreadID == "" {
		return s.listAll(v, q, false, visit)
	}
	t, err := v.Partition(layout.ThreadKey(q.ThreadID))
	if err != nil || t == nil {
		return err
	}
	if q.Namespace != nil {
		return listNamespace(t, q, visit)
	}
	return listThread(t, q, visit)
}

// listReaders are the readers of the threads of a listing. They share one engine.Reader, so that
// versions on the way to a value are made once.
type listReaders struct {
	s    *Saver
	last *tupleReader
	from *engine.Reader
	alike
}

// listBatch is how many lazy values of a listing share one allocation: a value that is kept keeps 1
// KiB.
const listBatch = 32

func (l *listReaders) of(t *index.Partition) *tupleReader {
	if l.last != nil && l.last.t == t {
		return l.last
	}
	l.last = &tupleReader{s: l.s, t: t, from: l.from, alike: l.alike, batch: listBatch}
	return l.last
}

// listNamespace streams: the keys of one namespace are in the order of the
// listing, so that a limit ends the work.
func listNamespace(t *index.Partition, q saver.Query, visit func(*index.Partition, *index.Entry) error) error {
	prefix, before := layout.CheckpointPrefix(*q.Namespace), ""
	if q.Before != "" {
		before = prefix + q.Before
	}
	if q.CheckpointID != "" {
		it := t.Get(prefix + q.CheckpointID)
		if it == nil || before != "" && it.Key >= before {
			return nil
		}
		return visit(t, it)
	}
	var err error
	t.Descend(prefix, before, func(it *index.Entry) bool {
		err = visit(t, it)
		return err == nil
	})
	return err
}

// listThread streams as well: it merges the namespaces of a thread.
func listThread(t *index.Partition, q saver.Query, visit func(*index.Partition, *index.Entry) error) error {
	w := newWalk(t, q)
	if len(w.left) == 1 {
		q.Namespace = &w.left[0].at.Namespace
		return listNamespace(t, q, visit)
	}
	for ; len(w.left) > 0; w.advance() {
		if err := visit(t, w.left[0].entry); err != nil {
			return err
		}
	}
	return nil
}

// walk goes through the checkpoints of a thread that a query selects. It looks at one of each namespace
// when it begins, and then at those that it passes.
type walk struct {
	t    *index.Partition
	q    saver.Query
	left []foundEntry // the next one of each namespace that has one, in the order of the listing
}

func newWalk(t *index.Partition, q saver.Query) *walk {
	w, all := &walk{t: t, q: q}, string(layout.KeyCheckpoint)
	enter := func(ns string) {
		if f, ok := w.find(ns, q.Before); ok {
			w.left = append(w.left, f)
		}
	}
	if q.Namespace != nil {
		enter(*q.Namespace)
		return w
	}
	for it := below(t, all, ""); it != nil; {
		before := it.Key
		if ns, _, ok := layout.ParseCheckpointKey(it.Key); ok {
			enter(ns)
			before = layout.CheckpointPrefix(ns)
		}
		it = below(t, all, before)
	}
	slices.SortFunc(w.left, compareFound)
	return w
}

// find returns the greatest checkpoint of a namespace that the query selects, before an id unless that is "".
func (w *walk) find(ns, before string) (f foundEntry, ok bool) {
	prefix := layout.CheckpointPrefix(ns)
	var it *index.Entry
	switch id := w.q.CheckpointID; {
	case id == "" && before == "":
		it = below(w.t, prefix, "")
	case id == "":
		it = below(w.t, prefix, prefix+before)
	case before == "" || id < before:
		it = w.t.Get(prefix + id)
	}
	if it == nil {
		return f, false
	}
	at := saver.Config{ThreadID: strings.TrimPrefix(w.t.ID, layout.SpaceThread), Namespace: ns, CheckpointID: it.Key[len(prefix):]}
	return foundEntry{at, w.t, it}, true
}

// advance passes the first of left. The next one of its namespace often comes soon, so few others move.
func (w *walk) advance() {
	next, ok := w.find(w.left[0].at.Namespace, w.left[0].at.CheckpointID)
	if !ok {
		w.left = w.left[1:]
		return
	}
	i, _ := slices.BinarySearchFunc(w.left[1:], next, compareFound)
	copy(w.left, w.left[1:i+1])
	w.left[i] = next
}

// below returns the entry with the greatest key that begins with prefix and is smaller than before, unless that is ""; or nil.
func below(t *index.Partition, prefix, before string) (last *index.Entry) {
	t.Descend(prefix, before, func(it *index.Entry) bool { last = it; return false })
	return last
}

// listAll gathers the checkpoints of all threads before it yields the first:
// their ids interleave. With note newest is made of them.
func (s *Saver) listAll(v *engine.View, q saver.Query, note bool, visit func(*index.Partition, *index.Entry) error) error {
	var all []foundEntry
	var err error
	aerr := v.Ascend(layout.SpaceThread, func(t *index.Partition) bool {
		if !strings.HasPrefix(t.ID, layout.SpaceThread) {
			return false
		}
		if t, err = v.Load(t); err != nil {
			return false
		}
		if all = selectEntries(t, q, all); note {
			s.newest.read(t, v)
		}
		return true
	})
	if err = cmp.Or(err, aerr); err != nil {
		return err
	}
	if note {
		s.newest.allRead()
	}
	return visitSorted(all, visit)
}

// foundEntry is a checkpoint a query selects, filter and limit aside.
type foundEntry struct {
	at     saver.Config
	thread *index.Partition
	entry  *index.Entry
}

func compareFound(a, b foundEntry) int { return a.at.CompareListing(b.at) }

func selectEntries(t *index.Partition, q saver.Query, all []foundEntry) []foundEntry {
	prefix := string(layout.KeyCheckpoint)
	if q.Namespace != nil {
		prefix = layout.CheckpointPrefix(*q.Namespace)
	}
	t.Ascend(prefix, func(it *index.Entry) bool {
		ns, id, ok := layout.ParseCheckpointKey(it.Key)
		if !ok || q.CheckpointID != "" && q.CheckpointID != id || q.Before != "" && id >= q.Before {
			return true
		}
		at := saver.Config{ThreadID: strings.TrimPrefix(t.ID, layout.SpaceThread), Namespace: ns, CheckpointID: id}
		all = append(all, foundEntry{at, t, it})
		return true
	})
	return all
}

func visitSorted(all []foundEntry, visit func(*index.Partition, *index.Entry) error) error {
	slices.SortFunc(all, compareFound)
	for _, f := range all {
		if err := visit(f.thread, f.entry); err != nil {
			return err
		}
	}
	return nil
}
