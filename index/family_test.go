package index

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base"
)

func genValues(t *rapid.T) []ValueLoc {
	values := make([]ValueLoc, rapid.IntRange(0, 6).Draw(t, "values"))
	for i := range values {
		values[i].Ref = Ref{LSN: base.LSN(rapid.IntRange(1, 8).Draw(t, "record")), Ord: uint16(rapid.IntRange(0, 1).Draw(t, "ordinal"))}
		values[i].Loc = genLoc(t)
	}
	return values
}

func genLoc(t *rapid.T) Loc {
	return Loc{File: base.FileNum(rapid.IntRange(1, 4).Draw(t, "file")), Off: rapid.Uint64Range(0, 99).Draw(t, "offset"), Len: 1}
}

func genFiles(t *rapid.T) map[base.FileNum]bool {
	files := map[base.FileNum]bool{}
	for range rapid.IntRange(0, 3).Draw(t, "files") {
		files[base.FileNum(rapid.IntRange(1, 4).Draw(t, "file"))] = true
	}
	return files
}

func TestFamilyValuesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, m := NewFamily(1), map[Ref]Loc{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			values := genValues(t)
			switch rapid.SampledFrom([]string{"add", "add missing", "move", "forget"}).Draw(t, "op") {
			case "add":
				f.Add(values)
				for _, v := range values {
					m[v.Ref] = v.Loc
				}
			case "add missing":
				gone := genFiles(t)
				f.AddMissing(values, func(n base.FileNum) bool { return !gone[n] })
				for _, v := range values {
					if old, ok := m[v.Ref]; !ok || old.File != v.Loc.File && gone[old.File] {
						m[v.Ref] = v.Loc
					}
				}
			case "move":
				from := genFiles(t)
				for _, v := range values {
					if l, ok := m[v.Ref]; !ok || from[l.File] {
						m[v.Ref] = v.Loc
					}
				}
				f.Move(values, from)
			case "forget":
				files := genFiles(t)
				f.Forget(files)
				maps.DeleteFunc(m, func(r Ref, l Loc) bool { return files[l.File] })
			}
			checkValues(t, f, m)
		}
	})
}

func checkValues(t *rapid.T, f *Family, m map[Ref]Loc) {
	got := map[Ref]Loc{}
	last := Ref{}
	f.Values(func(r Ref, l Loc) {
		if r.Compare(last) <= 0 {
			t.Fatalf("value %v comes after %v", r, last)
		}
		got[r], last = l, r
	})
	if !maps.Equal(got, m) {
		t.Fatalf("values %v, want %v", got, m)
	}
	for _, v := range genValues(t) {
		r := v.Ref
		l, ok := f.Loc(r)
		want, has := m[r]
		if l != want || ok != has {
			t.Fatalf("value %v lies at %v (%t), want %v", r, l, ok, want)
		}
	}
}

func TestRefs(t *testing.T) {
	sorted := []Ref{{}, {LSN: 1}, {LSN: 1, Ord: 1}, {LSN: 1, Ord: EmptyOrd}, {LSN: 2}}
	for i, a := range sorted {
		for j, b := range sorted {
			if got, want := a.Compare(b), min(1, max(-1, i-j)); got != want {
				t.Errorf("%v compared with %v is %d, want %d", a, b, got, want)
			}
		}
		if got, want := a.Empty(), i == 0 || i == 3; got != want {
			t.Errorf("%v is empty: %t", a, got)
		}
	}
	if !(Loc{Len: 3}).InLog() || (Loc{Stored: 1}).InLog() {
		t.Error("a value lies in a log file if it has no block")
	}
}

// TestKeepFamilies: what comes while families are kept stays the same family, held or
// not; released, it goes when nobody holds it.
func TestKeepFamilies(t *testing.T) {
	ix := New(1 << 20)
	get := func(id uint64) *Family { return ix.fams.get(id) }
	before := get(1)
	ix.KeepFamilies(0)
	for id := range uint64(300) {
		get(id).Add([]ValueLoc{{Ref: Ref{LSN: base.LSN(id + 1)}, Loc: Loc{File: 1, Len: 1}}})
	}
	collect := func() int {
		for range 10 {
			runtime.GC()
			time.Sleep(time.Millisecond) // for the cleanups
		}
		return len(ix.Held())
	}
	if n := collect(); n != 300 || get(1) != before {
		t.Fatalf("%d families kept, want 300", n)
	}
	held := get(7)
	var beside sync.WaitGroup
	for range 2 {
		beside.Go(func() {
			for range 20 {
				for id := range uint64(300) {
					if f := get(id); f.ID != id || ix.HeldFamily(id) != f {
						t.Errorf("family %d is not the one that is held", id)
					}
				}
			}
		})
	}
	ix.ReleaseFamilies()
	ix.ReleaseFamilies() // of no effect any more
	beside.Wait()
	if get(7) != held || ix.HeldFamily(7) != held {
		t.Fatal("a family that is held was made anew")
	}
	for id := range uint64(freshMax) {
		get(1<<50 + id)
	}
	n := collect()
	for tries := 0; n > 2+freshMax && tries < 1000; tries++ { // cleanups come when they come
		n = collect()
	}
	if n != 2+freshMax {
		t.Fatalf("%d families in memory, want the two that are held and the last %d", n, freshMax)
	}
	if _, ok := held.Loc(Ref{LSN: 8}); !ok || ix.HeldFamily(1) != before {
		t.Fatal("a family that is held forgot its values")
	}
	runtime.KeepAlive(before)
}

// TestFamiliesHeld: a family that the index let go, and holds again, is the same for who
// asks, is listed once, and goes with the index.
func TestFamiliesHeld(t *testing.T) {
	fs := newFamilies()
	f := NewFamily(1)
	fs.hold(f)
	fs.hold(f)
	fs.drop(f)
	if !slices.Equal(fs.all(), []*Family{f}) || f.weak {
		t.Fatalf("%v in memory, one that is held twice and dropped once", fs.all())
	}
	fs.drop(f)
	if fs.get(1) != f {
		t.Fatal("a family that somebody holds was made anew")
	}
	fs.hold(f)
	if got := fs.all(); !slices.Equal(got, []*Family{f}) || fs.get(1) != f || fs.inMemory(1) != f {
		t.Fatalf("%v in memory, want the one that is held again", got)
	}
	left := weak.Make(fs)
	fs, f = nil, nil
	for n := 0; left.Value() != nil; n++ {
		if n == 100 {
			t.Fatal("families that nobody knows of stay in memory")
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}
