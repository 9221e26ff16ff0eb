package disk

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/base/vfs/rot"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/enginetest"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
)

// erasing is a store whose threads are erased, and what must be in none of its files.
type erasing struct {
	*testing.T
	*Saver
	mem  *vfs.Mem
	inj  *faultfs.Injector
	rng  *rand.Rand
	ids  int // that were put
	seen map[string]int

	names   map[string]bool            // of threads that are erased, and were not begun anew
	lives   map[string]int             // of each thread, erasures and beginnings counted
	holders map[string]map[string]bool // by checkpoint id: the lives of threads that ever had it
	gone    map[string]bool            // lives that are erased
}

func newErasing(t *testing.T, seed uint64) *erasing {
	return &erasing{T: t, mem: vfs.NewMem(vfs.MemOptions{}), inj: faultfs.NewInjector(), rng: rand.New(rand.NewPCG(seed, 5)), seen: map[string]int{},
		names: map[string]bool{}, lives: map[string]int{}, holders: map[string]map[string]bool{}, gone: map[string]bool{}}
}

func (s *erasing) thread() string { return fmt.Sprintf("thread-%02d;", s.rng.IntN(30)) }

func (s *erasing) life(thread string) string { return fmt.Sprint(thread, s.lives[thread]) }

func (s *erasing) must(errs ...error) {
	s.Helper()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
}

// holds notes that a thread has a checkpoint, or may have.
func (s *erasing) holds(thread, id string) {
	if s.holders[id] == nil {
		s.holders[id] = map[string]bool{}
	}
	s.holders[id][s.life(thread)] = true
	delete(s.names, thread)
}

// change does something with a thread.
func (s *erasing) change() (err error) {
	thread := s.thread()
	switch op := s.rng.IntN(12); {
	case op == 0:
		return s.DeleteThread(s.Context(), thread)
	case op == 1:
		_, err = s.DeleteForRuns(s.Context(), []string{fmt.Sprint("run-", s.ids-s.rng.IntN(4))}, nil)
		return err
	case op < 4:
		src := s.thread()
		if err = s.CopyThread(s.Context(), src, thread); errors.Is(err, saver.ErrThreadExists) {
			return nil
		}
		from := src
		if err == nil {
			from = thread
		}
		for tup, err := range s.List(s.Context(), saver.Query{ThreadID: from}) {
			s.must(err)
			s.holds(thread, tup.Config.CheckpointID)
		}
		return err
	}
	s.ids++
	return s.put(thread, fmt.Sprintf("%06d-%06d;", s.ids-s.rng.IntN(30)+100, s.ids))
}

func (s *erasing) put(thread, id string) error {
	s.holds(thread, id)
	_, err := s.Put(s.Context(), saver.Config{ThreadID: thread}, saver.Checkpoint{V: 4, ID: id}, saver.Metadata{"run_id": fmt.Sprint("run-", s.ids)}, nil)
	return err
}

// victim is a thread that a listing would have, one of those that come first mostly.
func (s *erasing) victim() string {
	at := s.rng.IntN(4)
	for tup, err := range s.List(s.Context(), saver.Query{}) {
		s.must(err)
		if at--; at < 0 {
			return tup.Config.ThreadID
		}
	}
	return s.thread()
}

// delete is the commit of an erasure, which FinishErasures ends.
func (s *erasing) delete(thread string) {
	all, err := s.doomed(EraseRequest{Threads: []string{thread}})
	s.must(err, s.eraseBatch(s.Context(), all))
	s.names[thread] = true
	for i := range s.lives[thread] + 1 {
		s.gone[fmt.Sprint(thread, i)] = true
	}
	s.lives[thread]++
}

// erase erases a thread, in one of several ways.
func (s *erasing) erase(thread string) {
	view := func() *engine.View {
		v, err := s.e.View()
		s.must(err)
		return v
	}
	how := []string{"refused", "alone", "beside what reads all", "beside what loads what is kept", "in a listing", "beside Close"}[s.rng.IntN(6)]
	s.seen[how]++
	switch how {
	case "refused":
		s.refused(func() error { return s.Erase(s.Context(), thread) })
		return
	case "alone":
		s.delete(thread)
	case "beside what reads all":
		v := view()
		s.delete(thread)
		s.must(s.listAll(v, saver.Query{}, true, func(*index.Partition, *index.Entry) error { return nil }))
		v.Release()
	case "beside what loads what is kept":
		v := view()
		s.delete(thread)
		s.must(s.newest.load(s.e, v))
		v.Release()
	case "beside Close":
		s.newest.keep(s.e)
		s.delete(thread)
		s.newest.keep(s.e)
	case "in a listing":
		at := s.rng.IntN(3)
		for _, err := range s.List(s.Context(), saver.Query{Limit: 9}) {
			s.must(err)
			if at--; at == -1 {
				s.delete(thread)
			}
		}
	}
	s.must(s.FinishErasures(s.Context()))
	s.scan()
}

// refused makes a call while the log has no room. It may have nothing to do.
func (s *erasing) refused(call func() error) {
	s.Helper()
	s.inj.Set(faultfs.Rule{Op: faultfs.OpWriteAt, PathGlob: "*.log", Sticky: true, Err: syscall.ENOSPC})
	err := call()
	s.inj.Set()
	if err == nil {
		s.seen["nothing to refuse"]++
	} else if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, saver.ErrEraseUnfinished) {
		s.Fatal(err)
	}
}

