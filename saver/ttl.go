package saver

import (
	"context"
	"time"
)

// NoTTL as the TTL of a thread keeps it for ever, whatever the default is.
const NoTTL time.Duration = -1

// SweepReport says what Sweep did.
type SweepReport struct {
	Expired int // threads deleted
}

// Expirer deletes threads that nobody has written to for long.
//
// A thread expires when its TTL has passed since its last write, of a checkpoint or
// of pending writes; removing history, and reading, is no write. An expired thread
// is there until a sweep comes, and is then deleted as DeleteThread does it, and
// remembered. Time is the saver's clock, which stamps the writes as well: if it is
// set back, threads live longer by as much; if it is set forward, they expire as if
// that time had passed.
type Expirer interface {
	// SetTTL gives a thread a TTL of its own; 0 gives it the default again, NoTTL
	// none at all. It lasts as long as the thread; a copy begins with the default.
	// Other negative ones are an InvalidError, a thread that holds nothing is
	// ErrNotFound.
	SetTTL(ctx context.Context, threadID string, ttl time.Duration) error
	// Sweep deletes the threads that have expired. A crash, or the end of ctx, leaves
	// some of them to the next sweep.
	Sweep(ctx context.Context) (SweepReport, error)
}
