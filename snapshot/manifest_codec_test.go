package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

func TestNames(t *testing.T) {
	if got := ManifestName(1); got != "MANIFEST-000001" {
		t.Errorf("ManifestName(1) = %q", got)
	}
	if got := base.ImageFile.Name(9); got != "000009.img" {
		t.Errorf("base.ImageFile.Name(9) = %q", got)
	}
	for _, n := range []base.FileNum{1, 999_999, 1_000_000, 1<<63 + 5} {
		if got, ok := ParseManifestName(ManifestName(n)); !ok || got != n {
			t.Errorf("manifest %d parses as %d, %v", n, got, ok)
		}
		if got, ok := base.ImageFile.Parse(base.ImageFile.Name(n)); !ok || got != n {
			t.Errorf("image %d parses as %d, %v", n, got, ok)
		}
		if !IsManifestName(ManifestName(n)) || !IsManifestName(tempName(n)) {
			t.Errorf("manifest %d is not recognised", n)
		}
	}
	for _, name := range []string{
		"", "MANIFEST-", "MANIFEST-0", "MANIFEST-000000", "MANIFEST-1", "MANIFEST-0000001", "MANIFEST-00001x",
		"MANIFEST-+00001", "manifest-000001", "MANIFEST-000001.tmp.tmp", "MANIFEST-99999999999999999999", "LOCK", "000001.img",
	} {
		if IsManifestName(name) {
			t.Errorf("%q passes for a manifest", name)
		}
	}
	for _, name := range []string{"", ".img", "000000.img", "1.img", "000001.log", "000001.img.tmp", "-00001.img"} {
		if _, ok := base.ImageFile.Parse(name); ok {
			t.Errorf("%q passes for an image", name)
		}
	}
}

func TestStateCodecRoundTrip(t *testing.T) {
	st := firstState()
	for i := range 60 {
		e := scriptEdit(i, &st)
		got, err := decodeEdit("m", appendEdit(nil, &e))
		if err != nil {
			t.Fatalf("edit %d: %v", i, err)
		}
		if d := cmp.Diff(e, got); d != "" {
			t.Fatalf("edit %d (-want +got):\n%s", i, d)
		}
		if err := st.apply(&e); err != nil {
			t.Fatalf("edit %d: %v", i, err)
		}
		back, err := decodeState("m", appendState(nil, &st))
		if err != nil {
			t.Fatalf("state %d: %v", i, err)
		}
		// Empty and nil slices are one thing.
		if d := cmp.Diff(st, back, equateNil); d != "" {
			t.Fatalf("state %d (-want +got):\n%s", i, d)
		}
	}
	for _, r := range []*Replica{{Dir: 7, LSN: 3, Stamp: -4, Epoch: 5, Seq: 6, Chain: [16]byte{1, 15: 9}},
		{Dir: 2, Ahead: true}, {Dir: 1 << 63, Restored: true, Ahead: true, ChainKey: bytes.Repeat([]byte{3}, chainKeySize)}, {}} {
		e := Edit{Replica: r}
		got, err := decodeEdit("m", appendEdit(nil, &e))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, got); d != "" {
			t.Fatalf("replica (-want +got):\n%s", d)
		}
		if err := st.apply(&got); err != nil || (st.Replica == nil) != (r.Dir == 0) {
			t.Fatalf("replica %+v set %+v, %v", r, st.Replica, err)
		}
		if err := st.apply(&Edit{}); err != nil || (st.Replica == nil) != (r.Dir == 0) {
			t.Fatalf("an edit without a replica left %+v, %v", st.Replica, err)
		}
		back, err := decodeState("m", appendState(nil, &st))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(st.Replica, back.Replica); d != "" {
			t.Fatalf("replica of a state (-want +got):\n%s", d)
		}
	}
	for _, lsn := range []base.LSN{7, 1 << 60, 0} {
		e := Edit{SetHeld: &lsn}
		got, err := decodeEdit("m", appendEdit(nil, &e))
		if err == nil {
			err = st.apply(&got)
		}
		if err != nil || st.Held != lsn {
			t.Fatalf("an edit that holds up to %d: %d, %v", lsn, st.Held, err)
		}
		if err := st.apply(&Edit{}); err != nil || st.Held != lsn {
			t.Fatalf("an edit that says nothing of it left %d, %v", st.Held, err)
		}
		if back, err := decodeState("m", appendState(nil, &st)); err != nil || back.Held != lsn {
			t.Fatalf("a state held up to %d: %d, %v", lsn, back.Held, err)
		}
	}
	empty := Edit{SetImages: &[]ImageInfo{}, SetFloor: ptr(base.LSN(0))}
	got, err := decodeEdit("m", appendEdit(nil, &empty))
	if err != nil || got.SetImages == nil || got.SetFloor == nil {
		t.Errorf("\"set to nothing\" is not \"unchanged\": %+v, %v", got, err)
	}
}

