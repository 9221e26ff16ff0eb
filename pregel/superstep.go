package pregel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/pregel/internal/frozen"
)

// superstep runs the tasks of one superstep, in the goroutine of its loop. Each task has a goroutine of
// its own, and sends requests to the superstep.
type superstep struct {
	l        *loop
	seen     frozen.Value[stepView] // all that tasks get to see
	prep     *preparer
	caller   context.Context // of the run: it ends when the caller goes away
	ctx      context.Context
	cancel   context.CancelCauseFunc
	done     chan result   // of tasks that ended; the loop reads it until none is live
	requests chan request  // that of the stepView
	timedOut chan struct{} // likewise

	queue  []*task         // ready, waiting for a slot
	waking []chan struct{} // tasks whose call has ended, waiting for a slot
	slots  int             // free
	// yielded are the tasks without a slot that have begun: they wait for a call, or are in waking.
	yielded int
	live    int // tasks started and not ended

	stopped bool // nothing more is started
	failure error
	refused error // of a task whose answer was refused; the others go on
	bubble  error // a command for a graph further out, or a drain
	waiting map[string][]Interrupt
	// cancelled: tasks were cut off, by a failure, a timeout or the caller.
	cancelled bool
}

type requestKind int

const (
	reqCall      requestKind = iota // a task calls a function
	reqYield                        // a task waits and gives its slot back
	reqWake                         // a task that gave its slot back wants one again
	reqStore                        // a task needs its checkpoint stored, under Exit
	reqRecord                       // a task needs its call recorded
	reqWait                         // a task has come to a wait
	reqOver                         // the wait of a task, or below it, is over
	reqBind                         // a task takes a signal, or the end of a child, or goes on without one
	reqInside                       // a task runs a graph inside
	reqFindChild                    // a task starts a child, and may have done so before
	reqKeepChild                    // a task has started a child
	reqExpose                       // a body exposes a value
)

// result tells how a task ended.
type result struct {
	task   *task
	writes []write
	err    error
}

// resultsWaiting is the buffer for results that the loop has not read.
const resultsWaiting = 64

type request struct {
	kind    requestKind
	task    *task
	call    *callSpec
	number  int
	reply   chan *task
	grant   chan struct{}
	stored  chan error
	now     bool // of reqRecord: see loop.recordCall
	wait    *reached
	child   *childStart
	inside  *CallMismatchError // what would be wrong
	exposed *exposed
}

func (s *superstep) run(ctx context.Context) error {
	var timeout <-chan time.Time
	if d := s.l.run.g.opts.StepTimeout; d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C
	}
	var saveFailed <-chan struct{}
	if s.l.saves.pipe != nil {
		saveFailed = s.l.saves.pipe.failed
	}
	done := ctx.Done()
	var overdue <-chan time.Time
	defer s.drain()
	s.start()
	for s.live > 0 || len(s.queue) > 0 {
		select {
		case r := <-s.done:
			s.live--
			s.slots++
			s.ended(r)
			switch {
			case s.failure == nil:
			case len(s.queue) == 0 && s.yielded == 0: // see fail
				s.stop(s.failure)
			case overdue == nil:
				timer := time.NewTimer(s.l.run.env().DrainTimeout)
				defer timer.Stop()
				overdue = timer.C
			}
		case m := <-s.requests:
			s.handle(m)
		case <-done:
			done = nil
			s.cancelled = true
			s.stop(context.Cause(ctx))
		case <-overdue: // tasks that wait for the end of their context may have all slots
			s.stop(s.failure)
		case <-saveFailed:
			saveFailed = nil
			s.fail(s.l.saves.pipe.firstError())
		case <-timeout:
			timeout = nil
			s.stop(ErrStepTimeout)
			close(s.timedOut)
		}
		s.start()
	}
	if ctx.Err() != nil { // also if the last result came in at the same moment
		s.cancelled = true
		s.stop(context.Cause(ctx))
	}
	return s.outcome()
}

// drain waits for the running tasks if the loop panics, in a serializer, a cache or a cache
// policy. So no task outlives its run.
func (s *superstep) drain() {
	if s.live == 0 {
		return
	}
	s.stop(errLoopPanicked)
	for _, w := range s.waking {
		close(w)
	}
	for s.live > 0 {
		select {
		case r := <-s.done:
			s.live--
			r.task.done.resolve(nil, errLoopPanicked)
		case m := <-s.requests:
			s.refuse(m)
		}
	}
}

