package index

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/internal/base"
)

// depth scales the tests that run for a while: INDEX_STEPS changes.
func depth(def int) int {
	if n, err := strconv.Atoi(os.Getenv("INDEX_STEPS")); err == nil {
		return n
	}
	return def
}

// checkView compares a view, or the index through one, with the threads it must
// show.
func checkView(t *rapid.T, what string, v View, lsn base.LSN, want map[string]Row) {
	if v.LSN != lsn || v.Len() != len(want) {
		t.Fatalf("%s: record %d with %d threads, want %d with %d", what, v.LSN, v.Len(), lsn, len(want))
	}
	from := rapid.SampledFrom([]string{"", "a", "b", "bb", "z"}).Draw(t, "from")
	var ids []string
	retried(t, func() error {
		ids = nil
		return v.Ascend(from, func(th *Thread) bool {
			if want[th.ID] != RowOf(th) {
				t.Fatalf("%s: thread %+v, want %+v", what, RowOf(th), want[th.ID])
			}
			ids = append(ids, th.ID)
			return true
		})
	})
	wantIDs := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(id string) bool { return id < from })
	if !slices.Equal(ids, wantIDs) {
		t.Fatalf("%s: threads %q, want %q", what, ids, wantIDs)
	}
	for _, id := range []string{"a", "bb", "c"} {
		sameRow(t, what, v.Thread, want, id)
	}
}

// errFlaky is the answer of a disk that is read for the first time.
var errFlaky = errors.New("flaky")

// retried calls fn until it does not fail with errFlaky.
func retried(t *rapid.T, fn func() error) {
	for range 64 {
		if err := fn(); err == nil {
			return
		} else if !errors.Is(err, errFlaky) {
			t.Fatal(err)
		}
	}
	t.Fatal("reading fails without end")
}

// flakyDisk fails the first attempt to read each chunk and each list.
type flakyDisk struct {
	disk
	tried map[string]bool
}

func (d *flakyDisk) try(key string) error {
	if d.tried[key] {
		return nil
	}
	d.tried[key] = true
	return errFlaky
}

func (d *flakyDisk) Chunk(families bool, at *Stored) (Chunk, error) {
	if err := d.try(fmt.Sprint("chunk", families, at.Off)); err != nil {
		return Chunk{}, err
	}
	return d.disk.Chunk(families, at)
}

func (d *flakyDisk) List(families bool, at *Stored, end string) ([]Stored, error) {
	if err := d.try(fmt.Sprint("list", families, at.Off)); err != nil {
		return nil, err
	}
	return d.disk.List(families, at, end)
}

