package disk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
)

func newestStore(t *testing.T, kept int) *Saver {
	t.Helper()
	s, err := Open("store", Options{ManualWork: true, MemoryBudget: 256 << 10, Simulation: Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.newest.kept, s.newest.made = kept, false
	return s
}

// change does something with one of a few threads.
func (s *Saver) change(rng *rand.Rand, n int) error {
	ctx := context.Background()
	thread := func() string { return fmt.Sprint("thread-", rng.IntN(40)) }
	switch op := rng.IntN(20); {
	case op == 0:
		return s.DeleteThread(ctx, thread())
	case op == 1:
		_, err := s.Prune(ctx, []string{thread()}, saver.KeepLatest)
		return err
	case op == 2:
		if err := s.CopyThread(ctx, thread(), fmt.Sprint("copy-", rng.IntN(9))); !errors.Is(err, saver.ErrThreadExists) {
			return err
		}
		return nil
	case op == 3:
		return s.DeleteThread(ctx, fmt.Sprint("copy-", rng.IntN(9)))
	}
	cfg := saver.Config{ThreadID: thread(), Namespace: []string{"", "", "sub", "a|\x00b"}[rng.IntN(4)]}
	id := fmt.Sprintf("%06d", n-rng.IntN(30)+100)
	if rng.IntN(9) == 0 {
		id = fmt.Sprintf("%06d", rng.IntN(100)) // of an old program
	}
	_, err := s.Put(ctx, cfg, saver.Checkpoint{V: 4, ID: id}, saver.Metadata{"n": n % 7}, nil)
	return err
}

// listed is what a listing visits in a view.
func listed(limit int, list func(visit func(*index.Partition, *index.Entry) error) error) (found []string, err error) {
	err = list(func(t *index.Partition, it *index.Entry) error {
		if found = append(found, fmt.Sprintf("%s %q", t.ID, it.Key)); len(found) == limit {
			return errStopped
		}
		return nil
	})
	if err == errStopped {
		err = nil
	}
	return found, err
}

// sameListings compares a listing of some checkpoints with one of all, on one view.
func (s *Saver) sameListings(q saver.Query) error {
	v, of, err := s.newest.viewed(s.e)
	if err != nil {
		return err
	}
	defer v.Release()
	got, err := listed(q.Limit, func(visit func(*index.Partition, *index.Entry) error) error { return s.listSome(v, q, of, visit) })
	if err != nil {
		return err
	}
	want, err := listed(q.Limit, func(visit func(*index.Partition, *index.Entry) error) error { return s.listAll(v, q, false, visit) })
	if err != nil || slices.Equal(got, want) {
		return err
	}
	return fmt.Errorf("%+v: lists\n%q, not\n%q", q, got, want)
}

func someQuery(rng *rand.Rand, n int) saver.Query {
	q := saver.Query{Limit: 1 + rng.IntN(12)}
	if rng.IntN(3) == 0 {
		sub := "sub"
		q.Namespace = &sub
	}
	if rng.IntN(3) == 0 {
		q.Before = fmt.Sprintf("%06d", rng.IntN(n+100))
	}
	return q
}

// TestNewestIsNewest: a listing of a few checkpoints over all threads is the beginning of the
// listing of all, whatever was put, copied, deleted and pruned, in whatever order of ids.
func TestNewestIsNewest(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := newestStore(t, 1+3*int(seed))
		for n := range 1500 {
			if err := s.change(rng, n); err != nil {
				t.Fatal(err)
			}
			if n%40 == 39 || seed == 3 && n > 1000 {
				if err := s.sameListings(someQuery(rng, n)); err != nil {
					t.Fatalf("seed %d, %d: %v", seed, n, err)
				}
			}
			if n%400 == 399 {
				if err := s.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestNewestBesideWriters is TestNewestIsNewest while others write.
func TestNewestBesideWriters(t *testing.T) {
	s := newestStore(t, 6)
	var writers sync.WaitGroup
	for g := range uint64(4) {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(g, 2))
			for n := range 600 {
				if err := s.change(rng, n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(9, 2))
	for range 400 {
		if err := s.sameListings(someQuery(rng, 600)); err != nil {
			t.Error(err)
			break
		}
	}
	writers.Wait()
}

// TestNewestForgets: a thread that a listing does not find is forgotten, unless a put of it has
// said its id and is not visible yet.
func TestNewestForgets(t *testing.T) {
	s := newestStore(t, 6)
	put := func() {
		t.Helper()
		if _, err := s.Put(t.Context(), saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: "1"}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	put()
	if err := s.sameListings(saver.Query{Limit: 1}); err != nil { // makes newest
		t.Fatal(err)
	}
	if err := s.DeleteThread(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	v, err := s.e.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	for _, again := range []bool{true, false} {
		if again {
			put() // which v does not show
		} else if err := errors.Join(s.DeleteThread(t.Context(), "t"), s.sameListings(saver.Query{Limit: 1})); err != nil {
			t.Fatal(err)
		}
		later, of, err := s.newest.viewedNow(s.e)
		if err != nil {
			t.Fatal(err)
		}
		later.Release()
		if _, err := listed(1, func(visit func(*index.Partition, *index.Entry) error) error {
			return s.listSome(v, saver.Query{Limit: 1}, of, visit)
		}); err != nil {
			t.Fatal(err)
		}
		if n := len(s.newest.bounds); (n == 1) != again {
			t.Errorf("put again: %t: %d threads are known", again, n)
		}
	}
}

// TestNewestOfItsView: a listing shows what its view does, though another one has forgotten it since.
func TestNewestOfItsView(t *testing.T) {
	s := newestStore(t, 6)
	for _, id := range []string{"a", "b"} {
		if _, err := s.Put(t.Context(), saver.Config{ThreadID: id}, saver.Checkpoint{V: 4, ID: "1"}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.sameListings(saver.Query{Limit: 1}); err != nil { // makes newest
		t.Fatal(err)
	}
	v, of, err := s.newest.viewed(s.e)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	if err := errors.Join(s.DeleteThread(t.Context(), "a"), s.sameListings(saver.Query{Limit: 9})); err != nil {
		t.Fatal(err)
	}
	if n := len(s.newest.bounds); n != 1 {
		t.Errorf("%d threads are known, want b alone", n)
	}
	got, err := listed(9, func(visit func(*index.Partition, *index.Entry) error) error {
		return s.listSome(v, saver.Query{Limit: 9}, of, visit)
	})
	if err != nil || len(got) != 2 {
		t.Errorf("%q, %v: want the checkpoints of a and b", got, err)
	}
}

// TestNewestBesideACopy: newest that is made of a view which does not show a copy has it all the same.
func TestNewestBesideACopy(t *testing.T) {
	s := newestStore(t, 6)
	if _, err := s.Put(t.Context(), saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: "1"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	v, of, err := s.newest.viewed(s.e)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CopyThread(t.Context(), "t", "copy"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 2} {
		got, err := listed(9, func(visit func(*index.Partition, *index.Entry) error) error {
			return s.listSome(v, saver.Query{Limit: 9}, of, visit)
		})
		if err != nil || len(got) != want || !s.newest.made {
			t.Errorf("%q, %v, made is %t, want %d checkpoints", got, err, s.newest.made, want)
		}
		v.Release()
		if v, of, err = s.newest.viewed(s.e); err != nil {
			t.Fatal(err)
		}
	}
	v.Release()
}

// TestNewestReadsFew: a listing of ten checkpoints over all threads comes across few more, however
// many there are, also after the newest threads are deleted; the first one alone reads all.
func TestNewestReadsFew(t *testing.T) {
	s := newestStore(t, newestKept)
	const many = 3 * newestKept
	put := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := s.Put(t.Context(), saver.Config{ThreadID: fmt.Sprint("t", i)}, saver.Checkpoint{V: 4, ID: fmt.Sprintf("%08d", i)}, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(0, many)
	work := func(first int) int64 {
		t.Helper()
		before, i := index.Visited.Load(), first
		for tup, err := range s.List(t.Context(), saver.Query{Limit: 10}) {
			if err != nil || tup.Config.CheckpointID != fmt.Sprintf("%08d", i) {
				t.Fatalf("%v, %v, not %d", tup, err, i)
			}
			i--
		}
		if i != first-10 {
			t.Fatalf("%d were listed", first-i)
		}
		return index.Visited.Load() - before
	}
	if n := work(many - 1); n < many {
		t.Errorf("the first listing came across %d items of %d", n, many)
	}
	if n := work(many - 1); n > 100 {
		t.Errorf("a listing came across %d items", n)
	}
	put(many, many+50)
	for i := many + 20; i < many+50; i++ {
		if err := s.DeleteThread(t.Context(), fmt.Sprint("t", i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if n := work(many + 19); n > 100 {
			t.Errorf("a listing behind deletions came across %d items", n)
		}
	}
	if n := len(s.newest.bounds); n > 2*newestKept {
		t.Errorf("%d threads are kept", n)
	}
}

// keptStore opens a store that keeps what is known of its newest threads, however few there are.
func keptStore(t *testing.T, fs vfs.FS) *Saver {
	t.Helper()
	s, err := Open("store", Options{ManualWork: true, Sync: SyncNever, Simulation: Simulation{FS: fs, Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	s.newest.kept, s.newest.least = 9, 3
	return s
}

// TestNewestIsKept: TestNewestIsNewest across stores that are closed, killed and opened again.
func TestNewestIsKept(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 3))
		fs := vfs.NewMem(vfs.MemOptions{})
		for life := range 30 {
			s := keptStore(t, fs)
			for n := range rng.IntN(60) {
				if err := s.change(rng, 60*life+n); err != nil {
					t.Fatal(err)
				}
				if rng.IntN(50) == 0 {
					if err := s.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if rng.IntN(20) == 0 {
					if err := s.sameListings(someQuery(rng, 60*life+n)); err != nil {
						t.Fatalf("seed %d, life %d: %v", seed, life, err)
					}
				}
			}
			if rng.IntN(3) == 0 {
				killed := vfs.NewMemFrom(fs.Image(), vfs.MemOptions{})
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				fs = killed
			} else if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestNewestKeptInCrashStates: whatever a power failure leaves of a Close, a listing is right.
func TestNewestKeptInCrashStates(t *testing.T) {
	fs, rng := crashfs.New(), rand.New(rand.NewPCG(1, 4))
	states := 0
	for life := range 3 {
		s := keptStore(t, fs)
		for n := range 40 {
			if err := s.change(rng, 40*life+n); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.sameListings(saver.Query{Limit: 5}); err != nil {
			t.Fatal(err)
		}
		from := fs.Len()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for cut := from; cut <= fs.Len(); cut++ {
			for st := range fs.States(cut, crashfs.Options{Seed: uint64(cut), Random: 1, MaxTorn: 1, MaxSingle: 1}) {
				states++
				d := keptStore(t, st.FS())
				if err := errors.Join(d.sameListings(saver.Query{Limit: 5}), d.sameListings(saver.Query{Limit: 50}), d.Close()); err != nil {
					t.Fatalf("cut %d, %s: %v", cut, st, err)
				}
			}
		}
	}
	if states < 20 {
		t.Errorf("only %d crash states", states)
	}
}

// TestNewestKeptReadsFew: the first listing of a few checkpoints of a store that was closed reads
// few threads, and after a kill those that were written to besides.
func TestNewestKeptReadsFew(t *testing.T) {
	fs := vfs.NewMem(vfs.MemOptions{})
	const many = 2000
	put := func(s *Saver, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if _, err := s.Put(t.Context(), saver.Config{ThreadID: fmt.Sprint("t", i)}, saver.Checkpoint{V: 4, ID: fmt.Sprintf("%08d", i)}, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := keptStore(t, fs)
	put(s, 0, many)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = keptStore(t, fs)
	put(s, many, many+20)
	killed := vfs.NewMemFrom(fs.Image(), vfs.MemOptions{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, fs := range map[string]vfs.FS{"closed": fs, "killed": killed} {
		s := keptStore(t, fs)
		before := index.Visited.Load()
		got, err := listed(5, func(visit func(*index.Partition, *index.Entry) error) error {
			v, of, err := s.newest.viewed(s.e)
			if err != nil {
				return err
			}
			defer v.Release()
			return s.listSome(v, saver.Query{Limit: 5}, of, visit)
		})
		if n := index.Visited.Load() - before; err != nil || len(got) != 5 || n > 100 {
			t.Errorf("%s: %q, %v: a listing came across %d items", name, got, err, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
