package pregel

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/stele-go/stele/pregel/internal/answer"
)

// A node that waits ends its run with an interrupt, as one that asks. It runs again from its start when its
// thread goes on, and must find again what it waited for. So each wait has a record, of the instant that was
// fixed when it was first reached: the write of a task that does not exist, as with records of calls.
// Savers keep the first of two writes under one id. LangGraph ignores it. docs/adr/0026-waits-and-signals.md
// has what a crash at each place leaves.

// chWaits is the pseudo channel of records of waits.
const chWaits = "__stele_waits__"

// Wait is what a thread waits for that nobody needs to answer.
type Wait struct {
	// ID is that of the interrupt that is stored for it.
	ID string
	// Until is when it is over, in UTC and whole microseconds; zero for a Receive without a time-out.
	Until time.Time
	// Signal is the name of the signal that it waits for; "" for a Sleep.
	Signal string
	// Child is the thread of the child that it waits for, and ChildGraph its graph; "" for any other wait.
	Child, ChildGraph string
}

// Sleep ends the run, and returns nil when the thread goes on after d. Like Ask it returns an *InterruptError
// until then, which the node must return, and the node runs again from its start. The instant is fixed when the
// Sleep is first reached, and stored: a crash, a retry or a restart does not begin it anew. When it returns
// nil, that is stored as well: no clock that is set back begins it again. Under Exit both are stored with the
// checkpoint that the node runs from. Sleeps of a node are told apart by their order.
//
// A thread that sleeps needs no process. A run of a queue is claimed when it is due; without a queue
// Result.Waits says what the thread waits for, and Recover, or a run with nil, goes on with it
// when that is over. An answer does not end a sleep, and tasks that wait for something else do not run
// when one ends. The clock is Environment.Now. Errors are those of Ask: ErrOutsideTask and ErrNoSaver.
func Sleep(ctx context.Context, d time.Duration) error {
	return sleepUntil(ctx, func(now time.Time) time.Time { return now.Add(d) })
}

// SleepUntil is Sleep until an instant. One behind the year 9999 is an *ArgumentError: its text would not be one.
func SleepUntil(ctx context.Context, t time.Time) error {
	if t.UTC().Year() > 9999 {
		return &ArgumentError{Field: "t", Reason: "is behind the year 9999"}
	}
	if t.IsZero() { // which would be no instant
		t = time.Unix(0, 0)
	}
	return sleepUntil(ctx, func(time.Time) time.Time { return t })
}

func sleepUntil(ctx context.Context, until func(now time.Time) time.Time) error {
	w, err := reachWait(ctx, Wait{}, until)
	if err == nil && w.over {
		err = w.pass()
	}
	if err != nil {
		return fmt.Errorf("sleep: %w", err)
	}
	return w.open()
}

// pass stores that the wait is over, in the records of its task and of those around, which wait for it as well.
// When it returns nil, the body goes on, and so do bodies that run again, whatever the clock and the inbox say.
func (w *reached) pass() error {
	for x := w.anchor; x != nil; {
		step := x.step.Get()
		run := step.run.Get()
		if run.saver != nil {
			if err := step.ask(request{kind: reqOver, task: x.task, wait: w, stored: make(chan error, 1)}); err != nil {
				return err
			}
			if err := step.pipe.flush(); err != nil {
				return err
			}
		}
		x = run.parent
	}
	return nil
}

// reached is a wait that a body has come to.
type reached struct {
	at     *taskAttempt // the body
	anchor *taskAttempt // the task that the wait is recorded with; see taskAttempt.anchor
	until  func(now time.Time) time.Time
	n      int      // its ordinal in the body
	place  []string // of the body below anchor

	Wait
	over  bool   // its instant has passed
	bound *bound // how a Receive, or the wait for a child, ended; nil if it has not
}

