package pregel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// Signal is a message to a thread, of a name and a type. Nodes receive it; anybody sends it, at any time.
// Signals lie in the store of the graph, Options.Store, outside of the state, until a node takes them. Each
// is taken once, and those of one name in the order in which they were sent. A graph with signals needs a
// Saver and a Store; a store in the saver's own log or database makes signals as durable as checkpoints.
//
//	var paid = pregel.NewSignal[Payment]("paid")
//
//	p, ok, err := paid.ReceiveFor(ctx, 72*time.Hour) // in a node
//	err := paid.Send(ctx, g, "order-7", Payment{…}, pregel.SignalOptions{Queue: queue})
type Signal[T any] struct{ name string }

// NewSignal makes a Signal. The name must not be empty.
func NewSignal[T any](name string) Signal[T] { return Signal[T]{name: name} }

// SignalOptions are options of a Signal that is sent.
type SignalOptions struct {
	// Key makes sending idempotent: of several signals to a thread with one key, whatever their names, one
	// is received. Keys are kept as long as the inbox.
	Key string
	// Instead is the id of a refused signal that this one replaces: it is removed. See RefusedSignals. Without a
	// Key, sending instead of one signal counts once.
	Instead string
	// Queue is the queue that executes the thread's runs, a runs.Queue: one that waits for the signal is due
	// then. WITHOUT IT A RUN OF A QUEUE IS NOT WOKEN: the signal is stored, and the run takes it when it wakes for another
	// reason, an instant or another signal; if it waits for nothing else, never. Where there is no queue, Graph.Recover goes on
	// with the thread.
	Queue interface {
		Wake(ctx context.Context, threadID string) error
	}
}

// Send sends the signal to a thread of g; see Graph.Signal.
func (s Signal[T]) Send(ctx context.Context, g *Graph, threadID string, value T, opts ...SignalOptions) error {
	return g.Signal(ctx, threadID, s.name, value, opts...)
}

// Receive takes the next signal of the name. If there is none, the run ends, and the thread waits: like Ask,
// Receive returns an *InterruptError then, which the node must return. When the signal was sent, the node
// runs again from its start, and Receive takes it. A node that runs again after that, for whatever reason,
// gets the same signal: it is bound to the place where it was received, durably, in every durability mode.
// Receives and Sleeps of a node are told apart by their order.
//
// If the superstep is discarded, by new input or because its run is rolled back, its signals are in the
// inbox again, before the others. A fork does not get what was taken before it.
//
// Errors: ErrOutsideTask; ErrNoSaver and ErrNoStore; ErrSignalAwaited if another wait of the
// thread is for this name; a *SignalTypeError for a signal that is no T, which is set aside: the next attempt goes on
// without it, and RefusedSignals lists it.
func (s Signal[T]) Receive(ctx context.Context) (T, error) {
	v, _, err := s.receive(ctx, func(time.Time) time.Time { return time.Time{} })
	return v, err
}

// ReceiveFor is Receive with a time-out. ok is false if d has passed, since the wait was first reached, and
// no signal was there. What came first is stored: a node that runs again gets the same answer.
func (s Signal[T]) ReceiveFor(ctx context.Context, d time.Duration) (value T, ok bool, err error) {
	return s.receive(ctx, func(now time.Time) time.Time { return now.Add(d) })
}

func (s Signal[T]) receive(ctx context.Context, until func(now time.Time) time.Time) (value T, ok bool, err error) {
	ok, err = receive(ctx, s.name, until, func(v any) error {
		value, err = channel.Convert[T](v)
		return err
	})
	if err != nil || !ok {
		var zero T
		return zero, false, err
	}
	return value, true, nil
}

// SignalTypeError: a signal cannot be read as the type that is received. One that a node has taken before stays
// taken, for a program that reads it. Any other is set aside: see RefusedSignals.
type SignalTypeError struct {
	ThreadID, Signal string
	// Refused is the id of the signal that was set aside; "" if it was not.
	Refused string
	Err     error
}

// Error names thread and signal, and says where the signal is.
func (e *SignalTypeError) Error() string {
	where := "which was taken before"
	if e.Refused != "" {
		where = fmt.Sprintf("which is set aside as refused signal %q", e.Refused)
	}
	return fmt.Sprintf("thread %q: signal %q, %s: %v", e.ThreadID, e.Signal, where, e.Err)
}