// refuse answers a request after the loop panicked.
func (s *superstep) refuse(m request) {
	switch m.kind {
	case reqCall:
		t := s.prep.called(m.task, m.number, m.call)
		t.done.resolve(nil, errLoopPanicked)
		m.reply <- t
	case reqWake:
		close(m.grant)
	case reqStore, reqRecord, reqWait, reqOver, reqBind, reqInside, reqFindChild, reqKeepChild, reqExpose:
		m.stored <- errLoopPanicked
	case reqYield:
	}
}

var errLoopPanicked = errors.New("the superstep ended with a panic")

// outcome returns the error that the superstep ends with. The first of these counts: a failure, a
// cancellation by the caller, an answer that was refused, a command for another graph, interrupts.
// A timeout counts unless there is a failure or a command.
func (s *superstep) outcome() error {
	select {
	case <-s.timedOut:
		if s.failure == nil && s.bubble == nil {
			return fmt.Errorf("graph %q step %d: %w", s.l.run.g.opts.Name, s.l.pos.step, ErrStepTimeout)
		}
	default:
	}
	switch {
	case s.failure != nil:
		return s.failure
	case s.cancelled:
		return context.Cause(s.ctx)
	case s.refused != nil:
		return s.refused
	case s.bubble != nil:
		return s.bubble
	case len(s.waiting) > 0:
		in := &InterruptError{}
		for _, t := range s.l.pos.tasks.order {
			in.Interrupts = append(in.Interrupts, s.waiting[t.id]...)
		}
		return in
	}
	return nil
}

// abandoned reports whether tasks are cancelled because the caller of the run went away.
// Then nobody decided that they failed, and nothing is stored of them, as after a crash.
func (s *superstep) abandoned() bool {
	return s.caller.Err() != nil && s.failure == nil && !s.l.run.policy.langGraph
}

func (s *superstep) fail(err error) {
	if s.failure == nil {
		s.failure = err
	}
	if _, ofTask := err.(*TaskError); ofTask && s.l.run.policy.langGraph && s.l.run.opts.MaxConcurrency > 0 { //nolint:errorlint // the superstep's own
		return // LangGraph's threads take what is queued before anybody has seen the failure; see run
	}
	s.stop(err)
}

// stop starts no more tasks and cancels the running ones. Tasks that still succeed are kept.
func (s *superstep) stop(cause error) {
	if s.stopped {
		return
	}
	s.stopped = true
	s.queue = nil
	s.cancel(cause)
}

// start fills free slots.
func (s *superstep) start() {
	for len(s.waking) > 0 && s.slots > 0 {
		s.slots--
		s.yielded--
		close(s.waking[0])
		s.waking = s.waking[1:]
	}
	for len(s.queue) > 0 && s.slots > 0 {
		t := s.queue[0]
		s.queue[0] = nil // the room outlives the superstep
		s.queue = s.queue[1:]
		s.slots--
		s.live++
		s.l.pool.workers.start(job{s.seen, t, s.done})
	}
}

func (s *superstep) handle(m request) {
	switch m.kind {
	case reqCall:
		m.reply <- s.accept(m.task, m.number, m.call)
	case reqYield:
		s.slots++
		s.yielded++
	case reqStore:
		m.stored <- guard(func() error { return s.l.storeNow(s.ctx) })
	case reqWait:
		m.stored <- guard(func() error { return s.l.reach(m.wait) })
	case reqOver:
		m.stored <- guard(func() error { return s.l.passWait(m.task, m.wait) })
	case reqExpose:
		m.stored <- guard(func() error { return s.l.expose(m.exposed) })
	case reqBind:
		m.stored <- guard(func() error { return s.l.bind(m.wait) })
	case reqFindChild:
		err := s.l.findChild(m.child)
		if err != nil {
			s.mismatched(m.task, err)
		}
		m.stored <- err
	case reqInside:
		err := s.l.mayRunInside(m.task, m.inside)
		if err != nil {
			s.mismatched(m.task, err)
		}
		m.stored <- err
	case reqKeepChild:
		m.stored <- guard(func() error { return s.l.keepChild(m.task, m.child) })
	case reqRecord:
		m.stored <- guard(func() error { return s.l.recordCall(m.task, m.now) })
	case reqWake:
		if s.stopped {
			s.slots--
			s.yielded--
			close(m.grant)
			return
		}
		s.waking = append(s.waking, m.grant)
	}
}

