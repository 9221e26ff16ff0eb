package runs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// Worker executes the runs of a queue. Set the fields before Run and do not change them
// then.
type Worker struct {
	// Queue has the runs. Required.
	Queue Queue
	// Saver is that of the graphs. Required.
	Saver saver.Saver
	// Graphs are those that this worker runs, by the names that Spec.Graph gives.
	Graphs map[string]*pregel.Graph
	// Concurrency is how many runs are executed at a time; 0 is 16.
	Concurrency int
	// Name names the worker in its runs. Workers that are alive on one queue have different names: by its name the
	// queue knows which versions a worker has. "" is the host, the process and a random part.
	Name string
	// Context makes the context of nodes from Spec.Context; nil hands them the map.
	Context func(Run) (any, error)
	// Begin, if not nil, is called when an attempt at a run begins. It returns a context
	// derived from the one it gets, which the graph runs with, and a function that is called
	// when the attempt has ended. It is for tracing.
	Begin func(ctx context.Context, r Run) (context.Context, func(error))
	// Final reports whether an error is permanent, so that the run ends with it immediately. Nil is
	// Final, the function. It is not called for saver.ErrFenced: a worker that was too slow to keep the
	// lease of a thread ends no run. Other errors are tried again, after Backoff, as often as
	// Spec.Attempts allows.
	Final func(error) bool
	// Backoff is how long a failed run waits before its next attempt. Nil is a second,
	// doubled with every attempt, up to a minute, and a random part of that.
	Backoff func(attempt int) time.Duration
	// DrainTimeout is how long Run waits, when it is told to stop, for supersteps to end.
	// After it they are cancelled, and Run ends when the nodes have returned. What is stored then
	// is waited for as long as the saver does, and the queue no longer than its LeaseTime. 0 is 10
	// seconds.
	DrainTimeout time.Duration
	// Pinned leaves a run whose thread another version of its graph has stored to workers of that one, also if none
	// is alive. Without it, the run goes on here when none is, and if Preflight lets the thread pass. A
	// Migration from that version takes it over in any case.
	Pinned bool
	// Logger reports what went wrong. Nil is slog.Default().
	Logger *slog.Logger

	name     string // as the queue knows it
	mu       sync.Mutex
	jobs     map[string]*job // by run: of its newest claim
	stopping bool            // runs that begin are told to stop
	stopped  bool            // and cancelled
}

// job is a run that the worker executes.
type job struct {
	claim   Claim
	control pregel.Control
	ctx     context.Context
	cancel  context.CancelCauseFunc
	last    []Event   // those of the attempt that are not stored yet
	output  []Event   // the one with its output, of a child that came to its end
	back    *Outcome  // how a run is given back that sleeps, or that is another version's; nil if it has ended
	renewed time.Time // when the last renewal that was answered had been sent; guarded by Worker.mu
	how     Strategy  // of the requested cancellation, "" for none; guarded by Worker.mu
}

// Why a run's context ends.
var (
	errCancelled = errors.New("the run was cancelled")
	errStopping  = errors.New("the worker stops")
)