// Unwrap returns the cause.
func (e *SignalTypeError) Unwrap() error { return e.Err }

// Signal sends a signal to a thread of the graph, which may run, wait, or have ended: it is kept for whoever
// receives it, also in a later run. The value must be one that can be stored. When Signal returns nil, the
// signal is stored, and a run that waits for it is due if SignalOptions.Queue is its queue; WITHOUT THE QUEUE NOBODY
// WAKES IT. Who got an error may send it again, best with SignalOptions.Key. The error matches saver.ErrNotFound if the
// thread does not exist.
func (g *Graph) Signal(ctx context.Context, threadID, name string, value any, opts ...SignalOptions) error {
	g.mustBe()
	o := lastOf(opts)
	s, b := g.opts.Saver, g.inboxFor(threadID)
	switch {
	case s == nil:
		return fmt.Errorf("send signal %q: %w", name, ErrNoSaver)
	case g.opts.Store == nil:
		return fmt.Errorf("send signal %q: %w", name, ErrNoStore)
	case threadID == "":
		return &ArgumentError{Field: "ThreadID", Reason: "is missing"}
	case name == "":
		return &ArgumentError{Field: "Signal", Reason: "has no name"}
	}
	if o.Instead != "" && o.Key == "" {
		o.Key = "instead of " + o.Instead
	}
	typed, err := s.Serializer().Encode(value)
	if err != nil {
		return fmt.Errorf("send signal %q: %w", name, err)
	}
	if _, found, err := saver.ThreadOf(ctx, s, threadID); err != nil {
		return &PersistError{Op: fmt.Sprintf("find thread %q", threadID), Err: err}
	} else if !found {
		return fmt.Errorf("send signal %q: thread %q: %w", name, threadID, saver.ErrNotFound)
	}
	sent := &signal{key: keyHash(o.Key), name: name, typed: typed}
	err = b.send(ctx, sent, g.env.Now().UnixMicro())
	if err == nil && o.Instead != "" {
		err = b.items.Delete(ctx, b.topic(refusedTopic), o.Instead)
	}
	if err != nil {
		return fmt.Errorf("send signal %q to thread %q: %w", name, threadID, err)
	}
	if o.Queue == nil {
		return nil
	}
	return o.Queue.Wake(ctx, threadID)
}

// RefusedSignal is a signal that was set aside, because it was not of the type that a node received.
type RefusedSignal struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Value any    `json:"value"` // plain data
	Error string `json:"error"` // why it could not be read
}

// RefusedSignals are the signals to a thread that were set aside, in their order. To send one again, or another
// in its place, pass its ID as SignalOptions.Instead; DeleteRefusedSignal removes it. They go with the thread's
// other signals.
func (g *Graph) RefusedSignals(ctx context.Context, threadID string) ([]RefusedSignal, error) {
	o := g.mustBe().opts
	if o.Saver == nil || o.Store == nil {
		return nil, nil
	}
	return RefusedSignals(ctx, o.Saver.Serializer(), o.Store, threadID)
}

// RefusedSignals is Graph.RefusedSignals for who has the store of the thread's graph and the serializer of its saver,
// and not the graph.
func RefusedSignals(ctx context.Context, with serde.Serializer, items store.Store, threadID string) ([]RefusedSignal, error) {
	b := &inbox{items: items, thread: threadID}
	found, err := b.items.Search(ctx, store.Query{Prefix: b.topic(refusedTopic), Limit: store.NoLimit, ByKey: true, NoRefresh: true})
	if err != nil {
		return nil, &PersistError{Op: fmt.Sprintf("read the refused signals of thread %q", threadID), Err: err}
	}
	list := []RefusedSignal{}
	for _, it := range found {
		s, ok := signalOf(it.Value)
		if !ok {
			continue
		}
		r := RefusedSignal{ID: it.Key, Name: s.name}
		r.Error, _ = it.Value["error"].(string)
		if r.Value, err = with.Decode(s.typed); err != nil {
			return nil, fmt.Errorf("refused signal %q of thread %q: %w", it.Key, threadID, err)
		}
		list = append(list, r)
	}
	return list, nil
}

