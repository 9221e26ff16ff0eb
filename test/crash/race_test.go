//go:build race

package crash

// The race detector makes all of this ten to twenty times slower, and what it
// finds does not depend on the number of states: every kind of state is enough.
const (
	defaultStates = 600
	defaultFaults = 2
	defaultFlips  = 3_000
	defaultRot    = 4

	defaultSealedFaults = 1
	defaultSealedRot    = 2
	defaultVerifyBytes  = 1
	defaultVerifyStates = 100
	defaultSalvageBytes = 1
)