// Final reports whether an attempt failed for a reason that the next one would meet as well:
// the graph, the input, an answer or the options are wrong, another program has moved the
// thread's head, or the thread was given up. A question whose answer was wrong still waits.
func Final(err error) bool {
	var answer *pregel.AnswerError
	var mistyped *channel.TypeError
	var child *pregel.ChildError
	if errors.As(err, &answer) || errors.As(err, &mistyped) || errors.As(err, &child) {
		return true
	}
	for _, final := range []error{
		pregel.ErrInvalidGraph, pregel.ErrInvalidArgument, pregel.ErrInvalidUpdate, pregel.ErrEmptyInput, pregel.ErrNoInterrupt,
		pregel.ErrUnknownInterrupt, pregel.ErrAmbiguousResume, pregel.ErrRecursionLimit, pregel.ErrConflict, pregel.ErrGivenUp,
		pregel.ErrUnknownNode, pregel.ErrOtherVersion, pregel.ErrCallMismatch, pregel.ErrNoQueue, pregel.ErrWaiting, saver.ErrInvalid, saver.ErrThreadDeleted, saver.ErrTooLarge,
	} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// Run executes runs until ctx ends. Then it begins no more, asks the graphs to stop after
// their superstep, gives the runs back to the queue, and returns nil. Any number of workers
// may run on one queue, in any number of processes. It returns an error only if the worker
// cannot work at all; what goes wrong later is logged, and tried again.
//
// If Saver leads a lineage and another leader takes over, as disk.Saver.Fenced says, Run stops at once: the contexts of its nodes end with
// a cause that matches fault.ErrFenced, its claims are void without a word to the queue, and it returns such an error. The new leader has
// the runs.
func (w *Worker) Run(ctx context.Context) error {
	if w.Queue == nil || w.Saver == nil || len(w.Graphs) == 0 {
		return &InvalidError{"worker", "needs a Queue, a Saver and Graphs"}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Graphs)) {
		if g := w.Graphs[name]; g == nil || g.Saver() == nil {
			return &InvalidError{"worker", fmt.Sprintf("graph %q stores nothing: compile it with the Saver of the worker", name)}
		}
	}
	name := w.Name
	if name == "" {
		host, _ := os.Hostname()
		name = fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:6])
	}
	if err := CheckServed(name, w.versions()); err != nil {
		return err
	}
	w.name = name
	w.mu.Lock()
	w.jobs, w.stopping, w.stopped = map[string]*job{}, false, false
	w.mu.Unlock()
	changed, stop := w.Queue.Watch("")
	defer stop()
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	ctx, deposed := context.WithCancelCause(ctx)
	defer deposed(nil)
	if s, ok := w.Saver.(interface{ Fenced() <-chan struct{} }); ok {
		go func() {
			select {
			case <-s.Fenced():
				end(errDeposed)
				deposed(errDeposed)
			case <-work.Done():
			}
		}()
	}
	renewing := make(chan struct{})
	asked, unwatch := w.Queue.Watch("")
	defer unwatch()
	go func() {
		defer close(renewing)
		w.renew(work, asked)
	}()
	if held := heldBack(w.Queue); held != "" {
		w.logger().Warn("the store was restored, and is held: " + held + " wait for stele release DIR")
	}
	graphs := slices.Sorted(maps.Keys(w.Graphs))
	places := make(chan struct{}, cmp.Or(max(w.Concurrency, 0), 16))
	var running sync.WaitGroup
	queue := ForWorker(w.Queue)
	finish := func(end context.Context, c Claim, o Outcome) (*Claim, error) {
		if ctx.Err() != nil {
			return queue.FinishAndClaim(end, c, o, name, nil)
		}
		return queue.FinishAndClaim(end, c, o, name, graphs)
	}
	// A goroutine stays for the next run, as its stack has grown. There are no more than places.
	jobs, executors := make(chan *job), 0
	begin := func(c Claim) {
		j := w.begin(work, c)
		select {
		case jobs <- j:
			return
		default:
		}
		if executors == cap(places) { // one is about to wait
			jobs <- j
			return
		}
		executors++
		running.Go(func() {
			for more := true; more; j, more = <-jobs {
				for next := w.execute(j, finish); next != nil; next = w.execute(j, finish) {
					j = w.begin(work, *next)
				}
				<-places
			}
		})
	}
	schedules, corrected := time.Time{}, time.Time{} // when to look at them, and whether they are right
	serve := time.Time{}                             // when to tell the queue of this worker
	every := min(pollEvery, w.Queue.LeaseTime()/2)
	for ctx.Err() == nil {
		now := time.Now()
		if !now.Before(schedules) {
			correct := !now.Before(corrected)
			if correct {
				corrected = now.Add(clockTolerance)
			}
			w.fire(ctx, correct)
			schedules = now.Add(pollEvery)
		}
		if !now.Before(serve) {
			if _, err := w.serve(ctx); err != nil && ctx.Err() == nil {
				w.logger().Error("tell the queue which versions this worker has", "error", err)
			}
			serve = now.Add(w.Queue.LeaseTime() / 2)
		}
		if !place(ctx, places, every) {
			continue
		}
		claim, next, err := w.Queue.Claim(ctx, name, graphs)
		if err == nil && claim != nil {
			begin(*claim)
			continue
		}
		if err != nil && ctx.Err() == nil {
			w.logger().Error("claim a run", "error", err)
		}
		idle := every
		if err == nil && !next.IsZero() {
			idle = min(max(time.Until(next), time.Millisecond), idle)
		}
		given := w.wait(ctx, name, graphs, cap(places)-len(places)+1, changed, idle)
		for range len(given) - 1 {
			places <- struct{}{} // there is room: nobody else sends
		}
		if len(given) == 0 {
			<-places
		}
		for _, c := range given {
			begin(c)
		}
	}
	close(jobs)
	w.leaves(ctx)
	w.drain(end, &running)
	w.leaves(ctx) // a run that was about to be left to others may have told the queue otherwise
	end(nil)
	<-renewing
	if errors.Is(context.Cause(work), errDeposed) {
		return errDeposed
	}
	return nil
}

