package replica

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/golden"
	"github.com/stele-go/stele/base/seal"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// sampleChunk has records 4 to 6, in two batches, with texts.
func sampleChunk(texts ...string) (header, []Batch) {
	batches := []Batch{{First: 4, Stamp: 1_700_000_000_000_000, Records: [][]byte{[]byte(texts[0]), nil}},
		{First: 6, Stamp: 1_700_000_000_000_009, Records: [][]byte{[]byte(texts[1])}}}
	h := header{store: testStore, epoch: 7, seq: 12, first: 4, last: 6, firstStamp: batches[0].Stamp, lastStamp: batches[1].Stamp,
		before: Chain{}.Next(nil, 3, []byte("before"))}
	h.after = chainOf(h.before, nil, batches, 6)
	return h, batches
}

func sampleFence() header {
	h, _ := sampleChunk("", "")
	return header{fence: true, store: testStore, epoch: 7, seq: 13, first: 6, last: 6, firstStamp: h.lastStamp, lastStamp: h.lastStamp,
		before: h.after, after: h.after, raw: 9}
}

func dumpHeader(d *golden.Dump) (stored int) {
	d.Title("header")
	d.Field(8, "magic")
	d.Field(4, "format version")
	d.Field(4, "flags: 1 zstd, 2 sealed")
	for _, word := range []string{"store", "epoch", "number", "first record", "last record", "first stamp", "last stamp"} {
		d.Field(8, "%s", word)
	}
	d.Field(16, "chain before")
	d.Field(16, "chain after")
	stored = int(binary.LittleEndian.Uint64(d.Field(8, "length of the payload")))
	d.Field(8, "its length without compression; of a fence, the epoch that wrote it")
	d.Field(8, "xxh64 of the 120 bytes before")
	return stored
}

