package rules

import "time"

// Expired reports whether a thread last written at updated is over its ttl, or, if
// it has none, over the default.
func Expired(now, updated time.Time, ttl, byDefault time.Duration) bool {
	if ttl == 0 {
		ttl = byDefault
	}
	return ttl > 0 && now.Sub(updated) >= ttl
}

// ErasedID is greater than the id of any checkpoint: the Deleted.GreatestID of an
// erased thread, whose own ids are not kept. It is for implementations of Saver.
const ErasedID = "\xff\xff\xff\xff"