var equateNil = cmp.Options{
	cmp.FilterValues(func(a, b []LogInfo) bool { return len(a)+len(b) == 0 }, cmp.Ignore()),
	cmp.FilterValues(func(a, b []SegmentInfo) bool { return len(a)+len(b) == 0 }, cmp.Ignore()),
	cmp.FilterValues(func(a, b []ImageInfo) bool { return len(a)+len(b) == 0 }, cmp.Ignore()),
}

// fullState is the base state of the rule tests: one of everything.
func fullState() State {
	st := firstState()
	st.NextFileNum = 10
	st.FloorLSN = 50
	st.Logs = []LogInfo{{Num: 3, BaseLSN: 40}, {Num: 4, BaseLSN: 60, Salt: 77}}
	st.Segments = []SegmentInfo{{Num: 1, Size: 10, Raw: 9, MinLSN: 1, MaxLSN: 49, Dropped: 2, Unused: 3}}
	st.Images = []ImageInfo{{Num: 2, LSN: 30, Full: true, Size: 5}, {Num: 5, LSN: 60, Size: 6}}
	return st
}

func TestEditRules(t *testing.T) {
	ok := fullState()
	if err := ok.check(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		edit Edit
		want string // "" if it is right
	}{
		{"empty", Edit{}, ""},
		{"log twice", Edit{AddLogs: []LogInfo{{Num: 4, BaseLSN: 70}}}, "used twice"},
		{"segment with the number of a log", Edit{AddSegments: []SegmentInfo{{Num: 3, Size: 1}}}, "used twice"},
		{"image with the number of a segment", Edit{SetImages: &[]ImageInfo{{Num: 1, Full: true, Size: 1}}}, "used twice"},
		{"number 0", Edit{AddLogs: []LogInfo{{BaseLSN: 70}}}, "file number"},
		{"last number of all", Edit{AddLogs: []LogInfo{{Num: 1<<64 - 1, BaseLSN: 70}}}, "file number"},
		{"number out of range", Edit{NextFileNum: maxFileNum + 1}, "next file number"},
		{"unknown log", Edit{RemoveLogs: []base.FileNum{9}}, "unknown log"},
		{"log removed twice", Edit{RemoveLogs: []base.FileNum{3, 3}}, "unknown log"},
		{"unknown segment", Edit{RemoveSegments: []base.FileNum{3}}, "unknown segment"},
		{"dead bytes", Edit{SetDead: []SegmentDead{{Num: 1, Dropped: 9, Unused: 9}}}, ""},
		{"dead bytes of an added segment", Edit{AddSegments: []SegmentInfo{{Num: 11, Size: 1, Raw: 5}}, SetDead: []SegmentDead{{Num: 11, Unused: 5}}}, ""},
		{"dead bytes of a removed segment", Edit{RemoveSegments: []base.FileNum{1}, SetDead: []SegmentDead{{Num: 1, Unused: 1}}}, "unknown segment"},
		{"more dead bytes than there are", Edit{SetDead: []SegmentDead{{Num: 1, Unused: 10}}}, "are dead"},
		{"fewer dead bytes than none", Edit{SetDead: []SegmentDead{{Num: 1, Dropped: -1}}}, "are dead"},
		{"floor lowered", Edit{SetFloor: ptr(base.LSN(49))}, "lowers the floor"},
		{"log below the one before", Edit{AddLogs: []LogInfo{{Num: 11, BaseLSN: 59}}}, "below"},
		{"log with the base of the one before", Edit{AddLogs: []LogInfo{{Num: 11, BaseLSN: 60}}}, ""},
		{"log without base", Edit{AddLogs: []LogInfo{{Num: 11}}}, "base LSN 0"},
		{"hole above the floor", Edit{RemoveLogs: []base.FileNum{3}}, "above the floor"},
		{"no hole when the floor rises with it", Edit{RemoveLogs: []base.FileNum{3}, SetFloor: ptr(base.LSN(60))}, ""},
		{"empty segment file", Edit{AddSegments: []SegmentInfo{{Num: 11}}}, "segment"},
		{"segment LSNs swapped", Edit{AddSegments: []SegmentInfo{{Num: 11, Size: 1, MinLSN: 2, MaxLSN: 1}}}, "segment"},
		{"chain begins with a delta", Edit{SetImages: &[]ImageInfo{{Num: 11, Size: 1}}}, "chain"},
		{"chain with two full images", Edit{SetImages: &[]ImageInfo{{Num: 11, Size: 1, Full: true}, {Num: 12, Size: 1, Full: true}}}, "chain"},
		{"chain goes back", Edit{SetImages: &[]ImageInfo{{Num: 11, LSN: 9, Size: 1, Full: true}, {Num: 12, LSN: 8, Size: 1}}}, "chain"},
		{"no image", Edit{SetImages: &[]ImageInfo{}}, ""},
		{"clean close", Edit{Clean: &CleanClose{LogNum: 4, LogEnd: 9, LSN: 70}}, ""},
		{"clean close without a log", Edit{Clean: &CleanClose{LSN: 70}}, ""},
		{"clean close in an unknown log", Edit{Clean: &CleanClose{LogNum: 9}}, "clean close"},
		{"clean close at a negative offset", Edit{Clean: &CleanClose{LogNum: 4, LogEnd: -1}}, "clean close"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := fullState()
			err := st.apply(&tc.edit)
			if err == nil {
				err = st.check()
			}
			if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want)) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestEditRaisesNextFileNum(t *testing.T) {
	st := fullState()
	st.Clean = &CleanClose{}
	for _, tc := range []struct {
		edit Edit
		want base.FileNum
	}{
		{Edit{NextFileNum: 5}, 10},
		{Edit{NextFileNum: 12}, 12},
		{Edit{AddLogs: []LogInfo{{Num: 12, BaseLSN: 99}}}, 13},
		{Edit{AddSegments: []SegmentInfo{{Num: 20, Size: 1}}}, 21},
		{Edit{SetImages: &[]ImageInfo{{Num: 30, Full: true, Size: 1}}}, 31},
		{Edit{RemoveSegments: []base.FileNum{20}}, 31},
	} {
		if err := st.apply(&tc.edit); err != nil {
			t.Fatal(err)
		}
		if st.NextFileNum != tc.want {
			t.Errorf("after %+v the next number is %d, want %d", tc.edit, st.NextFileNum, tc.want)
		}
		if st.Clean != nil {
			t.Errorf("%+v left the clean close standing", tc.edit)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	a := fullState()
	a.Clean = &CleanClose{LSN: 1}
	a.Replica = &Replica{Dir: 1, ChainKey: []byte{2}}
	b := a.Clone()
	b.Replica.Dir, b.Replica.ChainKey[0] = 90, 90
	b.Logs[0].Num, b.Segments[0].Num, b.Images[0].Num, b.Clean.LSN, b.Options["key"] = 90, 91, 92, 93, "changed"
	want := fullState()
	want.Clean = &CleanClose{LSN: 1}
	want.Replica = &Replica{Dir: 1, ChainKey: []byte{2}}
	if d := cmp.Diff(want, a); d != "" {
		t.Errorf("the original changed with its clone:\n%s", d)
	}
}

func TestDecodeRefusesMalformedFields(t *testing.T) {
	good := fullState()
	state := appendState(nil, &good)
	field := func(tag byte, v ...byte) []byte {
		b := []byte{tag, 0, 0, 0, 0, 0, 0, 0}
		binary.LittleEndian.PutUint32(b[4:], uint32(len(v)))
		return append(b, v...)
	}
	eight := make([]byte, 8)
	// bare is a state of nothing but an identity and a next number, and a field.
	bare := func(f []byte) []byte {
		return slices.Concat(state[:32], field(tagNextFileNum, 1, 0, 0, 0, 0, 0, 0, 0), f)
	}
	if _, err := decodeState("m", bare(nil)); err != nil {
		t.Fatal(err)
	}
	two := []byte{9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}
	for _, tc := range []struct {
		name    string
		payload []byte
		newer   bool
	}{
		{"cut header", []byte{3, 0, 0}, false},
		{"length beyond", []byte{3, 0, 0, 0, 200, 0, 0, 0, 1}, false},
		{"reserved bytes", []byte{4, 1, 0, 0, 0, 0, 0, 0}, false},
		{"tag 0", field(0), false},
		{"tags descend", append(field(tagFloor, eight...), field(tagNextFileNum, eight...)...), false},
		{"tag twice", append(field(tagFloor, eight...), field(tagFloor, eight...)...), false},
		{"short floor", field(tagFloor, 1), false},
		{"next number 0", field(tagNextFileNum, eight...), false},
		{"half a log", field(tagLogs, eight...), false},
		{"no log", field(tagLogs), false},
		{"half an image", field(tagImages, eight...), false},
		{"short clean close", field(tagClean, eight...), false},
		{"identity in an edit", state[:32], false},
		{"half a salt", field(tagLogSalts, eight...), false},
		{"salt of a log that is not added", field(tagLogSalts, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0), false},
		{"salt 0", append(field(tagLogs, two...), field(tagLogSalts, append(two[:8:8], eight...)...)...), false},
		{"salt twice", append(field(tagLogs, two...), field(tagLogSalts, append(two, two...)...)...), false},
		{"half of what is dead", field(tagDead, eight...), false},
		{"half a replica", field(tagReplica, make([]byte, 32)...), false},
		{"replica of no directory", field(tagReplica, make([]byte, 64)...), false},
		{"replica with half a key", field(tagReplica, slices.Concat([]byte{1}, make([]byte, 79))...), false},
		{"replica with an unknown flag", field(tagReplica, slices.Concat([]byte{1, 0, 0, 0, 0, 0, 0, 0, 4}, make([]byte, 55))...), true},
		{"half a record that is held", field(tagHeld, 1, 2, 3), false},
		{"unknown tag", field(15), true},
		{"unknown image flag", field(tagImages, append(append(make([]byte, 24), 2), make([]byte, 39)...)...), true},
	} {
		_, err := decodeEdit("m", tc.payload)
		if errors.Is(err, fault.ErrVersion) != tc.newer || errors.Is(err, errField) == tc.newer {
			t.Errorf("%s: error %v, newer build expected: %v", tc.name, err, tc.newer)
		}
	}
	for _, tc := range []struct {
		name   string
		change func(b []byte) []byte
	}{
		{"no identity", func(b []byte) []byte { return b[32:] }},
		{"no next number", func(b []byte) []byte { return b[:32] }},
		{"next number in use", func(b []byte) []byte {
			s := fullState()
			s.NextFileNum = 5
			return appendState(nil, &s)
		}},
		{"options out of order", func(b []byte) []byte {
			return append(append([]byte(nil), b[:32]...), field(tagOptions, 1, 0, 0, 0, 0, 0, 0, 0, 'b', 1, 0, 0, 0, 0, 0, 0, 0, 'a')...)
		}},
		{"option beyond its field", func(b []byte) []byte {
			return append(append([]byte(nil), b[:32]...), field(tagOptions, 9, 0, 0, 0, 255, 255, 255, 255, 'b')...)
		}},
		{"no option", func([]byte) []byte { return slices.Concat(state[:32], field(tagOptions), bare(nil)[32:]) }},
		{"floor 0", func([]byte) []byte { return bare(field(tagFloor, eight...)) }},
		{"no image", func([]byte) []byte { return bare(field(tagImages)) }},
		{"nothing dead", func([]byte) []byte {
			s := fullState()
			e := Edit{SetDead: []SegmentDead{{Num: s.Segments[0].Num}}}
			return append(appendState(nil, &s), appendEdit(nil, &e)...)
		}},
		{"dead in a segment that is not there", func([]byte) []byte {
			s := fullState()
			e := Edit{SetDead: []SegmentDead{{Num: 1 << 40, Unused: 1}}}
			return append(appendState(nil, &s), appendEdit(nil, &e)...)
		}},
		{"removal", func(b []byte) []byte {
			return append(append([]byte(nil), b[:32]...), field(tagRemoveLogs, eight...)...)
		}},
	} {
		if st, err := decodeState("m", tc.change(append([]byte(nil), state...))); err == nil || errors.Is(err, fault.ErrVersion) {
			t.Errorf("%s: state %+v, error %v", tc.name, st, err)
		}
	}
	newer := fullState()
	newer.FormatVersion = FormatVersion + 1
	if _, err := decodeState("m", appendState(nil, &newer)); !errors.Is(err, fault.ErrVersion) {
		t.Errorf("state of a newer format version: %v", err)
	}
}

// Each check of the header has an error of its own, and a newer file is never
// called damaged.
func TestHeaderChecks(t *testing.T) {
	h := fileHeader{version: FormatVersion, num: 7, storeID: 1, salt: 2, a: 3, b: 4}
	newer := h
	newer.version++
	flags := h
	flags.flags = 1 << 31
	zero := h
	zero.version = 0
	enc := func(h fileHeader) []byte { return appendHeader(nil, manifestMagic, h) }
	flip := func(at int) []byte { b := enc(h); b[at] ^= 1; return b }
	for _, tc := range []struct {
		name, want string
		b          []byte
		newer      bool
	}{
		{"good", "", enc(h), false},
		{"longer", "", append(enc(h), 1), false},
		{"short", "cut short after 63 bytes", enc(h)[:63], false},
		{"empty", "cut short after 0 bytes", nil, false},
		{"zeros", "wrong magic", make([]byte, 64), false},
		{"magic", "wrong magic", flip(0), false},
		{"magic of an image", "wrong magic", appendHeader(nil, imageMagic, h), false},
		{"version damaged", "checksum mismatch", flip(8), false},
		{"salt damaged", "checksum mismatch", flip(35), false},
		{"checksum damaged", "checksum mismatch", flip(63), false},
		{"version newer", "newer version of stele", enc(newer), true},
		{"version 0", "format version 0", enc(zero), false},
		{"unknown flag", "header flags 0x80000000", enc(flags), true},
	} {
		got, err := decodeHeader("MANIFEST-000007", "manifest header", manifestMagic, 0, tc.b)
		if tc.want == "" {
			if err != nil || got != h {
				t.Errorf("%s: %+v, %v", tc.name, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, fault.ErrVersion) != tc.newer || errors.Is(err, fault.ErrCorrupt) == tc.newer {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

// Frames that only a newer build, or a bug, could have written.
func TestUnknownFrames(t *testing.T) {
	for _, tc := range []struct {
		name  string
		f     frame
		newer bool
	}{
		{"unknown type", frame{typ: 9}, true},
		{"unknown flag", frame{typ: frameEdit, flags: 1}, true},
		{"reserved bits", frame{typ: frameEdit, reserved: 1}, true},
		{"unknown field", frame{typ: frameEdit, payload: []byte{99, 0, 0, 0, 0, 0, 0, 0}}, true},
		{"second state", frame{typ: frameState}, false},
		{"mark among the edits", frame{typ: frameMark}, false},
		{"close among the edits", frame{typ: frameClose}, false},
		{"malformed edit", frame{typ: frameEdit, payload: []byte{1}}, false},
		{"impossible edit", frame{typ: frameEdit, payload: appendEdit(nil, &Edit{RemoveLogs: []base.FileNum{99}})}, false},
		{"sequence repeats", frame{typ: frameEdit, seq: 1}, false},
		{"promise beyond itself", frame{typ: frameEdit, promise: 1 << 20}, false},
	} {
		m := buildManifest(t, 1, false)
		if tc.f.seq == 0 {
			tc.f.seq = m.mf.seq + 1
		}
		if tc.f.promise == 0 {
			tc.f.promise = m.mf.synced
		}
		copy(m.b[m.mf.tail:], appendFrame(nil, m.mf.salt, m.mf.tail, tc.f))
		_, _, err := decodeManifest(m.name, m.b, readOptions{})
		if errors.Is(err, fault.ErrVersion) != tc.newer || errors.Is(err, fault.ErrCorrupt) == tc.newer {
			t.Errorf("%s: error %v, newer build expected: %v", tc.name, err, tc.newer)
		}
		var ce *fault.CorruptionError
		if errors.As(err, &ce) && (ce.File != m.name || ce.Offset != m.mf.tail) {
			t.Errorf("%s: the error names %s:%d, the frame is at %d", tc.name, ce.File, ce.Offset, m.mf.tail)
		}
	}
}

// A manifest of many edits over a large state loads in time proportional to its
// bytes, not to their product. Counted in work, not in time: the state of 20,000
// segments with as many edits would take minutes otherwise.
func TestLargeStateReplays(t *testing.T) {
	st := firstState()
	for i := range 20_000 {
		st.Segments = append(st.Segments, SegmentInfo{Num: base.FileNum(i + 1), Size: 1})
	}
	st.NextFileNum = 20_001
	mf, b, err := newManifestFile(7, 6, &st, Options{Rand: counter(1)}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	mf.f = &bytesFile{b: b}
	edits := 0
	for {
		e := Edit{NextFileNum: st.NextFileNum + base.FileNum(edits)}
		p := appendEdit(nil, &e)
		if mf.tail+int64(frameSize(len(p))) > mf.size-slotsSize {
			break
		}
		if err := mf.append(p); err != nil {
			t.Fatal(err)
		}
		edits++
	}
	_, rep, err := decodeManifest(ManifestName(7), mf.f.(*bytesFile).b, readOptions{})
	if err != nil || rep.Edits != edits || edits < 20_000 {
		t.Fatalf("%d edits of %d: %v", rep.Edits, edits, err)
	}
}

func TestTooLargeState(t *testing.T) {
	st := firstState()
	st.Segments = make([]SegmentInfo, maxManifest/segmentInfoSize)
	if _, _, err := newManifestFile(7, 6, &st, Options{}.withDefaults()); !errors.Is(err, fault.ErrTooLarge) {
		t.Fatalf("error %v, want ErrTooLarge", err)
	}
}

func TestLoadReportOfDecode(t *testing.T) {
	for _, closed := range []bool{false, true} {
		m := buildManifest(t, 12, closed)
		st, rep, err := decodeManifest(m.name, m.b, readOptions{})
		want := LoadReport{File: m.name, Edits: 12, Closed: closed}
		if err != nil || !same(st, m.last()) || cmp.Diff(want, rep) != "" {
			t.Errorf("closed %v: %v, report %+v", closed, err, rep)
		}
	}
	m := buildManifest(t, 3, false)
	copy(m.b[m.mf.tail:], "an edit that was torn")
	st, rep, err := decodeManifest(m.name, m.b, readOptions{})
	if err != nil || !same(st, m.last()) || rep.Dropped != 21 || rep.DroppedAt != m.mf.tail {
		t.Errorf("torn tail: %v, %s", err, fmt.Sprintf("%+v", rep))
	}
}
