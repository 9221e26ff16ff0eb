package postgres

import (
	"time"

	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// Options configure a Saver. The zero value is ready for use.
type Options struct {
	// Schema has the tables. "" is the first schema of the search path, where LangGraph's
	// savers look as well.
	Schema string
	// Serializer encodes Go values and decodes stored ones. Nil is serde.Default(). Small
	// plain values and metadata are stored as JSON, which it does not see, unless it
	// encrypts: then values are not stored as JSON.
	Serializer serde.Serializer
	// Clock tells the time of writes and deletions. Nil is time.Now. The clocks of all
	// programs on one database should agree.
	Clock func() time.Time
	// Random gives the fractions of minted versions, floats in [0,1). It must be safe for
	// concurrent use. Nil is math/rand.
	Random func() float64
	// DeletedMemory is how long a deletion is remembered, so that a run that was under way
	// does not bring the thread back in pieces. Zero is 30 days, negative not at all.
	DeletedMemory time.Duration
	// DefaultTTL is how long a thread lives after its last write, if SetTTL does not say
	// otherwise; 0 means for ever. Sweep deletes what is over it. A thread that sleeps longer, or waits for a signal or
	// a child for longer, goes too: give it saver.NoTTL.
	DefaultTTL time.Duration
	// StatementTimeout bounds each statement on the server, waiting for a lock included.
	// Zero is 30 seconds, negative the server's own setting. A call that is over it fails
	// with context.DeadlineExceeded, and has written nothing.
	//
	// A server that is silent bounds nothing. So each answer, with its data, is waited for half as
	// long again, and at least a second longer, where statements are sent at once for the time of
	// each; a connection, too, for each host. Then the connection is closed, and the call tried again,
	// settled, or failed with context.DeadlineExceeded, as RetryTime says; what may have been written
	// is saver.ErrOutcomeUnknown. If StatementTimeout is negative, only the context of a call bounds
	// its wait for answers. Whatever it is, only the context bounds the wait for a connection that
	// other calls use.
	StatementTimeout time.Duration
	// RetryTime is how long a call is tried again while the server cannot be reached, or
	// rolls it back for a reason that passes: no try begins later. A call whose answer was lost is
	// settled for as long at most. The end of its context ends it earlier. Zero is 15 seconds,
	// negative is not at all.
	RetryTime time.Duration
	// LeaseTime is how long a thread stays owned after its owner died; see Saver.Own. Zero
	// is 15 seconds.
	LeaseTime time.Duration
}

func (o Options) withDefaults() Options {
	if o.Serializer == nil {
		o.Serializer = serde.Default()
	}
	if o.DeletedMemory == 0 {
		o.DeletedMemory = rules.DefaultDeletedMemory
	}
	if o.LeaseTime == 0 {
		o.LeaseTime = 15 * time.Second
	}
	return o
}

// shared are the options of every call; package pgdb has their defaults.
func (o Options) shared() pgdb.Options {
	return pgdb.Options{Schema: o.Schema, Clock: o.Clock, StatementTimeout: o.StatementTimeout, RetryTime: o.RetryTime}
}