// scan fails if a file has anything that was erased.
func (s *erasing) scan() {
	s.Helper()
	files := enginetest.Scan(s.T, s.mem, "store", nil)
	in := func(text string) (places []string) {
		for name, b := range files {
			if bytes.Contains(b, []byte(text)) {
				places = append(places, name)
			}
		}
		return places
	}
	for name := range s.names {
		if places := in(name); places != nil {
			s.Errorf("%s is in %v", name, places)
		}
	}
	for id, of := range s.holders {
		if erased := !slices.ContainsFunc(slices.Collect(maps.Keys(of)), func(life string) bool { return !s.gone[life] }); erased {
			if s.seen["ids erased"]++; in(id) != nil {
				s.Errorf("checkpoint %s of %v is in %v", id, of, in(id))
			}
		} else if s.seen["ids of living threads"]++; in(id) != nil {
			s.seen["ids found"]++
		}
	}
}

// TestNewestOfErasures: whatever is erased, copied, begun anew or refused, in whatever order with
// listings and Close, a listing has all that is living, and no file has anything that was erased.
func TestNewestOfErasures(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for seed := range uint64(8) {
		s := newErasing(t, seed)
		s.seen = seen
		for life := range 12 {
			s.Saver = keptStore(t, faultfs.New(s.mem, s.inj))
			listed := s.rng.IntN(3) == 0
			for range s.rng.IntN(60) {
				switch op := s.rng.IntN(16); {
				case op == 0:
					s.erase(s.victim())
				case op == 1:
					s.refused(s.change)
				case op == 2 && s.rng.IntN(4) == 0:
					s.must(s.Flush(t.Context()))
				case op == 3 && listed:
					s.must(s.sameListings(saver.Query{Limit: 1 + s.rng.IntN(40)}))
				default:
					s.must(s.change())
				}
			}
			if s.rng.IntN(4) > 0 {
				s.must(s.sameListings(saver.Query{Limit: 1 + s.rng.IntN(40)}))
			}
			if kept, err := s.e.Partition(layout.NewestPartition); err != nil || kept != nil {
				s.must(err)
				seen["kept"]++
			}
			s.must(s.Close())
			s.scan()
			if t.Failed() {
				t.Fatalf("seed %d, life %d", seed, life)
			}
		}
	}
	t.Log(seen)
	for _, what := range []string{"refused", "alone", "beside what reads all", "beside what loads what is kept", "in a listing", "beside Close", "kept", "ids erased", "ids found"} {
		if seen[what] < 10 {
			t.Errorf("%s: only %d times", what, seen[what])
		}
	}
}

// TestNewestOfARefusedCopy: Close keeps no id of an erased thread as one of a thread to which a copy of
// it was refused, and which was begun by the record of that number.
func TestNewestOfARefusedCopy(t *testing.T) {
	s := newErasing(t, 0)
	s.Saver = keptStore(t, faultfs.New(s.mem, s.inj))
	for i := range 5 {
		s.must(s.put(fmt.Sprintf("thread-%d;", i), fmt.Sprintf("id-%d;", i)))
	}
	s.must(s.put("victim;", "id-9;"))
	next := s.e.Index.LSN() + 1
	s.refused(func() error { return s.CopyThread(t.Context(), "victim;", "copy;") })
	s.must(s.put("copy;", "id-6;"))
	if copied, err := s.e.Partition(layout.ThreadKey("copy;")); err != nil || copied.Birth != next {
		t.Fatalf("the copy is of another record than %d: %+v, %v", next, copied, err)
	}
	s.delete("victim;")
	s.must(s.FinishErasures(t.Context()), s.Close())
	s.scan()
	if s.seen["ids erased"] != 1 || s.seen["ids found"] != 6 {
		t.Error(s.seen)
	}
}

// TestNewestKeptIsDamaged: a listing that goes past damage does not go by what Close has kept, a part
// of which the damage may have.
func TestNewestKeptIsDamaged(t *testing.T) {
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	// of are the entries of what was kept, and the parts of files that have them.
	of := func(s *Saver) (n int, floor bool, parts []index.Part) {
		t.Helper()
		kept, err := s.e.Partition(layout.NewestPartition)
		must(err)
		kept.Ascend("", func(*index.Entry) bool { n++; return true })
		parts, err = s.e.Index.Parts(kept.Family.ID)
		must(err)
		return n, kept.Get("") != nil, parts
	}
	mem := vfs.NewMem(vfs.MemOptions{})
	for life := range 4 {
		s := keptStore(t, mem)
		for i := range 4 {
			id := fmt.Sprint(life, i)
			_, err := s.Put(t.Context(), saver.Config{ThreadID: "thread-" + id}, saver.Checkpoint{V: 4, ID: id}, nil, nil)
			must(err)
		}
		must(s.sameListings(saver.Query{Limit: 5}), s.Flush(t.Context()), s.Close())
	}
	open := func(fs vfs.FS) *Saver {
		s, err := Open("store", Options{ReadOnly: true, AllowDamage: true, Simulation: Simulation{FS: fs, Inline: true}})
		must(err)
		return s
	}
	s := open(mem)
	all, _, parts := of(s)
	must(s.Close())
	partly := 0
	for _, part := range parts {
		fs := vfs.NewMemFrom(mem.Image(), vfs.MemOptions{})
		at := int64(part.Off) + int64(part.Len)/2
		if rot.FlipBit(fs, "store/"+base.SegmentFile.Name(part.File), at, 0) != nil {
			must(rot.FlipBit(fs, "store/"+base.ImageFile.Name(part.File), at, 0))
		}
		s := open(fs)
		if n, floor, _ := of(s); n < all && floor {
			partly++
		}
		must(s.sameListings(saver.Query{Limit: 5}), s.sameListings(saver.Query{Limit: 50}), s.Close())
	}
	if partly == 0 {
		t.Errorf("no damage of %d parts leaves some of %d entries", len(parts), all)
	}
}