// PendingSignal is a signal to a thread that nobody has taken yet.
type PendingSignal struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Keyed bool      `json:"keyed"`           // it was sent with a SignalOptions.Key, of which a hash is kept
	Sent  time.Time `json:"sent_at"`         // or put back, by the store's clock
	Value any       `json:"value"`           // plain data; nil with an Error
	Error string    `json:"error,omitempty"` // why the value cannot be decoded; "" if it can
}

// Signals are the signals to a thread that nobody has taken yet, at most so many of them, 0 for all: by name, those of
// a name in the order in which they are received. One whose name no node receives stays there. So does one that was
// taken, if its process died at that moment, until the thread goes on. A graph without a Saver or a Store has none.
func (g *Graph) Signals(ctx context.Context, threadID string, most int) ([]PendingSignal, error) {
	o := g.mustBe().opts
	if o.Saver == nil || o.Store == nil {
		return nil, nil
	}
	return Signals(ctx, o.Saver.Serializer(), o.Store, threadID, most)
}

// Signals is Graph.Signals for who has the store of the thread's graph and the serializer of its saver, and not the
// graph.
func Signals(ctx context.Context, with serde.Serializer, items store.Store, threadID string, most int) ([]PendingSignal, error) {
	b := &inbox{items: items, thread: threadID}
	found, err := b.pending(ctx, most)
	if err != nil {
		return nil, &PersistError{Op: fmt.Sprintf("read the signals of thread %q", threadID), Err: err}
	}
	list := []PendingSignal{}
	for _, p := range found {
		shown := PendingSignal{ID: p.at, Name: p.name, Keyed: p.key != "", Sent: p.sent}
		if shown.Value, err = with.Decode(p.typed); err != nil {
			shown.Value, shown.Error = nil, err.Error()
		}
		list = append(list, shown)
	}
	return list, nil
}

// LastSignal is when the last signal to a thread was sent into items, by the clock of the store; zero if none was. It may lie in the
// future, if that clock was set back. A store that keeps no order (store.Appender) knows of those alone that nobody has taken.
func LastSignal(ctx context.Context, items store.Store, threadID string) (time.Time, error) {
	b := inbox{items: items, thread: threadID}
	at, err := b.last(ctx)
	if err != nil {
		return time.Time{}, &PersistError{Op: fmt.Sprintf("read the signals of thread %q", threadID), Err: err}
	}
	return at, nil
}

// DeleteRefusedSignal removes a signal that was set aside. A missing one is no error.
func (g *Graph) DeleteRefusedSignal(ctx context.Context, threadID, id string) error {
	b := g.mustBe().inboxFor(threadID)
	if b == nil {
		return nil
	}
	if err := b.items.Delete(ctx, b.topic(refusedTopic), id); err != nil {
		return &PersistError{Op: fmt.Sprintf("delete refused signal %q of thread %q", id, threadID), Err: err}
	}
	return nil
}

// Errors of signals. Match with errors.Is.
var (
	// ErrNoStore: signals need a store.
	ErrNoStore = errors.New("the graph has no store; set Options.Store")
	// ErrSignalAwaited: another wait of the thread is for the same signal.
	ErrSignalAwaited = errors.New("another wait of the thread is for this signal")
)

// bound is how a Receive, or the wait for a child, ended. If both are nil, its time-out passed first.
type bound struct {
	signal  *signal
	end     *ChildEnd
	refused bool // it has not ended: the signal is no T
}

