package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// putVersion stores the next value of a partition's only series, and returns its ref.
func putVersion(t *testing.T, e *Engine, id, key, value string) index.Ref {
	t.Helper()
	v, err := e.NewRevision(nil, Series{Partition: id, Name: "v"}, []byte(value[:1]), []byte(value[1:]))
	must(t, err)
	must(t, e.Commit(t.Context(), []string{id}, func(tx *Tx) error {
		return tx.Put(id, key, index.FlagHead, []SlotIn{{Name: "v", Value: &v}})
	}))
	th, err := e.Partition(id)
	must(t, err)
	return th.Get(key).Slots.At(0).Ref
}

// messageWords words of chatWords, 6 bytes each, make a message.
const messageWords = 110

var chatWords = strings.SplitAfter("agent graph state route query tools model write think about their order plan. other ", " ")

// chat is the n-th version of a list that grows.
func chat(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%06d", n)
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		for range messageWords {
			b.WriteString(chatWords[r.IntN(len(chatWords))])
		}
	}
	return b.String()
}

func versionKey(n int) string { return fmt.Sprintf("k%06d", n) }

// wantChat reads versions of a chat.
func wantChat(t *testing.T, e *Engine, id string, ns ...int) {
	t.Helper()
	for _, n := range ns {
		if got, err := read(e, id, versionKey(n)); err != nil || got != chat(n) {
			t.Fatalf("version %d: %d bytes, %v", n, len(got), err)
		}
	}
}

// A long chat costs about what is new in the log; no chain is longer than it may
// be; every version is read back, from the log, from segments, and after opening
// the store again in each way.
func TestLongChat(t *testing.T) {
	const n, step = 300, 6 * messageWords
	mem := vfs.NewMem(vfs.MemOptions{})
	o := Options{FS: mem, ManualWork: true, Hot: lastHot}
	e := mustOpen(t, o)
	longest := 0
	for i := 10; i < n; i++ {
		ref := putVersion(t, e, "t", versionKey(i), chat(i))
		th, err := e.Partition("t")
		must(t, err)
		chain, _, ok := th.Family.Chain(ref, nil)
		if !ok {
			t.Fatalf("version %d has no end", i)
		}
		longest = max(longest, len(chain)-1)
	}
	m := e.Metrics()
	t.Logf("%d bytes of patches for %d new ones, %d in all; %d handed over; chains of up to %d", m.PatchBytes, n*step, m.Log.Bytes, m.PatchedBytes, longest)
	if longest < innerChain || longest > index.MaxChain {
		t.Errorf("chains of up to %d patches", longest)
	}
	if 10*m.PatchBytes > 13*n*step {
		t.Errorf("%d bytes of patches for %d new ones", m.PatchBytes, n*step)
	}
	sample := []int{10, 11, 41, 42, 43, 100, 250, 299}
	wantChat(t, e, "t", sample...)
	img := mem.Image() // a crash here
	must(t, e.WriteImage(t.Context()))
	must(t, e.Close())
	for name, o := range map[string]Options{"closed": o, "read-only": {FS: mem, ReadOnly: true}, "replayed": {FS: vfs.NewMemFrom(img, vfs.MemOptions{}), ManualWork: true}} {
		e := mustOpen(t, o)
		wantChat(t, e, "t", sample...)
		if name == "closed" {
			must(t, e.Flush(t.Context()))
			wantChat(t, e, "t", sample...)
			if e.Metrics().SegmentPatches < n-20 {
				t.Errorf("%d patches in the segment", e.Metrics().SegmentPatches)
			}
			th, err := e.Partition("t")
			must(t, err)
			th.Ascend("", func(it *index.Entry) bool {
				if chain, _, ok := th.Family.Chain(it.Slots.At(0).Ref, nil); !ok || len(chain) > historyLevels*(historyFan-1)+1 {
					t.Errorf("entry %s: chain of %d", it.Key, len(chain))
				}
				return true
			})
			must(t, e.Compact(t.Context()))
			wantChat(t, e, "t", sample...)
		}
		must(t, e.Close())
	}
}

