package crashfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base/vfs"
)

// exercise leaves a log with every kind of operation and many open ones.
func exercise(s *script) {
	s.mkdir("db")
	s.syncDir(".")
	s.create("db/MANIFEST.tmp")
	s.write("db/MANIFEST.tmp", 0, rep("m", 2))
	s.sync("db/MANIFEST.tmp")
	s.rename("db/MANIFEST.tmp", "db/MANIFEST")
	s.Mark("published")
	s.syncDir("db")
	s.create("db/log")
	for i := range int64(5) {
		s.write("db/log", i*700, strings.Repeat(string(rune('a'+i)), 700))
		if i == 2 {
			s.syncData("db/log")
			s.syncDir("db")
		}
	}
	s.truncate("db/log", 3000)
	s.create("db/x")
	s.remove("db/MANIFEST")
}

func all(f *FS, cut int, o Options) (sums []uint64, texts []string) {
	for st := range f.States(cut, o) {
		sums = append(sums, st.Fingerprint())
		texts = append(texts, st.String())
	}
	return sums, texts
}

// TestRepeatable: a failure found once can be shown again, in whatever order
// the cuts are visited, and each disk is shown once.
func TestRepeatable(t *testing.T) {
	s := newScript(t, New())
	exercise(s)
	o := Options{Seed: 5, Random: 20, Adversarial: true}
	var first [][]uint64
	var texts [][]string
	for cut := range s.Len() + 1 {
		sums, text := all(s.FS, cut, o)
		first, texts = append(first, sums), append(texts, text)
		if len(sums) == 0 {
			t.Fatalf("cut %d has no states", cut)
		}
		if u := slices.Compact(slices.Sorted(slices.Values(sums))); len(u) != len(sums) {
			t.Errorf("cut %d shows some disk twice", cut)
		}
	}
	for cut := s.Len(); cut >= 0; cut -= 3 {
		sums, text := all(s.FS, cut, o)
		if !slices.Equal(sums, first[cut]) || !slices.Equal(text, texts[cut]) {
			t.Errorf("cut %d differs when visited again", cut)
		}
	}
	// A moment stays what it is while the model moves on.
	early := make([]iter.Seq[State], s.Len()+1)
	for cut := range early {
		early[cut] = s.States(cut, o)
	}
	for cut, states := range early {
		n := 0
		for st := range states {
			if n >= len(first[cut]) || st.Fingerprint() != first[cut][n] {
				t.Fatalf("cut %d changed after later cuts were visited:\n%v", cut, st)
			}
			n++
		}
	}
	o.Seed++
	if sums, _ := all(s.FS, s.Len(), o); slices.Equal(sums, first[s.Len()]) {
		t.Error("the seed has no effect")
	}
}

// TestBreak: a consumer may stop at any state.
func TestBreak(t *testing.T) {
	s := newScript(t, New())
	exercise(s)
	sums, _ := all(s.FS, s.Len(), Options{Random: 3})
	for stop := range sums {
		n := 0
		for st := range s.States(s.Len(), Options{Random: 3}) {
			if st.Fingerprint() != sums[n] {
				t.Fatalf("state %d differs", n)
			}
			if n++; n > stop {
				break
			}
		}
	}
}

// TestSecondCrash: what survived a crash is durable, and a state's file systems
// are independent of it and of each other.
func TestSecondCrash(t *testing.T) {
	s := newScript(t, New())
	exercise(s)
	for st := range s.States(s.Len(), Options{Random: 10, Adversarial: true}) {
		one := newScript(t, st.FS())
		if sums, _ := all(one.FS, 0, Options{}); len(sums) != 1 || sums[0] != st.Fingerprint() {
			t.Fatalf("a fresh disk has states %x, want %x alone\n%v", sums, st.Fingerprint(), st)
		}
		one.mkdir("db")
		one.create("db/new")
		one.write("db/log", 0, "zzz")
		one.sync("db/log")
		n := 0
		for again := range one.States(one.Len(), Options{}) {
			if two := disk(again.FS()); !strings.Contains(two, "db/log=[z3") {
				t.Fatalf("second crash lost a synced write: %s\n%v", two, again)
			}
			n++
		}
		if n != 2 { // with db/new and without
			t.Fatalf("second crash has %d states", n)
		}
		if sums, _ := all(st.FS(), 0, Options{}); sums[0] != st.Fingerprint() {
			t.Fatal("writing to a state's file system changed the state")
		}
	}
}

// TestNewFrom: a given disk is durable, and shared with nobody.
func TestNewFrom(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{})
	if err := m.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	f, err := m.Create("db/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("abc"), 0); err != nil {
		t.Fatal(err)
	}
	s := newScript(t, NewFrom(m))
	s.truncate("db/f", 1)
	if got, want := s.disks(Options{}), []string{"db/ db/f=a", "db/ db/f=abc"}; !slices.Equal(got, want) {
		t.Errorf("disks are %q, want %q", got, want)
	}
	if size, _ := f.Size(); size != 3 {
		t.Errorf("the source has %d bytes now", size)
	}
}

// TestKill: the death of a process drops locks and handles but no data, and
// makes nothing durable.
func TestKill(t *testing.T) {
	s := newScript(t, New())
	s.durable("f", "a")
	s.write("f", 0, "b")
	l, err := s.Lock("LOCK", "first")
	s.must(err)
	old := s.file("f")
	s.Kill()
	if _, err := old.WriteAt([]byte("c"), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a dead process wrote: %v", err)
	}
	if err := l.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a dead process unlocked: %v", err)
	}
	if _, err := s.Lock("LOCK", "second"); err != nil {
		t.Errorf("the lock survived its holder: %v", err)
	}
	s.syncDir(".")
	b := make([]byte, 1)
	h, err := s.Open("f")
	s.must(err)
	if _, err := h.ReadAt(b, 0); err != nil || string(b) != "b" {
		t.Errorf("the next process reads %q, %v", b, err)
	}
	if got, want := disk(NewFrom(s.Mem())), "LOCK=second f=b"; got != want {
		t.Errorf("the system sees %q, want %q", got, want)
	}
	if got, want := s.disks(Options{}), []string{"LOCK= f=?", "LOCK= f=a", "LOCK= f=b"}; !slices.Equal(got, want) {
		t.Errorf("disks are %q, want %q", got, want)
	}
}