// receive takes the next signal of a name, or returns false if the time-out has passed.
func receive(ctx context.Context, name string, until func(now time.Time) time.Time, accept func(v any) error) (ok bool, err error) {
	if name == "" {
		return false, &ArgumentError{Field: "Signal", Reason: "has no name"}
	}
	w, err := reachWait(ctx, Wait{Signal: name}, until)
	if err != nil {
		return false, fmt.Errorf("receive signal %q: %w", name, err)
	}
	step := w.anchor.step.Get()
	run := step.run.Get()
	b := run.inbox
	if b == nil {
		return false, fmt.Errorf("receive signal %q: %w", name, ErrNoStore)
	}
	b.taking.Lock()
	defer b.taking.Unlock()
	if w.bound == nil && !b.await(name, w.ID) {
		return false, fmt.Errorf("thread %q: receive signal %q: %w", b.thread, name, ErrSignalAwaited)
	}
	decode := func(s *signal) (any, error) {
		v, err := run.saver.Serializer().Decode(s.typed)
		if err != nil { // the fault is not the sender's
			err = fmt.Errorf("thread %q: receive signal %q: %w", b.thread, name, err)
		}
		return v, err
	}
	if w.bound == nil {
		s, err := b.first(ctx, name)
		if err != nil {
			return false, err
		}
		if s == nil && !w.over {
			return false, w.open()
		}
		if s != nil {
			v, err := decode(s)
			if err != nil {
				return false, err
			}
			if wrong := accept(v); wrong != nil {
				if err := w.refuse(ctx, b, s, wrong); err != nil {
					return false, fmt.Errorf("receive signal %q: %w", name, err)
				}
				return false, &SignalTypeError{ThreadID: b.thread, Signal: name, Refused: s.at, Err: wrong}
			}
		}
		if err := w.bind(ctx, &bound{signal: s}); err != nil {
			return false, fmt.Errorf("receive signal %q: %w", name, err)
		}
	}
	b.took(name)
	if w.bound.signal == nil {
		return false, nil
	}
	if err := b.remove(ctx, w.bound.signal); err != nil {
		return false, fmt.Errorf("receive signal %q: %w", name, err)
	}
	v, err := decode(w.bound.signal)
	if err != nil {
		return false, err
	}
	if err := accept(v); err != nil {
		return false, &SignalTypeError{ThreadID: b.thread, Signal: name, Err: err}
	}
	return true, nil
}

// refuse sets a signal aside. The record that is stored before it proves that the run still owns the thread, and is
// read by nobody. A crash between them leaves the signal first: it is refused again.
func (w *reached) refuse(ctx context.Context, b *inbox, s *signal, why error) error {
	if err := w.anchor.settle(ctx, saver.Saver.Sync); err != nil {
		return err
	}
	w.bound = &bound{signal: s, refused: true}
	err := w.ask(reqBind)
	if w.bound = nil; err != nil {
		return err
	}
	step := w.anchor.step.Get()
	if err := step.pipe.flush(); err != nil {
		return err
	}
	return b.refuse(ctx, s, why)
}

// bind stores how a Receive, or the wait for a child, ended, durably.
func (w *reached) bind(ctx context.Context, how *bound) error {
	if err := w.anchor.settle(ctx, saver.Saver.Sync); err != nil {
		return err
	}
	if err := w.pass(); err != nil {
		return err
	}
	w.bound = how
	if err := w.ask(reqBind); err != nil {
		return err
	}
	step := w.anchor.step.Get()
	if err := step.pipe.flush(); err != nil {
		return err
	}
	run := step.run.Get()
	if err := run.saver.Sync(ctx); err != nil {
		return &PersistError{Op: "sync", Err: err}
	}
	return ctx.Err()
}

// passWait stores the record that the wait of a task, or below it, is over.
func (l *loop) passWait(t *task, w *reached) error {
	if l.pos.waits.over[w.ID] {
		return nil
	}
	l.pos.waits.pass(w.ID)
	return l.recordForGood(t, w.ID+" over", map[string]any{"over": w.ID})
}

// bind stores the record of how a Receive, or the wait for a child, ended, also under Exit.
func (l *loop) bind(w *reached) error {
	if w.bound.refused {
		return l.recordForGood(w.anchor.task, w.ID+" refused "+w.bound.signal.at, map[string]any{"refused": w.ID})
	}
	record := map[string]any{"bound": w.ID}
	if s := w.bound.signal; s != nil {
		record["signal"] = s.record()
	}
	if e := w.bound.end; e != nil {
		record["child"] = e.record()
	}
	l.pos.waits.bind(w.ID, w.bound)
	return l.recordForGood(w.anchor.task, w.ID+" bound", record)
}

// recordForGood stores a record about waits of t, also under Exit: as soon as the checkpoint is stored that the
// superstep starts from.
func (l *loop) recordForGood(t *task, name string, record map[string]any) error {
	if err := l.recordWait(t, name, record); err != nil || !l.run.exits() || l.pos.cp.id != l.pos.savedID {
		return err
	}
	id, err := uuid5(t.id, chWaits+name)
	if err != nil {
		return err
	}
	return l.submitKept(nil, id, []answer.Write{answer.New(id, t.pathStr, chWaits, record)})
}

