package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// TestFooter: OpenFooter reads the footer alone, and what is damaged there.
func TestFooter(t *testing.T) {
	f, or, props := small(t, BuilderOptions{})
	f.reads = 0
	r, err := OpenFooter(f, "000012.seg", props.Size)
	must(t, err)
	if f.reads != 1 || r.Props() != props {
		t.Fatalf("%d reads to open, properties %+v, want %+v", f.reads, r.Props(), props)
	}
	or.check(t, r)
	if _, err := OpenFooter(f, "000013.seg", props.Size); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("under another name: %v", err)
	}
	if _, err := OpenFooter(f, "000012.seg", props.Size-1); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a byte short: %v", err)
	}
}

// TestLazy: what is known is read without the index; the rest loads once asked.
func TestLazy(t *testing.T) {
	f, or, props := small(t, BuilderOptions{})
	eager := open(t, f)
	fam, ok, err := eager.Find(3)
	if !ok {
		t.Fatal(err)
	}
	r, err := OpenFooter(f, "000012.seg", props.Size)
	must(t, err)
	f.reads = 0
	_, values, err := r.DirectoryAt(3, fam.DirOff, fam.DirStored)
	must(t, err)
	_, err = r.ReadBlock(values[0].Loc)
	must(t, err)
	if f.reads != 2 {
		t.Fatalf("%d reads for a directory and a block", f.reads)
	}
	f.readErr = errors.New("not now")
	if _, err := r.Families(); !errors.Is(err, f.readErr) {
		t.Fatal(err)
	}
	f.readErr = nil
	or.check(t, r) // the failure was not remembered

	if _, _, err := r.DirectoryAt(4, fam.DirOff, fam.DirStored); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("directory of another family: %v", err)
	}
	if _, _, err := r.DirectoryAt(3, values[0].Off, values[0].Stored); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a block as directory: %v", err)
	}
	if _, err := r.ReadBlock(Loc{Off: fam.DirOff, Stored: fam.DirStored}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a directory as block: %v", err)
	}
}

// readBlock is ReadBlock, and LookIntoBlock must say the same.
func readBlock(r *Reader, loc Loc) ([]byte, error) {
	block, err := r.ReadBlock(loc)
	looked, same := false, false
	lerr := r.LookIntoBlock(loc, func(b []byte) { looked, same = true, bytes.Equal(b, block) })
	if looked != (err == nil) || looked && !same || (lerr == nil) != (err == nil) || err != nil && lerr.Error() != err.Error() {
		return nil, fmt.Errorf("ReadBlock says %w, LookIntoBlock %w (looked %t, same bytes %t)", err, lerr, looked, same)
	}
	return block, err
}

// TestReferrerSum: an intact value that is not the one meant is refused.
func TestReferrerSum(t *testing.T) {
	f, _ := tiny(t, 99)
	r := open(t, f)
	_, values, err := r.directoryOf(7)
	must(t, err)
	l := values[0].Loc
	block, err := r.ReadBlock(l)
	must(t, err)
	for name, bad := range map[string]Loc{
		"sum":   {l.Off, l.Stored, l.Inner, l.Len, l.Sum ^ 1},
		"place": {l.Off, l.Stored, l.Inner + 1, l.Len - 1, l.Sum},
		"end":   {l.Off, l.Stored, l.Inner, uint32(len(block)) + 1, l.Sum},
	} {
		if v, err := r.Value(bad, block); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %q, %v", name, v, err)
		}
	}
	v, err := r.Value(l, block)
	must(t, err)
	if cap(v) != len(v) {
		t.Error("appending to a value would reach into the block")
	}
}

