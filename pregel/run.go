package pregel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/stele-go/stele/saver"
)

// Result is the outcome of a run.
type Result struct {
	// Value is the state in the graph's output keys: a map[string]any of several keys, the
	// value of a single one, or nil if nothing was written.
	Value any
	// Interrupts are the questions the run waits for, in the order of the tasks. They are
	// stored. There are none if the run came to its end or stopped at a breakpoint.
	Interrupts []Interrupt
}

// Map is Value as a map; nil if it is none.
func (r *Result) Map() map[string]any {
	m, _ := r.Value.(map[string]any)
	return m
}

// Invoke runs the graph until it ends, asks a question or stops at a breakpoint. A nil
// input resumes the thread; a Command answers, updates and steers; anything else is new
// input. Everything that ended is stored when Invoke returns, even if ctx was cancelled.
func (g *Graph) Invoke(ctx context.Context, at Address, input any, opts ...RunOptions) (*Result, error) {
	o := lastOf(opts)
	if o.OutputKeys == nil {
		o.OutputKeys = &g.output
	}
	res := &Result{}
	l, err := g.run(ctx, &at, input, &o, new(atomic.Bool), func(l *loop) {
		*res = Result{}
		l.view.setStream(&stream{modes: []Mode{ModeUpdates, ModeValues}, interruptsOnly: true, put: func(e Event) {
			switch {
			case len(e.NS) != len(splitNS(l.run.ns)):
			case e.Mode == ModeUpdates:
				res.Interrupts = append(res.Interrupts, e.Interrupts...)
			case len(e.Interrupts) == 0:
				res.Value = e.Data
			}
		}}, nil)
	})
	if err != nil {
		return nil, err
	}
	// Events come as tasks end; the result does not depend on that.
	place := func(in Interrupt) int {
		return slices.IndexFunc(l.view.waiting, func(x Interrupt) bool { return x.ID == in.ID })
	}
	slices.SortStableFunc(res.Interrupts, func(a, b Interrupt) int { return cmp.Compare(place(a), place(b)) })
	return res, nil
}

// run runs the graph. If an earlier run has to be finished first, it does that before. A
// run that lost the thread before its first superstep starts over as often as o says,
// unless somebody was shown a part of it. watch gets the loop of each attempt before it
// runs.
func (g *Graph) run(ctx context.Context, at *Address, input any, o *RunOptions, shown *atomic.Bool, watch func(*loop)) (*loop, error) {
	for n := 0; ; n++ {
		once := func(o *RunOptions) (*loop, error) {
			l, err := g.newLoop(ctx, at, input, o)
			if err != nil {
				return nil, err
			}
			l.saves.owned.again = n > 0
			watch(l)
			return l, l.runAll(ctx)
		}
		l, err := once(o)
		if l != nil && l.pos.entry.kind == entryFinish {
			if err = l.finishEarlier(ctx, at, o, err); err == nil {
				refusing := *o
				refusing.Unfinished = RefuseUnfinished // somebody else left something in the meantime
				l, err = once(&refusing)
			}
		}
		if n >= o.ConflictRetries || !errors.Is(err, ErrConflict) || errors.Is(err, errRanTasks) || shown.Load() || ctx.Err() != nil {
			return l, err
		}
	}
}

// errRanTasks marks a conflict that came after tasks had run: starting over
// would run them twice.
var errRanTasks = errors.New("after tasks had run")

