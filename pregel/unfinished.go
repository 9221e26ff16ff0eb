package pregel

import (
	"context"
	"errors"
)

// Unfinished says what new input does on a thread whose last run did not come
// to its end because the process died: its snapshot has the Status
// saver.StatusUnfinished. On a thread that is done, waits or failed, new input
// does what it does in LangGraph, whatever this says.
type Unfinished string

const (
	// FinishFirst first goes on with the run that is there, as Invoke with nil
	// input does, and takes the new input after it. It is the default. It counts as
	// an attempt at recovery: after three from one checkpoint the input fails with
	// ErrGivenUp, so that not every message runs a node that kills its process. What
	// a graph of another name left is not run, and the input refused.
	FinishFirst Unfinished = "finish"
	// RefuseUnfinished fails with ErrUnfinished. Nothing is run or stored.
	RefuseUnfinished Unfinished = "refuse"
	// DiscardUnfinished is LangGraph's way: the tasks that did not end are given
	// up, what the others wrote is dropped, and the input is taken.
	DiscardUnfinished Unfinished = "discard"
)

// ways are the places where a run may be safer than LangGraph, or the same. They are
// those of the outermost graph: graphs inside follow it.
type ways struct {
	unfinished                       Unfinished
	shared, anyAnswer, anyCheckpoint bool
	// plain: what is stored about the end of a run is what LangGraph stores, and no more.
	plain bool
}

// ways resolves a Config on top of Options.LangGraph. The Config of a run can
// choose more of LangGraph's ways; only Unfinished can also take one back.
func (g *Graph) ways(cfg Config) ways {
	all := g.opts.LangGraph
	w := ways{unfinished: cfg.Unfinished, shared: all || cfg.Shared, anyAnswer: all || cfg.AnyAnswer, anyCheckpoint: all || cfg.AnyCheckpoint, plain: all}
	if w.unfinished == "" {
		w.unfinished = FinishFirst
		if w.shared { // what is left may be what another run is at
			w.unfinished = DiscardUnfinished
		}
	}
	return w
}

// finishFirst runs new input with take, and before it what an earlier run left on the
// thread, if take finds something. What it left is run under the RunID it had, and
// nobody sees its events: the caller asked for a run of the input.
func (g *Graph) finishFirst(ctx context.Context, cfg Config, again bool, take func(cfg Config, again bool) (*loop, error)) error {
	l, err := take(cfg, again)
	if l == nil || l.entry.kind != entryFinish {
		return err
	}
	e := &UnfinishedError{}
	if !errors.As(err, &e) {
		return err
	}
	earlier := cfg
	earlier.RunID = l.md.RunID()
	switch l, _, err := g.recoverOne(ctx, earlier, again, defaultAttempts); {
	case errors.Is(err, errSettled): // somebody else finished it in the meantime
	case err != nil:
		e.Err = err
		return e
	case l.status != statusDone:
		e.Stopped, e.Interrupts = true, l.waiting
		return e
	}
	cfg.Unfinished = RefuseUnfinished // somebody else left something in the meantime
	_, err = take(cfg, again)
	return err
}
