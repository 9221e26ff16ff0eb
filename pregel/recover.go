package pregel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// defaultAttempts is how many recoveries are begun from one checkpoint.
const defaultAttempts = 3

// RecoverOptions are options of Recover. The zero value recovers four threads at a time,
// and begins at most three recoveries of each.
type RecoverOptions struct {
	// AtOnce is how many threads run at a time; 0 is 4.
	AtOnce int
	// Attempts bounds the recoveries of a thread that are begun from one checkpoint; 0 is
	// 3. Without a bound a node that kills its process would run for ever. New input that
	// first finishes a thread counts too, with a bound of 3; see FinishFirst. A recovery
	// that its caller cancels does not count, unless the process ends before the next one.
	// So a shutdown uses up an attempt.
	Attempts int
	// Run makes the options of a thread's run from the thread's state: the values that
	// nodes expect from a caller, such as Context and Configurable, the user among them. If it sets no RunID,
	// Recover fills in that of the run that did not end. Nil stands for the zero
	// RunOptions. It is called from one goroutine.
	Run func(state *StateSnapshot) (RunOptions, error)
}

// Outcome is the result of Recover for a thread.
type Outcome string

// The outcomes of Recover.
const (
	// Recovered: the run came to its end.
	Recovered Outcome = "recovered"
	// RecoveredToStop: the run went on and stopped at a question, a breakpoint or a wait.
	RecoveredToStop Outcome = "waiting"
	// RecoveryFailed: the run failed or could not begin; see Recovery.Err. It matches
	// ErrUnknownNode if the graph lacks a node that is left.
	RecoveryFailed Outcome = "failed"
	// GivenUp: the thread was not run, because all its attempts are used up. Invoke with
	// nil still runs it, and DiscardUnfinished drops what is left. Other new input is
	// refused with ErrGivenUp.
	GivenUp Outcome = "given up"
	// Asleep: the thread was not run, because none of its waits is over; see Recovery.Waits. No attempt
	// was counted.
	Asleep Outcome = "asleep"
	// Held: the thread was not run, because its store was restored since it was stored, and is not released
	// (disk.Saver.Release), or because it is a copy of a thread that waits (saver.Saver.CopyThread) and no run has gone on with
	// it. Invoke with nil goes on with it; from then on Recover does, too.
	Held Outcome = "held"
	// Busy: the thread was not run, because another run owns it.
	Busy Outcome = "busy"
	// OtherGraph: the thread was not run, because its newest checkpoint is of a graph with
	// another name, or with none.
	OtherGraph Outcome = "other graph"
)

// Recovery describes the recovery of one thread.
type Recovery struct {
	ThreadID string
	Graph    string // the graph that left it; "" if it has no name
	// Next are the nodes that were left to run, each once. If Recover did not load the
	// thread they are all nodes of its superstep.
	Next    []string
	Outcome Outcome
	// Attempt counts the recoveries that were begun from the thread's checkpoint, including
	// this one. It is 0 if none was begun now.
	Attempt int
	// Interrupts are the questions that wait now, and Waits what the thread waits for beside answers, the
	// earliest first; see Sleep.
	Interrupts []Interrupt
	Waits      []Wait
	Err        error // why it failed, or is busy
}

// RecoverReport is the report of Recover.
type RecoverReport struct {
	// Threads are the threads that were unfinished or slept, in the order of their ids.
	Threads []Recovery
	// Unknown are the ids of threads whose status the saver does not know, because another
	// program made their newest checkpoint, or a saver that takes no notes. Recover leaves
	// them alone; GetState tells their status.
	Unknown []string
}