// TestConcurrentReads runs every reading method at once on one lazy reader.
func TestConcurrentReads(t *testing.T) {
	f, or, props := small(t, BuilderOptions{})
	r, err := OpenFooter(f, "000012.seg", props.Size)
	must(t, err)
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		wg.Go(func() {
			for range 5 {
				for id, want := range or.dirs {
					dir, values, err := r.directoryOf(id)
					if err != nil || string(dir) != string(want) {
						errs <- fmt.Errorf("directory %d: %q, %w", id, dir, err)
						return
					}
					for _, v := range values {
						block, err := r.ReadBlock(v.Loc)
						if err == nil {
							var got []byte
							if got, err = r.Value(v.Loc, block); err == nil && string(got) != string(or.values[id][v.ValueID]) {
								err = errors.New("wrong bytes")
							}
						}
						if err != nil {
							errs <- err
							return
						}
					}
				}
			}
			if err := r.Verify(context.Background(), nil); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

// TestVerify: progress reaches the size of the file, a cancelled context stops,
// and what no table refers to is found although every checksum is right.
func TestVerify(t *testing.T) {
	f, _ := tiny(t, 99)
	size := int64(len(f.b))
	r := open(t, f)
	var steps []int64
	must(t, r.Verify(context.Background(), func(done, total int64) {
		if total != size {
			t.Errorf("total %d, want %d", total, size)
		}
		steps = append(steps, done)
	}))
	if len(steps) != 4 || steps[3] != size {
		t.Errorf("progress %v of %d", steps, size)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Verify(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, _, err := Salvage(ctx, f, "x", size); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	// A frame of the right salt and offset that belongs to no family.
	var out output
	grown := &memFile{}
	out = output{f: grown, syncEvery: 1 << 20}
	ft := r.toc.Load().footer
	stray := sealFrame(frameHeader{stored: 5, raw: 5, family: 7, kind: kindHead}, []byte("stray"), 99, size-footerSize)
	ft.Size += int64(len(stray))
	must(t, out.write(f.b[:size-footerSize], stray, ft.encode()))
	must(t, out.finish())
	r2, err := Open(grown, "000012.seg", ft.Size)
	must(t, err)
	var ce *fault.CorruptionError
	if err := r2.Verify(context.Background(), nil); !errors.As(err, &ce) || ce.Offset != size-footerSize {
		t.Errorf("stray frame: %v", err)
	}
}

// TestManyFindings: Verify of a file damaged all over ends, with a bounded list.
func TestManyFindings(t *testing.T) {
	f := &memFile{}
	b, err := NewBuilder(f, BuilderOptions{FileNum: 12})
	must(t, err)
	for id := range uint64(200) {
		must(t, b.BeginFamily(id))
		must(t, b.AddHot(ValueID{base.LSN(id + 1), 0}, []byte("value")))
		must(t, b.EndFamily([]byte("directory")))
	}
	_, err = b.Finish()
	must(t, err)
	r := open(t, f)
	for _, x := range frames(t, f.b) {
		if h, _ := peekFrameHeader(f.b[x.off:]); h.kind == kindHead || h.family%2 == 0 {
			f.b[x.off] ^= 1
		}
	}
	err = r.Verify(context.Background(), nil)
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) || len(many.Unwrap()) != maxFindings {
		t.Fatalf("%v", err)
	}
}

// TestVerifyDisagreement: files whose checksums are all right and whose tables
// contradict each other.
func TestVerifyDisagreement(t *testing.T) {
	f := &memFile{}
	b, err := NewBuilder(f, BuilderOptions{FileNum: 12})
	must(t, err)
	must(t, b.BeginFamily(1))
	must(t, b.AddHot(ValueID{7, 0}, []byte("value of the first family")))
	must(t, b.EndFamily(nil))
	_, values := b.Family()
	stolen := values[0]
	must(t, b.BeginFamily(2))
	b.fam.blocks = append(b.fam.blocks, extent{stolen.Off, stolen.Stored})
	b.fam.values = append(b.fam.values, stolen)
	must(t, b.EndFamily(nil))
	b.families[1].RawBytes++
	b.props.RawBytes++
	_, err = b.Finish()
	must(t, err)
	err = open(t, f).Verify(context.Background(), nil)
	for _, want := range []string{"two frames overlap", "it belongs to family 1, not 2", "does not agree with the family index"} {
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in: %v", want, err)
		}
	}

	f, _ = tiny(t, 99)
	foot := len(f.b) - footerSize
	for _, at := range []int{68, 72, 80, 88, 96} { // the totals
		b := bytes.Clone(f.b)
		b[foot+at] ^= 1
		b = reseal(b)
		if _, err := Open(&memFile{b: b}, "000012.seg", int64(len(b))); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("total at %d: %v", at, err)
		}
	}
	r := open(t, f)
	f.b[foot+3] ^= 1
	if err := r.Verify(context.Background(), nil); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("footer damaged after Open: %v", err)
	}
	f.b[foot+3] ^= 1
	other, _ := tiny(t, 100)
	copy(f.b, other.b[:fileHeaderSize])
	if err := r.Verify(context.Background(), nil); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("header of another segment: %v", err)
	}
	copy(f.b, other.b)
	if err := r.Verify(context.Background(), nil); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("another segment in place of the one opened: %v", err)
	}
}

// TestSalvageNewer: a frame of an unknown kind is reported and stepped over.
func TestSalvageNewer(t *testing.T) {
	f, or := tiny(t, 99)
	at := frames(t, f.b)[0]
	f.b[at.off+24] = byte(kindEnd)
	b := reseal(f.b)
	r, damage, err := Salvage(context.Background(), &memFile{b: b}, "000012.seg", int64(len(b)))
	must(t, err)
	if len(damage) != 1 || !errors.Is(damage[0], fault.ErrVersion) || r.Props().Families != len(or.dirs) {
		t.Fatalf("%+v, %v", r.Props(), damage)
	}
}
