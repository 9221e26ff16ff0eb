package index

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
)

// rowsOf are many partitions and families, in the order of ids: enough for chunks.
func rowsOf(n int) (rows []Row, parts map[uint64][]Part) {
	parts = map[uint64][]Part{}
	for i := range n {
		r := Row{ID: fmt.Sprintf("tenant-%03d/%06d", i/100, i), Family: uint64(i+1) << 16, Birth: base.LSN(i + 1), LSN: base.LSN(2*i + 1),
			Head: fmt.Sprintf("head-%d", i), Updated: int64(i) << 30, Flags: uint8(i)}
		if i%17 == 3 {
			r = Row{ID: r.ID, Deleted: true}
		}
		rows = append(rows, r)
		for j := range i % 4 {
			parts[uint64(i)] = append(parts[uint64(i)], Part{File: base.FileNum(j + 1), Off: uint64(i) << 8, Len: 99, MinLSN: base.LSN(i + 1), MaxLSN: base.LSN(i + 1 + j)})
		}
		if parts[uint64(i)] == nil {
			parts[uint64(i)] = []Part{}
		}
	}
	return rows, parts
}

func tableOf(rows []Row, parts map[uint64][]Part) *Table {
	var b TableBuilder
	for _, r := range rows {
		b.AddPartition(r)
	}
	for id := range uint64(len(parts)) {
		b.AddFamily(id, parts[id])
	}
	return b.Done()
}

// A table made of the chunks of another says the same, row by row and when asked.
func TestTableOfChunks(t *testing.T) {
	rows, parts := rowsOf(12_000)
	built := tableOf(rows, parts)
	partitions, families := built.Chunks()
	if len(partitions) < 3 || len(families) < 2 {
		t.Fatalf("%d and %d chunks: too few to test anything", len(partitions), len(families))
	}
	read, err := TableOf(partitions, families)
	if err != nil || read.Check() != nil || read.Len() != len(rows) || read.LenFamilies() != len(parts) || read.Size() != built.Size() {
		t.Fatalf("%d threads, %d families, %v, %v", read.Len(), read.LenFamilies(), err, read.Check())
	}
	var got []Row
	if err := read.Partitions(func(r Row) bool { got = append(got, r); return true }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, rows) {
		t.Error("the rows differ")
	}
	ts := tables{read}
	for _, r := range rows {
		if row, ok, err := ts.partition(r.ID, true); err != nil || ok == r.Deleted || ok && row != r {
			t.Fatalf("thread %q reads as %+v, %v", r.ID, row, ok)
		}
		if _, ok, err := ts.partition(r.ID+"x", true); ok || err != nil {
			t.Fatalf("thread %q exists", r.ID+"x")
		}
	}
	for id, want := range parts {
		if p, err := ts.parts(id); err != nil || !slices.Equal(p, want) {
			t.Fatalf("family %d has parts %v, %v", id, p, err)
		}
	}
	// Chunks in another order, or twice, are of no table.
	for _, c := range [][]Chunk{{partitions[1], partitions[0]}, {partitions[0], partitions[0]}, {{}}, {{Data: partitions[0].Data}}} {
		if _, err := TableOf(c, nil); err == nil {
			t.Error("chunks that no table has were accepted")
		}
	}
}