// A base outlives its entry: deleted, replaced, forgotten by a flush beside, and with
// an image between. The version made of it stays.
func TestBaseOutlivesItsEntry(t *testing.T) {
	for _, how := range []string{"image before", "image after", "flush before", "flush after"} {
		mem := vfs.NewMem(vfs.MemOptions{})
		o := quietOptions(mem)
		e := mustOpen(t, o)
		work := func(when string) {
			if strings.HasSuffix(how, when) && strings.HasPrefix(how, "image") {
				must(t, e.WriteImage(t.Context()))
			} else if strings.HasSuffix(how, when) {
				must(t, e.Flush(t.Context()))
			}
		}
		putVersion(t, e, "t", versionKey(20), chat(20))
		putVersion(t, e, "t", versionKey(21), chat(21))
		gone := func(n int) {
			must(t, e.Commit(t.Context(), []string{"t"}, func(tx *Tx) error { return tx.Delete("t", versionKey(n)) }))
		}
		gone(20)
		work("before")
		putVersion(t, e, "t", versionKey(22), chat(22))
		gone(21)
		work("after")
		putVersion(t, e, "t", versionKey(23), chat(23))
		wantChat(t, e, "t", 22, 23)
		img := mem.Image()
		must(t, e.Close())
		o.FS = vfs.NewMemFrom(img, vfs.MemOptions{})
		e = mustOpen(t, o)
		wantChat(t, e, "t", 22, 23)
		must(t, e.Flush(t.Context()))
		wantChat(t, e, "t", 22, 23)
		must(t, e.Close())
	}
}

