package engine

import (
	"slices"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

// unflushed names the families that have entries or values in the log, and the last
// record that put one of their partitions.
type unflushed struct {
	mu   sync.Mutex
	fams map[uint64]base.LSN
	// upTo is the last record of the images that were read at Open, until gather has found the families
	// of which only images have entries.
	upTo base.LSN
}

// reset forgets all families.
func (u *unflushed) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fams, u.upTo = map[uint64]base.LSN{}, 0
}

// add counts the families of partitions that record lsn put.
func (u *unflushed) add(partitions []*index.Partition, lsn base.LSN) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range partitions {
		u.fams[t.Family.ID] = max(lsn, u.fams[t.Family.ID])
	}
}

// expect makes room for n families.
func (u *unflushed) expect(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.fams) == 0 {
		u.fams = make(map[uint64]base.LSN, n)
	}
}

// note is add for one family.
func (u *unflushed) note(family uint64, lsn base.LSN) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fams[family] = max(lsn, u.fams[family])
}

// imaged notes that images hold entries of families up to record last. gather finds these families when
// a flush needs them: opening a store does not look at every family.
func (u *unflushed) imaged(last base.LSN) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.upTo = last
}

// gather adds the families with pages in images, if that was put off. If the tables cannot be read, the
// next call tries again.
func (u *unflushed) gather(v *View, isImage func(base.FileNum) bool) error {
	u.mu.Lock()
	last := u.upTo
	u.upTo = 0
	u.mu.Unlock()
	if last == 0 {
		return nil
	}
	images := map[base.FileNum]bool{}
	inImage := func(p index.Part) bool {
		is, ok := images[p.File]
		if !ok {
			is = isImage(p.File)
			images[p.File] = is
		}
		return is
	}
	err := v.Index.Families(func(id uint64, parts []index.Part) bool {
		if slices.ContainsFunc(parts, inImage) {
			u.note(id, last)
		}
		return true
	})
	if err != nil {
		u.imaged(last)
	}
	return err
}

// all returns the families.
func (u *unflushed) all() map[uint64]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make(map[uint64]bool, len(u.fams))
	for id := range u.fams {
		out[id] = true
	}
	return out
}

// forgetThrough forgets the families that no record after last changed: a flush has moved the log up to
// there. Families that a commit added meanwhile stay.
func (u *unflushed) forgetThrough(last base.LSN) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, lsn := range u.fams {
		if lsn <= last {
			delete(u.fams, id)
		}
	}
}