// errDeposed is why all runs of a worker stop when another leader has taken over from its saver.
var errDeposed = fmt.Errorf("%w: %w", ErrFenced, fault.ErrFenced)

// leaves tells the queue that this worker claims no more.
func (w *Worker) leaves(ctx context.Context) {
	leaving, done := w.toTheEnd(ctx)
	defer done()
	if _, err := w.Queue.Serve(leaving, w.name, nil); err != nil {
		w.logger().Error("tell the queue that this worker stops", "error", err)
	}
}

// place takes one of places. It returns false if there was none until ctx ended, or for the time
// most: a worker that has a place may execute one run after the other.
func place(ctx context.Context, places chan<- struct{}, most time.Duration) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case places <- struct{}{}:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// wait waits for a hint, or for a while, or until ctx ends, and returns runs that came meanwhile, if
// the queue has claimed them for the worker. There are no more than room.
func (w *Worker) wait(ctx context.Context, name string, graphs []string, room int, changed <-chan struct{}, most time.Duration) []Claim {
	come, withdraw := ForWorker(w.Queue).Offer(name, graphs, room)
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-come:
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
	}
	return withdraw()
}

// stops is why a run is asked to stop when its worker does.
const stops = "the worker stops"

// drain waits for the runs to stop.
func (w *Worker) drain(end context.CancelCauseFunc, running *sync.WaitGroup) {
	w.mu.Lock()
	w.stopping = true
	for _, j := range w.jobs {
		j.control.RequestDrain(stops)
	}
	w.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	t := time.NewTimer(cmp.Or(w.DrainTimeout, 10*time.Second))
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		w.mu.Lock()
		w.stopped = true
		for _, j := range w.jobs {
			j.cancel(errStopping)
		}
		w.mu.Unlock()
		<-ended
	}
}

// renewPause is how soon claims are renewed again at the earliest. Most hints of the queue are
// about other runs.
const renewPause = 10 * time.Millisecond

// renew keeps the claims until ctx ends, and looks for cancellations when changed says that
// there may be one.
func (w *Worker) renew(ctx context.Context, changed <-chan struct{}) {
	third := w.Queue.LeaseTime() / 3
	for pause(ctx, changed, third/2+mathrand.N(third/2+1)) == nil {
		w.renewAll(ctx)
		_ = pause(ctx, nil, renewPause)
	}
}

// renewAll renews the claims, and cancels runs that are to be cancelled or whose claims are
// void.
func (w *Worker) renewAll(ctx context.Context) {
	w.mu.Lock()
	jobs := maps.Clone(w.jobs)
	claims := make([]Claim, 0, len(jobs))
	for _, j := range jobs {
		claims = append(claims, j.claim)
	}
	w.mu.Unlock()
	if len(jobs) == 0 {
		return
	}
	sent := time.Now()
	renewing, done := context.WithTimeout(ctx, w.Queue.LeaseTime()/3)
	found, err := w.Queue.Renew(renewing, claims)
	done()
	if err != nil && ctx.Err() == nil {
		w.logger().Error("renew claims", "error", err)
	}
	runs := map[string]Run{}
	for _, r := range found {
		runs[r.ID] = r
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, j := range jobs {
		r, ok := runs[id]
		switch {
		case ok && r.Cancel != "":
			j.how, j.renewed = r.Cancel, sent
			j.cancel(errCancelled)
		case ok:
			j.renewed = sent
		case err == nil || time.Since(j.renewed) >= w.Queue.LeaseTime():
			j.cancel(ErrFenced)
		}
	}
}

// begin makes a claim a job of the worker's.
func (w *Worker) begin(ctx context.Context, c Claim) *job {
	j := &job{claim: c, renewed: time.Now(), how: c.Cancel}
	j.ctx, j.cancel = context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.jobs[c.ID]; before != nil { // its claim was void, as this one could be made
		before.cancel(ErrFenced)
	}
	w.jobs[c.ID] = j
	if w.stopping { // it was claimed just before
		j.control.RequestDrain(stops)
	}
	if w.stopped {
		j.cancel(errStopping)
	}
	return j
}

// toTheEnd returns a context for calls that must be made although ctx has ended. It lasts for
// LeaseTime: if no call reaches the queue for so long, the claim is void, and another worker continues
// the run.
func (w *Worker) toTheEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), w.Queue.LeaseTime())
}

