package crashfs

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/vfstest"
)

func TestConformance(t *testing.T) {
	vfstest.Run(t, vfstest.Options{
		New: func(t *testing.T) (vfs.FS, string) {
			f := New()
			if err := f.MkdirAll("db"); err != nil {
				t.Fatal(err)
			}
			return f, "db"
		},
	})
}

// script drives an FS in tests: no step may fail.
type script struct {
	t *testing.T
	*FS
	open map[string]vfs.File
}

func newScript(t *testing.T, f *FS) *script {
	return &script{t: t, FS: f, open: map[string]vfs.File{}}
}

func (s *script) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) file(name string) vfs.File {
	s.t.Helper()
	f := s.open[name]
	if f == nil {
		var err error
		f, err = s.OpenReadWrite(name)
		s.must(err)
		s.open[name] = f
	}
	return f
}

func (s *script) create(name string) {
	s.t.Helper()
	f, err := s.FS.Create(name)
	s.must(err)
	s.open[name] = f
}

func (s *script) write(name string, off int64, data string) {
	s.t.Helper()
	_, err := s.file(name).WriteAt([]byte(data), off)
	s.must(err)
}

func (s *script) truncate(name string, size int64) { s.t.Helper(); s.must(s.file(name).Truncate(size)) }
func (s *script) sync(name string)                 { s.t.Helper(); s.must(s.file(name).Sync()) }
func (s *script) syncData(name string)             { s.t.Helper(); s.must(s.file(name).SyncData()) }
func (s *script) syncDir(dir string)               { s.t.Helper(); s.must(s.SyncDir(dir)) }
func (s *script) mkdir(dir string)                 { s.t.Helper(); s.must(s.MkdirAll(dir)) }

func (s *script) rename(from, to string) {
	s.t.Helper()
	s.must(s.Rename(from, to))
	s.open[to] = s.open[from]
	delete(s.open, from)
}

func (s *script) remove(name string) {
	s.t.Helper()
	s.must(s.Remove(name))
	delete(s.open, name)
}

// durable makes a file with everything synced.
func (s *script) durable(name, data string) {
	s.t.Helper()
	s.create(name)
	s.write(name, 0, data)
	s.sync(name)
	s.syncDir(".")
}

// disk writes an FS in one line: "dir/ name=bytes …". A zero byte is a dot, a
// full sector of one letter is that letter in upper case, garbage is "?".
func disk(f *FS) string {
	img := f.mem.Image()
	parts := []string{}
	for _, d := range img.Dirs {
		parts = append(parts, d+"/")
	}
	for _, name := range slices.Sorted(maps.Keys(img.Files)) {
		b := make([]byte, img.Files[name].Size())
		if _, err := img.Files[name].ReadAt(b, 0); err != nil && err != io.EOF {
			panic(err)
		}
		parts = append(parts, name+"="+spell(b))
	}
	return strings.Join(parts, " ")
}

func spell(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := min(len(b), sectorSize)
		sector := bytes.ReplaceAll(b[:n], []byte{0}, []byte("."))
		plain := !slices.ContainsFunc(sector, func(c byte) bool { return c != '.' && (c < 'a' || c > 'z') })
		switch {
		case !plain:
			out.WriteString("?")
		case n == sectorSize && bytes.Count(sector, sector[:1]) == n:
			out.Write(bytes.ToUpper(sector[:1]))
		case n == sectorSize:
			out.WriteString(runs(sector))
		default:
			out.Write(sector)
		}
		b = b[n:]
	}
	return out.String()
}

// runs writes a sector of several letters as [a511b1].
func runs(sector []byte) string {
	out := "["
	for len(sector) > 0 {
		n := len(sector) - len(bytes.TrimLeft(sector, string(sector[:1])))
		out += fmt.Sprintf("%c%d", sector[0], n)
		sector = sector[n:]
	}
	return out + "]"
}

