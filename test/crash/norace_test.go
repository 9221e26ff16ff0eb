//go:build !race

package crash

const (
	defaultStates = 5_200
	defaultFaults = 10
	defaultFlips  = 110_000
	defaultRot    = 60

	defaultSealedFaults = 4
	defaultSealedRot    = 25
	defaultVerifyBytes  = 25
	defaultVerifyStates = 500
	defaultSalvageBytes = 6
)
