package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// threadAPI has the operations on threads and their states.
type threadAPI struct {
	records    records[thread]
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

// queueWithStore is a queue in the Store: a run and what the server keeps of it are one write. An unsynced
// run is durable only when it was asked for. As the queue knows the newest run of a thread, most runs change
// nothing of the thread's record.
type queueWithStore interface {
	Items() *store.Local
	Newest(threadID string) string
	SubmitWith(ctx context.Context, req runs.Request, beside func(runs.Run) ([]store.Op, error), unsynced bool) (runs.Run, error)
}

// What programs beside the server have stored is shown as well, to those whom no filter
// keeps from it: threads without a record of the server's, and states of graphs that the
// server does not have.

// infoOf is what the saver knows of a thread; ok is false if it has none.
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

// record is the record of a thread, or what stands for it; ok is false if there is no such
// thread, or the grant does not show it.
func (s *threadAPI) record(ctx context.Context, id string, g Grant) (t thread, ok bool, err error) {
	t, ok, err = s.records.get(ctx, id)
	if t.kept = ok; err != nil || ok {
		return t, ok && g.admits(t.Metadata), err
	}
	if g.Filter != nil {
		return t, false, nil
	}
	info, ok, err := s.infoOf(ctx, id)
	if err != nil || !ok {
		return t, false, err
	}
	if _, left, err := s.unfinished.get(ctx, id); left || err != nil { // what a client were told of it would go with it
		return t, false, err
	}
	t, err = s.withGraph(ctx, s.stored(info))
	return t, err == nil, err
}

// claimed reports whether a thread that has no record is somebody else's all the same: a
// program beside the server has made it. Whom a filter binds must not take it by its id.
func (s *threadAPI) claimed(ctx context.Context, id string, g Grant) (bool, error) {
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

// anyThread reports whether the path's thread, whose id is no UUID, is one that a program
// beside the server has made.
func (s *threadAPI) anyThread(c *call) bool {
	if !c.auth.open {
		return false
	}
	_, ok, err := s.infoOf(c.ctx, c.path("thread_id"))
	return ok && err == nil
}

// rawState is the state at a checkpoint as it is stored, without the graph that made it.
// Channels of the engine are left out, and all values if values is false.
func rawState(tuple *saver.Tuple, status saver.Status, values bool) (*pregel.StateSnapshot, error) {
	st := &pregel.StateSnapshot{Status: status, Metadata: tuple.Metadata, CreatedAt: tuple.Checkpoint.TS, Address: addressOf(tuple.Config)}
	if st.CreatedAt == "" {
		st.CreatedAt = time.Time{}.Format(time.RFC3339)
	}
	if tuple.Parent != nil {
		parent := addressOf(*tuple.Parent)
		st.Parent = &parent
	}
	if tuple.Note != nil {
		st.Next = tuple.Note.Next
	}
	for _, w := range tuple.PendingWrites {
		if w.Channel != saver.ChannelInterrupt {
			continue
		}
		var asked []pregel.Interrupt
		if err := w.Value.Decode(&asked); err != nil {
			return nil, err
		}
		st.Interrupts = append(st.Interrupts, asked...)
	}
	if !values {
		return st, nil
	}
	all := map[string]any{}
	for name, v := range tuple.Checkpoint.Values {
		if strings.HasPrefix(name, "__") || strings.HasPrefix(name, "branch:") {
			continue
		}
		decoded, err := v.Any()
		if err != nil {
			return nil, err
		}
		all[name] = decoded
	}
	st.Values = all
	return st, nil
}

// statusAt is how far a thread was at a checkpoint: its status while this was the newest one.
// What a task wrote counts as one call, so a question stays one when it is answered.
func statusAt(tuple *saver.Tuple) saver.Status {
	var calls []rules.WriteCall
	for all := tuple.PendingWrites; len(all) > 0; { // they are ordered by task
		task, n := all[0].TaskID, 0
		var channels []string
		for ; n < len(all) && all[n].TaskID == task; n++ {
			channels = append(channels, all[n].Channel)
		}
		calls, all = append(calls, rules.NewWriteCall(task, channels)), all[n:]
	}
	return rules.StatusOf(tuple.Note, calls)
}

func addressOf(cfg saver.Config) pregel.Address {
	return pregel.Address{ThreadID: cfg.ThreadID, Namespace: cfg.Namespace, CheckpointID: cfg.CheckpointID}
}

// snapshot is the state of a thread at an address, by its graph if the server has it. What panics
// while it reads, such as a graph's Migrate, fails.
func (s *threadAPI) snapshot(ctx context.Context, t thread, at pregel.Address, subgraphs bool) (st *pregel.StateSnapshot, err error) {
	defer func() {
		if x := recover(); x != nil {
			st, err = nil, fmt.Errorf("the state of thread %s: panic: %v\n%s", t.ID, x, debug.Stack())
		}
	}()
	if g, ok := s.graphs.by[t.graph()]; ok {
		return g.GetState(ctx, at, pregel.StateOptions{Subgraphs: subgraphs})
	}
	tuple, err := s.saver.GetTuple(ctx, saver.Config{ThreadID: at.ThreadID, Namespace: at.Namespace, CheckpointID: at.CheckpointID})
	if errors.Is(err, saver.ErrNotFound) {
		return &pregel.StateSnapshot{Address: at}, nil
	}
	if err != nil {
		return nil, err
	}
	info, _, err := s.infoOf(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	return rawState(tuple, info.Status, true)
}

// isOfThread reports whether an error of reading a thread's state is about what is stored of it,
// and not about the store or the request. A value may be gone since the thread was found.
func isOfThread(err error) bool {
	return isAny(err, saver.ErrCorrupt, saver.ErrNotFound, saver.ErrAncestorCycle, pregel.ErrInvalidUpdate, pregel.ErrUnknownNode,
		serde.ErrMalformed, serde.ErrDecodeLimit, serde.ErrUnknownKind, serde.ErrDecrypt, serde.ErrPlaintext) ||
		ofType(err) || errors.As(err, new(*saver.MetadataError))
}

// ofType reports whether an error is about the type of what is stored.
func ofType(err error) bool {
	return errors.As(err, new(*serde.TypeError)) || errors.As(err, new(*channel.TypeError))
}

// address is the checkpoint of a thread that a request names: as an object, or by its id.
func address(threadID string, in body) pregel.Address {
	at := pregel.Thread(threadID)
	at.CheckpointID = in.text("checkpoint_id")
	if c := body(in.object("checkpoint")); c != nil {
		at.CheckpointID, at.Namespace = c.text("checkpoint_id"), c.text("checkpoint_ns")
		for ns, id := range c.object("checkpoint_map") {
			if id, ok := id.(string); ok {
				if at.CheckpointMap == nil {
					at.CheckpointMap = map[string]string{}
				}
				at.CheckpointMap[ns] = id
			}
		}
	}
	return at
}

// graphOf is the graph of a thread.
func (s *threadAPI) graphOf(t thread) (*pregel.Graph, error) {
	if t.graph() == "" {
		return nil, fail(400, "Thread '%s' has no assigned graph ID. This usually occurs when no runs have been made on this particular thread. This operation requires a graph ID. Please ensure a run has been made for the thread or manually update the thread metadata (by setting the 'graph_id' field) before running this operation.", t.ID)
	}
	return s.graphs.named(t.graph())
}

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

// missingThread says that a thread is not there, or not the user's.
func missingThread(id string) error { return fail(404, "Thread with ID %s not found", id) }

// ofPath is the thread of a path, if the grant shows it.
func (s *threadAPI) ofPath(c *call) (thread, error) {
	id := c.path("thread_id")
	t, ok, err := s.record(c.ctx, id, c.grant)
	if err == nil && !ok {
		err = missingThread(id)
	}
	return t, err
}

// keep stores a thread with when it expires, and does what else is given, all in one write.
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
