package snapshot

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

const testDir = "/store"

func newMem(t testing.TB, o vfs.MemOptions) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem(o)
	if err := m.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	return m
}

// seeded makes runs equal, and manifests as small as they get: 20 to 30 edits.
func seeded(seed uint64) Options { return Options{Rand: counter(seed), EditRoom: 1} }

func mustCreate(t testing.TB, fsys vfs.FS) *Manifest {
	t.Helper()
	m, err := Create(fsys, testDir, firstState(), seeded(1))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustOpen(t testing.TB, fsys vfs.FS) (*Manifest, LoadReport) {
	t.Helper()
	m, rep, err := Open(fsys, testDir, seeded(2))
	if err != nil {
		t.Fatal(err)
	}
	return m, rep
}

func mustLoad(t testing.TB, fsys vfs.FS) (State, LoadReport) {
	t.Helper()
	st, rep, err := Load(fsys, testDir)
	if err != nil {
		t.Fatal(err)
	}
	return st, rep
}

// applyScript applies n edits of the script, beginning with the i-th.
func applyScript(t testing.TB, m *Manifest, i, n int) State {
	t.Helper()
	st := m.State()
	for ; n > 0; i, n = i+1, n-1 {
		next, err := m.Apply(scriptEdit(i, &st))
		if err != nil {
			t.Fatalf("edit %d: %v", i, err)
		}
		st = next
	}
	return st
}

func listNames(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	names, err := fsys.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestManifestLife creates, edits over several files, loads beside the open
// manifest, closes and opens, on every file system.
func TestManifestLife(t *testing.T) {
	for _, tc := range []struct {
		name string
		fs   vfs.FS
		dir  string
	}{
		{"mem", newMem(t, vfs.MemOptions{}), testDir},
		{"mem with windows rules", newMem(t, vfs.MemOptions{WindowsRules: true}), testDir},
		{"os", vfs.OS{}, t.TempDir()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := Create(tc.fs, tc.dir, firstState(), seeded(1))
			if err != nil {
				t.Fatal(err)
			}
			st := m.State()
			for round := range 3 {
				for i := range 60 {
					want := st.Clone()
					e := scriptEdit(60*round+i, &st)
					if err := want.apply(&e); err != nil {
						t.Fatal(err)
					}
					if st, err = m.Apply(e); err != nil {
						t.Fatal(err)
					}
					if !same(st, want) || !same(m.State(), want) {
						t.Fatalf("edit %d gives %+v, want %+v", i, st, want)
					}
					got, rep, err := Load(tc.fs, tc.dir)
					if err != nil || !same(got, want) || rep.Dropped != 0 || rep.Closed {
						t.Fatalf("beside the writer: %v, %+v", err, rep)
					}
				}
				names, err := tc.fs.List(tc.dir)
				if err != nil || len(names) != 1 {
					t.Fatalf("files %v, error %v; want one manifest", names, err)
				}
				if err := errors.Join(m.Close(), m.Close()); err != nil {
					t.Fatal(err)
				}
				if !same(m.State(), st) {
					t.Error("State changed with Close")
				}
				got, rep, err := Load(tc.fs, tc.dir)
				if err != nil || !same(got, st) || !rep.Closed || rep.Leftover != nil {
					t.Fatalf("after the close: %v, %+v", err, rep)
				}
				if m, rep, err = Open(tc.fs, tc.dir, seeded(uint64(round)+9)); err != nil {
					t.Fatal(err)
				}
				if !same(m.State(), st) || !rep.Closed || rep.Leftover != nil || rep.File == "" {
					t.Fatalf("reopened with %+v", rep)
				}
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Apply(Edit{}); !errors.Is(err, fault.ErrClosed) {
				t.Errorf("Apply after Close: %v", err)
			}
		})
	}
}

func TestCreateFillsIn(t *testing.T) {
	m, err := Create(newMem(t, vfs.MemOptions{}), testDir, State{Created: 5, Logs: []LogInfo{{Num: 7, BaseLSN: 1}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	st := m.State()
	if st.FormatVersion != FormatVersion || st.StoreID == 0 || st.NextFileNum != 8 || st.Created != 5 {
		t.Errorf("state %+v", st)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCreateRefuses(t *testing.T) {
	fsys := newMem(t, vfs.MemOptions{})
	bad := firstState()
	bad.Logs = []LogInfo{{Num: 1}}
	if _, err := Create(fsys, testDir, bad, Options{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("bad state: %v", err)
	}
	newer := firstState()
	newer.FormatVersion = FormatVersion + 1
	if _, err := Create(fsys, testDir, newer, Options{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("newer format version: %v", err)
	}
	if names := listNames(t, fsys); len(names) > 0 {
		t.Errorf("a refused Create left %v", names)
	}
	m := mustCreate(t, fsys)
	if _, err := Create(fsys, testDir, firstState(), Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second Create: %v", err)
	}
	if _, err := Create(fsys, "/nowhere", firstState(), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create in no directory: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLoadWithoutManifest(t *testing.T) {
	fsys := newMem(t, vfs.MemOptions{})
	for _, dir := range []string{testDir, "/nowhere"} {
		_, _, err := Load(fsys, dir)
		_, _, err2 := Open(fsys, dir, Options{})
		_, _, err3 := LoadDamaged(fsys, dir)
		for _, err := range []error{err, err2, err3} {
			if !errors.Is(err, ErrNoManifest) || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v, want ErrNoManifest", dir, err)
			}
		}
	}
}

func TestRefusedEditWritesNothing(t *testing.T) {
	fsys := newMem(t, vfs.MemOptions{})
	m := mustCreate(t, fsys)
	st := applyScript(t, m, 0, 5)
	before := fileBytes(t, fsys, ManifestName(1))
	if _, err := m.Apply(Edit{RemoveLogs: []base.FileNum{99}}); !errors.Is(err, ErrInvalid) {
		t.Fatalf("error %v", err)
	}
	if _, err := m.Apply(Edit{AddLogs: []LogInfo{{Num: 1, BaseLSN: 1}, {Num: 1, BaseLSN: 1}}}); !errors.Is(err, ErrInvalid) {
		t.Fatalf("error %v", err)
	}
	if !bytes.Equal(before, fileBytes(t, fsys, ManifestName(1))) || !same(m.State(), st) {
		t.Error("a refused edit left a trace")
	}
	applyScript(t, m, 5, 1)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func fileBytes(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(filepath.Join(testDir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := readAll(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	_ = fsys.Remove(filepath.Join(testDir, name))
	f, err := fsys.Create(filepath.Join(testDir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Open continues in a file of its own and removes what that supersedes, and
// nothing that is not its own.
func TestOpenSweeps(t *testing.T) {
	fsys := newMem(t, vfs.MemOptions{})
	m := mustCreate(t, fsys)
	old := fileBytes(t, fsys, ManifestName(1))
	applyScript(t, m, 0, 3)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, _ = mustOpen(t, fsys)
	st := applyScript(t, m, 3, 3)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	// As after a crash that undid the removal of the first manifest, and one
	// that came before a rename.
	writeFile(t, fsys, ManifestName(1), old)
	writeFile(t, fsys, tempName(1_000_000), old[:100])
	for _, name := range []string{"LOCK", "000001.log", "MANIFEST-1", "MANIFEST-000001.bak"} {
		writeFile(t, fsys, name, []byte("x"))
	}
	got, rep := mustLoad(t, fsys)
	if !same(got, st) || rep.File != ManifestName(2) {
		t.Fatalf("loaded %+v", rep)
	}
	if want := []string{ManifestName(1), tempName(1_000_000)}; !slices.Equal(rep.Leftover, want) {
		t.Errorf("leftover %v, want %v", rep.Leftover, want)
	}
	m, rep = mustOpen(t, fsys)
	if !same(m.State(), st) || rep.Leftover != nil {
		t.Fatalf("opened with %+v", rep)
	}
	want := []string{"000001.log", "LOCK", "MANIFEST-000001.bak", "MANIFEST-1", ManifestName(1_000_001)}
	if d := cmp.Diff(want, listNames(t, fsys)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// A reader that holds the old manifest open keeps it from being removed on
// Windows. The writer goes on; the next Open removes it.
func TestRotationBesideOpenReader(t *testing.T) {
	fsys := newMem(t, vfs.MemOptions{WindowsRules: true})
	m := mustCreate(t, fsys)
	reader, err := fsys.Open(filepath.Join(testDir, ManifestName(1)))
	if err != nil {
		t.Fatal(err)
	}
	st := applyScript(t, m, 0, 120)
	if names := listNames(t, fsys); len(names) != 2 || names[0] != ManifestName(1) {
		t.Fatalf("files %v, want the first and the present manifest", names)
	}
	got, rep := mustLoad(t, fsys)
	if !same(got, st) || len(rep.Leftover) != 1 {
		t.Errorf("loaded %+v", rep)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, rep = mustOpen(t, fsys)
	if len(rep.Leftover) != 1 || rep.Leftover[0] != ManifestName(1) {
		t.Errorf("leftover %v while the reader is there", rep.Leftover)
	}
	if err := errors.Join(reader.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	m, rep = mustOpen(t, fsys)
	if names := listNames(t, fsys); len(names) != 1 || rep.Leftover != nil {
		t.Errorf("files %v, leftover %v", names, rep.Leftover)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// A damaged newest manifest is an error even if an older one is intact: the
// older one lacks edits that were acknowledged.
func TestDamagedNewestManifest(t *testing.T) {
	fsys := newMem(t, vfs.MemOptions{})
	m := mustCreate(t, fsys)
	first := m.State()
	old := fileBytes(t, fsys, ManifestName(1))
	applyScript(t, m, 0, 2)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, _ = mustOpen(t, fsys)
	st := applyScript(t, m, 2, 4)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, fsys, ManifestName(1), old)
	good := fileBytes(t, fsys, ManifestName(2))
	tail := bytes.LastIndexFunc(good[:len(good)-slotsSize], func(r rune) bool { return r != 0 })
	for _, tc := range []struct {
		name   string
		change func(b []byte) []byte
		want   State // what LoadDamaged finds
	}{
		{"empty", func(b []byte) []byte { return nil }, first},
		{"zeros", func(b []byte) []byte { clear(b); return b }, first},
		{"cut", func(b []byte) []byte { return b[:2048] }, first},
		{"state", func(b []byte) []byte { b[headerSize+50] ^= 1; return b }, first},
		{"last edit", func(b []byte) []byte { b[tail] ^= 1; return b }, State{}},
	} {
		writeFile(t, fsys, ManifestName(2), tc.change(bytes.Clone(good)))
		_, _, err := Load(fsys, testDir)
		var ce *fault.CorruptionError
		if !errors.As(err, &ce) || ce.File != ManifestName(2) {
			t.Errorf("%s: Load: %v", tc.name, err)
		}
		if _, _, err := Open(fsys, testDir, Options{}); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: Open: %v", tc.name, err)
		}
		got, rep, err := LoadDamaged(fsys, testDir)
		if err != nil || len(rep.Damage) != 1 || !errors.Is(rep.Damage[0], fault.ErrCorrupt) {
			t.Errorf("%s: LoadDamaged: %v, %+v", tc.name, err, rep)
		}
		if tc.want.StoreID == 0 { // all edits but the first, which is in the state, and the last
			if rep.File != ManifestName(2) || rep.Edits != 2 || same(got, st) {
				t.Errorf("%s: LoadDamaged found %+v", tc.name, rep)
			}
		} else if !same(got, tc.want) || rep.File != ManifestName(1) {
			t.Errorf("%s: LoadDamaged found %+v", tc.name, rep)
		}
	}
	writeFile(t, fsys, ManifestName(1), nil)
	writeFile(t, fsys, ManifestName(2), nil)
	if _, _, err := LoadDamaged(fsys, testDir); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("nothing intact: %v", err)
	}
}

// A full disk refuses the edit that needs a new file, and no other; when room
// returns the edit goes through.
func TestDiskFull(t *testing.T) {
	fsys := newMem(t, vfs.MemOptions{})
	m := mustCreate(t, fsys)
	fsys.SetCapacity(1)
	st := m.State()
	refused := 0
	for i := 0; refused == 0; i++ {
		next, err := m.Apply(scriptEdit(i, &st))
		switch {
		case err == nil:
			st = next
		case errors.Is(err, fault.ErrDiskFull) && !errors.Is(err, fault.ErrPoisoned):
			refused = i
		default:
			t.Fatalf("edit %d: %v", i, err)
		}
	}
	if refused < 20 {
		t.Errorf("refused edit %d already: the room for edits was not allocated ahead", refused)
	}
	if !same(m.State(), st) || len(listNames(t, fsys)) != 1 {
		t.Errorf("the refusal left a trace: %v", listNames(t, fsys))
	}
	if got, _ := mustLoad(t, fsys); !same(got, st) {
		t.Error("the state on disk is another")
	}
	if _, _, err := Open(fsys, testDir, Options{}); !errors.Is(err, fault.ErrDiskFull) {
		t.Errorf("Open on a full disk: %v", err)
	}
	fsys.SetCapacity(0)
	st = applyScript(t, m, refused, 30)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := mustLoad(t, fsys); !same(got, st) {
		t.Error("the state after room returned is another")
	}
}

func BenchmarkApply(b *testing.B) {
	dir := b.TempDir()
	m, err := Create(vfs.OS{}, dir, firstState(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := m.Apply(Edit{NextFileNum: m.State().NextFileNum + 1}); err != nil {
			b.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
}
