package pregel

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
)

// runConfig says which run this is: of which graph, where in the tree of graphs, and how it runs.
// It is complete when the first superstep begins, and does not change after that.
type runConfig struct {
	g     *Graph
	hooks *runHooks
	// canWait: the outermost graph stores that a question waits. With Options.LangGraph a question may be
	// asked of nobody who could answer.
	canWait bool
	saver   saver.Saver // nil: nothing is stored
	thread  string
	ns      string
	opts    RunOptions // with what it inherits filled in
	// common is the metadata that the config of the run adds to each checkpoint; may be nil.
	common saver.Metadata
	store  store.Store // the nearest of this graph and those around; nil if there is none
	items  atomicStore // store, if puts are committed with checkpoints; otherwise nil
	cache  cache.Cache // the nearest; nil if there is none
	inbox  *inbox      // of the thread, in the store of the outermost graph; nil if that has none
	// children are those of the outermost run; nil if it has no queue.
	children Children
	// lease is the lease of this run, of its caller, or of the graph around. epoch is the lease's, and
	// every save has it. They are nil and 0 for forks and for runs with Options.LangGraph.
	lease *saver.Lease
	epoch int64

	parent *taskAttempt      // the task that runs this graph; nil at the root
	nth    int               // of the graphs that the task runs
	cpMap  map[string]string // checkpoints of the graphs around
	// was is the namespace from which this graph continues at a checkpoint that cpMap names, because the
	// graph around forked and gave its tasks new ids; "" if it continues in ns.
	was        string
	toldAt     string // travel.since, if cpMap and was are what an earlier run was told; "" else
	fromParent fromParent
	replay     *replayState
	// policy, resumeMap, the answers by id, the questions that refused an answer, and the root's checkpoints from which graphs
	// inside failed with open questions, are those of the root.
	policy        runPolicy
	resumeMap     map[string]any
	refused, open *answer.IDs
	// answers: the outermost run was given an answer, under stele's own rules.
	answers bool
	// waits: the run goes on with a thread that has waits, so that tasks that wait run only when they are
	// ready. answered: an answer that belongs to no task is stored. Both are those of the root.
	waits, answered bool
}

func (r *runConfig) nested() bool { return r.parent != nil }

// holds notes the lease that every save of the run has.
func (r *runConfig) holds(lease *saver.Lease) { r.lease, r.epoch = lease, lease.Epoch() }

func (r *runConfig) env() *Environment { return &r.g.env }

// next mints a version.
func (r *runConfig) next(current saver.Version) (saver.Version, error) {
	if r.saver != nil {
		v, err := r.saver.NextVersion(current, "")
		if err != nil {
			return v, &PersistError{Op: "mint a version", Err: err}
		}
		return v, nil
	}
	n, _ := current.Seq()
	return saver.IntVersion(n + 1), nil
}

// exits reports whether the run stores everything at its end.
func (r *runConfig) exits() bool { return r.opts.Durability == Exit && r.saver != nil }

// fenced is the error of a task that must not run: another process may have taken the thread
// over while this one was stopped, and have run the task already.
func (r *runConfig) fenced() error {
	if r.lease == nil || r.lease.Held() {
		return nil
	}
	return &saver.FencedError{ThreadID: r.thread, Epoch: r.epoch}
}

// storedAround returns a function that waits until the checkpoint of the graph around is
// stored: that of the nearest graph that made one in this run. It is nil if there is none.
func (r *runConfig) storedAround() func() error {
	for parent := r.parent; parent != nil; {
		step := parent.step.Get()
		if step.last != nil {
			pipe, last := step.pipe, step.last
			return func() error { return pipe.await(last) }
		}
		parent = step.run.Get().parent
	}
	return nil
}

// stableNamespace reports whether no part of the namespace names a task. Then the graph keeps
// its history across calls.
func (r *runConfig) stableNamespace() bool {
	return !slices.ContainsFunc(splitNS(r.ns), func(p string) bool { return slices.Contains([]byte(p), nsEnd[0]) })
}

// tagsOf are the tags of the run and of the task's node, without the internal ones of
// LangGraph's sequences.
func (r *runConfig) tagsOf(t *task) []string {
	tags := slices.Clone(r.opts.Tags)
	if t.node != nil {
		tags = append(tags, t.node.Tags...)
	}
	return slices.DeleteFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, "seq:step") })
}

// userMetadata returns the metadata of a task without the engine's keys; nil if there is none.
func (r *runConfig) userMetadata(t *task) map[string]any {
	tags := r.tagsOf(t)
	if len(t.metadata) == 0 && len(tags) == 0 {
		return nil
	}
	md := make(map[string]any, len(t.metadata)+1)
	for k, v := range t.metadata {
		if !saver.ExcludedMetadata(k) {
			md[k] = v
		}
	}
	if len(tags) > 0 {
		md["tags"] = tags
	}
	if len(md) == 0 {
		return nil
	}
	return md
}

