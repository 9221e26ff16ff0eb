package pregel

import (
	"context"
	"sync"
	"time"
)

const (
	// pipelineDepth is how many saves may wait before a run is held back.
	pipelineDepth = 64
	// writersAtOnce is how many writes of tasks are under way at a time: they
	// share a flush of the store, and their order does not matter.
	writersAtOnce = 32
)

// saveOp is one call to the saver.
type saveOp struct {
	name string
	// barrier: everything before it must be stored first, and nothing after it
	// may begin. Checkpoints are barriers, so that none is stored before the
	// writes that made it.
	barrier bool
	run     func(ctx context.Context) error
	done    chan struct{}
	err     error // set before done is closed
}

func (o *saveOp) wait() error {
	<-o.done
	return o.err
}

// pipeline carries a run's saves to the saver in order. After the first failure
// nothing more is stored, so that no checkpoint stands beyond a gap. It owns one
// goroutine, and one for each write under way, all of which end in close.
type pipeline struct {
	ctx     context.Context // outlives the run's by a bound, so that saves under way end
	cancel  context.CancelFunc
	unwatch func()
	ops     chan *saveOp
	after   *saveOp
	ended   chan struct{}
	failed  chan struct{} // closed at the first failure
	observe func(op string, took time.Duration, err error)

	// mu guards err, the first failure.
	mu  sync.Mutex
	err error
}

// newPipeline starts a pipeline. When ctx ends, saves get another drain to end.
//
// Nothing is stored before after is; nil waits for nothing. What a graph inside
// stores hangs on a checkpoint of the graph around it: were it stored first, a
// crash in between would leave it without, ahead of the graph around.
func newPipeline(ctx context.Context, drain time.Duration, after *saveOp, observe func(string, time.Duration, error)) *pipeline {
	p := &pipeline{after: after, ops: make(chan *saveOp, pipelineDepth), ended: make(chan struct{}), failed: make(chan struct{}), observe: observe}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
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
	go p.work()
	return p
}

func (p *pipeline) work() {
	defer close(p.ended)
	if p.after != nil {
		if err := p.after.wait(); err != nil {
			p.fail(err)
		}
	}
	var under sync.WaitGroup
	slots := make(chan struct{}, writersAtOnce)
	for op := range p.ops {
		if op.barrier {
			under.Wait()
			p.do(op)
			continue
		}
		slots <- struct{}{}
		under.Add(1)
		go func() {
			defer under.Done()
			p.do(op)
			<-slots
		}()
	}
	under.Wait()
}

func (p *pipeline) do(op *saveOp) {
	defer close(op.done)
	if op.err = p.firstError(); op.err != nil {
		return
	}
	start := time.Now()
	err := p.call(op)
	p.observe(op.name, time.Since(start), err)
	if err == nil {
		return
	}
	op.err = &PersistError{Op: "store " + op.name, Err: err}
	p.fail(op.err)
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
func (p *pipeline) call(op *saveOp) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	return op.run(p.ctx)
}

func (p *pipeline) firstError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// submit hands a save over. It blocks while the pipeline is full.
func (p *pipeline) submit(name string, barrier bool, run func(context.Context) error) *saveOp {
	op := &saveOp{name: name, barrier: barrier, run: run, done: make(chan struct{})}
	p.ops <- op
	return op
}

// flush waits for everything submitted and returns the first failure.
func (p *pipeline) flush() error {
	return p.submit("flush", true, func(context.Context) error { return nil }).wait()
}

// close ends the pipeline when everything submitted is stored, or refused after
// its context was cancelled. It returns the first failure.
func (p *pipeline) close() error {
	close(p.ops)
	<-p.ended
	p.unwatch()
	p.cancel()
	return p.firstError()
}
