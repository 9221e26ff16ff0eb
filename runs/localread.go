package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// Get implements Queue.
func (q *Local) Get(ctx context.Context, id string) (Run, error) {
	q.mu.Lock()
	r := q.inMemory(id)
	if r == nil {
		defer q.mu.Unlock()
		stored, err := q.stored(ctx, id)
		return stored.Run, err
	}
	run, saved := r.Run, r.saved
	q.mu.Unlock()
	if saver.SyncDeferred(ctx) {
		return run, nil
	}
	return run, q.sync(ctx, saved)
}

func (q *Local) get(ctx context.Context, id string) (Run, error) {
	if r := q.inMemory(id); r != nil {
		return r.Run, nil
	}
	r, err := q.stored(ctx, id)
	return r.Run, err
}

// inMemory is a run that has not ended, or that somebody watches; nil for others. The caller
// holds mu.
func (q *Local) inMemory(id string) *localRun {
	if r := q.open[id]; r != nil {
		return r
	}
	return q.watched[id]
}

// stored is a run that may have ended. With an UnreadableError comes what can be decoded of it. The
// caller holds mu.
func (q *Local) stored(ctx context.Context, id string) (storedRun, error) {
	r, err := q.item(ctx, id)
	if err == nil || errors.Is(err, ErrUnreadable) {
		err = q.readSpec(ctx, &r, err)
	}
	return r, cmp.Or(err, q.lost[id]) // of one whose events cannot be decoded
}

// item is a run as its item has it: without its Spec, and with the events that are in the item.
func (q *Local) item(ctx context.Context, id string) (r storedRun, err error) {
	if checkName("run", id) != nil {
		return r, ErrNotFound
	}
	item, err := getItem(ctx, q.items, runsSpace, id)
	if errors.Is(err, ErrNotFound) {
		if item, err = getItem(ctx, q.items, specsSpace, id); err == nil {
			item, err = born(item)
		}
	}
	if err == nil {
		r.events = item.Value[eventsField]
		err = r.decode(item)
	}
	r.ID = id
	return r, unreadable(id, err)
}

// decode reads the item of a run. With an UnreadableError, what can be decoded of it counts.
func (r *storedRun) decode(item *store.Item) error {
	err := unreadable(item.Key, valueOf(item, r))
	if r.ID = item.Key; r.After.IsZero() {
		r.After = r.Created
	}
	if err == nil {
		err = CheckStored(r.Run)
	}
	return err
}

// readSpec reads what never changes of a run. Before 0.1.0 the item of a run had it: then it gets
// an item of its own, before the run changes. undecoded is the error of the item of the run, which
// stays.
func (q *Local) readSpec(ctx context.Context, r *storedRun, undecoded error) error {
	item, err := getItem(ctx, q.items, specsSpace, r.ID)
	return q.specOf(ctx, item, err, r, undecoded)
}

// specOf is readSpec with the item, or the error of reading it.
func (q *Local) specOf(ctx context.Context, item *store.Item, err error, r *storedRun, undecoded error) error {
	if err == nil {
		err = valueOf(item, &r.Spec)
	}
	if undecoded != nil {
		return undecoded
	}
	if !errors.Is(err, ErrNotFound) || r.Graph == "" {
		return unreadable(r.ID, err)
	}
	op, err := putOp(specsSpace, r.ID, r.Spec)
	if err != nil {
		return err
	}
	return q.write(ctx, op)
}

// scanRuns yields the stored runs by their ids. With an UnreadableError comes what can be decoded of
// the run, and the others follow.
func (q *Local) scanRuns(ctx context.Context) iter.Seq2[storedRun, error] {
	return func(yield func(storedRun, error) bool) {
		specs, stop := iter.Pull2(q.scanItems(ctx, specsSpace))
		defer stop()
		items, end := iter.Pull2(q.scanItems(ctx, runsSpace))
		defer end()
		for spec, item := next(specs), next(items); spec.there || item.there; {
			if err := cmp.Or(spec.err, item.err); err != nil {
				yield(storedRun{}, err)
				return
			}
			var r storedRun
			var err, missing error
			at, of := item.item, spec.item
			switch {
			case !spec.there || item.there && at.Key < of.Key: // it was stored before 0.1.0
				r.ID, missing, item = at.Key, ErrNotFound, next(items)
			case !item.there || of.Key < at.Key: // it has not changed
				r.ID, spec = of.Key, next(specs)
				at, err = born(of)
			default:
				r.ID, spec, item = at.Key, next(specs), next(items)
			}
			if err == nil {
				err = r.decode(at)
			}
			err = q.specOf(ctx, of, missing, &r, unreadable(r.ID, err))
			if errors.Is(err, ErrNotFound) { // nothing says what it was to do
				continue
			}
			if !yield(r, err) || err != nil && !errors.Is(err, ErrUnreadable) {
				return
			}
		}
	}
}

// scanned is an item of a scan; there is false behind the last.
type scanned struct {
	item  *store.Item
	err   error
	there bool
}

func next(pull func() (*store.Item, error, bool)) scanned {
	item, err, there := pull()
	return scanned{item, err, there}
}

// scanItems yields the items of a namespace by key.
func (q *Local) scanItems(ctx context.Context, ns store.Namespace) iter.Seq2[*store.Item, error] {
	return func(yield func(*store.Item, error) bool) {
		for found, err := range q.items.Scan(ctx, store.Query{Prefix: ns, ByKey: true, NoRefresh: true}) {
			if err != nil {
				yield(nil, fmt.Errorf("%v: %w", ns, err))
				return
			}
			if !yield(&found.Item, nil) {
				return
			}
		}
	}
}
