package vfs

import "runtime"

// Yield lets others have the processor that wait for one: goroutines, and on Linux
// threads too. A goroutine that computes for long keeps a thread on its processor, and
// one that wakes there, because its sync has ended, waits until the kernel's slice is
// over, which is milliseconds, even where another processor is idle. With nobody
// waiting it takes less than a microsecond.
func Yield() {
	runtime.Gosched()
	yieldOS()
}
