package pregel

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/group"
)

const (
	// pipelineDepth is how many saves may wait before a run is held back. Those that share a sync
	// with the one under way come on top.
	pipelineDepth = 64 - together
	// together bounds how many checkpoints share the sync of the last of them, or are stored with one
	// call.
	together = 16
	// gatherTime is how long a checkpoint waits for others to be stored with.
	gatherTime = time.Millisecond
	// writersAtOnce is how many writes of tasks are under way at a time: they
	// share a flush of the store, and their order does not matter.
	writersAtOnce = 32
	// slowSave: if the last save took this long, further saves run concurrently.
	// Faster saves end before another goroutine would have started.
	slowSave = 100 * time.Microsecond
)

// save is one call to the saver.
type save interface {
	save(ctx context.Context) error
}

// saveFunc is a function as a save.
type saveFunc func(ctx context.Context) error

func (f saveFunc) save(ctx context.Context) error { return f(ctx) }

// saveOp is a save and its place among others.
type saveOp struct {
	// what and of name it: "checkpoint" and its id, "writes" and the node.
	what, of string
	// barrier: everything before it must be stored first, and nothing after it
	// may begin. Checkpoints are barriers, so that none is stored before the
	// writes that made it.
	barrier bool
	// deferred: the save need not be durable before a later one is.
	deferred bool
	run      save

	// Guarded by the pipeline's mu until the save begins, and once it has ended.
	with  []*saveOp // checkpoints that follow it and are stored with it
	ended bool
	err   error
}

// isPut reports whether the save is that of a checkpoint.
func (o *saveOp) isPut() bool {
	_, ok := o.run.(*putOp)
	return ok
}

// writesOfNode is saveOp.what for the writes of a node.
const writesOfNode = "writes of node"

func (o *saveOp) name() string {
	switch {
	case o.of == "":
		return o.what
	case o.what == writesOfNode:
		return o.what + " " + strconv.Quote(o.of)
	}
	return o.what + " " + o.of
}

// pipeline carries a run's saves to the saver in order. After the first failure nothing
// more is stored, so no checkpoint stands beyond a gap. Saves run in goroutines of the
// pipeline, which end when nothing is queued. A save that somebody waits for anyway runs in the
// goroutine that waits.
type pipeline struct {
	ctx     context.Context // ends some time after the run's, so that saves under way can end
	later   context.Context // ctx, for saves that are deferred
	cancel  context.CancelFunc
	unwatch func()
	// around waits, before the first save, until the checkpoint of the graph around is
	// stored; nil if there is nothing to wait for. What a graph inside stores refers to
	// that checkpoint, so it must not be stored earlier.
	around  func() error
	waited  sync.Once
	observe func(name string, took time.Duration, err error) // may be nil
	// sync makes deferred saves durable. It is nil if the saver cannot do that; then
	// nothing is deferred.
	sync func(ctx context.Context) error
	// defers: all saves are deferred, and the caller of the run makes them durable.
	defers bool
	// group stores several checkpoints with one call. If it is nil the saver cannot do that.
	group  group.Putter
	failed chan struct{} // closed at the first failure

	// mu guards the fields below. moved is signalled when a save ends, if
	// somebody waits.
	mu      sync.Mutex
	moved   *sync.Cond
	waiting int         // goroutines that wait for moved
	queue   []*saveOp   // not begun yet
	delayed *saveOp     // comes behind the queue, once something else does
	running int         // saves under way
	alone   bool        // the one under way is a barrier
	slow    bool        // the last save took as long as slowSave
	syncDue bool        // a deferred save ended, and none that is durable has followed it
	behind  int         // barriers in the queue that are yet to begin of those that share a sync
	err     error       // the first failure
	due     *time.Timer // begins to store the checkpoints that wait for others; may be nil
}

// newPipeline starts a pipeline. When ctx ends, the saves have the time drain to end.
func newPipeline(ctx context.Context, drain time.Duration, around func() error, observe func(string, time.Duration, error)) *pipeline {
	p := &pipeline{around: around, failed: make(chan struct{}), observe: observe}
	p.moved = sync.NewCond(&p.mu)
	p.ctx, p.cancel = context.WithoutCancel(ctx), func() {}
	if ctx.Done() != nil { // otherwise no context could end the saves, which the saver may use
		p.ctx, p.cancel = context.WithCancel(p.ctx)
	}
	p.later = saver.DeferSync(p.ctx)
	var bound *time.Timer
	armed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		bound = time.AfterFunc(drain, p.cancel)
		close(armed)
	})
	p.unwatch = func() {
		if !stop() {
			<-armed
			bound.Stop()
		}
	}
	return p
}