// ended records how a task ended.
func (s *superstep) ended(r result) {
	t, writes, err := r.task, r.writes, r.err
	if s.l.run.parent != nil {
		s.l.run.parent.out.touch()
	}
	if err == nil && t.mismatch == nil && s.ctx.Err() == nil && !s.l.pos.reruns() {
		t.mismatch = s.l.pos.calls.checkEnd(t)
	}
	if t.mismatch != nil { // even if the body ignored it
		s.failed(t, nil, t.mismatch)
		return
	}
	if err == nil {
		if err = s.succeeded(t, writes); err != nil {
			s.failed(t, writes, err)
		}
		return
	}
	var in *InterruptError
	switch {
	case errors.As(err, &in):
		if perr := s.interrupted(t, writes, in); perr != nil {
			s.fail(perr)
		}
	case isBubble(err):
		if s.bubble == nil {
			s.bubble = err
		}
		t.done.resolve(nil, err)
	default:
		s.failed(t, writes, err)
	}
}

// succeeded records the writes of t. An error means that they cannot be stored, and that t has failed.
func (s *superstep) succeeded(t *task, writes []write) error {
	if !outputs(writes) {
		writes = append(writes, write{chNoWrites, nil})
	}
	if err := s.l.recordCall(t.caller, false); err != nil {
		return err
	}
	own := t.unnamed(writes)
	encoded, err := s.l.pos.record(&s.l.saves.enc, t, t.id, writes)
	if err != nil {
		return err
	}
	if len(encoded) > 0 {
		op := s.l.saves.writesOp(t.name, s.l.pos.here(), encoded, t.id, t.pathStr)
		op.deferred = true
		s.l.saves.submit(op, s.live == 0 && len(s.queue) == 0)
	}
	t.writes = writes
	s.l.view.emitMessages(t)
	s.l.view.emitWrites(t, writes, false)
	s.l.saves.keepInCache(s.ctx, t, own)
	if t.call != nil { // nobody waits for a node
		t.done.resolve(returned(writes))
	}
	return nil
}

// returned reads the return value of a called function from its writes.
func returned(writes []write) (any, error) {
	var err error
	for _, w := range writes {
		switch {
		case w.channel == chReturn:
			return w.value, nil
		case w.channel == chError && err == nil:
			err = storedError(w.value)
		}
	}
	return nil, err
}

// interrupted records the questions of t. They are shown once they are stored.
func (s *superstep) interrupted(t *task, writes []write, in *InterruptError) error {
	l := s.l
	list := slices.Clone(in.Interrupts) // RoundTrip changes it, while callers of t read theirs
	t.done.resolve(nil, in)
	if !t.path.callerReports() {
		list = l.pos.withWaitsBelow(t, list)
		s.waits(t, list)
	}
	if len(list) == 0 {
		return nil
	}
	if err := errors.Join(l.adopt(t, list), l.keepProgress(t, list)); err != nil {
		return err
	}
	if err := l.recordAsked(t); err != nil {
		return err
	}
	record := append([]write{{chInterrupt, list}}, answersOf(writes)...)
	if err := l.putWrites(t, t.id, record); err != nil {
		return err
	}
	report := func() { l.view.emitWrites(t, record, false) }
	if l.run.exits() {
		l.view.reportOnceStored(report)
		return nil
	}
	if l.saves.pipe != nil {
		if err := l.saves.pipe.flush(); err != nil {
			return err
		}
	}
	report()
	return nil
}

// answersOf are the answers a task was given, as it recorded them.
func answersOf(writes []write) (answers []write) {
	for _, w := range writes {
		if w.channel == chResume {
			answers = append(answers, w)
		}
	}
	return answers
}

