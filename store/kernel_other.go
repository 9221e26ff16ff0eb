//go:build !amd64

package store

// dot is the inner product of two vectors of one length.
func dot(a, b []float32) float32 { return dotGeneric(a, b) }

// squaredDistance is that of two vectors of one length.
func squaredDistance(a, b []float32) float32 { return distanceGeneric(a, b) }

// canSketch tells whether comparing sketches is quicker than comparing vectors:
// not without instructions for many bytes at once.
func canSketch() bool { return false }

// codeProducts is codeProductsGeneric.
func codeProducts(query []int16, codes []int8, out []int32) { codeProductsGeneric(query, codes, out) }
