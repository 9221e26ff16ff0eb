package vfs

import "runtime"

// Yield gives the processor to goroutines that wait for one, and on Linux to threads too.
//
// A goroutine that computes for long keeps its processor. A thread that wakes on the same
// processor, because its sync has ended, then waits for the end of the kernel's time
// slice, which takes milliseconds, even if another processor is idle. When nobody waits,
// Yield takes less than a microsecond.
func Yield() {
	runtime.Gosched()
	yieldOS()
}
