package model

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/saver"
)

// upset does something to the saver under test that no answer may show.
func (m *machine) upset(t *rapid.T) {
	s, what, err := m.subject.Upset(t)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	m.subject.Saver, m.changed = s, true
	m.note("upset: "+what, "ok")
}

// change is a call that writes, with what it says and how both savers take it.
type change struct {
	what string
	do   func(ctx context.Context, s saver.Saver) error
}

// drawChange is a random call of those that every saver has.
func (m *machine) drawChange(t *rapid.T) change {
	switch rapid.IntRange(0, 2).Draw(t, "call") {
	case 0:
		req := m.drawPut(t)
		return change{fmt.Sprintf("put %+v", req), func(ctx context.Context, s saver.Saver) error {
			_, err := s.PutRequest(ctx, req)
			return err
		}}
	case 1:
		cfg := saver.Config{ThreadID: thread.Draw(t, "thread"), Namespace: namespace.Draw(t, "namespace"), CheckpointID: checkpointID.Draw(t, "checkpoint")}
		ws, id, path := drawWrites(t), task.Draw(t, "task"), taskPath.Draw(t, "path")
		return change{fmt.Sprintf("put writes %+v of %s %q on %+v", ws, id, path, cfg), func(ctx context.Context, s saver.Saver) error {
			return s.PutWrites(ctx, cfg, ws, id, path)
		}}
	}
	id := thread.Draw(t, "thread")
	return change{"delete " + id, func(ctx context.Context, s saver.Saver) error { return s.DeleteThread(ctx, id) }}
}

// tooLate makes a call whose context has ended: nothing of it may be stored.
func (m *machine) tooLate(t *rapid.T) {
	c := m.drawChange(t)
	ctx, cancel := context.WithCancel(m.ctx)
	cancel()
	m.changed = true
	err := c.do(ctx, m.subject.Saver)
	// A call with other faults may hear of these first.
	if err == nil || errors.Is(err, saver.ErrOutcomeUnknown) {
		t.Fatalf("%s, cancelled before it began: %v", c.what, err)
	}
	m.note("too late: "+c.what, "refused")
}

// leave makes a call whose caller leaves while it is on its way. It is stored or
// not, as the error says; where that says nothing, all of it or nothing.
func (m *machine) leave(t *rapid.T) {
	c := m.drawChange(t)
	m.clock.Add(time.Millisecond)
	m.changed = true
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	m.subject.AtWrite(cancel)
	err := c.do(ctx, m.subject.Saver)
	m.subject.AtWrite(nil)
	before := everything(m.ctx, m.model)
	switch {
	case errors.Is(err, saver.ErrOutcomeUnknown):
		if serr := m.subject.Settle(); serr != nil {
			t.Fatalf("%s, left by its caller: settle: %v", c.what, serr)
		}
		if everything(m.ctx, m.subject.Saver) == before {
			m.note("left: "+c.what, "not stored")
			return
		}
		err = nil
	case errors.Is(err, context.Canceled):
		m.note("left: "+c.what, "withdrawn")
		return
	}
	if want := c.do(m.ctx, m.model); outcome(want) != outcome(err) {
		t.Fatalf("%s, left by its caller:\nsaver %v\nmodel %v", c.what, err, want)
	}
	m.note("left: "+c.what, outcome(err))
}
