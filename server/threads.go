package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// threadAPI has the operations on threads and their states.
type threadAPI struct {
	records    records[thread]
	index      *threadIndex // nil where there can be none
	unfinished records[unfinishedThread]
	saver      saver.Saver
	queue      runs.Queue
	store      store.Store
	withStore  queueWithStore // nil if queue is not in store
	graphs     *graphSet
	view       *runView
	crons      *cronStore
	deferred   *deferredActions
	removed    records[removedRuns]
	locks      *locks
	log        *slog.Logger
}

// queueWithStore is a queue in the Store: a run and the server's records for it are one write. With
// deferSync a run is durable only once it was read. As the queue knows the newest run of a thread, most
// runs do not change the thread's record.
type queueWithStore interface {
	Items() *store.Local
	Newest(threadID string) (id string, changed time.Time)
	SubmitWith(ctx context.Context, req runs.Request, beside func(runs.Run) ([]store.Op, error), deferSync bool) (runs.Run, error)
}

func (s *threadAPI) patch(c *call) error {
	defer s.locks.thread(c.path("thread_id"))()
	for range mostPatches {
		t, err := s.ofPath(c)
		if err != nil {
			return instead(err, 404, errNotFound)
		}
		t.Metadata = c.grant.changed(t.Metadata, c.body.object("metadata"))
		if given, ok := c.body["ttl"]; ok {
			if t.TTL, err = ttlOf(given); err != nil {
				return err
			}
		}
		t.Updated = now()
		kept, err := s.replace(c.ctx, t)
		switch {
		case err == nil && !kept:
		case err != nil || c.r.Header.Get("Prefer") == "return=minimal":
			return c.none(err)
		default:
			return s.show(c, t)
		}
	}
	return fail(409, "Other servers change thread %s. Try again.", c.path("thread_id"))
}

// mostPatches is how often a thread is changed anew that another server changes at the same time.
const mostPatches = 20

func (s *threadAPI) copyOf(c *call) error {
	t, err := s.ofPath(c)
	if err != nil {
		return instead(err, 404, fail(409, "Conflict"))
	}
	created, err := c.access("threads", "create")
	if err != nil {
		return err
	}
	dst := newThread("", created.stamp(t.Metadata))
	dst.Config = t.Config
	defer s.locks.thread(dst.ID)()
	if err := s.makeThread(c, dst, func() error { return s.saver.CopyThread(c.ctx, t.ID, dst.ID) }); err != nil {
		return err
	}
	return s.show(c, dst)
}

// ofPath is the thread of a path, if the grant shows it.
func (s *threadAPI) ofPath(c *call) (thread, error) {
	id := c.path("thread_id")
	t, ok, err := s.record(c.ctx, id, c.grant)
	if err == nil && !ok {
		err = missingThread(id)
	}
	return t, err
}

// missingThread says that a thread is not there, or not the user's.
func missingThread(id string) error { return fail(404, "Thread with ID %s not found", id) }

// id is the id of the thread that a request names by a UUID: the same in its usual form, unless
// another program has made a thread of just this id.
func (s *threadAPI) id(ctx context.Context, given string) (string, error) {
	small := usual(given)
	if small == given {
		return given, nil
	}
	_, stored, err := s.infoOf(ctx, given)
	if stored {
		return given, err
	}
	return small, err
}

// anyThread reports whether the path's thread, whose id is no UUID, is one that a program made without
// the server.
func (s *threadAPI) anyThread(c *call) bool {
	if !c.auth.open {
		return false
	}
	_, ok, err := s.infoOf(c.ctx, c.path("thread_id"))
	return ok && err == nil
}

// record returns the record of a thread. A thread that a program made without the server has none, and
// is shown as it is stored, unless the grant has a filter: then a child alone is, to who sees its parent. ok is false if
// there is no such thread, or the grant does not show it.
func (s *threadAPI) record(ctx context.Context, id string, g Grant) (t thread, ok bool, err error) {
	t, item, err := s.records.read(ctx, id)
	if t.kept = item; err != nil || item != nil {
		return t, err == nil && g.admits(t.Metadata), err
	}
	var owner map[string]any
	if g.Filter != nil {
		if owner, ok, err = s.ownerOf(ctx, id, g); err != nil || !ok {
			return t, false, err
		}
	}
	info, ok, err := s.infoOf(ctx, id)
	if err != nil || !ok {
		return t, false, err
	}
	if _, left, err := s.unfinished.get(ctx, id); left || err != nil { // what a client were told of it would go with it
		return t, false, err
	}
	t, err = s.withGraph(ctx, s.stored(info))
	t.Metadata = merged(owner, t.Metadata)
	return t, err == nil, err
}

// ownerOf is what says whose the thread of a child is: of the nearest thread above it that has a record, the metadata that a
// grant asks for. ok is false if there is none, or the grant does not show it.
func (s *threadAPI) ownerOf(ctx context.Context, id string, g Grant) (owner map[string]any, ok bool, err error) {
	for seen := map[string]bool{}; !seen[id]; { // a program can make its parents a circle
		seen[id] = true
		if id, err = s.parentOf(ctx, id); err != nil || id == "" {
			return nil, false, err
		}
		t, ok, err := s.records.get(ctx, id)
		if err != nil || ok && !g.admits(t.Metadata) {
			return nil, false, err
		}
		if ok {
			owner = maps.Clone(t.Metadata)
			maps.DeleteFunc(owner, func(key string, _ any) bool { _, asked := g.Filter[key]; return !asked })
			return owner, true, nil
		}
	}
	return nil, false, nil
}

