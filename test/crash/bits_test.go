package crash

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// specimen is one file of a store, read as the store reads it.
type specimen struct {
	store, name string
	kind        string // log, manifest, segment, image
	data        []byte
	// read is everything the file says when its bytes are data, by the decoders
	// that the store uses and the references it has. want is what it says whole.
	read func(data []byte) (any, error)
	want any
	// prefix: an unclean end; what the file says may lack its last record.
	prefix bool
}

// files serves what is in memory for reading. Other operations are not expected.
type files struct {
	vfs.FS
	byName map[string][]byte
}

func (f files) Open(name string) (vfs.File, error) {
	if b, ok := f.byName[filepath.Base(name)]; ok {
		return &bytesFile{b: b}, nil
	}
	return nil, &notThere{name}
}

func (f files) List(string) ([]string, error) {
	var names []string
	for n := range f.byName {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

type notThere struct{ name string }

func (e *notThere) Error() string { return e.name + ": not there" }

type bytesFile struct {
	vfs.File
	b []byte
}

func (f *bytesFile) Close() error         { return nil }
func (f *bytesFile) Size() (int64, error) { return int64(len(f.b)), nil }
func (f *bytesFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(f.b)) {
		return 0, io.EOF
	}
	n := copy(p, f.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// specimens are the files of a store.
func specimens(sh *shape) ([]*specimen, error) {
	all := map[string][]byte{}
	for name, f := range sh.img.Files {
		all[filepath.Base(name)] = contents(f)
	}
	ring := seal.New(sh.ring.provider(), nil)
	st, rep, err := snapshot.Load(files{byName: all}, dir, snapshot.WithKeys(ring))
	if err != nil {
		return nil, err
	}
	keys := ring.Keyring(st.StoreID, 0)
	with := func(name string, data []byte) files {
		m := make(map[string][]byte, len(all))
		for n, b := range all {
			m[n] = b
		}
		m[name] = data
		return files{byName: m}
	}
	var out []*specimen
	add := func(name, kind string, read func([]byte) (any, error)) {
		out = append(out, &specimen{store: sh.name, name: name, kind: kind, data: all[name], read: read, prefix: kind == "log" && !sh.clean})
	}
	add(rep.File, "manifest", func(data []byte) (any, error) {
		st, _, err := snapshot.Load(files{byName: map[string][]byte{rep.File: data}}, dir, snapshot.WithKeys(ring))
		return st, err
	})
	for _, l := range st.Logs {
		name := base.LogFile.Name(l.Num)
		add(name, "log", func(data []byte) (any, error) { return readLog(with(name, data), st, keys) })
	}
	for _, g := range st.Segments {
		add(base.SegmentFile.Name(g.Num), "segment", segmentReader(base.SegmentFile.Name(g.Num), keys))
	}
	for i, im := range st.Images {
		var prev base.FileNum
		if i > 0 {
			prev = st.Images[i-1].Num
		}
		add(base.ImageFile.Name(im.Num), "image", imageReader(im, st.StoreID, prev, keys))
	}
	for _, s := range out {
		if s.want, err = s.read(s.data); err != nil {
			return nil, fmt.Errorf("%s of %q as it is: %w", s.name, s.store, err)
		}
	}
	return out, nil
}

// readLog replays the whole log as Open does without an image.
func readLog(fsys vfs.FS, st snapshot.State, keys *seal.Keyring) (any, error) {
	o := wal.RecoverOptions{FS: fsys, Dir: dir, Files: []base.FileNum{}, Origin: st.StoreID, ReadOnly: true, Keys: keys}
	for _, l := range st.Logs {
		o.Files = append(o.Files, l.Num)
	}
	if st.Clean != nil {
		o.DurableLSN = st.Clean.LSN
	}
	records := []string{}
	_, err := wal.Recover(o, func(e wal.Entry) error {
		records = append(records, fmt.Sprintf("%d %d %d %s", e.LSN, e.File, e.Offset, e.Payload))
		return nil
	})
	return records, err
}

// segmentReader reads a segment by the references that the index has into it: the
// directories, and each value by its place and sum. The places are taken from the
// first reading.
func segmentReader(name string, keys *seal.Keyring) func([]byte) (any, error) {
	type places struct {
		families []segment.FamilyInfo
		values   [][]segment.ValueLoc
	}
	var known *places
	return func(data []byte) (any, error) {
		r, err := segment.Open(&bytesFile{b: data}, name, int64(len(data)), segment.WithKeys(keys))
		if err != nil {
			return nil, err
		}
		fams, err := r.Families()
		if err != nil {
			return nil, err
		}
		said := []any{r.Props(), slices.Clone(fams)}
		first := known == nil
		if first {
			known = &places{families: slices.Clone(fams)}
		}
		var errs []error
		for i, f := range known.families {
			page, values, err := r.DirectoryAt(f.ID, f.DirOff, f.DirStored)
			if first {
				known.values = append(known.values, values)
			}
			errs = append(errs, err)
			said = append(said, page)
			for _, v := range known.values[i] {
				loc := segment.Loc{Off: v.Off, Stored: v.Stored, Inner: v.Inner, Len: v.Len, Sum: v.Sum}
				block, err := r.ReadBlock(loc)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				b, err := r.Value(loc, block)
				said, errs = append(said, b), append(errs, err)
			}
		}
		tombs, err := r.Tombstones()
		meta, merr := r.Meta()
		return append(said, tombs, meta), errors.Join(append(errs, err, merr)...)
	}
}

// imageReader reads the tables of an image, and each page by the reference that
// its tables had at the first reading.
func imageReader(info snapshot.ImageInfo, store uint64, prev base.FileNum, keys *seal.Keyring) func([]byte) (any, error) {
	name := base.ImageFile.Name(info.Num)
	var pages []snapshot.Part
	first := true
	return func(data []byte) (any, error) {
		im, err := snapshot.OpenImage(&bytesFile{b: data}, name, int64(len(data)), snapshot.WithKeyring(keys))
		if err != nil {
			return nil, err
		}
		if err := im.Check(info, store, prev); err != nil {
			return nil, err
		}
		var said []any
		err = im.Table(snapshot.Visitor{
			Partition: func(t snapshot.ImagePartition) error { said = append(said, t); return nil },
			Family: func(f snapshot.ImageFamily) error {
				said = append(said, f)
				for _, p := range f.Parts {
					if first && p.File == info.Num {
						pages = append(pages, p)
					}
				}
				return nil
			},
			RemovedFamily:    func(id uint64) error { said = append(said, id); return nil },
			Tombstone:        func(m snapshot.Tombstone) error { said = append(said, m); return nil },
			RemovedTombstone: func(id string) error { said = append(said, id); return nil },
		})
		first = false
		errs := []error{err}
		for _, p := range pages {
			b, err := im.ReadPage(p.Off, p.Len)
			if err == nil {
				_, err = index.DecodePage(b)
			}
			said, errs = append(said, b), append(errs, err)
		}
		return said, errors.Join(errs...)
	}
}

// judge reads a damaged copy.
func (s *specimen) judge(data []byte) (detected bool, err error) {
	got, err := s.read(data)
	switch {
	case errors.Is(err, saver.ErrCorrupt), errors.Is(err, fault.ErrVersion):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("fails, but not for damage: %w", err)
	case reflect.DeepEqual(got, s.want):
		return false, nil
	}
	if g, w := got.([]string), s.want.([]string); s.prefix && len(g) == len(w)-1 && slices.Equal(g, w[:len(g)]) {
		return true, nil // the last record, which no other vouches for: a torn tail
	}
	return false, errors.New("other content, and no error")
}

// flipCounts is what became of flipped bits, by the kind of file.
type flipCounts struct {
	mu       sync.Mutex
	detected map[string]int
	harmless map[string]int
	total    int
}

func (c *flipCounts) add(kind string, detected, harmless int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detected[kind] += detected
	c.harmless[kind] += harmless
	c.total += detected + harmless
}

// flipAll flips every bit of a file that is not zero, and a bit of every byte of
// long stretches of zeros, in turn, at most most of them.
func (c *flipCounts) flipAll(s *specimen, most int, rng *rand.Rand) error {
	var bits []int
	for i, b := range s.data {
		lonely := b == 0 && allZero(s.data[max(0, i-8):min(len(s.data), i+9)])
		if lonely {
			bits = append(bits, i*8+rng.IntN(8))
			continue
		}
		for bit := range 8 {
			bits = append(bits, i*8+bit)
		}
	}
	if len(bits) > most {
		rng.Shuffle(len(bits), func(i, j int) { bits[i], bits[j] = bits[j], bits[i] })
		bits = bits[:most]
	}
	data, detected := bytes.Clone(s.data), 0
	for _, n := range bits {
		data[n/8] ^= 1 << (n % 8)
		found, err := s.judge(data)
		data[n/8] ^= 1 << (n % 8)
		if err != nil {
			return fmt.Errorf("bit %d of byte %d of %s in store %q: %w", n%8, n/8, s.name, s.store, err)
		}
		if found {
			detected++
		}
	}
	c.add(s.kind, detected, len(bits)-detected)
	return nil
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// randomShape is the store that a random program leaves, closed or killed.
func randomShape(ctx context.Context, seed uint64) (*shape, error) {
	rng := rand.New(rand.NewPCG(seed, 0xb175))
	g := newGenerator(rng)
	g.big = 2000
	steps := slices.DeleteFunc(g.program(8+rng.IntN(16)), func(s step) bool { return s.life == "kill" })
	sh, err := build(ctx, rng.IntN(2) == 0, steps, seed)
	if sh != nil {
		sh.name = fmt.Sprint("random store ", seed)
	}
	return sh, err
}

// TestEveryBit flips every bit of the files of small stores, of each kind, and
// reads them by the store's own decoders: what comes is right, or a
// CorruptionError, or a VersionError. When the fixed stores are through it goes on
// with random ones.
//
// ROT_FLIPS sets how many bits are flipped, ROT_SEED which random stores.
func TestEveryBit(t *testing.T) {
	ctx, want, seed := context.Background(), envInt(t, "ROT_FLIPS", defaultFlips), seedFrom(t, "ROT_SEED")
	c := &flipCounts{detected: map[string]int{}, harmless: map[string]int{}}
	rng := rand.New(rand.NewPCG(seed, 3))
	fixed := shapes()
	for i := 0; c.total < want || i < 2*len(fixed); i++ {
		var sh *shape
		var err error
		most := max(75, want/40)
		if i < 2*len(fixed) {
			var keys *ring
			s, name := fixed[i/2], fixed[i/2].name
			if i%2 == 1 {
				keys, name, most = new(ring), name+", encrypted", most/4 // what finds a flip lies over the sealed bytes
			}
			if sh, err = buildSealed(ctx, keys, s.clean, s.steps, uint64(i)); sh != nil {
				sh.name = name
			}
		} else {
			sh, err = randomShape(ctx, seed+uint64(i))
		}
		var list []*specimen
		if err == nil {
			list, err = specimens(sh)
		}
		if err == nil {
			seeds := make(map[*specimen]uint64, len(list))
			for _, s := range list {
				seeds[s] = rng.Uint64()
			}
			err = parallel(list, func(s *specimen) error { return c.flipAll(s, most, rand.New(rand.NewPCG(seeds[s], 4))) })
		}
		if err != nil {
			t.Fatalf("repeat with ROT_SEED=%d ROT_FLIPS=%d go test ./test/crash -run '^TestEveryBit$'\n%v", seed, want, err)
		}
	}
	var kinds []string
	for _, k := range []string{"log", "manifest", "segment", "image"} {
		kinds = append(kinds, fmt.Sprintf("%s %d detected, %d harmless", k, c.detected[k], c.harmless[k]))
		if c.detected[k] == 0 {
			t.Errorf("no flip in a file of kind %s was noticed", k)
		}
	}
	slices.SortFunc(kinds, cmp.Compare)
	line := fmt.Sprintf("bit flips: %d (%s), 0 undetected", c.total, strings.Join(kinds, "; "))
	fmt.Println(line)
	t.Log(line)
}
