package engine

import (
	"context"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// cutLog ends the current log file, and returns a view of the store as the finished files
// left it: steps 1 to 4 at flusher.
func (f *flusher) cutLog(ctx context.Context) (*View, error) {
	f.patchFloor.Store(noBase) // before arm: see flusher
	f.cut.arm()
	defer f.cut.disarm()
	if err := f.log.Rotate(ctx); err != nil {
		f.patchFloor.Store(uint64(f.Index.LSN()) + 1)
		return nil, err
	}
	v := f.workView(f.ViewTombstones)
	if before, ok := f.cut.take(); ok {
		v.Index = before
	} else {
		f.onCut(v.LSN()) // unless a file is begun right now, before anybody knows: then it is left out
	}
	f.patchFloor.Store(uint64(v.LSN()) + 1)
	return v, nil
}

// cutView takes a view of the index between the last record of one log file and the first of the next.
// It takes the view at the first file begun while it is armed that may lie behind the cut.
type cutView struct {
	mu    sync.Mutex
	armed bool
	v     *index.View
}

func (s *cutView) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.v = true, nil
}

func (s *cutView) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.v = false, nil
}

// begun is called on the committer when a file is begun. patches is how many its first batch
// holds; with any, the cut must not lie before it. It reports whether it took the view.
func (s *cutView) begun(ix *index.Index, patches int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.armed || s.v != nil || patches > 0 {
		return false
	}
	v := ix.ViewTombstones()
	s.v = &v
	return true
}

func (s *cutView) take() (index.View, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.v == nil {
		return index.View{}, false
	}
	return *s.v, true
}

// finishedLogs returns the log files that hold only records up to last.
func finishedLogs(st snapshot.State, last base.LSN) ([]base.FileNum, map[base.FileNum]bool) {
	var nums []base.FileNum
	set := map[base.FileNum]bool{}
	for _, l := range st.Logs {
		if l.BaseLSN <= last {
			nums = append(nums, l.Num)
			set[l.Num] = true
		}
	}
	return nums, set
}

// noBase is the patchFloor under which no value may be a base.
const noBase = uint64(base.MaxLSN)
