package segment

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
)

// oracle is what was put into a segment.
type oracle struct {
	dirs   map[uint64][]byte
	values map[uint64]map[ValueID][]byte
	bases  map[uint64]map[ValueID]ValueID
	tombs  []byte
	meta   []byte
}

func newOracle() *oracle {
	return &oracle{
		dirs:   map[uint64][]byte{},
		values: map[uint64]map[ValueID][]byte{},
		bases:  map[uint64]map[ValueID]ValueID{},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

func text(r *rand.Rand, n int) []byte {
	words := []string{"message ", "human ", "assistant ", "tool_call ", "0123 ", "content "}
	var b []byte
	for len(b) < n {
		b = append(b, words[r.IntN(len(words))]...)
	}
	return b[:n]
}

// split cuts b into up to three parts, some of them perhaps empty.
func split(r *rand.Rand, b []byte) [][]byte {
	i := r.IntN(len(b) + 1)
	j := i + r.IntN(len(b)-i+1)
	return [][]byte{b[:i], b[i:j], b[j:]}
}

// family adds one family with the given head and history values.
func (o *oracle) family(t testing.TB, b *Builder, r *rand.Rand, id uint64, heads, history [][]byte) {
	t.Helper()
	must(t, b.BeginFamily(id))
	o.values[id] = map[ValueID][]byte{}
	o.bases[id] = map[ValueID]ValueID{}
	lsn := base.LSN(1_000*(id%1000) + 500)
	next := func() ValueID {
		v := ValueID{lsn, uint16(r.IntN(3))}
		lsn--
		return v
	}
	for _, v := range heads {
		vid := next()
		o.values[id][vid] = v
		must(t, b.AddHot(vid, split(r, v)...))
	}
	for i, v := range history {
		vid := next()
		o.values[id][vid] = v
		if i%5 == 4 {
			o.bases[id][vid] = ValueID{vid.LSN + 1, 9}
			must(t, b.AddHistoryPatch(vid, o.bases[id][vid], split(r, v)...))
		} else {
			must(t, b.AddHistory(vid, split(r, v)...))
		}
	}
	o.dirs[id] = text(r, 100+r.IntN(100))
	must(t, b.EndFamily(o.dirs[id]))
}

// small builds a segment of a few KB with every kind of frame in it.
func small(t testing.TB, o BuilderOptions) (*memFile, *oracle, Props) {
	t.Helper()
	f := &memFile{}
	or, p := smallInto(t, f, o)
	return f, or, p
}

func smallInto(t testing.TB, f vfs.File, o BuilderOptions) (*oracle, Props) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	or := newOracle()
	o.FileNum, o.Salt = 12, 0xfeedface
	if o.BlockSize == 0 {
		o.BlockSize, o.HotBlockSize = 1024, 256
	}
	b, err := NewBuilder(f, o)
	must(t, err)
	or.family(t, b, r, 3, [][]byte{text(r, 200), text(r, 100), {}, noise(r, 300)}, [][]byte{text(r, 900), noise(r, 50), text(r, 60), text(r, 300), noise(r, 33)})
	or.family(t, b, r, 4, nil, nil)
	or.family(t, b, r, 1<<63+5, [][]byte{noise(r, 40)}, nil)
	or.tombs, or.meta = []byte("tombstones of two threads"), text(r, 400)
	b.SetTombstones(or.tombs)
	b.SetMeta(or.meta)
	p, err := b.Finish()
	must(t, err)
	return or, p
}

func open(t testing.TB, f *memFile) *Reader {
	t.Helper()
	r, err := Open(f, "000012.seg", int64(len(f.b)))
	must(t, err)
	return r
}

// check compares everything in r with the oracle.
func (o *oracle) check(t testing.TB, r *Reader) {
	t.Helper()
	fams, err := r.Families()
	must(t, err)
	if len(fams) != len(o.dirs) {
		t.Fatalf("%d families, want %d", len(fams), len(o.dirs))
	}
	total := 0
	for _, fam := range fams {
		dir, values, err := r.directoryOf(fam.ID)
		must(t, err)
		if !bytes.Equal(dir, o.dirs[fam.ID]) {
			t.Fatalf("directory of %d: %q", fam.ID, dir)
		}
		if len(values) != len(o.values[fam.ID]) || int(fam.Values) != len(values) {
			t.Fatalf("family %d: %d values, index says %d, want %d", fam.ID, len(values), fam.Values, len(o.values[fam.ID]))
		}
		for _, v := range values {
			block, err := readBlock(r, v.Loc)
			must(t, err)
			got, err := r.Value(v.Loc, block)
			must(t, err)
			want, ok := o.values[fam.ID][v.ValueID]
			if !ok || !bytes.Equal(got, want) {
				t.Fatalf("value %v of family %d differs", v.ValueID, fam.ID)
			}
			pb, patched := o.bases[fam.ID][v.ValueID]
			if patched != (v.Encoding == ReversePatch) || v.Base != pb {
				t.Fatalf("value %v: encoding %d base %v, want base %v", v.ValueID, v.Encoding, v.Base, pb)
			}
			if f, ok := findValue(values, v.ValueID); !ok || f != v {
				t.Fatalf("findValue(%v) = %v, %v", v.ValueID, f, ok)
			}
			total += len(want)
		}
	}
	if p := r.Props(); p.RawBytes != int64(total) || p.Families != len(fams) {
		t.Fatalf("props %+v, want %d raw bytes", p, total)
	}
	tombs, err := r.Tombstones()
	must(t, err)
	meta, err := r.Meta()
	must(t, err)
	if !bytes.Equal(tombs, o.tombs) || !bytes.Equal(meta, o.meta) {
		t.Fatalf("tombstones %q, meta %q", tombs, meta)
	}
	must(t, r.Verify(context.Background(), nil))
}

func TestRoundTrip(t *testing.T) {
	f, or, props := small(t, BuilderOptions{})
	if f.synced != len(f.b) || props.Size != int64(len(f.b)) {
		t.Fatalf("%d bytes, %d synced, props say %d", len(f.b), f.synced, props.Size)
	}
	r := open(t, f)
	if diff := cmp.Diff(props, r.Props()); diff != "" {
		t.Fatal(diff)
	}
	or.check(t, r)
	if _, ok, err := r.Find(77); ok || err != nil {
		t.Fatalf("Find(77) = %v, %v", ok, err)
	}
	if _, _, err := r.directoryOf(77); !errors.Is(err, errNoFamily) {
		t.Fatalf("Directory(77): %v", err)
	}
	must(t, r.Close())
	if !f.closed {
		t.Fatal("Close left the file open")
	}
}

// TestRandomSegments builds segments of random shape under random options.
// SEGMENT_SEEDS sets how many; one seed runs alone by the name of its subtest.
func TestRandomSegments(t *testing.T) {
	seeds := 12
	if v := os.Getenv("SEGMENT_SEEDS"); v != "" {
		var err error
		seeds, err = strconv.Atoi(v)
		must(t, err)
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { randomSegment(t, uint64(seed)) })
	}
}