// Recover resumes the threads that runs of this graph left unfinished, and those that slept until now
// (see Sleep), but those that are Held. A program calls it when it starts, before it takes new work, and again when the first of
// the Recovery.Waits is over. Each thread is run as by Invoke with nil.
// Recover returns when all runs have ended. A thread that fails or stops is in the report
// and is no error. An error concerns the list of threads, the options or ctx; the report
// then has what was done so far.
//
// The graph needs a name, Options.Name. The name is stored with its checkpoints, and
// threads that other graphs left are reported and not run. Attempts are counted durably
// before anything runs.
//
// Recover may be called at any time and by several processes. It leaves a thread alone that
// another run owns.
func (g *Graph) Recover(ctx context.Context, o RecoverOptions) (RecoverReport, error) {
	g.mustBe()
	var report RecoverReport
	if err := g.checkRecover(&o); err != nil {
		return report, err
	}
	mine, waiting, held, err := g.unfinishedThreads(ctx, &report)
	if err != nil {
		return report, err
	}
	slots := make(chan struct{}, o.AtOnce)
	var running sync.WaitGroup
	left := make([]bool, len(report.Threads)) // out: they turned out neither to be unfinished nor to sleep
	for _, i := range mine {
		r := &report.Threads[i]
		select {
		case <-ctx.Done():
			r.Outcome, r.Err, left[i] = RecoveryFailed, context.Cause(ctx), waiting[i]
			continue
		case slots <- struct{}{}:
		}
		run, state, err := g.recoveryOptions(ctx, o, r.ThreadID, held[i])
		switch {
		case err != nil:
			r.Outcome, r.Err = RecoveryFailed, err
			<-slots
			continue
		case waiting[i] && !state.working && len(state.Waits) == 0: // it waits for a person
			left[i] = true
			<-slots
			continue
		case held[i] || state.copied:
			r.Outcome, r.Interrupts, r.Waits = Held, state.Interrupts, state.Waits
			<-slots
			continue
		case (state.Status == saver.StatusWaiting || state.Status == saver.StatusSleeping) && !state.due:
			r.Outcome, r.Interrupts, r.Waits = Asleep, state.Interrupts, state.Waits
			<-slots
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			left[i] = g.recoverThread(ctx, run, o.Attempts, r)
		})
	}
	running.Wait()
	kept := report.Threads[:0]
	for i, r := range report.Threads {
		if !left[i] {
			kept = append(kept, r)
		}
	}
	report.Threads = kept
	return report, context.Cause(ctx)
}

// checkRecover refuses invalid options and fills in defaults.
func (g *Graph) checkRecover(o *RecoverOptions) error {
	switch {
	case g.opts.Saver == nil:
		return fmt.Errorf("recover threads of graph %q: %w", g.opts.Name, ErrNoSaver)
	case g.name == "":
		return &GraphError{Reason: "Recover tells its threads from those of other graphs by Options.Name, which is not set"}
	case o.AtOnce < 0:
		return &ArgumentError{Field: "AtOnce", Reason: "is negative; 0 is 4"}
	case o.Attempts < 0:
		return &ArgumentError{Field: "Attempts", Reason: "is negative; 0 is 3"}
	}
	o.AtOnce, o.Attempts = cmp.Or(o.AtOnce, 4), cmp.Or(o.Attempts, defaultAttempts)
	return nil
}

// unfinishedThreads adds the unfinished and unknown threads to report, and returns the indexes of those
// that this graph must run, or that wait and may sleep. The saver calls the latter waiting. Some of both are held.
func (g *Graph) unfinishedThreads(ctx context.Context, report *RecoverReport) (mine []int, waiting, held map[int]bool, err error) {
	waiting, held = map[int]bool{}, map[int]bool{}
	for t, err := range g.opts.Saver.Threads(ctx, saver.ThreadQuery{}) {
		switch {
		case err != nil:
			return nil, nil, nil, &PersistError{Op: "list threads", Err: err}
		case t.Status == saver.StatusUnknown && t.Head != "":
			report.Unknown = append(report.Unknown, t.ThreadID)
		case (t.Status == saver.StatusUnfinished || t.Status == saver.StatusWaiting) && t.Graph == g.opts.Name:
			waiting[len(report.Threads)], held[len(report.Threads)] = t.Status == saver.StatusWaiting, t.Held
			mine = append(mine, len(report.Threads))
			report.Threads = append(report.Threads, Recovery{ThreadID: t.ThreadID, Graph: t.Graph, Next: t.Next})
		case t.Status == saver.StatusUnfinished:
			report.Threads = append(report.Threads, Recovery{ThreadID: t.ThreadID, Graph: t.Graph, Next: t.Next, Outcome: OtherGraph})
		}
	}
	return mine, waiting, held, nil
}