// reachWait finds the record of the wait that the body comes to, or makes it.
func reachWait(ctx context.Context, what Wait, until func(now time.Time) time.Time) (*reached, error) {
	r, err := attemptFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := inTurn(ctx); err != nil {
		return nil, err
	}
	r.out.touch()
	n := int(r.task.waited.Add(1) - 1)
	anchor, place := r.anchor()
	if anchor == nil {
		return nil, ErrNoSaver
	}
	for x := r; x != nil; {
		if err := x.recordCall(false); err != nil {
			return nil, err
		}
		step := x.step.Get()
		run := step.run.Get()
		x = run.parent
	}
	if what.Child != "" { // bodies may await those that they started in another order when they run again
		place = append(slices.Clip(place), what.Child)
	}
	what.ID = answer.WaitID(anchor.task.ns, place, n)
	w := &reached{at: r, anchor: anchor, until: until, n: n, place: place, Wait: what}
	return w, w.ask(reqWait)
}

// ask asks the loop of the anchor for something about the wait.
func (w *reached) ask(kind requestKind) error {
	step := w.anchor.step.Get()
	return step.ask(request{kind: kind, wait: w, stored: make(chan error, 1)})
}

// open is what the body gets if the wait is not over.
func (w *reached) open() error {
	if w.over {
		return nil
	}
	value := map[string]any{"wait": "sleep"}
	if w.Signal != "" {
		value["wait"], value["signal"] = "signal", w.Signal
	}
	if w.Child != "" {
		value["wait"], value["child"], value["graph"] = "child", w.Child, w.ChildGraph
	}
	if !w.Until.IsZero() {
		value["until"] = w.Until.Format(time.RFC3339Nano)
	}
	waits := &InterruptError{Interrupts: []Interrupt{{ID: w.ID, Value: value}}}
	w.at.task.seesError("wait", w.n, waits)
	return waits
}

// waitOf reads an interrupt that is a wait.
func waitOf(in Interrupt) (w Wait, ok bool) {
	if !answer.IsWait(in) {
		return w, false
	}
	value, _ := in.Value.(map[string]any)
	w.ID = in.ID
	w.Signal, _ = value["signal"].(string)
	if w.Child, _ = value["child"].(string); w.Child != "" {
		w.ChildGraph, _ = value["graph"].(string)
	}
	if text, ok := value["until"].(string); ok {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			w.Until = t.UTC()
		}
	}
	return w, true
}

// waitsOf are the waits in a list, the earliest first. Those that only a signal ends come last.
func waitsOf(list []Interrupt) (waits []Wait) {
	for _, in := range list {
		if w, ok := waitOf(in); ok && !slices.ContainsFunc(waits, func(x Wait) bool { return x.ID == w.ID }) {
			waits = append(waits, w)
		}
	}
	slices.SortStableFunc(waits, func(a, b Wait) int {
		if a.Until.IsZero() != b.Until.IsZero() {
			return cmp.Compare(b2i(a.Until.IsZero()), b2i(b.Until.IsZero()))
		}
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID))
	})
	return waits
}

// isOver reports whether the instant of a wait has passed.
func (w Wait) isOver(now time.Time) bool { return !w.Until.IsZero() && !w.Until.After(now) }

// waitsReached are the waits that tasks of a superstep have come to, in this and in earlier runs.
type waitsReached struct {
	until map[string]time.Time // by the id of the wait; zero if it has no instant
	// awaited are the names of signals by the ids of the waits for them; "" for other waits.
	awaited map[string]string
	// before is how many recoveries had begun from the checkpoint when a task that one of them ran came to
	// another wait. They got somewhere, and do not count any more.
	before int
	// bound is how Receives, and waits for children, ended, by the id of the wait. over are those, sleeps that
	// are over, and such waits below tasks.
	bound map[string]*bound
	over  map[string]bool
	// children are those that were started, by thread.
	children map[string]childRecord
	// threads are those whose runs came to the waits, or went on with them, as threadMark has them.
	threads []int64
	// exposedAt is how many values each body has exposed.
	exposedAt map[string]int64
}

// A copy of a thread (saver.Saver.CopyThread) has the waits of its original, and nobody is to be reminded twice. So records of waits
// say on which thread they were made, and Recover leaves a thread alone whose waits no run of its own came to, or went on with. Records of
// earlier releases do not say it.

