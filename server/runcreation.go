package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// made makes the run of a request: on the thread of its path, or on one of its own. If the answer is
// the run's events or its result, the run need not be durable yet.
func (s *runAPI) made(c *call) (r runs.Run, stateless bool, err error) {
	c.deferSync = c.route.stream
	if id := c.path("thread_id"); id != "" {
		r, err = s.on(c, id, c.body)
		return r, false, err
	}
	r, err = s.stateless(c, c.body)
	return r, true, err
}

// on makes the run of a request on a thread.
func (s *runAPI) on(c *call, id string, in body) (runs.Run, error) {
	a, err := s.assistants.named(c, in.text("assistant_id"))
	if err != nil {
		return runs.Run{}, instead(err, 404, fail(404, "Thread or assistant not found."))
	}
	defer s.locks.thread(id)()
	t, ok, err := s.threads.record(c.ctx, id, c.grant)
	if err != nil {
		return runs.Run{}, err
	}
	if !ok && in.text("if_not_exists") == "create" {
		if _, taken, err := s.threads.records.get(c.ctx, id); taken || err != nil {
			return runs.Run{}, cmp.Or(err, fail(404, "Thread or assistant not found."))
		}
		g, err := c.access("threads", "create")
		if err != nil {
			return runs.Run{}, err
		}
		if err := s.threads.removeLeft(c.ctx, id); err != nil {
			return runs.Run{}, err
		}
		if foreign, err := s.threads.isForeign(c.ctx, id, g); foreign || err != nil {
			return runs.Run{}, cmp.Or(err, fail(404, "Thread or assistant not found."))
		}
		t, ok = newThread(id, g.stamp(nil)), true
	}
	if !ok {
		return runs.Run{}, fail(404, "Thread or assistant not found.")
	}
	if err := s.hasCheckpoint(c.ctx, id, in); err != nil {
		return runs.Run{}, err
	}
	return s.submit(c, in, t, a, false, "")
}

// stateless makes a run on a thread of its own, which goes with it unless the client
// keeps it.
func (s *runAPI) stateless(c *call, in body) (runs.Run, error) {
	if in.object("command")["resume"] != nil {
		return runs.Run{}, fail(400, "You must provide a thread_id when resuming.")
	}
	a, err := s.assistants.named(c, in.text("assistant_id"))
	if err != nil {
		return runs.Run{}, err
	}
	keep := in.text("on_completion") == "keep"
	t := newThread("", c.grant.stamp(nil))
	t.Temporary, t.fresh = !keep, true
	if err := s.hasCheckpoint(c.ctx, t.ID, in); err != nil {
		return runs.Run{}, err
	}
	return s.submit(c, in, t, a, !keep, "")
}

// submit makes the run that a client asks for on a thread, and what follows from it when it has
// ended. The caller holds the lock of the thread, except stateless, whose thread nobody knows yet.
//
// key, if it is not "", makes one run of what is submitted twice.
func (s *runAPI) submit(c *call, in body, t thread, a assistant, temporary bool, key string) (runs.Run, error) {
	req, err := s.request(c, in, a, t, temporary)
	if err != nil {
		return runs.Run{}, err
	}
	req.Key = key
	was := t
	other := t.graph() != a.GraphID || t.Metadata["assistant_id"] != a.ID
	if other {
		t.Metadata = merged(t.Metadata, map[string]any{"graph_id": a.GraphID, "assistant_id": a.ID})
	}
	r, err := s.submitBeside(c, req, in, t, other, temporary)
	if errors.Is(err, runs.ErrBusy) {
		if s.withStore == nil && other && !t.fresh { // the thread was stored with the graph of the run
			if err := s.threads.keep(context.WithoutCancel(c.ctx), was); err != nil {
				return r, err
			}
		}
		return r, fail(409, "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.")
	}
	if err != nil {
		if s.withStore == nil && (r.ID != "" || t.fresh) {
			s.undo(t, r)
		}
		return r, err
	}
	s.events.Begun.Changed(t.ID)
	return r, nil
}

