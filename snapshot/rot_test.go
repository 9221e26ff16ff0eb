package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/base/fault"
)

// verdicts counts what damage came to.
type verdicts struct {
	right, corrupt, newer, wrong, lost int
}

func (v verdicts) String() string {
	return fmt.Sprintf("%d still right, %d corruption, %d version, %d last edit lost, %d wrong", v.right, v.corrupt, v.newer, v.lost, v.wrong)
}

// mark is the offset of the mark slot.
func (m *built) mark() int64 { return m.mf.size - slotsSize }

// judge decodes a damaged manifest. Only a right state or a typed error counts;
// the state before the last edit is counted apart, for files that were not
// closed.
func (m *built) judge(v *verdicts, b []byte) {
	st, _, err := decodeManifest(m.name, b, readOptions{})
	switch {
	case errors.Is(err, fault.ErrCorrupt):
		v.corrupt++
	case errors.Is(err, fault.ErrVersion):
		v.newer++
	case err == nil && m.is(st, len(m.states)-1):
		v.right++
	case err == nil && m.is(st, len(m.states)-2):
		v.lost++
	default:
		v.wrong++
	}
}

// allDamage damages m in every way of the list and judges each.
func allDamage(m *built) (bits, cuts, sectors verdicts) {
	b := bytes.Clone(m.b)
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			m.judge(&bits, b)
			b[i] ^= 1 << bit
		}
	}
	for n := range b {
		m.judge(&cuts, b[:n])
	}
	m.judge(&cuts, append(bytes.Clone(b), make([]byte, 512)...))
	for i := 0; i < len(b); i += 512 {
		for j := -512; j < len(b); j += 512 {
			if i == j {
				continue
			}
			d := bytes.Clone(b)
			if j < 0 {
				clear(d[i : i+512])
			} else {
				copy(d[i:i+512], b[j:j+512]) // duplicated
			}
			m.judge(&sectors, d)
			if j > i { // swapped
				copy(d[j:j+512], b[i:i+512])
				m.judge(&sectors, d)
			}
		}
	}
	return bits, cuts, sectors
}

// After a clean close nothing may be lost, whatever the damage.
func TestManifestRotAfterClose(t *testing.T) {
	m := buildManifest(t, 10, true)
	bits, cuts, sectors := allDamage(m)
	t.Logf("%d bytes, every bit: %v", len(m.b), bits)
	t.Logf("every length: %v", cuts)
	t.Logf("every sector zeroed, overwritten by every other, swapped: %v", sectors)
	for _, v := range []verdicts{bits, cuts, sectors} {
		if v.wrong+v.lost > 0 {
			t.Errorf("undetected damage: %v", v)
		}
	}
	if cuts.corrupt != len(m.b)+1 {
		t.Errorf("%d of %d wrong lengths found", cuts.corrupt, len(m.b)+1)
	}
}

// Without a close, the mark slot stands for the edits. Only damage that takes
// the slot together with the last edits goes unnoticed: no single sector can.
func TestManifestRotWithoutClose(t *testing.T) {
	m := buildManifest(t, 10, false)
	bits, cuts, sectors := allDamage(m)
	t.Logf("%d bytes, every bit: %v", len(m.b), bits)
	t.Logf("every length: %v", cuts)
	t.Logf("every sector zeroed, overwritten by every other, swapped: %v", sectors)
	if bits.wrong+bits.lost+cuts.wrong+cuts.lost > 0 {
		t.Error("undetected damage to one frame")
	}
	// A sector of the last edit, which lies in one or two, swapped with the mark slot.
	if last := (m.ends[10]-1)/512 - m.ends[9]/512 + 1; sectors.wrong+sectors.lost > int(last) {
		t.Error("undetected damage to one sector")
	}
}

// The blind spot that remains: the very last edit, if its mark did not reach the
// disk before the power failed. The edits before it are held by the older mark
// and by the promise of the last edit.
func TestManifestBlindSpot(t *testing.T) {
	m := buildManifest(t, 10, false)
	// The slot as it was after edit 9.
	m.mf.seq, m.mf.synced = m.mf.seq-1, m.ends[9]
	if err := m.mf.setSlot(frameMark); err != nil {
		t.Fatal(err)
	}
	var v verdicts
	for i := m.ends[0]; i < m.ends[10]; i++ {
		for bit := range 8 {
			m.b[i] ^= 1 << bit
			was := v.lost
			m.judge(&v, m.b)
			if v.lost > was && i < m.ends[9] {
				t.Errorf("a bit at %d costs the last edit, which begins at %d", i, m.ends[9])
			}
			m.b[i] ^= 1 << bit
		}
	}
	t.Logf("every bit of the edits: %v", v)
	if v.wrong > 0 || v.right > 0 || v.lost != int(m.ends[10]-m.ends[9])*8 {
		t.Error("the blind spot is not the last edit")
	}
}

