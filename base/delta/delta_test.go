package delta

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// apply makes the target of an encoded patch.
func apply(t interface{ Fatalf(string, ...any) }, from, patch []byte) []byte {
	p, err := Decode(patch)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	out, err := Resolve([]*Patch{p}, from)
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	if base.Checksum(0, out) != p.Sum {
		t.Fatalf("sum differs")
	}
	return out
}

// edit changes b as a new version of a value might: bytes replaced, inserted,
// removed, moved, appended.
func edit(r *rand.Rand, b []byte) []byte {
	out := bytes.Clone(b)
	for range 1 + r.IntN(4) {
		at := 0
		if len(out) > 0 {
			at = r.IntN(len(out))
		}
		end := min(len(out), at+r.IntN(60))
		fresh := make([]byte, r.IntN(40))
		for i := range fresh {
			fresh[i] = byte('a' + r.IntN(26))
		}
		switch r.IntN(5) {
		case 0:
			copy(out[at:], fresh)
		case 1:
			out = append(out[:at:at], append(fresh, out[at:]...)...)
		case 2:
			out = append(out[:at:at], out[end:]...)
		case 3:
			out = append(out[at:len(out):len(out)], out[:at]...)
		default:
			out = append(out, fresh...)
		}
	}
	return out
}

// Chains of random edits resolve to what was patched, from every depth, and a
// chain costs one pass.
func TestChains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n := rapid.IntRange(0, 3000).Draw(t, "size")
		versions := [][]byte{make([]byte, n)}
		for i := range versions[0] {
			versions[0][i] = byte('a' + r.IntN(26))
		}
		var chain []*Patch // of the last version, newest first
		views := []*Rope{Whole(versions[0])}
		for range rapid.IntRange(1, 40).Draw(t, "versions") {
			from := versions[len(versions)-1]
			to := edit(r, from)
			make := Make
			if r.IntN(2) == 0 {
				make = MakeRaw
			}
			b := make(from, to, base.Checksum(0, to), 2*len(to)+1000)
			if b == nil {
				t.Fatalf("no patch of %d bytes against %d", len(to), len(from))
			}
			if got := apply(t, from, b); !bytes.Equal(got, to) {
				t.Fatalf("patch makes another target")
			}
			p, err := Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			chain = append([]*Patch{p}, chain...)
			versions = append(versions, to)
			got, err := Resolve(chain, versions[0])
			if err != nil || !bytes.Equal(got, to) {
				t.Fatalf("chain of %d: %v", len(chain), err)
			}
			v, err := p.On(views[len(views)-1])
			if err != nil || v.size != len(to) {
				t.Fatalf("step %d: %v", len(chain), err)
			}
			if sum, ok := v.Sum(); !ok || sum != base.Checksum(0, to) {
				t.Fatalf("step %d: another sum", len(chain))
			}
			views = append(views, v)
		}
		for i, v := range views { // none was changed by those made of it
			if got := v.Bytes(); !bytes.Equal(got, versions[i]) {
				t.Fatalf("version %d of %d steps, %d bytes, is another one", i, len(chain), len(got))
			}
		}
	})
}

func message(r *rand.Rand) string {
	text := make([]byte, 360)
	for i := range text {
		text[i] = byte(' ' + r.IntN(90))
	}
	return fmt.Sprintf(`{"additional_kwargs":{},"content":%q,"id":"%016x","response_metadata":{"model":"scripted","finish":"stop"},"type":"ai"}`, text, r.Uint64())
}

// A list that grew costs about what was added, one whose element changed about
// that element, whatever the size of the list.
func TestCostsWhatChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var list []string
	for range 400 {
		list = append(list, message(r))
	}
	encode := func(l []string) []byte { return fmt.Appendf(nil, "%03d%s}", len(l), l) }
	was := encode(list)
	for name, c := range map[string]struct {
		to  []string
		new int
	}{
		"same":    {list, 0},
		"grew":    {append(list[:400:400], message(r)), len(list[0])},
		"cut":     {list[:399], 0},
		"removed": {append(list[:200:200], list[201:]...), 0},
		"changed": {append(append(list[:200:200], message(r)), list[201:]...), len(list[0])},
		"swapped": {append(append(list[200:400:400], list[:200]...), "x"), 0},
	} {
		to := encode(c.to)
		p := MakeRaw(was, to, base.Checksum(0, to), len(to))
		if !bytes.Equal(apply(t, was, p), to) {
			t.Fatalf("%s: another target", name)
		}
		if len(p) > c.new+c.new/20+80 {
			t.Errorf("%s: a patch of %d bytes for %d new ones", name, len(p), c.new)
		}
	}
}

// Values with nothing in common make no patch.
func TestNoPatch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	a, b := random(5000), random(5000)
	if p := Make(a, b, 0, len(b)*3/4); p != nil {
		t.Errorf("a patch of %d bytes", len(p))
	}
	if p := Make(nil, b, base.Checksum(0, b), len(b)+100); !bytes.Equal(apply(t, nil, p), b) {
		t.Error("patch against nothing")
	}
	if p := Make(a, nil, base.Checksum(0, nil), 100); len(apply(t, a, p)) != 0 {
		t.Error("patch to nothing")
	}
	if Make(a, make([]byte, base.MaxStored+1), 0, 1<<30) != nil {
		t.Error("a patch of what no value may be")
	}
}