// submitBeside submits a run of a thread, and stores beside it the thread as it is then, and what
// is to be done after the run. In a queue that is not in the store this takes several steps: then
// the thread is stored before as well, if it changes its graph, and nothing shows the run until the
// last step.
func (s *runAPI) submitBeside(c *call, req runs.Request, in body, t thread, other, temporary bool) (r runs.Run, err error) {
	var next []deferredAction
	beside := func(r runs.Run) (ops []store.Op, err error) {
		if hook := in.text("webhook"); hook != "" {
			next = append(next, deferredAction{Kind: deferredWebhook, Thread: t.ID, Run: r.ID, URL: hook, Due: now()})
		}
		if temporary {
			next = append(next, deferredAction{Kind: deferredTemporary, Thread: t.ID, Run: r.ID, Due: now()})
		}
		for _, a := range next {
			op, err := s.deferred.records.op(a.key(), a)
			if err != nil {
				return nil, err
			}
			ops = append(ops, op)
		}
		config, _ := r.Labels[labelKwargs].(map[string]any)["config"].(map[string]any)
		given, _ := in.object("config")["configurable"].(map[string]any)
		config = merged(config, map[string]any{"configurable": merged(given)})
		if s.withStore != nil && t.kept != nil && !other && !temporary && isSame(t.Config, config) {
			return ops, nil // the queue has the newer state
		}
		changed := t.withRun(r)
		changed.Config = config
		op, err := s.threads.records.op(t.ID, changed)
		return append(ops, op), err
	}
	if s.withStore != nil {
		r, err = s.withStore.SubmitWith(c.ctx, req, beside, c.deferSync)
	} else {
		if other {
			if err := s.threads.keep(c.ctx, t); err != nil {
				return r, err
			}
		}
		if r, err = s.queue.Submit(c.ctx, req); err != nil {
			return r, err
		}
		var ops []store.Op
		if ops, err = beside(r); err == nil {
			_, err = s.store.Batch(c.ctx, ops...)
		}
	}
	if err != nil {
		return r, err
	}
	for _, a := range next {
		if a.Run == r.ID { // it is not of a run that was there already
			s.deferred.expect(a)
		}
	}
	return r, nil
}

// isSame reports whether two values have the same JSON.
func isSame(a, b any) bool {
	x, err := encode(a)
	if err != nil {
		return false
	}
	y, err := encode(b)
	return err == nil && bytes.Equal(x, y)
}

// undo takes back a run whose request is refused, if it was submitted, and the thread that was
// made for it, as soon as the store takes writes: on a full disk also that must wait. Nothing is
// stored of it, so a server that is killed before leaves them.
func (s *runAPI) undo(t thread, r runs.Run) {
	a := deferredAction{Kind: deferredUndo, Thread: t.ID, Run: r.ID, Due: now(), fresh: t.fresh}
	s.deferred.pending.Store(a.key(), a)
	s.deferred.awake()
}

// takeBack removes a run whose request was refused, and the thread that was made for it.
func (s *runAPI) takeBack(ctx context.Context, a deferredAction) error {
	if a.Run != "" {
		r, err := s.queue.Get(ctx, a.Run)
		if err == nil {
			if err = s.threads.endRun(ctx, r, runs.Rollback); err == nil {
				err = s.remove(ctx, r)
			}
		}
		if err != nil && !errors.Is(err, runs.ErrNotFound) {
			return err
		}
	}
	if a.fresh {
		return s.threads.remove(ctx, a.Thread)
	}
	return nil
}

// hasCheckpoint refuses a run that is to begin at a checkpoint which its thread does not have, or which is one of a
// graph inside.
func (s *runAPI) hasCheckpoint(ctx context.Context, thread string, in body) error {
	switch at := body(in.object("checkpoint")); {
	case at.text("checkpoint_ns") != "":
		return fail(422, "Invalid checkpoint: checkpoint_ns %q is that of a graph inside; a run begins in the graph of its thread", at.text("checkpoint_ns"))
	case at.text("thread_id") != "" && at.text("thread_id") != thread:
		return fail(422, "Invalid checkpoint: thread_id %q is that of another thread", at.text("thread_id"))
	}
	id := checkpointOf(in)
	if id == "" {
		return nil
	}
	_, err := s.saver.GetTuple(ctx, saver.Config{ThreadID: thread, CheckpointID: id})
	if errors.Is(err, saver.ErrNotFound) {
		return fail(404, "Checkpoint %s not found", id)
	}
	return err
}