// messageMetadata is the metadata of a message of t. within is the namespace that the message
// comes from: that of the task while it runs, that of the graph for its output.
func (r *runConfig) messageMetadata(t *task, step int, within string) map[string]any {
	md := map[string]any{}
	if r.thread != "" {
		md["thread_id"] = r.thread
	}
	if within != "" {
		md["checkpoint_ns"] = within
	}
	maps.Copy(md, r.opts.Metadata)
	md["langgraph_step"], md["langgraph_node"], md["langgraph_triggers"] = step, t.name, t.triggers
	md["langgraph_path"], md["langgraph_checkpoint_ns"] = t.where(), t.ns
	if t.node != nil {
		maps.Copy(md, t.node.Metadata)
	}
	if tags := r.tagsOf(t); len(tags) > 0 {
		md["tags"] = tags
	}
	return md
}

// untilLost returns a context that ends with ctx, when stop is called, or when the run's lease is lost.
// In the last case another run may have the thread: saves of this run are refused, and its tasks should
// stop.
func (r *runConfig) untilLost(ctx context.Context) (_ context.Context, stop func()) {
	lease := r.lease
	if r.nested() || lease == nil || lease.Lost() == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-lease.Lost():
			cancel(&saver.FencedError{ThreadID: lease.ThreadID(), Epoch: lease.Epoch()})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// inherit makes the graph a part of the one whose task parent runs.
func (r *runConfig) inherit(parent *taskAttempt) {
	step := parent.step.Get()
	run, g, o := step.run.Get(), r.g, r.opts
	outer := run.opts
	*r = run // what is not said below
	r.hooks = g.hooks.within(run.hooks)
	r.waits = run.waits && step.toInside == fromParentResume
	r.g, r.parent, r.common, r.cpMap, r.fromParent, r.was = g, parent, nil, parent.task.around.get(), step.toInside, ""
	if parent.attempt > 1 {
		r.fromParent = fromParentResume
	}
	ns := parent.task.ns
	if g.opts.Checkpointing == Stable {
		ns = stableNS(ns)
	}
	nth := parent.task.subgraphs.Add(1) - 1
	r.nth = int(nth)
	r.ns = numbered(ns, nth)
	if was := parent.task.was; was != "" && g.opts.Checkpointing != Stable {
		r.was = numbered(was, nth)
	}
	if g.opts.Checkpointing == Off {
		r.saver = nil
	}
	o.Control = outer.Control
	o.RunID = cmp.Or(o.RunID, outer.RunID)
	if o.Context == nil {
		o.Context = outer.Context
	}
	o.RecursionLimit = cmp.Or(o.RecursionLimit, outer.RecursionLimit)
	o.MaxConcurrency = cmp.Or(o.MaxConcurrency, outer.MaxConcurrency)
	o.Durability = cmp.Or(o.Durability, outer.Durability)
	o.Metadata = merged(merged(parent.task.metadata, g.opts.Metadata), o.Metadata)
	o.Configurable = merged(outer.Configurable, o.Configurable)
	o.Tags = append(slices.Clone(outer.Tags), o.Tags...)
	r.opts = o
}

// replayState bounds what graphs inside load while the outermost one goes back in time. At
// its first call each loads its newest checkpoint before the bound, and after that its
// newest.
type replayState struct {
	before string

	// mu guards visited, the namespaces loaded so far, without task ids.
	mu      sync.Mutex
	visited map[string]bool
}

func (r *replayState) firstVisit(ns string) bool {
	if i := strings.LastIndex(ns, nsEnd); i >= 0 {
		ns = ns[:i]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.visited[ns] {
		return false
	}
	r.visited[ns] = true
	return true
}

// runPolicy says how a run treats unfinished work and a thread that waits, whether it gives up
// safeguards, and whether RoundTrip is on. The outermost graph decides for all graphs inside.
type runPolicy struct {
	unfinished Unfinished
	// refuseWaiting: input on a thread that waits is refused.
	refuseWaiting bool
	// langGraph: the run gives up the safeguards that LangGraph does not have.
	langGraph bool
	// roundTrip: values are encoded and decoded between supersteps.
	roundTrip bool
}

// runPolicy returns the policy of the graph's options; RunOptions may change how unfinished work is
// treated.
func (g *Graph) runPolicy(o *RunOptions) runPolicy {
	w := runPolicy{unfinished: o.Unfinished, refuseWaiting: o.RefuseWaiting || g.opts.RefuseWaiting, langGraph: g.opts.LangGraph, roundTrip: g.opts.RoundTrip}
	if w.unfinished == "" {
		w.unfinished = FinishFirst
		if w.langGraph { // unfinished work may be that of another run
			w.unfinished = DiscardUnfinished
		}
	}
	return w
}

// commonMetadata returns the metadata that the config of a run adds to each checkpoint. It refuses
// metadata that cannot be stored.
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
