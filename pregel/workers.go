package pregel

import "sync/atomic"

// idleWorkers is how many goroutines of a run wait for the next superstep's
// tasks; those of a wider superstep end with it.
const idleWorkers = 8

// workers are the goroutines that run a loop's tasks. One that ended a task waits
// for another: a goroutine that begins anew must grow its stack to what a node
// needs each time, which costs more than many a node.
type workers struct {
	jobs chan job      // unbuffered: a job is handed to a worker that waits
	quit chan struct{} // closed when the run is over
	idle atomic.Int32  // workers that wait
}

// job is a task to run and the superstep it belongs to.
type job struct {
	s *superstep
	t *task
}

func newWorkers() *workers { return &workers{jobs: make(chan job), quit: make(chan struct{})} }

// start runs t in a worker that waits, or in a new one.
func (w *workers) start(s *superstep, t *task) {
	j := job{s, t}
	select {
	case w.jobs <- j:
	default:
		go w.work(j)
	}
}

// work is the body of a worker. A node that ends its goroutine ends the worker;
// the superstep hears of it all the same.
func (w *workers) work(j job) {
	for {
		j.s.work(j.t)
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

// end lets the workers go. No task may be running.
func (w *workers) end() { close(w.quit) }
