package store

import "golang.org/x/sys/cpu"

// hasAVX2 tells whether the processor has the instructions of kernel_amd64.s.
var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// dotAVX2 is the inner product of n floats, n a multiple of eight.
//
//go:noescape
func dotAVX2(a, b *float32, n int) float32

// distanceAVX2 is the squared distance of n floats, n a multiple of eight.
//
//go:noescape
func distanceAVX2(a, b *float32, n int) float32

// codeProductsAVX2 writes the inner products of the query and of rows rows, stride
// codes each, to out. stride is a multiple of 32.
//
//go:noescape
func codeProductsAVX2(query *int16, codes *int8, stride, rows int, out *int32)

// dot is the inner product of two vectors of one length.
func dot(a, b []float32) float32 {
	n := len(a) &^ 7
	if !hasAVX2 || n == 0 {
		return dotGeneric(a, b)
	}
	b = b[:len(a)]
	return dotAVX2(&a[0], &b[0], n) + dotGeneric(a[n:], b[n:])
}

// squaredDistance is that of two vectors of one length.
func squaredDistance(a, b []float32) float32 {
	n := len(a) &^ 7
	if !hasAVX2 || n == 0 {
		return distanceGeneric(a, b)
	}
	b = b[:len(a)]
	return distanceAVX2(&a[0], &b[0], n) + distanceGeneric(a[n:], b[n:])
}

// canSketch tells whether comparing sketches is quicker than comparing vectors.
func canSketch() bool { return hasAVX2 }

// codeProducts writes the inner products of the query and each row to out, which
// has room for them.
func codeProducts(query []int16, codes []int8, out []int32) {
	n := len(codes) / len(query)
	if n == 0 {
		return
	}
	_ = out[n-1]
	codeProductsAVX2(&query[0], &codes[0], len(query), n, &out[0])
}