func TestChunkGolden(t *testing.T) {
	h, batches := sampleChunk("one", "two")
	b, err := encodeChunk(h, batches, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := golden.New(t, b)
	dumpHeader(d)
	d.Title("payload")
	for range d.Uvarint("batches") {
		d.Varint("stamp, microseconds since 1970")
		for range d.Uvarint("records") {
			d.Str("record")
		}
	}
	d.Title("end")
	d.Field(8, "xxh64 of all before")
	stored := d.Check(filepath.Join("testdata", "chunk.golden"), *update)
	if _, got, err := decodeChunk(chunkKey(7, 12), testStore, stored, nil); err != nil || !sameBatches(got, batches) {
		t.Errorf("the stored chunk reads as %v, %v", got, err)
	}
}

func TestFenceGolden(t *testing.T) {
	f := sampleFence()
	d := golden.New(t, f.append(nil))
	dumpHeader(d)
	b := d.Check(filepath.Join("testdata", "fence.golden"), *update)
	if h, _, err := decodeChunk(chunkKey(7, 13), testStore, b, nil); err != nil || *h != f {
		t.Errorf("the stored fence reads as %+v, %v", h, err)
	}
}

func sampleHead() *head {
	h, _ := sampleChunk("", "")
	at := Position{LSN: 6, Chain: h.after, Stamp: h.lastStamp, Epoch: 9}
	return &head{Format: HeadVersion, Store: testStore, Epoch: 9, Owner: "owner", Beat: 77, TTL: 15000, Mode: Sync,
		Epochs: []epoch{{Epoch: 7, Dir: "a", Fence: 13}, {Epoch: 9, Dir: "b", Begin: 6, Chain: h.after, Stamp: h.lastStamp}},
		End:    at, Points: []PointRef{{Epoch: 7}, {LSN: 6, Epoch: 9, Nth: 2, Stamp: h.lastStamp}}, Floor: Position{Epoch: 7}}
}

func samplePoint() *Point {
	return &Point{Format: HeadVersion, Store: testStore, Position: sampleHead().End, By: 9, Nth: 2, Files: []File{{Name: "000001.seg", Key: "file/0000000009/000001.seg", Size: 5}}}
}

func TestTextGolden(t *testing.T) {
	var h, after head
	var p Point
	released := sampleHead()
	released.Released, released.Whole = true, true
	var n pin
	for _, c := range []struct {
		name  string
		v, to any
	}{
		{"head", sampleHead(), &h},
		{"head-whole", released, &after},
		{"point", samplePoint(), &p},
		{"pin", &pin{Format: HeadVersion, Store: testStore, Position: sampleHead().End, Beat: 3}, &n},
	} {
		b, err := encodeText(c.v)
		if err != nil {
			t.Fatal(err)
		}
		stored := golden.Text(t, filepath.Join("testdata", c.name+".golden"), string(b), *update)
		if err := decodeText(c.name, c.name, []byte(stored), c.to); err != nil || !reflect.DeepEqual(c.v, c.to) {
			t.Errorf("the stored %s reads as %+v, %v", c.name, c.to, err)
		}
	}
	if err := h.check(); err != nil {
		t.Error(err)
	}
}

func sameBatches(a, b []Batch) bool {
	return slices.EqualFunc(a, b, func(a, b Batch) bool {
		return a.First == b.First && a.Stamp == b.Stamp && slices.EqualFunc(a.Records, b.Records, bytes.Equal)
	})
}

func testKeys(t testing.TB, key byte) *seal.Keyring {
	t.Helper()
	p, err := seal.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{key}, seal.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	return seal.New(p, nil).Keyring(testStore, 0)
}

// TestSealedChunks: what a sealed chunk holds is not to be seen, and not to be had without the key
// or at another place.
func TestSealedChunks(t *testing.T) {
	long := strings.Repeat("a secret of some length; ", 8000)
	for _, text := range []string{"a secret of some length", long} {
		h, batches := sampleChunk(text, "two")
		keys := testKeys(t, 1)
		b, err := encodeChunk(h, batches, keys)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("secret")) || len(b) > 4000 {
			t.Errorf("%d bytes, in which one reads", len(b))
		}
		name := chunkKey(7, 12)
		if _, got, err := decodeChunk(name, testStore, b, keys); err != nil || !sameBatches(got, batches) {
			t.Errorf("it reads as %d batches, %v", len(got), err)
		}
		_, _, err = decodeChunk(name, testStore, b, nil)
		wants(t, "without keys", err, fault.ErrKey)
		_, _, err = decodeChunk(name, testStore, b, testKeys(t, 2))
		wants(t, "with another key", err, fault.ErrKey)
		plain, err := encodeChunk(h, batches, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = decodeChunk(name, testStore, plain, keys)
		wants(t, "a chunk that is not sealed", err, fault.ErrKey)
		moved := bytes.Clone(b)
		binary.LittleEndian.PutUint64(moved[32:], 13)
		_, _, err = decodeChunk(chunkKey(7, 13), testStore, resum(moved), keys)
		if err == nil {
			t.Error("a chunk reads at another place")
		}
	}
}

// TestChainIsKeyed: without the key of the chain nobody can compare a guess.
func TestChainIsKeyed(t *testing.T) {
	if (Chain{}).Next(nil, 1, []byte("guess")) == (Chain{}).Next([]byte("key"), 1, []byte("guess")) {
		t.Error("the key makes no difference")
	}
}

// resum makes the checksums of a chunk right again.
func resum(b []byte) []byte {
	if len(b) >= headerSize {
		binary.LittleEndian.PutUint64(b[headerSummed:], base.Checksum(0, b[:headerSummed]))
	}
	if end := len(b) - sumSize; end >= headerSize {
		binary.LittleEndian.PutUint64(b[end:], base.Checksum(0, b[:end]))
	}
	return b
}

// TestFenceIsShort: retention tells fences from chunks by their length.
func TestFenceIsShort(t *testing.T) {
	f := sampleFence()
	b, err := encodeChunk(header{store: testStore, epoch: 1, first: 1, last: 1}, []Batch{{First: 1, Records: [][]byte{nil}}}, nil)
	if err != nil || len(f.append(nil)) != headerSize || len(b) <= headerSize {
		t.Errorf("a fence has %d bytes, the shortest chunk %d; %v", len(f.append(nil)), len(b), err)
	}
}

func typedError(err error) bool {
	var known *fault.CorruptionError
	return errors.As(err, &known) || errors.Is(err, fault.ErrVersion) || errors.Is(err, fault.ErrKey) || errors.Is(err, ErrOtherStore)
}

// FuzzChunk: any bytes decode, with checksums that are right, to something that encodes to the same,
// or give a typed error.
func FuzzChunk(f *testing.F) {
	h, batches := sampleChunk("one", "two")
	long, longBatches := sampleChunk(strings.Repeat("again ", 100), strings.Repeat("and again ", 100))
	for _, keys := range []*seal.Keyring{nil, testKeys(f, 1)} {
		for _, c := range []struct {
			h header
			b []Batch
		}{{h, batches}, {long, longBatches}} {
			b, err := encodeChunk(c.h, c.b, keys)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	fence := sampleFence()
	fence.seq = 12
	f.Add(fence.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = resum(bytes.Clone(b))
		if len(b) >= headerSize && binary.LittleEndian.Uint64(b[112:]) > 1<<20 {
			return // slow, and bounded by the check of the header
		}
		if _, _, err := DecodeTail(Options{Store: testStore}, "tail", b); err != nil && !typedError(err) {
			t.Fatalf("untyped error %v of a tail", err)
		}
		h, batches, err := decodeChunk(chunkKey(7, 12), testStore, b, nil)
		if err != nil {
			if !typedError(err) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if h.fence {
			if !bytes.Equal(h.append(nil), b) {
				t.Fatalf("%+v does not encode to what it was", h)
			}
			return
		}
		c := *h
		c.flags = 0
		again, err := encodeChunk(c, batches, nil)
		if err != nil {
			t.Fatal(err)
		}
		h2, batches2, err := decodeChunk(chunkKey(7, 12), testStore, again, nil)
		if err != nil || h2.end() != h.end() || !sameBatches(batches, batches2) || batches[0].First != h.first || batches[len(batches)-1].Last() != h.last {
			t.Fatalf("%+v reads again as %+v, %v", h, h2, err)
		}
	})
}

// FuzzText: any JSON, with a checksum that is right, decodes to a HEAD, a point or a pin that encodes
// to itself, or gives a typed error.
func FuzzText(f *testing.F) {
	for i, v := range []any{sampleHead(), samplePoint(), &pin{Format: HeadVersion, Store: testStore, Beat: 3}} {
		b, err := encodeText(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b[:len(b)-sumLine], b)
	}
	f.Fuzz(func(t *testing.T, kind uint8, text, whole []byte) {
		sum := binary.BigEndian.AppendUint64(nil, base.Checksum(0, text))
		for _, b := range [][]byte{whole, []byte(string(text) + "\n" + hex.EncodeToString(sum) + "\n")} {
			var v any
			var err error
			switch kind % 3 {
			case 0:
				v, err = decodeHead(testStore, b)
			case 1:
				v, err = decodePoint(PointRef{LSN: 6, Epoch: 9, Nth: 2}.key(), testStore, b)
			default:
				v, err = new(pin), decodeText("pin/x", "pin", b, new(pin))
			}
			if err != nil {
				if !typedError(err) {
					t.Fatalf("untyped error %v", err)
				}
				continue
			}
			again, err := encodeText(v)
			if err != nil {
				t.Fatal(err)
			}
			if h, ok := v.(*head); ok {
				h2, err := decodeHead(testStore, again)
				if err != nil || !reflect.DeepEqual(h, h2) {
					t.Fatalf("%+v reads again as %+v, %v", h, h2, err)
				}
				if h.last().Epoch != h.End.Epoch {
					t.Fatalf("%+v", h)
				}
			}
		}
	})
}

// TestManyRecords: a header that promises more records than a chunk may have is damage, and what has more
// records than its header says is not made room for.
func TestManyRecords(t *testing.T) {
	name := chunkKey(1, 0)
	h := header{store: testStore, epoch: 1, first: 1, last: maxRecords + 1}
	if _, err := decodeHeader(name, testStore, h.append(nil)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	h.last = 2
	body, err := encodeChunk(h, []Batch{{First: 1, Records: make([][]byte, 1<<20)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := decodeChunk(name, testStore, body, nil); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}
