package engine

import (
	"fmt"
	"sync/atomic"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

// View is the store at one moment: later commits, deletions and compaction do not
// reach it. It keeps files from being removed; release it.
type View struct {
	s        *Store
	Index    index.View
	epoch    uint64
	counted  bool // as a call in progress
	work     bool // of a flush or compaction
	released atomic.Bool
}

// View returns the store as it is now.
func (s *Store) View() (*View, error) {
	if err := s.EnterToRead(); err != nil {
		return nil, err
	}
	v := s.ViewWithin()
	v.counted = true
	return v, nil
}

// ViewWithin returns a view for a call that has entered the store, so that Close waits for it anyway.
func (s *Store) ViewWithin() *View {
	// Pin before reading the index: a file that the view's families name must not be removed in
	// between.
	epoch := s.Files.pin()
	return &View{s: s, Index: s.Index.View(), epoch: epoch}
}

// workView returns a view for a flush or a compaction, which needs no place that another one of them
// makes a family forget.
func (s *Store) workView(make func() *View) *View {
	s.workViews.Add(1)
	v := make()
	v.work = true
	return v
}

// otherViews reports whether there are views besides those of flushes and compactions.
func (s *Store) otherViews() bool { return s.Files.viewCount() > int(s.workViews.Load()) }

// ViewTombstones is ViewWithin for a view that also has the tombstones.
func (s *Store) ViewTombstones() *View {
	epoch := s.Files.pin()
	return &View{s: s, Index: s.Index.ViewTombstones(), epoch: epoch}
}

// viewDirty returns a view, and what changed since the last image.
func (s *Store) viewDirty() (*View, index.Dirty) {
	epoch := s.Files.pin()
	iv, dirty := s.Index.ViewDirty()
	return &View{s: s, Index: iv, epoch: epoch}, dirty
}

// Release ends the view, so that files that only it needs are removed. It may be called twice.
func (v *View) Release() {
	if v.released.CompareAndSwap(false, true) {
		v.s.Files.unpin(v.epoch)
		if v.work {
			v.s.workViews.Add(-1)
		}
		if v.counted {
			v.s.Leave()
		}
	}
}

// loadFamily makes every one of these partitions of a family readable.
func (v *View) loadFamily(partitions []*index.Partition) error {
	return v.s.loadFamily(partitions, v)
}

// LSN is the last commit the view shows.
func (v *View) LSN() base.LSN { return v.Index.LSN }

// Partition returns a partition as it was, loaded, or nil.
func (v *View) Partition(id string) (*index.Partition, error) {
	t, err := v.Index.Partition(id)
	if err != nil {
		return nil, fmt.Errorf("look up partition %q: %w", id, err)
	}
	if t == nil {
		return nil, nil
	}
	return v.Load(t)
}

// Ascend calls fn for the partitions from id on, in order, until it returns false.
// Partitions may be cold; Load makes one readable. An error is that of reading what the
// index has on disk; fn has seen the partitions before that, and none behind it.
func (v *View) Ascend(from string, fn func(*index.Partition) bool) error {
	return v.Index.Ascend(from, fn)
}

// Load returns t with its entries in memory.
func (v *View) Load(t *index.Partition) (*index.Partition, error) {
	if !t.Cold() {
		return t, nil
	}
	loaded, _, err := v.s.load(t, v)
	return loaded, err
}
