package segment

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// faultFile fails the n-th operation of a builder, a write or a sync.
type faultFile struct {
	memFile
	n, ops  int
	short   bool // a failing write stores half
	cause   error
	failed  bool
	after   int // operations after the failure
	isWrite bool
}

func (f *faultFile) hit() bool {
	if f.failed {
		f.after++
	}
	f.ops++
	if f.ops-1 == f.n {
		f.failed = true
		return true
	}
	return false
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	if !f.hit() {
		return f.memFile.WriteAt(p, off)
	}
	f.isWrite = true
	if f.short {
		n, _ := f.memFile.WriteAt(p[:len(p)/2], off)
		return n, f.cause
	}
	return 0, f.cause
}

func (f *faultFile) SyncData() error { return f.Sync() }

func (f *faultFile) Attached() (int64, error) { return f.Size() }

func (f *faultFile) Sync() error {
	if f.hit() {
		return f.cause
	}
	return f.memFile.Sync()
}

// TestBuilderFaults fails every operation in turn: the error surfaces, nothing
// is retried, and what was left behind is no segment.
func TestBuilderFaults(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	big, some := noise(r, 300<<10), noise(r, 5<<10)
	build := func(f *faultFile) (err error) {
		note := func(e error) {
			if err != nil && !errors.Is(e, err) {
				t.Fatalf("fault %d: %v after %v", f.n, e, err)
			}
			if err == nil {
				err = e
			}
		}
		b, e := NewBuilder(f, BuilderOptions{FileNum: 12, Salt: 3, SyncEvery: 100 << 10, BlockSize: 256 << 10})
		note(e)
		for id := range uint64(3) {
			note(b.BeginFamily(id))
			note(b.AddHistory(ValueID{base.LSN(id + 1), 0}, big))
			note(b.AddHot(ValueID{base.LSN(id + 1), 1}, some, some))
			note(b.AddHistory(ValueID{base.LSN(id + 1), 2}, big[:200<<10]))
			note(b.EndFamily(some))
		}
		b.SetTombstones(some)
		_, e = b.Finish()
		note(e)
		_, e = b.Finish()
		if e == nil {
			t.Fatalf("fault %d: a second Finish succeeded", f.n)
		}
		b.Abort()
		return err
	}
	sites := 0
	for n := 0; ; n++ {
		f := &faultFile{n: n, short: n%2 == 0, cause: syscall.EIO}
		if n%3 == 0 {
			f.cause = syscall.ENOSPC
		}
		err := build(f)
		if !f.failed {
			must(t, err)
			break
		}
		sites++
		if !errors.Is(err, f.cause) {
			t.Fatalf("fault %d: %v, want %v", n, err, f.cause)
		}
		if f.after != 0 {
			t.Fatalf("fault %d: %d operations after the failure", n, f.after)
		}
		if _, err := Open(f, "000012.seg", int64(len(f.b))); f.isWrite && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("fault %d: opening what is left: %v", n, err)
		}
	}
	t.Logf("%d fault sites", sites)
	if sites < 20 {
		t.Fatal("too few to be all of them")
	}
}

// TestShortWriteWithoutError: a file that breaks the contract of WriteAt.
func TestShortWriteWithoutError(t *testing.T) {
	f := &faultFile{short: true}
	b, err := NewBuilder(f, BuilderOptions{})
	must(t, err)
	if _, err = b.Finish(); !errors.Is(err, io.ErrShortWrite) {
		t.Fatal(err)
	}
}

