package disk_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// readFS notes every read of a file.
type readFS struct {
	vfs.FS
	mu    sync.Mutex
	reads []readOf
}

// readOf is n bytes read at off.
type readOf struct {
	name string
	off  int64
	n    int
}

type readFile struct {
	vfs.File
	fs   *readFS
	name string
}

func (f *readFS) note(file vfs.File, err error, name string) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &readFile{file, f, filepath.Base(name)}, nil
}

func (f *readFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	return f.note(file, err, name)
}

func (f *readFS) OpenReadWrite(name string) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name)
	return f.note(file, err, name)
}

func (f *readFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	f.fs.reads = append(f.fs.reads, readOf{f.name, off, len(b)})
	f.fs.mu.Unlock()
	return f.File.ReadAt(b, off)
}

// take returns the reads noted since it was called last.
func (f *readFS) take() []readOf {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.reads
	f.reads = nil
	return out
}

// random is a value of n bytes that neither compresses nor patches.
func random(r *rand.Rand, n int) serde.Typed {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return serde.Typed{Kind: serde.KindBytes, Data: b}
}

// putRandom stores n checkpoints of two channels of size bytes, with a write each.
func putRandom(t *testing.T, s *disk.Saver, thread string, n, size int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), uint64(size)))
	cfg := saver.Config{ThreadID: thread}
	for i := range n {
		v := saver.StringVersion(fmt.Sprintf("%08d", i))
		versions := map[string]saver.Version{"a": v, "b": v}
		next, err := s.Put(t.Context(), cfg, saver.Checkpoint{V: 4, ID: fmt.Sprintf("%08d", i), TS: "2026-01-01T00:00:00+00:00", Versions: versions,
			Values: map[string]saver.Value{"a": saver.ValueTyped(random(r, size)), "b": saver.ValueTyped(random(r, size))}},
			saver.Metadata{"source": "loop", "step": i}, versions)
		if err == nil {
			err = s.PutWrites(t.Context(), next, []saver.Write{{Channel: "a", Value: saver.ValueTyped(random(r, size))}}, "task", "")
		}
		if err != nil {
			t.Fatal(err)
		}
		cfg = next
	}
}

// reopened is a store with threads of n checkpoints, closed and opened again,
// compacted if it is to be.
func reopened(t *testing.T, compact bool, threads, n, size int) (*readFS, *disk.Saver) {
	t.Helper()
	fsys := &readFS{FS: vfs.NewMem(vfs.MemOptions{})}
	sim := disk.Simulation{FS: fsys, Inline: true}
	s, err := disk.Open("store", disk.Options{ManualWork: true, Simulation: sim})
	if err != nil {
		t.Fatal(err)
	}
	for i := range threads {
		putRandom(t, s, fmt.Sprint("t", i), n, size)
	}
	if compact {
		err = s.Flush(t.Context())
		if err == nil {
			err = s.Compact(t.Context())
		}
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	s = openFor(t, "store", disk.Options{ManualWork: true}, sim)
	fsys.take()
	return fsys, s
}

// The newest tuple of a cold thread of a compacted store, with all its values, is
// two reads, of bytes that lie together: the directory, and before it the newest
// values. Which segment that is says a frame of the table of threads, which has been
// read: all threads here lie in one, and whoever asks first reads it.
func TestNewestTupleIsTwoReads(t *testing.T) {
	fsys, s := reopened(t, true, 20, 5, 2000)
	if _, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t0", CheckpointID: "none"}); err == nil {
		t.Fatal("there is no such checkpoint")
	}
	fsys.take()
	for i := 1; i < 20; i++ {
		tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: fmt.Sprint("t", i)})
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range tup.Checkpoint.Values {
			if typed, err := v.Typed(); err != nil || len(typed.Data) != 2000 {
				t.Fatalf("channel %s: %d bytes, %v", name, len(typed.Data), err)
			}
		}
		if _, err := tup.PendingWrites[0].Value.Typed(); err != nil {
			t.Fatal(err)
		}
		reads := fsys.take()
		if len(reads) != 2 || reads[0].name != reads[1].name || reads[1].off+int64(reads[1].n) != reads[0].off {
			t.Errorf("thread %d: %v", i, reads)
		}
	}
}

