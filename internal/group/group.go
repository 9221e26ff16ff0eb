// Package group is how package pregel hands a saver several checkpoints at once. It is no
// part of a saver's interface: a saver that cannot do it is given one after the other.
package group

import (
	"context"

	"github.com/stele-go/stele/saver"
)

// Putter is a saver that can store several checkpoints at once.
type Putter interface {
	// PutGroup is PutRequest for each of reqs in order, at less cost. When one is refused,
	// nothing of those behind it is stored. A crash leaves the first few. It returns how many
	// are stored, and why the next one is not. Without an error these are one or more: what is
	// too much for one call is left to the next. If the error matches saver.ErrOutcomeUnknown,
	// those behind it may be stored as well, in order.
	PutGroup(ctx context.Context, reqs []saver.PutRequest) (int, error)
}

// OfDisk is filled in by package saver/disk. A disk.Saver has no such method itself, because
// those who embed one and change its PutRequest would get it as well, past their own.
var OfDisk func(s saver.Saver) Putter

// Of is s as a Putter; nil if it is none.
func Of(s saver.Saver) Putter {
	if p, ok := s.(Putter); ok {
		return p
	}
	if OfDisk == nil {
		return nil
	}
	return OfDisk(s)
}
