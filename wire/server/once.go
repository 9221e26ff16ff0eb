package server

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/wire"
	"github.com/stele-go/stele/wire/internal/calls"
)

const (
	// callSlots is how many slots a client may use.
	callSlots = 256
	// remembered is how many slots a server remembers for a store that does not store calls.
	remembered = 64 << 10
	// expireEvery is how often clients that have not called for long are forgotten.
	expireEvery = 10 * time.Minute
)

// callTable makes a call that is asked again have the effect of one.
//
// A call that is under way is in running; whoever asks the same meanwhile waits for its
// answer. Which calls were done a store on disk remembers itself, in the transactions of
// their effects; see package calls. For other stores the table remembers it: a call is done
// there under the lock of its slot, so that calls of one slot do not overtake each other.
type callTable struct {
	disk *disk.Saver // nil: the store remembers nothing

	mu      sync.Mutex
	running map[calls.ID]*running
	done    map[slot]*list.Element // of *doneCall
	byAge   *list.List
	now     func() time.Time
}

// running is a call under way.
type running struct {
	ended  chan struct{}
	result []byte
	err    error
}

// slot names the slot of a client.
type slot struct {
	client [wire.ClientSize]byte
	number uint16
}

// doneCall is the last call of a slot.
type doneCall struct {
	slot
	call   uint64
	answer []byte
	at     time.Time
}

func newCallTable(s saver.Saver) *callTable {
	d, _ := s.(*disk.Saver)
	return &callTable{disk: d, running: map[calls.ID]*running{}, done: map[slot]*list.Element{}, byAge: list.New(), now: time.Now}
}

// expireEvery removes from a store on disk, from time to time until ctx ends, what it remembers of the calls of
// clients that were not heard of for long.
func (t *callTable) expireEvery(ctx context.Context, log *slog.Logger) {
	if t.disk == nil {
		return
	}
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		if n, err := calls.Expire(ctx, t.disk); err != nil && ctx.Err() == nil {
			log.Warn("forget the calls of clients", "error", err)
		} else if n > 0 {
			log.Debug("clients forgotten", "clients", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// effect is a call that writes.
type effect struct {
	// do does it. Its context makes the store remember the call, unless it is many.
	do func(context.Context) (any, error)
	// many: it is many transactions, and remembered behind them.
	many bool
	// answer encodes the result of do. For a call that was done before, it is called with nil, unless
	// keep kept an answer.
	answer func(any) ([]byte, error)
	// keep is the answer that is stored with the call, without names; nil: none.
	keep func(any) []byte
}

// once does a call that writes, unless it was done before.
func (c *call) once(name *wire.Call, e effect) ([]byte, error) {
	if name == nil {
		v, err := e.do(c.ctx)
		if err != nil {
			return nil, err
		}
		return e.answer(v)
	}
	if name.Slot >= callSlots {
		return nil, wire.Errorf(wire.CodeBadRequest, "slot %d, there are %d", name.Slot, callSlots)
	}
	t, id := c.c.s.calls, calls.ID{Client: name.Client, Slot: name.Slot, Number: name.Number}
	t.mu.Lock()
	if r := t.running[id]; r != nil {
		t.mu.Unlock()
		select {
		case <-r.ended:
			return r.result, r.err
		case <-c.ctx.Done():
			return nil, c.ctx.Err()
		}
	}
	r := &running{ended: make(chan struct{}), err: wire.Errorf(wire.CodeInternal, "the call panicked")}
	t.running[id] = r
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.running, id)
		t.mu.Unlock()
		close(r.ended)
	}()
	r.result, r.err = t.perform(c, id, e, name.Again)
	return r.result, r.err
}

// perform does a call that is not under way.
func (t *callTable) perform(c *call, id calls.ID, e effect, again bool) ([]byte, error) {
	v, err := t.effect(c, id, e)
	if again && t.disk != nil && errors.Is(err, fault.ErrFollower) {
		// It was asked before, perhaps of a leader, and may be in the lineage, whether or not this store has read it.
		if err = calls.Done(t.disk, id); err == nil {
			err = wire.Errorf(wire.CodeUnknownOutcome, "this server follows now; the call may have been done")
		}
	}
	var done *calls.DoneError
	switch {
	case errors.As(err, &done):
		if len(done.Answer) > 0 {
			return done.Answer, nil
		}
		return e.answer(nil)
	case errors.Is(err, calls.ErrStale):
		return nil, wire.Errorf(wire.CodeStale, "the slot was used for a later call")
	case err != nil:
		return nil, err
	}
	return e.answer(v)
}

func (e *effect) kept(v any) []byte {
	if e.keep == nil {
		return nil
	}
	return e.keep(v)
}

// effect does a call, or returns a *calls.DoneError or calls.ErrStale.
func (t *callTable) effect(c *call, id calls.ID, e effect) (any, error) {
	switch {
	case t.disk == nil:
		if err := t.lookUp(id); err != nil {
			return nil, err
		}
		v, err := e.do(c.ctx)
		if err == nil {
			t.remember(id, e.kept(v))
		}
		return v, err
	case e.many:
		if err := calls.Done(t.disk, id); err != nil {
			return nil, err
		}
		v, err := e.do(c.ctx)
		if err != nil {
			return nil, err
		}
		if err := calls.Store(context.WithoutCancel(c.ctx), t.disk, id, e.kept(v)); err != nil {
			// The call is done. When it is repeated, it does the rest of its work.
			c.c.s.log.Warn("call is not remembered", "method", c.name, "error", err)
		}
		return v, nil
	}
	return e.do(calls.With(c.ctx, id, e.kept))
}

// lookUp is calls.Done for a store that remembers nothing.
func (t *callTable) lookUp(id calls.ID) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	el := t.done[slot{id.Client, id.Slot}]
	if el == nil {
		return nil
	}
	switch last := el.Value.(*doneCall); {
	case last.call == id.Number:
		return &calls.DoneError{Answer: last.answer}
	case last.call > id.Number:
		return calls.ErrStale
	}
	return nil
}

// remember notes a call as the last one of its slot.
func (t *callTable) remember(id calls.ID, answer []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, now := slot{id.Client, id.Slot}, t.now()
	if el := t.done[at]; el != nil {
		if el.Value.(*doneCall).call > id.Number {
			return
		}
		t.byAge.Remove(el)
	}
	t.done[at] = t.byAge.PushBack(&doneCall{slot: at, call: id.Number, answer: answer, at: now})
	for el := t.byAge.Front(); el != nil; el = t.byAge.Front() {
		if c := el.Value.(*doneCall); len(t.done) > remembered || now.Sub(c.at) > calls.Keep {
			t.byAge.Remove(el)
			delete(t.done, c.slot)
			continue
		}
		break
	}
}
