package buckettest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing/iotest"

	"github.com/stele-go/stele/replica/bucket"
)

// client is a Sim as one client sees it.
type client struct {
	s    *Sim
	name string
}

// begin writes a call down, and gives it its fate. The lock must be held.
func (c *client) begin(call Call) Call {
	s := c.s
	which := call
	call.Client, which.Client, which.Cond = c.name, c.name, bucket.Condition{}
	call.N, call.Nth = len(s.calls), s.nth[which]
	s.nth[which]++
	s.deliverDue()
	if call.Fate = NotApplied; !s.cut[c.name] {
		call.Fate = s.fate(call)
	}
	if call.Fate != Applied && !slices.Contains(Fates(call), min(call.Fate, LateBy(1))) {
		call.Fate = Applied
	}
	s.calls = append(s.calls, call)
	return call
}

// deliverDue applies the late calls whose time has come.
func (s *Sim) deliverDue() {
	s.late = slices.DeleteFunc(s.late, func(l *lateCall) bool {
		l.left--
		if l.left == 0 {
			l.apply()
		}
		return l.left == 0
	})
}

// run makes a call. apply is called under the lock: at once, later, twice or not at all.
func (c *client) run(ctx context.Context, call Call, apply func(Fate) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for st := c.s.stalled[c.name]; st != nil; st = c.s.stalled[c.name] {
		c.s.mu.Unlock()
		select {
		case <-st.over:
		case <-ctx.Done():
		}
		if c.s.mu.Lock(); ctx.Err() != nil {
			return c.sleep(st, call, apply, ctx.Err())
		}
	}
	call = c.begin(call)
	err := c.answer(call, apply)
	c.s.calls[call.N].Result = "ok"
	if err != nil {
		c.s.calls[call.N].Result = err.Error()
	}
	return err
}

// sleep leaves a stalled call to Resume. The lock is held.
func (c *client) sleep(st *stall, call Call, apply func(Fate) error, why error) error {
	if c.s.stalled[c.name] == st && (call.Op == Put || call.Op == Delete) {
		st.asleep = append(st.asleep, func() {
			call := c.begin(call)
			c.s.calls[call.N].Result = fmt.Sprint("too late: ", c.answer(call, apply))
		})
	}
	return fmt.Errorf("%w: stalled: %w", ErrUnknown, why)
}

// answer gives a call its fate. The lock is held.
func (c *client) answer(call Call, apply func(Fate) error) error {
	f, s := call.Fate, c.s
	later := func() { _ = apply(f) }
	switch f {
	case NotApplied:
		return fmt.Errorf("%w: %s", ErrUnknown, f)
	case AnswerLost:
		return fmt.Errorf("%w: %s (it was: %v)", ErrUnknown, f, apply(f))
	case Twice:
		_ = apply(f)
		return apply(f)
	case Again:
		s.late = append(s.late, &lateCall{apply: later})
		return apply(f)
	case Applied, Cut:
		return apply(f)
	}
	s.late = append(s.late, &lateCall{later, int(f - Late)})
	return fmt.Errorf("%w: %s", ErrUnknown, f)
}

// Put implements bucket.Bucket.
func (c *client) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (tag bucket.ETag, err error) {
	text, err := readPut(key, body, cond)
	if err != nil {
		return "", err
	}
	var stored bucket.ETag
	err = c.run(ctx, Call{Op: Put, Key: key, Cond: cond}, func(Fate) (err error) { stored, err = c.s.put(key, text, cond); return err })
	if err != nil {
		return "", err
	}
	return stored, nil
}

// Get implements bucket.Bucket.
func (c *client) Get(ctx context.Context, key string, o bucket.GetOptions) (obj *bucket.Object, err error) {
	if err := bucket.CheckGet(key, o); err != nil {
		return nil, err
	}
	err = c.run(ctx, Call{Op: Get, Key: key}, func(f Fate) (err error) {
		if obj, err = c.s.get(key, o); err == nil && f == Cut {
			obj.Body, err = cutBody(obj.Body)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// List implements bucket.Bucket.
func (c *client) List(ctx context.Context, prefix, after string) (page []bucket.Entry, err error) {
	err = c.run(ctx, Call{Op: List, Key: prefix}, func(Fate) error { page = c.s.list(prefix, after); return nil })
	if err != nil {
		return nil, err
	}
	return page, nil
}

// Delete implements bucket.Bucket.
func (c *client) Delete(ctx context.Context, keys ...string) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	keys = slices.Clone(keys)
	return c.run(ctx, Call{Op: Delete, Key: first}, func(Fate) error { c.s.remove(keys); return nil })
}

// cutBody is the first half of a body, and then io.ErrUnexpectedEOF.
func cutBody(body io.Reader) (io.ReadCloser, error) {
	text, err := io.ReadAll(body)
	return io.NopCloser(io.MultiReader(bytes.NewReader(text[:len(text)/2]), iotest.ErrReader(io.ErrUnexpectedEOF))), err
}
