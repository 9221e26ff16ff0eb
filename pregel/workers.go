package pregel

import (
	"context"
	"sync/atomic"
)

// idleWorkers is the largest number of goroutines of a run that wait for the tasks of the next
// superstep. Others end.
const idleWorkers = 8

// workers are the goroutines that run a loop's tasks. After a task, a worker waits for another
// one. A new goroutine would have to grow its stack to what a node needs each time, which
// costs more than many nodes do.
type workers struct {
	jobs chan job      // unbuffered: a job is handed to a worker that waits
	quit chan struct{} // closed when the run is over
	idle atomic.Int32  // workers that wait
}

func newWorkers() *workers { return &workers{jobs: make(chan job), quit: make(chan struct{})} }

// start runs j in a worker that waits, or in a new one.
func (w *workers) start(j job) {
	select {
	case w.jobs <- j:
	default:
		go w.work(j)
	}
}

// work is the body of a worker. A node that calls runtime.Goexit ends the worker; the superstep
// still gets a result.
func (w *workers) work(j job) {
	for {
		j.run()
		j = job{}
		if w.idle.Add(1) > idleWorkers {
			w.idle.Add(-1)
			return
		}
		select {
		case j = <-w.jobs:
			w.idle.Add(-1)
		case <-w.quit:
			return
		}
	}
}

// end ends the workers. No task may be running.
func (w *workers) end() { close(w.quit) }

// pool is what the supersteps of a run share.
type pool struct {
	// taskCtx is the parent of the contexts of all tasks. It is cancelled when a
	// superstep fails, which is then the last one.
	taskCtx context.Context
	cancel  context.CancelCauseFunc
	workers *workers // from the first superstep on
	// Memory that supersteps reuse, for the tasks to run and for their results.
	ready   []*task
	results chan result
}