// Damage that several respected logs take for a torn tail (bits in the middle,
// a zeroed frame header, a zeroed sector), beside a torn tail itself.
func TestTornTailOrDamage(t *testing.T) {
	const mid = 5
	for _, tc := range []struct {
		name    string
		damage  func(m *built)
		corrupt bool
		edits   int
	}{
		{"nothing", func(m *built) {}, false, 10},
		{"bit in the payload of an edit", func(m *built) { m.b[m.ends[mid]-3] ^= 4 }, true, 0},
		{"bit in the header of an edit", func(m *built) { m.b[m.ends[mid]+8] ^= 4 }, true, 0},
		{"frame header zeroed", func(m *built) { clear(m.b[m.ends[mid]:][:8]) }, true, 0},
		{"whole frame header zeroed", func(m *built) { clear(m.b[m.ends[mid]:][:frameHeaderSize]) }, true, 0},
		{"512 bytes zeroed", func(m *built) { clear(m.b[m.ends[mid]:][:512]) }, true, 0},
		{"bit in the last edit", func(m *built) { m.b[m.ends[10]-1] ^= 1 }, true, 0},
		{"last edits zeroed", func(m *built) { clear(m.b[m.ends[8]:m.ends[10]]) }, true, 0},
		{"bit in the mark", func(m *built) { m.b[m.mark()+3] ^= 1 }, false, 10},
		{"mark torn or never written", func(m *built) { clear(m.b[m.mark():][:slotSize]) }, false, 10},
		{"last edit torn, no mark", func(m *built) {
			clear(m.b[m.ends[10]-60 : m.ends[10]])
			clear(m.b[m.mark():][:slotSize])
		}, false, 9},
		{"last edit never written", func(m *built) {
			clear(m.b[m.ends[9]:m.ends[10]])
			clear(m.b[m.mark():][:slotSize])
		}, false, 9},
		{"edit before the last damaged, no mark", func(m *built) {
			m.b[m.ends[8]+20] ^= 1
			clear(m.b[m.mark():][:slotSize])
		}, true, 0},
		{"first edit damaged, no mark", func(m *built) {
			m.b[m.ends[0]+20] ^= 1
			clear(m.b[m.mark():][:slotSize])
		}, true, 0},
		{"state damaged", func(m *built) { m.b[headerSize+40] ^= 1 }, true, 0},
		{"state damaged, nothing behind it", func(m *built) {
			m.b[headerSize+40] ^= 1
			clear(m.b[m.ends[0]:])
		}, true, 0},
		{"frame of another place", func(m *built) { copy(m.b[m.ends[10]:], m.b[m.ends[9]:m.ends[10]]) }, false, 10},
	} {
		m := buildManifest(t, 10, false)
		tc.damage(m)
		st, rep, err := decodeManifest(m.name, m.b, readOptions{})
		if errors.Is(err, fault.ErrCorrupt) != tc.corrupt {
			t.Errorf("%s: error %v, corruption expected: %v", tc.name, err, tc.corrupt)
		}
		if !tc.corrupt && (rep.Edits != tc.edits || !same(st, m.states[tc.edits])) {
			t.Errorf("%s: %d edits, want %d", tc.name, rep.Edits, tc.edits)
		}
	}
}

// Every bit of an image, every length, every sector: whatever the damage, each
// part of the image reads right or gives a typed error.
func TestImageRot(t *testing.T) {
	pages := [][]byte{bytes.Repeat([]byte("page "), 100), []byte("another page"), randomBytes(700)}
	c := smallContent()
	c.Partitions = c.Partitions[:3]
	good, parts := buildImage(t, deltaHeader(9), c, pages...)
	h := deltaHeader(9)

	judge := func(v *verdicts, b []byte, size int64) {
		f := &bytesFile{b: b}
		worst := error(nil)
		note := func(err error, right bool) {
			switch {
			case err == nil && right:
			case errors.Is(err, fault.ErrCorrupt), errors.Is(err, fault.ErrVersion):
				worst = err
			default:
				v.wrong++
			}
		}
		// Pages are read through parts, without opening the image.
		for i, p := range parts {
			got, err := readPage(f, p.Off, p.Len, h.Salt)
			note(err, bytes.Equal(got, pages[i]))
		}
		im, err := OpenImage(f, "000009.img", size)
		note(err, true)
		if err == nil {
			note(nil, im.Header() == h)
			got, err := readTable(im)
			note(err, equalContent(got, c))
		}
		switch {
		case worst == nil:
			v.right++
		case errors.Is(worst, fault.ErrVersion):
			v.newer++
		default:
			v.corrupt++
		}
	}

	size := int64(len(good.b))
	b := bytes.Clone(good.b)
	var bits, cuts, sectors verdicts
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			judge(&bits, b, size)
			b[i] ^= 1 << bit
		}
	}
	for n := range b {
		judge(&cuts, b[:n], size)
		judge(&cuts, b[:n], int64(n)) // even if the manifest agrees with the length
	}
	for i := 0; i+512 <= len(b); i += 512 {
		d := bytes.Clone(b)
		clear(d[i : i+512])
		judge(&sectors, d, size)
		for j := 0; j+512 <= len(b); j += 512 {
			if i != j {
				d := bytes.Clone(b)
				copy(d[i:i+512], b[j:j+512])
				judge(&sectors, d, size)
			}
		}
	}
	t.Logf("%d bytes, every bit: %v", size, bits)
	t.Logf("every length: %v", cuts)
	t.Logf("every sector zeroed or overwritten by every other: %v", sectors)
	for _, v := range []verdicts{bits, cuts, sectors} {
		if v.wrong > 0 || v.right > 0 {
			t.Errorf("undetected damage: %v", v) // every byte of an image is covered
		}
	}
}