// flaky is a table like another, on a disk where the first attempt to read fails.
func flaky(t *rapid.T, from *Table) *Table {
	threads, families := from.Chunks()
	d := &flakyDisk{disk{threads: shelfOf(threads, 3, 2), families: shelfOf(families, 3, 2)}, map[string]bool{}}
	for range rapid.IntRange(0, 2).Draw(t, "lists") {
		d.threads.cover(2)
		d.families.cover(2)
	}
	to, err := TableAt(d.threads.top, d.families.top, d)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// sameRow compares a thread, or that there is none, with what the model has.
func sameRow(t *rapid.T, what string, look func(string) (*Thread, error), want map[string]Row, id string) {
	row, exists := want[id]
	var th *Thread
	retried(t, func() (err error) { th, err = look(id); return err })
	if (th != nil) != exists || exists && RowOf(th) != row {
		t.Fatalf("%s: thread %q is %+v, want %+v", what, id, th, row)
	}
}

type heldView struct {
	view View
	lsn  base.LSN
	want map[string]Row
}

// indexModel is the index as plain maps.
type indexModel struct {
	ix      *Index
	lsn     base.LSN
	threads map[string]Row
	memos   map[string]Memo
	parts   map[uint64][]Part // of the families the tables know
	dirty   Dirty
	held    []heldView
}

var threadIDs = []string{"a", "aa", "b", "bb", "c"}

func (m *indexModel) apply(t *rapid.T) {
	m.lsn++
	c := Change{LSN: m.lsn}
	for _, id := range threadIDs {
		switch old, exists := m.threads[id]; rapid.IntRange(0, 5).Draw(t, "change to "+id) {
		case 0:
			th := NewThread(id, NewFamily(uint64(m.lsn)<<16), m.lsn).With([]*Item{{Key: "k", LSN: m.lsn, Flags: FlagHead}}, m.lsn, -int64(m.lsn))
			if !rapid.Bool().Draw(t, "loaded") {
				th.tree = nil
			}
			c.Put = append(c.Put, th)
			m.dirty.Families[th.Family.ID] = true
			m.dirty.Threads[id] = true
			m.threads[id] = RowOf(th)
		case 1:
			c.Remove = append(c.Remove, id)
			if exists {
				m.dirty.Families[old.Family] = true
				m.dirty.Threads[id] = true
			}
			delete(m.threads, id)
			memo := Memo{ID: id, LSN: m.lsn, At: int64(m.lsn)}
			if rapid.Bool().Draw(t, "remember for good") {
				memo.Data = []byte(id)
			}
			c.Remember = append(c.Remember, memo)
			m.memos[id], m.dirty.Memos[id] = memo, true
		}
	}
	for _, th := range c.Put {
		m.thread(t, th.ID)
	}
	for _, id := range c.Remove {
		m.thread(t, id)
	}
	m.ix.Apply(c)
}

func (m *indexModel) thread(t *rapid.T, id string) (th *Thread) {
	retried(t, func() (err error) { th, err = m.ix.Thread(id); return err })
	return th
}

func (m *indexModel) dropTombstones(t *rapid.T) {
	last := base.LSN(rapid.IntRange(0, int(m.lsn)).Draw(t, "last"))
	oldest := int64(rapid.IntRange(0, int(m.lsn)+1).Draw(t, "oldest"))
	for id, memo := range m.memos {
		if memo.LSN <= last && (len(memo.Data) == 0 || memo.At < oldest) {
			delete(m.memos, id)
			if len(memo.Data) > 0 {
				m.dirty.Memos[id] = true
			}
		}
	}
	m.ix.DropTombstones(last, oldest)
}

func (m *indexModel) swap(t *rapid.T) {
	id := rapid.SampledFrom(threadIDs).Draw(t, "thread")
	old := m.thread(t, id)
	want := old != nil
	if rapid.IntRange(0, 3).Draw(t, "stranger") == 0 {
		old, want = NewThread(id, NewFamily(77), 1), false
	}
	if old == nil {
		return
	}
	if got := m.ix.Current(old); got != want {
		t.Fatalf("%q is current: %t, want %t", id, got, want)
	}
	fresh := ColdThread(id, old.Family, old.Birth)
	fresh.LSN, fresh.Updated = old.LSN, old.Updated
	if got := m.ix.Swap(old, fresh.Loaded([]*Item{{Key: "k", LSN: old.LSN, Flags: FlagHead}}, 0)); got != want {
		t.Fatalf("swap of %q: %t, want %t", id, got, want)
	}
}

func sameDirty(a, b Dirty) bool {
	return maps.Equal(a.Threads, b.Threads) && maps.Equal(a.Memos, b.Memos) && maps.Equal(a.Families, b.Families)
}

// image reads what changed, as the writer of images does; if it fails, it gives
// the changes back.
func (m *indexModel) image(t *rapid.T) {
	v, dirty := m.ix.ViewDirty()
	if !sameDirty(dirty, m.dirty) {
		t.Fatalf("dirty is %v, want %v", dirty, m.dirty)
	}
	if dirty.Empty() != (len(dirty.Threads)+len(dirty.Memos)+len(dirty.Families) == 0) {
		t.Fatalf("%v says that it is empty", dirty)
	}
	if len(v.Memos()) != len(m.memos) {
		t.Fatalf("%d memos, want %d", len(v.Memos()), len(m.memos))
	}
	for _, memo := range v.Memos() {
		if fmt.Sprint(memo) != fmt.Sprint(m.memos[memo.ID]) {
			t.Fatalf("memo %v, want %v", memo, m.memos[memo.ID])
		}
	}
	if len(m.ix.ViewMemos().Memos()) != len(m.memos) {
		t.Fatal("a view with memos has others than the image")
	}
	checkView(t, "image", v, m.lsn, m.threads)
	full := rapid.Bool().Draw(t, "full")
	table, parts := m.table(dirty, full)
	m.dirty = newDirty()
	if rapid.Bool().Draw(t, "beside") {
		m.apply(t)
	}
	if rapid.Bool().Draw(t, "fails") {
		m.ix.MarkDirty(dirty)
		maps.Copy(m.dirty.Threads, dirty.Threads)
		maps.Copy(m.dirty.Memos, dirty.Memos)
		maps.Copy(m.dirty.Families, dirty.Families)
		return
	}
	m.ix.Install(table, full, v.LSN, dirty)
	m.parts = parts
}

// table is what an image has of the model: all of it, or what changed.
func (m *indexModel) table(dirty Dirty, full bool) (*Table, map[uint64][]Part) {
	var b TableBuilder
	all := maps.Clone(m.parts)
	for _, id := range threadIDs {
		row, exists := m.threads[id]
		switch {
		case exists && (full || dirty.Threads[id]):
			b.AddThread(row)
			all[row.Family] = []Part{{File: base.FileNum(m.lsn), Off: 1 << 40, Len: 7, MinLSN: 3, MaxLSN: m.lsn + 3}}
		case dirty.Threads[id] && !full:
			b.AddThread(Row{ID: id, Deleted: true})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		b.AddFamily(id, all[id])
	}
	return b.Done(), all
}

// restart makes the index anew from its tables, as an open after an image does: from
// rows in memory, or on disk.
func (m *indexModel) restart(t *rapid.T) {
	old := m.ix
	if !old.dirty.Empty() {
		return
	}
	chain := slices.Clone(old.tables)
	for i := range chain {
		if chain[i].threads.stored == nil && rapid.Bool().Draw(t, "on disk") {
			chain[i] = flaky(t, chain[i])
		}
	}
	n := len(m.threads)
	if rapid.Bool().Draw(t, "count") {
		n = -1
	}
	m.ix = New(old.budget)
	retried(t, func() error { return m.ix.Restore(chain, n, old.ViewMemos().Memos(), old.LSN()) })
}

func TestIndexModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.SampledFrom([]int64{0, 1000, 2000, 1 << 20}).Draw(t, "budget")
		m := &indexModel{ix: New(budget), threads: map[string]Row{}, memos: map[string]Memo{}, parts: map[uint64][]Part{}, dirty: newDirty()}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"apply", "apply", "view", "swap", "image", "tombstones", "restart"}).Draw(t, "op") {
			case "apply":
				m.apply(t)
			case "view":
				m.held = append(m.held, heldView{m.ix.View(), m.lsn, maps.Clone(m.threads)})
			case "swap":
				m.swap(t)
			case "image":
				m.image(t)
			case "tombstones":
				m.dropTombstones(t)
			case "restart":
				m.restart(t)
			}
			if m.ix.LSN() != m.lsn || m.ix.Len() != len(m.threads) {
				t.Fatalf("record %d with %d threads, want %d with %d", m.ix.LSN(), m.ix.Len(), m.lsn, len(m.threads))
			}
			look := rapid.Bool().Draw(t, "look")
			for _, id := range threadIDs {
				memo, ok := m.ix.Memo(id)
				if want, has := m.memos[id]; ok != has || fmt.Sprint(memo) != fmt.Sprint(want) {
					t.Fatalf("memo of %q is %v, want %v", id, memo, want)
				}
				if look {
					sameRow(t, "index", m.ix.Thread, m.threads, id)
				}
			}
			for id, parts := range m.parts {
				var got []Part
				retried(t, func() (err error) { got, err = m.ix.Parts(id); return err })
				if !slices.Equal(got, parts) {
					t.Fatalf("pages of family %d are %v, want %v", id, got, parts)
				}
			}
			size := int64(0)
			m.ix.threads.Ascend(func(th *Thread) bool { size += th.size; return true })
			if size != m.ix.resident {
				t.Fatalf("%d bytes are resident, %d counted", size, m.ix.resident)
			}
		}
		for _, h := range m.held {
			checkView(t, fmt.Sprintf("view of %d", h.lsn), h.view, h.lsn, h.want)
		}
	})
}

