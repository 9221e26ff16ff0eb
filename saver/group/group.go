// Package group is how package pregel hands a saver several checkpoints at once. It is no
// part of a saver's interface: a saver that cannot do it is given one after the other.
package group

import (
	"context"

	"github.com/stele-go/stele/saver"
)

// Putter is a saver that can store several checkpoints with one call.
type Putter interface {
	// PutGroup is PutRequest for each of reqs in order, at less cost. When one is refused, none behind
	// it is stored. A crash leaves the first few. It returns how many are stored, and the error of the
	// next one. Without an error at least one is stored; requests that are too much for one call are
	// left to the next. If the error matches saver.ErrOutcomeUnknown, those behind the first n may be
	// stored as well, in order.
	PutGroup(ctx context.Context, reqs []saver.PutRequest) (int, error)
}

// Grouper is a saver that may be a Putter. A saver that embeds another has the methods of that
// one: they must not lead past its own PutRequest.
type Grouper interface {
	// Grouped is the Putter for a saver whose calls all are the receiver's own, and nil for
	// any other whole that the receiver is a part of.
	Grouped(whole saver.Saver) Putter
}

// Of is s as a Putter; nil if it is none.
func Of(s saver.Saver) Putter {
	if p, ok := s.(Putter); ok {
		return p
	}
	if g, ok := s.(Grouper); ok {
		return g.Grouped(s)
	}
	return nil
}