// The newest values of a cold thread are read once, as a rule: they enter the cache when
// they are asked for again. Whoever has them owns them.
func TestSecondReadIsKept(t *testing.T) {
	fsys, s := reopened(t, true, 1, 5, 2000)
	cfg := saver.Config{ThreadID: "t0"}
	var first map[string]string
	for n, want := range []int{1, 1, 0, 0} { // reads of the block
		tup, err := s.GetTuple(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for name, v := range tup.Checkpoint.Values {
			typed, err := v.Typed()
			if err != nil {
				t.Fatal(err)
			}
			got[name] = string(typed.Data)
			clear(append(typed.Data, "beyond"...))
			clear(typed.Data)
		}
		if first == nil {
			first = got
		}
		if len(got) != 2 || !maps.Equal(got, first) {
			t.Fatalf("read %d differs from the first, whose bytes were overwritten by their owner", n)
		}
		reads := slices.DeleteFunc(fsys.take(), func(r readOf) bool { return r.n < 4000 })
		if len(reads) != want {
			t.Errorf("read %d: %v, want %d of the block", n, reads, want)
		}
	}
}

// Whoever keeps tuples, and reads none of their values, keeps no bytes of them: what was
// read along goes with the next collection, and is read again when it is asked for.
func TestKeptTuplesHoldNoValues(t *testing.T) {
	const n = 100
	_, s := reopened(t, true, n, 1, 4000)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var kept []*saver.Tuple
	before := heap()
	for i := range n {
		tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: fmt.Sprint("t", i)})
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, tup)
	}
	if each := (heap() - before) / n; each > 8000 { // the thread and the tuple; its values and the write are 12,000
		t.Errorf("a tuple nobody reads values of holds %d bytes", each)
	}
	for _, tup := range kept {
		if v, err := tup.Checkpoint.Values["a"].Typed(); err != nil || len(v.Data) != 4000 {
			t.Fatalf("%d bytes, %v", len(v.Data), err)
		}
	}
}

// The values of one tuple may be read by many at once, each with bytes of its own.
func TestColdTupleIsReadByMany(t *testing.T) {
	_, s := reopened(t, true, 1, 5, 2000)
	tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t0"})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range tup.Checkpoint.Values {
		var got [8]serde.Typed
		var errs [8]error
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				if got[i], errs[i] = v.Typed(); i%2 == 0 {
					got[i], errs[i] = v.View()
				}
			})
		}
		wg.Wait()
		for i := range got {
			if errs[i] != nil || len(got[i].Data) != 2000 || !bytes.Equal(got[i].Data, got[0].Data) {
				t.Fatalf("channel %s, reader %d: %d bytes, %v", name, i, len(got[i].Data), errs[i])
			}
			if i%2 == 1 && &got[i].Data[0] == &got[(i+2)%8].Data[0] {
				t.Fatal("two callers own the same bytes")
			}
		}
	}
}

// A listing that leaves the values alone reads none of their bytes, from the log
// and from a compacted store; what it was not asked to read can be read afterwards.
func TestListingReadsNoValues(t *testing.T) {
	const n = 40
	for _, compact := range []bool{false, true} {
		for _, size := range []int{900, 70 << 10} {
			fsys, s := reopened(t, compact, 1, n, size)
			if _, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t0", CheckpointID: "none"}); err == nil {
				t.Fatal("there is no such checkpoint")
			}
			fsys.take() // the directory
			var tuples []*saver.Tuple
			for tup, err := range s.List(t.Context(), saver.Query{ThreadID: "t0"}) {
				if err != nil {
					t.Fatal(err)
				}
				tuples = append(tuples, tup)
			}
			read, blocks := 0, 0
			for _, r := range fsys.take() {
				if strings.HasSuffix(r.name, ".seg") {
					blocks++
				}
				read += r.n
			}
			// Records take less than 200 bytes each. The newest one shares its block
			// with the newest values, if they are small.
			most := n*200 + 1024
			if compact && size < 1000 {
				most += 3*size + 1024
			}
			if len(tuples) != n || read > most || compact && blocks != 2 {
				t.Errorf("compacted %v, values of %d bytes: %d tuples, %d bytes read in %d blocks; want at most %d in 2", compact, size, len(tuples), read, blocks, most)
			}
			for _, tup := range []*saver.Tuple{tuples[0], tuples[n-1], tuples[n/2]} {
				if typed, err := tup.Checkpoint.Values["a"].Typed(); err != nil || len(typed.Data) != size {
					t.Errorf("value of %s: %v", tup.Config.CheckpointID, err)
				}
			}
			if read := fsys.take(); len(read) == 0 {
				t.Error("values were read before they were asked for")
			}
		}
	}
}
