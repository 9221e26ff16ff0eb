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