// submit adds a save to the queue. It blocks while the queue is full. A save that waits for no sync
// is stored in the goroutine of the caller, if the last one was quick: another goroutine would take
// longer to wake up, and to grow its stack.
func (p *pipeline) submit(op *saveOp) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queueDelayed()
	for len(p.queue) >= pipelineDepth {
		p.begin()
		p.wait()
	}
	p.queue = append(p.queue, op)
	switch {
	case p.gathers():
		if len(p.queue) == 1 {
			p.beginSoon()
		}
	case p.defers && !p.slow && op.barrier:
		p.beginInline()
	default:
		p.begin()
	}
}

// gathers reports whether all queued saves are checkpoints that wait for more, to be stored with them.
// They wait until there are enough, another kind of save is queued, a caller waits for them, or
// gatherTime is over. The caller holds mu.
func (p *pipeline) gathers() bool {
	return p.group != nil && p.running == 0 && len(p.queue) < together &&
		!slices.ContainsFunc(p.queue, func(o *saveOp) bool { return !o.isPut() })
}

// beginSoon begins the queued saves after gatherTime. The caller holds mu.
func (p *pipeline) beginSoon() {
	if p.due != nil {
		p.due.Reset(gatherTime)
		return
	}
	p.due = time.AfterFunc(gatherTime, func() {
		p.mu.Lock()
		var op *saveOp
		if p.running == 0 { // otherwise the goroutine that runs saves continues with it
			op = p.next()
		}
		p.mu.Unlock()
		p.work(op)
	})
}

// delay adds a save without starting it. It starts with the next save, or takeDelayed takes it back: a
// checkpoint that follows immediately may take its writes along.
func (p *pipeline) delay(op *saveOp) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queueDelayed()
	p.delayed = op
}

// takeDelayed removes and returns the save that delay added; nil if there is none, or it was begun.
func (p *pipeline) takeDelayed() *saveOp {
	p.mu.Lock()
	defer p.mu.Unlock()
	op := p.delayed
	p.delayed = nil
	return op
}

// queueDelayed queues the save that is delayed. The caller holds mu.
func (p *pipeline) queueDelayed() {
	if p.delayed != nil {
		p.queue, p.delayed = append(p.queue, p.delayed), nil
	}
}

// begin starts the saves that may begin, each in a goroutine. The caller holds mu.
func (p *pipeline) begin() {
	for p.running == 0 || p.slow {
		op := p.next()
		if op == nil {
			return
		}
		go p.work(op)
	}
}

// beginInline starts the saves that may begin. If none is under way, the first and what can follow it run
// in the goroutine of the caller, who holds mu.
func (p *pipeline) beginInline() {
	var op *saveOp
	if p.running == 0 {
		op = p.next()
	}
	p.begin()
	if op != nil {
		p.mu.Unlock()
		p.work(op)
		p.mu.Lock()
	}
}

// store adds a save to the queue and waits for it.
func (p *pipeline) store(op *saveOp) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queueDelayed()
	p.queue = append(p.queue, op)
	return p.awaitQueued(op)
}

// await waits for a submitted save and returns its error.
func (p *pipeline) await(op *saveOp) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queueDelayed()
	return p.awaitQueued(op)
}

func (p *pipeline) awaitQueued(op *saveOp) error {
	p.beginInline()
	for !op.ended {
		p.wait()
	}
	return op.err
}

// next removes the next save from the queue, together with those that are stored with it, if it may
// begin now; otherwise it returns nil. The caller holds mu and must run the save.
func (p *pipeline) next() *saveOp {
	if len(p.queue) == 0 || p.alone || p.running >= writersAtOnce {
		return nil
	}
	op := p.queue[0]
	if op.barrier && p.running > 0 {
		return nil
	}
	n := 1
	for p.group != nil && op.isPut() && n < min(len(p.queue), together) && p.queue[n].isPut() {
		n++
	}
	if p.due != nil {
		p.due.Stop()
	}
	op.with = p.queue[1:n:n]
	p.queue[0] = nil
	if p.queue = p.queue[n:]; len(p.queue) == 0 {
		p.queue = nil
	}
	p.running++
	if p.alone = op.barrier; p.alone {
		p.deferSync(op)
	}
	return op
}

