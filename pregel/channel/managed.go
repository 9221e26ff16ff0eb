package channel

// Managed is a value the engine computes for every task from where the run
// stands. It is read like a channel, never written and never stored.
type Managed func(step, stop int) any

// IsLastStep is true in the last superstep the recursion limit allows.
func IsLastStep(step, stop int) any { return step == stop-1 }

// RemainingSteps is the number of supersteps the recursion limit leaves.
func RemainingSteps(step, stop int) any { return stop - step }