// Stream runs the graph and yields its events as they come. An error is yielded last. To
// stop early cancels the run; everything that ended is stored when Stream returns.
// RunOptions.Modes choose what is shown, and RunOptions.Subgraphs shows graphs inside as
// well.
func (g *Graph) Stream(ctx context.Context, at Address, input any, opts ...RunOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		o := lastOf(opts)
		modes, err := g.modesOf(ctx, o)
		if err != nil {
			yield(Event{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		q := newEventQueue()
		done := make(chan error, 1)
		go func() {
			defer q.end()
			shown := atomic.Bool{}
			_, err := g.run(ctx, &at, input, &o, &shown, func(l *loop) {
				l.view.setStream(&stream{modes: modes, put: func(e Event) {
					shown.Store(true)
					q.push(e)
				}}, q)
			})
			done <- err
		}()
		// Also when the consumer panics: the run must be over when Stream is.
		stopped := true
		defer func() {
			if stopped {
				cancel()
				q.abandon()
				<-done
			}
		}()
		for events := q.take(); len(events) > 0; events = q.take() {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
		stopped = false
		if err := <-done; err != nil {
			yield(Event{}, err)
		}
	}
}

// modesOf are the modes of a stream.
func (g *Graph) modesOf(ctx context.Context, o RunOptions) ([]Mode, error) {
	modes := o.Modes
	if len(modes) == 0 {
		modes = g.defaultModes(ctx)
	}
	for _, m := range modes {
		if !slices.Contains(allModes, m) {
			return nil, &ArgumentError{Field: "modes", Reason: fmt.Sprintf("%q is unknown", m)}
		}
	}
	return modes, nil
}

func (g *Graph) defaultModes(ctx context.Context) []Mode {
	if _, err := runFrom(ctx); err == nil || len(g.opts.Modes) == 0 {
		return []Mode{ModeValues}
	}
	return g.opts.Modes
}

// setStream says where the events of the run go.
func (v *view) setStream(s *stream, q *eventQueue) {
	own := &stream{modes: s.modes, put: s.put, interruptsOnly: s.interruptsOnly}
	v.audience = audience{stream: own, custom: own, queue: q}
	var outer audience
	if v.run.nested() {
		outer = v.run.parent.step.Get().audience
		own.parent, v.inner = outer.inner, outer.inner
		if v.queue == nil {
			v.queue = outer.queue
		}
		if outer.inner != nil && !own.wants(ModeCustom) && !own.wants(ModeMessages) {
			v.custom = outer.custom
		}
	}
	if v.run.opts.Subgraphs {
		v.inner = own
	}
	if v.custom.wants(ModeMessages) {
		v.messages = cmp.Or(outer.messages, &messageLog{seen: map[string]bool{}})
	}
}

// newLoop checks where and how a run is to be, and finds out where it stands in the tree
// of graphs.
func (g *Graph) newLoop(ctx context.Context, at *Address, input any, given *RunOptions) (*loop, error) {
	l := &loop{input: input, run: runConfig{g: g, thread: at.ThreadID, opts: *given}, saves: saves{enc: encoder{g: g}}}
	l.pos.run, l.saves.run, l.view.run, l.view.pos = &l.run, &l.run, &l.run, &l.pos
	l.run.cpMap = at.CheckpointMap
	o := &l.run.opts
	l.pos.place.CheckpointID = at.CheckpointID
	if at.inside {
		r, err := runFrom(ctx)
		if err != nil {
			return nil, fmt.Errorf("run graph %q inside: %w", g.opts.Name, err)
		}
		l.run.inherit(r)
	} else {
		o.Metadata = merged(g.opts.Metadata, o.Metadata)
		l.run.saver = g.opts.Saver
		l.run.ways = g.ways(o)
		if at.Namespace != "" {
			if _, err := g.inside(at.Namespace); err != nil {
				return nil, err
			}
			l.pos.place.CheckpointID = ""
		}
		if g.opts.Checkpointing == Stable {
			return nil, &ArgumentError{Field: "Checkpointing", Reason: "a Stable graph cannot be the outermost one"}
		}
	}
	if s := g.opts.Store; s != nil {
		l.run.store, l.run.items = s, nil
		if g.opts.AtomicStore {
			l.run.items = s.(atomicStore)
		}
	}
	l.run.cache = cmp.Or(g.opts.Cache, l.run.cache)
	if id, ok := l.run.cpMap[l.run.ns]; ok {
		l.pos.place.CheckpointID = id
	}
	if err := o.fill(g); err != nil {
		return nil, err
	}
	l.view.output, l.saves.enc.roundTrip = *o.OutputKeys, l.run.ways.roundTrip
	l.pos.place.ThreadID, l.pos.place.Namespace = l.run.thread, l.run.ns
	l.pos.place.Configurable, l.pos.place.Metadata = o.Configurable, o.Metadata
	if o.RunID != "" {
		l.pos.place.Metadata = merged(l.pos.place.Metadata, map[string]any{"run_id": o.RunID})
	}
	if l.run.saver == nil {
		return l, nil
	}
	if l.run.thread == "" {
		return nil, &ArgumentError{Field: "ThreadID", Reason: "is missing: a graph with a saver requires a thread_id"}
	}
	if o.Lease != nil && o.Lease.ThreadID() != l.run.thread && !l.run.nested() {
		return nil, &ArgumentError{Field: "Lease", Reason: fmt.Sprintf("is of thread %q", o.Lease.ThreadID())}
	}
	var err error
	if l.run.common, err = commonMetadata(l.pos.place, l.run.saver); err != nil {
		return nil, err
	}
	return l, nil
}

// commonMetadata is what the config of a run adds to the metadata of each checkpoint. It refuses
// metadata that no checkpoint could be stored with.
func commonMetadata(at saver.Config, s saver.Saver) (saver.Metadata, error) {
	if len(at.Metadata) == 0 && len(at.Configurable) == 0 {
		return nil, nil
	}
	md := saver.Metadata(nil).Merge(at)
	if err := md.Check(codecOf(s)); err != nil {
		return nil, fmt.Errorf("%w: %w", &ArgumentError{Field: "Metadata", Reason: "cannot be stored, with RunID and Configurable"}, err)
	}
	return md, nil
}

// inherit makes the graph a part of the one whose task parent runs.
func (r *runConfig) inherit(parent *taskRun) {
	step := parent.step.Get()
	outer, o := &step.run, &r.opts
	r.parent, r.thread, r.ways = parent, outer.thread, outer.ways
	r.store, r.items, r.cache = outer.store, outer.items, outer.cache
	r.lease, r.epoch = outer.lease, outer.epoch
	o.Control = outer.opts.Control
	o.RunID = cmp.Or(o.RunID, outer.opts.RunID)
	if o.Context == nil {
		o.Context = outer.opts.Context
	}
	o.RecursionLimit = cmp.Or(o.RecursionLimit, outer.opts.RecursionLimit)
	o.MaxConcurrency = cmp.Or(o.MaxConcurrency, outer.opts.MaxConcurrency)
	o.Durability = cmp.Or(o.Durability, outer.opts.Durability)
	o.Metadata = merged(merged(parent.task.metadata, r.g.opts.Metadata), o.Metadata)
	o.Configurable = merged(outer.opts.Configurable, o.Configurable)
	o.Tags = append(slices.Clone(outer.opts.Tags), o.Tags...)

	ns := parent.task.ns
	if r.g.opts.Checkpointing == Stable {
		ns = stableNS(ns)
	}
	r.ns = numbered(ns, parent.task.pad.subgraphs.Add(1)-1)
	r.cpMap = parent.task.around.get()
	r.fromParent, r.replay, r.resumeMap = step.toInside, outer.replay, outer.resumeMap
	if parent.attempt > 1 {
		r.fromParent = fromParentResume
	}
	if r.g.opts.Checkpointing != Off {
		r.saver = outer.saver
	}
}

// runAll runs the loop and returns what the run ends with. An interrupt of the outermost
// graph is no error, because its events report it.
func (l *loop) runAll(ctx context.Context) (err error) {
	defer l.saves.disown()
	ctx, end := l.spanRun(ctx)
	defer func() {
		if p := recover(); p != nil { // a reducer, a mapper or a hook
			err = l.finish(ctx, panicError(p))
		}
		end(err)
		if h := l.run.g.opts.Hooks.RunEnd; h != nil {
			l.run.g.guardHook("RunEnd", func() { h(l.pos.info(), err) })
		}
	}()
	if h := l.run.g.opts.Hooks.RunStart; h != nil {
		l.run.g.guardHook("RunStart", func() { h(l.pos.info()) })
	}
	if err = l.enter(ctx); err == nil {
		err = l.begin(ctx)
	}
	ctx, stop := l.run.untilLost(ctx)
	defer stop()
	if err == nil {
		err = l.supersteps(ctx)
	}
	err = l.finish(ctx, err)
	var in *InterruptError
	switch {
	case errors.As(err, &in) && !l.run.nested():
		return nil
	case errors.Is(err, ErrConflict) && l.pool.workers != nil: // tasks were run
		return fmt.Errorf("%w %w", err, errRanTasks)
	case err != nil:
		return err
	}
	switch l.pos.status {
	case statusOutOf:
		return &RecursionError{Limit: l.run.opts.RecursionLimit}
	case statusDraining:
		reason, _ := l.run.opts.Control.DrainRequested()
		return &DrainedError{Reason: reason}
	}
	return nil
}

// runStep runs the tasks of a superstep and applies what they wrote.
func (l *loop) runStep(ctx context.Context) error {
	if l.pool.cancel == nil {
		l.pool.taskCtx, l.pool.cancel = context.WithCancelCause(ctx)
		l.pool.workers = newWorkers()
	}
	inside, end := l.spanStep(l.pool.taskCtx)
	outcome := errLoopPanicked
	defer func() { end(outcome) }()
	if outcome = l.runTasks(ctx, inside); outcome == nil {
		outcome = l.afterTick(ctx)
	}
	return outcome
}

// supersteps runs until nothing is left to do.
func (l *loop) supersteps(ctx context.Context) error {
	defer func() {
		if l.pool.cancel != nil {
			l.pool.cancel(nil)
			l.pool.workers.end()
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		more, err := l.tick()
		if err != nil || !more {
			return err
		}
		if err := l.runStep(ctx); err != nil {
			return err
		}
		if l.saves.pipe != nil {
			if err := l.saves.pipe.firstError(); err != nil {
				return err
			}
		}
		l.view.waitRoom(ctx)
	}
}
