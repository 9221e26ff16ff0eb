//go:build !amd64

package store

// dot is the inner product of two vectors of one length.
func dot(a, b []float32) float32 { return dotGeneric(a, b) }

// squaredDistance is that of two vectors of one length.
func squaredDistance(a, b []float32) float32 { return distanceGeneric(a, b) }
