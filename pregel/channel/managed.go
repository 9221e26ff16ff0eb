package channel

// Managed is a value that the engine computes for every task, from the number of its
// superstep and the limit. It is read like a channel, but never written or stored.
type Managed func(step, stop int) any

// IsLastStep is true in the last superstep that the recursion limit allows.
func IsLastStep(step, stop int) any { return step == stop-1 }

// RemainingSteps is the number of supersteps that the recursion limit still allows.
func RemainingSteps(step, stop int) any { return stop - step }
