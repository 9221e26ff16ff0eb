package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
)

// envInt reads a number that scales a test, or its seed.
func envInt(t testing.TB, name string, def int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// ack is a state, and the operation count at which its call had returned.
type ack struct {
	at int
	st State
}

// history is one life of a manifest on a recording file system.
type history struct {
	fs   *crashfs.FS
	acks []ack
	next int // edit of the script
	// closed are the operation counts at which a Close had returned and nothing
	// had been done since.
	closed []int
}

func (h *history) ack(st State) { h.acks = append(h.acks, ack{h.fs.Len(), st}) }

// allowed is what a crash after cut operations may leave: the last state that
// was acknowledged, or the one being applied. none: no manifest is fine too.
func (h *history) allowed(cut int) (states []State, none bool) {
	i, found := slices.BinarySearchFunc(h.acks, cut+1, func(a ack, at int) int { return a.at - at })
	_ = found // acks at cut itself count as acknowledged
	if i > 0 {
		states = append(states, h.acks[i-1].st)
	}
	if i < len(h.acks) {
		states = append(states, h.acks[i].st)
	}
	return states, i == 0
}

func (h *history) edits(t *testing.T, m *Manifest, n int) {
	t.Helper()
	for range n {
		st := m.State()
		st, err := m.Apply(scriptEdit(h.next, &st))
		if err != nil {
			t.Fatalf("edit %d: %v", h.next, err)
		}
		h.next++
		h.ack(st)
	}
}

func (h *history) close(t *testing.T, m *Manifest) {
	t.Helper()
	h.fs.Mark("close")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	h.closed = append(h.closed, h.fs.Len())
}

// newHistory creates a manifest, edits it across a rotation, closes it, opens
// it again, dies without closing, and opens it once more.
func newHistory(t *testing.T, seed uint64) *history {
	t.Helper()
	h := &history{fs: crashfs.New()}
	if err := errors.Join(h.fs.MkdirAll(testDir), h.fs.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	open := func(n uint64) *Manifest {
		h.fs.Mark("open")
		m, _, err := Open(h.fs, testDir, seeded(seed+n))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	h.fs.Mark("create")
	m, err := Create(h.fs, testDir, firstState(), seeded(seed))
	if err != nil {
		t.Fatal(err)
	}
	h.ack(m.State())
	h.fs.Mark("edits")
	h.edits(t, m, 40)
	if m.file.num != 2 {
		t.Fatalf("the edits ended in manifest %s: one rotation is meant to be among them", m.file.num)
	}
	h.close(t, m)
	m = open(1)
	h.edits(t, m, 5)
	h.fs.Kill()
	m = open(2)
	h.edits(t, m, 3)
	h.close(t, m)
	return h
}

// matches loads what a crash left and compares. closed: a Close had returned.
func matches(fsys vfs.FS, states []State, none, closed bool) (State, error) {
	st, rep, err := Load(fsys, testDir)
	if errors.Is(err, ErrNoManifest) && none {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	if closed && (!rep.Closed || rep.Dropped > 0) {
		return State{}, fmt.Errorf("the close is gone: %+v", rep)
	}
	if !slices.ContainsFunc(states, func(s State) bool { return same(s, st) }) {
		return State{}, fmt.Errorf("not a state that may be there: %+v", rep)
	}
	return st, nil
}

// TestManifestCrash cuts the power after every operation, and again while the
// manifest is being opened after that.
func TestManifestCrash(t *testing.T) {
	seed := uint64(envInt(t, "SEED", 1))
	want := envInt(t, "CRASH_STATES", 1500)
	seen := map[uint64]struct{}{}
	total, deep := 0, 0
	for _, adversarial := range []bool{false, true} {
		h := newHistory(t, seed)
		o := crashfs.Options{Seed: seed, Random: want / h.fs.Len(), MaxTorn: 9, Adversarial: adversarial}
		for cut := 2; cut <= h.fs.Len(); cut += race.Every { // from the durable directory on
			states, none := h.allowed(cut)
			first := true
			for s := range h.fs.States(cut, o) {
				total++
				seen[s.Fingerprint()] = struct{}{}
				st, err := matches(s.FS(), states, none, slices.Contains(h.closed, cut))
				if err != nil {
					t.Fatalf("%v\n%s\n%s", err, s, repro(t, "SEED", seed))
				}
				if st.StoreID != 0 && (first || total%16 == 0) {
					first = false
					deep += crashAgain(t, s, st, seed, seen)
				}
			}
		}
	}
	t.Logf("%d crash states, %d more during recovery, %d distinct (SEED=%d)", total, deep, len(seen), seed)
	if len(seen) < 500/race.Every {
		t.Errorf("only %d distinct states", len(seen))
	}
}

// crashAgain opens the manifest a crash left, edits it once, and crashes again
// after every operation of that. st is what Load found in it.
func crashAgain(t *testing.T, s crashfs.State, st State, seed uint64, seen map[uint64]struct{}) int {
	t.Helper()
	h := &history{fs: s.FS(), next: 5} // an edit that is right in every state
	m, rep, err := Open(h.fs, testDir, seeded(seed+77))
	if err != nil || !same(m.State(), st) || rep.Leftover != nil {
		t.Fatalf("open: %v, %+v\n%s", err, rep, s)
	}
	h.acks = []ack{{0, st}}
	h.edits(t, m, 1)
	h.close(t, m)
	if names, err := h.fs.List(testDir); err != nil || len(names) != 1 {
		t.Fatalf("files after the recovery: %v, %v\n%s", names, err, s)
	}
	n := 0
	for cut := 0; cut <= h.fs.Len(); cut++ {
		states, _ := h.allowed(cut)
		for s2 := range h.fs.States(cut, crashfs.Options{Seed: seed, MaxTorn: 2}) {
			n++
			seen[s2.Fingerprint()] = struct{}{}
			if _, err := matches(s2.FS(), states, false, slices.Contains(h.closed, cut)); err != nil {
				t.Fatalf("%v\nfirst crash: %s\nsecond: %s\n%s", err, s, s2, repro(t, "SEED", seed))
			}
		}
	}
	return n
}

// An image that a crash left half written never passes for one: it reads right,
// or it is damaged.
func TestImageCrash(t *testing.T) {
	c := smallContent()
	fsys := crashfs.New()
	if err := errors.Join(fsys.MkdirAll(testDir), fsys.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	name := testDir + "/" + base.ImageFile.Name(9)
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewImageWriter(f, deltaHeader(9))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // more than one write
		if _, _, err := w.AddPage(randomBytes(imageChunk)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeTable(w, c); err != nil {
		t.Fatal(err)
	}
	size, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := fsys.SyncDir(testDir); err != nil {
		t.Fatal(err)
	}
	seed := uint64(envInt(t, "SEED", 1))
	right, damaged, absent := 0, 0, 0
	for cut := 2; cut <= fsys.Len(); cut++ {
		for s := range fsys.States(cut, crashfs.Options{Seed: seed, Random: 10, MaxTorn: 20, Adversarial: true}) {
			err := readCrashedImage(s.FS(), name, size, c)
			switch {
			case err == nil:
				right++
			case errors.Is(err, fault.ErrCorrupt):
				damaged++
			case errors.Is(err, fs.ErrNotExist):
				absent++
			default:
				t.Fatalf("%v\n%s\n%s", err, s, repro(t, "SEED", seed))
			}
			if cut == fsys.Len() && err != nil {
				t.Fatalf("after all syncs: %v\n%s", err, s)
			}
		}
	}
	t.Logf("%d right, %d damaged, %d absent (SEED=%d)", right, damaged, absent, seed)
	if right == 0 || damaged == 0 || absent == 0 {
		t.Error("a kind of state is missing")
	}
}

func readCrashedImage(fsys vfs.FS, name string, size int64, want content) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	im, err := OpenImage(f, base.ImageFile.Name(9), size)
	if err != nil {
		return err
	}
	got, err := readTable(im)
	if err == nil && !equalContent(got, want) {
		return errors.New("a wrong table")
	}
	return err
}

// fullDisk refuses the writes and renames behind the first `room`, until more is set: of each it does nothing, a half, or all.
type fullDisk struct {
	vfs.FS
	done, room, more int
	halves           int
}

func (d *fullDisk) refuses() bool {
	d.done++
	return d.done > d.room && d.done <= d.room+d.more
}

func (d *fullDisk) Rename(from, to string) error {
	if !d.refuses() {
		return d.FS.Rename(from, to)
	}
	if d.halves == 2 {
		_ = d.FS.Rename(from, to) // it is not told
	}
	return syscall.ENOSPC
}

func (d *fullDisk) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return &fullFile{f, d}, err
}

func (d *fullDisk) OpenReadWrite(name string) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name)
	return &fullFile{f, d}, err
}

type fullFile struct {
	vfs.File
	disk *fullDisk
}

func (f *fullFile) WriteAt(b []byte, off int64) (int, error) {
	if !f.disk.refuses() {
		return f.File.WriteAt(b, off)
	}
	n := 0
	if f.disk.halves > 0 {
		n, _ = f.File.WriteAt(b[:len(b)*f.disk.halves/2], off) // it is not told
	}
	return n, syscall.ENOSPC
}

// TestManifestFullInPlace: a file system that copies what is written over may have no room for that, too. An edit that is
// refused is in no crash state, later ones are made when there is room again, and where it is not known whether an edit
// was made, the manifest is poisoned.
func TestManifestFullInPlace(t *testing.T) {
	seed := uint64(envInt(t, "SEED", 1))
	refused, poisoned, states := 0, 0, 0
	for _, halves := range []int{0, 1, 2} {
		for _, more := range []int{1, 4} {
			for room := 2; ; room += race.Every {
				h := &history{fs: crashfs.New()}
				if err := errors.Join(h.fs.MkdirAll(testDir), h.fs.SyncDir("/")); err != nil {
					t.Fatal(err)
				}
				disk := &fullDisk{FS: h.fs, room: room, more: more, halves: halves}
				o := seeded(seed)
				o.EditRoom = 200
				m, err := Create(disk, testDir, firstState(), o)
				if err != nil {
					t.Fatal(err)
				}
				h.ack(m.State())
				begin, ended := 0, false
				for i := 0; i < 45 && !ended; i++ {
					before := h.fs.Len()
					st := m.State()
					e := scriptEdit(i, &st)
					next := st.Clone()
					if next.apply(&e) != nil {
						continue // the script is ahead of the state after a refusal
					}
					_, err := m.Apply(e)
					switch {
					case err == nil:
						h.ack(next)
					case errors.Is(err, fault.ErrPoisoned) && halves == 2:
						poisoned++
						h.acks = append(h.acks, ack{h.fs.Len() + 1, next})
						ended = true
					case errors.Is(err, fault.ErrDiskFull) && !errors.Is(err, fault.ErrPoisoned):
						refused++
					default:
						t.Fatalf("halves=%d room=%d: %v", halves, room, err)
					}
					if begin == 0 && disk.done > room {
						begin = before
					}
				}
				what := fmt.Sprintf("halves=%d more=%d room=%d\n%s", halves, more, room, repro(t, "SEED", seed))
				if !ended {
					if disk.done < room+more {
						break
					}
					h.close(t, m)
				}
				last := h.fs.Len()
				for cut := begin; cut <= min(begin+12, last); cut++ {
					allowed, _ := h.allowed(cut)
					for s := range h.fs.States(cut, crashfs.Options{Seed: seed, MaxTorn: 3}) {
						states++
						if _, err := matches(s.FS(), allowed, false, slices.Contains(h.closed, cut)); err != nil {
							t.Fatalf("%v\n%s\n%s", err, s, what)
						}
					}
				}
			}
		}
	}
	t.Logf("%d refusals, %d poisonings, %d crash states", refused, poisoned, states)
	if refused < 50 || poisoned < 10 || states < 1000 {
		t.Error("a kind of fault was not met")
	}
}