// However much is new before it, a run of 1 KB is found, wherever in the base it lies; and it is
// copied from where it begins, though the search came upon it later.
func TestSearchFindsLongRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	const run = 1 << 10
	for i := range 400 {
		was := random(3 * run)
		at, before := r.IntN(2*run), r.IntN(1+i*20)
		to := append(append(random(before), was[at:at+run]...), random(5)...)
		p := Make(was, to, base.Checksum(0, to), len(to))
		if p == nil || !bytes.Equal(apply(t, was, p), to) {
			t.Fatalf("%d new bytes, then %d from %d: no patch, or of another target", before, run, at)
		}
		if len(p) > before+50 {
			t.Errorf("%d new bytes, then %d from %d: a patch of %d bytes", before, run, at, len(p))
		}
	}
	// The index of a large base has larger strides.
	for _, strides := range []int{17, 21, 28, 35} {
		was := random(strides<<16 + 100)
		for shift := range 8 {
			at, to := len(was)/10+shift, len(was)-len(was)/10
			now := slices.Concat(was[:at], random(1000), was[at:to], random(1000), was[to:])
			if p := MakeRaw(was, now, 0, len(now)); len(p) > 5000 {
				t.Errorf("2 KB are new in %d, from %d: a patch of %d bytes", len(was), at, len(p))
			}
		}
	}
}

// Compressed literals come back, and only where they pay.
func TestLiterals(t *testing.T) {
	text := bytes.Repeat([]byte("all work and no play "), 400)
	p := Make(nil, text, base.Checksum(0, text), len(text))
	if p == nil || len(p) > len(text)/4 || p[0] != codecZstd {
		t.Fatalf("patch of %d bytes", len(p))
	}
	if !bytes.Equal(apply(t, nil, p), text) {
		t.Error("another target")
	}
	if raw := MakeRaw(nil, text, base.Checksum(0, text), 2*len(text)); raw[0] != codecRaw {
		t.Error("MakeRaw compressed")
	}
}

// What does not fit together is refused.
func TestRefused(t *testing.T) {
	a, b := bytes.Repeat([]byte("abc"), 50), bytes.Repeat([]byte("abc"), 51)
	enc := Make(a, b, base.Checksum(0, b), 100)
	p, err := Decode(enc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve([]*Patch{p}, b); !errors.Is(err, ErrChain) {
		t.Errorf("against another base: %v", err)
	}
	if _, err := Resolve([]*Patch{p, p}, a); !errors.Is(err, ErrChain) {
		t.Errorf("against another patch: %v", err)
	}
	newer := bytes.Clone(enc)
	newer[0] = codecZstd + 1
	if _, err := Decode(newer); !errors.Is(err, fault.ErrVersion) {
		t.Errorf("unknown codec: %v", err)
	}
	for n := range enc {
		if _, err := Decode(enc[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for a patch", n, len(enc))
		}
	}
}

func FuzzPatch(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	v := []byte(message(r) + message(r))
	to := edit(r, v)
	f.Add(v, Make(v, to, base.Checksum(0, to), 5000))
	text := bytes.Repeat([]byte("all work and no play "), 400)
	f.Add([]byte{}, Make(nil, text, 0, len(text)))
	f.Add(v, []byte{0, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 4, 0})
	f.Add([]byte{}, []byte{1, 0, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0x1f, 0})
	f.Fuzz(func(t *testing.T, from, b []byte) {
		p, err := Decode(b)
		if err != nil {
			return
		}
		if p.Size() > 96+len(b)*zstdMaxRatio {
			t.Fatalf("%d bytes decode to %d", len(b), p.Size())
		}
		again, err := Decode(p.encode(b[0] == codecZstd))
		if err != nil {
			t.Fatalf("decoded, encoded, not decoded: %v", err)
		}
		if p.BaseLen > 1<<20 || p.Len() > 1<<20 {
			return
		}
		root := make([]byte, p.BaseLen)
		copy(root, from)
		one, err := Resolve([]*Patch{p}, root)
		if err != nil || len(one) != p.Len() {
			t.Fatalf("resolve %d of %d bytes: %v", len(one), p.Len(), err)
		}
		if v, err := p.On(Whole(root)); err != nil || !bytes.Equal(v.Bytes(), one) {
			t.Fatalf("one step makes another target: %v", err)
		}
		two, err := Resolve([]*Patch{again}, root)
		if err != nil || !bytes.Equal(one, two) {
			t.Fatalf("encoded again it makes another target: %v", err)
		}
	})
}

func BenchmarkMake(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var list []string
	for range 200 {
		list = append(list, message(r))
	}
	was := fmt.Appendf(nil, "%03d%s", len(list), list)
	to := fmt.Appendf(nil, "%03d%s", len(list)+1, append(list, message(r)))
	other := make([]byte, 2048)
	for i := range other {
		other[i] = byte(r.Uint32())
	}
	sum := base.Checksum(0, to)
	b.Run("grew", func(b *testing.B) {
		b.SetBytes(int64(len(to)))
		for b.Loop() {
			Make(was, to, sum, len(to)/2)
		}
	})
	b.Run("unlike", func(b *testing.B) {
		for b.Loop() {
			Make(was[:2048], other, sum, 1536)
		}
	})
	b.Run("resolve64", func(b *testing.B) {
		p, err := Decode(Make(was, to, sum, len(to)))
		if err != nil {
			b.Fatal(err)
		}
		same, err := Decode(Make(was, was, base.Checksum(0, was), len(was)))
		if err != nil {
			b.Fatal(err)
		}
		chain := []*Patch{p}
		for range 63 {
			chain = append(chain, same)
		}
		b.SetBytes(int64(len(to)))
		for b.Loop() {
			if _, err := Resolve(chain, was); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Make is Between for values that are not held.
func Make(base, target []byte, sum uint64, limit int) []byte {
	return Between(OnePiece(base), OnePiece(target), sum, limit)
}