// recoveryOptions returns the options with which a thread is run, unless it is held.
func (g *Graph) recoveryOptions(ctx context.Context, o RecoverOptions, threadID string, held bool) (run RunOptions, state *StateSnapshot, err error) {
	state, err = g.GetState(ctx, Thread(threadID))
	runs := err == nil && !held && !state.copied && (state.Status == saver.StatusUnfinished || state.due)
	if runs && o.Run != nil {
		run, err = o.Run(state)
	}
	if err == nil {
		run.RunID = cmp.Or(run.RunID, state.Metadata.RunID())
	}
	return run, state, err
}

// errSettled: the thread is no longer unfinished, or never was, because a graph inside stopped
// at a breakpoint, which the saver cannot know.
var errSettled = errors.New("the thread is not unfinished")

// recoverThread runs what is left on a thread. settled reports that there was nothing
// to recover.
func (g *Graph) recoverThread(ctx context.Context, o RunOptions, attempts int, r *Recovery) (settled bool) {
	at := Thread(r.ThreadID)
	l, found, err := g.recoverOne(ctx, &at, &o, false, attempts)
	if found.status == saver.StatusUnfinished || found.due {
		r.Next, r.Attempt = found.next, found.attempt
	}
	switch {
	case errors.Is(err, errSettled):
		return true
	case errors.Is(err, ErrGivenUp):
		r.Outcome = GivenUp
	case errors.Is(err, ErrConflict) && !errors.Is(err, errRanTasks):
		r.Outcome, r.Err = Busy, err
	case err != nil:
		r.Outcome, r.Err = RecoveryFailed, err
	case l.pos.status != statusDone:
		r.Outcome, r.Interrupts, r.Waits = RecoveredToStop, answer.WithoutWaits(l.view.waiting), waitsOf(l.view.waiting)
	default:
		r.Outcome = Recovered
	}
	return false
}

// recovery is a run that finishes an unfinished thread, and its results.
type recovery struct {
	attempts int // how many may be begun from one checkpoint
	progress
	attempt int // that was begun; 0: none
	at      saver.Config
}

// recoverOne resumes what is left on a thread, as Invoke with nil does, unless attempts recoveries have
// already begun from its checkpoint. Its events are not shown. again: the run lost the thread before,
// and now waits for it.
func (g *Graph) recoverOne(ctx context.Context, at *Address, o *RunOptions, again bool, attempts int) (*loop, recovery, error) {
	found := recovery{attempts: attempts}
	l, err := g.newLoop(ctx, at, nil, o)
	if err != nil {
		return nil, found, err
	}
	l.saves.startOver(again)
	l.recovery = &found
	l.view.setStream(&stream{put: func(Event) {}}, nil)
	err = l.runAll(ctx)
	switch {
	case err == nil:
		g.attempts.forget(found.at.ThreadID)
	case ctx.Err() != nil && found.attempt > 0:
		g.attempts.add(found.at, -1)
	}
	return l, found, err
}

// countAttempt counts a recovery that is about to begin at a checkpoint. It does so before
// anything runs, because a process that is killed can no longer count.
func (g *Graph) countAttempt(ctx context.Context, at saver.Config, epoch int64) (int, error) {
	n, err := g.opts.Saver.CountAttempt(ctx, saver.Config{ThreadID: at.ThreadID, Namespace: at.Namespace, CheckpointID: at.CheckpointID, Epoch: epoch})
	if err != nil {
		return 0, &PersistError{Op: fmt.Sprintf("count an attempt at recovery of thread %q", at.ThreadID), Err: err}
	}
	return n + g.attempts.add(at, 0), nil
}

// attempts corrects the saver's counts, for the last checkpoint that each thread was recovered from: a
// recovery that its caller cancelled is subtracted.
type attempts struct {
	mu sync.Mutex
	by map[string]attemptsAt // by thread
}

type attemptsAt struct {
	checkpoint string
	n          int
}

// add adds n to the attempts at a checkpoint and returns them.
func (a *attempts) add(at saver.Config, n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.by[at.ThreadID]
	if was.checkpoint != at.CheckpointID {
		was = attemptsAt{checkpoint: at.CheckpointID}
	}
	was.n += n
	if n != 0 {
		if a.by == nil {
			a.by = map[string]attemptsAt{}
		}
		a.by[at.ThreadID] = was
	}
	return was.n
}

func (a *attempts) forget(threadID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.by, threadID)
}
