package engine

import "sync"

// flights lets concurrent misses of one block read it once.
type flights struct {
	mu sync.Mutex
	m  map[blockKey]*flight
}

// flight is a read in progress. The block may be read once done is closed; it is nil
// if the read failed.
type flight struct {
	done    chan struct{} // made by the first who waits; guarded by the lock of flights
	block   []byte
	waiters int // guarded by the lock of flights
}

func newFlights() *flights { return &flights{m: map[blockKey]*flight{}} }

// read returns what fn reads for key, or what another call is reading already. Each
// caller that meets a failure tries for itself, so that the error is its own. Shared
// says that other callers hold the block too.
func (f *flights) read(key blockKey, fn func() ([]byte, error)) (block []byte, shared bool, err error) {
	f.mu.Lock()
	if fl := f.m[key]; fl != nil {
		if fl.waiters++; fl.done == nil {
			fl.done = make(chan struct{})
		}
		done := fl.done
		f.mu.Unlock()
		<-done
		if fl.block != nil {
			return fl.block, true, nil
		}
		block, err = fn()
		return block, false, err
	}
	fl := new(flight)
	f.m[key] = fl
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.m, key)
		shared = fl.waiters > 0
		f.mu.Unlock()
		if shared {
			close(fl.done)
		}
	}()
	if block, err = fn(); err == nil {
		fl.block = block
	}
	return block, false, err
}
