package index

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/base"
)

// heldStore is an index whose values all lie in one file, which moves: who moves it tells all
// families in memory, so that one that nobody finds is one that reads of a file that is gone.
type heldStore struct {
	*testing.T
	ix *Index

	mu    sync.RWMutex // held while pages are read, a record is applied, or the file moves
	file  base.FileNum
	pages map[string][]*Entry // of a life of a partition
}

func (s *heldStore) page(p *Partition) string { return fmt.Sprint(p.ID, " ", p.Birth) }

func (s *heldStore) places(entries []*Entry) []ValueLoc {
	var values []ValueLoc
	for _, it := range entries {
		values = append(values, ValueLoc{Ref: Ref{LSN: it.LSN}, Loc: Loc{File: s.file, Len: 1}})
	}
	slices.SortFunc(values, func(a, b ValueLoc) int { return a.Ref.Compare(b.Ref) })
	return values
}

// load returns a partition in memory, or nil.
func (s *heldStore) load(id string) *Partition {
	for {
		p, err := s.ix.Partition(id)
		if err != nil {
			s.Error(err)
		}
		if p == nil || !p.Cold() {
			return p
		}
		s.mu.RLock()
		entries := slices.DeleteFunc(slices.Clone(s.pages[s.page(p)]), func(it *Entry) bool { return it.LSN > p.LSN })
		p.Family.AddMissing(s.places(entries), func(f base.FileNum) bool { return f == s.file })
		s.mu.RUnlock()
		if loaded := p.Loaded(entries, 0); s.ix.Swap(p, loaded) {
			return loaded
		}
	}
}

// check looks for the values of a partition.
func (s *heldStore) check(p *Partition) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if f := s.ix.HeldFamily(p.Family.ID); f != p.Family {
		s.Errorf("who asks for family %d of %q gets another", p.Family.ID, p.ID)
	}
	p.Ascend("", func(it *Entry) bool {
		l, ok := p.Family.Loc(Ref{LSN: it.LSN})
		if !ok || l.File != s.file {
			s.Errorf("value %d of %q lies in file %d, %t; all are in %d", it.LSN, p.ID, l.File, ok, s.file)
		}
		return ok && l.File == s.file
	})
}

// move moves all values to another file.
func (s *heldStore) move() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file++
	told := map[*Family]bool{}
	for _, f := range s.ix.Held() {
		if told[f] {
			s.Errorf("family %d is listed twice", f.ID)
		}
		told[f] = true
		f.Relocate(func(_ Ref, l Loc) (Loc, bool) { l.File = s.file; return l, true })
	}
}

// change makes one change at random, or an image.
func (s *heldStore) change(rng *rand.Rand, lsn base.LSN) {
	id, other := heldID(rng), heldID(rng)
	p, c := s.load(id), Change{LSN: lsn}
	switch what := rng.IntN(10); {
	case what == 0:
		v, dirty := s.ix.ViewDirty()
		var b TableBuilder
		if err := v.Rows("", func(r *Row, _ *Partition) bool { b.AddPartition(*r); return true }); err != nil {
			s.Error(err)
		}
		s.ix.Install(b.Done(), true, v.LSN, dirty)
		return
	case what == 1 && p != nil:
		c.Remove = []string{id}
		s.ix.Apply(c)
		return
	case what <= 3 && p != nil && id != other: // also in the place of another partition, or of the original
		s.load(other)
		p = p.Forked(other, lsn, lsn, 0)
		if rng.IntN(3) == 0 {
			c.Remove = []string{id}
		}
	case p == nil:
		p = NewPartition(id, NewFamily(uint64(lsn)<<16), lsn)
	}
	it := &Entry{Key: fmt.Sprint(rng.IntN(50)), LSN: lsn, Slots: PackSlots([]Slot{{Ref: Ref{LSN: lsn}}})}
	p = p.With([]*Entry{it}, lsn, 0)
	c.Put = []*Partition{p}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[s.page(p)] = nil
	p.Entries(0, func(it *Entry) { s.pages[s.page(p)] = append(s.pages[s.page(p)], it) })
	p.Family.Add(s.places([]*Entry{it}))
	s.ix.Apply(c)
}

func heldID(rng *rand.Rand) string { return fmt.Sprint("p", rng.IntN(24)) }

// TestFamiliesBesideEverything: whatever is put, copied, removed, evicted and loaded, who reads
// hears where values went, and the index holds what is in it, as often as it is.
func TestFamiliesBesideEverything(t *testing.T) {
	for seed, budget := range []int64{0, 6000, 12_000} {
		s := &heldStore{T: t, ix: New(budget), file: 1, pages: map[string][]*Entry{}}
		done := make(chan struct{})
		var beside sync.WaitGroup
		goOn := func(fn func()) {
			beside.Go(func() {
				for !t.Failed() {
					select {
					case <-done:
						return
					default:
						fn()
					}
				}
			})
		}
		for n := range 2 {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
			var held [6]*Partition
			goOn(func() {
				held[rng.IntN(len(held))] = s.load(heldID(rng))
				for _, p := range held {
					if p != nil {
						s.check(p)
					}
				}
			})
		}
		goOn(s.move)
		goOn(func() {
			s.ix.KeepFamilies(0)
			runtime.GC()
			s.ix.ReleaseFamilies()
			runtime.GC()
		})
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		for lsn := range base.LSN(depth(2000)) {
			s.change(rng, lsn+1)
		}
		close(done)
		beside.Wait()
		s.checkCounts()
	}
}

// checkCounts compares how often families are held with what is there to hold them.
func (s *heldStore) checkCounts() {
	want := map[*Family]int{}
	s.ix.partitions.Ascend(func(p *Partition) bool {
		if !p.removed {
			want[p.Family]++
		}
		return true
	})
	for _, f := range s.ix.fams.fresh {
		want[f]++
	}
	for f, n := range want {
		if f.holds != n || s.ix.fams.held[f.ID] != f {
			s.Errorf("family %d is held %d times, want %d", f.ID, f.holds, n)
		}
	}
	if n := len(s.ix.fams.held); n != len(want) {
		s.Errorf("%d families are held, want %d", n, len(want))
	}
	if noEntries.Len() != 0 {
		s.Error("the tree of partitions without entries has some")
	}
}
