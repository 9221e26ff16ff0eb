package index

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/internal/base"
)

func genRefs(t *rapid.T) ([]Ref, []Loc) {
	refs := make([]Ref, rapid.IntRange(0, 6).Draw(t, "refs"))
	locs := make([]Loc, len(refs))
	for i := range refs {
		refs[i] = Ref{LSN: base.LSN(rapid.IntRange(1, 8).Draw(t, "record")), Ord: uint16(rapid.IntRange(0, 1).Draw(t, "ordinal"))}
		locs[i] = genLoc(t)
	}
	return refs, locs
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
			refs, locs := genRefs(t)
			switch rapid.SampledFrom([]string{"add", "add missing", "move", "forget"}).Draw(t, "op") {
			case "add":
				f.Add(refs, locs)
				for i, r := range refs {
					m[r] = locs[i]
				}
			case "add missing":
				f.AddMissing(refs, locs, func(base.FileNum) bool { return true })
				for i, r := range refs {
					if _, ok := m[r]; !ok {
						m[r] = locs[i]
					}
				}
			case "move":
				from := genFiles(t)
				for i, r := range refs {
					if l, ok := m[r]; !ok || from[l.File] {
						m[r] = locs[i]
					}
				}
				f.Move(refs, locs, from)
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
	f.Values(func(r Ref, l Loc) { got[r] = l })
	if !maps.Equal(got, m) {
		t.Fatalf("values %v, want %v", got, m)
	}
	refs, _ := genRefs(t)
	for _, r := range refs {
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