// TestCutWhileWritten: a segment that somebody cuts or extends in place while it is written is
// not finished, whenever that is.
func TestCutWhileWritten(t *testing.T) {
	big := noise(rand.New(rand.NewPCG(3, 3)), 300<<10)
	for _, size := range []int64{0, 100, 1 << 20} {
		for at := range 4 {
			fsys := vfs.NewMem(vfs.MemOptions{})
			f, err := fsys.Create("000012.seg")
			must(t, err)
			b, err := NewBuilder(f, BuilderOptions{FileNum: 12, Salt: 3, BlockSize: 64 << 10})
			must(t, err)
			for id := range 3 {
				must(t, b.BeginFamily(uint64(id)))
				if err == nil {
					err = b.AddHistory(ValueID{base.LSN(id + 1), 0}, big)
				}
				if err == nil {
					err = b.EndFamily(nil)
				}
				if id == at {
					other, oerr := fsys.OpenReadWrite("000012.seg")
					must(t, oerr)
					must(t, other.Truncate(size))
					must(t, other.Close())
				}
				if err != nil {
					break
				}
			}
			if err == nil {
				_, err = b.Finish()
			}
			b.Abort()
			if whole := at == 3; whole != (err == nil) || !whole && !strings.Contains(err.Error(), "in place") {
				t.Errorf("cut to %d behind family %d: %v", size, at, err)
			}
			must(t, f.Close())
		}
	}
}