// threadMark stands for a thread in records of waits. It is a hash: a record of a copy does not name the original.
func threadMark(thread string) int64 { return int64(xxh3.HashString(thread)) }

// by notes that waits were made on a thread.
func (w *waitsReached) by(mark int64) { w.threads = append(w.threads, mark) }

// isCopied reports whether waits were made on other threads alone.
func (w *waitsReached) isCopied(thread string) bool {
	return len(w.threads) > 0 && !slices.Contains(w.threads, threadMark(thread))
}

// adopt stores, before the interrupts of a task are, that a run of this thread came to its waits, or goes on with them: they lie in the
// records of graphs inside, or the thread is a copy.
func (l *loop) adopt(t *task, list []Interrupt) error {
	mark := threadMark(l.run.thread)
	if l.run.nested() || l.run.saver == nil || len(waitsOf(list)) == 0 || slices.Contains(l.pos.waits.threads, mark) {
		return nil
	}
	l.pos.waits.by(mark)
	return l.recordWait(t, fmt.Sprint("thread ", mark), map[string]any{"thread": mark})
}

func (w *waitsReached) bind(id string, how *bound) {
	if w.bound == nil {
		w.bound = map[string]*bound{}
	}
	w.bound[id] = how
}

func (w *waitsReached) pass(id string) {
	if w.over == nil {
		w.over = map[string]bool{}
	}
	w.over[id] = true
}

// takeWaits reads the records of waits from pending writes, and returns the others. What another program
// stored in their place counts as none.
func takeWaits(pending []answer.Write) (rest []answer.Write, w waitsReached) {
	rest = pending[:0]
	for _, p := range pending {
		if p.Channel != chWaits {
			rest = append(rest, p)
			continue
		}
		record, _ := p.Value.(map[string]any)
		if n, ok := record["recoveries"].(int64); ok {
			w.before = max(w.before, int(min(n, 1<<30)))
		}
		if mark, ok := record["thread"].(int64); ok {
			w.by(mark)
		}
		if id, ok := record["id"].(string); ok {
			micros, _ := record["until"].(int64)
			signal, _ := record["signal"].(string)
			if w.note(id, micros); record["n"] != nil { // the first builds did not say it
				w.awaits(id, signal)
			}
		}
		if x, ok := exposedOf(record); ok {
			w.expose(x)
		}
		if id, ok := record["over"].(string); ok {
			w.pass(id)
		}
		if id, ok := record["bound"].(string); ok {
			how := &bound{}
			if s, ok := signalOf(record["signal"]); ok {
				how.signal = &s
			}
			how.end = childEndOf(record["child"])
			w.bind(id, how)
		}
		if thread, ok := record["started"].(string); ok {
			graph, _ := record["graph"].(string)
			hash, _ := record["input"].(string)
			w.keepChild(thread, childRecord{graph, hash})
		}
	}
	return rest, w
}

func (w *waitsReached) note(id string, micros int64) {
	if w.until == nil {
		w.until = map[string]time.Time{}
	}
	w.until[id] = time.Time{}
	if micros != 0 {
		w.until[id] = time.UnixMicro(micros).UTC()
	}
}

// awaits notes what signal a wait is for; "" is none.
func (w *waitsReached) awaits(id, signal string) {
	if w.awaited == nil {
		w.awaited = map[string]string{}
	}
	w.awaited[id] = signal
}

// now is the time by which waits are over: UTC, in whole microseconds.
func (r *runConfig) now() time.Time { return r.env().Now().UTC().Truncate(time.Microsecond) }

// isOther reports whether what is recorded with the id of a wait is another wait: the body was changed since,
// or has taken another way. A signal that was taken, and the end of a child, are for a wait with a time-out and
// for one without.
func (w *waitsReached) isOther(r *reached, timed bool) bool {
	until, known := w.until[r.ID]
	signal, says := w.awaited[r.ID]
	switch how := w.bound[r.ID]; {
	case !known:
		return w.over[r.ID] && r.Signal != "" // a sleep that was over when it was first reached
	case says && signal != r.Signal:
		return true
	case how != nil && (how.signal != nil || how.end != nil):
		return false
	}
	return until.IsZero() == timed
}

