package pregel

import (
	"context"
	"errors"
)

// finishEarlier goes on with the run that left the thread as l found it, under the RunID
// that it had. Nobody sees its events: the caller asked for a run of the input. What it
// returns is instead of refused, why the input is not taken.
func (l *loop) finishEarlier(ctx context.Context, at Address, o RunOptions, refused error) error {
	var e *UnfinishedError
	if !errors.As(refused, &e) {
		return refused
	}
	o.RunID = l.md.RunID()
	switch earlier, _, err := l.g.recoverOne(ctx, at, o, l.owned.again, defaultAttempts); {
	case errors.Is(err, errSettled): // somebody else finished it in the meantime
	case err != nil:
		e.Err = err
		return e
	case earlier.status != statusDone:
		e.Stopped, e.Interrupts = true, earlier.waiting
		return e
	}
	return nil
}