// A long chain is merged in part, and says what it said; one that lies on disk is not
// read for that.
func TestLayeredChain(t *testing.T) {
	const n = 300
	var chain []*Table
	want := map[string]Row{}
	for layer := range 3 * maxLayers {
		var b TableBuilder
		for i := layer % 7; i < n; i += 1 + layer {
			r := Row{ID: fmt.Sprintf("t%04d", i), Birth: 1, Family: 1 << 16, LSN: base.LSN(layer + 1), Head: "h"}
			if (i+layer)%5 == 0 {
				r = Row{ID: r.ID, Deleted: true}
			}
			b.AddPartition(r)
			want[r.ID] = r
		}
		chain = append(chain, b.Done())
	}
	ts, err := layered(chain)
	if err != nil {
		t.Fatal(err)
	}
	if len(ts) != maxLayers {
		t.Fatalf("%d layers, want %d", len(ts), maxLayers)
	}
	checkLayers(t, ts, want)

	var onDisks []*Table
	var disks []*disk
	for _, built := range chain {
		table, d := onDisk(t, built, unlisted, 2)
		onDisks, disks = append(onDisks, table), append(disks, d)
	}
	if ts, err = layered(onDisks); err != nil {
		t.Fatal(err)
	}
	for i, d := range disks {
		if d.reads != 0 {
			t.Errorf("table %d was read", i)
		}
	}
	checkLayers(t, ts, want)

	// One more is merged with them, each chunk read once.
	var b TableBuilder
	for i := range n {
		r := Row{ID: fmt.Sprintf("t%04d", i), Birth: 2, Family: 1 << 16, LSN: 99, Head: "newer"}
		b.AddPartition(r)
		want[r.ID] = r
	}
	if ts = ts.with(b.Done()); len(ts) != 1 {
		t.Errorf("%d layers after a table as large as all", len(ts))
	}
	for i, d := range disks {
		if most := len(d.partitions.chunks) + len(d.families.chunks); d.reads > most {
			t.Errorf("%d reads of the %d chunks of table %d", d.reads, most, i)
		}
	}
	checkLayers(t, ts, want)

	long := slices.Concat(onDisks, onDisks)
	if ts, err = layered(long); err != nil || len(ts) != maxLayersOnDisk {
		t.Errorf("%d layers of %d, want %d: %v", len(ts), len(long), maxLayersOnDisk, err)
	}
}

func checkLayers(t *testing.T, ts tables, want map[string]Row) {
	t.Helper()
	live := 0
	for id, r := range want {
		got, ok, _ := ts.partition(id, true)
		if ok == r.Deleted || ok && got != r {
			t.Errorf("thread %q reads as %+v, %v; want %+v", id, got, ok, r)
		}
		if !r.Deleted {
			live++
		}
	}
	if got, err := ts.live(); err != nil || got != live {
		t.Errorf("%d live threads, want %d: %v", got, live, err)
	}
}

// FuzzTable: any chunks give an error or a table that can be read, and one whose
// rows are right is made again of them.
func FuzzTable(f *testing.F) {
	for _, n := range []int{1, 16, 17, 40} {
		partitions, families := tableOf(rowsOf(n)).Chunks()
		f.Add(partitions[0].Data, partitions[0].N, families[0].Data, families[0].N)
	}
	f.Add([]byte{}, 0, []byte{0, 0, 0, 0, 0, 0, 0}, 1)
	f.Fuzz(func(t *testing.T, a []byte, na int, b []byte, nb int) {
		var partitions, families []Chunk
		if na != 0 {
			partitions = []Chunk{{a, na}}
		}
		if nb != 0 {
			families = []Chunk{{b, nb}}
		}
		table, err := TableOf(partitions, families)
		if err != nil {
			return
		}
		var rows []Row
		if err := table.Partitions(func(r Row) bool { rows = append(rows, r); return true }); err != nil {
			t.Fatal(err)
		}
		var again TableBuilder
		ts := tables{table}
		right := table.Check() == nil
		for _, r := range rows {
			if got, ok, _ := ts.partition(r.ID, true); right && (ok == r.Deleted || ok && got != r) {
				t.Fatalf("thread %q reads as %+v, %v", r.ID, got, ok)
			}
			again.AddPartition(r)
		}
		if err := table.Families(func(id uint64, parts []Part) bool {
			again.AddFamily(id, parts)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := ts.live(); err != nil {
			t.Fatal(err)
		}
		if !right {
			return
		}
		made := again.Done()
		if made.Check() != nil || made.Len() != table.Len() || made.LenFamilies() != table.LenFamilies() {
			t.Fatalf("made again it has %d threads and %d families, not %d and %d", made.Len(), made.LenFamilies(), table.Len(), table.LenFamilies())
		}
	})
}