// reach fixes the instant of a wait, if it is not fixed yet.
func (l *loop) reach(w *reached) error {
	now := l.run.now()
	first := w.until(now)
	timed := !first.IsZero()
	for _, other := range [...]string{fmt.Sprintf("%q", w.Signal), fmt.Sprintf("%q %t", w.Signal, timed)} {
		if l.pos.waits.isOther(w, timed) {
			w.ID = answer.WaitID(w.anchor.task.ns, append(slices.Clip(w.place), other), w.n)
		}
	}
	until, known := l.pos.waits.until[w.ID]
	isSleep := w.Signal == "" && w.Child == ""
	if isSleep && l.pos.waits.over[w.ID] { // whatever the clock says now
		w.over = true
		return nil
	}
	if !known {
		if until = first; !until.IsZero() {
			until = until.UTC().Truncate(time.Microsecond)
		}
		if w.Until = until; isSleep && w.isOver(now) {
			w.over = true
			return nil
		}
		micros := int64(0)
		if !until.IsZero() {
			micros = until.UnixMicro()
		}
		mark := threadMark(l.run.thread)
		record := map[string]any{"id": w.ID, "until": micros, "thread": mark, "n": int64(w.n), "when": now.UnixMicro()} // the last two are for Steps
		if w.Signal != "" {
			record["signal"] = w.Signal
		}
		if w.Child != "" {
			record["child"] = w.Child
		}
		if err := l.recordForGood(w.anchor.task, w.ID, record); err != nil { // how it ends may be stored before the run is
			return err
		}
		l.pos.waits.by(mark)
		l.pos.waits.note(w.ID, micros)
		l.pos.waits.awaits(w.ID, w.Signal)
	}
	w.Until = until
	w.over, w.bound = w.isOver(now), l.pos.waits.bound[w.ID]
	return nil
}

// recordWait stores a record about waits of t under a name. It is a barrier: no interrupt is stored of a wait
// that has no record.
func (l *loop) recordWait(t *task, name string, record map[string]any) error {
	id, err := uuid5(t.id, chWaits+name)
	if err != nil {
		return err
	}
	encoded, err := l.pos.record(&l.saves.enc, t, id, []write{{chWaits, record}})
	if err != nil || len(encoded) == 0 {
		return err
	}
	op := l.saves.writesOp(t.name, l.pos.here(), encoded, id, t.pathStr)
	op.barrier = true
	l.saves.submit(op, false)
	return nil
}

// lookAtWaits finds out whether the run goes on with a thread that has waits.
func (l *loop) lookAtWaits() {
	l.run.inbox.hide(&l.pos.waits)
	if l.run.nested() {
		return
	}
	l.run.waits = l.pos.entry.kind == entryResume && slices.ContainsFunc(l.pos.pending, func(w answer.Write) bool {
		return w.Channel == chInterrupt && len(answer.Interrupts(w.Value)) > len(answer.WithoutWaits(answer.Interrupts(w.Value)))
	})
	l.run.answered = answer.Untaken(l.pos.pending) >= 0
}

// stillWaiting are the interrupts that t keeps without being run: it waits, and neither is one of its waits over,
// nor has one of its questions an answer. They are none if t is to run.
func (l *loop) stillWaiting(ctx context.Context, t *task) ([]Interrupt, error) {
	if !l.run.waits || l.pos.stepped || l.pos.reruns() || l.run.saver == nil {
		return nil, nil
	}
	statuses, _ := answer.Statuses(l.pos.pending)
	s := statuses[t.id]
	if s == nil {
		return nil, nil
	}
	answers := answer.Of(l.pos.pending)
	list := s.Waiting(t.ns, answers.Taken(t.id))
	for _, in := range slices.Concat(list, l.pos.asked.below(t)) {
		w, isWait := waitOf(in)
		_, ready := l.run.resumeMap[in.ID]
		ready = ready || l.run.answered
		if isWait {
			var err error
			// A copy of a thread does not await the children of the original: it starts its own.
			ready = l.pos.waits.over[in.ID] || w.Child != "" && l.pos.waits.isCopied(l.run.thread)
			if !ready {
				ready, err = l.run.isReady(ctx, w)
			}
			if err != nil {
				return nil, err
			}
		}
		if ready {
			return nil, nil
		}
	}
	return list, nil
}