func (s *script) disks(o Options) []string {
	seen := map[string]bool{}
	for st := range s.States(s.Len(), o) {
		seen[disk(st.FS())] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func rep(s string, sectors int) string { return strings.Repeat(s, sectors*sectorSize) }

// TestRules states the fault model by example: what is done to a file system,
// and every disk that may be left of it. Where a write has several sectors, one
// disk with some of them trashed and one with some missing are drawn from the
// seed.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *script)
		opt  Options
		want []string
	}{
		{
			name: "nothing happened",
			do:   func(*script) {},
			want: []string{""},
		}, {
			name: "an unsynced overwrite is there, or not, or garbage",
			do:   func(s *script) { s.durable("f", "aaaa"); s.write("f", 1, "bb") },
			want: []string{"f=?", "f=aaaa", "f=abba"},
		}, {
			name: "an unsynced extension may also leave zeros",
			do:   func(s *script) { s.durable("f", "aa"); s.write("f", 2, "bb") },
			want: []string{"f=?", "f=aa", "f=aa..", "f=aabb"},
		}, {
			name: "the size may come without the data, the data without the size",
			do:   func(s *script) { s.durable("f", "aa"); s.write("f", 1, "bb") },
			want: []string{"f=?", "f=aa", "f=aa.", "f=ab", "f=abb"},
		}, {
			name: "Sync covers",
			do:   func(s *script) { s.durable("f", "aa"); s.write("f", 1, "bb"); s.sync("f") },
			want: []string{"f=abb"},
		}, {
			name: "SyncData covers, with the size",
			do:   func(s *script) { s.durable("f", "aa"); s.write("f", 1, "bb"); s.syncData("f") },
			want: []string{"f=abb"},
		}, {
			name: "a sync covers what came before it only",
			do: func(s *script) {
				s.durable("f", "aa")
				s.write("f", 0, "b")
				s.syncData("f")
				s.truncate("f", 3)
			},
			want: []string{"f=ba", "f=ba."},
		}, {
			name: "a sync covers writes through other handles",
			do: func(s *script) {
				s.durable("f", "aa")
				s.write("f", 0, "b")
				h, err := s.Open("f")
				s.must(err)
				s.must(h.Sync())
			},
			want: []string{"f=ba"},
		}, {
			name: "a sync covers its own file only",
			do: func(s *script) {
				s.durable("f", "a")
				s.durable("g", "a")
				s.truncate("f", 0)
				s.truncate("g", 0)
				s.sync("g")
			},
			want: []string{"f= g=", "f=a g="},
		}, {
			name: "closing covers nothing",
			do: func(s *script) {
				s.durable("f", "aa")
				s.truncate("f", 1)
				s.must(s.file("f").Close())
			},
			want: []string{"f=a", "f=aa"},
		}, {
			name: "a truncation is there or not",
			do:   func(s *script) { s.durable("f", "aaaa"); s.truncate("f", 2); s.truncate("f", 4) },
			want: []string{"f=aa", "f=aa..", "f=aaaa"},
		}, {
			name: "a synced truncation stays",
			do:   func(s *script) { s.durable("f", "aaaa"); s.truncate("f", 2); s.syncData("f") },
			want: []string{"f=aa"},
		}, {
			name: "two writes survive in any combination",
			do:   func(s *script) { s.durable("f", "aaaa"); s.write("f", 0, "b"); s.write("f", 3, "c") },
			want: []string{"f=?", "f=aaaa", "f=aaac", "f=baaa", "f=baac"},
		}, {
			name: "a synced file without a synced name vanishes",
			do:   func(s *script) { s.create("f"); s.write("f", 0, "aa"); s.sync("f") },
			want: []string{"", "f=aa"},
		}, {
			name: "a synced name without synced data is empty, zeros or garbage",
			do:   func(s *script) { s.create("f"); s.write("f", 0, "aa"); s.syncDir(".") },
			want: []string{"f=", "f=..", "f=?", "f=aa"},
		}, {
			name: "a rename leaves the old names or the new",
			do:   func(s *script) { s.durable("f", "a"); s.durable("t", "b"); s.rename("t", "f") },
			want: []string{"f=a t=b", "f=b"},
		}, {
			name: "or, to an adversary, both",
			do:   func(s *script) { s.durable("f", "a"); s.durable("t", "b"); s.rename("t", "f") },
			opt:  Options{Adversarial: true},
			want: []string{"f=a t=b", "f=b", "f=b t=b"},
		}, {
			name: "a rename does not bring the data along",
			do: func(s *script) {
				s.durable("f", "a")
				s.create("t")
				s.write("t", 0, "b")
				s.rename("t", "f")
				s.syncDir(".")
			},
			want: []string{"f=", "f=.", "f=?", "f=b"},
		}, {
			name: "a removal may be undone, with the data as it was",
			do:   func(s *script) { s.durable("f", "a"); s.truncate("f", 0); s.remove("f") },
			want: []string{"", "f=", "f=a"},
		}, {
			name: "a synced removal is final",
			do:   func(s *script) { s.durable("f", "a"); s.remove("f"); s.syncDir(".") },
			want: []string{""},
		}, {
			name: "a file without a name leaves nothing, whatever is written to it",
			do: func(s *script) {
				s.durable("f", "a")
				h := s.file("f")
				s.remove("f")
				s.syncDir(".")
				s.disks(Options{}) // lets the model forget the file
				_, err := h.WriteAt([]byte("b"), 0)
				s.must(err)
				s.must(h.Sync())
			},
			want: []string{""},
		}, {
			name: "names survive in order",
			do:   func(s *script) { s.create("f"); s.create("g"); s.create("h") },
			want: []string{"", "f=", "f= g=", "f= g= h="},
		}, {
			name: "but to an adversary in any combination",
			do:   func(s *script) { s.create("f"); s.create("g"); s.create("h") },
			opt:  Options{Adversarial: true},
			want: []string{"", "f=", "f= g=", "f= g= h=", "f= h=", "g=", "g= h=", "h="},
		}, {
			name: "a name may pass from file to file",
			do: func(s *script) {
				s.durable("f", "a")
				s.remove("f")
				s.create("f")
				s.write("f", 0, "b")
				s.sync("f")
			},
			want: []string{"", "f=a", "f=b"},
		}, {
			name: "a lost creation does not stop the rename of the file",
			do:   func(s *script) { s.create("t"); s.rename("t", "f") },
			opt:  Options{Adversarial: true},
			want: []string{"", "f=", "f= t=", "t="},
		}, {
			name: "each name is a slot of its own: the last surviving operation on it decides",
			do:   func(s *script) { s.durable("f", "a"); s.durable("t", "b"); s.rename("t", "f"); s.remove("f") },
			opt:  Options{Adversarial: true},
			want: []string{"", "f=a t=b", "f=b", "t=b"},
		}, {
			name: "SyncDir covers its own directory only",
			do: func(s *script) {
				s.mkdir("d/e")
				s.syncDir(".")
				s.syncDir("d")
				s.create("d/f")
				s.create("d/e/g")
				s.syncDir("d")
			},
			want: []string{"d/ d/e/ d/e/g= d/f=", "d/ d/e/ d/f="},
		}, {
			name: "a lost directory takes everything with it",
			do: func(s *script) {
				s.mkdir("d")
				s.create("d/f")
				s.write("d/f", 0, "a")
				s.sync("d/f")
				s.syncDir("d")
			},
			want: []string{"", "d/ d/f=a"},
		}, {
			name: "directories survive in order, too",
			do:   func(s *script) { s.mkdir("d/e") },
			want: []string{"", "d/", "d/ d/e/"},
		}, {
			name: "the text of a lock is not part of the disk",
			do: func(s *script) {
				_, err := s.Lock("LOCK", "me")
				s.must(err)
			},
			want: []string{"", "LOCK="},
		}, {
			name: "a write is torn at sector boundaries, scattered and trashed by sectors",
			do:   func(s *script) { s.durable("f", rep("a", 4)); s.write("f", sectorSize, rep("b", 3)) },
			opt:  Options{Seed: 3},
			want: []string{"f=A???", "f=AAAA", "f=AABB", "f=ABAA", "f=ABB?", "f=ABBA", "f=ABBB"},
		}, {
			name: "the boundaries are those of the file, not of the write",
			do:   func(s *script) { s.durable("f", rep("a", 2)+"aa"); s.write("f", 511, "b"+rep("b", 1)+"b") },
			opt:  Options{Seed: 3},
			want: []string{
				"f=???", "f=AAaa", "f=[a511b1]Aaa", "f=[a511b1]Baa", "f=[a511b1]Bba", "f=ABba",
			},
		}, {
			name: "a torn extension ends at the tear, or in zeros",
			do:   func(s *script) { s.create("f"); s.syncDir("."); s.write("f", 0, rep("b", 3)) },
			opt:  Options{Seed: 3},
			want: []string{"f=", "f=...", "f=???", "f=.BB", "f=B", "f=B..", "f=B?B", "f=BB", "f=BB.", "f=BBB"},
		}, {
			name: "few tears are spread from the first boundary to the last",
			do:   func(s *script) { s.durable("f", rep("a", 8)); s.write("f", 0, rep("b", 8)) },
			opt:  Options{Seed: 3, MaxTorn: 3},
			want: []string{
				"f=????????", "f=AAAAAAAA", "f=ABBBBBBB", "f=BAAAAAAA", "f=BBBBAAAA", "f=BBBBBBBA", "f=BBBBBBBB",
				"f=B?BBB??B", "f=BAABABBB", // drawn from the seed
			},
		}, {
			name: "no tears",
			do:   func(s *script) { s.durable("f", rep("a", 2)); s.write("f", 0, rep("b", 2)) },
			opt:  Options{Seed: 3, MaxTorn: -1},
			want: []string{"f=??", "f=AA", "f=AB", "f=B?", "f=BA", "f=BB"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t, New())
			c.do(s)
			got := s.disks(c.opt)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("disks are\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}
