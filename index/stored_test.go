package index

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/base/fault"
)

// shelf is what a disk has of one table: chunks, and lists of them in as many levels as
// there are too many chunks for the topmost. Places are numbers of chunks and of lists.
type shelf struct {
	chunks []Chunk
	lists  [][]Stored
	top    []Stored
}

// shelfOf announces chunks as an image does.
func shelfOf(chunks []Chunk, direct, fanout int) *shelf {
	s := &shelf{chunks: chunks}
	for i, c := range chunks {
		s.top = append(s.top, Stored{First: string(c.first(0)), Off: uint64(i), Size: int64(len(c.Data)), N: c.N})
	}
	for len(s.top) > direct {
		s.cover(fanout)
	}
	return s
}

// cover adds a level of lists.
func (s *shelf) cover(fanout int) {
	var above []Stored
	for list := range slices.Chunk(s.top, fanout) {
		n, size, err := sumOf(list)
		if err != nil {
			panic(err)
		}
		above = append(above, Stored{First: list[0].First, Off: uint64(len(s.lists)), Size: size, N: n, List: true})
		s.lists = append(s.lists, list)
	}
	s.top = above
}

// disk is a table whose reads are counted, and of whose chunks and lists of partitions some
// are damaged.
type disk struct {
	mu                   sync.Mutex
	partitions, families *shelf
	reads, lists         int
	bad, badLists        map[int]bool
}

var errBad = fmt.Errorf("bad chunk: %w", fault.ErrCorrupt)

func (d *disk) shelf(families bool) *shelf {
	if families {
		return d.families
	}
	return d.partitions
}

func (d *disk) Chunk(families bool, at *Stored) (Chunk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	if !families && d.bad[int(at.Off)] {
		return Chunk{}, errBad
	}
	return d.shelf(families).chunks[at.Off], nil
}

func (d *disk) List(families bool, at *Stored, _ string) ([]Stored, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lists++
	if !families && d.badLists[int(at.Off)] {
		return nil, errBad
	}
	return d.shelf(families).lists[at.Off], nil
}

// onDisk puts a table on a disk, with lists if it has more than direct chunks.
func onDisk(t *testing.T, built *Table, direct, fanout int) (*Table, *disk) {
	t.Helper()
	partitions, families := built.Chunks()
	d := &disk{partitions: shelfOf(partitions, direct, fanout), families: shelfOf(families, direct, fanout), bad: map[int]bool{}, badLists: map[int]bool{}}
	table, err := TableAt(d.partitions.top, d.families.top, d)
	if err != nil {
		t.Fatal(err)
	}
	return table, d
}

// unlisted is more chunks than any test has.
const unlisted = 1 << 20

// TestTableOnDisk: a table whose chunks lie on disk says what it says in memory; a look
// reads one chunk, once, and what is in memory is counted.
func TestTableOnDisk(t *testing.T) {
	rows, parts := rowsOf(12_000)
	built := tableOf(rows, parts)
	table, d := onDisk(t, built, unlisted, 2)
	if len(d.partitions.chunks) < 10 || len(d.families.chunks) < 5 {
		t.Fatalf("%d and %d chunks: too few to test anything", len(d.partitions.chunks), len(d.families.chunks))
	}
	if table.Len() != built.Len() || table.LenFamilies() != built.LenFamilies() || table.Size() != built.Size() {
		t.Fatalf("%d threads, %d families, %d bytes", table.Len(), table.LenFamilies(), table.Size())
	}
	if n := table.Resident(); n > built.Size()/20 {
		t.Errorf("%d of %d bytes are in memory before anybody looked", n, built.Size())
	}
	ts := tables{table}
	r := rows[len(rows)/2]
	if _, _, err := ts.partition(r.ID, false); !errors.Is(err, errNotRead) || d.reads != 0 {
		t.Errorf("a look that may not read: %v, %d reads", err, d.reads)
	}
	for range 2 {
		if got, ok, err := ts.partition(r.ID, true); err != nil || ok == r.Deleted || ok && got != r || d.reads != 1 {
			t.Fatalf("thread %q is %+v, %t, %v after %d reads", r.ID, got, ok, err, d.reads)
		}
	}
	if _, _, err := ts.partition(r.ID, false); err != nil {
		t.Errorf("what has been read is found without reading: %v", err)
	}
	if _, ok, err := ts.partition("", true); ok || err != nil || d.reads != 1 {
		t.Errorf("an id below all: %t, %v, %d reads", ok, err, d.reads)
	}
	for _, r := range rows {
		if got, ok, err := ts.partition(r.ID, true); err != nil || ok == r.Deleted || ok && got != r {
			t.Fatalf("thread %q is %+v, %t, %v", r.ID, got, ok, err)
		}
		if _, ok, err := ts.partition(r.ID+"x", true); ok || err != nil {
			t.Fatalf("thread %q exists: %v", r.ID+"x", err)
		}
	}
	for id, want := range parts {
		if got, err := ts.parts(id); err != nil || !slices.Equal(got, want) {
			t.Fatalf("family %d has parts %v, %v", id, got, err)
		}
	}
	if want := len(d.partitions.chunks) + len(d.families.chunks); d.reads != want {
		t.Errorf("%d reads of %d chunks", d.reads, want)
	}
	if err := table.Check(); err != nil || table.Resident() < built.Size() {
		t.Errorf("%v, %d of %d bytes in memory", err, table.Resident(), built.Size())
	}
}

