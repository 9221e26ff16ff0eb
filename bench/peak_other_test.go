//go:build !linux

package bench

// peakRSS is not measured on this system.
func peakRSS() float64 { return 0 }
