package pregel

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/stele-go/stele/saver"
)

const (
	// pipelineDepth is how many saves may wait before a run is held back. Those that share a sync
	// with the one under way come on top.
	pipelineDepth = 64 - together
	// together bounds how many checkpoints share the sync of the last of them.
	together = 16
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

	// Guarded by the pipeline's mu.
	ended bool
	err   error
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
// pipeline, which end with close. A save that somebody waits for anyway runs in the
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
	observe func(name string, took time.Duration, err error) // nil if nobody does
	// sync makes deferred saves durable. It is nil if the saver cannot do that; then
	// nothing is deferred.
	sync func(ctx context.Context) error
	// defers: all saves are deferred, and the caller of the run makes them durable.
	defers bool
	failed chan struct{} // closed at the first failure

	// mu guards the fields below. moved is signalled when a save ends, if
	// somebody waits.
	mu      sync.Mutex
	moved   *sync.Cond
	waiting int       // goroutines that wait for moved
	queue   []*saveOp // not begun yet
	held    *saveOp   // comes behind the queue, once something else does
	running int       // saves under way
	alone   bool      // the one under way is a barrier
	slow    bool      // the last save took as long as slowSave
	owed    bool      // a deferred save ended, and none that is durable has followed it
	behind  int       // barriers in the queue that are yet to begin of those that share a sync
	err     error     // the first failure
	closed  bool

	// One goroutine stays when there is nothing left to do. idle: it waits. given is its
	// next save, and called wakes it.
	idle   bool
	given  *saveOp
	called *sync.Cond
}

// newPipeline starts a pipeline. When ctx ends, the saves have the time drain to end.
func newPipeline(ctx context.Context, drain time.Duration, around func() error, observe func(string, time.Duration, error)) *pipeline {
	p := &pipeline{around: around, failed: make(chan struct{}), observe: observe}
	p.moved, p.called = sync.NewCond(&p.mu), sync.NewCond(&p.mu)
	p.ctx, p.cancel = context.WithoutCancel(ctx), func() {}
	if ctx.Done() != nil { // else nobody can end the saves, and the saver may know it
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
	p.release()
	if p.defers && !p.slow && op.barrier && p.running == 0 && len(p.queue) == 0 {
		p.running, p.alone = 1, true
		p.mu.Unlock()
		p.work(op, false)
		return
	}
	defer p.mu.Unlock()
	for len(p.queue) >= pipelineDepth {
		p.begin()
		p.wait()
	}
	p.queue = append(p.queue, op)
	p.begin()
}

// hold adds a save without starting it. It starts with the next save, or unheld takes it
// back: the checkpoint that follows at once may take its writes along.
func (p *pipeline) hold(op *saveOp) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
	p.held = op
}

// unheld takes back what hold was given; nil if there is nothing, or it was begun.
func (p *pipeline) unheld() *saveOp {
	p.mu.Lock()
	defer p.mu.Unlock()
	op := p.held
	p.held = nil
	return op
}

// release queues the save that is held. The caller holds mu.
func (p *pipeline) release() {
	if p.held != nil {
		p.queue, p.held = append(p.queue, p.held), nil
	}
}

// begin starts the saves that may begin, each in a goroutine. The caller holds mu.
func (p *pipeline) begin() {
	for p.running == 0 || p.slow {
		op := p.next()
		if op == nil {
			return
		}
		if p.idle {
			p.idle, p.given = false, op
			p.called.Signal()
		} else {
			go p.work(op, true)
		}
	}
}

// store adds a save to the queue and waits for it.
func (p *pipeline) store(op *saveOp) error {
	p.mu.Lock()
	p.release()
	if p.running == 0 && len(p.queue) == 0 {
		p.running, p.alone = 1, true
		p.mu.Unlock()
		p.work(op, false)
		return op.err
	}
	p.mu.Unlock()
	p.submit(op)
	p.mu.Lock()
	defer p.mu.Unlock()
	for !op.ended {
		p.wait()
	}
	return op.err
}

