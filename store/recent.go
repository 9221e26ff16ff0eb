package store

import (
	"bytes"
	"maps"
	"sync"

	"github.com/stele-go/stele/base"
)

const (
	// recentMost and recentBytes bound recent: how many values it has, and how many bytes of one.
	recentMost  = 1024
	recentBytes = 4 << 10
)

// recent has small values that were read, as long as their items stay, so that reading one again need
// not read and decode it. They are texts and bytes only, and share no memory with values of callers.
type recent struct {
	mu sync.Mutex
	by map[address]recentValue
}

type recentValue struct {
	lsn   base.LSN // of the item
	value map[string]any
}

// get is a copy of the value of an item; nil if it is not known.
func (r *recent) get(at address, lsn base.LSN) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.by[at]; v.lsn == lsn {
		return cloneFlat(v.value)
	}
	return nil
}

// put remembers the value of an item.
func (r *recent) put(at address, lsn base.LSN, value map[string]any) {
	size := 0
	for name, v := range value {
		switch x := v.(type) {
		case string:
			size += len(x)
		case []byte:
			size += len(x)
		default:
			return
		}
		if size += len(name); size > recentBytes {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil || len(r.by) >= recentMost {
		r.by = map[address]recentValue{}
	}
	r.by[at] = recentValue{lsn, cloneFlat(value)}
}

// cloneFlat is a copy of a value of texts and bytes.
func cloneFlat(value map[string]any) map[string]any {
	out := maps.Clone(value)
	for name, v := range out {
		if b, ok := v.([]byte); ok {
			out[name] = bytes.Clone(b)
		}
	}
	return out
}
