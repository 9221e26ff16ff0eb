package server

import (
	"cmp"
	"runtime/debug"

	"github.com/google/uuid"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
)

func (s *threadAPI) create(c *call) error {
	t := newThread(c.body.text("thread_id"), c.grant.stamp(c.body.object("metadata")))
	if g := c.body.text("graph_id"); g != "" && t.graph() == "" {
		t.Metadata["graph_id"] = g
	}
	unlock := s.locks.thread(t.ID)
	defer unlock()
	exists := func() (bool, error) {
		old, ok, err := s.records.get(c.ctx, t.ID)
		if err != nil || !ok {
			return false, err
		}
		if c.body.text("if_exists") != "do_nothing" || !c.grant.admits(old.Metadata) {
			return true, errExists(t.ID)
		}
		return true, s.show(c, old)
	}
	if done, err := exists(); done || err != nil {
		return err
	}
	var err error
	if t.TTL, err = ttlOf(c.body["ttl"]); err != nil {
		return err
	}
	steps, _ := c.in.(map[string]any)["supersteps"].([]any)
	var lease *saver.Lease
	if c.body.text("thread_id") != "" {
		var err error
		if lease, err = s.ownLeft(c.ctx, t.ID, len(steps) > 0); err != nil {
			return err
		}
		if lease != nil {
			defer lease.Release()
			if done, err := exists(); done || err != nil { // another server made it meanwhile
				return err
			}
			if err := s.removeOwned(c.ctx, t.ID); err != nil {
				return err
			}
		}
		taken, err := s.isForeign(c.ctx, t.ID, c.grant)
		if err == nil && !taken && len(steps) > 0 { // a program's would be lost with it
			taken, err = s.begun(c.ctx, t.ID)
		}
		if taken || err != nil {
			return cmp.Or(err, errExists(t.ID))
		}
	}
	if len(steps) == 0 {
		if err := s.keep(c.ctx, t); err != nil {
			return err
		}
		return s.show(c, t)
	}
	var refused error
	err = s.makeThread(c, t, func() error {
		err := s.fill(c, t, steps, lease)
		if lease != nil && !lease.Held() { // another server may make it by now
			return errExists(t.ID)
		}
		if err == nil {
			return nil
		}
		if f, _ := failureOf(err); f.status >= 500 {
			return err
		}
		refused = err
		return nil
	})
	if lease != nil {
		lease.Release() // before the client knows, who may run it at once
	}
	if err != nil {
		return err
	}
	if f, ok := refused.(*failure); ok {
		return fail(201, "Thread %s was created, but there were problems updating the state: %v", t.ID, f)
	}
	if refused != nil {
		return refused
	}
	return s.show(c, t)
}

// makeThread makes a thread that has a state from its beginning; see unfinishedThread. The caller holds the lock of the thread.
func (s *threadAPI) makeThread(c *call, t thread, state func() error) error {
	err := s.unfinished.put(c.ctx, t.ID, unfinishedThread{Thread: t.ID, Since: now()})
	if err == nil {
		err = state()
	}
	if err == nil {
		err = s.keep(c.ctx, t, s.unfinished.deletion(t.ID))
	}
	if err != nil {
		s.deferred.expect(deferredAction{Kind: deferredUnfinished, Thread: t.ID, Run: uuid.NewString(), Due: now()})
	}
	return err
}

// fill gives a new thread the state that supersteps of updates make. A panic, which may be one of the
// graph's functions, is an error: some supersteps may be stored by then.
func (s *threadAPI) fill(c *call, t thread, steps []any, lease *saver.Lease) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &pregel.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	g, err := s.graphOf(t)
	if err != nil {
		return err
	}
	var all [][]pregel.StateUpdate
	for _, step := range steps {
		m, _ := step.(map[string]any)
		var superstep []pregel.StateUpdate
		updates, _ := m["updates"].([]any)
		for _, u := range updates {
			in, _ := u.(map[string]any)
			update := pregel.StateUpdate{Values: in["values"], AsNode: body(in).text("as_node")}
			if cmd, ok := in["command"].(map[string]any); ok {
				update.Values = commandOf(cmd)
			}
			superstep = append(superstep, update)
		}
		all = append(all, superstep)
	}
	_, err = g.BulkUpdateState(c.ctx, pregel.Thread(t.ID), all,
		pregel.UpdateOptions{Metadata: c.grant.withOwner(map[string]any{"graph_id": t.graph()}, t), Lease: lease})
	return err
}
