package segment

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// TestNewerIsNotDamage: intact bytes with a feature of a later version are a
// VersionError everywhere, never damage.
func TestNewerIsNotDamage(t *testing.T) {
	f, _ := tiny(t, 99)
	size := len(f.b)
	block := frames(t, f.b)[0] // the first history block, of family 7
	le := binary.LittleEndian
	for name, c := range map[string]struct {
		change func(b []byte)
		opens  bool
	}{
		"footer version":  {func(b []byte) { le.PutUint32(b[size-16:], FormatVersion+1) }, false},
		"footer flags":    {func(b []byte) { le.PutUint32(b[size-12:], 2) }, false},
		"header, no foot": {func(b []byte) { le.PutUint32(b[8:], 7); b[size-1] = 'x' }, false},
		"codec patch":     {func(b []byte) { b[block.off+25] = byte(codecPatch) }, true},
		"codec 9":         {func(b []byte) { b[block.off+25] = 9 }, true},
		"flag 15":         {func(b []byte) { le.PutUint16(b[block.off+26:], 1<<15) }, true},
		"kind":            {func(b []byte) { b[block.off+24] = byte(kindEnd) }, true},
	} {
		b := bytes.Clone(f.b)
		c.change(b)
		b = reseal(b)
		r, err := Open(&memFile{b: b}, "000012.seg", int64(size))
		if c.opens {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err = r.Verify(context.Background(), nil); errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: Verify says %v", name, err)
			}
			_, values, derr := r.directoryOf(7)
			must(t, derr)
			for _, v := range values {
				if _, rerr := r.ReadBlock(v.Loc); v.Off == block.off {
					err = rerr
				} else if rerr != nil {
					t.Errorf("%s: other block: %v", name, rerr)
				}
			}
		}
		var ve *fault.VersionError
		if name == "encrypted" && !strings.Contains(err.Error(), "encrypted frame") {
			t.Errorf("%s: %v", name, err)
		}
		if !errors.As(err, &ve) || errors.Is(err, fault.ErrCorrupt) || ve.Have <= ve.Supported || ve.File != "000012.seg" {
			t.Errorf("%s: %v", name, err)
		}
	}

	p := place{"000012.seg", "segment directory", 1 << 20, 0}
	d := appendDirectory(nil, nil, []extent{{64, 64}}, []ValueLoc{{ValueID: ValueID{3, 1}, Loc: Loc{64, 64, 0, 1, 0}, Encoding: 2}})
	if _, _, _, err := decodeDirectory(p, d); !errors.Is(err, fault.ErrVersion) || errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("value encoding 2: %v", err)
	}
}