// A series whose values have nothing in common is tried ever more rarely, and kept in
// memory as rarely; one that changes for the better is found out.
func TestHopelessLineIsLeftAlone(t *testing.T) {
	e := mustOpen(t, quietOptions(vfs.NewMem(vfs.MemOptions{})))
	rng := rand.New(rand.NewPCG(3, 4))
	random := func() string {
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	copied := 0
	for i := range 1000 {
		v, err := e.NewRevision(nil, Series{Partition: "t", Name: "v"}, []byte(random()))
		must(t, err)
		if v.candidate != nil {
			copied++
		}
		putVersion(t, e, "t", versionKey(i), random())
	}
	if copied > 60 || e.Metrics().Patches > 0 {
		t.Errorf("%d of 1000 were tried, %d patched", copied, e.Metrics().Patches)
	}
	for i := 20; i < 100; i++ {
		putVersion(t, e, "t", versionKey(i), chat(i))
	}
	if e.Metrics().Patches == 0 {
		t.Error("a line that grows is never tried again")
	}
	must(t, e.Close())
}

// The cache of last values stays within its bound, and without it, or with values
// too small or too large for it, nothing is patched.
func TestVersionBytes(t *testing.T) {
	const most = 64 << 10
	for _, c := range []struct {
		o    Options
		kept bool
	}{{Options{VersionBytes: most}, true}, {Options{VersionBytes: -1}, false}, {Options{VersionBytes: 4 << 10}, false},
		{Options{NoPatches: true}, false}, {Options{PatchMin: 1 << 20}, false}} {
		c.o.FS, c.o.ManualWork = vfs.NewMem(vfs.MemOptions{}), true
		e := mustOpen(t, c.o)
		for i := 10; i < 30; i++ {
			for th := range 20 {
				putVersion(t, e, fmt.Sprint("t", th), versionKey(i), chat(i))
			}
			for range 3 { // a series in use stays
				putVersion(t, e, "often", versionKey(i), chat(i))
			}
		}
		if n := e.Stats().VersionBytes; n > most || (n > 0) != c.kept {
			t.Errorf("%+v: %d bytes kept", c.o, n)
		}
		if got := e.Metrics().Patches > 0; got != c.kept {
			t.Errorf("%+v: patches %v", c.o, got)
		}
		wantChat(t, e, "often", 29)
		must(t, e.Close())
	}
}

// Damage to a base is named with every version it costs, and costs no other.
func TestDamagedBase(t *testing.T) {
	for _, inSegment := range []bool{false, true} {
		mem := vfs.NewMem(vfs.MemOptions{})
		o := Options{FS: mem, ManualWork: true, CacheBytes: -1, Hot: lastHot, PatchMin: 64, PatchRun: 4}
		e := mustOpen(t, o)
		var refs []index.Ref
		for i := 10; i < 40; i++ {
			refs = append(refs, putVersion(t, e, "t", versionKey(i), chat(i)))
		}
		must(t, e.WriteImage(t.Context()))
		if inSegment {
			must(t, e.Flush(t.Context()))
		}
		th, err := e.Partition("t")
		must(t, err)
		hit := refs[12]
		loc, ok := th.Family.Loc(hit)
		if !ok || !loc.Patched() {
			t.Fatalf("version 12 lies at %+v", loc)
		}
		costs := th.Family.Costs(hit)
		if inSegment { // the patches of a segment share their block: its damage costs them all
			costs = nil
		}
		must(t, e.Close())
		f, err := mem.OpenReadWrite("store/" + e.Files.Name(loc.File))
		must(t, err)
		at := int64(loc.Off) + int64(loc.Len) - 1
		if inSegment {
			at = int64(loc.Off) + int64(loc.Stored)/2
		}
		var b [1]byte
		_, err = f.ReadAt(b[:], at)
		must(t, err)
		b[0] ^= 4
		_, err = f.WriteAt(b[:], at)
		must(t, err)
		must(t, f.Close())
		o.ReadOnly, o.AllowDamage = true, true
		e = mustOpen(t, o)
		if th, err = e.Partition("t"); err != nil {
			t.Fatal(err)
		}
		lost := 0
		together := e.Reader()
		for i, ref := range refs {
			got, err := e.ReadValue(context.Background(), th.Family, ref)
			if also, aerr := together.Read(context.Background(), th.Family, ref); string(also) != string(got) || fmt.Sprint(aerr) != fmt.Sprint(err) {
				t.Errorf("version %d: read with others: %v, alone: %v", i, aerr, err)
			}
			var be *baseError
			switch {
			case err == nil && string(got) != chat(i+10):
				t.Fatalf("version %d: wrong value", i)
			case err == nil && slices.Contains(costs, ref):
				t.Errorf("version %d is readable, its base is damaged", i)
			case err == nil:
			case !errors.Is(err, fault.ErrCorrupt):
				t.Errorf("version %d: %v", i, err)
			case inSegment:
				lost++
			case !errors.As(err, &be) || !slices.Equal(be.costs, costs):
				t.Errorf("version %d: %v; the damage costs %v", i, err, costs)
			default:
				lost++
			}
		}
		if lost == 0 || lost == len(refs) || !inSegment && lost != len(costs) {
			t.Errorf("in a segment %v: %d of %d versions lost, want %d", inSegment, lost, len(refs), len(costs))
		}
		must(t, e.Close())
	}
}

// A partition that begins anew, and a copy, get no patch against what is not theirs.
func TestPatchesStayInTheFamily(t *testing.T) {
	e := mustOpen(t, quietOptions(vfs.NewMem(vfs.MemOptions{})))
	for i := 20; i < 24; i++ {
		putVersion(t, e, "t", versionKey(i), chat(i))
	}
	must(t, e.Commit(t.Context(), []string{"t", "copy"}, func(tx *Tx) error { return tx.Copy("t", "copy") }))
	must(t, e.Commit(t.Context(), []string{"t"}, func(tx *Tx) error { return tx.Drop("t", nil) }))
	before := e.Metrics().Patches
	putVersion(t, e, "t", versionKey(24), chat(24))
	if got := e.Metrics().Patches; got != before {
		t.Errorf("%d patches against the thread that was deleted", got-before)
	}
	putVersion(t, e, "copy", versionKey(24), chat(24))
	putVersion(t, e, "copy", versionKey(25), chat(25))
	must(t, e.Flush(t.Context()))
	wantChat(t, e, "t", 24)
	wantChat(t, e, "copy", 20, 21, 22, 23, 24, 25)
	must(t, e.Close())
}

// An old view reads what it showed, through patches of the log that lead to a value
// a flush has moved, and through those of the segment from there.
func TestOldViewReadsThroughBoth(t *testing.T) {
	o := quietOptions(vfs.NewMem(vfs.MemOptions{}))
	o.PatchRun, o.Hot = maxPatchRun, lastHot
	e := mustOpen(t, o)
	const first, left, last = 30, 30 + maxPatchRun + 1, 30 + maxPatchRun + 16
	for i := first; i <= last; i++ {
		putVersion(t, e, "t", versionKey(i), chat(i))
	}
	v, err := e.View()
	must(t, err)
	must(t, e.Commit(t.Context(), []string{"t"}, func(tx *Tx) error {
		for i := first + 1; i < left; i++ {
			if err := tx.Delete("t", versionKey(i)); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, e.Flush(t.Context()))
	th, err := v.Partition("t")
	must(t, err)
	longest := 0
	th.Ascend("", func(it *index.Entry) bool {
		chain, _, _ := th.Family.Chain(it.Slots.At(0).Ref, nil)
		longest = max(longest, len(chain)-1)
		var n int
		if _, err := fmt.Sscanf(it.Key, "k%d", &n); err != nil {
			t.Fatal(err)
		}
		if b, err := e.ReadValue(t.Context(), th.Family, it.Slots.At(0).Ref); err != nil || string(b) != chat(n) {
			t.Errorf("version %d: %v", n, err)
		}
		return true
	})
	if longest <= maxPatchRun { // what the log alone has
		t.Errorf("the longest chain has %d patches: nothing is tested", longest)
	}
	v.Release()
	wantChat(t, e, "t", first, left, last)
	must(t, e.Close())
}