// deferSync marks op, which is about to begin, as deferred if more checkpoints are queued behind it:
// they are stored in order, so one sync after the last makes all of them durable. behind counts how
// many of that group have not begun; a group has at most `together`. op and the checkpoints in op.with
// are one save, so op takes over deferred from the last of them. The caller holds mu.
func (p *pipeline) deferSync(op *saveOp) {
	if p.sync == nil {
		return
	}
	n := 1 + len(op.with)
	if p.behind > 0 {
		p.behind = max(0, p.behind-n)
	} else {
		for _, o := range p.queue {
			if o.barrier && n+p.behind < together {
				p.behind++
			}
		}
	}
	if len(op.with) > 0 {
		op.deferred = op.with[len(op.with)-1].deferred
	}
	op.deferred = op.deferred || p.behind > 0
}

// wait waits until a save ended. The caller holds mu.
func (p *pipeline) wait() {
	p.waiting++
	p.moved.Wait()
	p.waiting--
}

// work runs op, which next returned, and then further saves that may begin.
func (p *pipeline) work(op *saveOp) {
	for op != nil {
		start := time.Now()
		err := p.do(op, start)
		took := time.Since(start)
		p.mu.Lock()
		for _, o := range op.with {
			o.ended = true
		}
		op.with = nil
		p.slow = took >= slowSave
		p.running--
		p.alone = false
		op.ended = true
		p.syncDue = op.deferred || p.syncDue && (!op.barrier || err != nil)
		if op = p.next(); op != nil {
			p.begin()
		}
		if p.waiting > 0 {
			p.moved.Broadcast()
		}
		p.mu.Unlock()
	}
}

// do runs op and those with it, and returns the first failure.
func (p *pipeline) do(op *saveOp, start time.Time) error {
	if p.around != nil {
		p.waited.Do(func() {
			if err := p.around(); err != nil {
				p.fail(err)
			}
		})
	}
	ctx := p.ctx
	if op.deferred || p.defers {
		ctx = p.later
	}
	err := p.firstError()
	switch {
	case err != nil:
		for _, o := range op.with {
			o.err = err
		}
		op.err = err
	case len(op.with) == 0:
		err = p.outcome(op, start, guard(func() error { return op.run.save(ctx) })) // a saver that panics has failed
	default:
		return p.doGroup(ctx, append([]*saveOp{op}, op.with...), start)
	}
	return err
}

// doGroup stores the checkpoints of ops, each as if it was stored by itself.
func (p *pipeline) doGroup(ctx context.Context, ops []*saveOp, start time.Time) error {
	for len(ops) > 0 {
		reqs := make([]saver.PutRequest, len(ops))
		for i, o := range ops {
			put := o.run.(*putOp)
			reqs[i] = put.request(put.withLast())
		}
		n := 0
		refused := guard(func() (err error) {
			n, err = p.group.PutGroup(ctx, reqs)
			return err
		})
		for _, o := range ops[:n] {
			_ = p.outcome(o, start, nil)
		}
		if ops = ops[n:]; refused == nil {
			continue
		}
		first := ops[0]
		err := p.outcome(first, start, guard(func() error { return first.run.(*putOp).afterPut(ctx, refused) }))
		if ops = ops[1:]; err != nil {
			for _, o := range ops {
				o.err = err
			}
			return err
		}
	}
	return nil
}

// outcome keeps how op ended, and returns its error.
func (p *pipeline) outcome(op *saveOp, start time.Time, err error) error {
	if p.observe != nil {
		p.observe(op.name(), time.Since(start), err)
	}
	if err != nil {
		op.err = &PersistError{Op: "store " + op.name(), Err: err}
		p.fail(op.err)
	}
	return op.err
}

// fail keeps the first failure.
func (p *pipeline) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.failed)
	}
}

func (p *pipeline) firstError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// flush waits for everything submitted and returns the first failure.
func (p *pipeline) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queueDelayed()
	p.beginInline()
	for p.running > 0 || len(p.queue) > 0 {
		p.wait()
	}
	return p.err
}

// settle is flush, and then makes all saves durable.
func (p *pipeline) settle() error {
	err := p.flush()
	p.mu.Lock()
	syncs := p.syncDue && !p.defers
	p.mu.Unlock()
	switch {
	case syncs && err == nil:
		err = p.store(&saveOp{what: "sync", barrier: true, run: saveFunc(p.sync)})
	case syncs: // data stored before the failure stays
		_ = guard(func() error { return p.sync(p.ctx) })
	}
	return err
}

// close ends the pipeline when everything submitted is stored and durable, or
// refused after its context was cancelled. It returns the first failure.
func (p *pipeline) close() error {
	err := p.settle()
	p.mu.Lock()
	if p.due != nil {
		p.due.Stop()
	}
	p.mu.Unlock()
	p.unwatch()
	p.cancel()
	return err
}