// parentOf is the thread that has started a thread as its child; "" if none has, or its run cannot be read.
func (s *threadAPI) parentOf(ctx context.Context, id string) (string, error) {
	for r, err := range s.queue.List(ctx, runs.Query{ThreadID: id, Limit: 1}) {
		if errors.Is(err, runs.ErrUnreadable) {
			return "", nil
		}
		return r.Parent, err
	}
	return "", nil
}

// infoOf returns the saver's information about a thread; ok is false if it has none.
func (s *threadAPI) infoOf(ctx context.Context, id string) (info saver.ThreadInfo, ok bool, err error) {
	return saver.ThreadOf(ctx, s.saver, id)
}

// stored is a thread that has no record, as the saver knows it.
func (s *threadAPI) stored(info saver.ThreadInfo) thread {
	t := thread{ID: info.ThreadID, Created: info.UpdatedAt, Updated: info.UpdatedAt, Metadata: map[string]any{}, Config: map[string]any{}, Stored: true}
	if info.Graph != "" {
		t.Metadata["graph_id"] = info.Graph
	}
	return t
}

// withGraph is a thread with the name of the graph that made its newest checkpoint, if that can
// be read.
func (s *threadAPI) withGraph(ctx context.Context, t thread) (thread, error) {
	if !t.Stored || t.graph() != "" {
		return t, nil
	}
	head, err := s.head(ctx, t.ID)
	if err != nil && !isOfThread(err) {
		return t, err
	}
	if err != nil || head == nil {
		return t, nil
	}
	name, _ := head.Metadata["graph_id"].(string)
	if name == "" && head.Note != nil {
		name = head.Note.Graph
	}
	if name == "" && len(s.graphs.names) == 1 {
		name = s.graphs.names[0]
	}
	if name != "" {
		t.Metadata["graph_id"] = name
	}
	return t, nil
}

// head is the newest checkpoint of a thread; nil if there is none.
func (s *threadAPI) head(ctx context.Context, id string) (*saver.Tuple, error) {
	head, err := s.saver.GetTuple(ctx, saver.Config{ThreadID: id})
	if errors.Is(err, saver.ErrNotFound) {
		return nil, nil
	}
	return head, err
}

// isForeign reports whether the grant has a filter and a thread without a record was made by a program
// without the server: a user bound by a filter must not take over such a thread by its id.
func (s *threadAPI) isForeign(ctx context.Context, id string, g Grant) (bool, error) {
	if g.Filter == nil {
		return false, nil
	}
	return s.begun(ctx, id)
}

// begun reports whether there is a state or a run of a thread.
func (s *threadAPI) begun(ctx context.Context, id string) (bool, error) {
	if _, ok, err := s.infoOf(ctx, id); ok || err != nil {
		return ok, err
	}
	for _, err := range s.queue.List(ctx, runs.Query{ThreadID: id, Limit: 1}) {
		if errors.Is(err, runs.ErrUnreadable) { // it is on the thread all the same
			err = nil
		}
		return err == nil, err
	}
	return false, nil
}

// graphOf is the graph of a thread.
func (s *threadAPI) graphOf(t thread) (*pregel.Graph, error) {
	if t.graph() == "" {
		return nil, fail(400, "Thread '%s' has no assigned graph ID. This usually occurs when no runs have been made on this particular thread. This operation requires a graph ID. Please ensure a run has been made for the thread or manually update the thread metadata (by setting the 'graph_id' field) before running this operation.", t.ID)
	}
	return s.graphs.named(t.graph())
}

// run returns the run of a path, if its thread is the user's. If the run cannot be decoded, it returns
// an error and the fields that can be.
func (s *threadAPI) run(c *call) (runs.Run, error) {
	if _, err := s.ofPath(c); err != nil {
		return runs.Run{}, err
	}
	r, err := s.queue.Get(c.ctx, c.path("run_id"))
	if (err == nil || errors.Is(err, runs.ErrUnreadable)) && (r.ThreadID != c.path("thread_id") || isGone(r)) {
		err = runs.ErrNotFound
	}
	return r, err
}

// replace is keep, if the record is still the one that was read: a thread that another server has removed since does not come back. kept
// is false if it is another one. A store that makes no such commits stores it in any case, and so it does the first
// record of a thread that a program beside the server made.
func (s *threadAPI) replace(ctx context.Context, t thread) (kept bool, err error) {
	over, can := s.store.(interface {
		PutOver(ctx context.Context, was *store.Item, puts ...store.PutOp) (bool, error)
	})
	if !can || t.kept == nil {
		return true, s.keep(ctx, t)
	}
	op, err := s.records.op(t.ID, t)
	if err != nil {
		return false, err
	}
	if t.TTL == nil {
		return over.PutOver(ctx, t.kept, op)
	}
	a := deferredAction{Kind: deferredTTL, Thread: t.ID, Due: now().Add(t.TTL.duration())}
	expiry, err := s.deferred.records.op(a.key(), a)
	if err != nil {
		return false, err
	}
	if kept, err = over.PutOver(ctx, t.kept, op, expiry); kept {
		s.deferred.expect(a)
	}
	return kept, err
}

// keep stores a thread, its expiry, and the operations beside, all in one write.
func (s *threadAPI) keep(ctx context.Context, t thread, beside ...store.Op) error {
	op, err := s.records.op(t.ID, t)
	if err != nil {
		return err
	}
	ops := append(beside, op)
	if t.TTL == nil {
		_, err := s.store.Batch(ctx, ops...)
		return err
	}
	return s.deferred.putWith(ctx, deferredAction{Kind: deferredTTL, Thread: t.ID, Due: now().Add(t.TTL.duration())}, ops...)
}
