package segment

import (
	"math/rand/v2"
	"testing"

	"github.com/stele-go/stele/base"
)

// discard takes writes and forgets them.
type discard struct {
	memFile
	size int64
}

func (f *discard) WriteAt(p []byte, off int64) (int, error) {
	f.size = off + int64(len(p))
	return len(p), nil
}
func (f *discard) Size() (int64, error) { return f.size, nil }
func (*discard) Sync() error            { return nil }
func (*discard) SyncData() error        { return nil }

// thread is the state of a chat: a list that grows, and two small channels.
func thread(r *rand.Rand, steps int) (versions [][]byte) {
	list := text(r, steps*300)
	for i := steps; i > 0; i-- {
		versions = append(versions, list[:i*300])
	}
	return versions
}

func buildThreads(b *Builder, threads int, versions [][]byte) (int64, error) {
	for id := range uint64(threads) {
		if err := b.BeginFamily(id); err != nil {
			return 0, err
		}
		for i, v := range versions {
			add := b.AddHistory
			if i == 0 {
				add = b.AddHot
			}
			if err := add(ValueID{base.LSN(len(versions) - i), 0}, v); err != nil {
				return 0, err
			}
		}
		if err := b.EndFamily(versions[0][:200]); err != nil {
			return 0, err
		}
	}
	p, err := b.Finish()
	return p.RawBytes, err
}

// BenchmarkBuild: threads whose history compresses together, and single values.
func BenchmarkBuild(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name     string
		versions [][]byte
	}{
		{"chat100", thread(r, 100)},
		{"text4K", [][]byte{text(r, 4<<10)}},
		{"noise4K", [][]byte{noise(r, 4<<10)}},
		{"noise4M", [][]byte{noise(r, 4<<20)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bd, err := NewBuilder(&discard{}, BuilderOptions{})
				must(b, err)
				n, err := buildThreads(bd, 16, c.versions)
				must(b, err)
				b.SetBytes(n)
			}
		})
	}
}

// BenchmarkRead: a directory, the newest value, the oldest value out of its
// block, and a value out of a block that is cached.
func BenchmarkRead(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	f := &memFile{}
	bd, err := NewBuilder(f, BuilderOptions{FileNum: 12})
	must(b, err)
	_, err = buildThreads(bd, 16, thread(r, 100))
	must(b, err)
	rd := open(b, f)
	fam, _, err := rd.Find(7)
	must(b, err)
	_, values, err := rd.directoryOf(7)
	must(b, err)
	oldest, newest := values[0].Loc, values[len(values)-1].Loc
	b.Run("directory100", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, err := rd.DirectoryAt(7, fam.DirOff, fam.DirStored)
			must(b, err)
		}
	})
	for name, l := range map[string]Loc{"head30K": newest, "history1M": oldest} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				block, err := rd.ReadBlock(l)
				must(b, err)
				_, err = rd.Value(l, block)
				must(b, err)
			}
		})
	}
	block, err := rd.ReadBlock(oldest)
	must(b, err)
	b.Run("cached300", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := rd.Value(oldest, block)
			must(b, err)
		}
	})
}

// BenchmarkOpen: footer and family index of a segment of 10,000 families.
func BenchmarkOpen(b *testing.B) {
	f := &memFile{}
	bd, err := NewBuilder(f, BuilderOptions{FileNum: 12})
	must(b, err)
	_, err = buildThreads(bd, 10_000, [][]byte{make([]byte, 500)})
	must(b, err)
	b.ReportAllocs()
	for b.Loop() {
		open(b, f)
	}
}