// putSignalsBack puts the signals that the tasks of the superstep took back into the inbox, those of graphs inside
// too: what they did is discarded.
func (l *loop) putSignalsBack(ctx context.Context) error {
	b := l.run.inbox
	if l.run.nested() || b == nil || l.run.saver == nil || !l.pos.from.found() || len(l.pos.pending) == 0 && len(l.pos.waits.bound) == 0 {
		return nil
	}
	taken := l.pos.waits.signals()
	for tup, err := range answer.Below(ctx, l.run.saver, l.pos.here()) {
		if err != nil {
			return &PersistError{Op: fmt.Sprintf("list checkpoints of thread %q", l.run.thread), Err: err}
		}
		more, err := signalsTaken(tup)
		if err != nil {
			return err
		}
		taken = append(taken, more...)
	}
	return b.putBack(ctx, taken)
}

// signalsTaken are the signals that tasks took that go on from a checkpoint.
func signalsTaken(tup *saver.Tuple) ([]signal, error) {
	var pending []answer.Write
	for _, w := range tup.PendingWrites {
		if w.Channel != chWaits {
			continue
		}
		v, err := w.Value.Any()
		if err != nil {
			return nil, fmt.Errorf("read a pending write of task %s to channel %q: %w", w.TaskID, w.Channel, err)
		}
		pending = append(pending, answer.New(w.TaskID, w.TaskPath, w.Channel, v))
	}
	_, waits := takeWaits(pending)
	return waits.signals(), nil
}

// signals are those that were taken.
func (w *waitsReached) signals() (taken []signal) {
	for _, b := range w.bound {
		if b.signal != nil {
			taken = append(taken, *b.signal)
		}
	}
	return taken
}

// PutSignalsBack puts the signals that nodes took in supersteps of a run back into the inbox, in front of those
// that came later, as far as the thread goes back when the checkpoints of the run are removed: what another
// run's checkpoint came after stays taken. It is for who removes them, and owns the thread, before that.
func (g *Graph) PutSignalsBack(ctx context.Context, threadID, runID string) error {
	g.mustBe()
	b := g.inboxFor(threadID)
	if b == nil || g.opts.Saver == nil {
		return nil
	}
	failed := func(err error) error {
		return &PersistError{Op: fmt.Sprintf("list checkpoints of thread %q", threadID), Err: err}
	}
	last := "" // the newest checkpoint of another
	for tup, err := range g.opts.Saver.List(ctx, saver.Query{ThreadID: threadID, Namespace: saver.InNamespace("")}) {
		if err != nil {
			return failed(err)
		}
		if tup.Metadata["run_id"] != runID {
			last = tup.Checkpoint.ID
			break
		}
	}
	var taken []signal
	for tup, err := range g.opts.Saver.List(ctx, saver.Query{ThreadID: threadID, Filter: map[string]any{"run_id": runID}}) {
		if err != nil {
			return failed(err)
		}
		if tup.Checkpoint.ID <= last {
			continue
		}
		more, err := signalsTaken(tup)
		if err != nil {
			return err
		}
		taken = append(taken, more...)
	}
	return b.putBack(ctx, taken)
}

// DeleteSignals removes the signals to a thread that nobody took, and what keeps those with a key from counting
// twice. It is for who deletes the thread, after that: another thread that gets its id would receive them.
func (g *Graph) DeleteSignals(ctx context.Context, threadID string) error {
	g.mustBe()
	b := g.inboxFor(threadID)
	if b == nil {
		return nil
	}
	return DeleteSignals(ctx, b.items, threadID)
}

// DeleteSignals is Graph.DeleteSignals for who has the store of the thread's graph, and not the graph.
func DeleteSignals(ctx context.Context, items store.Store, threadID string) error {
	b := inbox{items: items, thread: threadID}
	if err := b.clear(ctx); err != nil {
		return &PersistError{Op: fmt.Sprintf("delete the signals of thread %q", threadID), Err: err}
	}
	return nil
}
