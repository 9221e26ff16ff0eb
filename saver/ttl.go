package saver

import "time"

// NoTTL as the TTL of a thread keeps it for ever, whatever the default is.
const NoTTL time.Duration = -1

// SweepReport says what Sweep did.
type SweepReport struct {
	Expired int // threads deleted
}