// TestViewsBesideAWriter reads views while a writer commits and loaders make
// threads resident. Every commit touches all threads, so a view that shows two
// different records of them has seen half a commit.
func TestViewsBesideAWriter(t *testing.T) {
	const threads = 20
	steps := depth(1000)
	ix := New(1 << 30)
	var put []*Thread
	for i := range threads {
		put = append(put, NewThread(fmt.Sprintf("t%02d", i), NewFamily(uint64(i)), 1).With([]*Item{{Key: "n", LSN: 1}}, 1, 1))
	}
	ix.Apply(Change{LSN: 1, Put: put})

	done := make(chan struct{})
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			var last base.LSN
			for {
				if err := readView(ix.View(), threads, &last, r); err != nil {
					t.Errorf("reader %d: %v", seed, err)
					return
				}
				load(ix, fmt.Sprintf("t%02d", r.IntN(threads)))
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for lsn := base.LSN(2); lsn < base.LSN(2+steps); lsn++ {
		commitAll(ix, lsn)
	}
	close(done)
	wg.Wait()
	var last base.LSN
	if err := readView(ix.View(), threads, &last, rand.New(rand.NewPCG(0, 0))); err != nil {
		t.Error(err)
	}
	if last != base.LSN(1+steps) {
		t.Errorf("the last view shows record %d, want %d", last, 1+steps)
	}
}

// commitAll stores an item in every thread, as one record. A thread that a loader
// swapped meanwhile is replaced: what it held is in the one read here.
func commitAll(ix *Index, lsn base.LSN) {
	var put []*Thread
	_ = ix.View().Ascend("", func(th *Thread) bool {
		put = append(put, th.With([]*Item{{Key: fmt.Sprintf("k%d", lsn%50), LSN: lsn}, {Key: "n", LSN: lsn}}, lsn, int64(lsn)))
		return true
	})
	ix.Apply(Change{LSN: lsn, Put: put})
}

// load replaces a thread by an equal one, as a load from disk does.
func load(ix *Index, id string) {
	old, _ := ix.Thread(id)
	var items []*Item
	old.Items(func(it *Item) { items = append(items, it) })
	fresh := ColdThread(id, old.Family, old.Birth)
	fresh.Head, fresh.LSN, fresh.Updated = old.Head, old.LSN, old.Updated
	ix.Swap(old, fresh.Loaded(items, 0)) // or a commit came between
}

func readView(v View, threads int, last *base.LSN, r *rand.Rand) error {
	if v.LSN < *last {
		return fmt.Errorf("a view of record %d after one of %d", v.LSN, *last)
	}
	*last = v.LSN
	n := 0
	var err error
	_ = v.Ascend("", func(th *Thread) bool {
		n++
		it := th.Get("n")
		if th.LSN != v.LSN || it == nil || it.LSN != v.LSN {
			err = fmt.Errorf("thread %s shows record %d and item %v in a view of %d", th.ID, th.LSN, it, v.LSN)
			return false
		}
		if r.IntN(8) == 0 {
			th.Descend("k", "", func(it *Item) bool {
				if it.LSN > v.LSN {
					err = fmt.Errorf("thread %s shows an item of record %d in a view of %d", th.ID, it.LSN, v.LSN)
				}
				return err == nil
			})
		}
		return err == nil
	})
	if err == nil && n != threads {
		err = fmt.Errorf("%d threads in a view, want %d", n, threads)
	}
	return err
}

// TestStepOfSeveralRecords: threads that begin in one step are counted whichever of its
// records begins them, and once.
func TestStepOfSeveralRecords(t *testing.T) {
	ix := New(0)
	thread := func(id string, birth base.LSN) *Thread { return ColdThread(id, NewFamily(uint64(birth)), birth) }
	a, b, c := thread("a", 1), thread("b", 2), thread("c", 3)
	ix.Apply(Change{LSN: 3, Put: []*Thread{a, b, c}})
	if n := ix.Len(); n != 3 {
		t.Errorf("%d threads of 3 that one step began", n)
	}
	ix.Apply(Change{LSN: 5, Put: []*Thread{b, thread("d", 4)}, Remove: []string{"a"}})
	if n := ix.Len(); n != 3 {
		t.Errorf("%d threads, want b, c and d", n)
	}
	ix.Apply(Change{LSN: 8, Put: []*Thread{thread("a", 7)}, Remove: []string{"b", "c", "d", "x"}})
	if n := ix.Len(); n != 1 {
		t.Errorf("%d threads, want a", n)
	}
}
