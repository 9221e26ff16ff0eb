package pregel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stele-go/stele/saver"
)

// RecoverOptions are options of Recover. The zero value recovers four threads at a
// time and begins at most three recoveries of each.
type RecoverOptions struct {
	// AtOnce is how many threads are run at a time; 0 is 4.
	AtOnce int
	// Attempts is how many recoveries of a thread are begun from one checkpoint; 0 is
	// 3. A node that kills its process would be run for ever without a bound.
	Attempts int
	// Config makes the Config a thread is run with from its state: the values that
	// its nodes expect of a caller, such as Context and Configurable. Recover fills in
	// the ThreadID, and the RunID of the run that did not end if there is none. nil
	// gives the zero Config. It is called from one goroutine.
	Config func(state *StateSnapshot) (Config, error)
}

// Outcome is what became of a thread that Recover found.
type Outcome string

// The outcomes of Recover.
const (
	// Recovered: the run came to its end.
	Recovered Outcome = "recovered"
	// RecoveredToStop: the run went on and stopped at a question or a breakpoint.
	RecoveredToStop Outcome = "waiting"
	// RecoveryFailed: the run failed, or could not be begun; see Recovery.Err.
	RecoveryFailed Outcome = "failed"
	// GivenUp: the thread was not run, as all its attempts are used up. Invoke with nil
	// runs it all the same; DiscardUnfinished gives up what is left of it.
	GivenUp Outcome = "given up"
	// Busy: the thread was not run, as another run has it.
	Busy Outcome = "busy"
	// OtherGraph: the thread was not run, as a graph of another name, or of none, made
	// its newest checkpoint.
	OtherGraph Outcome = "other graph"
)

// Recovery is what Recover did about one thread.
type Recovery struct {
	ThreadID string
	Graph    string   // the graph that left it; "" if it has no name
	Next     []string // the nodes that were left to run, each once
	Outcome  Outcome
	// Attempt counts the recoveries begun from the checkpoint the thread was at, this
	// one included; 0 if none was begun now.
	Attempt int
	// Interrupts are the questions that wait now.
	Interrupts []Interrupt
	Err        error // why it failed, or is busy
}

// RecoverReport is what Recover found and did.
type RecoverReport struct {
	// Threads are the unfinished threads, in the order of their ids.
	Threads []Recovery
	// Unknown are the ids of threads that do not say how far they came, as their
	// newest checkpoint was made by another program or through a saver that takes no
	// notes. GetState tells for each; Recover leaves them alone.
	Unknown []string
}

