package runs

import (
	"context"
	"errors"
	"time"

	"github.com/stele-go/stele/store"
)

// followed is what a Local has in memory in a store that follows a leader: where the runs are in its lists, by id. Items change under
// it, so each listing catches up with them first, and all else reads the items.
type followed struct {
	items []*store.Watch // of the runs, and of their Specs
	runs  map[string]followedRun
}

// followedRun is how a run was when it was read last.
type followedRun struct {
	thread  string
	status  Status
	changed time.Time // when it ended, or was submitted; see Local.Newest
}

func newFollowed(items *store.Local) *followed {
	return &followed{items: []*store.Watch{items.WatchItems(specsSpace), items.WatchItems(runsSpace)}, runs: map[string]followedRun{}}
}

// catchUp makes the lists of a Local that follows those of the items.
func (q *Local) catchUp(ctx context.Context) error {
	f := q.follows
	if f == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	changed := map[string]bool{}
	for _, w := range f.items {
		news, err := w.Next()
		if err != nil {
			f.items = newFollowed(q.items).items // what the others told of is read again
			return err
		}
		for id := range news.Keys {
			changed[id] = true
		}
		if news.All {
			for id := range f.runs {
				changed[id] = true
			}
		}
	}
	for id := range changed {
		if err := q.reread(context.WithoutCancel(ctx), id); err != nil {
			f.items = newFollowed(q.items).items // what was told of is read again
			return err
		}
	}
	return nil
}

// reread puts a run into the lists where it belongs now. The caller holds mu.
func (q *Local) reread(ctx context.Context, id string) error {
	f := q.follows
	delete(q.lost, id)
	r, err := q.stored(ctx, id)
	unread := errors.Is(err, ErrUnreadable)
	if err != nil && !unread && !errors.Is(err, ErrNotFound) {
		return err
	}
	old := f.runs[id]
	delete(f.runs, id)
	q.byStatus[old.status] = withoutID(q.byStatus[old.status], id)
	if left := withoutID(q.byThread[old.thread], id); len(left) > 0 {
		q.byThread[old.thread] = left
	} else {
		delete(q.byThread, old.thread)
	}
	if err != nil && !unread {
		q.decoded.forget(id)
		return nil
	}
	now := followedRun{thread: r.ThreadID, status: r.Status, changed: r.Created}
	if r.Status.Ended() {
		now.changed = r.Ended
	}
	f.runs[id] = now
	if unread {
		q.lost[id] = err
	} else {
		q.byStatus[r.Status] = withID(q.byStatus[r.Status], id)
	}
	if r.ThreadID != "" {
		q.byThread[r.ThreadID] = withID(q.byThread[r.ThreadID], id)
	}
	return nil
}
