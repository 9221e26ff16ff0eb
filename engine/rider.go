package engine

import "context"

// Rider is a change that is stored in the same transaction as a call that does not know of it: the
// commit made with a context of WithRider. A context with a Rider is for one call that makes one
// commit.
type Rider interface {
	// Partition returns the id of the partition that the Rider reads and changes.
	Partition() string
	// Before runs before the call's own function. Its error refuses the commit and is returned as it
	// is.
	Before(tx *Tx) error
	// After runs behind the call's own function, with the value given to Tx.Answer. Its error refuses
	// the commit.
	After(tx *Tx, answer any) error
	// Size is about how many bytes it adds to the record.
	Size() int64
}

type riderKey struct{}

// WithRider returns a context with which Commit and CommitWith store r, too.
func WithRider(ctx context.Context, r Rider) context.Context {
	return context.WithValue(ctx, riderKey{}, r)
}

// WithoutRider returns ctx without its Rider: for a commit that a call makes before the one which is to
// store the Rider.
func WithoutRider(ctx context.Context) context.Context {
	if _, ok := ctx.Value(riderKey{}).(Rider); !ok {
		return ctx
	}
	return context.WithValue(ctx, riderKey{}, nil)
}

// Answer sets the result that the caller will get if the commit succeeds, for the Rider. The last call
// counts.
func (tx *Tx) Answer(answer any) { tx.answer = answer }

// ride returns ids and fn with the Rider of ctx added, if there is one.
func ride(ctx context.Context, o *CommitOptions, ids []string, fn func(*Tx) error) ([]string, func(*Tx) error) {
	r, ok := ctx.Value(riderKey{}).(Rider)
	if !ok {
		return ids, fn
	}
	o.Size += r.Size()
	return append(ids[:len(ids):len(ids)], r.Partition()), func(tx *Tx) error {
		if err := r.Before(tx); err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		return r.After(tx, tx.answer)
	}
}