// Recover goes on with the threads that runs of this graph left unfinished: what a
// program calls at its start, before it takes new work. It runs each as Invoke with
// nil does, and returns when all have ended. A thread that fails or stops is in the
// report and no error of Recover; the error is about the list of threads, the options
// or ctx, and the report has what was done until then.
//
// The graph needs a name, Options.Name: it is stored with its checkpoints, and threads
// that other graphs left are reported and not run. The saver must be a
// saver.ThreadManager. Attempts are counted by a saver.Coordinator, durably and
// before anything is run; without one the Graph counts them in memory, which a crash
// forgets.
//
// Recover may be called at any time and by several processes: a thread that another
// run has is left to it.
func (g *Graph) Recover(ctx context.Context, o RecoverOptions) (RecoverReport, error) {
	var report RecoverReport
	if err := g.checkRecover(&o); err != nil {
		return report, err
	}
	mine, err := g.unfinishedThreads(ctx, &report)
	if err != nil {
		return report, err
	}
	slots := make(chan struct{}, o.AtOnce)
	var running sync.WaitGroup
	left := make([]bool, len(report.Threads)) // out: they turned out not to be unfinished
	for _, i := range mine {
		r := &report.Threads[i]
		select {
		case <-ctx.Done():
			r.Outcome, r.Err = RecoveryFailed, context.Cause(ctx)
			continue
		case slots <- struct{}{}:
		}
		cfg, err := g.recoveryConfig(ctx, o, r.ThreadID)
		if err != nil {
			r.Outcome, r.Err = RecoveryFailed, err
			<-slots
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			left[i] = g.recoverThread(ctx, o, cfg, r)
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

// checkRecover refuses what cannot be done and fills in defaults.
func (g *Graph) checkRecover(o *RecoverOptions) error {
	switch _, lists := g.opts.Saver.(saver.ThreadManager); {
	case g.opts.Saver == nil:
		return fmt.Errorf("recover threads of graph %q: %w", g.opts.Name, ErrNoSaver)
	case !g.named:
		return &GraphError{Reason: "Recover tells its threads from those of other graphs by Options.Name, which is not set"}
	case !lists:
		return &GraphError{Reason: fmt.Sprintf("Recover needs a saver that is a saver.ThreadManager; Saver is a %T", g.opts.Saver)}
	case o.AtOnce < 0:
		return &ConfigError{Field: "AtOnce", Reason: "is negative; 0 is 4"}
	case o.Attempts < 0:
		return &ConfigError{Field: "Attempts", Reason: "is negative; 0 is 3"}
	}
	o.AtOnce, o.Attempts = cmp.Or(o.AtOnce, 4), cmp.Or(o.Attempts, 3)
	return nil
}

// unfinishedThreads lists what is unfinished or unknown, and returns which of the
// threads are this graph's to run.
func (g *Graph) unfinishedThreads(ctx context.Context, report *RecoverReport) (mine []int, err error) {
	for t, err := range g.opts.Saver.(saver.ThreadManager).Threads(ctx, saver.ThreadQuery{}) {
		switch {
		case err != nil:
			return nil, &PersistError{Op: "list threads", Err: err}
		case t.Status == saver.StatusUnknown && t.Head != "":
			report.Unknown = append(report.Unknown, t.ThreadID)
		case t.Status == saver.StatusUnfinished && t.Graph == g.opts.Name:
			mine = append(mine, len(report.Threads))
			report.Threads = append(report.Threads, Recovery{ThreadID: t.ThreadID, Graph: t.Graph, Next: t.Next})
		case t.Status == saver.StatusUnfinished:
			report.Threads = append(report.Threads, Recovery{ThreadID: t.ThreadID, Graph: t.Graph, Next: t.Next, Outcome: OtherGraph})
		}
	}
	return mine, nil
}

// recoveryConfig is what a thread is run with.
func (g *Graph) recoveryConfig(ctx context.Context, o RecoverOptions, threadID string) (Config, error) {
	state, err := g.GetState(ctx, Config{ThreadID: threadID}, false)
	if err != nil {
		return Config{}, err
	}
	var cfg Config
	if o.Config != nil {
		if cfg, err = o.Config(state); err != nil {
			return Config{}, err
		}
	}
	if cfg.Namespace != "" || cfg.CheckpointID != "" || len(cfg.CheckpointMap) > 0 || cfg.ThreadID != "" && cfg.ThreadID != threadID {
		return Config{}, &ConfigError{Field: "ThreadID", Reason: "Recover goes on with the newest state of a thread: a Config for it must not name another place"}
	}
	cfg.ThreadID = threadID
	cfg.RunID = cmp.Or(cfg.RunID, state.Metadata.RunID())
	return cfg, nil
}

var (
	errGivenUp = errors.New("all attempts at recovery are used up")
	// errSettled: the thread is not unfinished any more, or never was: a graph inside
	// stopped at a breakpoint, which the saver cannot know.
	errSettled = errors.New("the thread is not unfinished")
)

// recoverThread runs what is left on a thread. settled reports that there was nothing
// to recover.
func (g *Graph) recoverThread(ctx context.Context, o RecoverOptions, cfg Config, r *Recovery) (settled bool) {
	l, err := g.goOn(ctx, cfg, false, func(ctx context.Context, l *loop) error {
		status, next, err := l.standing().status(ctx)
		if err != nil {
			return err
		}
		if status != saver.StatusUnfinished {
			return errSettled
		}
		r.Next = next
		n, err := g.countAttempt(ctx, l.place)
		if err != nil {
			return err
		}
		if n > o.Attempts {
			return errGivenUp
		}
		r.Attempt = n
		return nil
	})
	switch {
	case errors.Is(err, errSettled):
		return true
	case errors.Is(err, errGivenUp):
		r.Outcome = GivenUp
	case errors.Is(err, ErrConflict) && !errors.Is(err, errRanTasks):
		r.Outcome, r.Err = Busy, err
	case err != nil:
		r.Outcome, r.Err = RecoveryFailed, err
	case l.status != statusDone:
		r.Outcome, r.Interrupts = RecoveredToStop, l.waiting
	default:
		r.Outcome = Recovered
	}
	return false
}

// countAttempt counts a recovery that is about to begin at a checkpoint. It is counted
// before anything is run: who is killed by what runs cannot count any more.
func (g *Graph) countAttempt(ctx context.Context, at saver.Config) (int, error) {
	at = saver.Config{ThreadID: at.ThreadID, Namespace: at.Namespace, CheckpointID: at.CheckpointID}
	if c, ok := g.opts.Saver.(saver.Coordinator); ok {
		n, err := c.CountAttempt(ctx, at)
		if err != nil {
			return 0, &PersistError{Op: fmt.Sprintf("count an attempt at recovery of thread %q", at.ThreadID), Err: err}
		}
		return n, nil
	}
	g.attempts.mu.Lock()
	defer g.attempts.mu.Unlock()
	if g.attempts.by == nil {
		g.attempts.by = map[string]attemptsAt{}
	}
	a := g.attempts.by[at.ThreadID]
	if a.checkpoint != at.CheckpointID {
		a = attemptsAt{checkpoint: at.CheckpointID}
	}
	a.begun++
	g.attempts.by[at.ThreadID] = a
	return a.begun, nil
}

// attempts counts recoveries where the saver does not, for the newest checkpoint that
// each thread was recovered from.
type attempts struct {
	mu sync.Mutex
	by map[string]attemptsAt // by thread
}

type attemptsAt struct {
	checkpoint string
	begun      int
}