// keepWaiting ends a task that still waits as if it had run and come to its waits again.
func (s *superstep) keepWaiting(t *task, list []Interrupt) error {
	l := s.l
	if err := l.adopt(t, list); err != nil {
		return err
	}
	record := []write{{chInterrupt, list}}
	for _, w := range waitsOf(list) {
		if w.Signal != "" && l.run.inbox != nil {
			l.run.inbox.await(w.Signal, w.ID)
		}
	}
	t.done.resolve(nil, &InterruptError{Interrupts: list})
	if !t.path.callerReports() {
		s.waits(t, list)
	}
	if l.run.answered || len(l.run.resumeMap) > 0 { // savers take an answer of no task, and a record of answers, for one to all
		answers := answer.Of(l.pos.pending)
		if taken := answers.Taken(t.id); len(taken) > 0 {
			record = append(record, write{chResume, taken})
		}
		if err := l.putWrites(t, t.id, record); err != nil {
			return err
		}
	}
	report := func() { l.view.emitWrites(t, record, false) }
	if l.run.exits() {
		l.view.reportOnceStored(report)
	} else {
		report()
	}
	return nil
}

// waits notes the interrupts with which a task waits.
func (s *superstep) waits(t *task, list []Interrupt) {
	if s.waiting == nil {
		s.waiting = map[string][]Interrupt{}
	}
	s.waiting[t.id] = list
}

// withWaitsBelow adds the waits of functions that t calls, which its body may not have returned, to the
// interrupts that it returned.
func (p *position) withWaitsBelow(t *task, list []Interrupt) []Interrupt {
	for _, in := range p.asked.below(t) {
		known := slices.ContainsFunc(list, func(x Interrupt) bool { return x.ID == in.ID })
		if answer.IsWait(in) && !known {
			list = append(list, in)
		}
	}
	return list
}

// keepProgress stores that a recovery came to a wait.
func (l *loop) keepProgress(t *task, list []Interrupt) error {
	r := l.recovery
	if r == nil || r.attempt == 0 || len(waitsOf(list)) == 0 {
		return nil
	}
	n := l.pos.waits.before + r.attempt
	return l.recordWait(t, fmt.Sprint("recoveries ", n), map[string]any{"recoveries": int64(n)})
}

// storedWaits reports whether t had stored waits when it was run.
func (p *position) storedWaits(t *task) (without []Interrupt, had bool) {
	for _, w := range p.pending {
		if w.TaskID == t.id && w.Channel == chInterrupt {
			list := answer.Interrupts(w.Value)
			without = append(without, answer.WithoutWaits(list)...)
			had = had || len(waitsOf(list)) > 0
		}
	}
	return without, had
}

// SleepingError: new input was not taken, because the thread waits for an instant or a signal. It matches
// ErrSleeping. Nothing was run or stored. With DiscardUnfinished the input is taken, and the waits are
// given up.
type SleepingError struct {
	ThreadID string
	Waits    []Wait // the earliest first
}

// Error says until when the thread waits.
func (e *SleepingError) Error() string {
	s := fmt.Sprintf("thread %q: %v", e.ThreadID, ErrSleeping)
	if len(e.Waits) > 0 && !e.Waits[0].Until.IsZero() {
		s += " until " + e.Waits[0].Until.Format(time.RFC3339Nano)
	}
	return s + "; the input was not taken"
}

// Is makes every SleepingError match ErrSleeping.
func (e *SleepingError) Is(target error) bool { return target == ErrSleeping }
