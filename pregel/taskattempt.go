package pregel

import (
	"context"
	"time"

	"github.com/stele-go/stele/pregel/internal/frozen"
	"github.com/stele-go/stele/store"
)

// stepView is the part of a superstep and its run that tasks may read. It is a copy made when the
// superstep begins, so an abandoned task may read it later. For everything else a task sends requests
// to the superstep.
type stepView struct {
	audience
	g        *Graph
	run      frozen.Value[runConfig]
	outer    *taskOutput  // of the task that runs this graph; nil at the root
	fenced   func() error // see runConfig.fenced
	toInside fromParent   // the order for graphs inside
	step     int
	cpID     string
	// last is the save of the checkpoint that the superstep starts from; nil if an earlier
	// run made the checkpoint. It was submitted to pipe.
	last *saveOp
	pipe *pipeline
	// read is the state that the superstep starts from, with a task's own writes applied.
	read func(sel Keys, own []write) (Pairs, error)
	// sent are the packets that the superstep's tasks were made of.
	sent func() any

	ctx      context.Context
	requests chan<- request  // of running tasks
	stepOver <-chan struct{} // closed when the loop stops reading requests
	// timedOut is closed when the superstep took too long: tasks that do not
	// listen to their context are left behind. It is nil without a bound.
	timedOut <-chan struct{}
	limited  bool // the number of running tasks is
}

// tell sends a request to the superstep. It returns false if the superstep has ended.
func (s *stepView) tell(m request) bool {
	select {
	case s.requests <- m:
		return true
	case <-s.stepOver:
		return false
	}
}

// taskAttempt is one attempt of a task, as its context carries it.
type taskAttempt struct {
	step    frozen.Value[stepView]
	task    *task
	attempt int
	begin   time.Time

	ctx     taskContext
	writing Writing
	out     taskOutput
}

type taskAttemptKey struct{}

func attemptFrom(ctx context.Context) (*taskAttempt, error) {
	r, ok := ctx.Value(taskAttemptKey{}).(*taskAttempt)
	if !ok || r.out.isClosed() {
		return nil, ErrOutsideTask
	}
	return r, nil
}

// invoke runs the body and then the writers on its output.
func (r *taskAttempt) invoke() error {
	t, ctx := r.task, context.Context(&r.ctx)
	if t.call != nil {
		out, err := t.call.run(ctx)
		if err != nil {
			return err
		}
		r.out.write(chReturn, r.withIDs(out))
		return nil
	}
	out := t.input
	if t.node.Run != nil {
		var err error
		if out, err = t.node.Run(ctx, t.input); err != nil {
			return err
		}
	}
	return r.output(r.withIDs(out))
}

// withIDs returns the output of the body. If it is shown before the state has it, its messages get ids.
func (r *taskAttempt) withIDs(out any) any {
	step := r.step.Get()
	if step.messages == nil && !step.stream.wantsWrites() {
		return out
	}
	var given map[string]bool
	if r.task.cacheKey != nil {
		given = map[string]bool{}
	}
	out = named(out, func() string {
		id := step.g.env.MessageID()
		if given != nil {
			given[id] = true
		}
		return id
	})
	if step.messages != nil {
		r.out.keep(out, given)
	} else {
		r.out.keep(nil, given)
	}
	return out
}

// output passes a node's output through its writers.
func (r *taskAttempt) output(out any) error {
	for _, write := range r.task.node.Writers {
		if err := write(&r.writing, out); err != nil {
			return err
		}
	}
	return nil
}

func (r *taskAttempt) writeTo(ch string, v any) { r.out.write(ch, v) }

// readWithOwn reads the state that the superstep starts from, with the attempt's writes so far.
func (r *taskAttempt) readWithOwn(sel Keys) (values Pairs, err error) {
	err = r.out.whileOpen(func(own []write) error {
		values, err = r.step.Get().read(sel, own)
		return err
	})
	return values, err
}

func (v *stepView) taskInfo(t *task, attempt int, begin time.Time) TaskInfo {
	run := v.run.Get()
	o := &run.opts
	return TaskInfo{Node: t.name, TaskID: t.id, NS: t.ns, ThreadID: run.thread, RunID: o.RunID, CheckpointID: v.cpID,
		Step: v.step, Attempt: attempt, FirstAttempt: begin, Previous: t.previous, Failure: t.nodeErr,
		Configurable: o.Configurable, Context: o.Context, Store: run.store, Control: o.Control}
}

// TaskInfo is the information that a running task has about itself.
type TaskInfo struct {
	Node string
	// TaskID names the task in streams and in the store. Do not use it as a key for side
	// effects: under Async and Exit a task runs before the checkpoint is stored that its id
	// derives from, and after a crash the id is another. See IdempotencyKey.
	TaskID       string
	NS           string // the task's namespace
	ThreadID     string
	RunID        string
	CheckpointID string // the checkpoint the superstep starts from
	Step         int
	Attempt      int // from 1
	FirstAttempt time.Time
	// Previous is what the entrypoint saved last on this thread.
	Previous any
	// Failure is set in an error handler: what it handles.
	Failure *NodeError
	// Configurable and Context are those of RunOptions. Configurable must not be changed.
	// Store is the graph's, or that of the nearest graph around it that has one.
	Configurable map[string]any
	Context      any
	Store        store.Store
	Control      *Control
}
