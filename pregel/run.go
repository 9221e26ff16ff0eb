package pregel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stele-go/stele/pregel/internal/answer"
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
	// Waits are what the thread waits for beside answers, the earliest first: see Sleep. The events of a
	// stream show them among the interrupts, as LangGraph sees them.
	Waits []Wait
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
	g.mustBe()
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
	res.Waits, res.Interrupts = waitsOf(res.Interrupts), answer.WithoutWaits(res.Interrupts)
	slices.SortStableFunc(res.Interrupts, func(a, b Interrupt) int { return cmp.Compare(place(a), place(b)) })
	return res, nil
}

// run runs the graph. If an earlier run has to be finished first, it does that before. A run that lost
// the thread before its first superstep starts over as often as o says, unless an event of it was
// shown. watch gets the loop of each attempt before it runs.
func (g *Graph) run(ctx context.Context, at *Address, input any, o *RunOptions, shown *atomic.Bool, watch func(*loop)) (*loop, error) {
	for n := 0; ; n++ {
		once := func(o *RunOptions) (*loop, error) {
			l, err := g.newLoop(ctx, at, input, o)
			if err != nil {
				return nil, err
			}
			l.saves.startOver(n > 0)
			watch(l)
			return l, l.runAll(ctx)
		}
		l, err := once(o)
		if l != nil && l.pos.entry.kind == entryFinish {
			if err = l.finishEarlier(ctx, at, o, err); err == nil {
				refusing := *o
				refusing.Unfinished = RefuseUnfinished // another run left something in the meantime
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
	g.mustBe()
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
	if _, err := attemptFrom(ctx); err == nil || len(g.opts.Modes) == 0 {
		return []Mode{ModeValues}
	}
	return g.opts.Modes
}

// userOf are the entries of a run's Configurable that say who its user is, under LangGraph's names.
func userOf(configurable map[string]any) map[string]any {
	var who map[string]any
	for k, v := range configurable {
		if strings.HasPrefix(k, "langgraph_auth_") {
			who = merged(who, map[string]any{k: v})
		}
	}
	return who
}

// newLoop checks where and how a run is to be, and finds out where it stands in the tree
// of graphs.
func (g *Graph) newLoop(ctx context.Context, at *Address, input any, given *RunOptions) (*loop, error) {
	l := &loop{input: input, run: runConfig{g: g, hooks: g.hooks, thread: at.ThreadID, opts: *given, cpMap: at.CheckpointMap}}
	o := &l.run.opts
	checkpoint := at.CheckpointID
	if at.inside {
		r, err := attemptFrom(ctx)
		if err != nil {
			return nil, fmt.Errorf("run graph %q inside: %w", g.opts.Name, err)
		}
		l.run.inherit(r)
	} else {
		o.Metadata = merged(g.opts.Metadata, o.Metadata)
		if r, err := attemptFrom(ctx); err == nil {
			o.Configurable = merged(userOf(r.step.Get().run.Get().opts.Configurable), o.Configurable)
		}
		l.run.refused, l.run.open = &answer.IDs{}, &answer.IDs{}
		l.run.saver, l.run.canWait = g.opts.Saver, g.opts.Saver != nil || g.opts.LangGraph
		l.run.policy, l.run.inbox, l.run.children = g.runPolicy(o), g.inboxFor(at.ThreadID), o.Children
		if at.Namespace != "" {
			if _, err := g.inside(at.Namespace); err != nil {
				return nil, err
			}
			checkpoint = ""
		}
		if g.opts.Checkpointing == Stable {
			return nil, &ArgumentError{Field: "Checkpointing", Reason: "a Stable graph cannot be the outermost one"}
		}
	}
	if s := g.opts.Store; s != nil {
		l.run.store, l.run.items = s, g.items
	}
	l.run.cache = cmp.Or(g.opts.Cache, l.run.cache)
	if id, ok := l.run.cpMap[l.run.ns]; ok {
		checkpoint, l.run.was = id, ""
	} else if id, ok := l.run.cpMap[l.run.was]; ok && l.run.was != "" {
		checkpoint = id
	} else {
		l.run.was = ""
	}
	if err := o.fill(g); err != nil {
		return nil, err
	}
	md := o.Metadata
	if o.RunID != "" {
		md = merged(md, map[string]any{"run_id": o.RunID})
	}
	place := saver.Config{ThreadID: l.run.thread, Namespace: l.run.ns, CheckpointID: checkpoint, Configurable: o.Configurable, Metadata: md}
	l.pos = position{run: &l.run, threadState: threadState{place: place}}
	l.saves = saves{run: &l.run, enc: encoder{g: g, roundTrip: l.run.policy.roundTrip}}
	l.view = view{run: &l.run, pos: &l.pos, output: *o.OutputKeys}
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
