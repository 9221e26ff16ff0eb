package index

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/internal/base"
)

// storedOf announces chunks as an image does.
func storedOf(chunks []Chunk) []Stored {
	out := make([]Stored, len(chunks))
	for i, c := range chunks {
		out[i] = Stored{First: string(c.first(0)), Size: len(c.Data), N: c.N}
	}
	return out
}

// disk is chunks that are counted as they are read, and of which some are damaged.
type disk struct {
	mu                sync.Mutex
	threads, families []Chunk
	reads             int
	bad               map[int]bool // chunks of threads
}

var errBad = fmt.Errorf("bad chunk: %w", base.ErrCorrupt)

func (d *disk) read(families bool, i int) (Chunk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	if families {
		return d.families[i], nil
	}
	if d.bad[i] {
		return Chunk{}, errBad
	}
	return d.threads[i], nil
}

func onDisk(t *testing.T, built *Table) (*Table, *disk) {
	d := &disk{bad: map[int]bool{}}
	d.threads, d.families = built.Chunks()
	table, err := TableAt(storedOf(d.threads), storedOf(d.families), d.read)
	if err != nil {
		t.Fatal(err)
	}
	return table, d
}

// TestTableOnDisk: a table whose chunks lie on disk says what it says in memory; a look
// reads one chunk, once, and what is in memory is counted.
func TestTableOnDisk(t *testing.T) {
	rows, parts := rowsOf(12_000)
	built := tableOf(rows, parts)
	table, d := onDisk(t, built)
	if len(d.threads) < 10 || len(d.families) < 5 {
		t.Fatalf("%d and %d chunks: too few to test anything", len(d.threads), len(d.families))
	}
	if table.Len() != built.Len() || table.LenFamilies() != built.LenFamilies() || table.Size() != built.Size() {
		t.Fatalf("%d threads, %d families, %d bytes", table.Len(), table.LenFamilies(), table.Size())
	}
	if n := table.Resident(); n > built.Size()/20 {
		t.Errorf("%d of %d bytes are in memory before anybody looked", n, built.Size())
	}
	ts := tables{table}
	r := rows[len(rows)/2]
	if _, _, err := ts.thread(r.ID, false); !errors.Is(err, errNotRead) || d.reads != 0 {
		t.Errorf("a look that may not read: %v, %d reads", err, d.reads)
	}
	for range 2 {
		if got, ok, err := ts.thread(r.ID, true); err != nil || ok == r.Deleted || ok && got != r || d.reads != 1 {
			t.Fatalf("thread %q is %+v, %t, %v after %d reads", r.ID, got, ok, err, d.reads)
		}
	}
	if _, _, err := ts.thread(r.ID, false); err != nil {
		t.Errorf("what has been read is found without reading: %v", err)
	}
	if _, ok, err := ts.thread("", true); ok || err != nil || d.reads != 1 {
		t.Errorf("an id below all: %t, %v, %d reads", ok, err, d.reads)
	}
	for _, r := range rows {
		if got, ok, err := ts.thread(r.ID, true); err != nil || ok == r.Deleted || ok && got != r {
			t.Fatalf("thread %q is %+v, %t, %v", r.ID, got, ok, err)
		}
		if _, ok, err := ts.thread(r.ID+"x", true); ok || err != nil {
			t.Fatalf("thread %q exists: %v", r.ID+"x", err)
		}
	}
	for id, want := range parts {
		if got, err := ts.parts(id); err != nil || !slices.Equal(got, want) {
			t.Fatalf("family %d has parts %v, %v", id, got, err)
		}
	}
	if want := len(d.threads) + len(d.families); d.reads != want {
		t.Errorf("%d reads of %d chunks", d.reads, want)
	}
	if err := table.Check(); err != nil || table.Resident() < built.Size()-32*int64(d.reads) {
		t.Errorf("%v, %d of %d bytes in memory", err, table.Resident(), built.Size())
	}
}

// TestDamagedChunk: who asks for a thread that may be in a chunk that cannot be read is
// told so, by a look and by a scan that comes to it; all others are found. A newer
// table that knows a thread is asked alone.
func TestDamagedChunk(t *testing.T) {
	rows, parts := rowsOf(6_000)
	table, d := onDisk(t, tableOf(rows, parts))
	const bad = 2
	d.bad[bad] = true
	first, behind := string(d.threads[bad].first(0)), string(d.threads[bad+1].first(0))
	ix := New(0)
	if err := ix.Restore([]*Table{table}, len(rows), nil, 9); err != nil {
		t.Fatal(err)
	}
	ids := func(r Row) []string { return []string{r.ID, r.ID + "x"} }
	for _, r := range rows {
		for i, id := range ids(r) {
			th, err := ix.Thread(id)
			if lost := id >= first && id < behind; lost != errors.Is(err, errBad) || !lost && err != nil {
				t.Fatalf("thread %q, lost %t: %v, %v", id, lost, th, err)
			}
			if err == nil && (th != nil) != (i == 0 && !r.Deleted) {
				t.Fatalf("thread %q is %+v", id, th)
			}
		}
	}
	seen := 0
	if err := ix.View().Ascend("", func(th *Thread) bool { seen++; return th.ID < first }); !errors.Is(err, errBad) || seen == 0 {
		t.Errorf("a scan of all saw %d and ends with %v", seen, err)
	}
	if err := ix.View().Ascend(behind, func(*Thread) bool { return true }); err != nil {
		t.Errorf("a scan behind the damage: %v", err)
	}
	if err := ix.Restore([]*Table{table}, -1, nil, 9); !errors.Is(err, errBad) {
		t.Errorf("counting the threads: %v", err)
	}
	newer := Row{ID: first, Family: 1, Birth: 7, LSN: 8}
	var b TableBuilder
	b.AddThread(newer)
	ix.Install(b.Done(), false, 10, newDirty())
	if th, err := ix.Thread(first); err != nil || th == nil || RowOf(th) != newer {
		t.Errorf("a thread that a newer table knows: %+v, %v", th, err)
	}
	if _, err := ix.Thread(first + "\x00"); !errors.Is(err, errBad) {
		t.Errorf("its neighbour: %v", err)
	}
}

// TestOtherChunk: a chunk that is not the one announced is damage, whatever it holds.
func TestOtherChunk(t *testing.T) {
	rows, parts := rowsOf(4_000)
	built := tableOf(rows, parts)
	threads, families := built.Chunks()
	short := Chunk{Data: bytes.Clone(threads[1].Data), N: threads[1].N - 1}
	for name, c := range map[string]Chunk{"the one before": threads[0], "a count": short, "nothing": {}, "of families": families[0]} {
		table, err := TableAt(storedOf(threads), storedOf(families), func(bool, int) (Chunk, error) { return c, nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := (tables{table}).thread(string(threads[1].first(0)), true); !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	list := storedOf(threads)
	list[0], list[1] = list[1], list[0]
	if _, err := TableAt(list, nil, nil); err == nil {
		t.Error("chunks out of order were accepted")
	}
	if _, err := TableAt([]Stored{{First: "a", Size: 9}}, nil, nil); err == nil {
		t.Error("a chunk without rows was accepted")
	}
}

// TestReadTogether: readers of the same chunks at once all see the same.
func TestReadTogether(t *testing.T) {
	rows, parts := rowsOf(6_000)
	table, _ := onDisk(t, tableOf(rows, parts))
	ts := tables{table}
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 500 {
				want := rows[r.IntN(len(rows))]
				if got, ok, err := ts.thread(want.ID, true); err != nil || ok == want.Deleted || ok && got != want {
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