// TestDamagedChunk: who asks for a partition that may be in a chunk that cannot be read is
// told so, by a look and by a scan that comes to it; all others are found. A newer
// table that knows a partition is asked alone.
func TestDamagedChunk(t *testing.T) {
	rows, parts := rowsOf(6_000)
	table, d := onDisk(t, tableOf(rows, parts), unlisted, 2)
	const bad = 2
	d.bad[bad] = true
	first, behind := d.partitions.top[bad].First, d.partitions.top[bad+1].First
	ix := New(0)
	if err := ix.Restore([]*Table{table}, len(rows), nil, 9); err != nil {
		t.Fatal(err)
	}
	ids := func(r Row) []string { return []string{r.ID, r.ID + "x"} }
	for _, r := range rows {
		for i, id := range ids(r) {
			th, err := ix.Partition(id)
			if lost := id >= first && id < behind; lost != errors.Is(err, errBad) || !lost && err != nil {
				t.Fatalf("thread %q, lost %t: %v, %v", id, lost, th, err)
			}
			if err == nil && (th != nil) != (i == 0 && !r.Deleted) {
				t.Fatalf("thread %q is %+v", id, th)
			}
		}
	}
	seen := 0
	if err := ix.View().Ascend("", func(th *Partition) bool { seen++; return th.ID < first }); !errors.Is(err, errBad) || seen == 0 {
		t.Errorf("a scan of all saw %d and ends with %v", seen, err)
	}
	if err := ix.View().Ascend(behind, func(*Partition) bool { return true }); err != nil {
		t.Errorf("a scan behind the damage: %v", err)
	}
	if err := ix.Restore([]*Table{table}, -1, nil, 9); !errors.Is(err, errBad) {
		t.Errorf("counting the threads: %v", err)
	}
	newer := Row{ID: first, Family: 1, Birth: 7, LSN: 8}
	var b TableBuilder
	b.AddPartition(newer)
	ix.Install(b.Done(), false, 10, newDirty())
	if th, err := ix.Partition(first); err != nil || th == nil || RowOf(th) != newer {
		t.Errorf("a thread that a newer table knows: %+v, %v", th, err)
	}
	if _, err := ix.Partition(first + "\x00"); !errors.Is(err, errBad) {
		t.Errorf("its neighbour: %v", err)
	}
}

// one is a disk that has the same chunk and the same list everywhere.
type one struct {
	chunk Chunk
	list  []Stored
}

func (o one) Chunk(bool, *Stored) (Chunk, error)           { return o.chunk, nil }
func (o one) List(bool, *Stored, string) ([]Stored, error) { return o.list, nil }

