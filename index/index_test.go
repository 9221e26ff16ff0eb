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

	"github.com/stele-go/stele/base"
)

// depth scales the tests that run for a while: INDEX_STEPS changes.
func depth(def int) int {
	if n, err := strconv.Atoi(os.Getenv("INDEX_STEPS")); err == nil {
		return n
	}
	return def
}

// checkView compares a view, or the index through one, with the partitions it must
// show.
func checkView(t *rapid.T, what string, v View, lsn base.LSN, want map[string]Row) {
	if v.LSN != lsn || v.Len() != len(want) {
		t.Fatalf("%s: record %d with %d threads, want %d with %d", what, v.LSN, v.Len(), lsn, len(want))
	}
	from := rapid.SampledFrom([]string{"", "a", "b", "bb", "z"}).Draw(t, "from")
	var ids []string
	retried(t, func() error {
		ids = nil
		return v.Ascend(from, func(th *Partition) bool {
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
		sameRow(t, what, v.Partition, want, id)
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
	partitions, families := from.Chunks()
	d := &flakyDisk{disk{partitions: shelfOf(partitions, 3, 2), families: shelfOf(families, 3, 2)}, map[string]bool{}}
	for range rapid.IntRange(0, 2).Draw(t, "lists") {
		d.partitions.cover(2)
		d.families.cover(2)
	}
	to, err := TableAt(d.partitions.top, d.families.top, d)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// sameRow compares a partition, or that there is none, with what the model has.
func sameRow(t *rapid.T, what string, look func(string) (*Partition, error), want map[string]Row, id string) {
	row, exists := want[id]
	var th *Partition
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
	ix         *Index
	lsn        base.LSN
	partitions map[string]Row
	tombs      map[string]Tombstone
	parts      map[uint64][]Part // of the families the tables know
	dirty      Dirty
	held       []heldView
}

var partitionIDs = []string{"a", "aa", "b", "bb", "c"}

func (m *indexModel) apply(t *rapid.T) {
	m.lsn++
	c := Change{LSN: m.lsn}
	for _, id := range partitionIDs {
		switch old, exists := m.partitions[id]; rapid.IntRange(0, 5).Draw(t, "change to "+id) {
		case 0:
			th := NewPartition(id, NewFamily(uint64(m.lsn)<<16), m.lsn).With([]*Entry{{Key: "k", LSN: m.lsn, Flags: FlagHead}}, m.lsn, -int64(m.lsn))
			if !rapid.Bool().Draw(t, "loaded") {
				th.tree = nil
			}
			c.Put = append(c.Put, th)
			m.dirty.Families[th.Family.ID] = true
			m.dirty.Partitions[id] = true
			m.partitions[id] = RowOf(th)
		case 1:
			c.Remove = append(c.Remove, id)
			if exists {
				m.dirty.Families[old.Family] = true
				m.dirty.Partitions[id] = true
			}
			delete(m.partitions, id)
			tomb := Tombstone{ID: id, LSN: m.lsn, At: int64(m.lsn)}
			if rapid.Bool().Draw(t, "remember for good") {
				tomb.Data = []byte(id)
			}
			c.Remember = append(c.Remember, tomb)
			m.tombs[id], m.dirty.Tombstones[id] = tomb, true
		}
	}
	for _, th := range c.Put {
		m.partition(t, th.ID)
	}
	for _, id := range c.Remove {
		m.partition(t, id)
	}
	m.ix.Apply(c)
}

func (m *indexModel) partition(t *rapid.T, id string) (th *Partition) {
	retried(t, func() (err error) { th, err = m.ix.Partition(id); return err })
	return th
}

func (m *indexModel) dropTombstones(t *rapid.T) {
	last := base.LSN(rapid.IntRange(0, int(m.lsn)).Draw(t, "last"))
	oldest := int64(rapid.IntRange(0, int(m.lsn)+1).Draw(t, "oldest"))
	for id, tomb := range m.tombs {
		if tomb.LSN <= last && (len(tomb.Data) == 0 || tomb.At < oldest) {
			delete(m.tombs, id)
			if len(tomb.Data) > 0 {
				m.dirty.Tombstones[id] = true
			}
		}
	}
	m.ix.DropTombstones(last, oldest)
}

func (m *indexModel) swap(t *rapid.T) {
	id := rapid.SampledFrom(partitionIDs).Draw(t, "thread")
	old := m.partition(t, id)
	want := old != nil
	if rapid.IntRange(0, 3).Draw(t, "stranger") == 0 {
		old, want = NewPartition(id, NewFamily(77), 1), false
	}
	if old == nil {
		return
	}
	if got := m.ix.Current(old); got != want {
		t.Fatalf("%q is current: %t, want %t", id, got, want)
	}
	fresh := ColdPartition(id, old.Family, old.Birth)
	fresh.LSN, fresh.Updated = old.LSN, old.Updated
	if got := m.ix.Swap(old, fresh.Loaded([]*Entry{{Key: "k", LSN: old.LSN, Flags: FlagHead}}, 0)); got != want {
		t.Fatalf("swap of %q: %t, want %t", id, got, want)
	}
}

func sameDirty(a, b Dirty) bool {
	return maps.Equal(a.Partitions, b.Partitions) && maps.Equal(a.Tombstones, b.Tombstones) && maps.Equal(a.Families, b.Families)
}

// image reads what changed, as the writer of images does; if it fails, it gives
// the changes back.
func (m *indexModel) image(t *rapid.T) {
	v, dirty := m.ix.ViewDirty()
	if !sameDirty(dirty, m.dirty) {
		t.Fatalf("dirty is %v, want %v", dirty, m.dirty)
	}
	if dirty.Empty() != (len(dirty.Partitions)+len(dirty.Tombstones)+len(dirty.Families) == 0) {
		t.Fatalf("%v says that it is empty", dirty)
	}
	if len(v.Tombstones()) != len(m.tombs) {
		t.Fatalf("%d memos, want %d", len(v.Tombstones()), len(m.tombs))
	}
	for _, tomb := range v.Tombstones() {
		if fmt.Sprint(tomb) != fmt.Sprint(m.tombs[tomb.ID]) {
			t.Fatalf("memo %v, want %v", tomb, m.tombs[tomb.ID])
		}
	}
	if len(m.ix.ViewTombstones().Tombstones()) != len(m.tombs) {
		t.Fatal("a view with memos has others than the image")
	}
	checkView(t, "image", v, m.lsn, m.partitions)
	full := rapid.Bool().Draw(t, "full")
	table, parts := m.table(dirty, full)
	m.dirty = newDirty()
	if rapid.Bool().Draw(t, "beside") {
		m.apply(t)
	}
	if rapid.Bool().Draw(t, "fails") {
		m.ix.MarkDirty(dirty)
		maps.Copy(m.dirty.Partitions, dirty.Partitions)
		maps.Copy(m.dirty.Tombstones, dirty.Tombstones)
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
	for _, id := range partitionIDs {
		row, exists := m.partitions[id]
		switch {
		case exists && (full || dirty.Partitions[id]):
			b.AddPartition(row)
			all[row.Family] = []Part{{File: base.FileNum(m.lsn), Off: 1 << 40, Len: 7, MinLSN: 3, MaxLSN: m.lsn + 3}}
		case dirty.Partitions[id] && !full:
			b.AddPartition(Row{ID: id, Deleted: true})
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
		if chain[i].partitions.stored == nil && rapid.Bool().Draw(t, "on disk") {
			chain[i] = flaky(t, chain[i])
		}
	}
	n := len(m.partitions)
	if rapid.Bool().Draw(t, "count") {
		n = -1
	}
	m.ix = New(old.budget)
	retried(t, func() error { return m.ix.Restore(chain, n, old.ViewTombstones().Tombstones(), old.LSN()) })
}

func TestIndexModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.SampledFrom([]int64{0, 1000, 2000, 1 << 20}).Draw(t, "budget")
		m := &indexModel{ix: New(budget), partitions: map[string]Row{}, tombs: map[string]Tombstone{}, parts: map[uint64][]Part{}, dirty: newDirty()}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"apply", "apply", "view", "swap", "image", "tombstones", "restart"}).Draw(t, "op") {
			case "apply":
				m.apply(t)
			case "view":
				m.held = append(m.held, heldView{m.ix.View(), m.lsn, maps.Clone(m.partitions)})
			case "swap":
				m.swap(t)
			case "image":
				m.image(t)
			case "tombstones":
				m.dropTombstones(t)
			case "restart":
				m.restart(t)
			}
			if m.ix.LSN() != m.lsn || m.ix.Len() != len(m.partitions) {
				t.Fatalf("record %d with %d threads, want %d with %d", m.ix.LSN(), m.ix.Len(), m.lsn, len(m.partitions))
			}
			look := rapid.Bool().Draw(t, "look")
			for _, id := range partitionIDs {
				tomb, ok := m.ix.Tombstone(id)
				if want, has := m.tombs[id]; ok != has || fmt.Sprint(tomb) != fmt.Sprint(want) {
					t.Fatalf("memo of %q is %v, want %v", id, tomb, want)
				}
				if look {
					sameRow(t, "index", m.ix.Partition, m.partitions, id)
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
			m.ix.partitions.Ascend(func(th *Partition) bool { size += th.size; return true })
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
// partitions resident. Every commit touches all partitions, so a view that shows two
// different records of them has seen half a commit.
func TestViewsBesideAWriter(t *testing.T) {
	const partitions = 20
	steps := depth(1000)
	ix := New(1 << 30)
	var put []*Partition
	for i := range partitions {
		put = append(put, NewPartition(fmt.Sprintf("t%02d", i), NewFamily(uint64(i)), 1).With([]*Entry{{Key: "n", LSN: 1}}, 1, 1))
	}
	ix.Apply(Change{LSN: 1, Put: put})

	done := make(chan struct{})
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			var last base.LSN
			for {
				if err := readView(ix.View(), partitions, &last, r); err != nil {
					t.Errorf("reader %d: %v", seed, err)
					return
				}
				load(ix, fmt.Sprintf("t%02d", r.IntN(partitions)))
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
	if err := readView(ix.View(), partitions, &last, rand.New(rand.NewPCG(0, 0))); err != nil {
		t.Error(err)
	}
	if last != base.LSN(1+steps) {
		t.Errorf("the last view shows record %d, want %d", last, 1+steps)
	}
}

// commitAll stores an entry in every partition, as one record. A partition that a loader
// swapped meanwhile is replaced: what it held is in the one read here.
func commitAll(ix *Index, lsn base.LSN) {
	var put []*Partition
	_ = ix.View().Ascend("", func(th *Partition) bool {
		put = append(put, th.With([]*Entry{{Key: fmt.Sprintf("k%d", lsn%50), LSN: lsn}, {Key: "n", LSN: lsn}}, lsn, int64(lsn)))
		return true
	})
	ix.Apply(Change{LSN: lsn, Put: put})
}

// load replaces a partition by an equal one, as a load from disk does.
func load(ix *Index, id string) {
	old, _ := ix.Partition(id)
	var entries []*Entry
	old.Entries(0, func(it *Entry) { entries = append(entries, it) })
	fresh := ColdPartition(id, old.Family, old.Birth)
	fresh.Head, fresh.LSN, fresh.Updated = old.Head, old.LSN, old.Updated
	ix.Swap(old, fresh.Loaded(entries, 0)) // or a commit came between
}

func readView(v View, partitions int, last *base.LSN, r *rand.Rand) error {
	if v.LSN < *last {
		return fmt.Errorf("a view of record %d after one of %d", v.LSN, *last)
	}
	*last = v.LSN
	n := 0
	var err error
	_ = v.Ascend("", func(th *Partition) bool {
		n++
		it := th.Get("n")
		if th.LSN != v.LSN || it == nil || it.LSN != v.LSN {
			err = fmt.Errorf("thread %s shows record %d and entry %v in a view of %d", th.ID, th.LSN, it, v.LSN)
			return false
		}
		if r.IntN(8) == 0 {
			th.Descend("k", "", func(it *Entry) bool {
				if it.LSN > v.LSN {
					err = fmt.Errorf("thread %s shows an entry of record %d in a view of %d", th.ID, it.LSN, v.LSN)
				}
				return err == nil
			})
		}
		return err == nil
	})
	if err == nil && n != partitions {
		err = fmt.Errorf("%d threads in a view, want %d", n, partitions)
	}
	return err
}

// TestStepOfSeveralRecords: partitions that begin in one step are counted whichever of its
// records begins them, and once.
func TestStepOfSeveralRecords(t *testing.T) {
	ix := New(0)
	partition := func(id string, birth base.LSN) *Partition { return ColdPartition(id, NewFamily(uint64(birth)), birth) }
	a, b, c := partition("a", 1), partition("b", 2), partition("c", 3)
	ix.Apply(Change{LSN: 3, Put: []*Partition{a, b, c}})
	if n := ix.Len(); n != 3 {
		t.Errorf("%d threads of 3 that one step began", n)
	}
	ix.Apply(Change{LSN: 5, Put: []*Partition{b, partition("d", 4)}, Remove: []string{"a"}})
	if n := ix.Len(); n != 3 {
		t.Errorf("%d threads, want b, c and d", n)
	}
	ix.Apply(Change{LSN: 8, Put: []*Partition{partition("a", 7)}, Remove: []string{"b", "c", "d", "x"}})
	if n := ix.Len(); n != 1 {
		t.Errorf("%d threads, want a", n)
	}
}
