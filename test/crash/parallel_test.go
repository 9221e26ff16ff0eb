package crash

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// together runs work on as many goroutines as there are processors, and returns
// the first error. failed tells work that another one met an error.
func together(work func(failed func() bool) error) error {
	var first atomic.Pointer[error]
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			if err := work(func() bool { return first.Load() != nil }); err != nil {
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

// parallel calls do for every element, some at once, until one returns an error.
func parallel[T any](list []T, do func(T) error) error {
	var next atomic.Int64
	return together(func(failed func() bool) error {
		for !failed() {
			i := int(next.Add(1)) - 1
			if i >= len(list) {
				return nil
			}
			if err := do(list[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
