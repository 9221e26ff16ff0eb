package replica

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket"
)

// Errors to match with errors.Is. Those of the bucket, of package fault and of contexts pass
// through as well.
var (
	// ErrFenced is fault.ErrFenced.
	ErrFenced = fault.ErrFenced
	// ErrAway: the bucket gave no answer, or none that says what happened. The same may succeed later.
	ErrAway = errors.New("the bucket does not answer")
	// ErrLeased: somebody has the lease, or has just taken it.
	ErrLeased = errors.New("another leader has the lease; wait until it ends")
	// ErrDiverged: the local records and the lineage are different from some LSN on. What
	// is local alone is kept aside, and never merged.
	ErrDiverged = errors.New("the local records are not those of the bucket; set them aside, and restore from a point")
	// ErrSeeding: the bucket has no complete point yet, so only the directory that seeds
	// it can lead.
	ErrSeeding = errors.New("the bucket has no complete point yet; only the directory that began it can lead")
	// ErrLosesTail: the last leader acknowledged what the bucket may not have, and the
	// caller did not say that it may be lost.
	ErrLosesTail = errors.New("a take-over may lose what the last leader acknowledged; start that one again, or accept the loss")
	// ErrPointGone: what the reader needs was deleted, or may be at any moment, because
	// the floor is above it.
	ErrPointGone = errors.New("the floor of the bucket is above it; restore from a newer point")
	// ErrFileGone: retention has deleted a file that a point should have, or may do so yet.
	ErrFileGone = errors.New("retention has deleted the file; store it under another name")
	// ErrBacklog: too much waits for the bucket. Nothing was taken.
	ErrBacklog = errors.New("too much waits for the bucket; wait")
	// ErrNoLineage: there is no HEAD in the bucket.
	ErrNoLineage = errors.New("the bucket has no lineage; begin one, or name another bucket")
	// ErrNotEmpty: there is a lineage in the bucket, or a part of one.
	ErrNotEmpty = errors.New("the bucket holds a lineage, or what is left of one; name an empty one")
	// ErrOtherStore: the bucket belongs to another store.
	ErrOtherStore = errors.New("the bucket belongs to another store")
)

func otherStore(name string, found, want uint64) error {
	return fmt.Errorf("%s: %w: to %016x, this one is %016x", name, ErrOtherStore, found, want)
}

func diverged(lsn base.LSN, why string) error {
	return fmt.Errorf("%w: behind record %d %s", ErrDiverged, lsn, why)
}

// Unanswered makes the error of a call of the bucket match ErrAway, unless the bucket has answered. nil stays nil.
func Unanswered(err error) error {
	for _, answer := range []error{bucket.ErrNotFound, bucket.ErrNotModified, bucket.ErrCondition, bucket.ErrRefused, bucket.ErrUnfit} {
		if err == nil || errors.Is(err, answer) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// gone is the error for an object that HEAD says is there: HEAD has changed since.
func gone(err error) error {
	if errors.Is(err, bucket.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrPointGone, err)
	}
	return err
}
