package segment

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
)

// countedFile counts the bytes that are read, refuses more than mostRead, and passes on
// what the file knows of its holes.
type countedFile struct {
	vfs.File
	read atomic.Int64
}

// mostRead is far less than a hole, so that a test that reads one fails at once.
const mostRead = 4 << 20

func (f *countedFile) ReadAt(b []byte, off int64) (int, error) {
	if f.read.Add(int64(len(b))) > mostRead {
		return 0, errors.New("a hole is read")
	}
	return f.File.ReadAt(b, off)
}

func (f *countedFile) NextData(off int64) (int64, error) {
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	return vfs.NextData(f.File, off, size)
}

const hole = 8 << 30

// extended is a segment that somebody made as long as a hole, with these bytes behind it.
func extended(t *testing.T, segment, behind []byte, at int64) *countedFile {
	t.Helper()
	fs := vfs.NewMem(vfs.MemOptions{})
	must(t, fs.MkdirAll("/s"))
	f, err := fs.Create("/s/" + base.SegmentFile.Name(12))
	must(t, err)
	_, err = f.WriteAt(segment, 0)
	must(t, errors.Join(err, f.Truncate(hole)))
	if len(behind) > 0 {
		_, err = f.WriteAt(behind, at)
		must(t, err)
	}
	return &countedFile{File: f}
}

// TestHolesAreNotRead: whoever walks the frames of a segment that was extended by a hole
// reads no more of it than a few pieces, and finds everything.
func TestHolesAreNotRead(t *testing.T) {
	for name, whole := range map[string]bool{"whole": true, "damaged": false} {
		small, or, _ := small(t, BuilderOptions{})
		b := small.b
		if !whole { // a directory is lost: what Verify meets in the gap, it walks through
			for _, x := range frames(t, b) {
				if h, _ := peekFrameHeader(b[x.off:]); h.kind == kindDirectory {
					b = flip(b, int64(x.off)+frameHeaderSize)
					break
				}
			}
		}
		f := extended(t, b, nil, 0)
		r, damage, err := Salvage(context.Background(), f, base.SegmentFile.Name(12), hole)
		must(t, err)
		if whole && r.Props().Families != len(or.dirs) || len(damage) == 0 {
			t.Errorf("%s: %d families of %d, damage %v", name, r.Props().Families, len(or.dirs), damage)
		}
		if err := r.Verify(context.Background(), nil); whole && err == nil {
			t.Errorf("%s: bytes that nothing refers to are not told", name)
		}
		_, _, err = Inspect(context.Background(), f, base.SegmentFile.Name(12), hole, func(FrameInfo) error { return nil })
		must(t, err)
		if n := f.read.Load(); n > mostRead {
			t.Errorf("%s: %d bytes were read of a segment of %d", name, n, len(b))
		}
	}
}

// TestFrameBehindHole: a frame behind a hole is found, also if the hole ends in its
// header.
func TestFrameBehindHole(t *testing.T) {
	small, _, props := small(t, BuilderOptions{})
	for _, at := range []int64{hole - 1<<20, hole - 1<<20 - 8, hole - 1<<20 - 24, hole - 1<<20 + 4096 - 8} {
		payload := []byte("tombstones behind a hole")
		b := sealFrame(frameHeader{kind: kindTombstones, stored: uint32(len(payload)), raw: uint32(len(payload))}, payload, props.Salt, at)
		r, _, err := Salvage(context.Background(), extended(t, small.b, b, at), base.SegmentFile.Name(12), hole)
		must(t, err)
		if got, err := r.Tombstones(); err != nil || string(got) != string(payload) {
			t.Errorf("behind a hole at %d: %q, %v", at, got, err)
		}
	}
}