// await waits for a submitted save and returns its error.
func (p *pipeline) await(op *saveOp) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
	p.begin()
	for !op.ended {
		p.wait()
	}
	return op.err
}

// next removes the next save from the queue, if it may begin now; else it returns nil. The
// caller holds mu and must run the save.
func (p *pipeline) next() *saveOp {
	if len(p.queue) == 0 || p.alone || p.running >= writersAtOnce {
		return nil
	}
	op := p.queue[0]
	if op.barrier && p.running > 0 {
		return nil
	}
	p.queue[0] = nil
	if p.queue = p.queue[1:]; len(p.queue) == 0 {
		p.queue = nil
	}
	p.running++
	if p.alone = op.barrier; p.alone {
		p.share(op)
	}
	return op
}

// share defers a barrier that other barriers wait behind: they are stored in its order, so the
// sync of the last of them makes all durable. The last that waits is never deferred, so an empty
// queue owes nothing. The caller holds mu.
func (p *pipeline) share(op *saveOp) {
	if p.sync == nil {
		return
	}
	if p.behind > 0 {
		p.behind--
	} else {
		for _, o := range p.queue {
			if o.barrier && p.behind < together-1 {
				p.behind++
			}
		}
	}
	op.deferred = op.deferred || p.behind > 0
}

// wait waits until a save ended. The caller holds mu.
func (p *pipeline) wait() {
	p.waiting++
	p.moved.Wait()
	p.waiting--
}

// work runs op, which next returned, and then further saves that may begin. If stays is set
// and no other goroutine waits, it then waits for more saves until the pipeline is closed.
func (p *pipeline) work(op *saveOp, stays bool) {
	for op != nil {
		start := time.Now()
		err := p.do(op, start)
		took := time.Since(start)
		p.mu.Lock()
		p.slow = took >= slowSave
		p.running--
		p.alone = false
		op.ended, op.err = true, err
		p.owed = op.deferred || p.owed && (!op.barrier || err != nil)
		if op = p.next(); op != nil {
			p.begin()
		}
		if p.waiting > 0 {
			p.moved.Broadcast()
		}
		if op == nil && stays && !p.idle && p.given == nil && !p.closed {
			op = p.idleUntilCalled()
		}
		p.mu.Unlock()
	}
}

// idleUntilCalled waits for the next save; nil when the pipeline is closed. The
// caller holds mu.
func (p *pipeline) idleUntilCalled() *saveOp {
	p.idle = true
	for p.given == nil && !p.closed {
		p.called.Wait()
	}
	op := p.given
	p.idle, p.given = false, nil
	return op
}

func (p *pipeline) do(op *saveOp, start time.Time) error {
	if p.around != nil {
		p.waited.Do(func() {
			if err := p.around(); err != nil {
				p.fail(err)
			}
		})
	}
	if err := p.firstError(); err != nil {
		return err
	}
	err := p.call(op)
	if p.observe != nil {
		p.observe(op.name(), time.Since(start), err)
	}
	if err == nil {
		return nil
	}
	err = &PersistError{Op: "store " + op.name(), Err: err}
	p.fail(err)
	return err
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

// call runs op. A saver that panics has failed.
func (p *pipeline) call(op *saveOp) error {
	ctx := p.ctx
	if op.deferred || p.defers {
		ctx = p.later
	}
	return guard(func() error { return op.run.save(ctx) })
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
	p.release()
	p.begin()
	for p.running > 0 || len(p.queue) > 0 {
		p.wait()
	}
	return p.err
}

// close ends the pipeline when everything submitted is stored and durable, or
// refused after its context was cancelled. It returns the first failure.
func (p *pipeline) close() error {
	err := p.flush()
	switch owes := p.owed && !p.defers; {
	case owes && err == nil:
		err = p.store(&saveOp{what: "sync", barrier: true, run: saveFunc(p.sync)})
	case owes: // what was stored before the failure stays
		_ = guard(func() error { return p.sync(p.ctx) })
	}
	p.mu.Lock()
	p.closed = true
	p.called.Signal()
	p.mu.Unlock()
	p.unwatch()
	p.cancel()
	return err
}
