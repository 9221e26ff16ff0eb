package pregel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/stele-go/stele/internal/rules"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/serde"
)

// Result is what a run ends with.
type Result struct {
	// Value is the state the graph's output keys show: a map[string]any of
	// several, or the value of a single one; nil if nothing was shown.
	Value any
	// Interrupts are what the run waits for, in the order of the tasks; empty if
	// it came to an end, or stopped at a breakpoint. They are stored.
	Interrupts []Interrupt
}

// Map is Value as a map; nil if it is none.
func (r *Result) Map() map[string]any {
	m, _ := r.Value.(map[string]any)
	return m
}

// Invoke runs the graph to its end, to an interrupt or to a breakpoint. A nil
// input goes on from where the thread stands; a Command resumes, updates and
// steers; anything else is new input. What ended is stored before Invoke
// returns, also if ctx was cancelled.
func (g *Graph) Invoke(ctx context.Context, input any, cfg Config) (*Result, error) {
	if cfg.OutputKeys == nil {
		cfg.OutputKeys = &g.output
	}
	res := &Result{}
	put := func(e Event) {
		switch {
		case e.Mode == ModeUpdates:
			res.Interrupts = append(res.Interrupts, e.Interrupts...)
		case len(e.Interrupts) == 0:
			res.Value = e.Data
		}
	}
	err := g.retryConflicts(ctx, cfg, new(atomic.Bool), func(cfg Config, again bool) (*loop, error) {
		l, err := g.newLoop(ctx, input, cfg)
		if err != nil {
			return nil, err
		}
		l.owned.again = again
		*res = Result{}
		only := func(e Event) {
			if len(e.NS) == len(splitNS(l.ns)) {
				put(e)
			}
		}
		l.setStream(&stream{modes: []Mode{ModeUpdates, ModeValues}, put: only, interruptsOnly: true}, nil)
		err = l.runAll(ctx)
		// Events come as tasks end; the result does not depend on that.
		slices.SortStableFunc(res.Interrupts, func(a, b Interrupt) int {
			return cmp.Compare(indexOfInterrupt(l.waiting, a), indexOfInterrupt(l.waiting, b))
		})
		return l, err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func indexOfInterrupt(list []Interrupt, in Interrupt) int {
	return slices.IndexFunc(list, func(x Interrupt) bool { return x.ID == in.ID })
}

// retryConflicts starts a run over that lost against another before its first
// superstep, as often as its Config allows, unless somebody was shown a part of
// it. run is told whether it is run again.
func (g *Graph) retryConflicts(ctx context.Context, cfg Config, shown *atomic.Bool, run func(cfg Config, again bool) (*loop, error)) error {
	for n := 0; ; n++ {
		err := g.finishFirst(ctx, cfg, n > 0, run)
		if n >= cfg.ConflictRetries || !errors.Is(err, ErrConflict) || errors.Is(err, errRanTasks) || shown.Load() || ctx.Err() != nil {
			return err
		}
	}
}

// errRanTasks marks a conflict that came after tasks had run: starting over
// would run them twice.
var errRanTasks = errors.New("after tasks had run")

// Stream runs the graph and yields its events as they come; an error is yielded
// last. Stopping early cancels the run; what ended is stored before Stream
// returns. Without modes it shows the graph's own. Events of graphs inside are
// shown if Config.Subgraphs asks for them.
func (g *Graph) Stream(ctx context.Context, input any, cfg Config, modes ...Mode) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if len(modes) == 0 {
			modes = g.defaultModes(ctx)
		}
		for _, m := range modes {
			if !slices.Contains(allModes, m) {
				yield(Event{}, &ConfigError{Field: "modes", Reason: fmt.Sprintf("%q is unknown", m)})
				return
			}
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		q := newEventQueue()
		done := make(chan error, 1)
		go func() {
			defer q.end()
			shown := atomic.Bool{}
			done <- g.retryConflicts(ctx, cfg, &shown, func(cfg Config, again bool) (*loop, error) {
				l, err := g.newLoop(ctx, input, cfg)
				if err != nil {
					return nil, err
				}
				l.owned.again = again
				l.setStream(&stream{modes: modes, put: func(e Event) {
					shown.Store(true)
					q.push(e)
				}}, q)
				return l, l.runAll(ctx)
			})
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

func (g *Graph) defaultModes(ctx context.Context) []Mode {
	if _, err := runFrom(ctx); err == nil || len(g.opts.Modes) == 0 {
		return []Mode{ModeValues}
	}
	return g.opts.Modes
}

// setStream says where the loop's events go.
func (l *loop) setStream(s *stream, q *eventQueue) {
	own := &stream{modes: s.modes, put: s.put, interruptsOnly: s.interruptsOnly}
	l.stream, l.queue = own, q
	l.custom = own
	if l.parent != nil {
		outer := l.parent.step.l
		own.parent = outer.inner
		l.inner = outer.inner
		if l.queue == nil {
			l.queue = outer.queue
		}
		if outer.inner != nil && !own.wants(ModeCustom) && !own.wants(ModeMessages) {
			l.custom = outer.custom
		}
	}
	if l.cfg.Subgraphs {
		l.inner = own
	}
	switch {
	case !l.custom.wants(ModeMessages):
	case l.parent != nil && l.parent.step.l.messages != nil:
		l.messages = l.parent.step.l.messages
	default:
		l.messages = &messageLog{seen: map[string]bool{}}
	}
}

// newLoop checks the Config and finds out where the run stands: on its own, or
// inside the task whose context ctx is.
func (g *Graph) newLoop(ctx context.Context, input any, cfg Config) (*loop, error) {
	l := &loop{g: g, input: input}
	if r, err := runFrom(ctx); err == nil && !cfg.addressed() {
		l.parent = r
		cfg = l.inherit(cfg, r)
	} else {
		l.saver = g.opts.Saver
		l.cpMap = cfg.CheckpointMap
		l.place.CheckpointID = cfg.CheckpointID
		if cfg.Namespace != "" {
			if _, err := g.inside(cfg.Namespace); err != nil {
				return nil, err
			}
			l.place.CheckpointID = ""
		}
		if g.opts.Checkpointing == Stable {
			return nil, &ConfigError{Field: "Checkpointing", Reason: "a Stable graph cannot be the outermost one"}
		}
	}
	if id, ok := l.cpMap[l.ns]; ok {
		l.place.CheckpointID = id
	}
	if err := g.fillConfig(&cfg, l.saver != nil); err != nil {
		return nil, err
	}
	l.cfg = cfg
	if l.ways = g.ways(cfg); l.parent != nil {
		l.ways = l.parent.step.l.ways
	}
	l.output = *cfg.OutputKeys
	l.place.ThreadID, l.place.Namespace = cfg.ThreadID, l.ns
	l.place.Configurable = cfg.Configurable
	l.place.Metadata = cfg.Metadata
	if cfg.RunID != "" {
		l.place.Metadata = maps.Clone(cfg.Metadata)
		if l.place.Metadata == nil {
			l.place.Metadata = map[string]any{}
		}
		l.place.Metadata["run_id"] = cfg.RunID
	}
	if l.saver == nil {
		return l, nil
	}
	return l, checkMetadata(l.place, l.saver)
}

// checkMetadata refuses metadata that no checkpoint could be stored with.
func checkMetadata(at saver.Config, s saver.Saver) error {
	if len(at.Metadata) == 0 && len(at.Configurable) == 0 {
		return nil
	}
	var codec serde.Serializer
	if c, ok := s.(saver.Coordinator); ok {
		codec = c.Serializer()
	}
	if _, err := rules.EncodeMetadata(rules.MergeMetadata(at, nil), codec); err != nil {
		return fmt.Errorf("%w: %w", &ConfigError{Field: "Metadata", Reason: "cannot be stored, with RunID and Configurable"}, err)
	}
	return nil
}

// fillConfig sets the defaults of a Config and checks it.
func (g *Graph) fillConfig(cfg *Config, saves bool) error {
	if cfg.RecursionLimit == 0 {
		cfg.RecursionLimit = DefaultRecursionLimit
	}
	if cfg.Durability == "" {
		cfg.Durability = Async
	}
	if cfg.OutputKeys == nil {
		cfg.OutputKeys = &g.stream
	}
	switch {
	case cfg.RecursionLimit < 1:
		return &ConfigError{Field: "RecursionLimit", Reason: "recursion_limit must be at least 1"}
	case cfg.MaxConcurrency < 0:
		return &ConfigError{Field: "MaxConcurrency", Reason: "is negative; 0 is no limit"}
	case cfg.ConflictRetries < 0:
		return &ConfigError{Field: "ConflictRetries", Reason: "is negative; 0 does not try again"}
	case cfg.Durability != Sync && cfg.Durability != Async && cfg.Durability != Exit:
		return &ConfigError{Field: "Durability", Reason: fmt.Sprintf("%q is unknown", cfg.Durability)}
	case !slices.Contains([]Unfinished{"", FinishFirst, RefuseUnfinished, DiscardUnfinished}, cfg.Unfinished):
		return &ConfigError{Field: "Unfinished", Reason: fmt.Sprintf("%q is unknown", cfg.Unfinished)}
	case saves && cfg.ThreadID == "":
		return &ConfigError{Field: "ThreadID", Reason: "is missing: a graph with a saver requires a thread_id"}
	}
	return g.known(*cfg.OutputKeys)
}

// inherit makes the graph a part of the one whose task r runs.
func (l *loop) inherit(cfg Config, r *taskRun) Config {
	outer := r.step.l
	cfg.ThreadID, cfg.Control = outer.cfg.ThreadID, outer.cfg.Control
	if cfg.RunID == "" {
		cfg.RunID = outer.cfg.RunID
	}
	if cfg.Context == nil {
		cfg.Context = outer.cfg.Context
	}
	if cfg.RecursionLimit == 0 {
		cfg.RecursionLimit = outer.cfg.RecursionLimit
	}
	if cfg.MaxConcurrency == 0 {
		cfg.MaxConcurrency = outer.cfg.MaxConcurrency
	}
	if cfg.Durability == "" {
		cfg.Durability = outer.cfg.Durability
	}
	cfg.Metadata = merged(r.task.metadata, cfg.Metadata)
	cfg.Configurable = merged(outer.cfg.Configurable, cfg.Configurable)
	cfg.Tags = append(slices.Clone(outer.cfg.Tags), cfg.Tags...)

	ns := r.task.ns
	if l.g.opts.Checkpointing == Stable {
		ns = stableNS(ns)
	}
	l.ns = numbered(ns, r.task.pad.subgraphs.Add(1)-1)
	l.cpMap = r.task.around.get()
	l.told, l.replay, l.resumeMap = outer.tells(), outer.replay, outer.resumeMap
	if r.attempt > 1 {
		l.told = toldResume
	}
	if l.g.opts.Checkpointing != Off {
		l.saver = outer.saver
	}
	return cfg
}

func merged(under, over map[string]any) map[string]any {
	if len(over) == 0 {
		return under
	}
	out := maps.Clone(under)
	if out == nil {
		out = map[string]any{}
	}
	maps.Copy(out, over)
	return out
}

// runAll runs the loop from entry to exit and returns what the run ends with;
// nil also for an interrupt of the outermost graph, which its events report.
func (l *loop) runAll(ctx context.Context) (err error) {
	defer l.disown()
	ctx, end := l.spanRun(ctx)
	defer func() {
		if p := recover(); p != nil { // a reducer, a mapper or a hook
			err = l.finish(ctx, panicError(p))
		}
		end(err)
		if h := l.g.opts.Hooks.RunEnd; h != nil {
			l.g.guardHook("RunEnd", func() { h(l.info(), err) })
		}
	}()
	if h := l.g.opts.Hooks.RunStart; h != nil {
		l.g.guardHook("RunStart", func() { h(l.info()) })
	}
	err = l.enter(ctx)
	if err == nil {
		err = l.supersteps(ctx)
	}
	err = l.finish(ctx, err)
	var in *InterruptError
	switch {
	case errors.As(err, &in) && !l.nested():
		return nil
	case errors.Is(err, ErrConflict) && l.workers != nil: // tasks were run
		return fmt.Errorf("%w %w", err, errRanTasks)
	case err != nil:
		return err
	}
	switch l.status {
	case statusOutOf:
		return &RecursionError{Limit: l.cfg.RecursionLimit}
	case statusDraining:
		reason, _ := l.cfg.Control.DrainRequested()
		return &DrainedError{Reason: reason}
	}
	return nil
}

// runStep runs the tasks of a superstep and applies what they wrote.
func (l *loop) runStep(ctx context.Context) error {
	if l.cancel == nil {
		l.taskCtx, l.cancel = context.WithCancelCause(ctx)
		l.workers = newWorkers()
	}
	inside, end := l.spanStep(l.taskCtx)
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
		if l.cancel != nil {
			l.cancel(nil)
			l.workers.end()
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
		if l.pipe != nil {
			if err := l.pipe.firstError(); err != nil {
				return err
			}
		}
		if l.queue != nil {
			l.queue.waitRoom(ctx)
		}
	}
}