// execute makes an attempt at a run and reports its outcome by finish. It returns the next run if
// finish has claimed one.
func (w *Worker) execute(j *job, finish func(context.Context, Claim, Outcome) (*Claim, error)) (next *Claim) {
	ctx, c := j.ctx, j.claim
	defer j.cancel(nil)
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.jobs[c.ID] == j { // else the worker has claimed the run again
			delete(w.jobs, c.ID)
		}
	}()
	o, report := w.attempt(ctx, j)
	if !report {
		return nil
	}
	if o.Events = j.last; o.Status == Success {
		o.Events = append(o.Events, j.output...)
	}
	end, done := w.toTheEnd(ctx)
	defer done()
	for {
		next, err := finish(end, c, o)
		if err == nil {
			return next
		}
		if next != nil { // both are stored, and not synced: reads of them return the error
			w.logger().Error("sync the end of a run", "run", c.ID, "error", err)
			return next
		}
		if errors.Is(err, ErrFenced) || errors.Is(err, fault.ErrFenced) || end.Err() != nil { // another worker continues it
			w.logger().Warn("the claim of a run is void", "run", c.ID, "error", err)
			return nil
		}
		w.logger().Error("finish a run", "run", c.ID, "error", err)
		full := o.Status == Interrupted && errors.Is(err, fault.ErrDiskFull) // a deletion may wait for the end
		if (refused(err) || full) && len(o.Events) > 0 {                     // the run ends without them, as if they had been refused before
			if o.Events = nil; o.Status != Interrupted {
				o = Outcome{Status: Error, Error: (&pregel.PersistError{Op: "store events", Err: err}).Error()}
			}
			continue
		}
		_ = pause(end, nil, time.Second)
	}
}

// attempt executes a run, and says how its claim ends; report is false if the claim is void.
func (w *Worker) attempt(ctx context.Context, j *job) (o Outcome, report bool) {
	c := j.claim
	err := error(nil)
	if c.Cancel == "" {
		inside, end := ctx, func(error) {}
		if w.Begin != nil {
			inside, end = w.Begin(ctx, c.Run)
		}
		o.Waiting, err = w.invoke(inside, j)
		end(err)
	} else { // it was requested while no worker had the run
		err = errCancelled
	}
	var drained *pregel.DrainedError
	var sleeping *pregel.SleepingError
	var owned *saver.OwnedError
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrFenced):
		return o, false
	case err == nil && j.back != nil:
		return *j.back, true
	case err == nil:
		o.Status = Success
		return o, true
	case errors.Is(cause, errCancelled) || errors.Is(err, errCancelled):
		return w.cancelled(ctx, j)
	case errors.Is(cause, errStopping) || errors.As(err, &drained):
		return Outcome{Status: Pending, Uncounted: true}, true
	case errors.As(err, &owned): // somebody runs the thread without the queue
		return Outcome{Status: Pending, Uncounted: true, After: time.Now().Add(backoff(1) / 4)}, true
	}
	if errors.As(err, &sleeping) { // another run left the thread so, and wakes it first
		at := sleepsUntil(sleeping.Waits, time.Now().Add(time.Minute))
		return Outcome{Status: Pending, Uncounted: true, Yields: true, After: at}.resting(c), true
	}
	w.logger().Warn("an attempt at a run failed", "run", c.ID, "attempt", c.Attempt, pregel.LogError(err))
	o.Error = err.Error()
	final := Final
	if w.Final != nil {
		final = w.Final
	}
	// Who was too slow to keep the thread's lease knows nothing about the run: it is as if the
	// worker had been killed.
	slow := errors.Is(err, saver.ErrFenced)
	if !slow && final(err) || c.Attempt >= c.Attempts {
		o.Status, o.Waiting = Error, w.stillAsks(ctx, c, err)
		return o, true
	}
	o.Status = Pending
	if w.Backoff != nil {
		o.After = time.Now().Add(w.Backoff(c.Attempt))
	} else {
		o.After = time.Now().Add(backoff(c.Attempt))
	}
	return o, true
}