// TestOtherChunk: a chunk that is not the one announced is damage, whatever it holds.
func TestOtherChunk(t *testing.T) {
	rows, parts := rowsOf(4_000)
	built := tableOf(rows, parts)
	partitions, families := built.Chunks()
	short := Chunk{Data: bytes.Clone(partitions[1].Data), N: partitions[1].N - 1}
	top := shelfOf(partitions, unlisted, 2).top
	for name, c := range map[string]Chunk{"the one before": partitions[0], "a count": short, "nothing": {}, "of families": families[0]} {
		table, err := TableAt(top, shelfOf(families, unlisted, 2).top, one{chunk: c})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := (tables{table}).partition(top[1].First, true); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	top[0], top[1] = top[1], top[0]
	for name, list := range map[string][]Stored{"out of order": top, "without rows": {{First: "a", Size: 9}}, "of more rows than bytes": {{First: "a", N: 9, Size: 8}}} {
		if _, err := TableAt(list, nil, nil); err == nil {
			t.Errorf("chunks %s were accepted", name)
		}
	}
}

// TestOtherList: a list that is not the one announced is damage, whatever it holds.
func TestOtherList(t *testing.T) {
	rows, parts := rowsOf(6_000)
	partitions, _ := tableOf(rows, parts).Chunks()
	s := shelfOf(partitions, 2, 3)
	if len(s.top) != 2 || !s.top[0].List || !s.lists[s.top[0].Off][0].List {
		t.Fatalf("%d chunks: the test needs two levels of lists", len(partitions))
	}
	const at = 1
	good := s.lists[at]
	edit := func(i int, fn func(*Stored)) []Stored {
		list := slices.Clone(good)
		fn(&list[i])
		return list
	}
	top := shelfOf(partitions, 3*len(partitions), 3).top
	for name, list := range map[string][]Stored{
		"empty":              nil,
		"the one before":     s.lists[at-1],
		"shorter":            good[:2],
		"longer":             append(slices.Clone(good), s.lists[at+1]...),
		"another first key":  edit(0, func(e *Stored) { e.First += "\x00" }),
		"out of order":       edit(1, func(e *Stored) { e.First = good[2].First }),
		"beyond its end":     edit(2, func(e *Stored) { e.First = s.lists[at+1][0].First }),
		"other rows":         edit(1, func(e *Stored) { e.N-- }),
		"other bytes":        edit(1, func(e *Stored) { e.Size++ }),
		"a chunk of no rows": edit(1, func(e *Stored) { e.N = 0 }),
		"the topmost":        s.top,
		"chunks of the next": top[6:9],
	} {
		was := s.lists[at]
		s.lists[at] = list
		table, err := TableAt(s.top, nil, &disk{partitions: s})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := (tables{table}).partition(good[1].First, true); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("a list %s: %v", name, err)
		}
		if err := table.Check(); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("a list %s, read whole: %v", name, err)
		}
		s.lists[at] = was
	}
	// A list that leads to itself ends.
	self := []Stored{{First: top[0].First, Size: top[0].Size, N: top[0].N, List: true}}
	table, err := TableAt(self, nil, one{list: self})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Check(); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("lists without end: %v", err)
	}
}