// TestUsage: each misuse is refused before a byte is written, and the builder
// goes on.
func TestUsage(t *testing.T) {
	for _, o := range []BuilderOptions{
		{BlockSize: -1}, {BlockSize: MaxBlockSize + 1}, {HotBlockSize: -1}, {HotBlockSize: MaxHotBlockSize + 1},
		{Level: 5}, {Level: -1}, {SyncEvery: -1},
	} {
		if _, err := NewBuilder(&memFile{}, o); !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	f := &memFile{}
	b, err := NewBuilder(f, BuilderOptions{FileNum: 12})
	must(t, err)
	half := make([]byte, base.MaxStored/2+1)
	usage := func(what string, err error, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	usage("value outside of a family", b.AddHot(ValueID{1, 1}, nil), ErrUsage)
	usage("end without begin", b.EndFamily(nil), ErrUsage)
	must(t, b.BeginFamily(5))
	usage("begin twice", b.BeginFamily(6), ErrUsage)
	usage("LSN 0", b.AddHistory(ValueID{0, 1}, nil), ErrUsage)
	usage("patch against itself", b.AddHistoryPatch(ValueID{3, 1}, ValueID{3, 1}), ErrUsage)
	usage("patch against nothing", b.AddHistoryPatch(ValueID{3, 1}, ValueID{}), ErrUsage)
	usage("too large", b.AddHot(ValueID{3, 1}, half, half), fault.ErrTooLarge)
	_, err = b.Finish()
	usage("finish in a family", err, ErrUsage)
	if fam, values := b.Family(); fam != (FamilyInfo{}) || values != nil {
		t.Errorf("Family while one is open: %v, %v", fam, values)
	}
	must(t, b.AddHot(ValueID{3, 1}, []byte("v")))
	must(t, b.EndFamily(nil))
	usage("same id", b.BeginFamily(5), ErrUsage)
	usage("smaller id", b.BeginFamily(4), ErrUsage)
	if len(f.b) != 0 {
		t.Errorf("%d bytes written", len(f.b))
	}
	_, err = b.Finish()
	must(t, err)
	usage("after Finish", b.BeginFamily(9), ErrUsage)
	r := open(t, f)
	if p := r.Props(); p.Values != 1 || p.Families != 1 || p.MinLSN != 3 || p.MaxLSN != 3 {
		t.Errorf("%+v", p)
	}

	b, err = NewBuilder(&memFile{}, BuilderOptions{})
	must(t, err)
	must(t, b.BeginFamily(1))
	must(t, b.AddHot(ValueID{3, 1}, []byte("v")))
	must(t, b.AddHistory(ValueID{3, 1}, []byte("w")))
	usage("same value twice", b.EndFamily(nil), ErrUsage)
	_, err = b.Finish()
	usage("then Finish", err, ErrUsage)

	b, err = NewBuilder(&memFile{}, BuilderOptions{})
	must(t, err)
	b.Abort()
	usage("after Abort", b.BeginFamily(1), ErrUsage)
	b.Abort()
}

// TestInputsAreCopied: slices given to the builder may be reused at once.
func TestInputsAreCopied(t *testing.T) {
	f := &memFile{}
	b, err := NewBuilder(f, BuilderOptions{FileNum: 12})
	must(t, err)
	buf := make([]byte, 100)
	lend := func(s string) []byte { return append(buf[:0], s...) }
	b.SetTombstones(lend("tombs"))
	b.SetMeta(lend("meta"))
	must(t, b.BeginFamily(1))
	must(t, b.AddHot(ValueID{1, 0}, lend("head")))
	must(t, b.AddHistory(ValueID{2, 0}, lend("history")))
	must(t, b.EndFamily(lend("dir")))
	lend("xxxxxxxxxxxx")
	_, err = b.Finish()
	must(t, err)
	or := newOracle()
	or.tombs, or.meta = []byte("tombs"), []byte("meta")
	or.dirs[1] = []byte("dir")
	or.values[1] = map[ValueID][]byte{{1, 0}: []byte("head"), {2, 0}: []byte("history")}
	or.check(t, open(t, f))
}

// TestSyncAndLimit: writes and syncs come in steps of SyncEvery, and the limiter
// hears of every byte.
func TestSyncAndLimit(t *testing.T) {
	f := &memFile{}
	var heard, most int
	b, err := NewBuilder(f, BuilderOptions{SyncEvery: 64 << 10, Limiter: func(n int) { heard += n; most = max(most, n) }})
	must(t, err)
	v := noise(rand.New(rand.NewPCG(1, 1)), 100<<10)
	for id := range uint64(8) {
		must(t, b.BeginFamily(id))
		must(t, b.AddHot(ValueID{1, 0}, v, v))
		must(t, b.EndFamily(v))
		if fam, values := b.Family(); fam.ID != id || len(values) != 1 || values[0].Off+uint64(values[0].Stored) != fam.DirOff {
			t.Fatalf("Family: %+v %+v", fam, values)
		}
	}
	p, err := b.Finish()
	must(t, err)
	if heard != len(f.b) || most > 64<<10 || p.Size != int64(len(f.b)) {
		t.Errorf("limiter heard of %d of %d bytes, %d at most", heard, len(f.b), most)
	}
	if f.maxGap > 64<<10 || f.syncs < len(f.b)/(64<<10) {
		t.Errorf("%d syncs, up to %d bytes unsynced", f.syncs, f.maxGap)
	}
}

// TestCompressesInPieces: a large block is compressed in pieces, between which the
// limiter lets others have the processor, and that costs hardly any bytes.
func TestCompressesInPieces(t *testing.T) {
	var text []byte
	r := rand.New(rand.NewPCG(3, 3))
	for len(text) < 1<<20 {
		text = strconv.AppendUint(text, uint64(r.IntN(5000)), 36)
		text = append(text, " of the "...)
	}
	for name, parts := range map[string][][]byte{
		"one part":             {text[:700_000]},
		"little more than one": {text[:pieceSize+1]},
		"three pieces":         {text[:3*pieceSize]},
		"parts across a piece": {text[:10], text[10 : 3*pieceSize], text[3*pieceSize : 5*pieceSize-1], text[5*pieceSize-1:]},
		"more than a block":    {text, text, text},
	} {
		all := bytes.Join(parts, nil)
		f, turns := &memFile{}, 0
		b, err := NewBuilder(f, BuilderOptions{FileNum: 12, Limiter: func(n int) {
			if n == 0 {
				turns++
			}
		}})
		must(t, err)
		must(t, b.BeginFamily(1))
		must(t, b.AddHistory(ValueID{1, 0}, parts...))
		must(t, b.EndFamily(nil))
		if turns < len(all)/pieceSize {
			t.Errorf("%s: others had %d turns in %d bytes", name, turns, len(all))
		}
		info, _ := b.Family()
		_, err = b.Finish()
		must(t, err)
		or := newOracle()
		or.dirs[1], or.values[1] = nil, map[ValueID][]byte{{1, 0}: all}
		or.check(t, open(t, f))

		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
		must(t, err)
		if most := len(enc.EncodeAll(all, nil))*102/100 + 200; int(info.Stored) > most {
			t.Errorf("%s: %d bytes, want at most %d", name, info.Stored, most)
		}
	}
}

// TestDeterministic: the same calls make the same bytes.
func TestDeterministic(t *testing.T) {
	a, _, _ := small(t, BuilderOptions{})
	b, _, _ := small(t, BuilderOptions{SyncEvery: 100})
	if !bytes.Equal(a.b, b.b) {
		t.Fatal("two builds differ")
	}
}