// failed records the failure of t. Earlier writes of t are dropped, so that the next run does not take
// it for finished. The answers that it was given are kept, so that it need not ask again.
func (s *superstep) failed(t *task, writes []write, err error) {
	l := s.l
	record := answersOf(writes)
	var asked []Interrupt // the questions with which t still waits
	var refused *AnswerError
	without, slept := l.pos.storedWaits(t)
	switch {
	case errors.As(err, &refused) && refused.thread == l.run.thread && refused.again != nil:
		asked = answer.AskedAgain(l.pos.pending, t.id, *refused.again, refused.stale)
	case slept:
		asked = without
	}
	if len(asked) > 0 {
		record = append([]write{{chInterrupt, asked}}, record...)
	}
	cause := len(record)
	record = append(record, write{chError, ownError(err)})
	if slept && len(asked) == 0 { // else it would seem to sleep; for savers' lists it counts that this is behind the error
		record = append(record, write{chInterrupt, []Interrupt{}})
	}
	cancelled := s.ctx.Err() != nil && errors.Is(err, errCancelled)
	// The body, or a graph inside, was changed and cannot go on. That does not count as a failure.
	lacks := errors.Is(err, ErrUnknownNode) || errors.Is(err, ErrCallMismatch)
	handled := !cancelled && !lacks && t.node != nil && t.node.ErrorHandler != ""
	if handled {
		record = append(record, write{chErrorSource, t.name})
	}
	if !lacks && (!cancelled || !s.abandoned()) {
		stored := slices.Clone(record)
		stored[cause].value = errorText(err)
		if t.call != nil && !l.run.policy.langGraph {
			// Its caller may handle the error: by itself it is no failure of the thread.
			stored = append(stored, write{chErrorSource, t.name})
		}
		if perr := l.putWrites(t, t.id, stored); perr != nil {
			s.fail(perr)
		}
	}
	l.view.emitWrites(t, record, false)
	t.done.resolve(nil, err)
	switch {
	case t.call != nil: // its caller gets the error
	case handled && s.stopped:
		// The superstep ends because of something else. What is stored lets the next
		// run call the handler, and not the node again.
	case handled:
		// The failure is stored before the handler runs, so that a crash in
		// between runs the handler and not the node.
		if l.saves.pipe != nil && !l.run.exits() {
			if perr := l.saves.pipe.flush(); perr != nil {
				s.fail(perr)
				return
			}
		}
		t.writes = []write{{chError, err}}
		h := s.prep.handling(t, err)
		l.pos.addTask(h)
		if !l.pos.reruns() {
			l.pos.reapply(h)
		}
		if len(h.writes) == 0 {
			s.queue = append(s.queue, h)
		}
	case cancelled:
		// The task may see the end of the context before the loop does. Without
		// this the superstep would end as if the task had nothing to write.
		if !s.stopped {
			s.cancelled = true
			s.stop(context.Cause(s.ctx))
		}
	case refused != nil:
		// Tasks that the same Command answered go on, as in LangGraph. If they were cut off,
		// they would have their effects twice.
		if s.refused == nil {
			s.refused = &TaskError{Node: t.name, TaskID: t.id, NS: t.ns, Err: err}
		}
	default:
		s.fail(&TaskError{Node: t.name, TaskID: t.id, NS: t.ns, Err: err})
	}
}

// mismatched ends the superstep, because the body of t does not make the calls that it made before.
func (s *superstep) mismatched(t *task, err error) {
	s.fail(&TaskError{Node: t.name, TaskID: t.id, NS: t.ns, Err: err})
	for ; t != nil; t = t.caller {
		t.mismatch = err
	}
}

// accept makes the task of a call, or finds the one that an earlier attempt of the caller
// made. A panic of a cache or of its policy is the caller's error.
func (s *superstep) accept(caller *task, n int, c *callSpec) (t *task) {
	l := s.l
	t = s.prep.called(caller, n, c)
	defer func() {
		if p := recover(); p != nil {
			t.done.resolve(nil, panicError(p))
		}
	}()
	if old := l.pos.tasks.get(t.id); old != nil {
		select {
		case <-old.done.wait():
			if old.done.err == nil {
				return old
			}
		default:
			return old
		}
	}
	if l.run.recordsCalls() && !s.stopped && !l.pos.reruns() {
		known, err := l.pos.calls.check(t)
		if err != nil {
			s.mismatched(caller, err)
			t.done.resolve(nil, err)
			return t
		}
		if !known && l.pos.tasks.get(t.id) == nil {
			if int64(n) < caller.former.Load() { // the attempt before failed, and took another way
				caller.saw.add(sawError{n, anotherWay})
			}
			at, _ := slices.BinarySearchFunc(caller.unrecorded, n+1, func(x *task, n int) int { return cmp.Compare(x.number, n) })
			caller.unrecorded = slices.Insert(caller.unrecorded, at, t)
		}
	}
	l.pos.addTask(t)
	if !s.stopped && !l.pos.reruns() {
		l.pos.reapply(t)
	}
	l.view.emitTasks(t)
	if s.stopped {
		t.done.resolve(nil, context.Cause(s.ctx))
		return t
	}
	if err := l.matchCache(s.ctx, t); err != nil {
		t.done.resolve(nil, err)
		return t
	}
	if len(t.writes) > 0 {
		t.done.resolve(returned(t.writes))
		return t
	}
	switch list, err := l.stillWaiting(s.ctx, t); {
	case err != nil:
		t.done.resolve(nil, err)
		return t
	case len(list) > 0:
		if err := s.keepWaiting(t, list); err != nil {
			s.fail(err)
		}
		return t
	}
	s.queue = append(s.queue, t)
	return t
}