func TestString(t *testing.T) {
	s := newScript(t, New())
	s.durable("f", "aa")
	s.Mark("put 1")
	s.write("f", 0, "b")
	s.Mark("put 2")
	s.create("g")
	if got, want := s.Op(3), "sync directory ."; got != want {
		t.Errorf("operation 3 is %q, want %q", got, want)
	}
	var got string
	for st := range s.States(5, Options{Seed: 7}) {
		if st.Cut() != 5 {
			t.Errorf("cut is %d", st.Cut())
		}
		got = st.String()
		break
	}
	want := `crash after 5 operations (mark "put 2"), state 0: all dropped
repro: state 0 of States(5, crashfs.Options{Seed: 7, Random: 0, MaxTorn: 0, MaxSingle: 0, Adversarial: false})
last operation: write f [0, +1)
  #4 write f [0, +1): dropped
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestMaxSingle: long stretches without a sync stay affordable.
func TestMaxSingle(t *testing.T) {
	s := newScript(t, New())
	s.durable("f", "")
	for i := range int64(200) {
		s.write("f", i, "x")
	}
	full, _ := all(s.FS, s.Len(), Options{})
	few, texts := all(s.FS, s.Len(), Options{MaxSingle: 10})
	if len(full) < 400 || len(few) > 40 {
		t.Errorf("%d states, limited to %d", len(full), len(few))
	}
	if !strings.Contains(strings.Join(texts, ""), fmt.Sprintf("without #%d", s.Len()-1)) {
		t.Error("the most recent write is not among them")
	}
}

// TestConcurrent: states are explored while the store still runs.
func TestConcurrent(t *testing.T) {
	s := newScript(t, New())
	exercise(s)
	n := s.Len()
	want, _ := all(s.FS, n, Options{Random: 5})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range int64(100) {
			if _, err := s.file("db/log").WriteAt([]byte("more"), i*100); err != nil {
				t.Error(err)
			}
		}
	})
	var shared State
	for shared = range s.States(n, Options{}) {
	}
	for range 3 {
		wg.Go(func() {
			if got, _ := all(s.FS, n, Options{Random: 5}); !slices.Equal(got, want) {
				t.Error("states changed while the store ran on")
			}
			h, err := shared.FS().Create("new")
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := h.WriteAt([]byte("mine"), 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestAgainstMem: at any cut "all applied" is what the running system saw, and
// once everything is synced it is all there is.
func TestAgainstMem(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newScript(t, New())
		s.mkdir("d")
		s.syncDir(".")
		name := rapid.SampledFrom([]string{"d/a", "d/b", "d/c"})
		sums := map[int]uint64{}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			n, to := name.Draw(rt, "name"), name.Draw(rt, "to")
			if _, err := s.Open(n); err != nil {
				s.create(n)
			}
			off := rapid.Int64Range(0, 9000).Draw(rt, "off")
			switch rapid.IntRange(0, 7).Draw(rt, "op") {
			case 0, 1, 2:
				s.write(n, off, rapid.StringMatching(`[a-c]{1,600}`).Draw(rt, "data"))
			case 3:
				s.truncate(n, off)
			case 4:
				s.rename(n, to)
				s.open = map[string]vfs.File{}
			case 5:
				s.remove(n)
			case 6:
				s.syncData(n)
			case 7:
				s.syncDir("d")
			}
			sums[s.Len()] = fingerprint(s.mem.Image())
		}
		for cut, want := range sums {
			i := 0
			for st := range s.States(cut, Options{}) {
				if st.Fingerprint() == want {
					break
				}
				if i++; i == 2 { // dropped, applied
					rt.Fatalf("no state of cut %d is what the system saw", cut)
				}
			}
		}
		names, err := s.List("d")
		s.must(err)
		for _, n := range names {
			s.sync("d/" + n)
		}
		s.syncDir("d")
		if got, _ := all(s.FS, s.Len(), Options{Random: 5, Adversarial: true}); len(got) != 1 || got[0] != fingerprint(s.mem.Image()) {
			rt.Fatalf("%d states of a synced disk", len(got))
		}
	})
}

// BenchmarkStates is the price of a state on a store of 100 KiB with a log tail
// of eight unsynced frames: building it, its fingerprint, and a file system
// that starts from it.
func BenchmarkStates(b *testing.B) {
	f := New()
	write := func(h vfs.File, off int64, n int, c byte) {
		if _, err := h.WriteAt(bytes.Repeat([]byte{c}, n), off); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 4 {
		h, err := f.Create(fmt.Sprintf("segment-%d", i))
		if err != nil {
			b.Fatal(err)
		}
		write(h, 0, 25<<10, byte('a'+i))
		if err := h.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	h, err := f.Create("log")
	if err != nil {
		b.Fatal(err)
	}
	if err := f.SyncDir("."); err != nil {
		b.Fatal(err)
	}
	for i := range int64(8) {
		write(h, i*1000, 1000, byte('a'+i))
	}
	states := 0
	for b.Loop() {
		for st := range f.States(f.Len(), Options{Random: 20}) {
			_ = st.FS()
			states++
		}
	}
	b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
}