func randomSegment(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	f, or := &memFile{}, newOracle()
	b, err := NewBuilder(f, BuilderOptions{
		FileNum: 12, Salt: r.Uint64(), BlockSize: 1 << (6 + r.IntN(11)), HotBlockSize: 1 << (4 + r.IntN(12)),
		Level: 1 + r.IntN(2), SyncEvery: int64(1 + r.IntN(100_000)), Quick: seed%3 == 0,
	})
	must(t, err)
	id := uint64(0)
	for range r.IntN(20) {
		lists := [2][][]byte{}
		for i := range lists {
			for range r.IntN(8) {
				if n := 1 << r.IntN(16); r.IntN(2) == 0 {
					lists[i] = append(lists[i], noise(r, n))
				} else {
					lists[i] = append(lists[i], text(r, n-1))
				}
			}
		}
		or.family(t, b, r, id, lists[0], lists[1])
		id += 1 + r.Uint64N(1<<(1+r.IntN(50)))
	}
	_, err = b.Finish()
	must(t, err)
	or.check(t, open(t, f))
}

// findValue returns the row of id in values, which must be sorted by id.
func findValue(values []ValueLoc, id ValueID) (ValueLoc, bool) {
	i, ok := slices.BinarySearchFunc(values, id, func(v ValueLoc, id ValueID) int {
		return v.ValueID.Compare(id)
	})
	if !ok {
		return ValueLoc{}, false
	}
	return values[i], true
}

// errNoFamily is returned by Directory for a family that the segment does not have.
var errNoFamily = errors.New("the segment does not hold the family")

// directoryOf returns the directory of family id and its value table, by ascending ValueID.
// The caller may keep and change both.
func (r *Reader) directoryOf(id uint64) (dir []byte, values []ValueLoc, err error) {
	f, ok, err := r.Find(id)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, fmt.Errorf("segment %s, family %d: %w", r.name, id, errNoFamily)
	}
	return r.DirectoryAt(id, f.DirOff, f.DirStored)
}