// TestLists: whatever the number of chunks, a table with lists answers as the one in
// memory does, a look reads one list for each level and one chunk, and none of them
// twice.
func TestLists(t *testing.T) {
	all, _ := rowsOf(3_000)
	for i := range all {
		all[i].Head += strings.Repeat("h", 4000) // few rows to a chunk
	}
	all = slices.DeleteFunc(all, func(r Row) bool { return r.Deleted })
	r := rand.New(rand.NewPCG(7, 8))
	for _, most := range []int{1, 2, 7, 8, 9, 10, 63, 64, 65, 66, 128, 511, 512, 513} {
		var b TableBuilder
		rows := all[:min(most*4, len(all))]
		for i, row := range rows {
			b.AddPartition(row)
			b.AddFamily(uint64(i), []Part{{File: 1, Off: uint64(i), Len: 1}})
		}
		built := b.Done()
		if n := len(built.partitions.chunks); n != most {
			t.Fatalf("%d chunks, want %d", n, most)
		}
		limits := [][2]int{{8, 64}, {1, 2}, {2 + r.IntN(6), 2 + r.IntN(6)}}
		for _, l := range limits {
			table, d := onDisk(t, built, l[0], l[1])
			if len(d.partitions.top) > l[0] || len(d.partitions.chunks) > l[0] != d.partitions.top[0].List {
				t.Fatalf("%d chunks, %d at the top", len(d.partitions.chunks), len(d.partitions.top))
			}
			levels := 0
			for n := len(d.partitions.chunks); n > l[0]; n = (n + l[1] - 1) / l[1] {
				levels++
			}
			for range 5 {
				one, _ := onDisk(t, built, l[0], l[1])
				od := one.partitions.stored.disk.(*disk)
				want := rows[r.IntN(len(rows))]
				if got, ok, err := (tables{one}).partition(want.ID, true); err != nil || !ok || got != want || od.reads != 1 || od.lists != levels {
					t.Fatalf("%d chunks %v: thread %q is %+v, %t, %v after %d reads, %d of lists", len(d.partitions.chunks), l, want.ID, got, ok, err, od.reads, od.lists)
				}
			}
			mem := tables{built}
			for range 40 {
				id := rows[r.IntN(len(rows))].ID
				switch r.IntN(4) {
				case 0:
					id += "x"
				case 1:
					id = id[:r.IntN(len(id))]
				}
				want, wok, _ := mem.partition(id, true)
				if got, ok, err := (tables{table}).partition(id, true); err != nil || ok != wok || got != want {
					t.Fatalf("%d chunks %v: thread %q is %+v, %t, %v; want %+v, %t", len(d.partitions.chunks), l, id, got, ok, err, want, wok)
				}
				a, b := mem.rows(id), tables{table}.rows(id)
				for n := r.IntN(30); n > 0 && (a.ok() || b.ok()); n-- {
					if a.ok() != b.ok() || string(a.key) != string(b.key) || string(a.payload) != string(b.payload) || b.err != nil {
						t.Fatalf("%d chunks %v: from %q on %q follows, want %q; %v", len(d.partitions.chunks), l, id, b.key, a.key, b.err)
					}
					a.next()
					b.next()
				}
			}
			if err := table.Check(); err != nil || table.Len() != len(rows) || d.reads != len(d.partitions.chunks)+len(d.families.chunks) || d.lists != len(d.partitions.lists)+len(d.families.lists) {
				t.Fatalf("%d chunks %v: %v; %d reads, %d of lists", len(d.partitions.chunks), l, err, d.reads, d.lists)
			}
			if got, most := table.Resident(), table.Size()+200*int64(d.reads+d.lists); got < table.Size() || got > most {
				t.Errorf("%d bytes in memory of %d", got, table.Size())
			}
		}
	}
}

// TestResidentBeforeALook: what a table takes that nobody looked into does not grow with
// its rows.
func TestResidentBeforeALook(t *testing.T) {
	most := int64(0)
	for _, n := range []int{100, 1_000, 10_000, 100_000} {
		rows, parts := rowsOf(n)
		table, _ := onDisk(t, tableOf(rows, parts), 8, 64)
		most = max(most, table.Resident())
		t.Logf("%d threads: %d bytes in memory of %d", n, table.Resident(), table.Size())
	}
	if most > 2*8*(storedSize+64) {
		t.Errorf("%d bytes are in memory before a look", most)
	}
}

// TestDamagedList: as TestDamagedChunk, for a list: it costs those below it.
func TestDamagedList(t *testing.T) {
	rows, parts := rowsOf(6_000)
	table, d := onDisk(t, tableOf(rows, parts), 4, 3)
	const bad = 1
	d.badLists[bad] = true
	first, behind := d.partitions.lists[bad][0].First, d.partitions.lists[bad+1][0].First
	for _, r := range rows {
		_, ok, err := (tables{table}).partition(r.ID, true)
		if lost := r.ID >= first && r.ID < behind; lost != errors.Is(err, errBad) || !lost && (err != nil || ok == r.Deleted) {
			t.Fatalf("thread %q, lost %t: %t, %v", r.ID, lost, ok, err)
		}
	}
	seen := 0
	if err := table.Partitions(func(r Row) bool { seen++; return r.ID < first }); !errors.Is(err, errBad) || seen == 0 {
		t.Errorf("a scan of all saw %d and ends with %v", seen, err)
	}
}

// TestReadTogether: readers of the same chunks at once all see the same.
func TestReadTogether(t *testing.T) {
	rows, parts := rowsOf(6_000)
	table, _ := onDisk(t, tableOf(rows, parts), 2, 3)
	ts := tables{table}
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 500 {
				want := rows[r.IntN(len(rows))]
				if got, ok, err := ts.partition(want.ID, true); err != nil || ok == want.Deleted || ok && got != want {
					t.Errorf("thread %q is %+v, %t, %v", want.ID, got, ok, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, most := table.Resident(), table.Size()+table.Size()/10; got > most {
		t.Errorf("%d bytes are counted of %d", got, table.Size())
	}
}