// backoff grows, is bounded, and is never the same for two.
func backoff(attempt int) time.Duration {
	d := min(time.Second<<min(max(attempt-1, 0), 6), time.Minute)
	return d/2 + mathrand.N(d/2)
}

// cancelled is the outcome of a run that was cancelled, when it is over; report is false if the
// claim is void.
func (w *Worker) cancelled(ctx context.Context, j *job) (o Outcome, report bool) {
	w.mu.Lock()
	how := j.how
	w.mu.Unlock()
	if how == Rollback {
		end, done := w.toTheEnd(ctx)
		defer done()
		switch err := w.rollBack(end, j.claim); {
		case errors.Is(err, ErrFenced):
			return Outcome{}, false
		case err != nil:
			w.logger().Error("roll a run back", "run", j.claim.ID, "error", err)
			return Outcome{Status: Pending, Uncounted: true, After: time.Now().Add(backoff(1))}, true
		}
	}
	return Outcome{Status: Interrupted}, true
}

// rollBack removes the checkpoints of a run. Like an attempt, it owns the thread before it checks that
// its claim holds. So a worker that was stopped for long removes nothing of a thread that another one
// has.
func (w *Worker) rollBack(ctx context.Context, c Claim) error {
	lease, err := w.Saver.Own(ctx, c.ThreadID, false)
	if err != nil {
		return err
	}
	defer lease.Release()
	if renewed, err := w.Queue.Renew(ctx, []Claim{c}); err != nil {
		return err
	} else if len(renewed) == 0 {
		return ErrFenced
	}
	if g := w.Graphs[c.Graph]; g != nil {
		if err := g.PutSignalsBack(ctx, c.ThreadID, c.ID); err != nil {
			return err
		}
	}
	if _, err = w.Saver.DeleteForRuns(ctx, []string{c.ID}, lease); err != nil {
		return err
	}
	g := w.Graphs[c.Graph]
	if g == nil {
		return nil
	}
	return g.TakeAnswersBack(ctx, c.ThreadID, c.ID, lease)
}

// fire submits the runs of schedules that are due. The key makes one run of what several
// workers submit. With correct, it also corrects those that a clock which was ahead has put off.
func (w *Worker) fire(ctx context.Context, correct bool) {
	schedules, err := w.Queue.Schedules(ctx)
	for _, s := range schedules {
		now := time.Now()
		if s.Unreadable != nil || s.Held || s.Next.After(now) && !correct {
			continue
		}
		if s.Next.After(now) {
			due, dueErr := DueAt(s.Cron, s.Next, now)
			if dueErr == nil && !due.Equal(s.Next) {
				dueErr = w.Queue.Advance(ctx, s.ID, s.Next, due)
			}
			err = errors.Join(err, dueErr)
			continue
		}
		next, nextErr := NextTime(s.Cron, now)
		if nextErr == nil {
			_, nextErr = w.Queue.Submit(ctx, Request{Spec: s.Spec, Key: "schedule/" + s.ID + "/" + s.Next.UTC().Format(time.RFC3339)})
		}
		if nextErr == nil || errors.Is(nextErr, ErrBusy) {
			nextErr = w.Queue.Advance(ctx, s.ID, s.Next, next)
		}
		err = errors.Join(err, nextErr)
	}
	if err != nil && ctx.Err() == nil {
		w.logger().Error("schedules", "error", err)
	}
}

func (w *Worker) logger() *slog.Logger {
	if w.Logger != nil {
		return w.Logger
	}
	return slog.Default()
}