// TestOwnErrors: magic, checksum and version are told apart.
func TestOwnErrors(t *testing.T) {
	f, _ := tiny(t, 99)
	size := int64(len(f.b))
	resized := bytes.Clone(f.b)
	resized[size-footerSize+24]++
	for _, c := range []struct {
		name   string
		b      []byte
		is     error
		detail string
	}{
		{"size", reseal(resized), fault.ErrCorrupt, "footer says"},
		{"stranger", bytes.Repeat([]byte("text "), 100), ErrMagic, "not a segment"},
		{"cut", f.b[:size-8], ErrMagic, "no footer at the end"},
		{"flip", flip(f.b, size-100), ErrChecksum, "footer"},
		{"empty", nil, fault.ErrCorrupt, "too few"},
	} {
		_, err := Open(&memFile{b: c.b}, "000012.seg", int64(len(c.b)))
		if !errors.Is(err, c.is) || !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.detail) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestTablesRefuse: tables with intact checksums that break a rule.
func TestTablesRefuse(t *testing.T) {
	p := place{"x", "segment directory", 4096, 0}
	blocks := []extent{{64, 64}, {128, 64}}
	good := func() []ValueLoc {
		return []ValueLoc{
			{ValueID: ValueID{3, 1}, Loc: Loc{64, 64, 0, 1, 7}},
			{ValueID: ValueID{3, 2}, Loc: Loc{128, 64, 0, 1, 7}, Encoding: ReversePatch, Base: ValueID{3, 1}},
		}
	}
	if _, _, _, err := decodeDirectory(p, appendDirectory(nil, nil, blocks, good())); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(v []ValueLoc) ([]extent, []byte){
		"same id":         func(v []ValueLoc) ([]extent, []byte) { v[1].Ord, v[1].Base.LSN = 1, 9; return blocks, nil },
		"descending LSN":  func(v []ValueLoc) ([]extent, []byte) { v[1].LSN = 2; return blocks, nil },
		"descending ord":  func(v []ValueLoc) ([]extent, []byte) { v[1].Ord = 0; return blocks, nil },
		"LSN 0":           func(v []ValueLoc) ([]extent, []byte) { v[0].LSN = 0; return blocks, nil },
		"too long":        func(v []ValueLoc) ([]extent, []byte) { v[0].Len = MaxBlockRaw + 1; return blocks, nil },
		"too far":         func(v []ValueLoc) ([]extent, []byte) { v[0].Inner = MaxBlockRaw; return blocks, nil },
		"own base":        func(v []ValueLoc) ([]extent, []byte) { v[1].Base = v[1].ValueID; return blocks, nil },
		"no base":         func(v []ValueLoc) ([]extent, []byte) { v[1].Base = ValueID{}; return blocks, nil },
		"no such block":   func(v []ValueLoc) ([]extent, []byte) { v[1].Off = 1 << 20; return blocks, nil },
		"in the header":   func([]ValueLoc) ([]extent, []byte) { return []extent{{0, 64}, {128, 64}}, nil },
		"behind the end":  func([]ValueLoc) ([]extent, []byte) { return []extent{{64, 64}, {128, 8192}}, nil },
		"tiny block":      func([]ValueLoc) ([]extent, []byte) { return []extent{{64, 64}, {128, 24}}, nil },
		"trailing bytes":  func([]ValueLoc) ([]extent, []byte) { return blocks, []byte{0} },
		"directory bytes": func([]ValueLoc) ([]extent, []byte) { return nil, nil },
	} {
		v := good()
		bl, tail := change(v)
		b := append(appendDirectory(nil, nil, bl, v), tail...)
		if name == "directory bytes" {
			b = binary.AppendUvarint(nil, 5)
		}
		if _, _, _, err := decodeDirectory(p, b); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fam := FamilyInfo{ID: 4, DirOff: 64, DirStored: 40, Values: 1, Stored: 40, MinLSN: 1, MaxLSN: 1}
	for name, fams := range map[string][]FamilyInfo{
		"same id":        {fam, {ID: 4, DirOff: 104, DirStored: 40, Stored: 40}},
		"past the end":   {{ID: 4, DirStored: 40, Stored: 1 << 20}},
		"no directory":   {{ID: 4, DirStored: 0, Stored: 40}},
		"less than dir":  {{ID: 4, DirStored: 80, Stored: 40}},
		"second too far": {fam, {ID: 5, DirStored: 40, Stored: 4096 - 64}},
	} {
		if _, err := decodeFamilyIndex(p, appendFamilyIndex(nil, fams), fileHeaderSize, 4096); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("family index, %s: %v", name, err)
		}
	}
}

func flip(b []byte, at int64) []byte {
	b = bytes.Clone(b)
	b[at] ^= 4
	return b
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLengthsAreNotBelieved: lengths larger than the bytes behind them are
// refused before memory is taken for them.
func TestLengthsAreNotBelieved(t *testing.T) {
	c, err := newCompressor(2, 1<<20)
	must(t, err)
	zeros := make([]byte, 32<<20)
	_, z, err := c.pack(kindHistory, [][]byte{zeros[:1<<20]}, 1<<20)
	must(t, err)
	small := bytes.Clone(z[0])
	_, z, err = c.pack(kindHistory, [][]byte{zeros[:16<<20], zeros[16<<20:]}, len(zeros))
	must(t, err)
	p := place{"x", "segment block", 64, 0}
	for name, h := range map[string]frameHeader{
		"over the limit":      {raw: MaxBlockRaw + 1, kind: kindHead, codec: codecZstd},
		"over what zstd can":  {raw: MaxBlockRaw, kind: kindHead, codec: codecZstd},
		"less than it is":     {raw: 1 << 19, kind: kindHead, codec: codecZstd},
		"more than it is":     {raw: 1<<20 + 1, kind: kindHead, codec: codecZstd},
		"over what s2 may":    {raw: maxQuickRaw + 1, kind: kindHead, codec: codecS2},
		"no s2":               {raw: maxQuickRaw, kind: kindHead, codec: codecS2},
		"raw, other length":   {raw: 7, kind: kindHead, codec: codecRaw},
		"section, over limit": {raw: MaxSectionRaw + 1, kind: kindMeta, codec: codecZstd},
	} {
		payload := small
		if h.raw == 1<<19 {
			payload = z[0] // 32 MiB, and says so itself
		}
		if h.raw > MaxBlockRaw {
			payload = make([]byte, 16<<10) // enough for zstd to make that much of
		}
		h.stored = uint32(len(payload))
		b := sealFrame(h, payload, 1, 64)
		got := allocated(func() {
			h, payload, err := decodeFrame(p, 1, nil, b)
			if err == nil {
				_, err = unpack(p, h, payload, nil)
			}
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if got > 4<<20 {
			t.Errorf("%s: allocated %d bytes", name, got)
		}
	}
	for name, b := range map[string][]byte{
		"blocks":   binary.AppendUvarint([]byte{0}, 1<<24),
		"values":   binary.AppendUvarint([]byte{0, 0}, 1<<24),
		"families": binary.AppendUvarint(nil, 1<<24),
	} {
		b = append(b, make([]byte, 1<<10)...)
		if got := allocated(func() {
			if _, _, _, err := decodeDirectory(p, b); name != "families" && !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := decodeFamilyIndex(p, b, fileHeaderSize, 1<<20); name == "families" && !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		}); got > 1<<20 {
			t.Errorf("%s: allocated %d bytes", name, got)
		}
	}
}

// TestReferencesAreNotBelieved: a Loc that no table of the file gave out.
func TestReferencesAreNotBelieved(t *testing.T) {
	f, _ := tiny(t, 99)
	r := open(t, f)
	for _, l := range []Loc{{Off: 64, Stored: 1 << 31}, {Off: 1 << 63, Stored: 64}, {Off: 0, Stored: 64}, {Off: 64, Stored: 0}, {Off: uint64(len(f.b)) - 64, Stored: 64}} {
		if got := allocated(func() {
			if _, err := r.ReadBlock(l); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%+v: %v", l, err)
			}
		}); got > 1<<20 {
			t.Errorf("%+v: allocated %d bytes", l, got)
		}
	}
	if _, err := r.Value(Loc{Inner: 1 << 31, Len: 1 << 31}, nil); !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
}

// TestLargeValues writes and reads values of up to 64 MiB. What the package allocates
// must stay below twice the value; with the caller's own copy that is three
// times.
func TestLargeValues(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	n3, t1 := noise(r, 3<<20), text(r, 1<<20)
	repeat := func(left int, first, part []byte) (parts [][]byte) {
		for first != nil || left > 0 {
			p := part
			if first != nil {
				p, first = first, nil
			}
			p = p[:min(len(p), left)]
			parts, left = append(parts, p), left-len(p)
		}
		return parts
	}
	for name, c := range map[string]struct {
		parts [][]byte
		codec codec
	}{
		"compresses":        {repeat(16<<20, nil, t1), codecZstd},
		"noise":             {repeat(base.MaxStored, nil, n3), codecRaw},
		"looks better":      {repeat(5<<20, t1[:100<<10], n3), codecRaw}, // the sample compresses, the whole does not
		"looks worse, is":   {repeat(7<<20, n3, t1), codecZstd},
		"one part of noise": {[][]byte{n3}, codecRaw},
	} {
		f := &memFile{b: make([]byte, 0, base.MaxStored+1<<20)}
		b, err := NewBuilder(f, BuilderOptions{FileNum: 12, Salt: 3})
		must(t, err)
		must(t, b.BeginFamily(1))
		size, _ := sizeOf(c.parts, base.MaxStored)
		got := allocated(func() { must(t, b.AddHot(ValueID{1, 1}, c.parts...)) })
		if got > 2*uint64(size)+1<<20 {
			t.Errorf("%s: %d bytes allocated to write %d", name, got, size)
		}
		if name == "noise" && got > 8<<20 {
			t.Errorf("%s: %d bytes allocated for a value that samples say is noise", name, got)
		}
		must(t, b.EndFamily(nil))
		_, err = b.Finish()
		must(t, err)
		if f.maxGap > 1<<20+outputBuffer {
			t.Errorf("%s: %d bytes went unsynced", name, f.maxGap)
		}
		h, _ := peekFrameHeader(f.b[fileHeaderSize:])
		if h.codec != c.codec {
			t.Errorf("%s: codec %d, want %d (%d bytes stored)", name, h.codec, c.codec, h.stored)
		}
		rd := open(t, f)
		_, values, err := rd.directoryOf(1)
		must(t, err)
		var v []byte
		got = allocated(func() {
			block, err := rd.ReadBlock(values[0].Loc)
			must(t, err)
			v, err = rd.Value(values[0].Loc, block)
			must(t, err)
		})
		if got > 2*uint64(size)+1<<20 {
			t.Errorf("%s: %d bytes allocated to read %d", name, got, size)
		}
		for _, p := range c.parts {
			if !bytes.HasPrefix(v, p) {
				t.Fatalf("%s: value differs", name)
			}
			v = v[len(p):]
		}
		if len(v) != 0 {
			t.Fatalf("%s: %d bytes too many", name, len(v))
		}
	}
}

// TestPacking pins where values go: heads into small blocks, history into large
// ones, large values alone, and the last heads next to the directory.
func TestPacking(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	f := &memFile{}
	b, err := NewBuilder(f, BuilderOptions{})
	must(t, err)
	must(t, b.BeginFamily(1))
	for i := range 10 {
		must(t, b.AddHot(ValueID{base.LSN(1 + i), 0}, noise(r, 10<<10)))
	}
	must(t, b.AddHot(ValueID{50, 0}, noise(r, 64<<10)))
	must(t, b.AddHot(ValueID{51, 0}, noise(r, 5)))
	for i := range 250 {
		must(t, b.AddHistory(ValueID{base.LSN(100 + i), 0}, noise(r, 5<<10)))
	}
	must(t, b.AddHistory(ValueID{500, 0}, noise(r, 1<<20)))
	must(t, b.EndFamily(nil))
	fam, values := b.Family()
	blocks := map[uint64]int{}
	for _, v := range values {
		blocks[v.Off]++
	}
	off := func(lsn base.LSN) uint64 {
		v, ok := findValue(values, ValueID{lsn, 0})
		if !ok {
			t.Fatalf("value %d is missing", lsn)
		}
		return v.Off
	}
	for _, c := range []struct {
		lsn  base.LSN
		want int
	}{{1, 6}, {7, 4}, {50, 1}, {51, 1}, {100, 204}, {349, 46}, {500, 1}} {
		if got := blocks[off(c.lsn)]; got != c.want {
			t.Errorf("the block of value %d has %d values, want %d", c.lsn, got, c.want)
		}
	}
	last, _ := findValue(values, ValueID{51, 0})
	if last.Off+uint64(last.Stored) != fam.DirOff {
		t.Error("the last head block is not next to the directory")
	}
	_, err = b.Finish()
	must(t, err)
}

// TestSize: alike versions in one block compress together.
func TestSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	f := &memFile{}
	b, err := NewBuilder(f, BuilderOptions{})
	must(t, err)
	must(t, b.BeginFamily(1))
	list := noise(r, 100*200)
	for i := 100; i > 0; i-- {
		must(t, b.AddHistory(ValueID{base.LSN(i), 0}, list[:i*200]))
	}
	must(t, b.EndFamily(nil))
	p, err := b.Finish()
	must(t, err)
	t.Logf("100 versions of a growing list: %d bytes raw, %d in the file", p.RawBytes, p.Size)
	if p.Size > 3*int64(len(list)) {
		t.Errorf("%d bytes for versions whose newest has %d", p.Size, len(list))
	}
}
