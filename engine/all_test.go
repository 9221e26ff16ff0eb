package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

func openAll(t *testing.T, fs vfs.FS) *Engine {
	t.Helper()
	return mustOpen(t, Options{FS: fs, ManualWork: true})
}

// checkAll checks that the entries k0, k1 ... of partition t have these values, and that there are no more.
func checkAll(t *testing.T, e *Engine, want []string) {
	t.Helper()
	for i, v := range want {
		wantValue(t, e, "t", fmt.Sprint("k", i), v)
	}
	if p, err := e.loadPartition("t"); err != nil || p.Get(fmt.Sprint("k", len(want))) != nil {
		t.Errorf("more than %d entries, %v", len(want), err)
	}
}

// Of values that follow each other in commits that are made at once, all but the first are
// patches, as they would be one by one; and they are read again, also after a crash.
func TestCommitAllMakesPatches(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	e := openAll(t, mem)
	var follow Following
	var steps []Step
	var want []string
	long := strings.Repeat("many words, of which none is new; ", 60)
	for i := range 6 {
		long += fmt.Sprint("word ", i, " ")
		want = append(want, long)
		v, err := e.NewRevision(&follow, Series{Partition: "t", Name: "v"}, []byte(long))
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, Step{IDs: []string{"t"}, Do: func(tx *Tx) error {
			return tx.Put("t", fmt.Sprint("k", i), 0, []SlotIn{{Name: "v", Value: &v}})
		}})
	}
	before := e.Metrics()
	if n, err := e.CommitAll(t.Context(), steps); n != 6 || err != nil {
		t.Fatal(n, err)
	}
	m := e.Metrics()
	if n := m.Patches - before.Patches; n != 5 {
		t.Errorf("%d patches, want 5", n)
	}
	if n := m.Log.Batches - before.Log.Batches; n != 1 {
		t.Errorf("%d batches", n)
	}
	// The next one goes on from the last.
	v, err := e.NewRevision(nil, Series{Partition: "t", Name: "v"}, []byte(long+"more"))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Commit(t.Context(), []string{"t"}, func(tx *Tx) error { return tx.Put("t", "k6", 0, []SlotIn{{Name: "v", Value: &v}}) }); err != nil {
		t.Fatal(err)
	}
	if n := e.Metrics().Patches - before.Patches; n != 6 {
		t.Errorf("%d patches with the next, want 6", n)
	}
	want = append(want, long+"more")
	left := mem.Image()
	checkAll(t, e, want)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openAll(t, vfs.NewMemFrom(left, vfs.MemOptions{}))
	checkAll(t, e, want)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// A commit that is refused takes those behind it along, and none before it.
func TestCommitAllRefused(t *testing.T) {
	e := openAll(t, vfs.NewMem(vfs.MemOptions{}))
	refused := errors.New("refused")
	var steps []Step
	for i := range 4 {
		v, err := NewValue([]byte(fmt.Sprint("value ", i)))
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, Step{IDs: []string{"t"}, Do: func(tx *Tx) error {
			if i == 2 {
				return refused
			}
			return tx.Put("t", fmt.Sprint("k", i), 0, []SlotIn{{Name: "v", Value: &v}})
		}})
	}
	if n, err := e.CommitAll(t.Context(), steps); n != 2 || !errors.Is(err, refused) {
		t.Fatal(n, err)
	}
	checkAll(t, e, []string{"value 0", "value 1"})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// A commit that cannot be made ready, as its partition cannot be read, takes none before it along.
func TestCommitAllWithDamage(t *testing.T) {
	lost := residentID(1500)
	_, o := damagedStore(t, 3000, lost)
	e := mustOpen(t, o)
	put := func(id string) Step {
		return Step{IDs: []string{id}, Do: func(tx *Tx) error { return tx.Put(id, "k", 0, nil) }}
	}
	n, err := e.CommitAll(t.Context(), []Step{put("zzz-1"), put("zzz-2"), put(lost), put("zzz-3")})
	if n != 2 || !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("%d, %v", n, err)
	}
	for id, want := range map[string]bool{"zzz-1": true, "zzz-2": true, "zzz-3": false} {
		if p, err := e.Partition(id); err != nil || (p != nil) != want {
			t.Errorf("%s: %v, %v", id, p, err)
		}
	}
	must(t, e.Close())
}

// A record that the log finds too large takes none with it of those that are prepared and not published.
func TestRefusedCommitLeavesThoseBefore(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true})
	defer e.Close()
	put := func(key string, v Value, times int) Step {
		slots := make([]SlotIn, times)
		for i := range slots {
			slots[i] = SlotIn{Name: fmt.Sprint(i), Value: &v}
		}
		return Step{IDs: []string{"t"}, Do: func(tx *Tx) error { return tx.Put("t", key, 0, slots) }}
	}
	small, err := NewValue([]byte("value"))
	must(t, err)
	large, err := NewValue(make([]byte, base.MaxValue))
	must(t, err)
	n, err := e.CommitAll(t.Context(), []Step{put("a", small, 1), put("b", large, base.MaxRecord/base.MaxValue), put("c", small, 1)})
	if n != 1 || !errors.Is(err, fault.ErrTooLarge) {
		t.Fatalf("%d are made, %v", n, err)
	}
	must(t, e.Commit(t.Context(), []string{"t"}, put("d", small, 1).Do))
	for key, there := range map[string]bool{"a": true, "b": false, "c": false, "d": true} {
		if got, err := read(e, "t", key); (err == nil && got == "value") != there {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
}
