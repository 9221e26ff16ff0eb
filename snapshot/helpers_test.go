package snapshot

import (
	"bytes"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter draws salts that are the same in every run.
func counter(seed uint64) func() uint64 {
	return func() uint64 {
		seed += 0x9E3779B97F4A7C15
		return seed ^ seed>>29
	}
}

func ptr[T any](v T) *T { return &v }

// firstState is the state the scripts begin with.
func firstState() State {
	return State{
		FormatVersion: FormatVersion, StoreID: 0xabcdef0123456789, NextFileNum: 1, Created: 1_700_000_000_000_000,
		Options: map[string]string{"key": "value", "patch": "run-copy"},
	}
}

// scriptEdit is the i-th edit of an endless plausible life: logs begin, are
// flushed into segments and removed, segments are compacted, images replaced.
func scriptEdit(i int, s *State) Edit {
	next := s.NextFileNum
	lsn := base.LSN(1 + 100*i)
	switch i % 6 {
	case 0:
		salt := uint64(i/6%3) * 0x9e3779b97f4a7c15 // not known of one in three
		if i == 0 {
			salt = 0x5a17
		}
		return Edit{AddLogs: []LogInfo{{Num: next, BaseLSN: max(1, s.FloorLSN), Salt: salt}}}
	case 1:
		return Edit{
			AddSegments: []SegmentInfo{{Num: next, Size: 1000, Raw: 9000, MinLSN: 1, MaxLSN: lsn, Families: 3, Values: 70}},
			SetFloor:    ptr(max(s.FloorLSN, lsn+1)),
		}
	case 2:
		e := Edit{NextFileNum: next + 3}
		for _, l := range s.Logs {
			e.RemoveLogs = append(e.RemoveLogs, l.Num)
		}
		return e
	case 3:
		images := append([]ImageInfo(nil), s.Images...)
		if len(images) == 3 {
			images = nil
		}
		images = append(images, ImageInfo{Num: next, LSN: lsn, Full: len(images) == 0, Size: 4096})
		return Edit{SetImages: &images}
	case 4:
		e := Edit{}
		if len(s.Segments) > 2 {
			for _, g := range s.Segments {
				e.RemoveSegments = append(e.RemoveSegments, g.Num)
			}
			e.AddSegments = []SegmentInfo{{Num: next, Size: 5000, Raw: 99000, MinLSN: 1, MaxLSN: lsn}}
		}
		return e
	default:
		e := Edit{Clean: &CleanClose{LogEnd: 4711, LSN: lsn}}
		if n := len(s.Logs); n > 0 {
			e.Clean.LogNum = s.Logs[n-1].Num
		}
		return e
	}
}

// same compares states by their encoding, which is canonical.
func same(a, b State) bool { return bytes.Equal(appendState(nil, &a), appendState(nil, &b)) }

// built is a manifest file made frame by frame, with what a reader should see.
type built struct {
	name   string
	b      []byte
	mf     *manifestFile
	states []State  // states[i] holds after i edits
	codes  [][]byte // their encodings
	ends   []int64  // ends[i] is the offset after edit i (ends[0]: after the state)
}

// buildManifest lays out a manifest with n edits as Manifest does: the mark slot
// is set, and the close slot if it is closed.
func buildManifest(t testing.TB, n int, closed bool) *built {
	t.Helper()
	st := firstState()
	mf, b, err := newManifestFile(7, 6, &st, Options{Rand: counter(1), EditRoom: 2 << 10}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	file := &bytesFile{b: b}
	mf.f = file
	out := &built{name: ManifestName(7), mf: mf, states: []State{st}, ends: []int64{mf.tail}}
	for i := range n {
		e := scriptEdit(i, &st)
		st = st.Clone()
		if err := st.apply(&e); err != nil {
			t.Fatal(err)
		}
		if err := mf.append(appendEdit(nil, &e)); err != nil {
			t.Fatal(err)
		}
		mf.synced = mf.tail
		out.states, out.ends = append(out.states, st), append(out.ends, mf.tail)
		if err := mf.setSlot(frameMark); err != nil {
			t.Fatal(err)
		}
	}
	if mf.tail > mf.size-slotsSize {
		t.Fatalf("%d edits do not fit", n)
	}
	if closed {
		if err := mf.finish(); err != nil {
			t.Fatal(err)
		}
	}
	out.b = file.b
	return out
}

// is reports whether st is the state after i edits.
func (m *built) is(st State, i int) bool {
	if len(m.codes) == 0 {
		for _, s := range m.states {
			m.codes = append(m.codes, appendState(nil, &s))
		}
	}
	return bytes.Equal(appendState(nil, &st), m.codes[i])
}

// last is the state after all edits.
func (m *built) last() State { return m.states[len(m.states)-1] }

// repro prints how to run a seeded test again.
func repro(t testing.TB, env string, seed uint64) string {
	return fmt.Sprintf("%s=%d go test ./snapshot -run '^%s$'", env, seed, t.Name())
}

// readPage reads a page without opening the image.
func readPage(f vfs.File, off uint64, n uint32, salt uint64) ([]byte, error) {
	im := &Image{f: f, name: "000009.img", start: headerSize, fr: framer{salt: salt}}
	return im.ReadPage(off, n)
}

// fileOf is the number of the file that edits go to, or that the first will.
func fileOf(m *Manifest) base.FileNum {
	if m.file == nil {
		return m.found.next()
	}
	return m.file.num
}
